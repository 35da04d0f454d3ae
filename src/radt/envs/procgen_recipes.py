"""What Procgen changes about runs: the paper's values, then ours for two cores."""

from __future__ import annotations

from typing import Any

from radt.envs.suite import Recipe

SMOKE, LAPTOP, PAPER = ("smoke",), ("laptop",), ("paper",)
EPISODE_PAIRS = ("ad", "dpt")  # read two whole episodes at once


def ppo(envs: int, keep: int, network: dict[str, Any], **settings: Any) -> dict[str, Any]:
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
    Recipe({"collect": ppo(64, 5, {"features_dim": 256}, batch_size=2048)}, PAPER, source="sb3"),
    Recipe({"options": {"model": PAPER_MODEL}, "embedder": {"model": PAPER_MODEL}}, PAPER),
    Recipe({"learn": {"updates": 200_000, "evaluate_every": 50_000}}, PAPER),
    Recipe({"options": {"episode_gap": 250}}, PAPER),
    Recipe(encoder({**PAPER_MODEL, "encoder": "impala"}, 50, updates=200_000), PAPER),
    # two cores: a million steps a game, of which one environment's are stored
    Recipe(
        {
            "collect": {
                **ppo(16, 1, {**SMALL, "features_dim": 128}, batch_size=512),
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
                **ppo(2, 1, {"features_dim": 8, "channels": [4], "shrink": 4}, n_steps=256),
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
