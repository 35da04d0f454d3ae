"""The verb that says what is installed and whether it works."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.text import Text

from radt.commands.data import list_datasets
from radt.commands.flags import ComputingVerb, styled
from radt.errors import RunError

NEEDED = ("radt", "torch", "numpy", "gymnasium", "h5py", "safetensors", "tyro", "rich", "scipy")
EXTRAS = {
    "faiss": "faiss-cpu",
    "hub": "huggingface-hub",
    "ray": "ray",
    "server": "psycopg",
    "tensorboard": "tensorboard",
    "wandb": "wandb",
}


@dataclass(frozen=True, kw_only=True)
class DoctorVerb(ComputingVerb):
    """Say what is installed, what the machine has, and try everything once in some seconds."""

    def execute(self) -> None:
        values: dict[str, Any] = {
            "python": platform.python_version(),
            "installed": {name: version_of(name) for name in NEEDED},
            "extras": {name: version_of(package) for name, package in EXTRAS.items()},
            "machine": machine_values(),
            "datasets": list_datasets(),
            "tests": [
                run_test("memory server", check_server),
                run_test("collect, train, evaluate", check_run),
                run_test("shipped weights", check_weights),
            ],
        }
        self.common.answer(values, show(values))
        if failed := [test["name"] for test in values["tests"] if not test["works"]]:
            raise RunError(f"{', '.join(failed)} failed; set RADT_DEBUG=1 to see more")


def version_of(package: str) -> str | None:
    """Return a package's version, or None if it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def machine_values() -> dict[str, Any]:
    """Say what there is of cores, memory and disk."""
    import psutil
    import torch

    from radt.runs.provenance import machine

    return {
        **machine(),
        "memory_free_gb": round(psutil.virtual_memory().available / 1e9, 1),
        "disk_free_gb": round(shutil.disk_usage(Path.cwd()).free / 1e9, 1),
        "cuda": torch.cuda.is_available(),
    }


def run_test(name: str, test: Callable[[], str]) -> dict[str, Any]:
    """Run one test; whatever it raises is its result."""
    started = time.monotonic()
    try:
        works, detail = True, test()
    except Exception as error:
        if os.environ.get("RADT_DEBUG"):
            raise
        works, detail = False, f"{type(error).__name__}: {error}"
    seconds = round(time.monotonic() - started, 1)
    return {"name": name, "works": works, "detail": detail, "seconds": seconds}


def check_server() -> str:
    """Ask the memory server who it is, where one is named; its address is never shown."""
    if importlib.util.find_spec("psycopg") is None:
        return "not installed (optional): pip install 'radt[server]'"
    if not os.environ.get("RADT_MEMORY_DSN"):
        return "none is named (optional): its address goes into RADT_MEMORY_DSN"
    from radt.memory.postgres.server import greeting, read_address

    return greeting(read_address())


def check_run() -> str:
    """Collect, train and evaluate at smoke budget in a temporary folder."""
    from radt.api import preset
    from radt.collect import record_histories
    from radt.data import Dataset
    from radt.envs.suite import SUITES
    from radt.runs.evaluate import evaluate_run
    from radt.runs.provenance import Stopwatch
    from radt.runs.run import Run
    from radt.runs.train import train_run

    config = preset("dark-room-10x10", "ra-dt+", "smoke", "learn.evaluate_every=0")
    with tempfile.TemporaryDirectory(prefix="radt-doctor-") as name:
        folder = Path(name)
        suite = SUITES[config.env]
        record_histories(suite, config.collect, folder / "data", workers=1, quiet=True)
        run, watch = Run(config, folder / "run"), Stopwatch()
        train_run(run, Dataset.open(folder / "data"), watch)
        evaluate_run(run, watch)
    return "collected, trained, evaluated"


def check_weights() -> str:
    """Load the weights that come with the package."""
    from radt.loading import WEIGHTS, load

    files = sorted(WEIGHTS.glob("*.safetensors"))
    if not files:
        return "none in this installation; `radt demo` needs --checkpoint"
    return ", ".join(f"{file.stem} ({load(file).label})" for file in files)


def show(values: dict[str, Any]) -> Text:
    """Write the findings as lines of text."""
    found = {**values["installed"], **values["extras"]}
    versions = ", ".join(f"{name} {number or 'missing'}" for name, number in found.items())
    machine = values["machine"]
    about = (
        f"{machine['system']}, {machine['cores']} cores "
        f"({machine['threads']} threads), {machine['memory_free_gb']} GB of memory and "
        f"{machine['disk_free_gb']} GB of disk free, {'with' if machine['cuda'] else 'no'} CUDA"
    )
    lines = [
        styled("[bold]installed[/]  python {}, {}", values["python"], versions),
        styled("[bold]machine[/]    {}", about),
    ]
    sets = [f"{row['folder']} ({row['transitions']:,})" for row in values["datasets"]]
    have = ", ".join(sets) or "none; `radt collect` makes them"
    lines.append(styled("[bold]datasets[/]   {}", have))
    for test in values["tests"]:
        sign = "[green]works[/]" if test["works"] else "[red]fails[/]"
        told = test["name"], test["detail"], test["seconds"]
        lines.append(styled(f"{sign}      {{}}: {{}} ({{}} s)", *told))
    return Text("\n").join(lines)
