"""A live run: one agent in one task, advanced a few steps at a time, and its knobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from radt.agent import Agent
from radt.envs.suite import TaskSuite
from radt.icl import env_seed
from radt.loading import Loaded
from radt.runs.step_recorder import StepRecorder
from radt.viewer.scene import scene_of

MOST_STEPS = 40_000  # of one run, e.g. 50 trials of 800 steps
SECONDS_AT_ONCE = 0.15  # that one run computes while others wait
MOST_TOP_L = 200
MOST_ALPHA, MOST_TEMPERATURE = 10.0, 5.0
RULE, SEARCH = ("temperature", "explore_temperature"), ("alpha", "top_l", "retrieve_every")
KNOWN = ("solved", "rewards_of_trials")  # what trials have shown of a task

Event = dict[str, Any]


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
        self.suite, self.scene, self._clock = suite, scene_of(suite, task), clock
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
        marks = self.scene.frames(states, np.zeros(0), start=0)["marks"]
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
        self.env.close()

    def _turn(self) -> None:
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
        states, rewards = trials.states[0, :stop], trials.rewards[0, :stop]  # so far
        told = {name: value for name, value in vars(part).items() if name != "states"}
        return [{"event": "steps", **told, **self.scene.frames(states, rewards, part.start)}]


def _only(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}
