"""Which transitions DPT reads, in training and at work, and which actions it learns."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import torch

from radt.data import Dataset
from radt.envs.suite import SUITES
from radt.methods import METHODS
from radt.methods.dpt import (
    DPTActor,
    DPTOptions,
    draw_places,
    earlier_episodes,
    from_trials,
    oracle_of,
    read_places,
    spread_out,
)
from radt.methods.trials import RunningTrials
from radt.model.policy import ModelConfig
from radt.model.set_policy import Transitions
from tests.contracts.method import build_method, toy_dataset
from tests.data.histories import GRID, write_dataset
from tests.toys import TOY_GRID, TOY_REACH, histories


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("sets")
    write_dataset(folder, GRID, tasks=(4, 1, 7), episodes=6)
    return Dataset.open(folder)


@pytest.mark.parametrize("total", [1, 7, 50, 51, 99, 100, 400, 4000])
def test_steps_are_spread_over_all_there_are(total: int) -> None:
    chosen = spread_out(total, 50)
    assert len(chosen) == min(total, 50)
    assert (np.diff(chosen) > 0).all()
    assert chosen[0] >= 0
    assert chosen[-1] < total
    if total > 50:
        counts = np.bincount(chosen * 5 // total, minlength=5)
        assert (abs(counts - 10) <= 1).all()  # as many from every fifth


def test_no_rhythm_is_met() -> None:
    odd = (spread_out(4000, 200) % 2).mean()
    assert 0.4 < odd < 0.6


def test_sets_come_from_earlier_episodes_of_the_same_task(
    dataset: Dataset, rng: np.random.Generator
) -> None:
    episodes, rows = dataset.episodes, rng.integers(18, size=200)
    places = draw_places(episodes, rows, size=12, most=4, rng=rng)
    used = set()
    for row, episode, step, mask in zip(
        rows, places.episode, places.step, places.mask, strict=True
    ):
        before = episodes.index[row]
        assert mask.any() == (before > 0)
        assert (np.diff(mask.astype(int)) <= 0).all()
        assert (episodes.task[episode[mask]] == episodes.task[row]).all()
        assert (episodes.index[episode[mask]] < before).all()
        assert (step[mask] < episodes.length[episode[mask]]).all()
        pairs = set(zip(episode[mask].tolist(), step[mask].tolist(), strict=True))
        assert len(pairs) == mask.sum()  # none twice
        used.add(len(set(episode[mask].tolist())))
    assert used == {0, 1, 2, 3, 4}


def test_histories_are_cut_early_and_late(rng: np.random.Generator) -> None:
    drawn = [earlier_episodes(1000, 40, rng) for _ in range(2000)]
    counts = np.array([len(chosen) for chosen in drawn])
    assert 0.12 < (counts == 1).mean() < 0.26
    assert counts.max() == 40
    newest = np.array([chosen.max() for chosen in drawn])
    assert 0.2 < (newest < 250).mean() < 0.45
    assert (newest > 750).mean() > 0.1


def test_transitions_are_read_with_what_came_next(
    dataset: Dataset, rng: np.random.Generator
) -> None:
    places = draw_places(dataset.episodes, np.arange(18), size=12, most=4, rng=rng)
    known = read_places(dataset, places)
    for at in zip(*np.nonzero(places.mask), strict=True):
        source, step = dataset.trajectory(int(places.episode[at])), places.step[at]
        np.testing.assert_array_equal(known.states[at], source.states[step])
        np.testing.assert_array_equal(known.actions[at], source.actions[step])
        assert known.rewards[at] == source.rewards[step]
        assert known.ends[at] == (step == len(source) - 1)
        if not known.ends[at]:
            np.testing.assert_array_equal(known.next_states[at], source.states[step + 1])


@pytest.mark.parametrize("suite", [TOY_GRID, TOY_REACH], ids=lambda suite: suite.name)
def test_finished_trials_become_sets(suite: object) -> None:
    lived = histories(suite, 3)  # type: ignore[arg-type]
    known = from_trials(suite.spaces, [lived[0], [], lived[1][:1]], size=20)  # type: ignore[attr-defined]
    assert known.mask.sum(1).tolist() == [20, 0, 12]
    source = lived[1][0]
    np.testing.assert_allclose(known.states[2, :12], source.states)
    np.testing.assert_allclose(known.next_states[2, :11], source.states[1:])
    np.testing.assert_allclose(known.actions[2, :12], source.actions)
    assert known.ends[2].nonzero().flatten().tolist() == [11]
    everything = np.concatenate([trial.rewards for trial in lived[0]])
    np.testing.assert_allclose(known.rewards[0], everything[spread_out(36, 20)])


def test_sets_have_one_type_in_training_and_at_work(dataset: Dataset) -> None:
    places = draw_places(dataset.episodes, np.arange(3), 5, 2, np.random.default_rng(0))
    trial = dataset.trajectory(0)
    read, lived = read_places(dataset, places), from_trials(dataset.spaces, [[trial]], 5)
    for field in fields(Transitions):
        assert getattr(read, field.name).dtype == getattr(lived, field.name).dtype, field.name


def test_a_cache_changes_no_decision(rng: np.random.Generator) -> None:
    method, spaces = build_method("dpt", TOY_GRID.spaces), TOY_GRID.spaces
    for parameter in method.networks["policy"].parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    actors = [DPTActor(method.policy, 3, 20, cache) for cache in (True, False)]  # type: ignore[attr-defined]
    lived, trials = histories(TOY_GRID, 3), RunningTrials(spaces, 3)
    for episode in range(3):
        slots = np.array([2, 0])  # the third slot never finishes a trial
        trials.begin_trial(np.arange(3), np.zeros(3, np.float32))
        for actor in actors:
            actor.begin_trials(np.arange(3))
        for _ in range(4):
            trials.see(np.arange(3), rng.integers(spaces.state.bins, size=(3, 2)))
            for acting in (np.arange(3), slots):
                kept, anew = (actor.decide(trials, acting) for actor in actors)
                torch.testing.assert_close(kept, anew, rtol=0, atol=1e-5)
            trials.record(np.arange(3), np.zeros(3, np.int64), np.zeros(3, np.float32))
        for actor in actors:
            finished = [lived[slot][episode] for slot in slots.tolist()]
            actor.remember(finished)
        trials.step[:] = 0
    for actor in actors:
        actor.forget(np.array([2]))
        actor.begin_trials(np.arange(3))
    trials.see(np.arange(3), np.ones((3, 2), np.int64))
    kept, anew = (actor.decide(trials, np.arange(3)) for actor in actors)
    torch.testing.assert_close(kept, anew, rtol=0, atol=1e-5)
    torch.testing.assert_close(kept[2], kept[1], rtol=0, atol=1e-6)  # both know nothing
    assert not torch.allclose(kept[0], kept[1], atol=1e-3)


def test_the_oracle_labels_lead_to_the_goal(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SUITES._items, TOY_GRID.name, TOY_GRID)
    dataset = toy_dataset(TOY_GRID, tmp_path)  # type: ignore[arg-type]
    method = build_method("dpt-oracle", TOY_GRID.spaces)
    method.prepare(dataset)
    examples = method.draw(64, np.random.default_rng(0))
    windows = method.sampler.draw(64, np.random.default_rng(0))  # type: ignore[attr-defined]
    room, recent = TOY_GRID.room, examples.recent
    for row, episode in enumerate(windows.episode):
        goal = room.goal(dataset.episodes.task[episode])
        cells = room.cells(recent.states[row][recent.mask[row]].numpy())
        labels = examples.labels[row][recent.mask[row]].numpy()
        after = room.moves[cells, labels]
        far = np.array([steps_to(room, cell, goal) for cell in cells])
        left = np.array([steps_to(room, cell, goal) for cell in after])
        np.testing.assert_array_equal(left, np.maximum(far - 1, 0))
    assert not torch.equal(examples.labels, recent.actions)


def steps_to(room: object, cell: int, goal: int) -> int:
    (row, column), (to_row, to_column) = divmod(cell, room.width), divmod(goal, room.width)  # type: ignore[attr-defined]
    return abs(row - to_row) + abs(column - to_column)


def test_an_environment_without_an_oracle_is_told_what_to_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(SUITES._items, TOY_REACH.name, TOY_REACH)
    with pytest.raises(ValueError, match=r"give ToySuite a method optimal_actions\(task, states"):
        oracle_of(TOY_REACH.name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queries": 0}, "queries must be at least 1"),
        ({"set_size": 0}, "set_size must be at least 1"),
        ({"context_dropout": -0.1}, "context_dropout must be a share in"),
        ({"model": ModelConfig()}, "DPT reads no return-to-go"),
        (
            {"model": ModelConfig(return_to_go=False, return_loss=1.0)},
            "DPT predicts no return-to-go",
        ),
    ],
)
def test_impossible_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DPTOptions(**options)  # type: ignore[arg-type]


def test_the_set_is_two_episodes_unless_said_otherwise() -> None:
    method = METHODS["dpt"].build(TOY_GRID.spaces, DPTOptions(), 0, None)
    assert method.set_size == 2 * TOY_GRID.spaces.horizon  # type: ignore[attr-defined]
