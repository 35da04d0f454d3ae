"""Small random datasets of every kind of state and action, for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from radt.data import History, Manifest, write_history, write_manifest
from radt.envs.suite import TaskSuite
from radt.spaces import ActionSpace, StateSpace, TaskSpaces

GRID = TaskSpaces(
    StateSpace("discrete", (2,), (6, 9)), ActionSpace("discrete", 5), horizon=30, return_scale=30.0
)
VECTOR = TaskSpaces(
    StateSpace("vector", (7,)),
    ActionSpace("continuous", 3),
    horizon=30,
    return_scale=2.5,
    action_dims=((4, 2),),
)
IMAGE = TaskSpaces(
    StateSpace("image", (3, 20, 20)), ActionSpace("discrete", 15), horizon=30, return_scale=1.0
)
ENCODED = TaskSpaces(
    StateSpace("encoded", (5,)), ActionSpace("discrete", 4), horizon=30, return_scale=1.0
)
SPACES = {"grid": GRID, "vector": VECTOR, "image": IMAGE, "encoded": ENCODED}


def random_history(
    task: int,
    spaces: TaskSpaces,
    rng: np.random.Generator,
    episodes: int = 6,
    trailing: int = 4,
) -> History:
    lengths = rng.integers(1, spaces.horizon + 1, episodes)
    count = int(lengths.sum()) + trailing
    state, action = spaces.state, spaces.action
    if state.kind == "discrete":
        states = rng.integers(0, state.bins, (count, *state.shape))
    elif state.kind == "image":
        states = rng.integers(0, 256, (count, *state.shape))
    else:
        states = rng.normal(size=(count, *state.shape)).astype(np.float32)
    if action.kind == "discrete":
        actions = rng.integers(0, action.size, count)
    else:
        actions = rng.uniform(-1, 1, (count, action.size)).astype(np.float32)
    rewards = rng.normal(size=count).astype(np.float32)
    return History(task, states, actions, rewards, lengths.astype(np.int32))


def manifest_of(files, spaces: TaskSpaces) -> Manifest:
    return Manifest(
        env="toy",
        env_spec={"size": [6, 9]},
        spaces=spaces,
        split="train",
        seed=3,
        source="ppo",
        hyper_parameters={"gamma": 0.99},
        code_version="0.1.0",
        files=tuple(files),
        wall_seconds=1.5,
    )


def assert_obeys(suite: TaskSuite, history: History) -> None:
    """Take a history's actions again: states, rewards and ends come out as they were recorded."""
    env, start = suite.make(history.task), 0
    for length in history.lengths:
        state, _ = env.reset()
        for step in range(start, start + length):
            np.testing.assert_array_equal(state, history.states[step])
            state, reward, ended, cut, _ = env.step(int(history.actions[step]))
            assert reward == history.rewards[step]
            assert (ended or cut) == (step == start + length - 1)
        start += length


def write_dataset(
    folder: Path, spaces: TaskSpaces = GRID, tasks=(4, 1, 7), seed: int = 0, **sizes: int
) -> list[History]:
    rng = np.random.default_rng(seed)
    histories = [random_history(task, spaces, rng, **sizes) for task in tasks]
    files = [write_history(folder, history, spaces) for history in histories]
    write_manifest(folder, manifest_of(files, spaces))
    return histories
