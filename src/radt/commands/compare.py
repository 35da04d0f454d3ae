"""The verb that compares methods: plan, run what is missing, publish, and write the table."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, UseAppendAction, arg

from radt.commands.flags import Budget, EngineVerb, split_names, styled
from radt.errors import RunError

if TYPE_CHECKING:
    from radt.commands.compare_work import News
    from radt.runs.compare import Comparison
    from radt.variants import Variant

METHODS = "dt,ad,dpt,ra-dt,ra-dt+,ra-dt-lm"
VARIANT = "'LABEL=METHOD NAME.NAME=VALUE ...'"


@dataclass(frozen=True, kw_only=True)
class CompareVerb(EngineVerb):
    """Compare methods fairly: run what is missing, then write one table and one picture.

    A row is a method or a variant of one: the same method with some values changed, under a label
    of its own. Every run is an ordinary `radt run` in OUT/ENV/LABEL-seedK. Stopped at any moment,
    the same command goes on from there. What is finished is published in RESULTS/ENV, where
    compare.md, compare.png and compare.json tell of all of it, so a row can be added later.
    The references, which learn nothing, are always in: nearest, random, and where they make sense
    replay and sweep. Two processes that are
    given the same command share the work; let each have its own core with --threads 1. So do
    --workers N, and --engine ray on the machines of a cluster, one thread each.

    Try:
      radt compare dark-room-10x10 --dry-run
      radt compare dark-room-10x10 --methods dt,ra-dt,ra-dt+ --seeds 3
      radt compare dark-room-10x10 --methods ra-dt --variant 'k4=ra-dt options.memory.top_k=4'
      radt compare dark-room-20x20 --seeds 1 --wall-minutes 20
      radt compare dark-room-10x10 --budget smoke --out /tmp/runs --results /tmp/results
    """

    env: Annotated[Positional[str | None], arg(metavar="ENV", help_behavior_hint="")] = None
    """Environment; `radt envs` lists them."""
    methods: Annotated[str, arg(metavar="NAME,NAME,...")] = METHODS  # what is compared
    variant: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar=VARIANT)] = ()
    """A further row: a method with values changed, e.g. 'k4=ra-dt options.memory.top_k=4'."""
    seeds: int = 3  # runs of each method: seeds 0, 1, ...
    budget: Budget = "laptop"  # smoke takes seconds a run, laptop minutes, paper a GPU
    set: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME.NAME=VALUE")] = ()
    """Change a value for every method; options.* and embedder.* for those that have such."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("runs")  # where runs work
    results: Annotated[Path, arg(metavar="DIR")] = Path("results")  # where records are kept
    wall_minutes: Annotated[float | None, arg(metavar="X", help_behavior_hint="")] = None
    """Equal time instead of equal updates: as many updates as fit X minutes of training on this
    machine, the embedder's included. Kept apart, in RESULTS/ENV/wall-Xmin."""
    dry_run: bool = False  # only say what is finished, what there is to do and for how long
    table: bool = False  # run nothing; publish what is finished and write the table

    def execute(self) -> None:
        from radt.commands.compare_work import show_entries, work
        from radt.runs.compare import entries_of, hours

        comparison = self._comparison()
        entries = entries_of(comparison)
        if self.dry_run:
            plan = {"runs": [one.to_json() for one in entries], "hours": hours(entries)}
            self.common.answer(plan, *show_entries(entries))
            return
        self.common.announce(*show_entries(entries))
        ready = ("finished",) if self.table else ("finished", "interrupted", "missing")
        todo = [one for one in entries if one.state in ready]
        with self.opened() as engine:
            news = work([(comparison, one) for one in todo], self.common, engine)
        self._answer(comparison, news)

    def _comparison(self) -> Comparison:
        from radt.distributed import current_group
        from radt.runs.compare import Comparison

        if self.env is None:
            raise RunError("say which environment, e.g. dark-room-10x10; `radt envs` lists them")
        if current_group().size > 1:
            raise RunError(
                "torchrun starts processes that train one policy together: give it `radt run`; a "
                "comparison shares its runs with --workers N or --engine ray"
            )
        return Comparison(
            env=self.env,
            methods=(*split_names(self.methods), *map(written_variant, self.variant)),
            seeds=self.seeds,
            budget=self.budget,
            sets=self.set,
            out=self.out,
            results=self.results,
            wall_minutes=self.wall_minutes,
        )

    def _answer(self, comparison: Comparison, news: News) -> None:
        """Show the table; where runs have failed, say so last and with an exit code."""
        from radt.commands.compare_work import show_methods, write_table

        page = write_table(comparison)
        compared = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
        lines = [f"at work in another process: {', '.join(news.busy)}"] if news.busy else []
        self.common.answer(
            {"page": str(page), **asdict(news), **compared},
            show_methods(compared),
            *lines,
            styled("[dim]{}[/]", page),
        )
        if news.failed:
            told = "\n".join(f"  {name}: {why}" for name, why in news.failed.items())
            raise RunError(f"{len(news.failed)} of the runs have failed:\n{told}")


def written_variant(text: str) -> Variant:
    """Read a variant as it is written on a command line: 'LABEL=METHOD a.b=c ...'."""
    from radt.config import overrides
    from radt.variants import VariantError, arm

    label, equals, rest = text.partition("=")
    method, *values = shlex.split(rest) or [""]
    if not (equals and method):
        raise VariantError(f"{text!r} is no variant; write {VARIANT}")
    return arm(label.strip(), method, overrides(values).values)
