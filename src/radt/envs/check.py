"""The contract of a suite: what it declares against what its environments do.

Each check is a function that yields a sentence for everything that is not kept, saying what to do;
`check_suite` runs all of them. They play a few episodes with random actions, so they find what goes
wrong often, not what goes wrong rarely.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from radt.envs.suite import Demonstrated, TaskSuite, scoring_of, splits_of, task_targets_of

EPISODES = 2  # of a task that is played
FEW = 3  # tasks that are played
RESULTS = ("observations", "rewards", "terminated", "truncated")  # of a vector environment
Problems = Iterator[str]
Step = tuple[Any, float, bool]  # state, reward, whether the episode is over
Check = Callable[[TaskSuite], Problems]


@dataclass(frozen=True)
class Finding:
    """What came of one check: nothing, or sentences that say what is wrong and what to do."""

    check: str
    problems: tuple[str, ...] = ()
    is_warning: bool = False  # something to look at, that breaks nothing

    @property
    def verdict(self) -> Literal["ok", "failed", "warning"]:
        """Say in a word what came of it."""
        if not self.problems:
            return "ok"
        return "warning" if self.is_warning else "failed"


def check_suite(suite: TaskSuite) -> list[Finding]:
    """Run every check, but play nothing where a suite does not say what it is."""
    first = run_check("declares what a suite is", declaration, suite)
    if first.problems:
        return [first]
    return [first, *(run_check(name, check, suite) for name, check in CHECKS.items())]


def run_check(name: str, check: Check, suite: TaskSuite, is_warning: bool = False) -> Finding:
    """Run one check; an environment that raises has not kept it."""
    found: list[str] = []
    try:
        found.extend(check(suite))
    except Exception as error:  # of a user's code
        found.append(f"it raises {type(error).__name__}: {error}; mend what raises it")
    return Finding(name, tuple(dict.fromkeys(found)), is_warning)


def played(suite: TaskSuite) -> list[int]:
    """Choose the tasks that are played: the first, the last and one that is unseen."""
    tasks = (suite.train_tasks[0], suite.eval_tasks[0], suite.train_tasks[-1])
    return list(dict.fromkeys(tasks))[:FEW]


def declaration(suite: TaskSuite) -> Problems:
    """A suite has every attribute of the protocol, of the right type."""
    if not isinstance(suite, TaskSuite):
        names = [name for name in dir(TaskSuite) if not name.startswith("_")]
        missing = [name for name in names if not hasattr(suite, name)]
        yield f"it has no {', no '.join(missing)}; add what radt.envs.suite.TaskSuite names"
        return
    for split, tasks in splits_of(suite).items():
        if not tasks or not all(_is_whole(task) and task >= 0 for task in tasks):
            yield f"the split {split!r} is {tasks!r}; list whole numbers from 0 on, at least one"
    if not _is_whole(suite.trials) or suite.trials < 1:
        yield f"trials is {suite.trials!r}; say how many trials an agent has on a task"


def splits_are_disjoint(suite: TaskSuite) -> Problems:
    """No task is both trained on and unseen; no split names a task twice."""
    splits = splits_of(suite)
    for name, tasks in splits.items():
        if twice := {task for task in tasks if tasks.count(task) > 1}:
            yield f"the split {name!r} names task {min(twice)} twice; name it once"
    if both := set(suite.train_tasks) & set(suite.eval_tasks):
        yield f"task {min(both)} is in train_tasks and in eval_tasks; leave it out of one of them"
    for name in splits.keys() - {"train", "eval"}:
        seen = set(splits[name]) & set(suite.train_tasks)
        if seen and not seen >= set(splits[name]):
            yield (
                f"the split {name!r} mixes training tasks such as {min(seen)} with unseen ones; "
                "make two splits of it"
            )


def unknown_tasks_are_refused(suite: TaskSuite) -> Problems:
    """A task that does not exist is an error that names it."""
    for task in (max(sum(splits_of(suite).values(), ())) + 1_000_000_007, -1):
        try:
            suite.make(task).close()
        except ValueError as error:
            if str(task) not in str(error):
                yield f"make({task}) says {str(error)!r}; let its error name the task"
        else:
            yield f"make({task}) builds a task that does not exist; raise a ValueError there"


def spaces_are_as_declared(suite: TaskSuite) -> Problems:
    """Shapes, types, bins and bounds of states and actions are those of `spaces`."""
    for task in played(suite):
        env = suite.make(task)
        seen, space = env.observation_space, suite.spaces.state
        if seen.shape != space.shape:
            yield (
                f"task {task}: observations have shape {seen.shape}, spaces.state.shape says "
                f"{space.shape}; declare one shape, and pad where tasks differ"
            )
        elif seen.dtype != space.dtype:
            yield (
                f"task {task}: observations are {seen.dtype}, {space.kind} states are stored as "
                f"{space.dtype}; let observation_space and its values be {space.dtype}"
            )
        elif space.kind == "discrete":
            yield from _bins(task, seen, space.bins)
        yield from _actions(suite, task, env.action_space)
        env.close()


def _bins(task: int, seen: gym.Space[Any], bins: tuple[int, ...]) -> Problems:
    if not isinstance(seen, gym.spaces.Box):
        yield f"task {task}: a discrete state is a Box of whole numbers, not {seen}; use a Box"
    elif tuple((seen.high.astype(np.int64).ravel() + 1).tolist()) != tuple(bins):
        yield (
            f"task {task}: observations go up to {seen.high.tolist()}, so there are "
            f"{(seen.high.astype(np.int64).ravel() + 1).tolist()} values, but spaces.state.bins "
            f"says {bins}; make them equal"
        )


def _actions(suite: TaskSuite, task: int, space: gym.Space[Any]) -> Problems:
    action = suite.spaces.action
    if action.kind == "discrete":
        if not isinstance(space, gym.spaces.Discrete) or (space.n, space.start) != (action.size, 0):
            yield (
                f"task {task}: actions are {space}, spaces.action says {action.size} discrete "
                f"ones; let action_space be Discrete({action.size})"
            )
        return
    if not isinstance(space, gym.spaces.Box) or space.shape != action.shape:
        yield (
            f"task {task}: actions are {space}, spaces.action says {action.size} continuous "
            "dimensions; declare the widest task's, and pad narrower ones"
        )
    elif (space.low != -1).any() or (space.high != 1).any():
        yield (
            f"task {task}: actions lie between {space.low.min()} and {space.high.max()}, agents "
            "act in [-1, 1]; wrap it in gymnasium.wrappers.RescaleAction(env, -1, 1)"
        )
    if not 1 <= suite.spaces.valid_action_dims(task) <= action.size:
        yield (
            f"task {task}: spaces.action_dims says {suite.spaces.valid_action_dims(task)} valid "
            f"dimensions of {action.size}; say 1 to {action.size}"
        )


def play(suite: TaskSuite, env: gym.Env[Any, Any], seed: int) -> Iterator[list[Step]]:
    """Play some episodes with random actions, cut off at the horizon; the first step is a reset."""
    rng = np.random.default_rng(seed)
    for episode in range(EPISODES):
        state, _ = env.reset(seed=seed if episode == 0 else None)
        steps: list[Step] = [(state, 0.0, False)]
        while len(steps) <= suite.spaces.horizon and not steps[-1][2]:
            state, reward, *ends, _ = env.step(suite.spaces.action.sample(1, rng)[0])
            steps.append((state, float(reward), any(ends)))
        yield steps
    env.close()


def values_are_in_bounds(suite: TaskSuite) -> Problems:
    """Every observation lies in the declared space, and every reward is a finite number."""
    for task in played(suite):
        env = suite.make(task)
        for state, reward, _ in (step for steps in play(suite, env, 0) for step in steps):
            if wrong := _state_problem(env.observation_space, state):
                yield f"task {task}: {wrong}"
            if not math.isfinite(reward):
                yield f"task {task}: the reward is {reward}; let it be finite"


def _state_problem(space: gym.Space[Any], state: Any) -> str | None:
    value: NDArray[Any] = np.asarray(state)
    if (value.shape, value.dtype) != (space.shape, space.dtype):
        return (
            f"an observation is {value.dtype}{list(value.shape)}, its space says "
            f"{space.dtype}{list(space.shape or ())}; return what the space says"
        )
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        return "an observation is not finite; replace NaN and infinity"
    if not space.contains(state):
        return f"an observation leaves {space}; widen the space or mend the state"
    return None


def episodes_end_by_the_horizon(suite: TaskSuite) -> Problems:
    """No episode is longer than the horizon, and its last step reports the end."""
    horizon = suite.spaces.horizon
    for task in played(suite):
        if not all(steps[-1][2] for steps in play(suite, suite.make(task), 0)):
            yield (
                f"task {task}: an episode goes on after spaces.horizon = {horizon} steps; return "
                "truncated=True there (gymnasium.wrappers.TimeLimit), or declare a longer horizon"
            )


def seeds_reproduce(suite: TaskSuite) -> Problems:
    """The same seed and actions give the same episodes."""
    for task in played(suite):
        first, second = (list(chain(*play(suite, suite.make(task), 0))) for _ in range(2))
        pairs = zip(first, second, strict=False)
        same = [np.array_equal(a[0], b[0]) and a[1:] == b[1:] for a, b in pairs]
        if len(first) != len(second) or not all(same):
            yield (
                f"task {task}: the same seed and actions gave two different episodes; draw all "
                "that is random from self.np_random, and call super().reset(seed=seed)"
            )


def autoreset_is_declared(suite: TaskSuite) -> Problems:
    """The vector environment says when it resets itself."""
    env = suite.make_vec(played(suite))
    mode = (env.metadata or {}).get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        yield (
            f"metadata['autoreset_mode'] of make_vec() is {mode!r}; set it to a "
            "gymnasium.vector.AutoresetMode"
        )
    if env.num_envs != len(played(suite)):
        yield f"make_vec() of {len(played(suite))} tasks has {env.num_envs} slots; build one a task"
    env.close()


def vector_equals_single(suite: TaskSuite) -> Problems:
    """The vector environment returns what single ones do, and resets as it declares."""
    tasks = played(suite)
    ours = suite.make_vec(tasks)
    mode = AutoresetMode(ours.metadata["autoreset_mode"])
    makers = [partial(suite.make, task) for task in tasks]
    single: SyncVectorEnv[Any, Any] = SyncVectorEnv(makers, autoreset_mode=mode)
    rng = np.random.default_rng(0)
    results: tuple[Any, Any] = ours.reset(seed=7)[:1], single.reset(seed=7)[:1]
    over = np.zeros(len(tasks), bool)
    for step in range(2 * suite.spaces.horizon + 3):
        pairs = zip(RESULTS, *results, strict=False)  # a reset has observations only
        if wrong := [name for name, one, other in pairs if not np.array_equal(one, other)]:
            yield (
                f"after {step} steps the vector environment has other {wrong[0]} than single ones "
                f"with autoreset mode {mode.name}; build it as "
                "SyncVectorEnv([partial(suite.make, task) for task in tasks])"
            )
            break
        if mode is AutoresetMode.DISABLED and over.any():
            for env in (ours, single):
                env.reset(options={"reset_mask": over.copy()})
        actions = suite.spaces.action.sample(len(tasks), rng)
        results = ours.step(actions)[:4], single.step(actions)[:4]
        over = np.logical_or(results[1][2], results[1][3])
    ours.close()
    single.close()


def returns_are_described(suite: TaskSuite) -> Problems:
    """What a suite says of its returns has the right types, and is not refuted by an episode."""
    numbers = {"target_return": suite.target_return}
    targets = task_targets_of(suite)
    if targets != "data":
        numbers |= {f"task_targets[{task}]": pair for task, pair in targets.items()}
    for name, pair in numbers.items():
        if len(pair) != 2 or not all(map(_is_finite, pair)) or pair[1] < 0:
            yield f"{name} is {pair!r}; give a finite mean and a deviation of 0 or more"
    for task in played(suite):
        if not isinstance(said := suite.describe(task), str) or not said:
            yield f"describe({task}) is {said!r}; say in a few words what the task asks for"
        best = suite.optimal_return(task)
        if best is not None and not _is_finite(best):
            yield f"optimal_return({task}) is {best!r}; give a finite number, or None"
        played_out = play(suite, suite.make(task), 0)
        earned = min(sum(reward for _, reward, _ in steps) for steps in played_out)
        lowest = suite.spaces.lowest_return
        if earned < lowest - 1e-6:
            yield (
                f"task {task}: random actions earned {earned:g}, less than "
                f"spaces.lowest_return = {lowest:g}; declare the return of a trial that achieves "
                "nothing, from which store_above and min_return count"
            )
    scoring = scoring_of(suite)
    if scoring.kind.endswith("normalised") and not {*suite.eval_tasks} <= {*scoring.high}:
        yield f"scoring is {scoring.kind}, but names no high of every task; add low and high"


def experts_act(suite: TaskSuite) -> Problems:
    """A policy that a suite offers for the source `expert` reads its states and acts in them."""
    if not isinstance(suite, Demonstrated):
        return
    for task in played(suite):
        env = suite.make(task)
        state, _ = env.reset(seed=0)
        action, space = np.asarray(suite.expert(task)(state)), env.action_space
        wrong = isinstance(space, gym.spaces.Discrete) and not space.contains(action)
        if wrong or action.shape != space.shape:
            yield f"task {task}: expert() answers {action!r}, which is none of {space}; mend it"
        env.close()


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and math.isfinite(float(value))


CHECKS: dict[str, Check] = {
    "splits are disjoint": splits_are_disjoint,
    "unknown tasks are refused": unknown_tasks_are_refused,
    "spaces are as declared": spaces_are_as_declared,
    "observations and rewards are in bounds": values_are_in_bounds,
    "episodes end by the horizon": episodes_end_by_the_horizon,
    "seeds reproduce": seeds_reproduce,
    "autoreset mode is declared": autoreset_is_declared,
    "vector equals single": vector_equals_single,
    "returns are as described": returns_are_described,
    "experts act": experts_act,
}
