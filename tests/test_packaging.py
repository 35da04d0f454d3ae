"""The project's own files: what they promise about versions, safety and the wheel."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from scripts.lock import constraints, pin
from scripts.wheel_smoke import smoke

ROOT = Path(__file__).resolve().parent.parent
PIN = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*==[0-9][0-9a-z.]*")
# Spelled in parts, so that this file does not find itself.
UNSAFE = (
    "pickle" + ".load",
    "import " + "pickle",
    "allow_pickle" + "=True",
    "weights_only" + "=False",
)


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def bad_lines(text: str) -> list[str]:
    """Return the lines of a constraints file that are neither comments nor plain versions."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [line for line in lines if not PIN.fullmatch(line)]


def project_files() -> list[Path]:
    """Return the files that are, or are about to be, committed."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode:
        pytest.skip("not a git checkout")
    paths = [ROOT / line for line in listing.stdout.splitlines()]
    return [path for path in paths if path.is_file()]


def test_constraints_hold_only_plain_versions() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert bad_lines(text) == []
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    "line",
    [
        "torch==2.13.0+cpu",
        "torch @ file:///wheels/torch.whl",
        "-e .",
        "--index-url https://example.org/simple",
        "--find-links wheels",
        "torch>=2.6",
        "torch",
        "",
    ],
)
def test_anything_but_a_plain_version_is_rejected(line: str) -> None:
    assert bad_lines(f"# made by hand\nnumpy==2.4.6\n{line}\n") == [line]


def test_the_lock_writes_what_the_test_accepts() -> None:
    text = constraints("radt", ["dev"])
    assert bad_lines(text) == []
    assert pin("torch") in text
    assert "\nradt==" not in text


def test_the_library_does_not_pin() -> None:
    requirements = [Requirement(line) for line in project()["dependencies"]]
    assert requirements
    assert not [str(each) for each in requirements if "==" in str(each.specifier)]


def test_every_requirement_has_a_version_in_the_constraints() -> None:
    pinned = {
        line.partition("==")[0]
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    }
    extras = project()["optional-dependencies"]
    lines = [
        *project()["dependencies"],
        *extras["faiss"],
        *extras["tensorboard"],
        *extras["lm"],
        *extras["server"],
        *extras["ray"],
        *extras["dev"],
    ]
    assert {Requirement(line).name for line in lines} <= pinned


def test_only_the_long_batteries_install_ray() -> None:
    asked = {
        target: subprocess.run(
            ["make", "--dry-run", "--always-make", target],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for target in ("test", "test-full")
    }
    assert 'constraints.txt -e ".[ray]"' in asked["test-full"]
    assert "[ray]" not in asked["test"]


def test_no_pickle_is_ever_loaded() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {pattern}"
        for path in project_files()
        if path.suffix in {".py", ".md", ".toml", ".ipynb", ".sh", ""}
        for pattern in UNSAFE
        if pattern in path.read_text(encoding="utf-8")
    ]
    assert found == []


def test_nothing_the_program_makes_is_committed() -> None:
    tops = {path.relative_to(ROOT).parts[0] for path in project_files()}
    assert not tops & {"data", "runs", "dist", "build", ".venv"}
    assert "src" in tops


def test_the_continuous_check_is_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert "make test" in script.read_text(encoding="utf-8")


def test_the_wheel_works_outside_the_checkout(tmp_path: Path) -> None:
    wheel = smoke(tmp_path)
    assert wheel.stat().st_size < 6e6
