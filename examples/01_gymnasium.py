"""An agent with an empty memory in a plain Gymnasium loop: it improves without weight updates."""

from __future__ import annotations

import gymnasium

import radt

TASK = 85  # a goal that is not among the training tasks
TRIALS = 15


def main() -> list[float]:
    """Roll out some trials of one task and return their returns."""
    env = gymnasium.make("radt/DarkRoom-10x10-v0", task=TASK)
    agent = radt.load(radt.shipped("dark-room-10x10")).agent(seed=0)
    agent.start_task()  # an empty memory
    returns = []
    for trial in range(1, TRIALS + 1):
        obs, _ = env.reset(seed=trial)
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(agent.act(obs))
            agent.observe(float(reward), terminated, truncated)  # stores finished trials
            total += float(reward)
            over = terminated or truncated
        returns.append(total)
        print(f"trial {trial:2d}  return {total:3.0f}  {'#' * round(total / 2)}")
    return returns


if __name__ == "__main__":
    main()
