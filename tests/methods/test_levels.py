"""Where tasks have levels: they are stored, and AD and DPT read sequences of one level."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from radt.data import DataError, Dataset, write_history, write_manifest
from radt.data.reader import Episodes
from radt.methods.ad import earlier_episode
from radt.methods.dpt import draw_places
from tests.data.histories import IMAGE, manifest_of, random_history

EPISODES = 40


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return written(tmp_path, levels=5)


def written(folder: Path, levels: int) -> Dataset:
    rng, files = np.random.default_rng(0), []
    for task in (4, 1):
        history = random_history(task, IMAGE, rng, episodes=EPISODES)
        told = rng.integers(levels, size=EPISODES).astype(np.int32) if levels else None
        files.append(write_history(folder, replace(history, levels=told), IMAGE))
    write_manifest(folder, manifest_of(files, IMAGE))
    return Dataset.open(folder)


def test_levels_come_back(dataset: Dataset) -> None:
    rng = np.random.default_rng(0)
    random_history(4, IMAGE, rng, episodes=EPISODES)
    expected = rng.integers(5, size=EPISODES)
    assert np.array_equal(dataset.episodes.level[dataset.episodes.task == 4], expected)
    levels = dataset.history(4).levels
    assert levels is not None
    assert np.array_equal(levels, expected)


def test_a_file_that_lost_its_levels_is_refused(tmp_path: Path, dataset: Dataset) -> None:
    entry = dataset.manifest.files[0]
    with pytest.raises(ValueError, match="do not fit"):
        manifest_of([replace(entry, arrays=(*entry.arrays, entry.arrays[-1]))], IMAGE)
    short = random_history(4, IMAGE, np.random.default_rng(0), episodes=EPISODES)
    file = write_history(tmp_path, short, IMAGE)
    write_manifest(tmp_path, manifest_of([replace(entry, sha256=file.sha256)], IMAGE))
    with pytest.raises(DataError, match="must hold exactly"):
        Dataset.open(tmp_path)


def own_sequence(episodes: Episodes, row: int) -> list[int]:
    same = (episodes.task == episodes.task[row]) & (episodes.level == episodes.level[row])
    return np.flatnonzero(same).tolist()


@pytest.mark.parametrize("levels", [0, 5])
@pytest.mark.parametrize("gap", [1, 3, 100])
def test_the_episode_k_before_is_of_the_same_level(tmp_path: Path, levels: int, gap: int) -> None:
    episodes = written(tmp_path, levels).episodes
    rows = np.arange(len(episodes))
    for row, earlier in zip(rows, earlier_episode(episodes, rows, gap), strict=True):
        sequence = own_sequence(episodes, row)
        place = sequence.index(row)
        assert earlier == (sequence[max(0, place - gap)] if place else -1)


@pytest.mark.parametrize("levels", [0, 5])
def test_sets_are_of_earlier_episodes_of_the_same_level(tmp_path: Path, levels: int) -> None:
    episodes = written(tmp_path, levels).episodes
    rows, rng = np.arange(len(episodes)), np.random.default_rng(0)
    places = draw_places(episodes, rows, 20, 3, rng)
    for row in rows:
        sequence = own_sequence(episodes, row)
        allowed = set(sequence[: sequence.index(row)])
        assert set(places.episode[row][places.mask[row]]) <= allowed
        assert places.mask[row].any() == bool(allowed)
