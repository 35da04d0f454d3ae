"""Records of a finished run, damaged: what is told of them is what they say, and can be.

A record carries no seal, so one that still says what can be is believed. Every other is refused,
left out with a warning, or made anew.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from radt import cli
from radt.experiments import EXPERIMENTS
from radt.experiments.reproduce import ANSWER, Where, verdict_of
from radt.variants import PLAIN
from tests.faults.battery import Case
from tests.faults.damage import mutate
from tests.faults.kills import SMALL, drawn
from tests.runs.small import use_toys
from tests.toys import TOY_GRID

WORDS = ("run", TOY_GRID.name, "--method", "ra-dt", "--budget", "smoke", "--threads", "1")
FILES = ("icl.json", "log.jsonl", "choices.json", "wall.json", "config.json", "dataset.json")
TOLD = ("env", "method", "config", "tasks", "returns", "optimum", "controls", "wall_seconds")
MADE = ("config", "tasks", "returns", "controls")  # that are the same when made anew
EXPERIMENT = "attention"
RECORDS = ("icl.json", *FILES, "icl.json", f"{EXPERIMENT}/{ANSWER}")
NONSENSE: tuple[Any, ...] = (
    *(None, True, -1, 0.5, 1e308, -1e308, 10**400, 2**70, "", "x", "../../x", "/../../../X"),
    *("[bold]x[/]", "<script>", "\x1b]0;x\x07", "a | b", [], {}, [[]], [None], {"x": {}}),
    *([[1.0], []], [[math.nan]], [[math.inf]], "\ud800", "9" * 5000),
)


@dataclass(frozen=True)
class Said:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str


def said_by(*words: str) -> Said:
    """Do what a user types; an error that is not radt's own is raised."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main(words)
        except SystemExit as ended:  # of the words themselves
            code = int(ended.code or 0)
    return Said(code, out.getvalue(), err.getvalue())


def is_one_line(said: Said) -> bool:
    """Tell whether a command ended with one error, and how the user goes on."""
    errors = [line for line in said.err.splitlines() if line.startswith("error: ")]
    return said.code == 2 and said.out == "" and len(errors) == 1


def make_run(folder: Path) -> None:
    """Leave what a run leaves, and the result of an experiment."""
    with pytest.MonkeyPatch.context() as patch:
        use_toys(patch, folder / "data")
        patch.setattr(Figure, "savefig", drawn)
        assert said_by(*WORDS, "--quiet", "--out", str(folder), "--set", *SMALL).code == 0
    answer = {"entry": EXPERIMENT, "verdict": "holds", "why": "36 of 40", "rows": []}
    (folder / EXPERIMENT).mkdir()
    (folder / EXPERIMENT / ANSWER).write_text(json.dumps(answer))


def edited(path: Path, rng: np.random.Generator) -> str:
    """Put something else somewhere into a JSON file, leave it out, or damage its bytes."""
    if rng.random() < 0.4:
        return mutate(path, rng)
    text = path.read_text()
    lines = [text] if path.suffix == ".json" else text.splitlines()
    at = int(rng.integers(len(lines)))
    root: Any = json.loads(lines[at])
    inside, places = root, list(places_in(root))
    *outer, last = places[int(rng.integers(len(places)))]
    for name in outer:
        inside = inside[name]
    value, how = NONSENSE[int(rng.integers(len(NONSENSE)))], rng.random()
    if how < 0.2:
        value = f"gone, {inside.pop(last)}"
    elif isinstance(inside, list) and how < 0.3:
        inside.append(inside[last])
    elif isinstance(inside, dict) and how < 0.4:  # under another name
        inside[str(value)] = inside.pop(last)
    else:
        inside[last] = value
    lines[at] = json.dumps(root)
    path.write_text("\n".join(lines) + "\n")
    return f"{last}: {value!r:.20}"


def places_in(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """List the paths to all values."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for name, item in inner:
        yield (*above, name)
        if isinstance(item, dict | list):
            yield from places_in(item, (*above, name))


def can_be(record: Mapping[str, Any]) -> bool:
    """Tell whether a record says what one can: names, tasks, as many finite numbers as expected."""
    returns = record["returns"]
    numbers = [number for row in returns for number in row]
    tasks = {*TOY_GRID.train_tasks, *TOY_GRID.eval_tasks}
    names = [record["env"], record["method"], *record["wall_seconds"]]
    return (
        all(isinstance(n, int | float) and abs(n) <= 1e15 for n in numbers)
        and len({len(row) for row in returns}) == 1
        and len(returns) == len(record["tasks"]) == len(record["optimum"])
        and tasks >= {*record["tasks"]}
        and all(PLAIN.fullmatch(name) for name in names)
    )


def looked(folder: Path, name: str, good: Mapping[str, Any]) -> str:
    """Let the finished run be run again, which reads all its records and reports on them."""
    file = folder / name
    before = file.read_bytes() if file.exists() else None
    try:
        said = said_by(*WORDS, "--json", "--quiet", "--out", str(folder), "--set", *SMALL)
        verdict = verdict_of(EXPERIMENTS[EXPERIMENT], Where("laptop", None, folder, folder))
    except Exception as error:
        return f"tracebacks: {type(error).__name__}: {error}"
    if said.code:
        return "clean" if is_one_line(said) else f"tracebacks: {said.err[-300:]}"
    told = json.loads(said.out)
    expected = json.loads(before) if before and file.name == "icl.json" else good
    parts = MADE if before is None else TOLD
    same = all(told.get(part) == expected.get(part) for part in parts)
    if before and file.name == ANSWER and verdict is not None:
        written = json.loads(before)
        same = same and (verdict.word, verdict.why) == (written["verdict"], written["why"])
    return "clean" if same and can_be(told) else "silent wrong"


def damage_records(whole: Path, cases: range) -> Iterator[Case]:
    """Damage one record in copies of a run, and let the copy be run again."""
    with pytest.MonkeyPatch.context() as patch:
        use_toys(patch, whole / "data")
        patch.setattr(Figure, "savefig", drawn)
        patch.setattr("radt.runs.provenance.cost", lambda run, method: None)
        good = json.loads((whole / "icl.json").read_text())
        for case in cases:
            folder, rng = whole.parent / f"case-{case}", np.random.default_rng(case)
            shutil.copytree(whole, folder, ignore=shutil.ignore_patterns("data"))
            name = RECORDS[case % len(RECORDS)]
            way = edited(folder / name, rng)
            yield case, f"{name} {way}", looked(folder, name, good)
            shutil.rmtree(folder)
