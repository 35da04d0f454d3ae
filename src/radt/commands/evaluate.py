"""The verb that evaluates a run or a checkpoint, also where it was not trained."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from radt.commands.engine import EngineVerb
from radt.commands.flags import read_values

if TYPE_CHECKING:
    from radt.envs.suite import TaskSuite
    from radt.experiments.evaluate import Trials
    from radt.loading import Loaded


@dataclass(frozen=True, kw_only=True)
class EvaluateVerb(EngineVerb):
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
    trials: Annotated[int | None, arg(help_behavior_hint="(default: the run's own)")] = None
    """How many trials each task gets."""
    seed: int = 0  # of the agent's noise and of the environments
    trace: bool = False  # write every step and why, for `radt view`
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Where the result goes (default: beside the source)."""

    def execute(self) -> None:
        """Evaluate, write the record and show it."""
        from radt.commands.summary import show_result
        from radt.experiments.evaluate import live, result_record
        from radt.experiments.shares import shared
        from radt.experiments.trace import tracing
        from radt.files import atomic_write
        from radt.loading import load, load_method
        from radt.track import Tracker

        if self._completes_a_run():
            self._complete()
            return
        loaded = load(self.source, self.common.device)
        trials = self._trials(loaded)
        path = self.out or self._free_place(trials)
        tracker = Tracker(quiet=self.common.quiet)
        file = path.with_suffix(".trace.jsonl") if self.trace else None
        load_again = partial(load_method, self.source.absolute(), self.common.device)
        with self.opened() as engine, tracing(file, trials.suite.name, loaded.card.method) as trace:
            how = live if engine is None else shared(engine, load_again)
            result = how(loaded.method, trials, tracker, trace)
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
        usual = (None, None, None, "eval", 0)
        asked = (self.env, self.trials, self.out, self.tasks, self.seed) != usual
        trained = (self.source / "config.json").is_file()
        return trained and not asked and not (self.source / "icl.json").exists()

    def _complete(self) -> None:
        from radt.api import evaluate, report
        from radt.commands.summary import show_result
        from radt.config import from_json

        config = from_json(read_values(self.source / "config.json"))
        quiet, device = self.common.quiet, self.common.device
        with self.opened() as engine:
            record = evaluate(config, self.source, quiet, self.trace, device, engine)
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
        return suite

    def _trials(self, loaded: Loaded) -> Trials:
        """Say what is lived through; a run's own number of trials is the usual one."""
        from radt.config import from_json
        from radt.experiments.evaluate import Trials
        from radt.experiments.run import RunError

        suite, config = self._suite(loaded), self.source / "config.json"
        count = self.trials
        if count is None:
            own = config.is_file()
            count = from_json(read_values(config)).evaluate.trials if own else suite.trials
        for name, value, least in (("trials", count, 1), ("seed", self.seed, 0)):
            if value < least:
                raise RunError(f"--{name} must be at least {least}, not {value}")
        known = loaded.card.tasks or suite.train_tasks
        tasks = suite.eval_tasks if self.tasks == "eval" else known
        return Trials(suite, tasks, count, loaded.rule, self.seed)

    def _free_place(self, trials: Trials) -> Path:
        """Name the result after all that makes it differ from another one beside it."""
        from radt.experiments.run import CHECKPOINT, RunError

        folder, weights = self.source, ""
        if not folder.is_dir():
            folder = self.source.parent
            weights = "" if self.source.name == CHECKPOINT else f"{self.source.stem}-"
        what = f"{trials.suite.name}-{self.tasks}-{trials.count}trials-seed{self.seed}"
        path = folder / f"evaluate-{weights}{what}.json"
        if path.exists():
            raise RunError(
                f"{path} holds this evaluation already; read it there, delete it to evaluate "
                "again, or write elsewhere with --out FILE"
            )
        return path
