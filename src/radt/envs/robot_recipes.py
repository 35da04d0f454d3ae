"""What Meta-World and DMControl change about runs: the paper's values, then ours for two cores.

AD's gap is the paper's share of a task's history: a tenth on Meta-World (1,000 of 10,000 episodes),
a quarter on DMControl (250 of 1,000).
"""

from __future__ import annotations

from typing import Any

from radt.envs.suite import Recipe

SMOKE, LAPTOP, PAPER = ("smoke",), ("laptop",), ("paper",)
EPISODE_PAIRS = ("ad", "dpt")  # read two whole episodes at once
STANDARDISED = {"encoder": "standardised"}  # numbers of a state differ by up to a factor of 15

ROBOTS = (
    Recipe(
        {
            "options": {
                "memory": {"top_k": 4, "retrieve_every": 25},  # ordered by return, the best last
                "training": {"blend": 0.5},
            }
        }
    ),
    Recipe({"learn": {"updates": 200_000, "evaluate_every": 50_000}}, PAPER),
    Recipe({"learn": {"updates": 6000, "batch_size": 32}, "options": {"window_step": 25}}, LAPTOP),
    Recipe({"options": {"model": STANDARDISED}, "embedder": {"model": STANDARDISED}}, LAPTOP),
    Recipe({"options": {"set_size": 100, "queries": 100}}, LAPTOP, methods=("dpt",)),
)
META_WORLD = (
    *ROBOTS,
    Recipe({"collect": {"tasks": 45}}),
    Recipe({"collect": {"episodes": 10_000}, "options": {"episode_gap": 1000}}, PAPER),
    Recipe({"evaluate": {"also_on": ("ml45",)}}, (*LAPTOP, *PAPER)),
    Recipe({"options": {"episode_gap": 10}}, LAPTOP),
    Recipe({"learn": {"batch_size": 8}}, LAPTOP, methods=EPISODE_PAIRS),
    Recipe({"collect": {"tasks": 5, "episodes": 3}}, SMOKE),
)


def ppo(**settings: Any) -> dict[str, Any]:
    """Let PPO act in eight environments at once, of which two are stored."""
    return {"envs_per_task": 8, "keep_envs": 2, "normalise": True, "settings": settings}


DM_CONTROL = (
    *ROBOTS,
    Recipe({"collect": ppo(n_steps=512, batch_size=256)}, source="sb3"),
    Recipe({"collect": {"transitions": 150_000}}, LAPTOP, source="sb3"),  # 600,000 steps a task
    Recipe({"collect": {"transitions": 1_000_000}}, PAPER, source="sb3"),
    Recipe({"evaluate": {"also_on": ("dmc11",)}}, (*LAPTOP, *PAPER)),
    Recipe({"options": {"episode_gap": 250}}, PAPER),
    Recipe({"options": {"episode_gap": 37}}, LAPTOP),
    Recipe({"learn": {"batch_size": 2}}, LAPTOP, methods=EPISODE_PAIRS),
    Recipe({"learn": {"batch_size": 2, "evaluate_every": 0}}, SMOKE),
    Recipe(
        {
            "collect": {
                "tasks": 3,
                "transitions": 2048,  # two episodes
                "envs_per_task": 1,
                "keep_envs": 1,
                "normalise": False,
                "settings": {"n_epochs": 1},
            }
        },
        SMOKE,
        source="sb3",
    ),
)
