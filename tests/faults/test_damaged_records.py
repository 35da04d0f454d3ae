"""Damaged records of a run: refused, left out or made anew; what is told can be, and is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from radt.runs.run import CHECKPOINT, RESULT
from tests.faults.battery import assert_clean, watched
from tests.faults.records import damage_records, is_one_line, make_run, said_by
from tests.memory.conftest import Tally
from tests.runs.small import use_toys
from tests.toys import TOY_GRID

USUAL = ("--budget", "smoke", "--threads", "1", "--quiet")
ODD = ("[" * 100_000, "[]", '{"config": []}', '{"config": {"evaluate": []}}', "NaN", "\x00")


@pytest.mark.parametrize("content", ODD, ids=range(len(ODD)))
def test_odd_results_are_one_line(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_toys(monkeypatch, tmp_path)
    out = tmp_path / "run"
    out.mkdir()
    (out / CHECKPOINT).touch()
    (out / RESULT).write_text(content)
    said = said_by("run", TOY_GRID.name, "--method", "replay", *USUAL, "--out", str(out))
    assert is_one_line(said), said


@pytest.mark.long
def test_many_damaged_records(tmp_path: Path, tally: Tally) -> None:
    make_run(tmp_path / "whole")
    assert_clean(watched(damage_records, tmp_path / "whole", cases=300), tally)
