from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from radt.data import Dataset, History, card, render, write_history, write_manifest
from radt.data.stats import QUANTILES, sparkline
from tests.data.histories import GRID, SPACES, manifest_of, random_history, write_dataset


def learning_history(task: int) -> History:
    """Return twenty episodes of ten steps; the n-th has return n // 2, and cells (0, 0..2)."""
    rewards = np.repeat(np.arange(20) // 2, 10) / 10
    states = np.stack([np.zeros(200), np.arange(200) % 3], axis=1).astype(int)
    return History(task, states, np.zeros(200, int), rewards, np.full(20, 10))


def test_the_card_counts_what_is_there(tmp_path: Path) -> None:
    files = [write_history(tmp_path, learning_history(task), GRID) for task in range(3)]
    write_manifest(tmp_path, manifest_of(files, GRID))
    dataset = Dataset.open(tmp_path)
    got = card(dataset)
    assert (got.tasks, got.episodes, got.transitions) == (3, 60, 600)
    assert got.bytes == 600 * (2 + 1 + 4) + 60 * 4
    assert got.return_by_tenth == pytest.approx(range(10))
    assert got.return_quantiles == pytest.approx(np.quantile(np.arange(20) // 2, QUANTILES))
    assert got.length_quantiles == (10.0,) * len(QUANTILES)
    assert got.coverage == pytest.approx(3 / 54)
    assert got.sha256 == dataset.sha256
    assert card(dataset.select([1])).tasks == 1
    text = render(got)
    for part in ("toy (train), ppo, seed 3", "▁▂▃▃▄▅▆▆▇█  0 to 9", "5.6% of all cells", "600"):
        assert part in text


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("kind", SPACES)
def test_every_kind_of_dataset_has_a_card(tmp_path: Path, kind: str, in_memory: bool) -> None:
    write_dataset(tmp_path, SPACES[kind], episodes=3)
    got = card(Dataset.open(tmp_path, in_memory=in_memory))
    assert (got.coverage is None) == (kind != "grid")
    assert got.return_by_tenth.count(None) == 7
    assert json.loads(json.dumps(dataclasses.asdict(got)))["episodes"] == 9
    assert "lengths" in render(got)


def test_a_dataset_without_episodes_has_a_card(tmp_path: Path, rng: np.random.Generator) -> None:
    files = [write_history(tmp_path, random_history(0, GRID, rng, episodes=0), GRID)]
    write_manifest(tmp_path, manifest_of(files, GRID))
    got = card(Dataset.open(tmp_path))
    assert (got.episodes, got.coverage, got.return_quantiles) == (0, None, ())
    assert "no complete episode" in render(got)


def test_sparklines() -> None:
    assert sparkline(()) == ""
    assert sparkline((1.0, 1.0)) == "▁▁"
    assert sparkline((0.0, None, 7.0)) == "▁ █"
