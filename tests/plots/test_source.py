"""Source curves: the numbers are those of the data, and the picture shows them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from radt.collect import CollectConfig, collect
from radt.data import DataError, Dataset
from radt.envs import KeyDoorSuite, KeyRoom
from radt.envs.suite import SUITES
from radt.plots.source import draw_source, source_curve, stretches

CONFIG = CollectConfig(n_steps=256, n_epochs=1, transitions=6000)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> list[Dataset]:
    suite = SUITES["dark-key-door-10x10"]
    assert isinstance(suite, KeyDoorSuite)
    suite = replace(suite, train_tasks=(0, 1, 9))
    configs = (CONFIG, replace(CONFIG, reveal=True))
    folders = [tmp_path_factory.mktemp("data") for _ in configs]
    for folder, config in zip(folders, configs, strict=True):
        collect(suite, config, folder, workers=1, quiet=True)
    return [Dataset.open(folder) for folder in folders]


def test_a_curve_is_the_mean_over_tasks_of_stretches(datasets: list[Dataset]) -> None:
    dataset = datasets[0]
    curve = source_curve(dataset, points=6)
    returns = np.stack([dataset.history(task).rewards.reshape(60, 100) for task in (0, 1, 9)])
    expected = returns.sum(axis=2).reshape(3, 6, 10).mean(axis=2)  # [task, stretch]
    np.testing.assert_allclose(curve.mean, expected.mean(axis=0))
    assert curve.last_tenth == pytest.approx(returns.sum(axis=2)[:, -6:].mean())
    assert curve.transitions == (1000, 2000, 3000, 4000, 5000, 6000)
    room = KeyRoom()
    best = [room.best_return(task, has_key=False) for task in (0, 1, 9)]
    assert curve.optimum == pytest.approx(np.mean(best))
    assert curve.learned is not None
    assert 0 <= curve.learned <= 1
    np.testing.assert_allclose(curve.low, np.quantile(expected, 0.1, axis=0))
    np.testing.assert_allclose(curve.high, np.quantile(expected, 0.9, axis=0))


def test_the_picture_and_its_numbers(datasets: list[Dataset], tmp_path: Path) -> None:
    curves = draw_source(datasets, tmp_path / "source.png")
    assert [curve.label for curve in curves] == [
        "dark-key-door-10x10",
        "dark-key-door-10x10, revealed to the source",
    ]
    assert (tmp_path / "source.png").stat().st_size > 10_000
    written = json.loads((tmp_path / "source.json").read_text())
    assert written[1]["mean"] == list(curves[1].mean)


def test_too_short_histories_are_refused(datasets: list[Dataset]) -> None:
    with pytest.raises(DataError, match="60 complete episodes, too few"):
        stretches(datasets[0], 0, points=61)
