"""What Dark-Room, Key-Door and MazeRunner change about runs: the paper's values, then ours.

At the paper's budget only the paper's values act. Those for `laptop` are ours and were chosen on
held-out training tasks (results/tuning.jsonl).
"""

from __future__ import annotations

from typing import Any

from radt.envs.suite import Recipe

LAPTOP = ("laptop",)
PLUS = ("ra-dt+",)
SEES_THE_KEY = Recipe({"collect": {"privileged": True}}, source="ppo")  # else few tasks are learned
ALIGNED = {"options": {"memory": {"utility": "aligned-return"}}}  # chunks often begin on the goal

LONG = (  # the paper's, for 20x20 and 40x20
    Recipe({"options": {"context_len": 100, "memory": {"context_len": 100}}}),
    Recipe(ALIGNED, labels=PLUS),
)
PPO_20X20 = Recipe({"collect": {"n_epochs": 30}}, source="ppo")
PPO_40X20 = Recipe(
    {"collect": {"n_epochs": 30, "ent_coef": 0.1, "transitions": 200_000}}, source="ppo"
)
MIN_LENGTH = Recipe({"options": {"training": {"min_length": 10}}})  # Dark-Room and Key-Door only
SMALL_BATCH = {"learn": {"batch_size": 32}}
EPISODE_PAIRS = ("ad", "dpt")  # read two whole episodes at once

MAZES = (
    Recipe({"options": {"memory": {"retrieve_every": 25}}}),
    Recipe({"options": {"episode_gap": 1000}}, labels=("ad",)),
    Recipe(ALIGNED, labels=PLUS),
    Recipe({"evaluate": {"also_on": ("training-tasks", "fresh")}}),
)

LONG_EPISODES: dict[str, Any] = {  # of ra-dt+, where most of an episode is spent on its goal
    "min_return": 0.5,  # the source never solves some tasks, and walks at random there
    "start_windows": 0.75,
    "translate": 0.5,
    "model": {"heads": 1},  # a head of 16 numbers has few to tell 40 rows and columns by
    "training": {"start_chunks": True},
    "memory": {"loop_erased": True},
}
ONE_GOAL = {**LONG_EPISODES, "training": {**LONG_EPISODES["training"], "truncated_chunks": 0.5}}
KEY_THEN_DOOR = {**LONG_EPISODES, "subgoals": True}

KEY_DOOR_10X10 = (
    Recipe(SMALL_BATCH, LAPTOP),
    Recipe({"options": KEY_THEN_DOOR}, LAPTOP, labels=PLUS),
)
KEPT_KEY_10X10 = (Recipe(SMALL_BATCH, LAPTOP),)
FEW_QUESTIONS = {  # questions that are keys: a language model takes 30 ms to read 100 steps
    "options": {
        "episode_every": 25,
        "memory": {"retrieve_every": 100},
        "training": {"query_offsets": (0,)},
    }
}


def long_room(width: int, one_goal: bool) -> tuple[Recipe, ...]:
    """Say what grids of 20x20 and 40x20 change; ra-dt+ differs with what there is to find."""
    paper = (PPO_20X20,) if width == 20 else (PPO_40X20, Recipe(SMALL_BATCH, ("paper",)))
    return (
        *LONG,
        *paper,
        Recipe(SMALL_BATCH, LAPTOP),
        # 800 steps and more each: four times as many updates, of sets ten times as many
        Recipe({"learn": {"batch_size": 8}}, LAPTOP, methods=EPISODE_PAIRS),
        Recipe({"options": {"set_size": 100, "queries": 100}}, LAPTOP, methods=("dpt",)),
        # half of the context: most decisions read one step instead of 100
        Recipe({"options": {"window_step": 50}}, LAPTOP),
        Recipe(FEW_QUESTIONS, LAPTOP, labels=("ra-dt-lm",)),
        Recipe({"options": ONE_GOAL if one_goal else KEY_THEN_DOOR}, LAPTOP, labels=PLUS),
    )


def dark_room(width: int) -> tuple[Recipe, ...]:
    """Return the recipes of Dark-Room by its width."""
    return (MIN_LENGTH, *(() if width == 10 else long_room(width, one_goal=True)))


def key_door(width: int, persist: bool) -> tuple[Recipe, ...]:
    """Return the recipes of Key-Door by its width; a kept key is found once for all trials."""
    sees = (MIN_LENGTH,) if persist else (MIN_LENGTH, SEES_THE_KEY)
    if width == 10:
        return (*sees, *(KEPT_KEY_10X10 if persist else KEY_DOOR_10X10))
    return (*sees, *long_room(width, one_goal=persist))
