"""The words that say where work is done: here, or on a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import arg

from radt.commands.flags import ComputingVerb

if TYPE_CHECKING:
    from radt.engine import Engine


@dataclass(frozen=True, kw_only=True)
class EngineVerb(ComputingVerb):
    """A verb whose work is jobs that others can do."""

    engine: Literal["local", "ray"] = "local"  # processes of this machine, or a Ray cluster
    address: Annotated[str | None, arg(metavar="HOST:PORT", help_behavior_hint="")] = None
    """Head of the Ray cluster, of which this machine is a part (default: a cluster of its own on
    127.0.0.1). Off this machine it needs a token, see RAY_AUTH_TOKEN."""
    workers: Annotated[int | None, arg(help_behavior_hint="(default: see docs/scale.md)")] = None
    """Jobs that are done at once: groups of tasks to collect, shares of tasks to evaluate, runs."""

    @contextmanager
    def opened(self) -> Iterator[Engine | None]:
        """Open the engine that was asked for; None: none was, so work is done as usual."""
        from radt.distributed import current_group
        from radt.engine import open_engine
        from radt.experiments.run import RunError

        usual = (self.engine, self.address, self.workers) == ("local", None, None)
        if usual or not current_group().is_rank_zero:  # rank 0 has it done for all
            yield None
            return
        if self.workers is not None and self.workers < 1:
            raise RunError(f"--workers must be at least 1, not {self.workers}")
        gpus = 1.0 if self.common.device.startswith("cuda") else 0.0
        cpus = float(self.common.threads or 1)
        try:
            with (
                open_engine(self.engine, self.address, self.workers, cpus, gpus) as engine,
                redirect_stdout(sys.stderr),  # where Ray says how workers died
            ):
                yield engine
        except ImportError as error:
            raise RunError(str(error)) from error
