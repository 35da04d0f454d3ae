"""The baselines of collecting: other people's PPO as it is, one process of one thread per core."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.synchronize import Barrier
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from radt.collect import CollectConfig, RecurrentConfig
from radt.collect.histories import late_return
from radt.collect.ppo import network_inputs
from radt.collect.recurrent_actor import network_view
from radt.collect.rollout import StateIndex
from radt.envs.suite import TaskSuite
from radt.experiments.run import RunError

START_TIMEOUT = 600.0  # seconds that a process waits for the others before it measures


@dataclass(frozen=True)
class BaselineJob:
    """The tasks that one process learns one after the other."""

    suite: TaskSuite
    config: Any  # the options of the source, with one environment per task
    tasks: tuple[int, ...]
    rollouts: int  # of each task that are timed, after one to warm up
    source: str = "ppo"  # a name in BASELINES


@dataclass(frozen=True)
class BaselineRun:
    """How fast one task was learned, and how well."""

    task: int
    transitions: int  # that were timed
    seconds: float
    late_return: float | None  # mean of the last episodes, None if none was finished


def learn_tasks(job: BaselineJob, start_together: Callable[[], object]) -> Iterator[BaselineRun]:
    """Train an unmodified PPO on each task in turn; all processes start timing at once."""
    for number, task in enumerate(job.tasks):
        model = BASELINES[job.source].build(job.suite, task, job.config)
        model.learn(job.config.n_steps)
        if number == 0:
            start_together()
        begun = time.perf_counter()
        model.learn(job.rollouts * job.config.n_steps, reset_num_timesteps=False)
        seconds = time.perf_counter() - begun
        monitor = model.get_env().envs[0]
        found = late_return(
            np.array(monitor.get_episode_rewards()),
            np.array(monitor.get_episode_lengths()),
            job.config.transitions,
        )
        yield BaselineRun(task, job.rollouts * job.config.n_steps, seconds, found)


def build_ppo(suite: TaskSuite, task: int, config: CollectConfig) -> Any:
    """Build stable-baselines3's PPO with the collector's hyper-parameters and inputs."""
    from stable_baselines3 import PPO

    env = scaled(suite.make(task), suite, config)
    return _build(PPO, "MlpPolicy", env, config, config.seed + task, {})


def build_recurrent_ppo(suite: TaskSuite, task: int, config: RecurrentConfig) -> Any:
    """Build sb3-contrib's RecurrentPPO with the collector's hyper-parameters and inputs."""
    from sb3_contrib import RecurrentPPO

    env, state = suite.make(task), suite.spaces.state
    if state.kind == "discrete":
        view = network_view(state)
        env = shown(env, lambda seen: view(seen[None])[0].numpy(), len(state.bins))
    width = {"lstm_hidden_size": config.units}
    return _build(RecurrentPPO, "MlpLstmPolicy", env, config, config.seed + task, width)


def _build(
    learner: Any,
    policy: str,
    env: gym.Env[Any, Any],
    config: CollectConfig | RecurrentConfig,
    seed: int,
    width: dict[str, int],
) -> Any:
    from stable_baselines3.common.monitor import Monitor

    return learner(
        policy,
        Monitor(env),
        learning_rate=config.learning_rate,
        n_steps=config.n_steps,
        batch_size=config.batch_size,
        n_epochs=config.n_epochs,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        clip_range=config.clip_range,
        ent_coef=config.ent_coef,
        vf_coef=config.vf_coef,
        max_grad_norm=config.max_grad_norm,
        policy_kwargs={"optimizer_kwargs": {"eps": config.adam_epsilon}, **width},
        seed=seed,
        device="cpu",
    )


def scaled(env: gym.Env[Any, Any], suite: TaskSuite, config: CollectConfig) -> gym.Env[Any, Any]:
    """Show the observations as the collector's networks see them; raw ones stay as they are."""
    if config.observation_scale == "raw":
        return env
    index = StateIndex(suite.spaces.state)
    inputs = network_inputs(index, config.observation_scale)[:, :-1].numpy()
    table = inputs.reshape(*index.bins, -1)  # [*bins, coordinates]

    def look_up(observation: NDArray[Any]) -> NDArray[np.float32]:
        row: NDArray[np.float32] = table[tuple(observation)]
        return row

    return shown(env, look_up, inputs.shape[1])


def shown(
    env: gym.Env[Any, Any], look: Callable[[NDArray[Any]], NDArray[np.float32]], width: int
) -> gym.Env[Any, Any]:
    """Show other observations: `width` numbers from -1 to 1."""
    space = gym.spaces.Box(-1.0, 1.0, (width,), np.float32)
    return gym.wrappers.TransformObservation(env, look, space)


@dataclass(frozen=True)
class Baseline:
    """A library whose learner a source is measured against."""

    name: str
    module: str
    build: Callable[[TaskSuite, int, Any], Any]

    def version(self) -> str:
        """Return which version is installed, or say how to install one."""
        try:
            return str(importlib.import_module(self.module).__version__)
        except ImportError as error:
            raise RunError(
                f"the baseline of this benchmark, {self.name}, is not installed: "
                "pip install 'radt[dev]'"
            ) from error


BASELINES = {
    "ppo": Baseline("stable-baselines3", "stable_baselines3", build_ppo),
    "ppo-lstm": Baseline("sb3-contrib", "sb3_contrib", build_recurrent_ppo),
}


def learn_side_by_side(
    jobs: Sequence[BaselineJob], report: Callable[[BaselineRun], None]
) -> list[list[BaselineRun]]:
    """Do each job in a process of one thread, all at the same time; runs are listed by job."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(jobs))
    processes, runs = {}, [list[BaselineRun]() for _ in jobs]
    try:
        for number, job in enumerate(jobs):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(job, barrier, sender))
            process.start()
            sender.close()  # so that the pipe ends when the process does
            processes[receiver] = (number, process)
        listening = dict(processes)
        while listening:
            for ready in wait(list(listening)):
                assert isinstance(ready, Connection)
                number, _ = listening[ready]
                run = _receive(ready)
                if run is None:
                    del listening[ready]
                else:
                    runs[number].append(run)
                    report(run)
    finally:
        for _, process in processes.values():
            process.terminate()
            process.join()
    return runs


def _work(job: BaselineJob, barrier: Barrier, sender: Connection) -> None:
    import torch

    torch.set_num_threads(1)
    for run in learn_tasks(job, lambda: barrier.wait(START_TIMEOUT)):
        sender.send_bytes(json.dumps(astuple(run)).encode())
    sender.send_bytes(b"null")


def _receive(receiver: Connection) -> BaselineRun | None:
    """Return the next finished task of a process, or None at its end."""
    try:
        message = json.loads(receiver.recv_bytes())
    except EOFError:
        raise RunError(
            "a process of the baseline ended before its work was done; what it said stands above. "
            "Run the benchmark again, or without returns to make it shorter"
        ) from None
    return None if message is None else BaselineRun(*message)
