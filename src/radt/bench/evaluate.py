"""`radt bench evaluate`: many tasks at once against one task after the other, with the same noise.

Sums of floats are rounded differently in batches of other sizes, so that a rare action can differ:
the record says in how many trials both sides earned the same.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from radt.bench import USUAL, EvaluateArguments, Resources
from radt.bench.common import tracked, with_provenance
from radt.envs.suite import SUITES, TaskSuite
from radt.icl import env_seed, in_context_learning
from radt.loading import Loaded, load, shipped
from radt.runs.run import RunError

TABLE = ("", ())


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
    tasks = known[: arguments.tasks]
    returns, seconds = dict[str, NDArray[np.float64]](), dict[str, float]()
    for name in tracked("evaluate", ("together", "alone"), resources.quiet):
        act = act_together if name == "together" else act_alone
        act(loaded, suite, tasks[:1], 1, seed)  # to warm up
        begun = time.perf_counter()
        returns[name] = act(loaded, suite, tasks, trials, seed)
        seconds[name] = time.perf_counter() - begun
    measured = {
        "env": suite.name,
        "method": loaded.label,
        "checkpoint": loaded.path.name,
        "tasks": len(tasks),
        "trials": trials,
        "seed": seed,
        "threads": torch.get_num_threads(),
        "device": resources.device,
        "seconds": seconds,
        "trials_per_second": {name: len(tasks) * trials / seconds[name] for name in seconds},
        "equal_returns": float((returns["together"] == returns["alone"]).mean()),
        "mean_return": {name: float(earned.mean()) for name, earned in returns.items()},
    }
    return with_provenance("evaluate", measured, seconds["alone"] / seconds["together"])


def act_together(
    loaded: Loaded, suite: TaskSuite, tasks: Sequence[int], trials: int, seed: int
) -> NDArray[np.float64]:
    """Roll out all tasks side by side, as `radt evaluate` does; returns are [task, trial]."""
    env = suite.make_vec(tasks)
    agent = loaded.agent(len(tasks), seed, env.metadata["autoreset_mode"], tasks=tasks)
    returns = in_context_learning(agent, env, trials, seed).returns
    env.close()
    return returns


def act_alone(
    loaded: Loaded, suite: TaskSuite, tasks: Sequence[int], trials: int, seed: int
) -> NDArray[np.float64]:
    """Act in one plain environment after the other, with the noise that each has beside others."""
    returns = np.zeros((len(tasks), trials))
    for row, task in enumerate(tasks):
        agent, env = loaded.agent(seed=seed, tasks=[task]), suite.make(task)
        agent.start_task()
        obs, _ = env.reset(seed=env_seed(seed, task))
        for trial in range(trials):
            if trial > 0:
                obs, _ = env.reset()
            over = False
            while not over:
                obs, reward, terminated, truncated, _ = env.step(agent.act(obs))
                agent.observe(float(reward), terminated, truncated)
                returns[row, trial] += float(reward)
                over = terminated or truncated
        env.close()
    return returns
