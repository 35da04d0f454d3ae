"""In-context learning (Algorithm 1) over many tasks at once, by the agent that a user holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from radt.agent import Agent, members


class Observer(Protocol):
    """Records something while trials are rolled out."""

    def after_step(self, step: int, agent: Agent, obs: NDArray[Any], rewards: NDArray[Any]) -> None:
        """Record after each step, before the agent observes what it brought."""


@dataclass(frozen=True)
class ICLResult:
    """What came of every trial of every task: return, first reward, success."""

    returns: NDArray[np.float64]  # [task, trial]
    first_reward: NDArray[np.int64]  # [task, trial] step, -1 where none
    success: NDArray[np.float64]  # [task, trial] 1 if so by infos["success"], NaN: nobody says

    @property
    def told_success(self) -> list[list[float]] | None:
        """Which trials succeeded, where the environment says so."""
        return None if np.isnan(self.success).any() else self.success.tolist()


def env_seed(seed: int, task: int, *member: int) -> int:
    """Draw the seed of a task's environment, a stream of its own for every run and task."""
    return int(np.random.default_rng([seed, task, *member]).integers(1 << 31))


def in_context_learning(
    agent: Agent,
    env: gym.vector.VectorEnv[Any, Any, Any],
    trials: int,
    seed: int,
    after_step: Callable[[int, Agent, NDArray[Any], NDArray[Any]], None] | None = None,
    after_trial: Callable[[ICLResult, int], None] | None = None,
) -> ICLResult:
    """Roll out N trials of each task, starting with an empty memory (Algorithm 1).

    The slots of the vector environment are the agent's, and both must agree on who resets. A slot
    that has finished its trials goes on until the last one has, and what it earns then is not
    counted. `after_step` looks before the agent observes what the step brought.
    """
    mode = _autoreset_mode(agent, env)
    agent.start_task()  # line 1
    slots = np.arange(env.num_envs)
    returns = np.zeros((env.num_envs, trials))
    first_reward = np.full((env.num_envs, trials), -1)
    success = np.full((env.num_envs, trials), np.nan)
    result = ICLResult(returns, first_reward, success)
    tasks = agent.tasks
    seeds = [env_seed(seed, task, *own) for task, own in zip(tasks, members(tasks), strict=True)]
    obs, _ = env.reset(seed=seeds)  # type: ignore[arg-type]  # line 3
    step = 0
    while (finished := int(agent.trials.trial.min())) < trials:  # line 2
        actions = agent.act(obs)  # lines 5-8
        at = agent.trials.trial.copy()
        when = agent.trials.step.copy()
        obs, rewards, terminated, truncated, infos = env.step(actions)  # line 9
        counted = slots[(at < trials) & agent.is_acting]
        returns[counted, at[counted]] += rewards[counted]
        paid = counted[(rewards[counted] > 0) & (first_reward[counted, at[counted]] < 0)]
        first_reward[paid, at[paid]] = when[paid]
        if "success" in infos:
            place = (counted, at[counted])
            success[place] = np.fmax(success[place], infos["success"][counted])
        if after_step is not None:
            after_step(step, agent, obs, rewards)
        agent.observe(rewards, terminated, truncated)  # lines 10-13
        if mode == AutoresetMode.DISABLED and (over := terminated | truncated).any():
            obs, _ = env.reset(options={"reset_mask": over})
        if after_trial is not None and int(agent.trials.trial.min()) > finished:
            after_trial(result, finished + 1)
        step += 1
    return result


def _autoreset_mode(agent: Agent, env: gym.vector.VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """Return how finished episodes are reset, once agent and environment fit each other."""
    mode = AutoresetMode(env.metadata["autoreset_mode"])
    if (agent.slots, agent.autoreset_mode) != (env.num_envs, mode):
        raise ValueError(
            f"an agent of {agent.slots} slots in mode {agent.autoreset_mode.name} cannot act in "
            f"{env.num_envs} environments in mode {mode.name}; build it with slots={env.num_envs} "
            f"and autoreset_mode=AutoresetMode.{mode.name}"
        )
    return mode
