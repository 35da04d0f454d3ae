"""What all verbs share: flags, how they speak, and which run their words describe."""

from __future__ import annotations

import json as json_text
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

if TYPE_CHECKING:
    from rich.console import RenderableType

    from radt.config import Layer, RunConfig


@dataclass(frozen=True, kw_only=True)
class Flags:
    """Flags of every verb."""

    device: str = "cpu"  # where networks compute: cpu, cuda, cuda:1, mps
    threads: int | None = None  # threads of a process, and processes of `collect`
    quiet: bool = False  # no progress, only the result
    json: bool = False  # one JSON object on stdout and nothing else there

    def execute(self) -> None:
        """Do what the verb says."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Take the threads and the device that were asked for."""
        import torch

        from radt.experiments.run import RunError

        if self.threads is not None:
            if self.threads < 1:
                raise RunError(f"--threads must be at least 1, not {self.threads}")
            torch.set_num_threads(self.threads)
        if self.device != "cpu":
            raise RunError(
                f"--device {self.device}: this version computes on the CPU; leave the flag out"
            )

    @property
    def workers(self) -> int:
        """How many processes collect."""
        if self.threads is not None:
            return self.threads
        count = getattr(os, "sched_getaffinity", None)
        return len(count(0)) if count else os.cpu_count() or 1

    def answer(self, values: Mapping[str, Any], *shown: RenderableType) -> None:
        """Print the result: values for programs, or what is shown to people."""
        if self.json:
            print(json_text.dumps(values, allow_nan=False))
            return
        from rich.console import Console

        console = Console(highlight=False)
        for item in shown:
            console.print(item)


@dataclass(frozen=True, kw_only=True)
class RunWords(Flags):
    """The words that describe a run."""

    env: Positional[str | None] = None  # environment, one of `radt envs`
    method: str | None = None  # ra-dt+ (default), ra-dt, dt, replay, retrace, sweep, ...
    budget: Literal["smoke", "laptop", "paper"] | None = None  # laptop (default): minutes
    seed: int | None = None  # of the run; 0 by default. The dataset has collect.seed
    set: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME.NAME=VALUE")] = ()
    """Change one value; see `radt config show`. Can be given many times."""
    config: Path | None = None  # a JSON file of values, such as a run's config.json

    def compose(self) -> tuple[RunConfig, dict[str, str]]:
        """Lay the presets, the file, `--set` and the flags over each other."""
        from radt.api import compose_checked

        return compose_checked(self.layers())

    def layers(self) -> list[Layer]:
        """Return the layers of the run's config, the last one winning."""
        from radt.config import Layer, overrides
        from radt.experiments.presets import preset_layers
        from radt.experiments.run import RunError

        file = {} if self.config is None else read_values(self.config)
        given = {"env": self.env, "method": self.method, "budget": self.budget, "seed": self.seed}
        words = {name: value for name, value in given.items() if value is not None}
        named = {"method": "ra-dt+", "budget": "laptop", **file, **words}
        if "env" not in named:
            raise RunError("say which environment, e.g. dark-room-10x10; `radt envs` lists them")
        layers = preset_layers(named["env"], named["method"], named["budget"])
        if self.config is not None:
            layers.append(Layer(f"file {self.config.name}", file))
        return [*layers, overrides(self.set), Layer("command line", words)]


def read_values(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file."""
    from radt.experiments.run import RunError

    try:
        values = json_text.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {path} as JSON: {error}") from error
    if not isinstance(values, dict):
        raise RunError(f"{path} must hold one JSON object")
    return values
