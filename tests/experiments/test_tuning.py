from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from radt import preset
from radt.config import from_json
from radt.envs.suite import SUITES
from radt.icl import ICLResult
from radt.runs import tuning
from radt.runs.evaluate import Trials
from radt.runs.provenance import Stopwatch

ENV = "dark-room-10x10"


def test_a_line_says_the_whole_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "LOG", tmp_path / "tuning.jsonl")
    config = replace(preset(ENV, "ra-dt+", "laptop", "learn.updates=1000"), split="tune")
    tasks = SUITES[ENV].train_tasks[-16:]
    trials = Trials(SUITES[ENV], tasks, 40, config.evaluate.rule, config.seed)
    result = ICLResult(np.ones((16, 40)), np.zeros((16, 40), dtype=np.int64))
    one = tuning.Try(ENV, "ra-dt+", ("learn.updates=1000",))
    tuning._record(one, config, trials, None, result, Stopwatch())
    line = json.loads((tmp_path / "tuning.jsonl").read_text())
    assert from_json(line["config"]) == config
    assert (line["tested_on"], line["score"]) == (ENV, 1.0)


def test_changed_code_trains_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    one, folders = tuning.Try(ENV, "dt", ("seed=1",)), []
    for version in ("0.1.0+abc", "0.1.0+def"):
        monkeypatch.setattr(tuning, "code_version", lambda version=version: version)
        folders.append(one.out)
    assert folders[0] == Path("runs/tune") / ENV / "0.1.0+abc" / "dt-seed=1"
    assert folders[0] != folders[1]
