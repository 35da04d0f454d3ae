"""Minari datasets, both ways."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from radt.data.manifest import DataError
from radt.data.minari import from_minari, to_minari
from radt.envs.suite import TaskSuite
from radt.memory.identity import check_trajectories
from tests.toys import TOYS, histories


@pytest.mark.parametrize("suite", TOYS, ids=lambda suite: suite.name)
def test_what_was_written_is_read(
    suite: TaskSuite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    lived = [t for episodes in histories(suite, 2).values() for t in episodes]
    to_minari("toy/mine-v0", lived, suite.spaces)
    again = from_minari("toy/mine-v0")
    check_trajectories(again, suite.spaces)
    assert [(t.task, t.episode) for t in again] == [(t.task, t.episode) for t in lived]
    for one, other in zip(again, lived, strict=True):
        for name in ("states", "actions", "rewards"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    episode = minari.load_dataset("toy/mine-v0")[0]
    assert len(episode.observations) == len(episode.rewards) + 1
    assert episode.terminations.tolist() == [False] * 11 + [True]
    with pytest.raises(DataError, match="cannot be read"):
        from_minari("toy/other-v0")


def test_without_the_library_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(DataError, match=r"pip install 'radt\[minari\]'"):
        from_minari("toy/mine-v0")
