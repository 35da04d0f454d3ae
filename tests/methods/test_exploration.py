from __future__ import annotations

from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from radt.api import preset
from radt.checkpoint import load_checkpoint, save_checkpoint
from radt.config import from_json
from radt.methods.controls import ChoosesChunks, possible
from radt.methods.exploration import (
    LONGEST,
    ExplorationBonus,
    ExplorationConfig,
    KnownPath,
    exploration_of,
    known_path,
    packed,
    unpacked,
    with_exploration,
)
from radt.methods.method import SavesState, UsesSharedMemory
from radt.methods.trials import RunningTrials
from tests.contracts.method import LEARNING, build_method, card_of, roll_out, toy_dataset
from tests.toys import TOY_GRID, TOY_REACH

SLOTS = np.arange(2)
HERE, THERE = [1, 2], [0, 3]


def walked(actions: list[int], rewards: tuple[float, float] = (0.0, 0.0)) -> RunningTrials:
    """Take the same actions in the same place in both slots, and stand there again."""
    trials = RunningTrials(TOY_GRID.spaces, 2)
    for action in actions:
        trials.see(SLOTS, np.array([HERE, HERE]))
        trials.record(SLOTS, np.array([action, action]), np.array(rewards, dtype=np.float32))
    trials.see(SLOTS, np.array([HERE, THERE]))
    return trials


def lived(count_bonus: ExplorationBonus, actions: list[int]) -> torch.Tensor:
    logits = torch.zeros(2, 5)
    for count in range(len(actions) + 1):
        logits = count_bonus.adjust(torch.zeros(2, 5), walked(actions[:count]), SLOTS)
    return logits


def test_what_was_tried_here_becomes_less_likely() -> None:
    count_bonus = ExplorationBonus(TOY_GRID.spaces, 2, ExplorationConfig(count_bonus=2.0))
    logits = lived(count_bonus, [1, 1, 3])
    expected = -2 * torch.log1p(torch.tensor([0.0, 2, 0, 1, 0]))
    torch.testing.assert_close(logits[0], expected)
    assert (logits[1] == 0).all()  # nothing was tried there


def test_with_the_first_reward_the_counts_are_ignored() -> None:
    count_bonus = ExplorationBonus(TOY_GRID.spaces, 2, ExplorationConfig(count_bonus=2.0))
    logits = count_bonus.adjust(torch.zeros(2, 5), walked([1], rewards=(1.0, 0.0)), SLOTS)
    assert (logits == 0).all()  # slot 0 was rewarded, slot 1 stands elsewhere


def test_behind_a_reward_on_the_way_counting_begins_anew() -> None:
    spaces = replace(TOY_GRID.spaces, solved_above=1.0)
    count_bonus, trials, slot = (
        ExplorationBonus(spaces, 1, ExplorationConfig(count_bonus=1.0)),
        RunningTrials(spaces, 1),
        np.array([0]),
    )

    def after(*rewards: float) -> torch.Tensor:
        """Take action 1 with these rewards, one after the other, in one place of a new trial."""
        trials.begin_trial(slot, np.zeros(1, np.float32))
        trials.see(slot, np.array([HERE]))
        logits = count_bonus.adjust(torch.zeros(1, 5), trials, slot)
        for reward in rewards:
            trials.record(slot, np.array([1]), np.array([reward], np.float32))
            trials.see(slot, np.array([HERE]))
            logits = count_bonus.adjust(torch.zeros(1, 5), trials, slot)
        if rewards:
            trials.finish(0)
        return logits[0]

    assert after(0.0)[1] == -np.log1p(1).astype(np.float32)
    assert after(0.0, 1.0)[1] == 0  # the key: nothing was tried with it
    assert after(1.0, 0.0)[1] == -np.log1p(1).astype(np.float32)
    assert after()[1] == 0  # the way to the key is known and can be followed
    again = ExplorationBonus(spaces, 1, ExplorationConfig(count_bonus=1.0))
    again.restore(count_bonus.kept())
    assert [*again.counts[0]] == [*count_bonus.counts[0]]
    for place, times in count_bonus.counts[0].items():
        assert (again.counts[0][place] == times).all()


def test_a_new_task_forgets_the_counts_of_its_slot() -> None:
    count_bonus = ExplorationBonus(TOY_GRID.spaces, 2, ExplorationConfig(count_bonus=1.0))
    lived(count_bonus, [1, 2])
    count_bonus.forget(np.array([0]))
    assert not count_bonus.counts[0]
    assert sum(times.sum() for times in count_bonus.counts[1].values()) == 2


@pytest.mark.parametrize(("spaces", "weight"), [(TOY_GRID.spaces, 0.0), (TOY_REACH.spaces, 5.0)])
def test_nothing_happens_without_weight_or_without_recurring_states(
    spaces: object, weight: float
) -> None:
    count_bonus = ExplorationBonus(spaces, 2, ExplorationConfig(weight, weight))  # type: ignore[arg-type]
    logits = torch.randn(2, 3)
    assert count_bonus.adjust(logits, walked([1]), SLOTS) is logits


def test_who_waits_in_vain_on_a_known_way_looks_around() -> None:
    spaces, slot = TOY_GRID.spaces, np.array([0])
    count_bonus, trials = (
        ExplorationBonus(spaces, 1, ExplorationConfig(0.0, 2.0)),
        RunningTrials(spaces, 1),
    )

    def after(*steps: tuple[int, float]) -> list[float]:
        """Take actions with these rewards in one place of a new trial."""
        trials.begin_trial(slot, np.zeros(1, np.float32))
        trials.see(slot, np.array([HERE]))
        for action, reward in steps:
            trials.record(slot, np.array([action]), np.array([reward], np.float32))
            trials.see(slot, np.array([HERE]))
        return count_bonus.adjust(torch.zeros(1, 5), trials, slot)[0].tolist()

    assert after((1, 0.0), (1, 0.0)) == [0.0] * 5  # nobody knows a way yet
    assert after((1, 1.0)) == [0.0] * 5  # here one is paid
    waited = after((1, 0.0), (1, 0.0), (3, 0.0))
    assert waited == pytest.approx([0, -2 * np.log(3), 0, -2 * np.log(2), 0])
    assert after((1, 0.0), (2, 1.0), (3, 0.0)) == pytest.approx([0, 0, 0, -2 * np.log(2), 0])


TRIALS = st.lists(st.integers(0, 3), max_size=60)


def test_a_path_that_does_not_pay_is_avoided_twice_as_long_each_time() -> None:
    avoided = [known_path([1, *[0] * failed]).avoided for failed in range(12)]
    assert avoided == [0, 1, 0, 2, 1, 0, 4, 3, 2, 1, 0, 8]
    assert max(known_path([1, *[0] * failed]).avoided for failed in range(300)) == 2**LONGEST
    assert known_path([1, 0, 0, 0, 1]) == KnownPath(1, 0)


@given(st.lists(TRIALS, min_size=1, max_size=4))
def test_what_is_saved_is_read_again(rewards: list[list[int]]) -> None:
    assert unpacked(packed(rewards)) == rewards


COUNTS = ExplorationConfig(count_bonus=24.0, revisit_penalty=24.0)


def test_without_weight_a_method_stays_itself() -> None:
    method = build_method("ad", TOY_GRID.spaces)
    assert with_exploration(method, ExplorationConfig()) is method
    assert exploration_of(with_exploration(method, COUNTS)) == (method, COUNTS)
    assert exploration_of(method) == (method, ExplorationConfig())


@pytest.mark.parametrize("name", LEARNING)
def test_an_exploring_actor_can_and_shows_what_the_method_s_own_does(name: str) -> None:
    method = build_method(name, TOY_GRID.spaces)
    plain, actor = method.actor(2), with_exploration(method, COUNTS).actor(2)
    assert isinstance(actor, SavesState)
    for protocol in (UsesSharedMemory, ChoosesChunks):
        assert isinstance(actor, protocol) == isinstance(plain, protocol)
    for attribute in ("memory", "retrieve", "query", "reading", "shares_memory", "window"):
        assert hasattr(actor, attribute) == hasattr(plain, attribute)
    for control in ("other-task", "random-own", "last-trial", "best-trial", "oracle"):
        assert possible(control, actor, (0, 1)) == possible(control, plain, (0, 1))


@pytest.mark.parametrize("name", ["ad", "dpt", "ra-dt"])
def test_learning_is_the_method_s_own(name: str, tmp_path: Path) -> None:
    dataset = toy_dataset(TOY_GRID, tmp_path)
    plain = build_method(name, TOY_GRID.spaces)
    explores = with_exploration(build_method(name, TOY_GRID.spaces), COUNTS)
    losses = []
    for method in (plain, explores):
        method.prepare(dataset)
        losses.append(method.loss(method.draw(8, np.random.default_rng(0))))
    assert torch.equal(*losses)
    sampler = explores.sampler  # type: ignore[attr-defined]
    copy(explores).prepare(dataset)
    assert explores.sampler is sampler  # type: ignore[attr-defined]


def test_a_checkpoint_carries_exploration(tmp_path: Path) -> None:
    method = with_exploration(build_method("ad", TOY_GRID.spaces), COUNTS)
    card = replace(card_of(method, "ad"), exploration=COUNTS)
    save_checkpoint(tmp_path / "x.safetensors", method, card)
    loaded, found = load_checkpoint(tmp_path / "x.safetensors")
    assert found == card
    assert exploration_of(loaded)[1] == COUNTS
    assert loaded.name == "ad"
    tasks = TOY_GRID.train_tasks
    actions = [roll_out(each, TOY_GRID, tasks)[1] for each in (method, loaded)]
    np.testing.assert_array_equal(*actions)


def test_any_row_explores_by_one_line_and_old_lines_mean_the_same() -> None:
    sets = ("exploration.count_bonus=24", "exploration.revisit_penalty=24")
    assert preset("dark-room-10x10", "ad", "smoke", *sets).exploration == COUNTS
    for old in (
        ("options.novelty=24", "options.restless=24"),
        ("options.count_bonus=24", "options.revisit_penalty=24"),
    ):
        config = preset("dark-room-10x10", "ra-dt", "smoke", *old)
        assert config == preset("dark-room-10x10", "ra-dt", "smoke", *sets)
    config = preset("dark-room-10x10", "ra-dt+", "smoke", "options.novelty=0")
    assert config.exploration == ExplorationConfig(0.0, 24.0)
    older = config.to_json() | {"method": "ra-dt+"}
    older["options"] |= {"novelty": 1.0}
    del older["exploration"], older["label"]
    assert from_json(older).exploration == ExplorationConfig(1.0, 24.0)
