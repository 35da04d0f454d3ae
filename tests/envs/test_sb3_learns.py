"""An unmodified stable-baselines3 PPO learns on the single environment."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor

import radt.envs  # noqa: F401  registers the ids


def test_stable_baselines3_ppo_learns() -> None:
    env = Monitor(gym.make("radt/DarkRoom-10x10-v0", task=3))  # the goal is two right, two down
    model = PPO("MlpPolicy", env, n_steps=500, batch_size=100, learning_rate=1e-3, seed=0)
    model.learn(6_000)
    returns = env.get_episode_rewards()
    assert np.mean(returns[-5:]) > np.mean(returns[:5]) + 20
