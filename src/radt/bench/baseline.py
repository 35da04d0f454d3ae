"""The baseline of collecting: stable-baselines3's own PPO, one process of one thread per core."""

from __future__ import annotations

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

from radt.collect import CollectConfig
from radt.collect.ppo import network_inputs
from radt.collect.rollout import StateIndex
from radt.envs.suite import TaskSuite
from radt.experiments.run import RunError

LATE_EPISODES = 50
START_TIMEOUT = 600.0  # seconds that a process waits for the others before it measures


@dataclass(frozen=True)
class BaselineJob:
    """The tasks that one process learns one after the other."""

    suite: TaskSuite
    config: CollectConfig
    tasks: tuple[int, ...]
    rollouts: int  # of each task that are timed, after one to warm up


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
        model = build_ppo(job.suite, task, job.config)
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
    _require_stable_baselines3()
    from stable_baselines3 import PPO
    from stable_baselines3.common.monitor import Monitor

    return PPO(
        "MlpPolicy",
        Monitor(scaled(suite.make(task), suite, config)),
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
        policy_kwargs={"optimizer_kwargs": {"eps": config.adam_epsilon}},
        seed=config.seed + task,
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

    space = gym.spaces.Box(-1.0, 1.0, (inputs.shape[1],), np.float32)
    return gym.wrappers.TransformObservation(env, look_up, space)


def late_return(
    returns: NDArray[np.floating[Any]], lengths: NDArray[np.integer[Any]], transitions: int
) -> float | None:
    """Average the last 50 of the episodes that end within the first `transitions` steps."""
    within = np.asarray(returns)[np.cumsum(lengths) <= transitions]
    return float(within[-LATE_EPISODES:].mean()) if len(within) else None


def learn_side_by_side(
    jobs: Sequence[BaselineJob], report: Callable[[BaselineRun], None]
) -> list[list[BaselineRun]]:
    """Do each job in a process of one thread, all at the same time; runs are listed by job."""
    _require_stable_baselines3()
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
            "a process of stable-baselines3 ended before its work was done; what it said stands "
            "above. Run the benchmark again, or without returns to make it shorter"
        ) from None
    return None if message is None else BaselineRun(*message)


def baseline_version() -> str:
    """Return the version of stable-baselines3."""
    _require_stable_baselines3()
    import stable_baselines3

    return str(stable_baselines3.__version__)


def _require_stable_baselines3() -> None:
    try:
        import stable_baselines3  # noqa: F401
    except ImportError as error:
        raise RunError(
            "the baseline of this benchmark, stable-baselines3, is not installed: "
            "pip install 'radt[dev]'"
        ) from error
