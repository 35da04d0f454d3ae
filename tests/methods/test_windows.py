from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from radt.data import Dataset
from radt.methods.windows import WindowOptions, WindowSampler, top_episodes, up_to
from tests.data.histories import GRID, write_dataset

CONTEXT = 5


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("windows")
    write_dataset(folder, GRID, tasks=(4, 1, 7), episodes=4)
    return Dataset.open(folder)


class Counting(np.random.Generator):
    """Answers with every step once, in order."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def integers(self, high: int, size: int) -> np.ndarray:  # type: ignore[override]
        return np.arange(size) % high


def test_every_end_from_1_to_the_last_step_is_as_likely_as_any_other(dataset: Dataset) -> None:
    sampler = WindowSampler(dataset, CONTEXT, WindowOptions())
    total = int(dataset.episodes.length.sum())
    windows = sampler.draw(total, Counting())
    ends = Counter(zip(windows.episode.tolist(), windows.stop.tolist(), strict=True))
    every = {
        (row, stop)
        for row, length in enumerate(dataset.episodes.length)
        for stop in range(1, length + 1)
    }
    assert set(ends) == every
    assert set(ends.values()) == {1}


def test_a_share_of_windows_are_beginnings(dataset: Dataset, rng: np.random.Generator) -> None:
    windows = WindowSampler(dataset, CONTEXT, WindowOptions(start_windows=1.0)).draw(50, rng)
    assert (windows.start == 0).all()
    assert (windows.stop == np.minimum(dataset.episodes.length[windows.episode], CONTEXT)).all()
    some = WindowSampler(dataset, CONTEXT, WindowOptions(start_windows=0.5)).draw(2000, rng)
    late = WindowSampler(dataset, CONTEXT, WindowOptions()).draw(2000, rng)
    share = (late.start > 0).mean()
    assert abs((some.start > 0).mean() - share / 2) < 0.05


def test_episodes_that_earned_little_may_be_left_out(dataset: Dataset) -> None:
    earned = dataset.episodes.total_return
    kept = WindowSampler(dataset, CONTEXT, WindowOptions(min_return=0.5)).episodes
    assert kept.tolist() == np.flatnonzero(earned >= 0.5 * earned.max()).tolist()
    assert 0 < len(kept) < len(dataset)


def test_where_no_episode_earned_enough_the_error_says_so(dataset: Dataset) -> None:
    poor = replace(dataset.episodes, total_return=-np.ones(len(dataset), np.float32))
    losers = cast(Dataset, SimpleNamespace(episodes=poor, spaces=dataset.spaces))
    with pytest.raises(ValueError, match=r"no episode earned min_return=0\.5"):
        WindowSampler(losers, CONTEXT, WindowOptions(min_return=0.5))


@pytest.mark.parametrize("name", ["min_return", "start_windows", "translate"])
@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_share_outside_of_0_to_1_is_refused(name: str, share: float) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a share"):
        WindowOptions(**{name: share})


def test_a_window_is_the_last_c_steps_before_its_end(
    dataset: Dataset, rng: np.random.Generator
) -> None:
    sampler = WindowSampler(dataset, CONTEXT, WindowOptions())
    windows = sampler.draw(64, rng)
    batch = sampler.read(windows)
    for row in range(64):
        start, stop = windows.start[row], windows.stop[row]
        assert stop - start == min(CONTEXT, stop)
        assert batch.mask[row].sum() == stop - start
        shown = batch.mask[row].numpy()
        assert batch.timesteps[row].numpy()[shown].tolist() == list(range(start, stop))
        source = dataset.trajectory(int(windows.episode[row]))
        np.testing.assert_array_equal(batch.states[row].numpy()[shown], source.states[start:stop])
        np.testing.assert_array_equal(batch.actions[row].numpy()[shown], source.actions[start:stop])


def test_up_to_hides_and_trims(dataset: Dataset) -> None:
    long = int(np.argmax(dataset.episodes.length))
    batch = dataset.windows([long, long], [0, 2], CONTEXT)
    shown = up_to(batch, np.array([1, 4]))
    assert shown.mask.tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize("fraction", [0.25, 0.5, 0.75, 1.0])
def test_the_best_episodes_are_chosen_within_each_task(dataset: Dataset, fraction: float) -> None:
    episodes = dataset.episodes
    rows = top_episodes(dataset, fraction)
    assert (np.diff(rows) > 0).all()
    for task in (1, 4, 7):
        returns = episodes.total_return[episodes.task == task]
        kept = episodes.total_return[rows][episodes.task[rows] == task]
        assert sorted(kept) == sorted(returns)[-round(4 * fraction) :]


def test_of_equal_returns_the_shorter_episode_is_better(dataset: Dataset) -> None:
    episodes = dataset.episodes
    alike = replace(episodes, total_return=np.ones_like(episodes.total_return))
    rows = top_episodes(cast(Dataset, SimpleNamespace(episodes=alike)), 0.5)
    for task in (1, 4, 7):
        kept = episodes.length[rows][episodes.task[rows] == task]
        assert sorted(kept) == sorted(episodes.length[episodes.task == task])[:2]


def test_a_task_keeps_at_least_one_episode(dataset: Dataset) -> None:
    assert len(top_episodes(dataset, 0.01)) == 3


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.1])
def test_other_fractions_are_refused(fraction: float) -> None:
    with pytest.raises(ValueError, match=r"top_fraction must lie in \(0, 1\]"):
        WindowOptions(top_fraction=fraction)


def test_only_chosen_episodes_are_drawn(dataset: Dataset, rng: np.random.Generator) -> None:
    sampler = WindowSampler(dataset, CONTEXT, WindowOptions(top_fraction=0.5))
    windows = sampler.draw(500, rng)
    assert set(windows.episode) == set(top_episodes(dataset, 0.5))
    assert (windows.stop <= dataset.episodes.length[windows.episode]).all()
