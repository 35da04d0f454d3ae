"""`radt compare` on the toy grid: plan, run, resume, publish, refuse, share, equal time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radt import api, cli
from radt.commands import compare_work
from radt.commands.compare_work import time_left, work
from radt.commands.flags import Common
from radt.files import locked
from radt.runs import compare as pacing
from radt.runs.compare import REFERENCES, Comparison, Pace, entry, fitting_updates
from radt.runs.provenance import trials_per_second, updates_per_second, validations
from radt.runs.run import RESULT, RunError
from tests.runs.small import snapshot, use_toys
from tests.toys import TOY_GRID

SETS = (
    *("collect.transitions=128", "collect.n_steps=64", "collect.batch_size=32"),
    *("learn.updates=4", "learn.log_every=1", "learn.evaluate_every=2"),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def toys(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_toys(monkeypatch, home)


@pytest.fixture
def without_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the curve and the film of every run, which take longer than the run."""
    monkeypatch.setattr(api, "report", lambda out: Path(out))


def words(folder: Path, *more: str, methods: str = "dt") -> list[str]:
    sets = [word for text in SETS for word in ("--set", text)]
    return [
        *("compare", TOY_GRID.name, "--methods", methods, "--seeds", "1", "--budget", "smoke"),
        *("--out", str(folder / "runs"), "--results", str(folder / "results")),
        *("--threads", "1", *sets, *more),
    ]


def answer(capsys: pytest.CaptureFixture[str], given: list[str]) -> dict[str, Any]:
    assert cli.main([*given, "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def compared(folder: Path, **more: Any) -> Comparison:
    return Comparison(
        TOY_GRID.name,
        ("dt",),
        1,
        "smoke",
        SETS,
        folder / "runs",
        folder / "results",
        **more,
    )


def test_a_comparison_from_nothing_and_again_without_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = words(tmp_path, methods="dt,ra-dt")
    plan = answer(capsys, [*given, "--dry-run"])
    rows = ("nearest", "replay", "sweep", "random", "dt", "ra-dt")
    names = [f"{row}-seed0" for row in rows]
    assert [(run["run"], run["state"]) for run in plan["runs"]] == [(n, "missing") for n in names]
    assert plan["hours"] > 0
    assert not list(tmp_path.iterdir())

    told = answer(capsys, given)
    assert told["finished"] == names
    assert set(told["methods"]) == set(rows)
    folder = tmp_path / "results" / TOY_GRID.name
    files = {path.name for path in folder.iterdir() if path.is_file()}
    pictures = {"compare.png", "compare-memory.png", "learning.png"}
    assert files == {"compare.md", "compare.json", "report.html", *pictures}
    kept = {path.name for path in (folder / "ra-dt-seed0").iterdir()}
    assert {"icl.json", "config.json", "summary.md", "curve.png", "choices.json"} <= kept
    assert "model.safetensors" in kept  # of seed 0
    assert "log.jsonl" not in kept
    row = told["methods"]["ra-dt"]
    assert row["context_steps"] == row["input_steps"] + row["retrieved_steps"]
    for name in ("parameters", "flops_per_decision", "targets_per_update", "samples_per_second"):
        assert row[name] > 0, name
    record = json.loads((folder / "dt-seed0" / "icl.json").read_text())
    assert [look["update"] for look in record["learning"]] == [2, 4]

    before = snapshot(tmp_path / "runs"), snapshot(folder / "dt-seed0")
    again = answer(capsys, given)
    assert again["finished"] == []
    assert (snapshot(tmp_path / "runs"), snapshot(folder / "dt-seed0")) == before
    assert cli.main([*given, "--quiet"]) == 0
    assert "minus ra-dt" in capsys.readouterr().out


@pytest.mark.usefixtures("without_reports")
def test_data_of_any_source_can_be_compared_and_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [
        *("compare", TOY_GRID.name, "--methods", "dt", "--seeds", "1", "--budget", "smoke"),
        *("--out", str(tmp_path / "runs"), "--results", str(tmp_path / "results")),
        *("--threads", "1", "--set", "source=noisy-expert", "--set", "learn.evaluate_every=0"),
    ]
    told = answer(capsys, given)
    assert told["data"] == "trained on noisy-expert data"
    assert cli.main([*given, "--quiet"]) == 0
    assert "2 tasks, trained on noisy-expert data" in capsys.readouterr().out


@pytest.mark.usefixtures("without_reports")
def test_what_was_interrupted_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = entry(compared(tmp_path), "dt", 0)
    api.collect(one.config, workers=1)
    checkpoint = api.train(one.config, one.out, threads=1)
    trained = checkpoint.read_bytes()
    plan = answer(capsys, [*words(tmp_path), "--dry-run"])
    assert plan["runs"][-1]["state"] == "interrupted"
    answer(capsys, words(tmp_path))
    assert checkpoint.read_bytes() == trained


@pytest.mark.usefixtures("without_reports")
def test_a_run_of_other_values_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(capsys, words(tmp_path))
    assert cli.main(words(tmp_path, "--set", "learn.updates=5")) == 2
    said = capsys.readouterr().err
    assert "holds a run with other values" in said
    assert "learn.updates: 4 there, 5 now" in said


@pytest.mark.usefixtures("without_reports")
def test_how_often_one_looks_makes_no_other_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(capsys, words(tmp_path))
    again = answer(capsys, words(tmp_path, "--set", "learn.evaluate_every=1"))
    assert again["finished"] == []


def test_equal_time_looks_four_times_unless_told_otherwise(tmp_path: Path) -> None:
    plain = replace(compared(tmp_path), sets=())
    assert plain.config("dt", 0, updates=50).learn.evaluate_every == 12
    told = replace(plain, sets=("learn.evaluate_every=0", "learn.updates=7"))
    learn = told.config("dt", 0, updates=50).learn
    assert (learn.updates, learn.evaluate_every) == (50, 0)


@pytest.mark.usefixtures("without_reports")
def test_references_stay_when_others_learn_longer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(capsys, words(tmp_path, methods="replay"))
    given = words(tmp_path, "--set", "learn.updates=5", "--set", "collect.seed=1")
    plan = answer(capsys, [*given, "--dry-run"])
    states = {run["run"]: run["state"] for run in plan["runs"]}
    assert states["replay-seed0"] == states["sweep-seed0"] == "published"
    assert states["dt-seed0"] == "missing"


@pytest.mark.usefixtures("without_reports")
def test_an_error_of_one_run_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(config: Any, *args: Any, **kwargs: Any) -> Any:
        if config.method == "replay":
            raise RunError("its model is missing")
        if config.method == "sweep":
            raise RuntimeError("shapes cannot be multiplied")
        return api.run(config, *args, **kwargs)

    monkeypatch.setattr(compare_work, "run", fail)
    assert cli.main(words(tmp_path, "--json")) == 2
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert told["failed"] == {
        "replay-seed0": "its model is missing",
        "sweep-seed0": "RuntimeError: shapes cannot be multiplied",
    }
    assert told["finished"] == ["nearest-seed0", "random-seed0", "dt-seed0"]
    assert "2 of the runs have failed" in printed.err


@pytest.mark.usefixtures("without_reports")
def test_two_processes_share_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with locked(entry(compared(tmp_path), "dt", 0).out / api.LOCK, wait=False):
        told = answer(capsys, words(tmp_path))
    assert told["busy"] == ["dt-seed0"]
    assert told["finished"] == [f"{name}-seed0" for name in REFERENCES]


@pytest.mark.usefixtures("without_reports")
def test_a_record_of_older_values_stays_until_there_is_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(capsys, words(tmp_path))
    longer = replace(compared(tmp_path), sets=(*SETS, "learn.updates=5"))
    planned = entry(longer, "dt", 0, strict=False)
    assert planned.state == "changed"
    published, worked = snapshot(planned.published), snapshot(planned.out)
    (planned.published / "of-older-values.png").touch()
    common = Common(threads=1, quiet=True)
    with locked(planned.out / api.LOCK, wait=False):  # somebody still works with older values
        assert work([(longer, planned)], common).busy == ["dt-seed0"]
    left = snapshot(planned.out)
    assert all(left[file] == worked[file] for file in worked if not file.endswith(api.LOCK))

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise RunError("the simulator is missing")

    with monkeypatch.context() as patch:
        patch.setattr(compare_work, "run", fail)
        assert list(work([(longer, planned)], common).failed) == ["dt-seed0"]
    assert published.items() <= snapshot(planned.published).items()
    assert work([(longer, planned)], common).finished == ["dt-seed0"]
    assert entry(longer, "dt", 0).state == "published"
    assert not (planned.published / "of-older-values.png").exists()


def test_what_others_do_is_not_counted_as_done(tmp_path: Path) -> None:
    runs = [replace(entry(compared(tmp_path), "dt", seed), minutes=10.0) for seed in range(4)]
    assert time_left(runs, done=0.0, spent=0.0) == "about 40.0 minutes left"
    assert time_left(runs[1:], done=0.0, spent=0.1) == "about 30.0 minutes left"
    assert time_left(runs[2:], done=10.0, spent=20.0) == "about 40.0 minutes left"
    runs[3].published.mkdir(parents=True)
    (runs[3].published / RESULT).write_text("{}")  # by another process
    assert time_left(runs[2:], done=10.0, spent=20.0) == "about 20.0 minutes left"
    runs[3] = replace(runs[3], state="changed")  # what is there is to be replaced
    assert time_left(runs[2:], done=10.0, spent=20.0) == "about 40.0 minutes left"


@pytest.mark.usefixtures("without_reports")
def test_only_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words(tmp_path, "--table", "--quiet")) == 2
    assert "nothing is published" in capsys.readouterr().err
    one = entry(compared(tmp_path), "replay", 0)
    api.run(one.config, one.out, threads=1)
    told = answer(capsys, words(tmp_path, "--table"))
    assert (told["finished"], list(told["methods"])) == (["replay-seed0"], ["replay"])


@pytest.mark.usefixtures("without_reports")
def test_equal_time_becomes_a_number_of_updates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paces: list[str] = []

    def measure(config: Any, threads: int, device: str) -> Pace:
        paces.append(config.method)
        return Pace(threads, before_seconds=1.0, update_seconds=0.1)

    monkeypatch.setattr(pacing, "measure_pace", measure)
    plain = words(tmp_path, "--set", "learn.evaluate_every=0")
    answer(capsys, plain)
    given = [*plain, "--wall-minutes", "0.1"]
    told = answer(capsys, given)
    assert told["wall_minutes"] == 0.1
    assert told["methods"]["dt"]["updates"] == 50
    folder = tmp_path / "results" / TOY_GRID.name
    assert (folder / "wall-0.1min" / "dt-seed0" / "icl.json").exists()
    assert (tmp_path / "runs" / f"{TOY_GRID.name}-wall0.1" / "dt-seed0").is_dir()
    assert "## Equal wall time: 0.1 minutes" in (folder / "compare.md").read_text()
    assert answer(capsys, given)["finished"] == []
    assert paces == ["dt"]


@pytest.mark.usefixtures("without_reports")
def test_a_room_with_equal_time_alone_tells_of_it_in_its_own_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "measure_pace", lambda *_: Pace(1, 1.0, 0.1))
    folder = tmp_path / "results" / TOY_GRID.name
    for minutes in ("0.1", "0.12"):
        answer(capsys, words(tmp_path, "--wall-minutes", minutes))
    answer(capsys, words(tmp_path, "--wall-minutes", "0.2", "--methods", "replay"))
    content = json.loads((folder / "compare.json").read_text())
    assert content["wall_minutes"] == 0.12
    page = (folder / "compare.md").read_text()
    assert "Methods were compared at equal wall time only" in page
    assert "## Equal wall time: 0.1 minutes" in page
    assert (folder / "wall-0.12min" / "compare.png").exists()
    assert "wall-0.12min/compare.png" in page
    answer(capsys, words(tmp_path))  # equal updates come first from now on
    assert json.loads((folder / "compare.json").read_text())["wall_minutes"] is None


def test_a_pace_is_measured_by_training_a_little(tmp_path: Path) -> None:
    comparison = compared(tmp_path)
    config = comparison.config("ra-dt", 0)
    api.collect(config, workers=1)
    pace = pacing.pace_of(config, tmp_path / "pace.json", threads=1)
    assert pace.threads == 1
    assert pace.before_seconds >= 0
    assert 0 < pace.update_seconds < 1
    assert pacing.read_pace(tmp_path / "pace.json", config.to_json()) == pace
    other = comparison.config("dt", 0).to_json()
    assert pacing.read_pace(tmp_path / "pace.json", other) is None
    content = json.loads((tmp_path / "pace.json").read_text())
    del content["config"]["options"]["translate"]  # a file from before there was such an option
    (tmp_path / "pace.json").write_text(json.dumps(content))
    assert pacing.read_pace(tmp_path / "pace.json", config.to_json()) == pace


def test_a_warm_cache_is_charged_at_its_full_price() -> None:
    filled = {"phase": "embed", "step": 0, "seconds": 1.0, "seconds_saved": 30.0}
    trained = {"phase": "embed", "step": 60, "seconds": 2.0, "seconds_saved": 31.0}
    assert pacing.saved_seconds([{"phase": "train", "step": 60}, filled, trained]) == 30.0
    assert pacing.saved_seconds([]) == 0.0


def test_updates_are_rounded_down_and_too_little_time_is_an_error(tmp_path: Path) -> None:
    pace = Pace(threads=1, before_seconds=30.0, update_seconds=0.25)
    assert pace.updates(1.0) == 100  # 30 seconds hold 120
    config = compared(tmp_path).config("dt", 0)
    with pytest.raises(RunError, match=r"0\.5 go by before the first one.*--wall-minutes"):
        fitting_updates(config, pace, 0.6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"seeds": 0}, "at least 1 seed"), ({"wall_minutes": 0.0}, "more than 0")],
)
def test_impossible_comparisons_say_so(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RunError, match=message):
        Comparison(TOY_GRID.name, ("dt",), **changes)


def test_unknown_names_are_told_before_anything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", TOY_GRID.name, "--methods", "dtt"]) == 2
    assert "did you mean 'dt'" in capsys.readouterr().err


def test_speed_does_not_count_pauses_validation_and_restarts() -> None:
    def line(time: float, step: int, **values: float) -> dict[str, Any]:
        return {"time": time, "phase": "train", "step": step, **values}

    lines = [
        line(0.0, 10, loss=1.0),
        line(5.0, 20, loss=1.0),
        line(60.0, 20, trial_1=3.0, trial_5=7.0),
        line(65.0, 30, loss=1.0),
        line(900.0, 20, loss=1.0),  # killed, and begun again from update 10
        line(905.0, 30, loss=1.0),
        line(2000.0, 40, loss=1.0),  # paused
        line(2005.0, 50, loss=1.0),
        line(2010.0, 50, trial_1=4.0, trial_5=8.0),
    ]
    assert updates_per_second(lines) == pytest.approx(2.0)
    assert trials_per_second(lines) is None
    assert validations(lines) == [
        {"update": 20, "trial_1": 3.0, "trial_5": 7.0},
        {"update": 50, "trial_1": 4.0, "trial_5": 8.0},
    ]
