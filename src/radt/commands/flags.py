"""What all verbs share: flags, how they speak, and which run their words describe."""

from __future__ import annotations

import json as json_text
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from radt.errors import RunError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

    from radt.config import Layer, RunConfig
    from radt.engine import Engine

Budget = Literal["smoke", "laptop", "paper"]
WIDE = 160
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # characters that a terminal obeys


@dataclass(frozen=True, kw_only=True)
class Voice:
    """Flags of every verb: how it speaks."""

    quiet: bool = False  # no progress, only the result
    json: bool = False  # print one JSON object and nothing else

    def prepare(self) -> None:
        """Prepare; verbs that only look need nothing."""

    def answer(self, values: Mapping[str, Any], *shown: RenderableType) -> None:
        """Print the result: values for programs, or what is shown to people."""
        if self.json:
            print(json_text.dumps(values, allow_nan=False))
            return
        printer = console()
        if not printer.is_terminal:
            printer = console(width=WIDE)  # nothing is cut in a file
        for item in shown:
            printer.print(item)

    def announce(self, *shown: RenderableType) -> None:
        """Show people what is ahead, beside the result."""
        if not (self.quiet or self.json):
            console(stderr=True).print(*shown, sep="\n")


@dataclass(frozen=True, kw_only=True)
class Common(Voice):
    """Flags of verbs that compute."""

    device: str = "cpu"  # where networks compute: cpu, cuda, cuda:1, mps
    threads: Annotated[int | None, arg(help_behavior_hint="(default: all)")] = None
    """Threads that networks compute with; collecting takes as many processes instead."""

    def prepare(self) -> None:
        """Take the threads and the device that were asked for."""
        import torch

        if self.threads is not None:
            at_least(1, threads=self.threads)
            torch.set_num_threads(self.threads)
        try:
            torch.zeros(1, device=self.device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            reason = str(error).splitlines()[0]
            raise RunError(f"--device {self.device} cannot be used: {reason}") from error

    @property
    def workers(self) -> int:
        if self.threads is not None:
            return self.threads
        from radt.engine import cores

        return cores()


@dataclass(frozen=True, kw_only=True)
class Verb:
    """A verb of the command line."""

    common: Voice = field(default_factory=Voice)

    def execute(self) -> None:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ComputingVerb(Verb):
    """A verb that computes, somewhere and with some threads."""

    common: Common = field(default_factory=Common)


@dataclass(frozen=True, kw_only=True)
class EngineVerb(ComputingVerb):
    """A verb whose work is jobs that others can do: here, or on a cluster."""

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

        usual = (self.engine, self.address, self.workers) == ("local", None, None)
        if usual or not current_group().is_rank_zero:  # rank 0 has it done for all
            yield None
            return
        if self.workers is not None:
            at_least(1, workers=self.workers)
        gpus = 1.0 if self.common.device.startswith("cuda") else 0.0
        cpus = float(self.common.threads or 1)
        with (
            open_engine(self.engine, self.address, self.workers, cpus, gpus) as engine,
            redirect_stdout(sys.stderr),  # where Ray says how workers died
        ):
            yield engine


@dataclass(frozen=True, kw_only=True)
class RunWords(Verb):
    """The words that describe a run."""

    env: Annotated[Positional[str | None], arg(metavar="ENV", help_behavior_hint="")] = None
    """Environment; `radt envs` lists them."""
    method: Annotated[str | None, arg(help_behavior_hint="(default: ra-dt+)")] = None
    """ra-dt+, ra-dt (the paper's), ra-dt-tuned, ra-dt-lm, dt, dt-2ep, ad, dpt,
    dpt-oracle, rl2-online (or rl2); or random, nearest, replay, retrace, sweep, which learn
    nothing."""
    budget: Annotated[
        str | None, arg(metavar="{smoke,laptop,paper}", help_behavior_hint="(default: laptop)")
    ] = None
    """smoke takes seconds, laptop minutes on two cores, paper a GPU."""
    seed: Annotated[int | None, arg(help_behavior_hint="(default: 0)")] = None
    """Seed of the run; the dataset has its own, collect.seed."""
    set: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME.NAME=VALUE")] = ()
    """Change a value; `radt config show` prints all of them."""
    config: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """A JSON file of values, such as the config.json of a run."""

    def compose(self) -> tuple[RunConfig, dict[str, str]]:
        """Lay the presets, the file, `--set` and the flags over each other."""
        from radt.config import compose

        return compose(self.layers())

    def layers(self) -> list[Layer]:
        """Return the layers of the run's config, the last one winning."""
        from radt.config import Layer, overrides
        from radt.decode import read_json
        from radt.runs.presets import preset_layers

        file: dict[str, Any] = {}
        if self.config is not None:
            advice = "give a file with one JSON object"
            file = read_json(self.config, dict[str, Any], advice, RunError)
        given = {"env": self.env, "method": self.method, "budget": self.budget, "seed": self.seed}
        words = {name: value for name, value in given.items() if value is not None}
        named = {"method": "ra-dt+", "budget": "laptop", **file, **words}
        if "env" not in named:
            raise RunError("say which environment, e.g. dark-room-10x10; `radt envs` lists them")
        for name in ("env", "method", "budget"):
            if not isinstance(named[name], str):
                raise RunError(f"{self.config}: {name} must be a name, not {named[name]!r}")
        over = [overrides(self.set)]
        if self.config is not None:
            over.insert(0, Layer(f"file {self.config.name}", file))
        else:  # the presets have taken in the other words
            words = {} if self.seed is None else {"seed": self.seed}
        over.append(Layer("command line", words))
        return preset_layers(named["env"], named["method"], named["budget"], *over)


def at_least(least: int, **flags: int) -> None:
    """Refuse flags whose values are too small."""
    for name, value in flags.items():
        if value < least:
            raise RunError(f"--{name} must be at least {least}, not {value}")


def split_names(text: str | None) -> tuple[str, ...]:
    """Read names with commas between them."""
    return tuple(filter(None, map(str.strip, (text or "").split(","))))


def plain_columns(left: Sequence[str], right: Sequence[str] = (), where: str = "") -> Table:
    """Begin a table without lines: names, numbers to the right, and a path that folds."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    if where:
        table.add_column(where, overflow="fold")
    return table


def duration(minutes: float) -> str:
    """Write minutes in the unit that people would choose."""
    for unit, length in (("days", 60.0 * 24), ("hours", 60.0), ("minutes", 1.0)):
        if minutes >= 2 * length:
            return f"{minutes / length:,.1f} {unit}"
    return f"{60 * minutes:.0f} seconds"


def styled(template: str, *values: object) -> Text:
    """Fill the places `{}` of a text with marks such as [bold]; values stay text."""
    from rich.markup import escape
    from rich.text import Text

    return Text.from_markup(template.format(*(escape(str(value)) for value in values)))


def say(text: str, style: str = "") -> None:
    """Print a line to stderr, coloured where that is a terminal."""
    console(stderr=True, soft_wrap=True).print(text, style=style)


def console(**options: Any) -> Console:
    """Build what prints: names are text (see `styled`), and nothing in them acts on a terminal."""
    from rich.console import Console
    from rich.segment import Segment

    class Harmless(Console):
        def render(self, *what: Any, **how: Any) -> Iterator[Segment]:
            for part in super().render(*what, **how):
                text = CONTROL.sub(lambda found: repr(found[0])[1:-1], part.text)
                yield part if part.control else part._replace(text=text)

    return Harmless(highlight=False, markup=False, **options)
