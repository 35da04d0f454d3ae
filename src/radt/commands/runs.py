"""The verbs that make a result: run, collect, train, report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, Suppress, arg

from radt.commands.flags import (
    ComputingVerb,
    EngineVerb,
    RunWords,
    Verb,
    duration,
    plain_columns,
    say,
    styled,
)
from radt.errors import RunError

if TYPE_CHECKING:
    from rich.table import Table

    from radt.config import RunConfig
    from radt.runs.plan import Phase
    from radt.track import Sink


@dataclass(frozen=True, kw_only=True)
class Tracked(ComputingVerb, RunWords):
    """Words of verbs that train: where to, and which dashboards are told."""

    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="")] = None
    """Folder of the run (default: runs/ENV-METHOD-BUDGET-seedSEED)."""
    tensorboard: bool = False  # also write TensorBoard event files into the folder
    wandb: Annotated[str | None, arg(metavar="PROJECT", help_behavior_hint="")] = None
    """Also log to this Weights & Biases project."""

    def folder(self, config: RunConfig) -> Path:
        name = f"{config.env}-{config.label}-{config.budget}-seed{config.seed}"
        return self.out or Path("runs") / name

    def sinks(self, config: RunConfig) -> tuple[Sink, ...]:
        """Open the dashboards that were asked for; of several processes one tells them."""
        from radt.distributed import current_group
        from radt.track import TensorBoard, WandB

        folder = self.folder(config)
        sinks: list[Sink] = []
        if not current_group().is_rank_zero:
            return ()
        if self.tensorboard:
            sinks.append(TensorBoard(folder / "tensorboard"))
        if self.wandb is not None:
            sinks.append(WandB(self.wandb, folder.name, config.to_json()))
        return tuple(sinks)


@dataclass(frozen=True, kw_only=True)
class RunVerb(EngineVerb, Tracked):
    """Go from nothing to a result: collect, train, evaluate, report.

    Stopped at any moment, the same command goes on from there. What is finished is kept.
    Several processes train together when torchrun starts them; see docs/scale.md.

    Try:
      radt run dark-room-10x10 --out runs/x
      torchrun --nproc-per-node 2 -m radt.cli run dark-room-10x10 --out runs/x
      radt run dark-room-10x10 --method dt --seed 1 --out runs/dt-1
      radt run dark-room-10x10 --set learn.updates=2000 --dry-run
    """

    dry_run: bool = False  # only say what there is to do, for how long and how large
    trace: bool = False  # write every step of the evaluation and why, for `radt view`

    def execute(self) -> None:
        from radt.api import TRACE, run
        from radt.commands.evaluate import show_result
        from radt.distributed import current_group
        from radt.runs.plan import plan_run
        from radt.runs.run import RESULT

        config, _ = self.compose()
        out = self.folder(config)
        phases = plan_run(config, out)
        if self.dry_run:
            values = {"out": str(out), "phases": [asdict(phase) for phase in phases]}
            self.common.answer(values, show_phases(phases, config.budget))
            return
        common = self.common
        if current_group().is_rank_zero and not all(phase.done for phase in phases):
            common.announce(show_phases(phases, config.budget))
        late = self.trace and (out / RESULT).exists() and not (out / TRACE).exists()
        with self.opened() as engine:
            record = run(
                config,
                out,
                workers=common.workers,
                quiet=common.quiet,
                trace=self.trace,
                sinks=self.sinks(config),
                threads=common.threads,
                device=common.device,
                engine=engine,
            )
        if not current_group().is_rank_zero:
            return
        self.common.answer({"out": str(out), **record}, *show_result(record, out))
        if late:
            again = f"`radt evaluate {out} --trace` evaluates it again with one"
            say(f"no trace: this run was evaluated before; {again}", "yellow")


def show_phases(phases: Sequence[Phase], budget: str) -> Table:
    """Show what there is to do, phase by phase."""
    table = plain_columns(["phase"], ["steps", "time", "disk"], "where")
    for phase in phases:
        left = "done" if phase.done else duration(phase.minutes)
        size, style = f"{phase.megabytes:.1f} MB", "dim" if phase.done else ""
        table.add_row(phase.name, phase.steps, left, size, phase.where, style=style)
    ahead = [phase for phase in phases if not phase.done]
    minutes, disk = (sum(getattr(p, name) for p in ahead) for name in ("minutes", "megabytes"))
    gpu = "; this budget is meant for a GPU" if budget == "paper" else ""
    machine = f"estimated for two CPU cores{gpu}"
    table.add_row("to do", "", duration(minutes), f"{disk:.1f} MB", machine)
    return table


@dataclass(frozen=True, kw_only=True)
class CollectVerb(EngineVerb, RunWords):
    """Record learning histories of the training tasks: the data that methods learn from.

    The source makes the data. `ppo` learns each task from its state, `ppo-lstm` with a memory (the
    one for mazes; of 300 it keeps the first 100 that it learns). `sb3` runs an algorithm of
    stable-baselines3 on any environment. `expert` (or `noisy-expert`) learns nothing: a policy with
    falling noise, in seconds. `npz` and `minari` read files. `radt config show ENV` prints a
    source's options.

    Datasets lie in $RADT_HOME (default: ./data) and are shared by runs. One that is finished is
    left as it is; one that was interrupted goes on from its last finished part.

    Try:
      radt collect dark-room-10x10
      radt collect dark-room-10x10 --set collect.seed=1
      radt collect maze-runner-15x15
      radt collect maze-runner-15x15 --set source=noisy-expert --set collect.tasks=1000
    """

    method: Suppress[str | None] = None  # data are the same for all of them

    def execute(self) -> None:
        from radt.api import collect
        from radt.commands.data import described_dataset

        config, _ = self.compose()
        with self.opened() as engine:
            folder = collect(config, self.common.workers, self.common.quiet, engine)
        self.common.answer(*described_dataset(folder), styled("[dim]{}[/]", folder))


@dataclass(frozen=True, kw_only=True)
class TrainVerb(Tracked):
    """Train a method on a dataset that `radt collect` has made.

    Try:
      radt train dark-room-10x10 --method ra-dt --out runs/x
      radt train dark-room-10x10 --tensorboard --out runs/x
    """

    def execute(self) -> None:
        from radt.api import train
        from radt.distributed import current_group

        config, _ = self.compose()
        out = self.folder(config)
        common = self.common
        sinks = self.sinks(config)
        path = train(config, out, common.quiet, sinks, common.threads, common.device)
        if not current_group().is_rank_zero:
            return
        shown = styled("trained: [bold]{}[/]\nnext:    radt evaluate {}", path, out)
        self.common.answer({"out": str(out), "checkpoint": str(path)}, shown)


@dataclass(frozen=True, kw_only=True)
class ReportVerb(Verb):
    """Write one HTML page about runs and comparisons; it needs no network and no other file.

    Every run and every comparison leaves such a page, report.html, in its folder. This joins
    several: runs on the same tasks stand in one table. Nothing is computed again.

    Try:
      radt report runs/x
      radt report runs/x runs/y --out both.html
      radt report results/* --out all.html
    """

    folders: Annotated[
        Positional[tuple[Path, ...]], arg(metavar="DIR ...")
    ]  # folders of finished runs, or of comparisons such as results/dark-room-10x10
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """The page (default: report.html, in the folder if there is one, else here)."""

    def execute(self) -> None:
        from radt.plots.html import REPORT
        from radt.plots.join import write_joined

        if not self.folders:
            raise RunError("say which folders, e.g. radt report runs/x results/dark-room-10x10")
        usual = self.folders[0] if len(self.folders) == 1 else Path()
        path = write_joined(self.folders, self.out or usual / REPORT)
        size = path.stat().st_size
        self.common.answer(
            {"out": str(path), "bytes": size},
            styled("[bold]{}[/], {} KB", path, round(size / 1000)),
        )
