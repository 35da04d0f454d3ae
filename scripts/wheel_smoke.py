"""Build the wheel and try it where the checkout cannot help it.

The wheel is built from a copy of the sources, so that nothing left over from earlier builds gets
in. It is installed into a fresh environment in a temporary folder, which borrows the dependencies,
but not radt, from the environment that runs this script.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHERE = "import radt; print(radt.__file__)"
PACKAGES = "import site; print(site.getsitepackages()[0])"

OWN = ("PYTHONPATH", "RADT_HOME", "RADT_PLUGINS")  # of whoever runs this


class SmokeError(RuntimeError):
    """The wheel does not hold or do what a user needs."""


def run(*command: str | Path, cwd: Path, **more: str) -> str:
    """Run a command in `cwd` and return what it prints; no PYTHONPATH leads to the checkout."""
    inherited = {name: value for name, value in os.environ.items() if name not in OWN}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**inherited, **more},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        words = " ".join(map(str, command))
        raise SmokeError(f"{words} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(out: Path, work: Path) -> Path:
    """Build the wheel into `out` from a clean copy of the sources and return its path."""
    copy = work / "copy"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    leftovers = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", copy / "src", ignore=leftovers)
    target = work / "wheel"
    builder = (sys.executable, "-m", "build", "--wheel", "--no-isolation")
    run(*builder, "--outdir", target, copy, cwd=work)
    (wheel,) = target.glob("*.whl")
    out.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(wheel, out)).resolve()


def source_files() -> set[str]:
    """Return the package's files in the checkout, as the wheel should name them."""
    src = ROOT / "src"
    files = (path for path in (src / "radt").rglob("*") if path.is_file())
    return {str(path.relative_to(src)) for path in files if "__pycache__" not in path.parts}


def check_files(wheel: Path) -> None:
    """Compare the wheel's files with the checkout's and look for the data files by name."""
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("radt/")}
    if missing := source_files() - held:
        raise SmokeError(f"{wheel.name} lacks {sorted(missing)}; see package-data")
    if "radt/py.typed" not in held:
        raise SmokeError(f"{wheel.name} lacks radt/py.typed")
    if not any(name.startswith("radt/weights/") and name.endswith(".safetensors") for name in held):
        raise SmokeError(f"{wheel.name} lacks radt/weights/*.safetensors, which `radt demo` needs")


def install(wheel: Path, work: Path) -> Path:
    """Install the wheel into a fresh environment and return that environment's folder."""
    home = work / "venv"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    packages = Path(run(python, "-c", PACKAGES, cwd=work).strip())
    # Site packages named in a .pth file only join the path: their own .pth files, and with them the
    # editable radt, are not read.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=work)
    return home


def check_install(home: Path, work: Path) -> None:
    """Check that the fresh environment imports its own radt and that the command answers."""
    found = Path(run(home / "bin" / "python", "-I", "-c", WHERE, cwd=work).strip())
    if not found.is_relative_to(home):
        raise SmokeError(f"radt comes from {found}, not from the wheel")
    if "usage" not in run(home / "bin" / "radt", "--help", cwd=work).lower():
        raise SmokeError("`radt --help` prints no usage")


def check_first_hour(home: Path, work: Path) -> None:
    """Look an option up, write a suite, and go with it from data to a report."""
    radt, plugins = home / "bin" / "radt", {"RADT_PLUGINS": "my_poles.py"}
    explained = run(radt, "config", "explain", "options.memory.alpha", "--json", cwd=work)
    if not (json.loads(explained)["paper"] and json.loads(explained)["options"][0]["meaning"]):
        raise SmokeError("`radt config explain` has neither the source nor the paper's table")
    run(radt, "new", "suite", "my-poles", cwd=work)
    run(radt, "envs", "check", "my-poles", cwd=work, **plugins)
    run(radt, "run", "my-poles", "--budget", "smoke", "--out", "run", cwd=work, **plugins)
    if not (work / "run" / "report.html").is_file():
        raise SmokeError("`radt run` of a new suite leaves no report")


def smoke(out: Path) -> Path:
    """Build the wheel into `out`, check it, and return its path."""
    with tempfile.TemporaryDirectory(prefix="radt-wheel-") as folder:
        work = Path(folder).resolve()
        wheel = build(out, work)
        check_files(wheel)
        home = install(wheel, work)
        check_install(home, work)
        check_first_hour(home, work)
    return wheel


def main() -> None:
    """Read the command line, build and check."""
    parser = argparse.ArgumentParser(description="Build the wheel and try it in a fresh venv.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the wheel")
    wheel = smoke(parser.parse_args().out)
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB, works outside the checkout")


if __name__ == "__main__":
    main()
