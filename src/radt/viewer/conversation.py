"""What a page and its live run say to each other: questions and answers, one JSON object each way.

`start` puts an agent into a task, `advance` lets it act on, `change` turns its knobs. All that
comes in is decoded strictly and bounded here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from radt.decode import DecodeError, decode, parse_json
from radt.envs.dark_room import PICKED, goal_cells_of, pick, pickable
from radt.envs.suite import TaskSuite
from radt.errors import RadtError
from radt.registry import UnknownNameError
from radt.viewer.library import Library, suites_for
from radt.viewer.live import LiveRun, Settings, bounds
from radt.viewer.scene import action_names

MOST_CHARACTERS = 4096  # of one question
MOST_AT_ONCE = 256  # steps
MOST_SEED = 2**31 - 1
MOST_TASKS = 100  # of training that are listed

Answer = dict[str, Any]


@dataclass(frozen=True)
class StartQuestion:
    """Put an agent into a task: one of the suite's, or one with a goal in a given cell."""

    source: str
    env: str | None = None  # None: the one that the weights were trained in
    task: int | None = None  # None: the first unseen one
    goal: tuple[int, int] | None = None
    key: tuple[int, int] | None = None
    seed: int = 0


@dataclass(frozen=True)
class AdvanceQuestion:
    """Let the agent live on."""

    steps: int = 1


class Conversation:
    """One page and its live run."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.run: LiveRun | None = None

    def answer(self, text: str) -> Answer:
        """Do what was asked and say what came of it; a mistake is answered with a message."""
        try:
            return self._answer(text)
        except (RadtError, ValueError, OSError) as error:
            return {"kind": "error", "message": str(error)}

    def close(self) -> None:
        if self.run is not None:
            self.run.close()
        self.run = None

    def _answer(self, text: str) -> Answer:
        if len(text) > MOST_CHARACTERS:
            raise DecodeError(f"a question may have {MOST_CHARACTERS} characters, not {len(text)}")
        question = parse_json(text)
        if not isinstance(question, dict):
            raise DecodeError(f"expected an object, got {text[:80]!r}")
        verbs: dict[str, Callable[[dict[str, Any]], Answer]] = {
            "start": self._start,
            "advance": self._advance,
            "change": self._change,
        }
        do = question.pop("do", None)
        if not isinstance(do, str) or do not in verbs:
            raise UnknownNameError("question", str(do)[:80], list(verbs))
        return verbs[do](question)

    def _start(self, question: dict[str, Any]) -> Answer:
        asked = decode(StartQuestion, question, "start")
        loaded = self.library.weights(self.library.find(asked.source))
        suites = suites_for(loaded)
        suite = _chosen(suites, asked.env)
        seed = min(max(asked.seed, 0), MOST_SEED)
        chosen, task = _task(suite, asked)
        run = LiveRun(loaded, chosen, task, seed)
        self.close()
        self.run = run
        known = loaded.card.tasks or suite.train_tasks
        learned = goal_cells_of(suite, known)
        return {
            "kind": "started",
            "env": suite.name,
            "envs": [other.name for other in suites],
            "method": loaded.label,
            "description": chosen.describe(task),
            "task": None if asked.goal is not None else task,
            "tasks": tasks_of(suite, known),
            "learned": learned,  # goals that it was trained on
            "trained": task in known if asked.goal is None else asked.goal in learned,
            "pick": list(pickable(suite)),
            "actions": action_names(chosen, task),
            "continuous": suite.spaces.action.kind == "continuous",
            "horizon": suite.spaces.horizon,
            "optimum": chosen.optimal_return(task),
            "solved_above": suite.spaces.solved_above,
            "ground": run.ground(),
            "settings": asdict(run.settings),
            "bounds": bounds(suite.spaces.horizon),
            "seed": seed,
        }

    def _advance(self, question: dict[str, Any]) -> Answer:
        steps = decode(AdvanceQuestion, question, "advance").steps
        run = self._running()
        return {"kind": "advanced", "events": run.advance(min(max(steps, 1), MOST_AT_ONCE))}

    def _change(self, question: dict[str, Any]) -> Answer:
        run = self._running()
        asked = decode(Settings, {**asdict(run.settings), **question}, "change")
        events = run.change(asked)
        return {"kind": "changed", "settings": asdict(run.settings), "events": events}

    def _running(self) -> LiveRun:
        if self.run is None:
            raise ValueError("no agent acts here yet; start one first")
        return self.run


def tasks_of(suite: TaskSuite, trained: tuple[int, ...]) -> list[dict[str, Any]]:
    """Describe the tasks one can choose: the unseen ones first."""
    known = set(trained)
    tasks = dict.fromkeys((*suite.eval_tasks, *trained[:MOST_TASKS]))
    return [
        {"task": task, "says": suite.describe(task), "trained": task in known} for task in tasks
    ]


def _chosen(suites: list[TaskSuite], name: str | None) -> TaskSuite:
    for suite in suites:
        if name in (None, suite.name):
            return suite
    raise UnknownNameError("environment for these weights", str(name), [s.name for s in suites])


def _task(suite: TaskSuite, asked: StartQuestion) -> tuple[TaskSuite, int]:
    """Return the suite and the task, picked by hand or by number."""
    if asked.goal is not None:
        cells = {"goal": asked.goal} | ({} if asked.key is None else {"key": asked.key})
        return pick(suite, cells), PICKED
    task = suite.eval_tasks[0] if asked.task is None else asked.task
    if task not in (*suite.eval_tasks, *suite.train_tasks):
        raise ValueError(
            f"{suite.name} has no task {task}; it lists its tasks as {suite.eval_tasks}"
        )
    return suite, task
