"""The command line: every verb, its help, its JSON, its errors and its exit codes."""

from __future__ import annotations

import io
import json
import re
import runpy
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

import radt
from radt import cli
from radt.checkpoint import read_tensors
from radt.commands import doctor
from radt.commands.envs_config import EnvsVerb
from radt.data.stats import sparkline
from radt.demo import Demo, grid_view, play
from radt.envs import SUITES, DarkRoomSuite, KeyDoorSuite
from radt.loading import load
from radt.variants import variant_names

ENV = "dark-room-10x10"
METHODS_HERE = set(variant_names())  # before a test registers one of its own
HUGE = 10**30
RL2 = ("run", ENV, "--method", "rl2-online", "--set")
LOOKING = ("data", "envs", "config", "report", "hub", "new")
LOOKING_AT_MEMORY = [("memory", verb) for verb in ("info", "verify", "repair", "compact", "export")]
SMOKE = [ENV, "--budget", "smoke", "--set", "learn.evaluate_every=0", "learn.updates=4"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADT_HOME", str(home))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("RADT_DEBUG", raising=False)


@pytest.fixture(scope="module")
def finished(home: Path) -> Path:
    """What `radt run` leaves at smoke budget."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RADT_HOME", str(home))
        words = ["run", *SMOKE, "--out", str(home / "run"), "--threads", "1", "--quiet", "--trace"]
        assert cli.main(words) == 0
    return home / "run"


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """Return the one JSON object that a command prints."""
    threads = () if words[0] in LOOKING else ("--threads", "1")
    assert cli.main([*words, "--json", *threads]) == 0
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    return dict(json.loads(printed))


def mistake(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what a command that cannot work says on stderr."""
    assert cli.main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert "Traceback" not in printed.err
    return printed.err


def every_verb(menu: cli.Menu = cli.MENU) -> list[tuple[str, ...]]:
    paths = []
    for name, item in menu.verbs.items():
        inner = every_verb(item) if isinstance(item, cli.Menu) else [()]
        paths += [(name, *rest) for rest in inner]
    return paths


MENUS = [(), ("data",), ("config",), ("bench",), ("analyse",), ("hub",)]


@pytest.mark.parametrize("words", [*MENUS, *every_verb()])
def test_help_teaches(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert " ".join(("usage: radt", *words)) in text
    if words in every_verb():
        assert "--quiet" in text
        assert "--json" in text
        for flag in ("--device", "--threads"):
            looks = words[0] in LOOKING or words in LOOKING_AT_MEMORY
            computes = not looks or words == ("data", "encode")
            assert (flag in text) == computes, "only flags that do something"


def test_help_names_every_method_where_one_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("run", "train", "collect"):
        with pytest.raises(SystemExit):
            cli.main([verb, "--help"])
        offered = capsys.readouterr().out.partition("--method STR")[2].partition("--budget")[0]
        named = set(re.findall(r"[a-z0-9+-]+", offered))
        assert (named >= METHODS_HERE) == (verb != "collect"), "data are the same for all"
        assert bool(offered) == (verb != "collect")


def test_a_run_leaves_its_files_and_a_second_one_changes_nothing(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"icl.json", "curve.png", "summary.md", "trials.gif", "model.safetensors", "wall.json"}
    names |= {"report.html", "dataset.json"}
    assert names <= {path.name for path in finished.iterdir()}
    assert (finished / "trace.jsonl").exists()
    assert {path.name for path in finished.glob("*.safetensors")} == {"model.safetensors"}
    before = (finished / "icl.json").read_text()
    record = answer(capsys, "run", *SMOKE, "--out", str(finished))
    assert (finished / "icl.json").read_text() == before
    assert np.shape(record["returns"]) == (20, 2)
    assert cli.main(["run", *SMOKE, "--out", str(finished), "--quiet"]) == 0
    shown = capsys.readouterr().out
    for text in ("Mean return", "solves", "optimum", "icl.json"):
        assert text in shown


def test_a_dry_run_only_speaks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "none"
    plan = answer(capsys, "run", ENV, "--out", str(out), "--dry-run")
    assert [phase["name"] for phase in plan["phases"]] == [
        "collect",
        "embedder",
        "train",
        "evaluate",
    ]
    assert not out.exists()
    assert cli.main(["run", ENV, "--out", str(out), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "8,000,000 transitions" in shown
    assert "GPU" not in shown
    assert cli.main(["run", ENV, "--out", str(out), "--dry-run", "--budget", "paper"]) == 0
    shown = capsys.readouterr().out
    assert " days" in shown
    assert "meant for a GPU" in shown


@pytest.mark.parametrize("name", ["[/red]x", "[bold]x", "x\x1b]0;y\x07", "x\x9b31m", "x\ry"])
def test_names_are_text_in_the_terminal(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    for words in (("run", ENV, "--dry-run", "--out", name), ("report", name)):
        cli.main(words)
        printed = capsys.readouterr()
        shown = re.sub(r"\x1b\[[\d;]*m", "", printed.out + printed.err)  # our own colours
        assert re.split(r"[\x00-\x1f\x9b]", name)[0] in shown
        assert not {"\x1b", "\x9b", "\x07", "\r"} & {*shown}


def test_a_run_says_what_it_will_do_before_it_does_it(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(finished, tmp_path / "copy")
    (copy / "icl.json").unlink()
    assert cli.main(["run", *SMOKE, "--out", str(copy), "--threads", "1"]) == 0
    assert "MB" in capsys.readouterr().err
    assert cli.main(["run", *SMOKE, "--out", str(copy), "--threads", "1"]) == 0
    assert "MB" not in capsys.readouterr().err, "nothing is left to do"


def test_collect_and_train_are_the_run_in_parts(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = answer(capsys, "collect", *SMOKE)
    assert card["tasks"] == 80
    trained = answer(capsys, "train", *SMOKE, "--out", str(tmp_path / "again"), "--tensorboard")
    ours, _ = read_tensors(Path(trained["checkpoint"]))
    theirs, _ = read_tensors(finished / "model.safetensors")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert list((tmp_path / "again" / "tensorboard").iterdir())


def test_evaluate_works_where_the_spaces_are_the_same(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = answer(
        capsys,
        *("evaluate", str(finished), "--env", "dark-room-10x10-slip", "--trials", "1"),
        *("--out", str(tmp_path / "slip.json"), "--trace"),
    )
    assert record["env"] == "dark-room-10x10-slip"
    assert np.shape(record["returns"]) == (20, 1)
    assert (tmp_path / "slip.json").exists()
    assert "other spaces" in mistake(
        capsys, "evaluate", str(finished), "--env", "dark-room-20x20", "--trials", "1"
    )
    assert "neither a run nor a checkpoint" in mistake(capsys, "evaluate", str(tmp_path))
    said = mistake(capsys, "evaluate", str(finished / "icl.json"))
    assert "give a run's folder" in said
    assert "delete" not in said


def test_evaluations_lie_beside_each_other_and_none_is_overwritten(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = answer(capsys, "evaluate", str(finished))
    assert np.shape(own["returns"]) == (20, 2), "as many trials as the run's config says"
    other = answer(capsys, "evaluate", str(finished), "--trials", "1")
    assert np.shape(other["returns"]) == (20, 1)
    assert json.loads(Path(own["out"]).read_text())["returns"] == own["returns"]
    assert Path(own["out"]) != Path(other["out"])
    assert "--out FILE" in mistake(capsys, "evaluate", str(finished), "--trials", "1")


def test_rules_and_controls_are_evaluated_again_and_shown_beside_the_method(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("evaluate", str(finished), "--controls", "erased,best-trial", "--rules", "authors")
    record = answer(capsys, *asked, "--out", str(tmp_path / "again.json"))
    own = json.loads((finished / "icl.json").read_text())
    assert record["returns"] == own["returns"], "the same weights, tasks and random numbers"
    assert list(record["controls"]) == ["erased", "best-trial"]
    assert list(record["rules"]["authors"]["controls"]) == ["erased"]
    assert cli.main([*asked, "--trials", "1", "--quiet"]) == 0
    shown = capsys.readouterr().out
    for told in ("emptied before each trial", "best-trial", "By the rule authors", "memory buys"):
        assert told in shown
    said = mistake(capsys, "evaluate", str(finished), "--controls", "best")
    assert "best-trial" in said
    said = mistake(capsys, "evaluate", str(finished), "--split", "unseen", "--trials", "1")
    assert "eval" in said


def test_a_trace_of_what_is_finished_is_not_promised(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(finished, tmp_path / "copy")
    (copy / "trace.jsonl").unlink()
    assert cli.main(["run", *SMOKE, "--out", str(copy), "--trace", "--quiet"]) == 0
    assert f"`radt evaluate {copy} --trace`" in capsys.readouterr().err


def test_a_damaged_result_is_named(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(finished, tmp_path / "copy")
    (copy / "icl.json").write_text('{"env": ')
    said = mistake(capsys, "run", *SMOKE, "--out", str(copy), "--quiet")
    assert "icl.json is damaged" in said
    assert "delete it" in said


def test_training_without_data_says_how_to_make_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = ("--set", "collect.seed=7")
    said = mistake(capsys, "train", *SMOKE, *sets, "--out", str(tmp_path / "x"))
    assert f"radt collect {ENV} --budget smoke --set collect.seed=7" in said


def test_the_version_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"radt {radt.__version__}\n"
    assert radt.__version__ == version("radt")


def test_the_package_can_be_run_as_a_module(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["radt", "--version"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("radt", run_name="__main__")
    assert capsys.readouterr().out.startswith("radt ")


def test_datasets_are_listed_described_and_verified(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (listed,) = answer(capsys, "data", "list")["datasets"]
    assert answer(capsys, "data", "info", ENV)["folder"] == listed["folder"]
    assert answer(capsys, "data", "verify", listed["folder"])["files"] == 80
    assert cli.main(["data", "info", listed["folder"]]) == 0
    assert "returns over time" in capsys.readouterr().out
    assert "radt collect dark-room-20x20" in mistake(capsys, "data", "info", "dark-room-20x20")
    said = mistake(capsys, "data", "info", "/nowhere")
    assert "'/nowhere' is neither the folder of a finished dataset" in said
    assert "collect" not in said


def test_environments_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["name"]: row for row in answer(capsys, "envs")["envs"]}
    assert rows[ENV]["horizon"] == 100
    assert rows[ENV]["optimum"] == pytest.approx(91.05)
    assert cli.main(["envs"]) == 0
    assert "80 + 20" in capsys.readouterr().out


def test_config_show_says_where_values_come_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.json"
    file.write_text('{"method": "dt", "learn": {"clip": 0.5}}')
    words = ("config", "show", ENV, "--config", str(file), "--set", "learn.updates=7")
    shown = answer(capsys, *words)
    assert shown["config"]["method"] == "dt"
    sources = shown["sources"]
    assert sources["learn.updates"] == "--set"
    assert sources["learn.clip"] == "file mine.json"
    assert sources["learn.batch_size"] == "budget laptop"
    assert sources["learn.weight_decay"] == "default"
    assert sources["env"] == "command line"
    assert cli.main(words) == 0
    lines = {line.split()[1]: line for line in capsys.readouterr().out.splitlines() if "*" in line}
    assert "7" in lines["learn.updates"]


def test_options_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    told = answer(capsys, "config", "explain", "options.memory.alpha")
    assert told["options"][0]["default"] == "1.0"
    presets = {name: line["budgets"] for line in told["values"] for name in line["for"]}
    assert presets["ra-dt+"] == ["10.0", "10.0", "10.0"]
    assert told["paper"][0]["value"] == 1.0
    for words in ((), ("options.memory",), ("collect.n_epochs",)):
        assert cli.main(["config", "explain", *words]) == 0
        assert (words or ("options.memory",))[0] in capsys.readouterr().out


def test_a_runs_own_config_gives_that_run(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = finished / "config.json"
    shown = answer(capsys, "config", "show", "--config", str(file))
    assert shown["config"] == json.loads(file.read_text())
    assert answer(capsys, "config", "diff", str(finished), str(file))["differences"] == []
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**json.loads(file.read_text()), "seed": 5}))
    (told,) = answer(capsys, "config", "diff", str(finished), str(other))["differences"]
    assert told == f"seed: 0 in {finished}, 5 in {other}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("rnu", ENV), "did you mean 'run'"),
        (("run", "dark-rom"), "unknown environment 'dark-rom'; did you mean 'dark-room"),
        (("run", "xyz"), "choose among dark-key-door-10x10, "),
        (("run", ENV, "--budget", "tiny"), "unknown budget 'tiny'; choose among paper, laptop"),
        (("run", ENV, "--seed", "-1"), "seed must be at least 0, not -1"),
        (("run", ENV, "--set", "learn.updates=-5"), "updates must be at least 1, not -5"),
        (("run", ENV, "--set", "evaluate.trials=0"), "trials must be at least 1, not 0"),
        (("run", ENV, "--out", ""), "what follows --out is empty"),
        (("run", ENV, "--out="), "what follows --out is empty"),
        (("run",), "say which environment"),
        (("run", ENV, "--method", "radt"), "did you mean 'ra-dt'"),
        (("run", ENV, "--set", "learn.updtes=3"), "did you mean updates"),
        (("config", "explain", "options.memory.alhpa"), "did you mean 'options.memory.alpha'"),
        (("run", ENV, "--set", "learn.updates=many"), "expected int, got 'many'"),
        (("run", ENV, "--set", "collect.n_steps=100"), "multiple of batch_size"),
        (("run", ENV, "--config", "absent.json"), "absent.json: No such file"),
        (("run", ENV, "--set", "learn.learning_rate=-1"), "learning_rate must not be negative"),
        (("run", ENV, "--set", "learn.clip=-0.5"), "clip must be above 0"),
        (("run", ENV, "--set", "collect.learning_rate=-1"), "learning_rate must not be negative"),
        (("run", ENV, "--set", "collect.clip_range=-0.2"), "clip_range must be above 0"),
        (("run", ENV, "--set", "collect.gamma=5"), "gamma must lie in [0, 1]"),
        (("run", ENV, "--set", "options.training.query_dropout=-2"), "query_dropout"),
        (("run", ENV, "--set", "learn.clip=NaN"), "expected a finite number"),
        (("run", ENV, "--set", "learn.clip=" + "[" * 5000), "expected float"),
        (("run", ENV, "--set", "learn"), "is not of the form"),
        (("run", ENV, "--set", "collect.batch_size=0"), "a batch needs two samples"),
        (("run", ENV, "--set", "source=ppo-lstm", "collect.n_steps=0"), "n_steps must be at least"),
        (("run", ENV, "--set", "options.episode_every=0"), "episode_every must be at least 1"),
        (("run", ENV, "--set", f"options.episode_every={HUGE}"), "episode_every must be at most"),
        (("run", ENV, "--set", f"options.memory.retrieve_every={HUGE}"), "retrieve_every must lie"),
        (("run", ENV, "--set", f"options.memory.capacity={HUGE}"), "capacity must lie in"),
        (("run", ENV, "--set", "options.training.min_length=-1"), "min_length must be 0 or more"),
        (("run", ENV, "--set", "options.training.blend=-2"), "blend must be a share"),
        ((*RL2, "options.learning_rate=-1"), "learning_rate must not be negative"),
        ((*RL2, "options.ent_coef=-1"), "ent_coef must not be negative"),
        ((*RL2, "options.sequences=0"), "sequences must be at least 1"),
        ((*RL2, "options.units=0"), "units must be at least 1"),
        ((*RL2, "options.reward_scale=-1"), "reward_scale must be above 0"),
        (("report", "[/red]"), "[/red]"),
        (("demo", "--device", "nowhere"), "--device nowhere cannot be used"),
        (("demo", "--threads", "0"), "--threads must be at least 1"),
        (("demo", "--goals", "99"), "has 20 goals never seen"),
        (("demo", "--seed", "-1"), "--seed must be at least 0"),
        (("demo", "--checkpoint", "absent"), "neither a run nor a checkpoint"),
    ],
)
def test_mistakes_end_with_one_clean_line(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in " ".join(mistake(capsys, *words).split())


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADT_DEBUG", "1")
    with pytest.raises(KeyError, match="unknown environment 'dark-rom'"):
        cli.main(["run", "dark-rom"])


def test_errors_that_are_not_ours_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: EnvsVerb) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(EnvsVerb, "execute", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main(["envs"])


def test_control_c_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(self: EnvsVerb) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EnvsVerb, "execute", stop)
    assert cli.main(["envs", "--quiet"]) == 130
    said = capsys.readouterr().err
    assert "the same command goes on from here" in said
    assert said.splitlines()[-1] == "radt envs --quiet"


@pytest.mark.parametrize("name", ["collect", "train", "decide", "memory"])
def test_trying_a_bench_leaves_the_published_record_alone(name: str) -> None:
    verb = cli.parse(["bench", name])
    assert vars(verb)["out"] == Path("runs", "bench", f"{name}.json")


def test_who_only_looks_waits_for_nothing_heavy() -> None:
    code = "from radt import cli; import sys; cli.main(['envs']); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_one_set_takes_several_values() -> None:
    assert cli.spread_sets(["x", "--set", "a=1", "b=2", "--seed", "3", "--set", "c=4"]) == [
        *("x", "--set", "a=1", "--set", "b=2", "--seed", "3", "--set", "c=4"),
    ]


def test_the_doctor_looks_and_tests(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "check_run", lambda: "left out")
    found = answer(capsys, "doctor")
    assert found["installed"]["torch"]
    assert all(test["works"] for test in found["tests"])

    def fail() -> str:
        raise ValueError("broken")

    monkeypatch.setattr(doctor, "check_run", fail)
    assert cli.main(["doctor"]) == 2
    printed = capsys.readouterr()
    assert "ValueError: broken" in printed.out
    assert "collect, train, evaluate failed" in printed.err


def test_the_demo_prints_a_table_without_a_terminal(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("demo", "--checkpoint", str(finished), "--trials", "2", "--goals", "3")
    assert np.shape(answer(capsys, *words)["returns"]) == (3, 2)
    assert cli.main([*words]) == 0
    shown = capsys.readouterr().out
    assert "solved" in shown
    assert "the first trial earns" in shown
    assert "whose spaces differ" in mistake(
        capsys, "demo", "dark-room-20x20", "--checkpoint", str(finished)
    )


def test_the_demo_draws_grids(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radt.demo.SECONDS_PER_FRAME", 0.0)
    suite = SUITES[ENV]
    assert isinstance(suite, DarkRoomSuite)
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    result = play(Demo(load(finished), suite, goals=1, trials=2), console)
    drawn = console.file.getvalue()  # type: ignore[attr-defined]
    assert result.returns.shape == (1, 2)
    assert "trial 2 of 2" in drawn
    assert drawn.count("◆") > 100
    assert "which it cannot see" in drawn


def test_bars_fill_from_nothing_to_the_best() -> None:
    assert sparkline([0.0, 50.0, 100.0, 200.0], 0.0, 100.0) == "▁▅██"


def test_the_key_is_shown_until_it_is_taken(finished: Path) -> None:
    suite = SUITES["dark-key-door-10x10"]
    assert isinstance(suite, KeyDoorSuite)
    demo = Demo(load(finished), suite, goals=1)
    agent, slot, task = demo.loaded.agent(1), np.array([0]), demo.tasks[0]
    key = suite.room.observations[suite.room.key(task)]
    agent.trials.see(slot, np.zeros((1, 2), int))
    assert grid_view(demo, agent, 0).key == tuple(key)
    agent.trials.record(slot, np.array([0]), np.array([1.0], np.float32))
    agent.trials.see(slot, key[None])
    assert grid_view(demo, agent, 0).key is None
