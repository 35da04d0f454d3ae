from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from radt.methods.exploration import ExplorationBonus
from radt.methods.trials import RunningTrials
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
    count_bonus = ExplorationBonus(TOY_GRID.spaces, 2, count_bonus=2.0)
    logits = lived(count_bonus, [1, 1, 3])
    expected = -2 * torch.log1p(torch.tensor([0.0, 2, 0, 1, 0]))
    torch.testing.assert_close(logits[0], expected)
    assert (logits[1] == 0).all()  # nothing was tried there


def test_with_the_first_reward_the_counts_are_ignored() -> None:
    count_bonus = ExplorationBonus(TOY_GRID.spaces, 2, count_bonus=2.0)
    logits = count_bonus.adjust(torch.zeros(2, 5), walked([1], rewards=(1.0, 0.0)), SLOTS)
    assert (logits == 0).all()  # slot 0 was rewarded, slot 1 stands elsewhere


def test_behind_a_reward_on_the_way_counting_begins_anew() -> None:
    spaces = replace(TOY_GRID.spaces, solved_above=1.0)
    count_bonus, trials, slot = (
        ExplorationBonus(spaces, 1, count_bonus=1.0),
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
        return logits[0]

    assert after(0.0)[1] == -np.log1p(1).astype(np.float32)
    assert after(0.0, 1.0)[1] == 0  # the key: nothing was tried with it
    assert after(1.0, 0.0)[1] == -np.log1p(1).astype(np.float32)
    assert after()[1] == 0  # the way to the key is known and can be followed
    again = ExplorationBonus(spaces, 1, count_bonus=1.0)
    again.restore(count_bonus.kept())
    assert [*again.counts[0]] == [*count_bonus.counts[0]]
    for place, times in count_bonus.counts[0].items():
        assert (again.counts[0][place] == times).all()


def test_a_new_task_forgets_the_counts_of_its_slot() -> None:
    count_bonus = ExplorationBonus(TOY_GRID.spaces, 2, count_bonus=1.0)
    lived(count_bonus, [1, 2])
    count_bonus.forget(np.array([0]))
    assert not count_bonus.counts[0]
    assert sum(times.sum() for times in count_bonus.counts[1].values()) == 2


@pytest.mark.parametrize(("spaces", "weight"), [(TOY_GRID.spaces, 0.0), (TOY_REACH.spaces, 5.0)])
def test_nothing_happens_without_weight_or_without_recurring_states(
    spaces: object, weight: float
) -> None:
    count_bonus = ExplorationBonus(spaces, 2, weight, revisit_penalty=weight)  # type: ignore[arg-type]
    logits = torch.randn(2, 3)
    assert count_bonus.adjust(logits, walked([1]), SLOTS) is logits


def test_who_waits_in_vain_on_a_known_way_looks_around() -> None:
    spaces, slot = TOY_GRID.spaces, np.array([0])
    count_bonus, trials = (
        ExplorationBonus(spaces, 1, count_bonus=0.0, revisit_penalty=2.0),
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
