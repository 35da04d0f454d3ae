"""Which chunk a training window reads: retrieved, sampled, or the best of a pool."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from radt.data import Dataset
from radt.memory.entries import deduplicate_to
from radt.memory.memory import MemoryConfig
from radt.methods.ra_dt import RADT
from radt.methods.training_contexts import RetrievalTraining
from radt.methods.training_memory import TrainingMemory
from tests.contracts.method import OPTIONS, RETRIEVAL, build_method, toy_dataset
from tests.memory.toy_data import toy_embedder
from tests.toys import TOY_GRID

PLAIN = RetrievalTraining(
    cut_off=None, query_dropout=0.0, min_length=0, dedup=None, context_dropout=0.0
)
ROWS = 300


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return toy_dataset(TOY_GRID, tmp_path_factory.mktemp("grid"), episodes=12)


def memory(dataset: Dataset, **changes: Any) -> TrainingMemory:
    config = MemoryConfig(context_len=4, top_l=5, top_k=1)
    return TrainingMemory(dataset, toy_embedder(dataset.spaces), config, replace(PLAIN, **changes))


def asked(dataset: Dataset, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    episode = rng.integers(len(dataset), size=ROWS)
    return episode, rng.integers(dataset.episodes.length[episode])


def chosen_by(built: TrainingMemory, dataset: Dataset) -> tuple[Any, Any]:
    episode, step = asked(dataset)
    return episode, built.choose_for(episode, step, np.random.default_rng(1))[:, 0]


@pytest.mark.parametrize(
    "changes",
    [{"contexts": "own-task"}, {"contexts": "equal-return"}, {"pool": 1}, {"pool": 3}, {"pool": 0}],
)
def test_chunks_are_of_the_own_task_but_never_of_the_own_episode(
    dataset: Dataset, changes: dict[str, Any]
) -> None:
    built = memory(dataset, **changes)
    episode, chosen = chosen_by(built, dataset)
    read = chosen >= 0
    assert read.float().mean() > 0.8
    entries, episodes = built.store.entries.rows(chosen[read]), dataset.episodes
    assert entries.task.tolist() == episodes.task[episode[read.numpy()]].tolist()
    assert (entries.episode.numpy() != episode[read.numpy()]).all()


def test_chunks_of_any_task_are_of_all_of_them(dataset: Dataset) -> None:
    built = memory(dataset, contexts="all-tasks")
    _, chosen = chosen_by(built, dataset)
    found = built.store.entries.rows(chosen[chosen >= 0])
    assert set(found.task.tolist()) == set(TOY_GRID.train_tasks)


def test_a_pool_of_all_episodes_is_a_search_in_the_own_task(dataset: Dataset) -> None:
    episode, step = asked(dataset)
    everything, pool = memory(dataset, own_task_only=True), memory(dataset, pool=0)
    searched = [
        one.choose_for(episode, step, np.random.default_rng(1))[:, 0] for one in (everything, pool)
    ]
    torch.testing.assert_close(searched[0], searched[1])


def test_small_pools_find_less_similar_chunks(dataset: Dataset) -> None:
    episode, step = asked(dataset)
    found = []
    for size in (1, 4, 0):
        built = memory(dataset, pool=size)
        queries = built._queries(episode, step, np.ones(ROWS, bool), np.random.default_rng(0))
        similar = built.search(queries, rng=np.random.default_rng(2)).relevance[:, 0]
        found.append(float(similar[similar.isfinite()].mean()))
    assert found[0] < found[1] < found[2]


def test_only_earlier_episodes_are_read(dataset: Dataset) -> None:
    built = memory(dataset, pool=2, earlier_only=True)
    episode, chosen = chosen_by(built, dataset)
    read = chosen >= 0
    first = dataset.episodes.index[episode] == 0
    assert not read[torch.from_numpy(first)].any()
    ages = built.store.entries.age[chosen[read]].numpy()
    assert (ages < dataset.episodes.index[episode[read.numpy()]]).all()
    with pytest.raises(ValueError, match="give pool"):
        RetrievalTraining(earlier_only=True)


def test_earlier_and_worse_is_whatever_came_before_and_earned_no_more(dataset: Dataset) -> None:
    built, table = memory(dataset, contexts="earlier-worse"), dataset.episodes
    seen: dict[int, set[int]] = {}
    for seed in range(20):
        episode, step = asked(dataset)
        chosen = built.choose_for(episode, step, np.random.default_rng(seed))[:, 0]
        for one, entry in zip(episode.tolist(), chosen.tolist(), strict=True):
            seen.setdefault(one, set()).add(entry)
    assert len(seen) > len(dataset) / 2
    for one, entries in seen.items():
        fits = (table.task == table.task[one]) & (table.index < table.index[one])
        fits &= table.total_return <= table.total_return[one]
        fitting = np.isin(built.store.entries.episode.numpy(), np.flatnonzero(fits))
        assert entries <= ({*np.flatnonzero(fitting).tolist()} or {-1})
    assert sum(-1 in entries for entries in seen.values()) >= len(TOY_GRID.train_tasks) / 2
    assert max(map(len, seen.values())) > 10


def test_bounds_can_be_shares(dataset: Dataset) -> None:
    built = memory(dataset)
    for share in (0.2, 0.6):
        kept, bound = deduplicate_to(built.keys, built.store.entries, share, "random")
        assert abs(float(kept.float().mean()) - share) < 0.15
        assert -1.0 <= bound <= 1.0
    cut = memory(dataset, cut_off_keep=0.5)
    assert 0.3 < cut.sizes["kept_by_cut_off"] < 0.7


def test_spared_starts_survive_deduplication(dataset: Dataset) -> None:
    entries = memory(dataset, dedup=-1.0, dedup_spares_start=True).store.entries
    assert int((entries.position == 0).sum()) == len(dataset)


def test_a_bound_that_leaves_little_is_told(
    dataset: Dataset, caplog: pytest.LogCaptureFixture
) -> None:
    memory(dataset, dedup=-1.0)
    assert "training.dedup leaves" in caplog.text


def test_the_whole_window_asks_and_all_its_actions_are_targets(dataset: Dataset) -> None:
    for query, whole in (("window", True), ("prefix", False)):
        options = {**OPTIONS["ra-dt"], "training": {**RETRIEVAL, "query": query}}
        method = build_method("ra-dt", TOY_GRID.spaces, options)
        assert isinstance(method, RADT)
        facts = method.prepare(dataset)
        assert 0 <= facts["failures_beside_good"] <= 1
        windows = method.sampler.draw(ROWS, np.random.default_rng(0))
        steps = method.memory.draw_query_steps(windows, np.random.default_rng(1))
        assert (steps == windows.stop - 1).all() == whole
        examples = method.draw(64, np.random.default_rng(0))
        assert torch.equal(examples.targets, examples.recent.mask) == whole


def test_older_files_asked_by_prefix(tmp_path: Path) -> None:
    from radt.api import preset
    from radt.config import from_json

    now = preset("dark-room-10x10", "ra-dt", "smoke").to_json()
    assert from_json(now).options.training.query == "window"
    then = {name: value for name, value in now.items() if name != "label"}
    training = {k: v for k, v in now["options"]["training"].items() if k != "query"}
    then["options"] = {**now["options"], "training": training}
    assert from_json(then).options.training.query == "prefix"
