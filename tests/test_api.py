"""The Python face: presets, phases as functions, loading, and what importing radt does."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import radt
from radt.checkpoint import CheckpointError
from radt.decode import DecodeError
from radt.envs import SUITES
from radt.icl import in_context_learning
from radt.loading import WEIGHTS
from radt.methods.method import build_method
from radt.runs.plan import plan_run, steps_per_decision
from radt.runs.run import RunError, dataset_path

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "01_gymnasium.py"
ENV = "dark-room-10x10"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADT_HOME", str(home))


@pytest.fixture(scope="module")
def finished(home: Path) -> Path:
    """A run of all phases at smoke budget."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RADT_HOME", str(home))
        config = radt.preset(ENV, "ra-dt+", "smoke", "learn.evaluate_every=0")
        assert radt.collect(config, workers=1) == dataset_path(config)
        radt.train(config, home / "run")
        radt.evaluate(config, home / "run")
    return home / "run"


def in_fresh_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_radt_registers_environments_and_stays_light() -> None:
    code = (
        "import sys, gymnasium, radt; print('torch' in sys.modules, "
        "gymnasium.make('radt/DarkRoom-10x10-v0', task=3).unwrapped.task)"
    )
    assert in_fresh_python(code) == "False 3"


@pytest.mark.parametrize(
    "first", ["import radt.collect as package; package.CollectConfig", "import radt; radt.collect"]
)
def test_collect_is_a_function_and_a_package(first: str) -> None:
    code = (
        f"{first}\nimport radt\nfrom radt.collect import CollectConfig, record_histories\n"
        "assert radt.collect.CollectConfig is CollectConfig\nprint(callable(radt.collect))"
    )
    assert in_fresh_python(code) == "True"


def test_every_public_name_is_there() -> None:
    for name in radt.__all__:
        assert getattr(radt, name) is not None
        assert name in dir(radt)
    with pytest.raises(AttributeError, match="no attribute 'colect'"):
        _ = radt.colect


def test_a_preset_takes_changes() -> None:
    config = radt.preset(ENV, "ra-dt", "smoke", "learn.updates=9", "seed=4")
    assert (config.learn.updates, config.seed, config.method) == (9, 4, "ra-dt")
    with pytest.raises(DecodeError, match="not of the form"):
        radt.preset(ENV, "ra-dt", "smoke", "learn.updates")


def test_only_data_made_as_in_the_paper_have_the_plain_name() -> None:
    assert dataset_path(radt.preset(ENV, "dt", "paper")).name == "ppo-seed0"
    smoke = dataset_path(radt.preset(ENV, "dt", "smoke")).name
    assert smoke.startswith("ppo-")
    assert smoke != "ppo-seed0"


def test_the_phases_leave_what_they_promise(finished: Path) -> None:
    record = json.loads((finished / "icl.json").read_text())
    wanted = {"experiment", "env", "method", "seed", "budget", "split", "returns", "optimum"}
    wanted |= {"action_rule", "threads", "config", "code_version", "machine", "wall_seconds"}
    assert wanted <= record.keys()
    assert np.shape(record["returns"]) == (20, 2)
    assert {"embedder", "train", "evaluate"} <= record["wall_seconds"].keys()
    assert record["threads"] == json.loads((finished / "choices.json").read_text())["threads"]
    assert record["context"] == {"input_steps": 50, "retrieved_steps": 100}


def test_a_finished_run_is_left_as_it_is_and_another_config_is_refused(finished: Path) -> None:
    before = (finished / "icl.json").read_bytes()
    config = radt.preset(ENV, "ra-dt+", "smoke", "learn.evaluate_every=0")
    radt.train(config, finished)
    assert radt.evaluate(config, finished)["env"] == ENV
    assert (finished / "icl.json").read_bytes() == before
    other = radt.preset(ENV, "ra-dt+", "smoke", "learn.evaluate_every=0", "seed=1")
    for phase in (radt.train, radt.evaluate):
        with pytest.raises(RunError, match="belongs to another run"):
            phase(other, finished)


def test_only_one_process_works_in_a_folder(finished: Path) -> None:
    from radt.files import locked

    config = radt.preset(ENV, "ra-dt+", "smoke", "learn.evaluate_every=0")
    with (
        locked(finished / ".run.lock", wait=False),
        pytest.raises(RunError, match="another process"),
    ):
        radt.evaluate(config, finished)


def test_what_learns_nothing_is_not_trained(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="learns nothing"):
        radt.train(radt.preset(ENV, "replay", "smoke"), tmp_path)


def test_a_plan_names_phases_and_sees_what_is_there(finished: Path, tmp_path: Path) -> None:
    config = radt.preset(ENV, "ra-dt+", "smoke", "learn.evaluate_every=0")
    assert all(phase.done for phase in plan_run(config, finished))
    fresh = plan_run(radt.preset(ENV, "ra-dt+", "laptop"), tmp_path / "none")
    assert [phase.name for phase in fresh] == ["collect", "embedder", "train", "evaluate"]
    assert not any(phase.done for phase in fresh)
    assert all(0 < phase.minutes < 60 and phase.megabytes > 0 for phase in fresh)
    assert [phase.name for phase in plan_run(radt.preset(ENV, "sweep"), tmp_path)] == ["evaluate"]


@pytest.mark.parametrize(
    ("method", "changes", "steps"),
    [
        ("dt", (), 50),
        ("dt", ("options.window_step=25",), 2),
        ("ra-dt+", ("options.window_step=10",), 5),
        ("ad", (), 3),
        ("ad", ("options.cache=false",), 200),
        ("ad", ("options.model.backbone=lstm",), 1),
    ],
)
def test_a_plan_knows_what_a_decision_reads(
    method: str, changes: tuple[str, ...], steps: float
) -> None:
    config = radt.preset(ENV, method, "laptop", *changes)
    built = build_method(config.method, SUITES[ENV].spaces, config.options, config.embedder, 0)
    assert steps_per_decision(built, config.options) == steps


def test_a_run_and_its_checkpoint_load_alike(finished: Path) -> None:
    whole, file = radt.load(finished), radt.load(str(finished / "model.safetensors"))
    assert whole.card == file.card
    assert whole.rule == file.rule == radt.preset(ENV, "ra-dt", "smoke").evaluate.rule
    returns = []
    for loaded in (whole, file):
        env = SUITES[ENV].make_vec((80, 81))
        agent = loaded.agent(2, seed=3, autoreset_mode=AutoresetMode.NEXT_STEP)
        returns.append(in_context_learning(agent, env, trials=2, seed=0).returns)
    assert np.array_equal(*returns)


def test_a_reference_is_loaded_from_its_config(tmp_path: Path) -> None:
    radt.evaluate(radt.preset(ENV, "replay", "smoke"), tmp_path)
    loaded = radt.load(tmp_path)
    assert loaded.card.method == "replay"
    assert loaded.agent(4).slots == 4


def test_what_cannot_be_loaded_is_said_clearly(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="neither a run nor a checkpoint"):
        radt.load(tmp_path)
    config = radt.preset(ENV, "ra-dt", "smoke")
    (tmp_path / "config.json").write_text(json.dumps(config.to_json()))
    with pytest.raises(CheckpointError, match="not trained yet"):
        radt.load(tmp_path)
    with pytest.raises(CheckpointError, match="no weights for dark-room-40x20"):
        radt.shipped("dark-room-40x20")


def test_shipped_weights_stay_small() -> None:
    assert sum(file.stat().st_size for file in WEIGHTS.glob("*")) < 4_000_000


@pytest.mark.skipif(not any(WEIGHTS.glob("*.safetensors")), reason="no weights are shipped")
def test_the_example_learns_in_context() -> None:
    returns = runpy.run_path(str(EXAMPLE))["main"]()
    assert len(returns) == 15
    assert np.mean(returns[-5:]) > np.mean(returns[:2])
