"""Two episodes of context: which are joined, what is a target, and deciding with a cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from radt.api import preset
from radt.costs import random_answers, random_states
from radt.data import Dataset
from radt.methods.ad import (
    AD,
    ADOptions,
    EpisodePairActor,
    earlier_episode,
    join_episodes,
    no_steps,
    whole_episodes,
)
from radt.methods.trials import RunningTrials
from radt.model.policy import ModelConfig
from radt.model.tokens import episodes_ago
from radt.spaces import TaskSpaces
from radt.trajectory import Batch, returns_to_go
from tests.contracts.method import build_method
from tests.data.histories import GRID, write_dataset
from tests.toys import REACH_SPACES, TOY_GRID

TINY: dict[str, Any] = {"layers": 2, "width": 16, "heads": 2}
SPACES = {"discrete": TOY_GRID.spaces, "continuous": REACH_SPACES}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("pairs")
    write_dataset(folder, GRID, tasks=(4, 1, 7), episodes=4)
    return Dataset.open(folder)


def prepared(dataset: Dataset, **options: Any) -> AD:
    model = ModelConfig(**TINY, return_to_go=False)
    method = AD(dataset.spaces, ADOptions(model, **options), seed=0)
    method.prepare(dataset)
    return method


def shown(batch: Batch, row: int, name: str) -> np.ndarray:
    return getattr(batch, name)[row][batch.mask[row]].numpy()


def test_the_episode_k_before_is_clipped_at_the_tasks_first(dataset: Dataset) -> None:
    rows = np.arange(12)  # three tasks of four episodes
    assert earlier_episode(dataset.episodes, rows, 1)[:8].tolist() == [-1, 0, 1, 2, -1, 4, 5, 6]
    assert earlier_episode(dataset.episodes, rows, 2)[4:].tolist() == [-1, 4, 4, 5, -1, 8, 8, 9]
    assert earlier_episode(dataset.episodes, rows, 99)[:4].tolist() == [-1, 0, 0, 0]


def test_real_steps_stand_one_behind_the_other(dataset: Dataset, rng: np.random.Generator) -> None:
    method = prepared(dataset, episode_gap=2)
    windows = method.sampler.draw(64, rng)
    before = earlier_episode(dataset.episodes, windows.episode, 2)
    batch = join_episodes(whole_episodes(dataset, before), method.sampler.read(windows))
    assert batch.mask.sum(1).max() == batch.mask.shape[1]
    assert (np.diff(batch.mask.numpy().astype(int), axis=1) <= 0).all()
    for row, (episode, stop) in enumerate(zip(windows.episode, windows.stop, strict=True)):
        parts = [dataset.trajectory(int(episode))]
        current = {name: getattr(parts[0], name)[:stop] for name in ("states", "actions")}
        earlier = dataset.trajectory(int(before[row])) if before[row] >= 0 else None
        for name, values in current.items():
            expected = values
            if earlier is not None:
                expected = np.concatenate([getattr(earlier, name), values])
            np.testing.assert_array_equal(shown(batch, row, name), expected)
        ago = episodes_ago(batch)[row][batch.mask[row]].tolist()
        assert ago == [1] * (0 if earlier is None else len(earlier)) + [0] * int(stop)
        if earlier is not None:
            achieved = shown(batch, row, "returns_to_go")[: len(earlier)]
            np.testing.assert_allclose(achieved, returns_to_go(earlier.rewards), rtol=1e-5)


def test_targets_are_all_actions_or_those_of_the_current_episode(dataset: Dataset) -> None:
    every, current = (
        prepared(dataset, episode_gap=1, loss_on=which).draw(64, np.random.default_rng(1))
        for which in ("all", "current")
    )
    assert torch.equal(every.targets, every.recent.mask)
    assert torch.equal(current.targets, every.targets & (episodes_ago(every.recent) == 0))
    assert current.targets.any(1).all()
    assert current.targets.sum() < every.targets.sum()


def test_some_windows_have_no_earlier_episode(dataset: Dataset, rng: np.random.Generator) -> None:
    never = prepared(dataset, episode_gap=1, context_dropout=1.0).draw(64, rng)
    assert not episodes_ago(never.recent).any()
    method = prepared(dataset, episode_gap=1, context_dropout=0.5)
    recent = method.draw(2000, rng).recent
    with_earlier = (episodes_ago(recent) > 0).any(1).float().mean()
    first = (dataset.episodes.index == 0) @ dataset.episodes.length / dataset.episodes.length.sum()
    assert abs(float(with_earlier) - 0.5 * (1 - first)) < 0.05


def test_targets_do_not_know_what_comes_after_them(dataset: Dataset) -> None:
    method = prepared(dataset, episode_gap=1)
    recent = method.draw(8, np.random.default_rng(0)).recent
    before = method.policy(recent)
    actions, rewards = recent.actions.clone(), recent.rewards.clone()
    at = 4
    actions[:, at:] = (actions[:, at:] + 1) % dataset.spaces.action.size
    rewards[:, at:] += 1
    changed = Batch(
        recent.states, actions, rewards, recent.returns_to_go, recent.timesteps, recent.mask
    )
    torch.testing.assert_close(method.policy(changed)[:, : at + 1], before[:, : at + 1])


def lives(
    actors: list[EpisodePairActor], spaces: TaskSpaces, rng: np.random.Generator, moments: int
) -> list[tuple[torch.Tensor, ...]]:
    """Let actors roll out the same random trials of unequal lengths; return their decisions."""
    slots = 4
    trials, everyone = RunningTrials(spaces, slots), np.arange(slots)
    trials.begin_task(everyone)
    between, answers = np.ones(slots, bool), []
    for _ in range(moments):
        starting = everyone[between]
        trials.begin_trial(starting, rng.normal(9, 1, len(starting)).astype(np.float32))
        for actor in actors:
            actor.begin_trials(starting)
        between[:] = False
        trials.see(everyone, random_states(spaces, slots, rng))
        acting = np.sort(rng.choice(slots, 3, replace=False))  # whoever acts beside
        answers.append(tuple(actor.decide(trials, acting) for actor in actors))
        actions, _ = random_answers(spaces, 3, rng)
        trials.record(acting, actions, rng.random(3).astype(np.float32))
        over = (trials.step == spaces.horizon) | (rng.random(slots) < 0.15)
        ended = [trials.finish(slot) for slot in everyone[over & (trials.step > 0)].tolist()]
        for actor in actors:
            actor.remember(ended)
        between[[trial.task for trial in ended]] = True
    return answers


@pytest.mark.parametrize("tokens", ["fused", "interleaved"])
@pytest.mark.parametrize("name", ["ad", "dt-2ep"])
@pytest.mark.parametrize("kind", SPACES)
def test_a_cache_changes_no_decision(
    kind: str, name: str, tokens: str, rng: np.random.Generator
) -> None:
    model = {**TINY, "tokens": tokens, "return_to_go": name == "dt-2ep"}
    method = build_method(name, SPACES[kind], {"model": model})
    for parameter in method.networks["policy"].parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    actors = [EpisodePairActor(method.policy, 4, cache) for cache in (True, False)]  # type: ignore[attr-defined]
    for stepped, full in lives(actors, SPACES[kind], rng, moments=60):
        torch.testing.assert_close(stepped, full, rtol=0, atol=1e-5)


def test_a_new_task_knows_of_no_trial() -> None:
    method = build_method("ad", TOY_GRID.spaces)
    actor, fresh = method.actor(1), method.actor(1)
    trials, slot = RunningTrials(TOY_GRID.spaces, 1), np.array([0])
    trials.begin_trial(slot, np.zeros(1, np.float32))
    trials.see(slot, np.array([[1, 2]]))
    trials.record(slot, np.array([3]), np.ones(1, np.float32))
    finished = trials.finish(0)
    trials.begin_trial(slot, np.zeros(1, np.float32))
    trials.see(slot, np.array([[0, 1]]))
    alone = fresh.decide(trials, slot)
    actor.remember([finished])
    assert not torch.equal(actor.decide(trials, slot), alone)
    actor.forget(slot)
    torch.testing.assert_close(actor.decide(trials, slot), alone)


def test_no_steps_has_the_types_of_data(dataset: Dataset) -> None:
    read, empty = dataset.windows([0], [0], 1), no_steps(dataset.spaces, 1)
    for name in Batch.__dataclass_fields__:
        assert getattr(empty, name).dtype == getattr(read, name).dtype, name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"episode_gap": 0}, "episode_gap must be at least 1"),
        ({"context_dropout": 1.5}, "context_dropout must be a share in"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ADOptions(**options)


def test_ad_reads_no_return_to_go_and_the_other_row_does() -> None:
    assert not ADOptions().model.return_to_go
    assert ADOptions().episode_gap == 100
    config = preset("dark-room-10x10", "dt-2ep")
    assert (config.method, config.label) == ("ad", "dt-2ep")
    assert config.options.model.return_to_go
    assert config.options.episode_gap == 1
