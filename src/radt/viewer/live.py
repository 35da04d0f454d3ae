"""A live run: one agent in one task, advanced a few steps at a time, and its knobs.

A page talks to it in questions and answers, one JSON object each way: `start` puts an agent into a
task, `advance` lets it act on, `change` turns its knobs. All that comes in is decoded strictly and
bounded here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from radt.agent import Agent
from radt.decode import DecodeError, decode
from radt.envs.dark_room import PICKED, goal_cells_of, pick, pickable
from radt.envs.suite import TaskSuite
from radt.errors import RadtError
from radt.icl import env_seed
from radt.loading import Loaded
from radt.registry import UnknownNameError
from radt.runs.step_recorder import RecordedSteps, StepRecorder
from radt.viewer.library import Library, suites_for
from radt.viewer.scene import Scene, action_names

MOST_STEPS = 40_000  # of one run, e.g. 50 trials of 800 steps
SECONDS_AT_ONCE = 0.15  # that one run computes while others wait
MOST_TOP_L = 200
MOST_ALPHA, MOST_TEMPERATURE = 10.0, 5.0
RULE, SEARCH = ("temperature", "explore_temperature"), ("alpha", "top_l", "retrieve_every")
KNOWN = ("solved", "rewards_of_trials")  # what trials have shown of a task

MOST_CHARACTERS = 4096  # of one question
MOST_AT_ONCE = 256  # steps
MOST_SEED = 2**31 - 1
MOST_TASKS = 100  # of training that are listed

Event = dict[str, Any]
Answer = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """What can be changed while an agent acts; None: its method has no such knob."""

    temperature: float | None = None
    explore_temperature: float | None = None
    alpha: float | None = None
    top_l: int | None = None
    retrieve_every: int | None = None  # 0: once, at the start of a trial
    memory: bool = True

    @classmethod
    def of(cls, agent: Agent) -> Settings:
        """Read the knobs of an agent."""
        known: dict[str, Any] = {}
        if agent.head.sampled:
            usual, explore = agent.rule.temperature, agent.rule.explore_temperature
            known |= {"temperature": usual}
            known |= {"explore_temperature": usual if explore is None else explore}
        if agent.memory is not None:
            known |= {name: getattr(agent.memory.config, name) for name in SEARCH}
            if getattr(getattr(agent.method, "options", None), "subgoals", False):
                del known["retrieve_every"]  # they need a chunk from the trial's start
        return cls(**known)

    def bounded(self, known: Settings, horizon: int) -> Settings:
        """Bring values inside their bounds; a knob that a run does not have stays away."""
        inside: dict[str, Any] = {"memory": self.memory}
        for name, (least, most) in bounds(horizon).items():
            usual, asked = getattr(known, name), getattr(self, name)
            wanted = usual if asked is None else asked
            inside[name] = None if usual is None else min(max(wanted, least), most)
        return Settings(**inside)


def bounds(horizon: int) -> dict[str, tuple[float, float]]:
    """Return the least and the most of each knob."""
    return {
        "temperature": (0.0, MOST_TEMPERATURE),
        "explore_temperature": (0.0, MOST_TEMPERATURE),
        "alpha": (0.0, MOST_ALPHA),
        "top_l": (1, MOST_TOP_L),
        "retrieve_every": (0, horizon),
    }


class LiveRun:
    """An agent with an empty memory that somebody watches."""

    def __init__(
        self,
        loaded: Loaded,
        suite: TaskSuite,
        task: int,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.suite, self.scene, self._clock = suite, Scene(suite, task), clock
        self.env = suite.make(task)
        self.agent = loaded.agent(seed=seed, tasks=[task])
        self.settings = Settings.of(self.agent)
        self.steps = 0
        self._recorder = StepRecorder(self.agent)
        self._remembering = self.agent.actor  # what is put back when the memory comes back
        self._known: dict[str, Any] = {}  # what its trials had shown until then
        self._obs, _ = self.env.reset(seed=env_seed(seed, task))

    def ground(self) -> dict[str, Any]:
        """Describe the suite that the agent acts in, and what is marked there."""
        states = np.asarray(self._obs)[None]
        marks = self.scene.marks(states, np.zeros(0), start=0)
        return {**self.scene.ground(states[0]), "marks": marks}

    def advance(self, steps: int) -> list[Event]:
        """Live through some steps, fewer if they take long; say what happened in order."""
        events: list[Event] = []
        until = self._clock() + SECONDS_AT_ONCE
        for _ in range(steps):
            if self.steps >= MOST_STEPS:
                events.append({"event": "over", "steps": self.steps})
                break
            events += self._step()
            if self._clock() > until:
                break
        return [*events, *self._handed_over()]

    def change(self, asked: Settings) -> list[Event]:
        """Turn knobs; with the memory taken away or given back, the trial begins anew."""
        known, spaces = Settings.of(self.agent), self.agent.method.spaces
        before, self.settings = self.settings, asked.bounded(known, spaces.horizon)
        self._turn()
        if before.memory == self.settings.memory:
            return []
        if self.settings.memory:
            self.agent.actor = self._remembering
            for name, known in self._known.items():
                setattr(self.agent.trials, name, known)
        else:
            self._remembering = self.agent.actor
            self._known = {name: deepcopy(getattr(self.agent.trials, name)) for name in KNOWN}
            self._without_memory()
        self._turn()
        self.agent.abandon()
        self._recorder.take(0)
        self._obs, _ = self.env.reset()
        return [{"event": "again", "trial": int(self.agent.trials.trial[0])}]

    def close(self) -> None:
        """Give the environment back."""
        self.env.close()

    def _turn(self) -> None:
        """Give the agent the values of the knobs."""
        values = {name: value for name, value in asdict(self.settings).items() if value is not None}
        self.agent.rule = replace(self.agent.rule, **_only(values, RULE))
        if (memory := self.agent.memory) is not None:
            memory.config = replace(memory.config, **_only(values, SEARCH))

    def _without_memory(self) -> None:
        """Put a new agent in its place, with an empty memory."""
        self.agent.actor = self.agent.method.actor(1)
        self.agent.trials.solved[:] = False
        self.agent.trials.rewards_of_trials = [[]]

    def _step(self) -> list[Event]:
        with self._recorder:
            action = self.agent.act(self._obs)
        trial = int(self.agent.trials.trial[0])
        self._obs, reward, terminated, truncated, _ = self.env.step(action)
        self._recorder.see(np.array([float(reward)]))
        part = self._recorder.parts[0]
        events: list[Event] = []
        if part.start == 0 and len(part) == 1:
            entries = self._recorder.entries[0]
            events.append({"event": "trial", "trial": trial, "entries": entries})
        self.agent.observe(float(reward), terminated, truncated)
        self.steps += 1
        return [*events, *(self._end(trial) if terminated or truncated else [])]

    def _end(self, trial: int) -> list[Event]:
        """Hand over the rest of a trial and begin the next one."""
        handed = self._handed_over()
        memory = self.agent.memory
        kept = 0 if memory is None else int((memory.entries.age == trial).sum())
        earned = float(self.agent.trials.earned[0])
        self._obs, _ = self.env.reset()
        if not self.settings.memory:
            self._without_memory()
            self._turn()
        return [*handed, {"event": "end", "trial": trial, "return": earned, "kept": kept}]

    def _handed_over(self) -> list[Event]:
        part = self._recorder.take(0)
        if not len(part):
            return []
        trials, stop = self.agent.trials, part.start + len(part)
        states, rewards = trials.states[0, :stop], trials.rewards[0, :stop]
        return [{"event": "steps", **columns(part, self.scene, states, rewards)}]


def columns(part: RecordedSteps, scene: Scene, states: Any, rewards: Any) -> dict[str, Any]:
    """Describe steps of a trial for the page; states and rewards are the trial's so far, [T]."""
    return {
        "trial": part.trial,
        "start": part.start,
        "cells": scene.cells(states, rewards)[part.start :],
        "marks": scene.marks(states, rewards, part.start),
        "actions": part.actions,
        "rewards": part.rewards,
        "probabilities": part.probabilities,
        "attention": part.attention,
        "searches": part.searches,
    }


def _only(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


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
        """End the run."""
        if self.run is not None:
            self.run.close()
        self.run = None

    def _answer(self, text: str) -> Answer:
        if len(text) > MOST_CHARACTERS:
            raise DecodeError(f"a question may have {MOST_CHARACTERS} characters, not {len(text)}")
        question = json.loads(text)
        if not isinstance(question, dict):
            raise DecodeError(f"expected an object, got {text[:80]!r}")
        verbs: dict[str, Callable[[dict[str, Any]], Answer]] = {
            "start": self._start,
            "advance": self._advance,
            "change": self._change,
        }
        do = question.pop("do", None)
        if do not in verbs:
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
            "actions": action_names(suite, suite.eval_tasks[0]),
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
