"""What others plug in from outside, as a file or as a package, works as what is built in."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import radt.api  # registers all that is built in before a test copies it  # noqa: F401
from radt import cli, registry
from radt.api import collect, preset
from radt.collect import CollectError
from radt.collect.record import collection_plan
from radt.commands import new
from radt.data import read_manifest
from radt.envs import SUITES
from radt.envs.check import check_suite
from radt.errors import RadtWarning, RunError
from radt.files import sha256
from radt.memory.embed import EMBEDDERS
from radt.memory.index import INDEXES
from radt.methods import METHODS
from radt.model.encoders import ENCODERS
from radt.plots.report import command, provenance
from radt.registry import PluginError, UnknownNameError
from radt.runs.compare import read_config
from radt.runs.evaluate import evaluate_run
from radt.runs.provenance import Stopwatch
from radt.runs.run import Run, claim, collect_command
from tests.contracts import embedder as embedder_contract
from tests.contracts import encoder as encoder_contract
from tests.contracts import index as index_contract
from tests.model.batches import SPACES

EXAMPLE = Path(__file__).parents[1] / "examples" / "radt-example"
TEMPLATE = Path(new.__file__).parent / "templates" / "method.py"  # what `radt new method` writes
FILES = {file.stem: file for file in (EXAMPLE / "src" / "radt_example").glob("[a-z]*.py")}
FILES["method"] = TEMPLATE
SMOKE = ("--budget=smoke", "--threads=1", "--quiet", "--json")
OWN_PARTS = ("--set", "options.memory.index=one-product", "options.model.encoder=waves")

Plug = Callable[..., None]


@pytest.fixture
def plug(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plug_ins: None) -> Plug:
    """Name files in $RADT_PLUGINS; what they register is forgotten in the end."""
    monkeypatch.setenv("RADT_HOME", str(tmp_path / "data"))

    def name(*files: Path | str) -> None:
        monkeypatch.setenv("RADT_PLUGINS", os.pathsep.join(map(str, files)))

    return name


@pytest.fixture
def example(plug: Plug) -> None:
    """Plug in every file of the example."""
    plug(*FILES.values())


def words(out: Path, *more: str) -> list[str]:
    """Compare the methods of the example; what is found in `out` is not run again."""
    folders = (f"--out={out / 'runs'}", f"--results={out / 'results'}")
    return ["compare", "corridor", "--seeds=1", *SMOKE, *folders, *more]


def test_files_outside_the_package_run_and_compare(
    example: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs" / "corridor" / "template-seed0"
    assert cli.main(["run", "corridor", "--method=template", f"--out={out}", *SMOKE]) == 0
    assert json.loads(capsys.readouterr().out)["tasks"] == [2, 7]
    assert (out / "model.safetensors").is_file()
    assert cli.main(words(tmp_path, "--methods=template,ra-dt-places")) == 0
    compared = json.loads(capsys.readouterr().out)
    assert list(compared["methods"]) == ["ra-dt-places", "template", "nearest", "replay", "random"]
    assert compared["env"] == "corridor"


def test_a_package_is_found_by_its_entry_points(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "packages"
    shutil.copytree(EXAMPLE, source)  # building leaves files behind
    install = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--target", target, source)
    check(*install, *offline, cwd=tmp_path)
    one = ["run", "corridor", "--method=ra-dt-places", *SMOKE, *OWN_PARTS]
    one.append(f"--out={tmp_path / 'runs' / 'corridor' / 'ra-dt-places-seed0'}")
    both = [one, words(tmp_path, "--methods=ra-dt-places", *OWN_PARTS)]
    code = f"from radt.cli import main\nfor words in {both}:\n    assert main(words) == 0"
    env = {"PYTHONPATH": str(target), "RADT_HOME": str(tmp_path / "data")}
    lines = check(sys.executable, "-c", code, cwd=tmp_path, **env).splitlines()
    run, compared = map(json.loads, lines)
    assert run["config"]["options"]["memory"]["index"] == "one-product"
    assert run["config"]["options"]["model"]["encoder"] == "waves"
    assert {"ra-dt-places", "replay"} <= set(compared["methods"])


def check(*command: str | Path, cwd: Path, **env: str) -> str:
    """Run a command that must succeed, and return what it prints."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_environment_keeps_its_contract(example: None) -> None:
    suite = SUITES["corridor"]
    assert [finding for finding in check_suite(suite) if finding.problems] == []


def test_the_encoder_keeps_its_contract(example: None) -> None:
    for promise in vars(encoder_contract).values():
        if getattr(promise, "__name__", "").startswith("check_"):
            promise(SPACES["discrete"], "waves")


def test_the_embedder_keeps_its_contract(example: None) -> None:
    spaces, entry = SPACES["discrete"], EMBEDDERS["places"]
    ours, same = (entry.build(spaces, entry.options(), 0) for _ in range(2))
    for name in ("vectors", "batch_size", "padding", "last_action_is_unknown", "dropping_states"):
        getattr(embedder_contract, f"check_{name}")(ours, spaces)
    other = entry.build(spaces, entry.options(fade=0.5), 0)
    embedder_contract.check_fingerprint(ours, other, same)


def test_the_index_keeps_its_contract(example: None) -> None:
    for promise in index_contract.CHECKS:
        promise(INDEXES["one-product"])


def test_a_plug_in_is_a_module_that_every_process_finds(example: None) -> None:
    suite = type(SUITES["corridor"])
    assert suite.__module__ == "radt.plugins.corridor"
    assert importlib.import_module(suite.__module__).CorridorSuite is suite
    assert "corridor" in SUITES.names()
    assert "ra-dt-places" in METHODS.names()


def test_workers_on_other_machines_are_told_of_plug_ins(plug: Plug) -> None:
    from radt.engine.on_ray import _shared_environment

    plug("here.py", Path("/there/more.py"))
    here = str(Path("here.py").absolute())
    assert _shared_environment()["RADT_PLUGINS"] == f"{here}{os.pathsep}/there/more.py"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\nimport no_such_package\n", r"No module named 'no_such_package' \(line 2\)"),
        ("def x(:\n", r"SyntaxError: .*mine\.py, line 1"),
        ("raise RuntimeError('not today')", "RuntimeError: not today"),
        ("x = 1\n", "registers nothing; let it call the register"),
        (
            "from radt.memory.embed import EMBEDDERS\nEMBEDDERS.register('lm', 1)",
            "the embedder name 'lm' is taken",
        ),
    ],
    ids=["import", "syntax", "error", "nothing", "taken"],
)
def test_a_file_that_cannot_be_plugged_in_says_why(
    plug: Plug, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text, encoding="utf-8")
    plug(file)
    for _ in range(2):  # asking again is answered the same
        with pytest.raises(PluginError, match=said) as caught:
            SUITES["dark-room-10x10"]
        assert str(file) in str(caught.value)
    assert cli.main(["envs"]) == 2
    assert "error: the plug-in" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["gone.py", "words.txt", "."])
def test_what_is_no_python_file_is_refused(plug: Plug, tmp_path: Path, name: str) -> None:
    (tmp_path / "words.txt").touch()
    plug(tmp_path / name)
    with pytest.raises(PluginError, match=r"RADT_PLUGINS names .* is no Python file"):
        METHODS.names()


def test_two_files_of_one_name_are_refused(plug: Plug, tmp_path: Path) -> None:
    other = tmp_path / FILES["waves"].name
    shutil.copy(FILES["waves"], other)
    plug(FILES["waves"], FILES["waves"])
    assert "waves" in ENCODERS.names()  # the same file twice is once
    del sys.modules["radt.plugins"]
    plug(FILES["waves"], other)
    with pytest.raises(PluginError, match="have one name; rename one"):
        ENCODERS.names()


def test_one_file_under_several_names_registers_once(plug: Plug, tmp_path: Path) -> None:
    link, same = tmp_path / "linked.py", tmp_path / "corridor.py"
    link.symlink_to(FILES["corridor"])
    same.symlink_to(FILES["corridor"])
    plug(FILES["corridor"], os.path.relpath(FILES["corridor"]), link, same)
    assert type(SUITES["corridor"]).__module__ == "radt.plugins.corridor"


@pytest.mark.parametrize("package_first", [True, False])
def test_a_file_that_a_package_offers_too_is_one(
    plug: Plug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package_first: bool
) -> None:
    monkeypatch.syspath_prepend(str(FILES["corridor"].parent))
    monkeypatch.delitem(sys.modules, "corridor", raising=False)
    point = EntryPoint("corridor", "corridor:CORRIDOR", "radt.envs")
    monkeypatch.setattr(registry, "offered", lambda kind: (point,) if kind == "envs" else ())
    if package_first:
        importlib.import_module("corridor")
    plug(FILES["corridor"])
    assert SUITES["corridor"] is SUITES["corridor"]
    assert registry.plugins_behind(["corridor"]).keys() == {"corridor.py"}
    monkeypatch.delitem(sys.modules, "corridor", raising=False)


@pytest.fixture
def own(plug: Plug, tmp_path: Path) -> Path:
    """Plug in a copy of the example's environment, and a file that no run uses."""
    file = tmp_path / "corridor.py"
    shutil.copy(FILES["corridor"], file)
    plug(file, FILES["waves"])
    return file


def edited(file: Path) -> None:
    """Change a plug-in, as another process would see it."""
    file.write_text(file.read_text() + "# changed")
    registry.LOADED[file.resolve()] = sha256(file)


def test_a_dataset_knows_its_plug_ins(own: Path, tmp_path: Path) -> None:
    config = preset("corridor", "dt", "smoke")
    folder = collect(config)
    assert read_manifest(folder).plugins == {"corridor.py": sha256(own)}
    collect(config)
    edited(own)
    with pytest.warns(RadtWarning, match=r"another version of corridor\.py.*collect again"):
        collect(config)
    (folder / "manifest.json").unlink()
    (folder / "parts").mkdir()
    plan = collection_plan(SUITES["corridor"], config.collect, config.source)
    plan["plugins"]["corridor.py"] = "0" * 64
    (folder / "parts" / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(CollectError, match=r"corridor\.py.*delete .*parts to collect anew"):
        collect(config)


def test_a_run_knows_its_plug_ins(own: Path, tmp_path: Path, monkeypatch: Any) -> None:
    run = Run(preset("corridor", "random", "smoke"), tmp_path / "run")
    claim(run)
    begun = json.loads((run.out / "config.json").read_text())
    assert begun["plugins"] == {"corridor.py": sha256(own)}
    assert read_config(run.out) == run.config
    claim(run)
    evaluate_run(run, Stopwatch())
    record = json.loads((run.out / "icl.json").read_text())
    assert record["plugins"] == begun["plugins"]
    assert f"corridor.py sha256 {sha256(own)[:16]}" in provenance(record)
    monkeypatch.chdir(tmp_path)
    assert command(run.config, run.out).startswith("RADT_PLUGINS=corridor.py radt run corridor ")
    assert collect_command(run.config).startswith("RADT_PLUGINS=corridor.py radt collect corridor ")
    edited(own)
    with pytest.warns(RadtWarning, match=r"made with another version of corridor\.py"):
        claim(run)
    (run.out / "icl.json").unlink()
    with pytest.raises(RunError, match=r"begun with another version of corridor\.py.*--out"):
        claim(run)


def test_a_warning_is_a_line_on_the_command_line(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["run", "corridor", "--method=random", f"--out={tmp_path / 'x'}", *SMOKE]
    assert cli.main(line) == 0
    capsys.readouterr()
    edited(own)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert cli.main(line) == 0
    said = capsys.readouterr()
    assert "warning: " in said.err
    assert "another version of corridor.py" in said.err
    json.loads(said.out)


@pytest.mark.parametrize(
    ("point", "said"),
    [
        (EntryPoint("dt", "json:loads", "radt.methods"), "the method name 'dt' is taken"),
        (EntryPoint("mine", "no_such_package:M", "radt.methods"), "No module named"),
        (EntryPoint("mine", "json:no_such_name", "radt.methods"), "no attribute 'no_such_name'"),
    ],
    ids=["taken", "module", "attribute"],
)
def test_a_package_that_cannot_be_plugged_in_says_why(
    monkeypatch: pytest.MonkeyPatch, point: EntryPoint, said: str
) -> None:
    monkeypatch.setattr(registry, "offered", lambda kind: (point,) if kind == "methods" else ())
    with pytest.raises(PluginError, match=f"the method '{point.name}' .*{said}.*uninstall"):
        METHODS[point.name]
    assert point.name in METHODS.names()
    assert METHODS["ad"].learns  # the others are not affected


def test_without_its_plug_in_a_name_is_unknown() -> None:
    with pytest.raises(UnknownNameError, match="unknown environment 'corridor'"):
        SUITES["corridor"]


@pytest.mark.long
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_workers_know_plug_ins(example: None, tmp_path: Path, engine: str) -> None:
    if engine == "ray" and importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    methods = "--methods=template,ra-dt-places"
    command = words(tmp_path, methods, f"--engine={engine}", "--workers=2")
    check(sys.executable, "-m", "radt.cli", *command, cwd=tmp_path)  # Ray changes its environment
    assert (tmp_path / "results" / "corridor" / "ra-dt-places-seed0" / "icl.json").is_file()


@pytest.mark.long
def test_processes_of_torchrun_know_plug_ins(example: None, tmp_path: Path) -> None:
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone")
    command = ("-m", "radt.cli", "run", "corridor", "--method=template", *SMOKE)
    check(*torchrun, *command, f"--out={tmp_path / 'runs'}", cwd=tmp_path)
    assert (tmp_path / "runs" / "icl.json").is_file()
