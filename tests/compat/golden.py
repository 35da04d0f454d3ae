"""Losses of the first 20 updates and returns of two trials, for every method, recorded once.

`golden.json` is never written anew: a method that is added later adds its own case with

    python -m tests.compat.golden
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

import radt
from radt.runs.run import dataset_path

FILES = Path(__file__).with_name("files")
FILE = Path(__file__).with_name("golden.json")

SHORT = (
    *("learn.updates=20", "learn.log_every=1", "learn.evaluate_every=0"),
    *("evaluate.rule.temperature=0.5", "evaluate.rule.explore_temperature=2.0"),
)
WAYS = (  # what ra-dt+ does in long rooms, under the names of November 2026
    "options.least_return=0.5",
    "options.beginnings=0.75",
    "options.renamed=0.5",
    "options.model.heads=1",
    "options.training.from_start=true",
    "options.memory.erase_loops=true",
    "options.memory.utility=way",
)
CASES: dict[str, tuple[str, tuple[str, ...]]] = {  # method and --set values by name
    **{name: (name, ()) for name in ("dt", "dt-2ep", "ad", "dpt", "dpt-oracle")},
    "ra-dt": ("ra-dt", ("options.training.query=prefix",)),  # as the row was then
    **{name: (name, ()) for name in ("ra-dt+", "ra-dt-lm", "ra-dt-tuned")},
    "ra-dt+ one place": ("ra-dt+", (*WAYS, "options.training.cut_short=0.5")),
    "ra-dt+ place after place": ("ra-dt+", (*WAYS, "options.legs=true")),
    "ra-dt prefix of two": ("ra-dt", ("options.training.query_offsets=[0,25]",)),
    "ra-dt interleaved": (
        "ra-dt",
        (
            "options.model.tokens=interleaved",
            "options.memory.top_k=2",
            "options.memory.dedup=0.98",
            "options.training.query=prefix",
        ),
    ),
    "dt window of 25": ("dt", ("options.window_step=25",)),
}


def measure(case: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Train and evaluate one case on the recorded dataset and return its losses and returns."""
    method, sets = CASES[case]
    monkeypatch.setenv("RADT_HOME", str(folder / "home"))
    config = radt.preset("dark-room-10x10", method, "smoke", *SHORT, *sets)
    shutil.copytree(FILES / "dataset", dataset_path(config))
    radt.train(config, folder / "run", threads=1)
    returns = radt.evaluate(config, folder / "run")["returns"]
    lines = (folder / "run" / "log.jsonl").read_text().splitlines()
    logged = [json.loads(line) for line in lines]
    losses = [line["loss"] for line in logged if line["phase"] == "train" and "loss" in line]
    return {"losses": losses, "returns": returns}


def main() -> None:
    """Add the cases that are not recorded yet."""
    content = json.loads(FILE.read_text()) if FILE.exists() else {}
    for case in CASES:
        if case not in content:
            with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
                content[case] = measure(case, Path(folder), patch)
                print(case, content[case]["losses"][::5], flush=True)
    FILE.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
