"""Searching and reweighting, against naive versions that a reader can lay beside the paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from radt.memory.entries import Entries
from radt.memory.index import FlatIndex, group, similarity, unit
from radt.memory.retrieve import Queries, blend_queries, retrieve
from radt.memory.reweight import UTILITIES, VALUE, min_max, reweight
from radt.methods.training_contexts import draw_from_own_task
from radt.trajectory import Retrieval, Verdict
from tests.memory.toy_data import normalised, random_entries

WIDTH = 3


def random_search(
    rng: np.random.Generator, count: int, rows: int
) -> tuple[Queries, Tensor, Entries]:
    """Draw queries and keys of small whole numbers, so that much ties and much is alike."""
    entries = random_entries(rng, count)
    keys, vectors = (
        torch.from_numpy(rng.integers(-2, 3, (n, WIDTH)).astype(np.float32)) for n in (count, rows)
    )
    episode = torch.from_numpy(rng.integers(0, 8, rows))
    position = torch.zeros(rows, dtype=torch.int64)
    return Queries(vectors, episode % 3, episode, episode // 3, position), keys, entries


def indexed(keys: Tensor, entries: Entries) -> FlatIndex:
    index = FlatIndex(WIDTH)
    index.add(keys, entries.task)
    return index


seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=60)
@given(
    seed=seeds,
    count=st.integers(0, 40),
    top_l=st.integers(1, 12),
    cut_off=st.sampled_from([None, 0.7, 0.98]),
    own_task_only=st.booleans(),
)
def test_retrieval_equals_a_loop(
    seed: int, count: int, top_l: int, cut_off: float | None, own_task_only: bool
) -> None:
    queries, keys, entries = random_search(np.random.default_rng(seed), count, rows=4)
    found = retrieve(queries, indexed(keys, entries), entries, top_l, cut_off, own_task_only)
    cosine = similarity(unit(queries.vectors), unit(keys))
    for row in range(4):
        order = sorted(range(count), key=lambda i: (-float(cosine[row, i]), -i))
        if own_task_only:
            order = [i for i in order if entries.task[i] == queries.task[row]]
        ids, verdicts = found.ids[row].tolist(), found.verdict[row].tolist()
        assert ids == [*order, *[-1] * len(ids)][: len(ids)]
        others, standing = 0, 0
        for i, verdict in zip(ids, verdicts, strict=True):
            if i < 0:
                expected = Verdict.ABSENT
            elif entries.episode[i] == queries.episode[row]:
                expected = Verdict.OWN_TRAJECTORY
            elif (others := others + 1) > (top_l if cut_off is None else 2 * top_l):
                expected = Verdict.BEYOND_L
            elif cut_off is not None and cosine[row, i] > cut_off:
                expected = Verdict.TOO_SIMILAR
            else:
                standing += 1
                expected = Verdict.OUTSCORED if standing <= top_l else Verdict.BEYOND_L
            assert verdict == expected
    assert not found.utility.any()
    assert torch.isneginf(found.score).all()
    assert found.chosen.shape == (4, 0)


def one_query(episode: int = -1) -> Queries:
    zero = torch.zeros(1, dtype=torch.int64)
    return Queries(torch.tensor([[1.0, 0.0, 0.0]]), zero, zero + episode, zero, zero)


def fan(count: int, episodes: Tensor, spread: float = 1.0) -> tuple[Tensor, Entries]:
    """Lay out keys that are less and less like [1, 0, 0], the first exactly like it."""
    angle = torch.linspace(0, spread, count)
    keys = torch.stack([angle.cos(), angle.sin(), torch.zeros(count)], dim=1)
    zero = torch.zeros(count, dtype=torch.int64)
    return keys, Entries(zero, episodes, zero, zero, zero, zero + 1, torch.zeros(count))


def test_the_own_trajectory_is_replaced_by_the_next_candidates() -> None:
    episodes = torch.tensor([5, 5, 5, *range(10, 30)])
    keys, entries = fan(23, episodes)
    found = retrieve(one_query(episode=5), indexed(keys, entries), entries, top_l=4)
    assert found.verdict[0, :3].tolist() == [Verdict.OWN_TRAJECTORY] * 3
    scored = found.ids[0][found.verdict[0] == Verdict.OUTSCORED]
    assert scored.tolist() == [3, 4, 5, 6]


def test_the_cut_off_searches_twice_as_many() -> None:
    keys, entries = fan(60, torch.arange(60), spread=3.0)
    index = indexed(keys, entries)
    with_cut_off = retrieve(one_query(), index, entries, top_l=10, cut_off=0.98)
    assert with_cut_off.ids.shape[1] == 2 * 10
    assert retrieve(one_query(), index, entries, top_l=10).ids.shape[1] == 10
    too_similar = with_cut_off.verdict[0] == Verdict.TOO_SIMILAR
    assert (with_cut_off.relevance[0][too_similar] > 0.98).all()
    assert int((with_cut_off.verdict[0] == Verdict.OUTSCORED).sum()) == 10  # refilled
    crowded = retrieve(one_query(), index, entries, top_l=10, cut_off=-0.5)
    assert not (crowded.verdict[0] == Verdict.OUTSCORED).any()  # all 2l are too similar


def test_as_many_others_are_looked_at_however_many_are_own() -> None:
    keys, entries = fan(30, torch.arange(30))
    index = indexed(keys, entries)
    near = retrieve(one_query(episode=0), index, entries, top_l=3, cut_off=0.99)
    far = retrieve(one_query(episode=29), index, entries, top_l=3, cut_off=0.99)
    for found in (near, far):
        looked_at = (found.verdict == Verdict.TOO_SIMILAR) | (found.verdict == Verdict.OUTSCORED)
        assert int(looked_at.sum()) + int((found.verdict == Verdict.BEYOND_L).sum()) <= 2 * 3 + 1
        assert int(looked_at.sum()) <= 2 * 3


def test_without_a_cut_off_an_exact_copy_is_returned() -> None:
    keys, entries = fan(5, torch.arange(5))
    found = retrieve(one_query(), indexed(keys, entries), entries, top_l=5)
    assert found.relevance[0, 0] == 1
    chosen = reweight(found, one_query(), entries, UTILITIES["none"], alpha=1.0, top_k=1).chosen
    assert chosen.tolist() == [[0]]


def naive_reweight(
    found: Retrieval, queries: Queries, entries: Entries, name: str, alpha: float, top_k: int
) -> list[list[int]]:
    """Eq. 4 and 5, a candidate at a time: s = s_rel + alpha * s_u, both min-max normalised."""
    chosen = []
    for row in range(len(found)):
        places = [m for m, v in enumerate(found.verdict[row]) if v == Verdict.OUTSCORED]
        ids = [int(found.ids[row, m]) for m in places]
        same = [float(entries.task[i] == queries.task[row]) for i in ids]
        before = [float(entries.age[i] < queries.age[row]) for i in ids]
        returns = [float(entries.total_return[i]) for i in ids]
        named = {max(0, int(i)) for i in found.ids[row]} if len(entries) else set()
        everybody = [float(entries.total_return[i]) for i in named]
        behind = 1 + max(everybody, default=0) - min(everybody, default=0)
        step = queries.position[row]
        shows = [bool(entries.start[i] <= step < entries.stop[i]) for i in ids]
        utility = {
            "task": same,
            "return": returns,
            "aligned-return": [
                r if here else r - behind for r, here in zip(returns, shows, strict=True)
            ],
            "position": [a * b for a, b in zip(same, before, strict=True)],
            "none": [0.0] * len(ids),
        }[name]
        relevance = normalised([float(found.relevance[row, m]) for m in places])
        scores = [
            np.float32(r) + np.float32(alpha) * np.float32(u)
            for r, u in zip(relevance, normalised(utility), strict=True)
        ]
        best = sorted(range(len(ids)), key=lambda j: (-scores[j], j))[:top_k]  # Eq. 5
        best_ids = [ids[j] for j in best]
        best_ids.sort(key=lambda i: float(entries.total_return[i]))
        chosen.append(best_ids)
    return chosen


@settings(max_examples=100)
@given(
    seed=seeds,
    count=st.integers(0, 40),
    top_l=st.integers(1, 12),
    top_k=st.integers(1, 6),
    cut_off=st.sampled_from([None, 0.7]),
    alpha=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    name=st.sampled_from([name for name in UTILITIES.names() if name != VALUE]),
)
def test_reweighting_equals_a_loop(
    seed: int,
    count: int,
    top_l: int,
    top_k: int,
    cut_off: float | None,
    alpha: float,
    name: str,
) -> None:
    queries, keys, entries = random_search(np.random.default_rng(seed), count, rows=4)
    found = retrieve(queries, indexed(keys, entries), entries, top_l, cut_off)
    result = reweight(found, queries, entries, UTILITIES[name], alpha, top_k)
    assert result.chosen.shape == (4, top_k)
    expected = naive_reweight(found, queries, entries, name, alpha, top_k)
    assert [[i for i in row if i >= 0] for row in result.chosen.tolist()] == expected
    assert torch.equal(result.ids, found.ids)
    assert torch.equal(result.relevance, found.relevance)
    scored = found.verdict == Verdict.OUTSCORED
    assert torch.isneginf(result.score[~scored]).all()
    assert torch.isfinite(result.score[scored]).all()
    assert torch.equal(result.verdict[~scored], found.verdict[~scored])
    for row, ids in enumerate(expected):
        marked = result.ids[row][result.verdict[row] == Verdict.CHOSEN]
        assert sorted(marked.tolist()) == sorted(ids)


def candidates(relevance: list[float], verdict: list[int] | None = None) -> Retrieval:
    count = len(relevance)
    given_verdict = [int(Verdict.OUTSCORED)] * count if verdict is None else verdict
    return Retrieval(
        ids=torch.arange(count)[None],
        relevance=torch.tensor([relevance]),
        utility=torch.zeros(1, count),
        score=torch.full((1, count), -torch.inf),
        verdict=torch.tensor([given_verdict]),
        chosen=torch.zeros(1, 0, dtype=torch.int64),
    )


def with_returns(returns: list[float]) -> Entries:
    _, entries = fan(len(returns), torch.arange(len(returns)))
    return replace(entries, total_return=torch.tensor(returns))


def test_equation_4_by_hand() -> None:
    found, entries = candidates([0.9, 0.7, 0.5]), with_returns([0.0, 10.0, 5.0])
    result = reweight(found, one_query(), entries, UTILITIES["return"], alpha=0.5, top_k=1)
    torch.testing.assert_close(result.score, torch.tensor([[1.0, 0.5 + 0.5, 0.0 + 0.25]]))
    assert result.utility.tolist() == [[0, 10, 5]]
    assert result.chosen.tolist() == [[0]]  # equal scores: the more similar one
    result = reweight(found, one_query(), entries, UTILITIES["return"], alpha=0.6, top_k=1)
    assert result.chosen.tolist() == [[1]]


def test_what_was_dropped_takes_no_part_in_the_normalisation() -> None:
    verdict = [Verdict.TOO_SIMILAR, Verdict.OUTSCORED, Verdict.OUTSCORED, Verdict.BEYOND_L]
    found = candidates([1.0, 0.6, 0.4, -1.0], [int(v) for v in verdict])
    entries = with_returns([1000.0, 1.0, 2.0, -1000.0])
    result = reweight(found, one_query(), entries, UTILITIES["return"], alpha=1.0, top_k=1)
    assert result.score.tolist() == [[-torch.inf, 1.0, 1.0, -torch.inf]]
    assert result.verdict[0, 0] == Verdict.TOO_SIMILAR
    assert result.verdict[0, 3] == Verdict.BEYOND_L


def test_equal_candidates_score_nothing_and_the_first_is_chosen() -> None:
    entries = with_returns([3.0, 3.0, 3.0])
    found = candidates([0.5, 0.5, 0.5])
    result = reweight(found, one_query(), entries, UTILITIES["return"], alpha=1.0, top_k=2)
    assert result.score.tolist() == [[0, 0, 0]]
    assert result.chosen.tolist() == [[0, 1]]


def test_several_chunks_come_in_the_order_of_their_returns() -> None:
    entries = with_returns([7.0, 1.0, 9.0, 4.0])
    found = candidates([0.9, 0.8, 0.7, 0.1])
    result = reweight(found, one_query(), entries, UTILITIES["none"], alpha=1.0, top_k=3)
    assert result.chosen.tolist() == [[1, 0, 2]]


def test_fewer_candidates_than_k_leave_places_empty() -> None:
    entries = with_returns([7.0, 1.0])
    result = reweight(candidates([0.9, 0.8]), one_query(), entries, UTILITIES["return"], 1.0, 4)
    assert sorted(result.chosen[0].tolist()) == [-1, -1, 0, 1]
    nothing = reweight(candidates([0.9, 0.8]), one_query(), Entries.none(), UTILITIES["none"], 1, 2)
    assert nothing.chosen.shape == (1, 2)


def test_min_max() -> None:
    values = torch.tensor([[1.0, 3.0, 2.0, 99.0], [5.0, 5.0, 5.0, 0.0], [1.0, 2.0, 3.0, 4.0]])
    counted = torch.tensor([[True, True, True, False]] * 2 + [[False] * 4])
    expected = [[0, 1, 0.5, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert min_max(values, counted).tolist() == expected
    absent = min_max(torch.tensor([[0.2, 0.4, -torch.inf]]), torch.tensor([[True, True, False]]))
    assert absent.tolist() == [[0, 1, 0]]


def test_every_utility_scores_what_its_name_says() -> None:
    entries = Entries(
        task=torch.tensor([[0, 0, 1]]),
        episode=torch.tensor([[1, 2, 3]]),
        age=torch.tensor([[4, 6, 4]]),
        position=torch.zeros(1, 3),
        start=torch.tensor([[8, 0, 7]]),
        stop=torch.tensor([[9, 7, 8]]),
        total_return=torch.tensor([[3.0, 1.0, 2.0]]),
    )
    queries = replace(one_query(), age=torch.tensor([5]), position=torch.tensor([7]))
    expected = {
        "task": [[1, 1, 0]],
        "return": [[3, 1, 2]],
        "aligned-return": [[0, -2, 2]],  # the first begins too late, the second has ended
        "position": [[1, 0, 0]],
        "none": [[0, 0, 0]],
    }
    assert set(UTILITIES.names()) == {*expected, VALUE}  # which a network tells
    for name, values in expected.items():
        assert UTILITIES[name](entries, queries).tolist() == values, name


def test_blending_mixes_a_query_with_another_key() -> None:
    one, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])
    assert blend_queries(one, other, 1.0).tolist() == [[1, 0]]
    assert blend_queries(one, other, 0.25).tolist() == [[0.25, 1.5]]


def test_short_queries_get_random_chunks_of_their_own_task(rng: np.random.Generator) -> None:
    entries = random_entries(rng, 60)
    members = group(entries.task, 4)  # none of task 3
    episode = torch.tensor([0, 1, 2, 50, 51])
    task = torch.tensor([0, 1, 2, 3, 0])
    queries = Queries(torch.zeros(5, WIDTH), task, episode, episode, episode)
    drawn = torch.stack(
        [draw_from_own_task(queries, entries, members, 2, rng) for _ in range(200)]
    )  # [200, 5, 2]
    assert (drawn[:, 3] == -1).all()
    for row in (0, 1, 2, 4):
        ids = set(drawn[:, row].flatten().tolist())
        own = {i for i in ids if i >= 0}
        assert all(entries.task[i] == task[row] for i in own)
        assert all(entries.episode[i] != episode[row] for i in own)
        allowed = (entries.task == task[row]) & (entries.episode != episode[row])
        assert own == set(allowed.nonzero().squeeze(1).tolist())  # each of them, sooner or later
        assert (-1 in ids) == (row != 4)  # a draw of the own trajectory counts as nothing


def test_drawing_depends_on_the_generator_alone() -> None:
    entries = random_entries(np.random.default_rng(0), 30)
    members = group(entries.task)
    zero = torch.zeros(4, dtype=torch.int64)
    queries = Queries(torch.zeros(4, WIDTH), zero, zero - 1, zero, zero)
    one, same = (
        draw_from_own_task(queries, entries, members, 3, np.random.default_rng(7)) for _ in "ab"
    )
    assert torch.equal(one, same)
