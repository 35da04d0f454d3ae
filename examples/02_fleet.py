"""A fleet: four agents on one task act with one memory, so what one finds all others use."""

from __future__ import annotations

import numpy as np

import radt
from radt.envs import SUITES
from radt.icl import in_context_learning

TASK, AGENTS, TRIALS = 85, 4, 8  # the task is not among those of the training


def main() -> list[float]:
    """Roll out some trials of each agent and return the mean return of every trial."""
    loaded = radt.load(radt.shipped("dark-room-10x10"))
    tasks = [TASK] * AGENTS
    env = SUITES["dark-room-10x10"].make_vec(tasks)
    with loaded.memory("ram:") as memory:  # or shared-folder:memories/room, or postgres:room
        mode = env.metadata["autoreset_mode"]
        agents = loaded.agent(slots=AGENTS, tasks=tasks, memory=memory, autoreset_mode=mode)
        returns = in_context_learning(agents, env, TRIALS, seed=0).returns  # [agent, trial]
    for trial, earned in enumerate(np.transpose(returns), start=1):
        print(f"trial {trial}  returns " + " ".join(f"{each:3.0f}" for each in earned))
    return [float(each) for each in returns.mean(axis=0)]


if __name__ == "__main__":
    main()
