"""What a run says about its time."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from radt.runs import provenance
from radt.runs.provenance import Stopwatch


def test_a_machine_is_described_and_not_named() -> None:
    told = provenance.machine()
    assert told["cores"] >= 1
    assert isinstance(told["processor"], str)
    assert not told.keys() & {"node", "host", "user"}


def test_phases_add_up_over_starts(tmp_path: Path) -> None:
    file = tmp_path / "wall.json"
    file.write_text('{"train": 100.0}')
    watch = Stopwatch(file)
    with watch.phase("evaluate"):
        pass
    with pytest.raises(KeyboardInterrupt), watch.phase("train"):
        raise KeyboardInterrupt
    assert set(watch.seconds) == {"train", "evaluate"}
    assert watch.seconds["train"] >= 100.0
    assert json.loads(file.read_text()) == watch.seconds


def test_a_phase_that_never_ends_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "BEAT", 0.01)
    file = tmp_path / "wall.json"
    with Stopwatch(file).phase("train"):
        for _ in range(500):
            if file.exists() and json.loads(file.read_text())["train"] > 0:
                break
            time.sleep(0.01)
        else:
            pytest.fail("nothing was written while the phase ran")
