"""At paper budget every value is the paper's (appendices B and C), or a departure.

The rows are (environments, rows, path, value); the departures say both values and why.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import radt
from radt.decode import leaves
from radt.envs.suite import SUITES

DEPARTURES_PAGE = Path(__file__).parents[2] / "docs" / "departures.md"
DARK = tuple(f"{game}-{size}" for game in ("dark-room", "dark-key-door") for size in ("10x10",))
LARGE = ("dark-room-20x20", "dark-key-door-20x20")
LARGEST = ("dark-room-40x20", "dark-key-door-40x20")
MAZE = ("maze-runner-15x15",)
GRIDS = (*DARK, *LARGE, *LARGEST)
ALL = (*GRIDS, *MAZE)
RETRIEVING = ("ra-dt", "ra-dt-lm")
EVERY = ("dt", "ad", "dpt", *RETRIEVING)
ROOMY = (*DARK, *LARGE, *MAZE)

TABLE: tuple[tuple[tuple[str, ...], tuple[str, ...], str, Any], ...] = (
    # C.1, all methods
    (ALL, EVERY, "learn.updates", 100_000),
    (ALL, EVERY, "learn.evaluate_every", 25_000),
    (ROOMY, EVERY, "learn.batch_size", 128),
    (LARGEST, EVERY, "learn.batch_size", 32),
    (ALL, EVERY, "learn.learning_rate", 1e-4),
    (ALL, EVERY, "learn.final_learning_rate", 1e-6),
    (ALL, EVERY, "learn.warmup", 4000),
    (ALL, EVERY, "learn.clip", 0.25),
    (ALL, EVERY, "learn.weight_decay", 0.01),
    (ALL, EVERY, "options.model.dropout", 0.2),
    (ALL, EVERY, "options.model.layers", 4),
    (ALL, EVERY, "options.model.heads", 8),
    (ALL, EVERY, "options.model.width", 512),
    (ALL, EVERY, "options.model.tokens", "interleaved"),
    (ALL, EVERY, "options.model.encoder", None),  # linear layers
    (ALL, EVERY, "options.top_fraction", 1.0),
    (GRIDS, EVERY, "evaluate.trials", 40),
    (MAZE, EVERY, "evaluate.trials", 30),
    # B, data
    (ROOMY, EVERY, "collect.transitions", 100_000),
    (LARGEST, EVERY, "collect.transitions", 200_000),
    (GRIDS, EVERY, "collect.learning_rate", 3e-4),
    (GRIDS, EVERY, "collect.batch_size", 64),
    (GRIDS, EVERY, "collect.n_steps", 2048),
    (DARK, EVERY, "collect.n_epochs", 10),
    ((*LARGE, *LARGEST), EVERY, "collect.n_epochs", 30),
    ((*DARK, *LARGE), EVERY, "collect.ent_coef", 0.01),
    (LARGEST, EVERY, "collect.ent_coef", 0.1),
    (MAZE, EVERY, "source", "ppo-lstm"),
    (MAZE, EVERY, "collect.tasks", 100),
    (MAZE, EVERY, "collect.keep_above", 0.25),
    # C.2 and C.3, what DT and AD have
    (ALL, ("dt", *RETRIEVING), "options.model.return_to_go", True),
    (ALL, ("ad", "dpt"), "options.model.return_to_go", False),
    (GRIDS, ("ad",), "options.episode_gap", 100),
    (MAZE, ("ad",), "options.episode_gap", 1000),
    (ALL, ("ad",), "options.loss_on", "all"),
    # C.4 and its table, RA-DT
    ((*DARK, *MAZE), RETRIEVING, "options.memory.context_len", 50),
    ((*LARGE, *LARGEST), RETRIEVING, "options.memory.context_len", 100),
    (ALL, RETRIEVING, "options.memory.past_len", None),  # C
    (ALL, RETRIEVING, "options.memory.future_len", None),
    (ALL, RETRIEVING, "options.memory.top_l", 50),
    (ALL, RETRIEVING, "options.memory.top_k", 1),
    (GRIDS, RETRIEVING, "options.memory.retrieve_every", 1),
    (MAZE, RETRIEVING, "options.memory.retrieve_every", 25),
    (ALL, RETRIEVING, "options.memory.alpha", 1.0),
    (ALL, RETRIEVING, "options.training.alpha", None),  # the same
    (ALL, RETRIEVING, "options.memory.utility", "return"),
    (ALL, RETRIEVING, "options.memory.index", "flat"),
    (ALL, RETRIEVING, "options.memory.store_above", None),
    (ALL, RETRIEVING, "options.memory.dedup", None),
    (ALL, RETRIEVING, "options.training.query", "window"),
    (ALL, RETRIEVING, "options.training.query_offsets", None),
    (ALL, RETRIEVING, "options.training.contexts", "retrieved"),
    (ALL, RETRIEVING, "options.training.sampled_share", 0.0),
    (ALL, RETRIEVING, "options.training.any_task_share", 0.0),
    (ALL, RETRIEVING, "options.training.pool", None),
    (ALL, RETRIEVING, "options.training.utility", "task"),
    (ALL, RETRIEVING, "options.training.query_dropout", 0.2),
    (ALL, RETRIEVING, "options.training.cut_off", 0.98),
    (ALL, RETRIEVING, "options.training.dedup", 0.98),
    (ALL, RETRIEVING, "options.training.blend", None),
    (GRIDS, RETRIEVING, "options.training.min_length", 10),
    (MAZE, RETRIEVING, "options.training.min_length", 0),
    (ALL, RETRIEVING, "options.episode_every", 1),
    (ALL, RETRIEVING, "options.window_step", 1),
    (ALL, RETRIEVING, "options.model.cross_layers", None),  # after every self-attention
    (ALL, RETRIEVING, "options.model.chunk_embedding", "separate"),
    (ALL, RETRIEVING, "options.model.chunk_encoder", 0),
    (ALL, RETRIEVING, "options.model.return_bins", None),
    (ALL, RETRIEVING, "options.model.return_loss", 0.0),
    (ALL, RETRIEVING, "embedder.query_tokens", "states"),
    (ALL, ("ra-dt",), "embedder.model.layers", 4),
    (ALL, ("ra-dt",), "embedder.model.heads", 8),
    (ALL, ("ra-dt",), "embedder.model.width", 512),
    (ALL, ("ra-dt",), "embedder.model.dropout", 0.2),
    (ALL, ("ra-dt",), "embedder.model.tokens", "interleaved"),
    (ALL, ("ra-dt",), "embedder.updates", 100_000),
    (ALL, ("ra-dt-lm",), "embedder.model", "bert-base-uncased"),
    (ALL, ("ra-dt-lm",), "embedder.beta", 10.0),
    (ALL, ("ra-dt-lm",), "embedder.tokens", "interleaved"),
    (ALL, ("ra-dt-lm",), "embedder.return_to_go", True),
)

DEPARTURES: tuple[tuple[tuple[str, ...], tuple[str, ...], str, Any, Any, str], ...] = (
    # environments, rows, path, value of paper or code, ours, name in docs/departures.md
    ((*DARK, *MAZE), ("dt",), "options.context_len", "two episodes", 50, "DT's context"),
    ((*LARGE, *LARGEST), ("dt",), "options.context_len", "two episodes", 100, "DT's context"),
    (ALL, ("ad",), "options.context_dropout", 0.0, 0.1, "AD without an earlier episode"),
    (ALL, ("dpt",), "options.context_dropout", 0.0, 0.1, "DPT's transitions"),
    (ALL, ("dpt",), "options.queries", 1, 50, "DPT's input"),
    (ALL, RETRIEVING, "options.training.context_dropout", 0.0, 0.1, "empty memory"),
    (ALL, ("ra-dt",), "embedder.model.return_to_go", True, False, "return-to-go in keys"),
    (ALL, ("ra-dt-lm",), "embedder.similarity", "dot", "cosine", "FrozenHopfield"),
    (ALL, RETRIEVING, "options.memory.similarity", "inner product", "cosine", "similarity at inf"),
)

TARGETS = {
    **dict.fromkeys(DARK, (90, 5)),
    **dict.fromkeys(LARGE, (370, 10)),
    **dict.fromkeys(LARGEST, (500, 10)),
    **dict.fromkeys(MAZE, (3, 0)),
}


@pytest.mark.parametrize("row", EVERY)
@pytest.mark.parametrize("env", ALL)
def test_every_value_is_the_papers_or_a_departure(env: str, row: str) -> None:
    values = leaves(radt.preset(env, row, "paper").to_json())
    expected = {path: value for envs, rows, path, value in TABLE if env in envs and row in rows}
    for envs, rows, path, papers, ours, _ in DEPARTURES:
        if env in envs and row in rows:
            assert ours != papers
            assert path not in expected
            expected[path] = ours
    assert {path: values[path] for path in expected} == expected


def test_departures_are_told() -> None:
    page = DEPARTURES_PAGE.read_text()
    for *_, name in DEPARTURES:
        assert f"| {name}" in page, name


@pytest.mark.parametrize("env", ALL)
def test_target_returns_are_the_papers(env: str) -> None:
    assert SUITES[env].target_return == TARGETS[env]
