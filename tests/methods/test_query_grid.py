"""Training windows that ask near the steps of entries, so that a query is often a cached key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radt.data import Dataset
from radt.methods.ra_dt import RADT, RADTOptions
from radt.methods.training_contexts import RetrievalTraining
from tests.contracts.method import OPTIONS, build_method, toy_dataset
from tests.memory.tiny_language import tiny_embedder
from tests.toys import TOY_GRID


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return toy_dataset(TOY_GRID, tmp_path_factory.mktemp("grid"), episodes=6)


def method(**changes: Any) -> RADT:
    given = {**OPTIONS["ra-dt"], **changes}
    built = build_method("ra-dt", TOY_GRID.spaces, given)
    assert isinstance(built, RADT)
    return built


@pytest.mark.parametrize("offsets", [(0,), (0, 3), (3, 0, 1)])
def test_queries_are_asked_at_the_latest_known_place(
    offsets: tuple[int, ...], dataset: Dataset
) -> None:
    chosen = method(training={"query_offsets": list(offsets)})
    chosen.prepare(dataset)
    windows = chosen.sampler.draw(500, np.random.default_rng(0))
    asked = chosen.memory.draw_query_steps(windows, np.random.default_rng(1))
    step = np.random.default_rng(1).integers(windows.start, windows.stop)
    places = np.array([t for t in range(TOY_GRID.spaces.horizon) if t % 4 in offsets])  # C = 4
    assert asked.tolist() == [places[places <= t].max() for t in step]


def test_with_offset_0_every_query_is_a_key(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADT_HOME", str(tmp_path))
    chosen = method(training={"query_offsets": [0], "query_dropout": 0.0, "dedup": None})
    embedder = chosen.embedder = tiny_embedder(TOY_GRID.spaces, cache_most=1000)
    chosen.prepare(dataset)
    computed = embedder.cache.counts.computed
    assert computed > 0
    for seed in range(5):
        chosen.draw(32, np.random.default_rng(seed))
    assert embedder.cache.counts.computed == computed


def test_every_nth_episode_is_both_window_and_entry(dataset: Dataset) -> None:
    chosen = method(episode_every=2)
    sizes = chosen.prepare(dataset)
    assert sizes["cut"] == method().prepare(dataset)["cut"] / 2
    windows = chosen.sampler.draw(200, np.random.default_rng(0))
    ages = chosen.sampler.dataset.episodes.index[windows.episode]
    assert set(ages.tolist()) == {0, 2, 4} == set(chosen.memory.store.entries.age.tolist())


def test_a_thinned_dataset_reads_the_same_steps_and_has_no_history(dataset: Dataset) -> None:
    few = dataset.thinned(3)
    assert len(few) == len(dataset) / 3
    for row in range(len(few)):
        one = few.trajectory(row)
        (same,) = np.flatnonzero(
            (dataset.episodes.task == one.task) & (dataset.episodes.index == one.episode)
        )
        np.testing.assert_array_equal(one.states, dataset.trajectory(int(same)).states)
    with pytest.raises(ValueError, match="thinned out; open the whole dataset"):
        few.history(0)
    assert len(dataset.thinned(1)) == len(dataset)
    with pytest.raises(ValueError, match="at least 1, not 0"):
        dataset.thinned(0)


@pytest.mark.parametrize("offsets", [(), (1,), (0, 50), (0, -1)])
def test_offsets_that_cannot_be_are_refused(offsets: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="0 among them and all below 50"):
        RADTOptions(training=RetrievalTraining(query_offsets=offsets))


def test_progress_is_told_of_every_key(dataset: Dataset) -> None:
    told: list[tuple[int, int]] = []
    sizes = method().prepare(dataset, lambda done, total: told.append((done, total)))
    assert told[-1] == (sizes["cut"], sizes["cut"])
    assert told == sorted(told)
