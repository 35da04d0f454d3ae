"""`radt bench`: how a record is shown and kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from radt.bench import train
from radt.cli import main
from radt.commands.bench import shown

RECORD = {"speeds": [dict.fromkeys(train.TABLE[1], 1.0)], "budget": "smoke", "ratio": 2.0}


def test_the_command_keeps_its_record_and_shows_the_ratio_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(train, "bench_train", lambda *given: RECORD)
    file = tmp_path / "record.json"
    assert main(["bench", "train", "--quiet", "--out", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "smoke" in printed
    assert printed.splitlines()[-1].startswith("ratio ")
    assert json.loads(file.read_text()) == RECORD


def test_a_record_is_shown_as_a_table_and_the_rest() -> None:
    record = {"reads": [{"index": "flat", "p50_ms": 0.5}], "k": 50, "ratio": 2.0}
    rows, facts = shown(record, "reads", ("index", "p50_ms"))
    assert (rows.row_count, facts.row_count) == (1, 1)
