"""The verb that evaluates a run or a checkpoint, also where it was not trained."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from radt.commands.flags import EngineVerb, at_least, say, split_names, styled
from radt.errors import RunError
from radt.registry import UnknownNameError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from radt.loading import Loaded
    from radt.runs.roll_out import Trials

FILES = (
    "report.html",
    "summary.md",
    "icl.json",
    "curve.png",
    "trials.gif",
    "model.safetensors",
    "trace.jsonl",
)


@dataclass(frozen=True, kw_only=True)
class EvaluateVerb(EngineVerb):
    """Let a trained method learn in context on tasks it has not seen.

    The memory starts empty and no weight changes. The folder of a run that was only trained gets
    the result and the report that `radt run` would have made; a result that is there stays as it
    is, and another one is written beside it.

    Try:
      radt evaluate runs/x
      radt evaluate runs/x --env dark-room-10x10-slip --trials 20
      radt evaluate model.safetensors --split train --trace
      radt evaluate runs/x --controls erased,best-trial --rules paper,authors
    """

    source: Positional[Path]  # a run's folder or a checkpoint file
    env: Annotated[str | None, arg(help_behavior_hint="")] = None
    """Another environment with the same spaces."""
    split: Annotated[str, arg(aliases=["--tasks"])] = "eval"
    """Which tasks: eval (unseen), train, or another split that the environment names."""
    trials: Annotated[int | None, arg(help_behavior_hint="(default: the run's own)")] = None
    """How many trials each task gets."""
    seed: int = 0  # of the agent's noise and of the environments
    rules: Annotated[str, arg(metavar="NAME,...", help_behavior_hint="")] = ""
    """Also act by other rules: paper, authors, explore-exploit."""
    controls: Annotated[str, arg(metavar="NAME,...", help_behavior_hint="")] = ""
    """Also act with another memory: erased before each trial, other-task, random-own, last-trial,
    best-trial, oracle (an expert's episode)."""
    trace: bool = False  # write every step and why, for `radt view`
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Where the result goes (default: beside the source)."""

    def execute(self) -> None:
        from radt.action_rules import named_rule
        from radt.config import EvaluateConfig
        from radt.files import atomic_write
        from radt.loading import load, method_at
        from radt.runs.evaluate import result_record
        from radt.runs.evaluations import Parts, evaluate_all, evaluations, weights_stamp
        from radt.runs.roll_out import shared
        from radt.runs.trace import tracing
        from radt.track import Tracker

        if self._completes_a_run():
            self._complete()
            return
        rules, controls = split_names(self.rules), split_names(self.controls)
        EvaluateConfig(rules=rules, controls=controls)  # refuses names that nobody knows
        loaded = load(self.source, self.common.device)
        trials = self._trials(loaded)
        path = self.out or self._free_place(trials)
        tracker = Tracker(quiet=self.common.quiet)
        file = path.with_suffix(".trace.jsonl") if self.trace else None
        load_again = partial(method_at, self.source.absolute(), self.common.device)
        named = {name: named_rule(name, loaded.card.method) for name in rules}
        asked = evaluations(loaded.method, trials, named, controls)
        if left_out := [name for name in (*controls, *named) if name not in asked]:
            say(f"left out, as it means nothing here: {', '.join(left_out)}")
        parts = Parts(path.with_suffix(".parts"), weights_stamp(loaded.path))
        with self.opened() as engine, tracing(file, trials.suite.name, loaded.label) as trace:
            how = shared(engine, load_again)
            told = evaluate_all(loaded.method, asked, parts, how, tracker, trace)
        record = {
            "experiment": "evaluate",
            "label": loaded.label,
            "method": loaded.card.method,
            "trained_on": loaded.card.env,
            "split": self.split,
            **result_record(loaded.card.method, asked, told),
        }
        atomic_write(path, (json.dumps(record) + "\n").encode())
        parts.close()
        self.common.answer({"out": str(path), **record}, *show_result(record, path))

    def _completes_a_run(self) -> bool:
        """Whether the last phase of a run is asked for, and nothing else."""
        usual = (None, None, None, "eval", 0, "", "")
        words = (self.env, self.trials, self.out, self.split, self.seed, self.rules, self.controls)
        asked = words != usual
        trained = (self.source / "config.json").is_file()
        return trained and not asked and not (self.source / "icl.json").exists()

    def _complete(self) -> None:
        from radt.api import evaluate, report
        from radt.runs.compare import read_config

        config = read_config(self.source)
        quiet, device = self.common.quiet, self.common.device
        with self.opened() as engine:
            record = evaluate(config, self.source, quiet, self.trace, device, engine)
        report(self.source)
        self.common.answer({"out": str(self.source), **record}, *show_result(record, self.source))

    def _trials(self, loaded: Loaded) -> Trials:
        """Say what is rolled out; a run's own number of trials is the usual one."""
        from radt.envs.suite import SUITES, splits_of
        from radt.runs.compare import read_config
        from radt.runs.roll_out import Trials
        from radt.runs.run import carried_target

        suite, count = SUITES[self.env or loaded.card.env], self.trials
        if suite.spaces != loaded.card.spaces:
            raise RunError(
                f"{suite.name} has other spaces than {loaded.card.env}, which {self.source} was "
                "trained on; choose an environment with the same states, actions and horizon"
            )
        if count is None:
            own = (self.source / "config.json").is_file()
            count = read_config(self.source).evaluate.trials if own else suite.trials
        at_least(1, trials=count)
        at_least(0, seed=self.seed)
        splits = splits_of(suite)
        if loaded.card.tasks:  # those that were learned from
            splits = {**splits, "train": loaded.card.tasks}
        if self.split not in splits:
            raise UnknownNameError(f"split of {suite.name}", self.split, list(splits))
        own = suite.name == loaded.card.env  # elsewhere, that suite says what can be aimed at
        target = carried_target(loaded.card) if own else None
        return Trials(suite, splits[self.split], count, loaded.rule, self.seed, target=target)

    def _free_place(self, trials: Trials) -> Path:
        """Name the result after all that makes it differ from another one beside it."""
        from radt.runs.run import CHECKPOINT

        folder, weights = self.source, ""
        if not folder.is_dir():
            folder = self.source.parent
            weights = "" if self.source.name == CHECKPOINT else f"{self.source.stem}-"
        what = f"{trials.suite.name}-{self.split}-{trials.count}trials-seed{self.seed}"
        what = "-".join([what, *split_names(self.rules), *split_names(self.controls)])
        path = folder / f"evaluate-{weights}{what}.json"
        if path.exists():
            raise RunError(
                f"{path} holds this evaluation already; read it there, delete it to evaluate "
                "again, or write elsewhere with --out FILE"
            )
        return path


def show_result(record: Mapping[str, Any], place: Path) -> list[RenderableType]:
    """Show what the summary says of an evaluation, its returns trial by trial, and the files."""
    from rich.markdown import Markdown

    from radt.data.stats import sparkline
    from radt.plots.records import label_of, titled
    from radt.plots.tables import controls_text, method_table, returns_tables, row_in_words

    row, split = method_table([{"wall_seconds": {}, **record}])[0], str(record["split"])
    title = f"{label_of(record)} on {record['env']}, {row.tasks} tasks, seed {record['seed']}"
    told = row_in_words(row, split), returns_tables([row]), controls_text([row])
    there = ", ".join(name for name in FILES if (place / name).exists())
    return [
        styled("[bold]{}[/]", titled(title, [record])),
        f"returns by trial  {sparkline(row.returns.mean(axis=(0, 1)).tolist())}\n",
        Markdown("\n\n".join(told)),
        styled("[dim]{}[/]", f"{place}: {there}" if place.is_dir() else place),
    ]
