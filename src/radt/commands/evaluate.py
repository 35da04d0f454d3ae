"""The verb that evaluates a run or a checkpoint, also where it was not trained."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from radt.commands.flags import Verb

if TYPE_CHECKING:
    from radt.envs.suite import TaskSuite
    from radt.experiments.evaluate import Trials
    from radt.loading import Loaded


@dataclass(frozen=True, kw_only=True)
class EvaluateVerb(Verb):
    """Let a trained method learn in context on tasks it has not seen.

    The memory starts empty and no weight changes. The folder of a run that was only trained gets
    the result and the report that `radt run` would have made; a result that is there stays as it
    is, and another one is written beside it.

    Try:
      radt evaluate runs/x
      radt evaluate runs/x --env dark-room-10x10-slip --trials 20
      radt evaluate model.safetensors --tasks train --trace
    """

    source: Positional[Path]  # a run's folder or a checkpoint file
    env: Annotated[str | None, arg(help_behavior_hint="")] = None
    """Another environment with the same spaces."""
    tasks: Literal["eval", "train"] = "eval"  # unseen tasks, or those of training
    trials: Annotated[int | None, arg(help_behavior_hint="(default: the paper's)")] = None
    """How many trials each task gets."""
    seed: int = 0  # of the agent's noise and of the environments
    trace: bool = False  # write every retrieval as JSON lines
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Where the result goes (default: beside the source)."""

    def execute(self) -> None:
        """Evaluate, write the record and show it."""
        from radt.commands.summary import show_result
        from radt.experiments.evaluate import live, result_record
        from radt.experiments.trace import tracing
        from radt.files import atomic_write
        from radt.loading import load
        from radt.track import Tracker

        if self._completes_a_run():
            self._complete()
            return
        loaded = load(self.source, self.common.device)
        suite = self._suite(loaded)
        path = self.out or self._default_out(suite)
        trials, tracker = self._trials(loaded, suite), Tracker(quiet=self.common.quiet)
        with tracing(path.with_suffix(".trace.jsonl") if self.trace else None) as trace:
            result = live(loaded.method, trials, tracker, trace)
        record = {
            "experiment": "evaluate",
            "method": loaded.card.method,
            "trained_on": loaded.card.env,
            "split": self.tasks,
            **result_record(trials, result),
        }
        atomic_write(path, (json.dumps(record) + "\n").encode())
        self.common.answer({"out": str(path), **record}, *show_result(record, path))

    def _completes_a_run(self) -> bool:
        """Whether the last phase of a run is asked for, and nothing else."""
        asked = (self.env, self.trials, self.out) != (None, None, None) or self.tasks != "eval"
        trained = (self.source / "config.json").is_file()
        return trained and not asked and not (self.source / "icl.json").exists()

    def _complete(self) -> None:
        from radt.api import evaluate, report
        from radt.commands.summary import show_result
        from radt.config import from_json

        config = from_json(json.loads((self.source / "config.json").read_text()))
        quiet, device = self.common.quiet, self.common.device
        record = evaluate(config, self.source, quiet, self.trace, device)
        report(self.source)
        self.common.answer({"out": str(self.source), **record}, *show_result(record, self.source))

    def _suite(self, loaded: Loaded) -> TaskSuite:
        from radt.envs.suite import SUITES
        from radt.experiments.run import RunError

        suite = SUITES[self.env or loaded.card.env]
        if suite.spaces != loaded.card.spaces:
            raise RunError(
                f"{suite.name} has other spaces than {loaded.card.env}, which {self.source} was "
                "trained on; choose an environment with the same states, actions and horizon"
            )
        if self.trials is not None and self.trials < 1:
            raise RunError(f"--trials must be at least 1, not {self.trials}")
        return suite

    def _default_out(self, suite: TaskSuite) -> Path:
        folder = self.source if self.source.is_dir() else self.source.parent
        return folder / f"evaluate-{suite.name}-{self.tasks}-seed{self.seed}.json"

    def _trials(self, loaded: Loaded, suite: TaskSuite) -> Trials:
        from radt.experiments.evaluate import Trials

        tasks = suite.eval_tasks if self.tasks == "eval" else suite.train_tasks
        return Trials(suite, tasks, self.trials or suite.trials, loaded.rule, self.seed)
