"""AD under the rules of its authors' code: what changes, what is told, what is left as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from radt import api
from radt.methods.ad import AD
from radt.runs.authors_rules import WAYS, dropped, main
from tests.contracts.method import build_method
from tests.runs.small import small_config, use_toys
from tests.toys import TOY_GRID


def test_every_way_is_lived_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use_toys(monkeypatch, tmp_path / "data")
    config = small_config("ad", "evaluate.trials=3")
    api.run(config, tmp_path / "ad", threads=1)
    record = json.loads((tmp_path / "ad" / "icl.json").read_text())
    main((tmp_path / "ad",), tmp_path / "out.json")
    told = json.loads((tmp_path / "out.json").read_text())
    assert [line["way"] for line in told["ways"]] == [way.name for way in WAYS]
    assert told["ways"][0]["returns"] == record["returns"]  # as here: the run's own trials
    for line in told["ways"]:
        low, high = line["ci95_tasks"]
        assert low <= line["score"] <= high
    assert told["machine"]["threads"] == 1
    printed = capsys.readouterr().out
    assert all(way.name in printed for way in WAYS)


def test_dropout_ends_with_the_trials() -> None:
    method = build_method("ad", TOY_GRID.spaces)
    assert isinstance(method, AD)
    with dropped(method, 0.5):
        assert not method.options.cache
        method.actor(1)
        assert any(part.training for part in method.policy.modules())
    assert method.options.cache
    method.actor(1)
    assert not any(part.training for part in method.policy.modules())
    with (
        pytest.raises(TypeError, match="that of AD, not of dt"),
        dropped(build_method("dt", TOY_GRID.spaces), 0.5),
    ):
        pass
