"""`radt bench envs`: what is timed, and what is said of an original that is not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from radt import cli
from radt.bench import EnvsArguments, envs
from radt.errors import RunError
from radt.registry import UnknownNameError
from tests.envs.test_robots import simulated


@simulated
def test_each_task_is_stepped_in_every_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = envs.find_spec
    monkeypatch.setattr(
        envs, "find_spec", lambda name: None if name == "dm_control" else found(name)
    )
    out = tmp_path / "envs.json"
    words = ["--tasks=reach,reacher-easy", "--steps=10", "--num-envs=2", f"--out={out}"]
    assert cli.main(["bench", "envs", "--quiet", *words]) == 0
    reach, reacher = json.loads(out.read_text())["tasks"]
    assert min(reach["pool"], reach["slot"], reach["original"], reacher["slot"]) > 0
    assert reach["pool_by_original"] == pytest.approx(reach["pool"] / reach["original"])
    assert reacher["original"] is None
    assert "pip install dm_control" in capsys.readouterr().out


def test_what_cannot_be_timed_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="reach-sideways"):
        envs.bench_envs(EnvsArguments(tasks="reach-sideways"))
    with pytest.raises(RunError, match="at least 1"):
        envs.bench_envs(EnvsArguments(steps=0))
