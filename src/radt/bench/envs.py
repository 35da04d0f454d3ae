"""`radt bench envs`: steps a second of simulated robots, in EnvPool and in the originals.

Each task is stepped with random actions in three ways: as a pool of many environments, as one slot
of ours, which is a pool of one environment with its actions checked, and by `metaworld` or
`dm_control` in this process. Resets at the end of an episode are timed with the steps.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from radt.bench import USUAL, EnvsArguments, Resources
from radt.bench.common import mean_seconds, tracked, with_provenance
from radt.envs import ROBOTS
from radt.envs.dm_control import DMControlSuite
from radt.envs.meta_world import MetaWorldSuite
from radt.envs.pools import module
from radt.errors import RunError
from radt.registry import UnknownNameError

TABLE = ("tasks", ("task", "pool", "slot", "original", "pool_by_original", "slot_by_original"))
WARM_UP = 20  # steps that are not timed
Robots = MetaWorldSuite | DMControlSuite
Step = Callable[[int], object]  # told which one it is


def bench_envs(arguments: EnvsArguments, resources: Resources = USUAL) -> dict[str, Any]:
    """Measure tasks of both suites; the ratio is the median of pools by originals."""
    if min(arguments.steps, arguments.num_envs) < 1:
        raise RunError("--steps and --num-envs must be at least 1")
    known = {name: (suite, task) for suite in ROBOTS for task, name in enumerate(suite.names)}
    asked = arguments.tasks.split(",") if arguments.tasks else list(known)
    if unknown := [name for name in asked if name not in known]:
        raise UnknownNameError("task", unknown[0], list(known))
    rows = [
        measured(*known[name], arguments, resources.workers)
        for name in tracked("step", asked, resources.quiet)
    ]
    packages = {ORIGINALS[row["suite"]][0] for row in rows if row["original"] is None}
    ratios = [row["pool_by_original"] for row in rows if row["original"] is not None]
    told = {
        "num_envs": arguments.num_envs,
        "threads": resources.workers,
        "steps": arguments.steps,
        "missing": "; ".join(f"{name}: pip install {name}" for name in sorted(packages)),
        "tasks": rows,
    }
    return with_provenance("envs", told, float(np.median(ratios)) if ratios else None)


def measured(suite: Robots, task: int, arguments: EnvsArguments, threads: int) -> dict[str, Any]:
    """Time one task in all ways, in steps a second of all environments together."""
    count, steps = arguments.num_envs, arguments.steps
    package, original_step = ORIGINALS[suite.name]
    pool = count * per_second(pool_step(suite, task, count, threads), -(-steps // count))
    slot = per_second(slot_step(suite, task), steps)
    original = per_second(original_step(suite, task), steps) if find_spec(package) else None
    return {
        "task": suite.names[task],
        "suite": suite.name,
        "pool": pool,
        "slot": slot,
        "original": original,
        "pool_by_original": original and pool / original,
        "slot_by_original": original and slot / original,
    }


def per_second(step: Step, times: int) -> float:
    """Return how often a step is taken in a second."""
    for number in range(WARM_UP):
        step(number)
    return 1 / mean_seconds(step, times, at_least=0.0)


def random_actions(num_envs: int, size: int) -> Callable[[int], Any]:
    """Draw actions in advance, so that drawing is not timed."""
    drawn = np.random.default_rng(0).uniform(-1.0, 1.0, (64, num_envs, size))
    return lambda number: drawn[number % 64]


def pool_step(suite: Robots, task: int, num_envs: int, threads: int) -> Step:
    """Step a pool of many environments, which begin anew by themselves."""
    pool = module("envpool").make_gymnasium(
        suite.pools[task],
        num_envs=num_envs,
        num_threads=threads,
        seed=0,
        max_episode_steps=suite.spaces.horizon,
    )
    pool.reset()
    choose = random_actions(num_envs, suite.spaces.valid_action_dims(task))
    return lambda number: pool.step(choose(number))


def slot_step(suite: Robots, task: int) -> Step:
    """Step one slot of ours."""
    env = suite.make_vec([task])
    env.reset(seed=0)
    choose = random_actions(1, suite.spaces.action.size)
    return lambda number: env.step(choose(number))


def metaworld_step(suite: Robots, task: int) -> Step:
    """Step an environment of `metaworld`."""
    table = module("metaworld.env_dict").ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE
    env = table[f"{suite.names[task]}-v3-goal-observable"](seed=0)
    env.reset()
    choose = random_actions(1, suite.spaces.action.size)

    def step(number: int) -> None:
        if number % suite.spaces.horizon == 0:
            env.reset()
        env.step(choose(number)[0])

    return step


def dm_control_step(suite: Robots, task: int) -> Step:
    """Step an environment of `dm_control`, which begins anew by itself."""
    domain, name = suite.names[task].split("-")
    env = module("dm_control.suite").load(domain, name, task_kwargs={"random": 0})
    env.reset()
    choose = random_actions(1, suite.spaces.valid_action_dims(task))
    return lambda number: env.step(choose(number)[0])


ORIGINALS = {  # by suite: the package, and how a task of it is stepped
    "meta-world": ("metaworld", metaworld_step),
    "dm-control": ("dm_control", dm_control_step),
}
