"""The words of a summary: what was found, how training went, and how to do it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from radt.config import RunConfig
from radt.experiments.presets import changed, in_flags
from radt.experiments.provenance import validations
from radt.files import atomic_write
from radt.metrics import EARLY
from radt.plots.records import Record, kind_of_tasks
from radt.plots.rows import Row
from radt.plots.tables import count, plain_table

MARKS = 5  # rows of the training table where there was no validation
PHASES = {"embedder": "the embedder", "train": "the policy"}


def in_words(row: Row, split: str) -> str:
    """Say in a paragraph what a run has shown."""
    score, certain, n = row.score.mean, row.score.known[0], row.digits
    kind = kind_of_tasks(split)
    share = f", {score / row.optimum:.0%} of the optimum {row.optimum:.{n}f}" if row.optimum else ""
    return " ".join(
        [
            f"On {row.tasks} {kind} of `{row.env}`, each begun with an empty memory, "
            f"{_who(row)} earns {row.at_trial[1].mean:.{n}f} in trial 1 and {score:.{n}f} "
            f"[{certain.low:.{n}f}, {certain.high:.{n}f}] in trials {row.late}{share}.",
            _improvement(row),
            _finding(row),
        ]
    )


def _who(row: Row) -> str:
    return f"`{row.method}`, {row.trained_on}," if row.trained_on else f"`{row.method}`"


def _improvement(row: Row) -> str:
    gain, n = row.gain.known[0], row.digits
    bounds = f"[{gain.low:.{n}f}, {gain.high:.{n}f}]"
    change = f"{gain.mean:+.{n}f} {bounds} compared with trials 1-{EARLY}"
    if row.trials <= EARLY:
        return f"{row.trials} trials are too few to speak of improvement."
    if row.improves:
        return f"It gets better from trial to trial ({change}), without a weight update."
    return f"It does not show that it gets better from trial to trial ({change})."


def _finding(row: Row) -> str:
    found = row.found_by[row.trials]
    text = f"It finds {count(found)} of {row.tasks} goals ({count(row.found_by[1])} in trial 1)"
    if row.after_finding is None:
        return f"{text}."
    return f"{text}; once a goal is found, a trial earns {row.after_finding:.{row.digits}f}."


def training_table(
    lines: Sequence[Mapping[str, Any]], phase: str = "train", digits: int = 1
) -> str:
    """Write loss and validation over a phase of training; empty where there was none."""
    losses = _by_step(lines, phase, "loss")
    looks = {look.pop("update"): look for look in validations(lines, phase)}
    if not losses:
        return ""
    marks = sorted(looks) or _evenly(sorted(losses), MARKS)
    names = sorted({name for look in looks.values() for name in look}, key=_trailing_number)
    head = ["update", "loss", *(f"validation, {name.replace('_', ' ')}" for name in names)]
    rows, before = [], 0
    for mark in marks:
        since = [loss for step, loss in losses.items() if before < step <= mark]
        shown = [f"{looks[mark][n]:.{digits}f}" if n in looks.get(mark, {}) else "-" for n in names]
        rows.append([str(mark), f"{np.mean(since):.3f}" if since else "-", *shown])
        before = mark
    return plain_table(head, rows)


def wall_table(seconds: Mapping[str, float]) -> str:
    """Write how long each phase took."""
    rows = [[phase, f"{spent:.1f}"] for phase, spent in seconds.items()]
    rows.append(["all", f"{sum(seconds.values()):.1f}"])
    return plain_table(["phase", "seconds"], rows)


def provenance(record: Record) -> str:
    """List the code, the machine and the rules behind a result."""
    facts: dict[str, Any] = {
        "code": record.get("code_version"),
        "seed": record["seed"],
        "budget": record.get("budget"),
        "split": record["split"],
        "action rule": _pairs(record.get("action_rule", {})),
        "machine": _pairs(record.get("machine", {})),
    }
    return "\n".join(f"- {name}: {fact}" for name, fact in facts.items() if fact not in (None, ""))


def command(config: RunConfig, out: Path) -> str:
    """Write the command that makes this run again, with every value that is not the preset's."""
    changes = {path: value for path, value in changed(config).items() if path != "seed"}
    out, here = out.resolve(), Path.cwd()
    inside = out.is_relative_to(here)  # else it is a path of this machine, which is no one's affair
    shown = out.relative_to(here) if inside else Path("runs", out.name)
    words = [
        f"radt run {config.env} --method {config.method} --budget {config.budget}",
        f"--seed {config.seed} --out {shlex.quote(str(shown))}",
        *in_flags(changes),
    ]
    return " \\\n  ".join(words)


def write_page(path: Path, parts: Sequence[str]) -> Path:
    """Write paragraphs to a file."""
    atomic_write(path, ("\n\n".join(parts) + "\n").encode())
    return path


def _by_step(lines: Sequence[Mapping[str, Any]], phase: str, name: str) -> dict[int, float]:
    """Collect one value; a step that was logged again after a restart counts once."""
    return {
        int(line["step"]): float(line[name])
        for line in lines
        if line["phase"] == phase and name in line
    }


def _evenly(steps: Sequence[int], count: int) -> list[int]:
    places = np.linspace(0, len(steps) - 1, min(count, len(steps))).round().astype(int)
    return [steps[place] for place in places]


def _trailing_number(name: str) -> int:
    return int(name.rpartition("_")[2])


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)
