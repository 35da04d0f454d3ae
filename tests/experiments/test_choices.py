from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from radt.experiments.choices import UPDATES, choose


@pytest.fixture(autouse=True)
def same_threads_afterwards() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_the_fastest_is_measured_once_and_kept(tmp_path: Path) -> None:
    calls: list[int] = []
    first = choose(tmp_path / "choices.json", lambda: calls.append(torch.get_num_threads()))
    assert str(first.threads) in first.measured
    assert len(calls) == (UPDATES + 1) * len(first.measured)
    again = choose(tmp_path / "choices.json", lambda: calls.append(0), requested=7)
    assert again == first
    assert 0 not in calls
    assert torch.get_num_threads() == first.threads


def test_what_is_asked_for_is_not_measured(tmp_path: Path) -> None:
    def refuse() -> None:
        raise AssertionError

    choices = choose(tmp_path / "choices.json", refuse, requested=1)
    assert choices.threads == torch.get_num_threads() == 1
    assert json.loads((tmp_path / "choices.json").read_text())["measured"] == {}
