"""Files of November 2026 (version 0.1.0) are still read, and mean what they meant."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import radt
from radt.agent import Agent
from radt.cli import main
from radt.config import from_json
from radt.data import Dataset, read_manifest
from radt.decode import leaves
from radt.envs.suite import SUITES
from radt.old_names import translated
from radt.plots.icl_json import read_record
from radt.plots.row_json import row_json
from radt.plots.tables import method_table
from radt.runs.roll_out import Trials, roll_out
from radt.runs.run import dataset_path
from radt.track import Tracker
from tests.compat.golden import FILES

RESULTS = Path(__file__).parents[2] / "results"
MAZE = RESULTS / "maze-runner-15x15"  # 30 trials
EXPECTED = json.loads((FILES / "expected.json").read_text())


def returns_of(agent: Agent, trials: int) -> list[float]:
    env = gymnasium.make("radt/DarkRoom-10x10-v0", task=85)
    returns = []
    for _ in range(trials):
        obs, _ = env.reset(seed=0)
        total, done = 0.0, False
        while not done:
            obs, reward, terminated, truncated, _ = env.step(agent.act(obs))
            agent.observe(float(reward), terminated, truncated)
            total, done = total + float(reward), terminated or truncated
        returns.append(total)
    return returns


def test_config() -> None:
    config = from_json(json.loads((FILES / "config.json").read_text()))
    assert (config.method, config.label) == ("ra-dt", "ra-dt+")
    assert config.env == "dark-key-door-10x10"
    assert from_json(config.to_json()) == config


def test_a_finished_run_is_taken_as_it_is(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(FILES / "run", run)
    config = from_json(json.loads((run / "config.json").read_text()))
    before = json.loads((run / "icl.json").read_text())
    assert radt.evaluate(config, run) == before
    assert read_record(run / "icl.json")["returns"] == before["returns"]


def test_a_checkpoint_evaluates_as_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADT_HOME", str(tmp_path))
    run = tmp_path / "run"
    shutil.copytree(FILES / "run", run)
    before = json.loads((run / "icl.json").read_text())
    (run / "icl.json").unlink()
    config = from_json(json.loads((run / "config.json").read_text()))
    assert radt.evaluate(config, run)["returns"] == before["returns"]


def test_a_dataset_is_whole() -> None:
    data = Dataset.open(FILES / "dataset")
    assert data.tasks == tuple(range(80))
    assert main(["data", "verify", str(FILES / "dataset"), "--quiet"]) == 0


def test_equal_data_have_the_hash_they_had() -> None:
    manifest = read_manifest(FILES / "dataset")
    assert (
        manifest.sha256
        == json.loads((FILES / "run" / "dataset.json").read_text())["card"]["sha256"]
    )
    told = {**manifest.hyper_parameters, "reveal": True}
    renamed = {**manifest.hyper_parameters, "privileged": True}
    old, new = (replace(manifest, hyper_parameters=values) for values in (told, renamed))
    assert old.sha256 == new.sha256


def test_a_dataset_is_recognised_and_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADT_HOME", str(tmp_path))
    config = radt.preset("dark-room-10x10", "dt", "smoke")
    shutil.copytree(FILES / "dataset", dataset_path(config))
    before = (dataset_path(config) / "manifest.json").read_bytes()
    assert radt.collect(config, workers=1) == dataset_path(config)
    assert (dataset_path(config) / "manifest.json").read_bytes() == before


def test_an_agent_goes_on_where_it_was_saved() -> None:
    agent = radt.load(radt.shipped("dark-room-10x10")).agent(seed=0)
    agent.start_task()
    assert returns_of(agent, 4) == EXPECTED["agent"]["returns_before"]
    agent.load(FILES / "agent.memory")
    assert returns_of(agent, 2) == EXPECTED["agent"]["returns_after"]
    assert agent.memory is not None
    assert len(agent.memory) == EXPECTED["agent"]["entries"]


def test_a_memory_is_read_and_verified(tmp_path: Path) -> None:
    shutil.copytree(FILES / "memory", tmp_path / "memory")
    assert main(["memory", "verify", str(tmp_path / "memory"), "--quiet"]) == 0
    loaded = radt.load(radt.shipped("dark-room-10x10"))
    with loaded.memory(tmp_path / "memory") as memory:
        assert len(memory) == EXPECTED["memory"]["entries"]
        agent = loaded.agent(memory=memory, tasks=[85])
        agent.start_task()
        assert returns_of(agent, 1)[0] > 80


@pytest.mark.parametrize("file", [FILES / "compare.json", MAZE / "compare.json"])
def test_published_tables_follow_from_their_records(file: Path) -> None:
    compared: dict[str, Any] = json.loads(file.read_text())
    folder = RESULTS / compared["env"]
    records = [read_record(path) for path in sorted(folder.glob("*-seed*/icl.json"))]
    own = {row.label: row for row in method_table(records) if row.env == compared["env"]}
    assert own.keys() >= compared["methods"].keys()
    anew = {record["label"] for record in records if "rule" in record}  # older ones name none
    kept = {name: row for name, row in compared["methods"].items() if name not in anew}
    assert kept
    against = tuple(f"minus.{label}." for label in anew)
    for name, before in kept.items():
        now = json.loads(json.dumps(row_json(own[name])))
        published, found = numbers(translated(before, now)), numbers(now)
        published = {path: n for path, n in published.items() if not path.startswith(against)}
        same = {path: found[path] for path in published}  # scores have been added since
        assert same == pytest.approx(published, abs=1e-9), name


def numbers(values: dict[str, Any]) -> dict[str, float]:
    """Flatten what was measured about a row to numbers by path."""
    flat = {}
    for path, value in leaves(values).items():
        items = value if isinstance(value, list) else [value]
        flat |= {f"{path}.{at}": item for at, item in enumerate(items) if _is_number(item)}
    return flat


def _is_number(item: object) -> bool:
    return isinstance(item, int | float) and not isinstance(item, bool)


@pytest.mark.parametrize("env", EXPECTED["shipped"])
def test_shipped_weights_act_as_they_did(env: str) -> None:
    loaded, suite = radt.load(radt.shipped(env)), SUITES[env]
    result = roll_out(
        loaded.method, Trials(suite, suite.eval_tasks[:5], 3, loaded.rule, 0), Tracker()
    )
    assert result.returns.tolist() == EXPECTED["shipped"][env]
