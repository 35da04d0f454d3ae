"""Tries of settings: each is a line that says all of its config, and is not made again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from radt import preset
from radt.commands.flags import Common
from radt.commands.reproduce_work import Worker
from radt.config import from_json
from radt.experiments.reproduce import Where
from radt.experiments.tuning import (
    LOG,
    is_among,
    note_try,
    rows_tried,
    tries_of,
    tries_on_record,
)
from radt.runs.compare import Comparison, entry

ENV = "dark-room-10x10"


def test_a_try_is_a_line_and_is_known_again(tmp_path: Path) -> None:
    config = replace(preset(ENV, "ra-dt+", "laptop", "learn.updates=1000"), split="tune")
    record = {
        "env": ENV,
        "method": config.method,
        "label": config.label,
        "seed": 0,
        "returns": np.ones((16, 40)).tolist(),
        "variants": {"training-tasks": {"returns": np.ones((16, 40)).tolist()}},
        "solved_above": 0.0,
        "action_rule": {"temperature": 1.0, "keep_best": 2},
        "config": config.to_json(),
        "wall_seconds": {"train": 1.0},
    }
    assert not is_among(tries_on_record(tmp_path), config)
    note_try(tmp_path, record)
    line, _ = map(json.loads, (tmp_path / LOG).read_text().splitlines())
    assert from_json(line["config"]) == config
    assert (line["tested_on"], line["score"], line["solved_by"]["40"]) == (ENV, 1.0, 16.0)
    assert is_among(tries_on_record(tmp_path), config)
    assert not is_among(tries_on_record(tmp_path), replace(config, seed=1))
    row, learned = rows_tried(tries_on_record(tmp_path), config)
    assert (row["label"], row["rule"], row["tasks"]) == ("ra-dt+", "authors", "tune")
    assert learned["tasks"] == "training-tasks"
    assert tries_of(tmp_path, ENV) == {"ra-dt+": 2}


def test_a_record_of_older_values_is_no_new_try(tmp_path: Path) -> None:
    comparison = Comparison(ENV, ("ra-dt",), 1, "smoke", ("split=tune",), tmp_path, tmp_path)
    one = entry(comparison, "ra-dt", 0, planned=False)
    one.published.mkdir(parents=True)
    older = replace(one.config, learn=replace(one.config.learn, updates=7))
    (one.published / "config.json").write_text(json.dumps(older.to_json()))
    (one.published / "icl.json").write_text("{}")
    Worker(Where(results=tmp_path), Common())._note_try(one)
    assert not (tmp_path / LOG).exists()
