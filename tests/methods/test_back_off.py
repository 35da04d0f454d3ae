from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from radt.methods.back_off import LONGEST, KnownPath, known_path, packed, unpacked

TRIALS = st.lists(st.integers(0, 3), max_size=60)


def test_a_path_that_does_not_pay_is_avoided_twice_as_long_each_time() -> None:
    avoided = [known_path([1, *[0] * failed]).avoided for failed in range(12)]
    assert avoided == [0, 1, 0, 2, 1, 0, 4, 3, 2, 1, 0, 8]
    assert max(known_path([1, *[0] * failed]).avoided for failed in range(300)) == 2**LONGEST
    assert known_path([1, 0, 0, 0, 1]) == KnownPath(1, 0, 0)


@given(st.lists(TRIALS, min_size=1, max_size=4))
def test_what_is_saved_is_read_again(rewards: list[list[int]]) -> None:
    assert unpacked({"rewards_of_trials": packed(rewards)}, len(rewards)) == rewards


@given(TRIALS)
def test_older_files_lead_to_the_same_path(rewards: list[int]) -> None:
    path = known_path(rewards)
    columns = (path.most_rewards, path.avoided, path.failures)
    for names in (("most_rewards", "back_off", "failures"), ("farthest", "doubts", "failures")):
        saved = {name: torch.tensor([n]) for name, n in zip(names, columns, strict=True)}
        (behind,) = unpacked(saved, 1)
        assert known_path(behind) == path


def test_the_oldest_files_know_no_path() -> None:
    assert unpacked({"trial": torch.from_numpy(np.ones(2))}, 2) == [[], []]
