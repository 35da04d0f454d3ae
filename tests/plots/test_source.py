"""Source curves: the numbers are those of the data, and the picture shows them."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from radt import preset
from radt.collect import CollectConfig, record_histories
from radt.data import DataError, Dataset, History, write_history, write_manifest
from radt.decode import DecodeError
from radt.envs import KeyDoorSuite, KeyRoom
from radt.envs.suite import SUITES
from radt.plots.source import data_facts, draw_source, facts_of, source_curve, stretches
from tests.data.histories import manifest_of

CONFIG = CollectConfig(n_steps=256, n_epochs=1, transitions=6000)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> list[Dataset]:
    suite = SUITES["dark-key-door-10x10"]
    assert isinstance(suite, KeyDoorSuite)
    suite = replace(suite, train_tasks=(0, 1, 9))
    configs = (CONFIG, replace(CONFIG, privileged=True))
    folders = [tmp_path_factory.mktemp("data") for _ in configs]
    for folder, config in zip(folders, configs, strict=True):
        record_histories(suite, config, folder, workers=1, quiet=True)
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
        "dark-key-door-10x10, privileged",
    ]
    assert (tmp_path / "source.png").stat().st_size > 10_000
    written = json.loads((tmp_path / "source.json").read_text())
    assert written[1]["mean"] == list(curves[1].mean)


PARTS = ["curve/transitions", "curve/mean", "curve/low", "curve/high", "card/return_quantiles"]


@pytest.mark.parametrize("name", PARTS)
def test_facts_without_some_of_their_numbers_are_refused(
    name: str, datasets: list[Dataset], tmp_path: Path
) -> None:
    facts, (part, column) = asdict(facts_of(datasets[0])), name.split("/")
    facts[part][column] = facts[part][column][1:]
    (tmp_path / "dataset.json").write_text(json.dumps(facts))
    with pytest.raises(DecodeError, match=r"dataset\.json is damaged .*; delete it"):
        data_facts(preset("dark-room-10x10", "dt"), tmp_path)


def test_too_short_histories_are_refused(datasets: list[Dataset]) -> None:
    with pytest.raises(DataError, match="60 complete episodes, too few"):
        source_curve(datasets[0], points=61)


def test_short_histories_have_a_curve_of_few_points(tmp_path: Path) -> None:
    assert len(source_curve(counted(tmp_path / "few", {0: [9] * 3, 1: [9] * 4})).mean) == 3
    with pytest.raises(DataError, match="1 complete episodes, too few for a curve of 2"):
        source_curve(counted(tmp_path / "one", {0: [9], 1: [9] * 4}))


def counted(folder: Path, lengths: dict[int, list[int]]) -> Dataset:
    """Write tasks with episodes of these lengths, each paid its number at its end."""
    spaces = SUITES["dark-room-10x10"].spaces
    files = []
    for task, own in lengths.items():
        count, ends = sum(own), np.cumsum(own) - 1
        rewards = np.zeros(count, np.float32)
        rewards[ends] = range(len(own))
        states, actions = np.zeros((count, *spaces.state.shape), int), np.zeros(count, int)
        history = History(task, states, actions, rewards, np.array(own, np.int32))
        files.append(write_history(folder, history, spaces))
    write_manifest(folder, replace(manifest_of(files, spaces), env="dark-room-10x10"))
    return Dataset.open(folder)


def test_stretches_are_of_transitions_where_episodes_get_shorter(tmp_path: Path) -> None:
    dataset = counted(tmp_path, {0: [80, 60, *[10] * 6]})
    curve = source_curve(dataset, points=5)
    assert curve.transitions == (40, 80, 120, 160, 200)
    # The first stretch sees no end and looks ahead, the third sees none and looks back.
    assert curve.mean == (0.0, 0.0, 0.0, 2.0, 5.5)
    assert curve.last_tenth == 6.5
    assert stretches(dataset, 0, np.array([140, 170, 200])).tolist() == [0.5, 3.0, 6.0]


def test_the_last_tenth_is_of_each_historys_own_transitions(tmp_path: Path) -> None:
    dataset = counted(tmp_path, {0: [10] * 20, 1: [*[1] * 10, 50, 5, 5]})
    curve = source_curve(dataset, points=4)
    assert curve.transitions == (50, 100, 150, 200)
    # After 70 transitions the second task goes on as it ended.
    assert curve.mean == (3.25, 9.0, 11.5, 14.0)
    assert curve.last_tenth == (18.5 + 11.5) / 2
