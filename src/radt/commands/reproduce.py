"""The verb that reproduces experiments: list them, plan, run what is missing, write the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from radt.commands.flags import Budget, EngineVerb, at_least, split_names, styled
from radt.errors import RunError
from radt.registry import UnknownNameError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from radt.commands.reproduce_work import Choice
    from radt.experiments import Experiment
    from radt.experiments.reproduce import Where

ALL = "all"


@dataclass(frozen=True, kw_only=True)
class ReproduceVerb(EngineVerb):
    """Run an experiment of the paper, or one of ours, and say what came of its claim.

    Without a name all experiments are listed: the claim that each tests, how far it has come, and
    its verdict. With one, what is missing is run, as `radt compare` would run it and where it
    would; what is published already is not made again. RESULTS/NAME then holds result.json, with
    every row and the verdict, and result.md, the page that is made from it. Experiments that train
    nothing use the weights of others: those of seed 0 are kept with their runs.

    A file of your own that registers an experiment in radt.experiments.EXPERIMENTS, named in
    $RADT_PLUGINS, is in the list, too.

    Try:
      radt reproduce
      radt reproduce dark-room --dry-run
      radt reproduce controls
      radt reproduce dark-room --again --workers 2
      radt reproduce dark-room --rows ra-dt,ad --envs dark-room-10x10
      radt reproduce all --budget smoke
    """

    name: Annotated[Positional[str | None], arg(metavar="NAME|all", help_behavior_hint="")] = None
    """Which experiment; none: list them."""
    budget: Budget = "laptop"  # smoke takes seconds a run, laptop minutes, paper a GPU
    seeds: Annotated[int | None, arg(help_behavior_hint="(default: the experiment's)")] = None
    """Runs of each row: seeds 0, 1, ..."""
    rows: Annotated[str | None, arg(metavar="LABEL,...", help_behavior_hint="")] = None
    """Run only these rows now (default: all); what is left is left for the next time."""
    envs: Annotated[str | None, arg(metavar="ENV,...", help_behavior_hint="")] = None
    """Run only on these environments now (default: all)."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="")] = None
    """Where runs work (default: runs, at other budgets than laptop runs/BUDGET)."""
    results: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="")] = None
    """Where records are kept (default: results, at other budgets OUT/results)."""
    table: bool = False  # run nothing; draw and write the result of what is published
    again: bool = False  # run anew what is published with older values, too; its record is replaced
    dry_run: bool = False  # only say what is left, how long it takes and how much it writes

    def execute(self) -> None:
        from radt.commands.reproduce_work import Worker, listed, planned
        from radt.experiments import EXPERIMENTS

        where = self._where()
        if self.name is None:
            self.common.answer(*listed(where))
            return
        names = EXPERIMENTS.names() if self.name == ALL else [self.name]
        experiments = [EXPERIMENTS[name] for name in names]
        if self.dry_run:
            self.common.answer(*planned(experiments, where, self._chosen(experiments, where)))
            return
        results: list[dict[str, Any]] = []
        with self.opened() as engine:
            worker = Worker(where, self.common, engine, self._chosen(experiments, where))
            for one in experiments:
                if self.name == ALL and where.budget not in one.budgets:
                    continue
                results.append(worker.draw(one) if self.table else worker.reproduce(one))
        self._answer(results, worker.failed, where)

    def _chosen(self, experiments: list[Experiment], where: Where) -> Choice:
        """Say which runs are wanted now; a name that no run has is refused."""
        from radt.commands.reproduce_work import Choice
        from radt.experiments.reproduce import runs_of

        rows, envs = (frozenset(split_names(text)) for text in (self.rows, self.envs))
        wanted = {"row": rows, "environment": envs}
        configs = [run.config for one in experiments for _, run in runs_of(one, where)]
        known = {"row": {c.label for c in configs}, "environment": {c.env for c in configs}}
        for noun, names in wanted.items():
            for name in sorted(names - known[noun]):
                raise UnknownNameError(noun, name, sorted(known[noun]))
        return Choice(self.again, wanted["row"], wanted["environment"])

    def _where(self) -> Where:
        from radt.distributed import current_group
        from radt.experiments.reproduce import Where

        if current_group().size > 1:
            raise RunError(
                "torchrun starts processes that train one policy together: give it `radt run`; "
                "experiments share their runs with --workers N or --engine ray"
            )
        if self.seeds is not None:
            at_least(1, seeds=self.seeds)
        usual = self.budget == "laptop"
        out = self.out or (Path("runs") if usual else Path("runs") / self.budget)
        results = self.results or (Path("results") if usual else out / "results")
        return Where(self.budget, self.seeds, out, results)

    def _answer(self, results: list[dict[str, Any]], failed: dict[str, str], where: Where) -> None:
        """Say what came of each claim; where runs have failed, say so last."""
        from radt.experiments.reproduce import PAGE

        lines: list[RenderableType] = []
        for result in results:
            lines.append(styled("[bold]{}[/]: {} rows", result["entry"], len(result["rows"])))
            lines += [
                styled("  {}: [bold]{}[/]; {}", claim, told["word"], told["why"])
                for claim, told in result["claims"].items()
            ]
            lines += [f"  {name}: {told}" for name, told in result["findings"].items()]
            lines.append(styled("  [dim]{}[/]", where.results / result["entry"] / PAGE))
        values = results[0] if self.name != ALL else {"results": results}
        self.common.answer(values, *lines)
        if failed:
            told = "\n".join(f"  {name}: {why}" for name, why in failed.items())
            raise RunError(f"{len(failed)} of the runs have failed:\n{told}")
