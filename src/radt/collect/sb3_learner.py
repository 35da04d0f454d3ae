"""A part of an unmodified stable-baselines3 algorithm's learning, between two states on disk.

Every part begins as a resumed one does: with new environments and random numbers of (seed, task,
part), and with all else from the arrays that the part before has left. So whether a run was killed
cannot be seen in what it records. Import this module only where the library is needed.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib import RecurrentPPO
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.save_util import recursive_getattr
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from radt.collect.rollout import ENVIRONMENT, INITIAL, Runner, stream
from radt.envs.suite import TaskSuite
from radt.impala import Impala
from radt.spaces import StateSpace, TaskSpaces

Arrays = Mapping[str, NDArray[Any]]
ALGORITHMS: Mapping[str, Any] = {"PPO": PPO, "SAC": SAC, "RecurrentPPO": RecurrentPPO}
OURS = ("policy", "env", "seed", "verbose", "tensorboard_log", "_init_setup_model")  # not settings
COUNTERS = ("num_timesteps", "_n_updates")
STATISTICS = ("mean", "var", "count")
RECORDED = ("states", "actions", "rewards", "terminated", "truncated", "next_states")


def setting_names(algorithm: str) -> set[str]:
    """Name the hyper-parameters of an algorithm."""
    return set(inspect.signature(ALGORITHMS[algorithm]).parameters) - set(OURS)


class ImpalaExtractor(BaseFeaturesExtractor):
    """IMPALA's network, which scales images itself."""

    def __init__(self, space: spaces.Space[Any], features_dim: int = 256, **settings: Any) -> None:
        super().__init__(space, features_dim)
        self.network = Impala(space.shape or (), features_dim, **settings)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.network(images))


EXTRACTORS = {"impala": ImpalaExtractor}  # by a name in settings.policy_kwargs


class RecordedEnv(VecEnv):
    """The environments of a task as the library sees them; what happens there is written down."""

    def __init__(
        self, suite: TaskSuite, task: int, seeds: Sequence[int], columns: Sequence[str], keep: int
    ) -> None:
        """Write down some columns of the first `keep` environments."""
        self._columns, self._keep = columns, keep
        self._runner = Runner(suite.make_vec([task] * len(seeds)), seeds)
        self._state, self._valid = suite.spaces.state, suite.spaces.valid_action_dims(task)
        self._actions: NDArray[Any] = np.empty(0)
        self.steps: list[dict[str, NDArray[Any]]] = []
        super().__init__(len(seeds), *library_spaces(suite.spaces))

    def reset(self) -> NDArray[Any]:
        """Return where the first episodes begin; later ones begin by themselves."""
        return seen(self._runner.states, self._state)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Take actions, clipped already; padded dimensions do nothing."""
        self._actions = np.array(actions)
        if self._actions.ndim > 1:
            self._actions[:, self._valid :] = 0.0

    def step_wait(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], list[dict[str, Any]]]:
        """Step, and hand out copies: the library adds bootstrapped values to its rewards."""
        before, acted = np.array(self._runner.states), self._actions
        after, earned, terminated, truncated = self._runner.step(acted)
        rewards = np.array(earned, np.float32)
        told = dict(
            zip(RECORDED, (before, acted, rewards, terminated, truncated, after), strict=True)
        )
        columns = {name: told[name] for name in self._columns}
        if (level := self._runner.infos.get("level")) is not None:
            columns["levels"] = np.asarray(level).astype(np.int32)
        self.steps.append({name: each[: self._keep].copy() for name, each in columns.items()})
        infos = infos_of(seen(after, self._state), terminated, truncated)
        return self.reset(), rewards.copy(), terminated | truncated, infos

    def close(self) -> None:
        self._runner.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError(attr_name)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **named: Any) -> Any:
        raise NotImplementedError(method_name)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Say that nothing is wrapped: episodes are recorded here."""
        return [False] * self.num_envs


def infos_of(
    after: NDArray[Any], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_]
) -> list[dict[str, Any]]:
    """Say of each environment whose episode is over where it ended, and whether time was up."""
    return [
        {"terminal_observation": last, "TimeLimit.truncated": bool(not ended)}
        if ended or cut
        else {}
        for last, ended, cut in zip(after, terminated, truncated, strict=True)
    ]


def library_spaces(own: TaskSpaces) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    """Describe states, as networks see them, and actions."""
    states = own.state.in_gymnasium()
    if own.state.kind == "discrete":  # its coordinates are scaled
        states = spaces.Box(-np.inf, np.inf, own.state.shape, np.float32)
    return states, own.action.in_gymnasium()


def seen(states: NDArray[Any], space: StateSpace) -> NDArray[Any]:
    """Show states [N, *shape] as networks see them: discrete coordinates from -1 to 1."""
    if space.kind == "image":
        return np.array(states)
    if space.kind == "discrete":
        half = np.reshape(np.maximum(np.array(space.bins) - 1, 1) / 2, space.shape)
        states = states / half - 1
    return np.array(states, np.float32)


def learn_part(
    suite: TaskSuite, options: Any, task: int, part: int, steps: int, earlier: Sequence[Arrays]
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Learn for some steps of each environment.

    Args:
        suite: The family of tasks.
        options: `SB3Options`.
        task: The task that is learned.
        part: Which part of the task's learning this is, from 0.
        steps: Of each environment.
        earlier: What the parts before recorded, as far as it is needed, and last the learner's
            state after them; empty at first.

    Returns:
        What this part recorded, [steps, envs, ...], and the learner's state.
    """
    seeds = stream(options.seed, task, ENVIRONMENT, part).integers(
        2**31, size=options.envs_per_task
    )
    columns: tuple[str, ...] = RECORDED
    keep = options.envs_per_task
    if not issubclass(ALGORITHMS[options.algorithm], OffPolicyAlgorithm):
        columns, keep = RECORDED[:-1], options.keep_envs  # a replay buffer needs all of them again
    recorded = RecordedEnv(suite, task, seeds.tolist(), columns, keep)
    env: VecEnv = recorded
    if options.normalise:
        gamma = options.settings.get("gamma", 0.99)
        env = VecNormalize(env, norm_obs=suite.spaces.state.kind != "image", gamma=gamma)
    with own_randomness():
        model = build(
            suite, options, env, int(stream(options.seed, task, INITIAL, part).integers(2**31))
        )
        if earlier:
            *parts, state = earlier
            restore(model, state)
            if isinstance(model, OffPolicyAlgorithm):
                refill(model, parts, suite.spaces.state)
        unlogged: Any = None
        total = steps * options.envs_per_task
        model.learn(total, log_interval=unlogged, reset_num_timesteps=False)
        state = saved(model)
    env.close()
    names = recorded.steps[0]
    return {name: np.stack([step[name] for step in recorded.steps]) for name in names}, state


def build(suite: TaskSuite, options: Any, env: VecEnv, seed: int) -> BaseAlgorithm:
    """Build the library's algorithm, which logs nothing."""
    network = "Cnn" if suite.spaces.state.kind == "image" else "Mlp"
    recurrent = "Lstm" if options.algorithm == "RecurrentPPO" else ""
    policy = options.policy or f"{network}{recurrent}Policy"
    settings = {"device": "cpu", **deepcopy(dict(options.settings))}  # which it writes into
    own = settings.get("policy_kwargs", {})
    if (name := own.get("features_extractor_class")) in EXTRACTORS:
        own |= {"features_extractor_class": EXTRACTORS[name], "normalize_images": False}
    if options.algorithm == "SAC":  # no more than can be filled
        most = settings.get("buffer_size", 1_000_000)
        settings["buffer_size"] = min(most, options.steps * options.envs_per_task)
    model: BaseAlgorithm = ALGORITHMS[options.algorithm](policy, env, seed=seed, **settings)
    model.set_logger(Logger(None, []))
    return model


@contextmanager
def own_randomness() -> Iterator[None]:
    """Let the library seed the generators of the process, and set them back."""
    ours, numpys = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(ours)
        np.random.set_state(numpys)


def saved(model: BaseAlgorithm) -> dict[str, NDArray[Any]]:
    """Return weights, optimisers, statistics and counters as plain arrays."""
    arrays = {name: np.array(getattr(model, name)) for name in COUNTERS}
    for owner, values in model.get_parameters().items():
        for key, value in values.get("state", values).items():
            inside = (
                value if isinstance(value, dict) else {"": value}
            )  # of an optimiser, or weights
            for name, tensor in inside.items():
                arrays[f"{owner}/{key}/{name}"] = tensor.detach().cpu().numpy().copy()
    for name in model._get_torch_save_params()[1]:
        arrays[name] = recursive_getattr(model, name).detach().cpu().numpy().copy()
    for name, statistics in running_statistics(model).items():
        for value in STATISTICS:
            arrays[f"{name}/{value}"] = np.array(getattr(statistics, value))
    return arrays


def restore(model: BaseAlgorithm, arrays: Arrays) -> None:
    """Give a newly built algorithm what `saved` returned."""
    for name in COUNTERS:
        setattr(model, name, arrays[name].item())
    parameters: dict[str, Any] = model.get_parameters()
    for owner, values in parameters.items():
        found: dict[Any, Any] = {}
        for path, array in arrays.items():
            if path.startswith(f"{owner}/"):
                key, name = path.removeprefix(f"{owner}/").split("/")
                tensor = torch.from_numpy(array.copy())
                if name:
                    found.setdefault(int(key), {})[name] = tensor
                else:
                    found[key] = tensor
        parameters[owner] = {**values, "state": found} if "param_groups" in values else found
    model.set_parameters(parameters)
    for name in model._get_torch_save_params()[1]:
        recursive_getattr(model, name).data = torch.from_numpy(arrays[name].copy()).to(model.device)
    for name, statistics in running_statistics(model).items():
        for value in STATISTICS:
            array = arrays[f"{name}/{value}"]
            setattr(statistics, value, array.copy() if array.ndim else array.item())


def running_statistics(model: BaseAlgorithm) -> dict[str, Any]:
    """Return the means and variances that observations and rewards are normalised by."""
    normaliser = model.get_vec_normalize_env()
    if normaliser is None:
        return {}
    kept: dict[str, Any] = {"returns": normaliser.ret_rms}
    return {**kept, "states": normaliser.obs_rms} if normaliser.norm_obs else kept


def refill(model: OffPolicyAlgorithm, parts: Sequence[Arrays], space: StateSpace) -> None:
    """Put recorded transitions into the replay buffer; where a part ended, time was up."""
    buffer = model.replay_buffer
    assert buffer is not None
    for part in parts:
        cut = part["truncated"].copy()
        cut[-1] = True
        columns = (*(part[name] for name in RECORDED[:4]), cut, part["next_states"])
        for state, action, reward, ended, late, after in zip(*columns, strict=True):
            infos = infos_of(after, ended, late)
            buffer.add(seen(state, space), seen(after, space), action, reward, ended | late, infos)
