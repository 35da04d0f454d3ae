"""Robots and games, from data to a curve: what is told is recorded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import radt
from radt import cli
from tests.envs.test_procgen import drawn
from tests.envs.test_robots import simulated

METHODS = ("dt", "ra-dt", *(pytest.param(name, marks=pytest.mark.long) for name in ("ad", "dpt")))
HIDDEN = ("point-robot", "reacher-hidden")
LONG = (
    pytest.param(name, marks=(simulated, pytest.mark.long)) for name in ("dm-control", HIDDEN[1])
)
GAMES = pytest.param("procgen", marks=(drawn, pytest.mark.long))
ENVS = (HIDDEN[0], pytest.param("meta-world", marks=simulated), *LONG, GAMES)
UNSEEN = {"procgen": 4, **dict.fromkeys(HIDDEN, 40)}  # tasks; of the others 5


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("env", ENVS)
def test_from_data_to_a_curve(
    env: str,
    method: str,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = tmp_path_factory.getbasetemp() / "robots"  # where all methods find the same data
    out = home / env / method
    monkeypatch.setenv("RADT_HOME", str(home / "data"))
    words = ("--budget=smoke", "--threads=1", "--quiet", f"--out={out}")
    assert cli.main(["run", env, f"--method={method}", *words]) == 0
    record = json.loads((out / "icl.json").read_text())
    returns = np.array(record["returns"])
    assert returns.shape == (UNSEEN.get(env, 5), 2)
    assert np.isfinite(returns).all()
    assert (record["success"] is not None) == (env == "meta-world")
    assert (record["scoring"] is not None) == (env not in HIDDEN)
    assert (out / "report.html").stat().st_size > 10_000
    assert Path(out / "curve.png").exists()
    if method == "dt":  # it aims at the same targets, of its data
        again = out / "again.json"
        assert cli.main(["evaluate", str(out), f"--out={again}", "--threads=1", "--quiet"]) == 0
        assert json.loads(again.read_text())["returns"] == record["returns"]


@pytest.mark.parametrize(("env", "gap"), [("meta-world", 1000), ("dm-control", 250)])
def test_the_papers_settings_act_at_its_budget(env: str, gap: int) -> None:
    own = radt.preset(env, "ra-dt", "paper")
    assert (own.options.memory.top_k, own.options.memory.retrieve_every) == (4, 25)
    assert own.options.training.blend == 0.5
    assert own.options.model.action_head == "mse"
    assert (own.learn.updates, own.evaluate.trials) == (200_000, 30)
    assert radt.preset(env, "ad", "paper").options.episode_gap == gap
    assert radt.preset(env, "dt", "paper").options.context_len == 50
