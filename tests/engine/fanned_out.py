"""What does not depend on who does the work: datasets, evaluations, and runs of a comparison."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from radt.collect import CollectConfig, record_histories
from radt.commands.compare_work import work
from radt.commands.flags import Common
from radt.data import read_manifest
from radt.engine import Engine, LocalEngine
from radt.envs import SUITES
from radt.envs.dark_room import DarkRoomSuite
from radt.loading import load, method_at, shipped
from radt.runs.compare import Comparison, entries_of
from radt.runs.roll_out import Trials, shared
from radt.track import Tracker

ENV = "dark-room-10x10"
SMALL = (
    "learn.updates=6",
    "learn.evaluate_every=0",
    "evaluate.trials=2",
    "collect.transitions=256",
)


def check_fanned_out(engine: Engine, folder: Path) -> None:
    """Do everything with one process and with the engine, and compare."""
    for name, make in (("data", collected), ("returns", evaluated), ("runs", compared)):
        one, other = (
            make(who, folder / f"{name}-{who.workers}") for who in (LocalEngine(), engine)
        )
        assert one == other, name


def collected(engine: Engine, folder: Path) -> list[str]:
    """Return the hashes of a small dataset's files."""
    suite, config = SUITES[ENV], CollectConfig(n_steps=128, transitions=256, tasks_per_group=2)
    assert isinstance(suite, DarkRoomSuite)
    small = replace(suite, train_tasks=(0, 1, 2, 3, 4))
    record_histories(small, config, folder, quiet=True, engine=engine)
    return [entry.sha256 for entry in read_manifest(folder).files]


def evaluated(engine: Engine, folder: Path) -> list[list[list[float]]]:
    """Return what the shipped weights earn, and when first, on some tasks."""
    source, suite = shipped(ENV), SUITES[ENV]
    loaded = load(source)
    trials = Trials(suite, suite.eval_tasks[:5], 2, loaded.rule, seed=3)
    result = shared(engine, partial(method_at, source))(loaded.method, trials, Tracker())
    return [np.asarray(values).tolist() for values in (result.returns, result.first_reward)]


def compared(engine: Engine, folder: Path) -> dict[str, object]:
    """Return what the runs of a comparison say of themselves, but for machines and times."""
    comparison = Comparison(ENV, ("dt",), 2, "smoke", SMALL, folder / "runs", folder / "results")
    runs = [(comparison, one) for one in entries_of(comparison)]
    news = work(runs, Common(quiet=True, threads=1), engine)
    assert (news.busy, news.failed) == ([], {})
    records = sorted(comparison.published.glob("*-seed*/icl.json"))
    told = [json.loads(file.read_text(encoding="utf-8")) for file in records]
    return {
        "finished": sorted(news.finished),
        "returns": [record["returns"] for record in told],
        "first_reward": [record["first_reward"] for record in told],
    }
