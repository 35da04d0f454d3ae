"""`radt bench evaluate`: many tasks at once against one task at a time, with the same noise.

Sums of floats are rounded differently in batches of other sizes, so that a rare action can differ.
How far the outputs are apart is measured wherever both sides have the same history behind them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from rich.table import Table
from torch import Tensor

from radt.agent import Agent
from radt.bench import USUAL, EvaluateArguments, Resources
from radt.bench.common import make_table, with_provenance
from radt.envs.suite import SUITES, TaskSuite
from radt.experiments.run import RunError
from radt.icl import env_seed, in_context_learning
from radt.loading import Loaded, load, shipped
from radt.methods.method import Actor
from radt.methods.trials import RunningTrials
from radt.spaces import TaskSpaces
from radt.track import Tracker
from radt.trajectory import Trajectory


@dataclass(frozen=True)
class Transcript:
    """What an agent saw, decided, did and earned in every trial; zeros behind a trial's end."""

    states: NDArray[Any]  # [task, trial, step, *state_shape]
    outputs: NDArray[np.float32]  # [task, trial, step, action_size] logits, or actions themselves
    actions: NDArray[Any]  # [task, trial, step, *action_shape]
    rewards: NDArray[np.float32]  # [task, trial, step]
    lengths: NDArray[np.int64]  # [task, trial]

    @classmethod
    def empty(cls, spaces: TaskSpaces, tasks: int, trials: int) -> Transcript:
        """Make room for some trials."""
        steps = (tasks, trials, spaces.horizon)
        return cls(
            np.zeros((*steps, *spaces.state.shape), spaces.state.dtype),
            np.zeros((*steps, spaces.action.size), np.float32),
            np.zeros((*steps, *spaces.action.shape), spaces.action.dtype),
            np.zeros(steps, np.float32),
            np.zeros(steps[:2], np.int64),
        )


class TranscribedActor:
    """An actor at its usual work, of which outputs and finished trials are written down."""

    def __init__(self, actor: Actor, transcript: Transcript, first_task: int) -> None:
        self._actor, self._transcript, self._first = actor, transcript, first_task

    def __getattr__(self, name: str) -> Any:
        return getattr(self._actor, name)

    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        """Pass on what the actor decides."""
        decided = self._actor.decide(trials, slots)
        trial = trials.trial[slots]
        counted = trial < self._transcript.outputs.shape[1]
        at = (slots[counted] + self._first, trial[counted], trials.step[slots][counted])
        self._transcript.outputs[at] = decided.detach().cpu().numpy()[counted]
        return decided

    def remember(self, finished: Sequence[Trajectory]) -> None:
        """Pass on finished trials."""
        for trial in finished:
            if trial.episode < self._transcript.lengths.shape[1]:
                at = (trial.task + self._first, trial.episode)
                self._transcript.lengths[at] = len(trial)
                for name in ("states", "actions", "rewards"):
                    getattr(self._transcript, name)[at][: len(trial)] = getattr(trial, name)
        self._actor.remember(finished)


def act_together(
    loaded: Loaded, suite: TaskSuite, tasks: Sequence[int], trials: int, seed: int
) -> Transcript:
    """Evaluate all tasks side by side, as `radt evaluate` does."""
    transcript = Transcript.empty(suite.spaces, len(tasks), trials)
    env = suite.make_vec(tasks)
    agent = loaded.agent(len(tasks), seed, env.metadata["autoreset_mode"], tasks=tasks)
    _transcribe(agent, transcript, first_task=0)
    in_context_learning(agent, env, trials, seed)
    env.close()
    return transcript


def act_alone(
    loaded: Loaded, suite: TaskSuite, tasks: Sequence[int], trials: int, seed: int
) -> Transcript:
    """Act in one plain environment after the other, with the noise that each has beside others."""
    transcript = Transcript.empty(suite.spaces, len(tasks), trials)
    for row, task in enumerate(tasks):
        agent = loaded.agent(seed=seed, tasks=[task])
        _transcribe(agent, transcript, first_task=row)
        agent.start_task()
        env = suite.make(task)
        obs, _ = env.reset(seed=env_seed(seed, task))
        for trial in range(trials):
            if trial > 0:
                obs, _ = env.reset()
            over = False
            while not over:
                obs, reward, terminated, truncated, _ = env.step(agent.act(obs))
                agent.observe(float(reward), terminated, truncated)
                over = terminated or truncated
        env.close()
    return transcript


def _transcribe(agent: Agent, transcript: Transcript, first_task: int) -> None:
    agent.actor = cast(Actor, TranscribedActor(agent.actor, transcript, first_task))


def compare_transcripts(together: Transcript, alone: Transcript) -> dict[str, Any]:
    """Count equal trials, and find the largest difference of outputs under the same history."""
    same_state, same_action, same_reward = (
        _equal_steps(getattr(together, name), getattr(alone, name))
        for name in ("states", "actions", "rewards")
    )  # [task, trial, step]
    same = same_state & same_action & same_reward
    tasks = len(same)
    seen = np.logical_and.accumulate(same_state.reshape(tasks, -1), axis=1)  # [task, trial * step]
    done = np.logical_and.accumulate((same_action & same_reward).reshape(tasks, -1), axis=1)
    before = np.pad(done[:, :-1], ((0, 0), (1, 0)), constant_values=True)
    taken = np.arange(same.shape[2]) < alone.lengths[..., None]  # [task, trial, step]
    comparable = (seen & before).reshape(same.shape) & taken
    apart = abs(together.outputs - alone.outputs).max(axis=-1)[comparable]
    return {
        "equal_trials": float((same.all(axis=2) & (together.lengths == alone.lengths)).mean()),
        "equal_returns": float((together.rewards.sum(2) == alone.rewards.sum(2)).mean()),
        "largest_output_difference": float(apart.max()),
        "compared_steps": int(comparable.sum()),
        "steps": int(taken.sum()),
        "mean_return": {
            "together": float(together.rewards.sum(2).mean()),
            "alone": float(alone.rewards.sum(2).mean()),
        },
    }


def _equal_steps(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[np.bool_]:
    equal = ours == theirs
    return np.asarray(equal.reshape(*equal.shape[:3], -1).all(axis=-1))


def bench_evaluate(
    arguments: EvaluateArguments, resources: Resources = USUAL, seed: int = 0
) -> dict[str, Any]:
    """Measure a checkpoint, by default the shipped one, on many tasks at once and one by one."""
    trials = arguments.trials
    if trials < 1:
        raise RunError(f"--trials must be at least 1, not {trials}")
    loaded = load(arguments.checkpoint or shipped(), resources.device)
    suite = SUITES[loaded.card.env]
    known = (*suite.eval_tasks, *suite.train_tasks)  # the unseen ones first
    if not 1 <= arguments.tasks <= len(known):
        raise RunError(f"{suite.name} has {len(known)} tasks; --tasks cannot be {arguments.tasks}")
    chosen = known[: arguments.tasks]
    tracker, sides, seconds = (
        Tracker(quiet=resources.quiet),
        dict[str, Transcript](),
        dict[str, float](),
    )
    tracker.start("evaluate", total=2)
    for name, act, warm_up in (
        ("together", act_together, chosen),
        ("alone", act_alone, chosen[:1]),
    ):
        act(loaded, suite, warm_up, 1, seed)
        begun = time.perf_counter()
        sides[name] = act(loaded, suite, chosen, trials, seed)
        seconds[name] = time.perf_counter() - begun
        tracker.advance(len(sides))
    tracker.finish()
    rates = {name: int(sides[name].lengths.sum()) / seconds[name] for name in sides}
    measured = {
        "env": suite.name,
        "method": loaded.card.method,
        "checkpoint": loaded.path.name,
        "tasks": len(chosen),
        "trials": trials,
        "seed": seed,
        "threads": torch.get_num_threads(),
        "device": resources.device,
        "seconds": seconds,
        "steps_per_second": rates,
        **compare_transcripts(sides["together"], sides["alone"]),
    }
    return with_provenance("evaluate", measured, rates["together"] / rates["alone"])


def evaluate_table(record: Mapping[str, Any]) -> Table:
    """Show both speeds, and how alike both sides were."""
    rates = record["steps_per_second"]
    rows = [
        (f"{record['tasks']} tasks at once, steps/s", f"{rates['together']:,.0f}"),
        ("one task at a time, steps/s", f"{rates['alone']:,.0f}"),
        ("equal trials", f"{record['equal_trials']:.1%}"),
        ("largest output difference", f"{record['largest_output_difference']:.1e}"),
        ("steps with equal histories", f"{record['compared_steps']:,} of {record['steps']:,}"),
    ]
    return make_table(f"evaluating {record['method']} on {record['env']}", rows)
