"""What suites change about runs: the paper's values, then ours.

At the paper's budget only the paper's values act. Those for `laptop` are ours and were chosen on
held-out training tasks (results/tuning.jsonl).
"""

from __future__ import annotations

from typing import Any

from radt.envs.suite import Recipe

SMOKE, LAPTOP, PAPER = ("smoke",), ("laptop",), ("paper",)
EPISODE_PAIRS = ("ad", "dpt")  # read two whole episodes at once

# Dark-Room, Key-Door and MazeRunner

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


# Meta-World and DMControl. AD's gap is the paper's share of a task's history: a tenth on Meta-World
# (1,000 of 10,000 episodes), a quarter on DMControl (250 of 1,000).

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


def robot_ppo(**settings: Any) -> dict[str, Any]:
    """Let PPO act in eight environments at once, of which two are stored."""
    return {"envs_per_task": 8, "keep_envs": 2, "normalise": True, "settings": settings}


DM_CONTROL = (
    *ROBOTS,
    Recipe({"collect": robot_ppo(n_steps=512, batch_size=256)}, source="sb3"),
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


# Procgen


def game_ppo(envs: int, keep: int, network: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """Let PPO with an IMPALA network act in many environments, of which some are stored."""
    extractor = {"features_extractor_class": "impala", "features_extractor_kwargs": network}
    own = {"ent_coef": 0.01, "learning_rate": 5e-4, "n_epochs": 3, "n_steps": 256, **settings}
    policy = {**extractor, "net_arch": []}
    return {
        "envs_per_task": envs,
        "keep_envs": keep,
        "normalise": True,
        "settings": {**own, "policy_kwargs": policy},
    }


def encoder(model: dict[str, Any], context_len: int, **learn: Any) -> dict[str, Any]:
    """Train an encoder inside a Decision Transformer whose width is an embedding's."""
    teacher = {"model": model, "context_len": context_len}
    return {"encoder": {"teacher": teacher, "learn": {**learn, "evaluate_every": 0}}}


SMALL = {"channels": [16, 32, 32], "residuals": 0, "shrink": 2, "strided": True}
PAPER_MODEL = {"layers": 6, "heads": 12, "width": 768}
TEACHER = {"dropout": 0.0, "tokens": "fused", "encoder": "impala-small"}

PROCGEN = (
    Recipe({"evaluate": {"also_on": ("seen", "unseen")}}),
    Recipe({"options": {"memory": {"retrieve_every": 25}}}),
    # the paper's
    Recipe({"collect": {"tasks": 12, "transitions": 2_000_000, "parts": 100}}, source="sb3"),
    Recipe(
        {"collect": game_ppo(64, 5, {"features_dim": 256}, batch_size=2048)}, PAPER, source="sb3"
    ),
    Recipe({"options": {"model": PAPER_MODEL}, "embedder": {"model": PAPER_MODEL}}, PAPER),
    Recipe({"learn": {"updates": 200_000, "evaluate_every": 50_000}}, PAPER),
    Recipe({"options": {"episode_gap": 250}}, PAPER),
    Recipe(encoder({**PAPER_MODEL, "encoder": "impala"}, 50, updates=200_000), PAPER),
    # two cores: a million steps a game, of which one environment's are stored
    Recipe(
        {
            "collect": {
                **game_ppo(16, 1, {**SMALL, "features_dim": 128}, batch_size=512),
                "transitions": 61_440,
                "parts": 10,
            }
        },
        LAPTOP,
        source="sb3",
    ),
    Recipe(
        encoder(
            {**TEACHER, "layers": 2, "heads": 4, "width": 64},
            20,
            **{"updates": 3000, "batch_size": 16, "warmup": 100, "save_every": 50},
            **{"learning_rate": 1e-3, "final_learning_rate": 1e-5},
        ),
        LAPTOP,
    ),
    Recipe({"learn": {"batch_size": 32}, "options": {"window_step": 25}}, LAPTOP),
    Recipe({"options": {"episode_gap": 1}}, LAPTOP),  # about two episodes a level
    Recipe({"learn": {"batch_size": 4}}, LAPTOP, methods=EPISODE_PAIRS),
    Recipe({"options": {"set_size": 100, "queries": 100}}, LAPTOP, methods=("dpt",)),
    Recipe(
        {
            "collect": {
                **game_ppo(2, 1, {"features_dim": 8, "channels": [4], "shrink": 4}, n_steps=256),
                "tasks": 5,
                "transitions": 512,
                "parts": 1,
            }
        },
        SMOKE,
        source="sb3",
    ),
    Recipe(
        encoder(
            {**TEACHER, "layers": 1, "heads": 2, "width": 16}, 4, updates=2, batch_size=2, warmup=1
        ),
        SMOKE,
    ),
    Recipe({"learn": {"batch_size": 2, "evaluate_every": 0}}, SMOKE),
)
