"""The table for people, the JSON for programs, and the ratio last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from radt.bench.report import publish, with_provenance


def test_the_ratio_is_printed_last_and_the_record_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "x.json"
    record = with_provenance("x", {"rate": 3.0}, ratio=38.44)
    publish(record, "title", [("rate", "3")], out)
    assert capsys.readouterr().out.splitlines()[-1] == "ratio 38.44"
    assert json.loads(out.read_text()) == record
    assert {"benchmark", "rate", "code_version", "machine"} <= record.keys()


def test_json_only_prints_one_object_whose_last_word_is_the_ratio(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = with_provenance("x", {}, ratio=2.0)
    publish(record, "title", [], tmp_path / "x.json", json_only=True)
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    assert json.loads(printed) == record
    assert list(json.loads(printed))[-1] == "ratio"
