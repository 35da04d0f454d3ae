"""The memory at training: what a query may know, and which regularisers act how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from radt.data import Dataset
from radt.envs.suite import TaskSuite
from radt.memory.index import FlatIndex, similarity, unit
from radt.memory.memory import Memory, MemoryConfig
from radt.methods import training_index
from radt.methods.training_contexts import RetrievalTraining
from radt.methods.training_memory import TrainingMemory
from radt.methods.transforms import truncate_chunks
from radt.trajectory import Batch, Trajectory
from tests.contracts.store import assert_same_steps
from tests.memory.toy_data import normalised, toy_embedder, write_toys
from tests.toys import TOY_GRID, TOY_REACH, histories

CONFIG = MemoryConfig(context_len=4, top_l=5, top_k=2)
PLAIN = RetrievalTraining(
    cut_off=None, query_dropout=0.0, min_length=0, dedup=None, context_dropout=0.0
)
EPISODES = 5
Build = Callable[..., TrainingMemory]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    lived = histories(TOY_REACH, EPISODES)
    return write_toys(tmp_path_factory.mktemp("reach"), TOY_REACH, lived)


@pytest.fixture
def build(dataset: Dataset) -> Build:
    """Build a memory with some options of `RetrievalTraining` or `MemoryConfig`."""

    def built(data: Dataset = dataset, tokens: str = "fused", **options: object) -> TrainingMemory:
        for_training = {k: v for k, v in options.items() if k in PLAIN.__dataclass_fields__}
        for_config = {k: v for k, v in options.items() if k not in for_training}
        return TrainingMemory(
            data,
            toy_embedder(data.spaces, tokens),
            replace(CONFIG, **for_config),  # type: ignore[arg-type]
            replace(PLAIN, **for_training),  # type: ignore[arg-type]
        )

    return built


def test_keys_are_where_the_embedder_computes(dataset: Dataset) -> None:
    embedder = toy_embedder(dataset.spaces)
    embedder.network.to("meta")  # stands for a GPU
    memory = TrainingMemory(
        dataset, embedder, replace(CONFIG, retrieve_every=0), RetrievalTraining(min_length=10)
    )
    assert isinstance(memory.index, FlatIndex)
    assert memory.index.table.device.type == "meta"


def every_step(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Ask at every step of every episode."""
    lengths = dataset.episodes.length
    episode = np.repeat(np.arange(len(lengths)), lengths)
    return episode, np.concatenate([np.arange(length) for length in lengths])


def chosen_ids(
    memory: TrainingMemory, episode: np.ndarray, query_step: np.ndarray, seed: int = 0
) -> Tensor:
    """Return the ids whose chunks are retrieved, [B, k]."""
    seen: list[Tensor] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory.store, "chunks", seen.append)
        memory.retrieve_for(episode, query_step, np.random.default_rng(seed))
    return seen[0]


def with_another_future(
    suite: TaskSuite, trajectory: Trajectory, step: int, rng: np.random.Generator
) -> Trajectory:
    """Redraw the actions and rewards from a step on and the states behind it."""
    actions, rewards, states = (
        array.copy() for array in (trajectory.actions, trajectory.rewards, trajectory.states)
    )
    for t in range(step, len(trajectory)):
        actions[t] = suite.spaces.action.sample(1, rng)[0]
        rewards[t] = rng.random()
    permuted = rng.permutation(np.arange(step + 1, len(trajectory)))
    states[step + 1 :] = states[permuted]
    return replace(trajectory, states=states, actions=actions, rewards=rewards)


@pytest.mark.parametrize("tokens", ["fused", "interleaved"])
@pytest.mark.parametrize("suite", [TOY_GRID, TOY_REACH], ids=lambda suite: suite.name)
def test_nothing_at_or_after_the_query_changes_what_is_retrieved(
    suite: TaskSuite, tokens: str, tmp_path: Path, build: Build, rng: np.random.Generator
) -> None:
    lived = histories(suite, EPISODES)
    dataset = write_toys(tmp_path / "one", suite, lived)
    options = {"query_dropout": 0.3, "blend": 0.7, "context_dropout": 0.2, "cut_off": 0.999}
    memory = build(dataset, tokens, min_length=3, **options)
    task, age = suite.train_tasks[1], 2
    row = 1 * EPISODES + age
    for step in (0, 3, 5, 11):
        changed = dict(lived)
        changed[task] = list(lived[task])
        changed[task][age] = with_another_future(suite, lived[task][age], step, rng)
        other_data = write_toys(tmp_path / f"other-{step}", suite, changed)
        episode, query_step = np.full(20, row), np.full(20, step)
        one = memory.retrieve_for(episode, query_step, np.random.default_rng(1))
        other = build(other_data, tokens, min_length=3, **options)
        assert_same_steps(one, other.retrieve_for(episode, query_step, np.random.default_rng(1)))
        assert torch.equal(
            chosen_ids(memory, episode, query_step), chosen_ids(other, episode, query_step)
        )


def test_what_came_before_the_query_does_change_it(build: Build, dataset: Dataset) -> None:
    memory = build()
    episode, query_step = every_step(dataset)
    everyone = np.ones(len(episode), bool)
    queries = memory._queries(episode, query_step, everyone, np.random.default_rng(0))
    assert len(queries.vectors.unique(dim=0)) == len(queries.vectors)


@pytest.mark.parametrize("tokens", ["fused", "interleaved"])
def test_keys_equal_those_that_an_agent_would_write(build: Build, dataset: Dataset, tokens) -> None:
    memory = build(tokens=tokens)
    agent = Memory(memory.embedder, dataset.spaces, CONFIG)
    for row in range(len(dataset)):
        agent.write([dataset.trajectory(row)])
    torch.testing.assert_close(memory.keys, agent.keys, rtol=0, atol=1e-5)
    assert torch.equal(memory.store.entries.position, agent.entries.position)
    ids = torch.arange(len(agent))[:, None]
    assert_same_steps(memory.store.chunks(ids), agent.chunks(ids))


def chosen_plainly(
    memory: TrainingMemory, episode: np.ndarray, query_step: np.ndarray, seed: int
) -> list[list[int]]:
    """Choose for one query after the other, candidate by candidate, as the paper tells it."""
    rng, training, config = np.random.default_rng(seed), memory.training, memory.config
    entries, top_k = memory.store.entries, config.top_k
    short = query_step < training.min_length
    queries = memory._queries(episode, query_step, ~short, rng)
    places = iter(rng.random((int(short.sum()), top_k)))
    unseen = rng.random(len(episode)) < training.context_dropout
    cosine = similarity(unit(queries.vectors), unit(memory.keys))  # [B, N]
    chosen = []
    for row, own in enumerate(episode):
        mine = [i for i in range(len(entries)) if entries.task[i] == queries.task[row]]
        if short[row]:
            drawn = [mine[int(place * len(mine))] for place in next(places)]
            found = [-1 if entries.episode[i] == own else i for i in drawn]
        else:
            order = sorted(range(len(entries)), key=lambda i: (-float(cosine[row, i]), -i))
            order = [i for i in order if entries.episode[i] != own]
            if training.own_task_only:
                order = [i for i in order if i in mine]
            if training.cut_off is not None:
                order = order[: 2 * config.top_l]
                order = [i for i in order if cosine[row, i] <= training.cut_off]
            order = order[: config.top_l]  # Eq. 3
            relevance = normalised([float(cosine[row, i]) for i in order])
            utility = normalised([float(i in mine) for i in order])
            score = {i: r + u for i, r, u in zip(order, relevance, utility, strict=True)}
            best = sorted(order, key=lambda i: -score[i])[:top_k]  # Eq. 4, 5 with alpha = 1
            best.sort(key=lambda i: float(entries.total_return[i]))
            found = [-1] * (top_k - len(best)) + best
        chosen.append([-1] * top_k if unseen[row] else found)
    return chosen


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cut_off": 0.98, "min_length": 4, "query_dropout": 0.3, "context_dropout": 0.2},
        {"own_task_only": True, "cut_off": 0.999, "top_l": 3, "blend": 0.7},
        {"dedup": 0.95, "top_l": 2, "top_k": 3, "min_length": 2},
    ],
    ids=["plain", "the paper's", "own task", "few"],
)
def test_the_choice_equals_a_plain_loop(
    build: Build, dataset: Dataset, options: dict[str, object]
) -> None:
    memory, asked = build(**options), every_step(dataset)
    for seed in range(2):
        expected = torch.tensor(chosen_plainly(memory, *asked, seed))
        assert torch.equal(chosen_ids(memory, *asked, seed), expected)


class Counting:
    """Count what an embedder is asked for."""

    def __init__(self, memory: TrainingMemory) -> None:
        self.inner, self.width = memory.embedder, memory.embedder.width
        self.rows, self.dropped = 0, torch.zeros(0, dtype=torch.bool)

    def __call__(self, prefixes: Batch, dropped: Tensor | None = None) -> Tensor:
        self.rows += len(prefixes)
        if dropped is not None:
            self.dropped = torch.cat([self.dropped, dropped[prefixes.mask]])
        return self.inner(prefixes, dropped)


def test_early_queries_are_not_embedded_but_drawn(build: Build, dataset: Dataset) -> None:
    episode, query_step = every_step(dataset)
    memory = build(min_length=5)
    memory.embedder = counting = Counting(memory)  # type: ignore[assignment]
    ids = chosen_ids(memory, episode, query_step)
    assert counting.rows == (query_step >= 5).sum()
    early = ids[torch.from_numpy(query_step < 5)]
    tasks = torch.from_numpy(dataset.episodes.task[episode[query_step < 5]])[:, None]
    drawn = memory.store.entries.task[early.clamp_min(0)]
    assert ((drawn == tasks) | (early < 0)).all()
    assert len(early.unique()) > 0.8 * len(memory.store.entries)
    plain = chosen_ids(build(), episode, query_step)
    late = torch.from_numpy(query_step >= 5)
    assert torch.equal(ids[late], plain[late])


def test_query_dropout_leaves_state_tokens_out_of_queries_only(
    build: Build, dataset: Dataset
) -> None:
    episode, query_step = every_step(dataset)
    memory = build(query_dropout=0.3)
    assert torch.equal(memory.keys, build().keys)
    memory.embedder = counting = Counting(memory)  # type: ignore[assignment]
    chosen_ids(memory, episode, query_step)
    assert counting.dropped.float().mean().item() == pytest.approx(0.3, abs=0.05)


def test_queries_without_a_single_token_still_get_an_answer(build: Build, dataset: Dataset) -> None:
    ids = chosen_ids(build(query_dropout=1.0), *every_step(dataset))
    assert (ids >= 0).all()


def test_blended_queries_move_to_random_keys(build: Build, dataset: Dataset) -> None:
    episode, query_step = every_step(dataset)
    for blend in (0.0, 0.5, 1.0):
        memory, everyone = build(blend=blend), np.ones(len(episode), bool)
        mixed = memory._queries(episode, query_step, everyone, np.random.default_rng(0)).vectors
        plain = build()._queries(episode, query_step, everyone, np.random.default_rng(0)).vectors
        if blend < 1:
            other = (mixed - blend * plain) / (1 - blend)
            apart = (other[:, None] - memory.keys[None]).abs().amax(2)  # [B, N]
            is_key = apart.amin(1) < 1e-3
            is_own = (other - plain).abs().amax(1) < 1e-3  # drawn from the own episode: not mixed
            assert (is_key | is_own).all()
            assert is_key.float().mean() > 0.8
        assert torch.allclose(mixed, plain) == (blend == 1.0)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_some_windows_read_no_context(build: Build, dataset: Dataset, share: float) -> None:
    episode, query_step = (np.tile(numbers, 4) for numbers in every_step(dataset))
    memory = build(context_dropout=share)
    batch = memory.retrieve_for(episode, query_step, np.random.default_rng(0))
    assert batch.mask.shape == (len(episode), 2 * 8)
    without = (~batch.mask.any(1)).float().mean().item()
    assert without == pytest.approx(share, abs=0.06 if share == 0.5 else 0)


def test_retrieval_depends_on_the_generator_alone(build: Build, dataset: Dataset) -> None:
    options = {"query_dropout": 0.5, "blend": 0.5, "context_dropout": 0.3, "min_length": 4}
    memory, asked = build(**options), every_step(dataset)
    one, same, other = (chosen_ids(memory, *asked, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_a_narrower_search_tells_how_many_choices_it_changes(
    build: Build, dataset: Dataset
) -> None:
    name = "choices_changed_by_own_task_only"
    assert name not in build().sizes
    assert name not in build(own_task_only=True, retrieve_every=0, min_length=5).sizes
    some = build(own_task_only=True, top_k=1)
    assert 0 < some.sizes[name] < 1
    assert some.sizes[name] == build(own_task_only=True, top_k=1).sizes[name]
    episode, query_step = every_step(dataset)
    everyone = np.ones(len(episode), bool)
    queries = some._queries(episode, query_step, everyone, np.random.default_rng(0))
    wide, narrow = (some.search(queries, only).chosen for only in (False, True))
    share = (wide != narrow).any(1).float().mean().item()
    assert some.sizes[name] == pytest.approx(share, abs=0.12)  # a sample of the same steps
    decided = build(own_task_only=True, alpha=10.0, top_k=1, top_l=100)  # by the task alone
    assert decided.sizes[name] == 0
    assert build(own_task_only=True, min_length=100).sizes[name] == 0  # nobody asks


def test_keys_do_not_depend_on_how_many_are_embedded_at_once(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = build().keys
    monkeypatch.setattr(training_index, "EMBED_AT_ONCE", 7)
    torch.testing.assert_close(build().keys, keys)


def test_sizes_tell_what_was_dropped(build: Build, dataset: Dataset) -> None:
    assert build().sizes["cut"] == 4 * EPISODES * 3
    deduplicated = build(dedup=0.9)
    kept = deduplicated.sizes["distinct"]
    assert deduplicated.sizes["cut"] == 60
    returns = deduplicated.store.entries.total_return
    assert deduplicated.sizes["distinct_return"] == pytest.approx(float(returns.mean()))
    assert 0 < kept < 60
    assert kept == len(deduplicated.store.entries) == len(deduplicated.index)
    floor = float(np.median(dataset.episodes.total_return))
    rewarded = build(store_above=floor)
    assert rewarded.sizes["rewarded"] == len(rewarded.index) < 60
    assert (rewarded.store.earned() > floor).all()


def test_tasks_without_an_entry_find_nothing_of_their_own(build: Build, dataset: Dataset) -> None:
    last = dataset.episodes.task == dataset.tasks[-1]
    best_elsewhere = dataset.episodes.total_return[~last].max()
    if best_elsewhere <= dataset.episodes.total_return[last].max():
        best_elsewhere = np.sort(dataset.episodes.total_return)[-2]
    episode, query_step = every_step(dataset)
    for floor in (float(best_elsewhere) - 1e-3, 1e9):  # one task is left, then none
        for min_length in (0, 100):
            memory = build(store_above=floor, min_length=min_length, blend=0.5)
            batch = memory.retrieve_for(episode, query_step, np.random.default_rng(0))
            assert batch.mask.shape == (len(episode), 2 * 8)
            if floor == 1e9:
                assert not batch.mask.any()


def test_nothing_is_indexed_where_nothing_is_searched(build: Build, dataset: Dataset) -> None:
    memory = build(retrieve_every=0, min_length=10)
    assert len(memory.index) == 0
    episode = np.arange(len(dataset))
    ids = chosen_ids(memory, episode, np.zeros_like(episode))
    assert (ids >= 0).any()
    assert len(build(retrieve_every=0, min_length=0).index) == 60


def test_chunks_may_be_those_that_begin_with_their_episode(build: Build) -> None:
    memory = build(start_chunks=True)
    assert len(memory.store.entries) > 0
    assert (memory.store.entries.start == 0).all()
    assert memory.sizes["start_chunks"] == len(memory.store.entries) < memory.sizes["cut"]


def test_chunks_may_end_with_an_early_reward(build: Build, rng: np.random.Generator) -> None:
    chunks = build().store.chunks(torch.zeros(200, 1, dtype=torch.int64))
    chunks = replace(chunks, rewards=torch.tensor([0.0, 1, 0, 1, 1, 0, 0, 1]).repeat(200, 1))
    some = np.arange(200) < 150
    short = truncate_chunks(chunks, some, rng)
    lengths = short.mask.sum(1)
    assert (lengths[150:] == chunks.mask.sum(1)[150:]).all()
    assert set(lengths[:150].tolist()) <= {2, 4, 5, 8}
    assert 50 < int((lengths[:150] == 2).sum()) < 100  # every second one shows one reward


@pytest.mark.parametrize("contexts", ["own-task", "all-tasks", "equal-return"])
def test_random_contexts_are_drawn_from_what_dedup_leaves(build: Build, contexts: str) -> None:
    searched = build(dedup=0.9)
    drawn = build(contexts=contexts, dedup=0.9)
    assert drawn.sizes["distinct"] == searched.sizes["distinct"] < searched.sizes["cut"]
    assert torch.equal(drawn.store.entries.episode, searched.store.entries.episode)
    assert "distinct" not in build(contexts=contexts, dedup=None).sizes
