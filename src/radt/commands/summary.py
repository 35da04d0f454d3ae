"""What a person sees at the end of a run, and before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import RenderableType
from rich.table import Table

from radt.data.stats import sparkline
from radt.metrics import after_finding, decimals, found_by, late_score

if TYPE_CHECKING:
    from radt.experiments.plan import Phase

TRIALS = (1, 5, 10, 20, 40)
FILES = (
    "report.html",
    "summary.md",
    "icl.json",
    "curve.png",
    "trials.gif",
    "model.safetensors",
    "trace.jsonl",
)


def show_result(record: Mapping[str, Any], place: Path) -> list[RenderableType]:
    """Show the returns of an evaluation trial by trial, the score and the files."""
    returns = np.asarray(record["returns"], dtype=np.float64)  # [task, trial]
    trials = returns.shape[1]
    means = returns.mean(axis=0)
    above = float(record.get("solved_above", 0.0))
    found = found_by(returns, above)
    table = Table("trial")
    shown = [trial for trial in TRIALS if trial < trials] + [trials]
    for trial in shown:
        table.add_column(str(trial), justify="right")
    digits = decimals(_optimum(record))
    table.add_row("mean return", *(f"{means[trial - 1]:.{digits}f}" for trial in shown))
    table.add_row("goals found", *(f"{found[trial - 1]}/{len(returns)}" for trial in shown))
    lines = [f"returns by trial  {sparkline(tuple(means.tolist()))}", *_scores(record, returns)]
    return [f"[bold]{_title(record)}[/]", table, "\n".join(lines), _files(place)]


def _title(record: Mapping[str, Any]) -> str:
    from radt.plots.records import titled

    count, seed = len(record["returns"]), record["seed"]
    return titled(f"{record['method']} on {record['env']}, {count} tasks, seed {seed}", [record])


def _scores(record: Mapping[str, Any], returns: np.ndarray[Any, Any]) -> list[str]:
    trials = returns.shape[1]
    score, best = float(late_score(returns).mean()), _optimum(record)
    n = decimals(best)
    line = f"score             [bold]{score:.{n}f}[/] over trials {max(1, trials - 9)}-{trials}"
    if best is not None:
        line += f", optimum {best:.2f}"
    later = after_finding(returns, float(record.get("solved_above", 0.0)))
    return [line] if np.isnan(later) else [line, f"after finding     {later:.{n}f}"]


def _optimum(record: Mapping[str, Any]) -> float | None:
    """Average the best possible returns, where they are known."""
    known = [value for value in record["optimum"] if value is not None]
    return float(np.mean(known)) if known else None


def _files(place: Path) -> str:
    if not place.is_dir():
        return f"[dim]{place}[/]"
    there = [name for name in FILES if (place / name).exists()]
    return f"[dim]{place}: {', '.join(there)}[/]"


def duration(minutes: float) -> str:
    """Write minutes in the unit that people would choose."""
    for unit, length in (("days", 60.0 * 24), ("hours", 60.0)):
        if minutes >= 2 * length:
            return f"{minutes / length:,.1f} {unit}"
    return f"{minutes:.1f} minutes"


def show_plan(phases: Sequence[Phase], budget: str) -> RenderableType:
    """Show what there is to do, phase by phase."""
    table = Table(box=None, pad_edge=False)
    table.add_column("phase")
    for name in ("steps", "time", "disk"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("where", overflow="fold")
    for phase in phases:
        left = "done" if phase.done else duration(phase.minutes)
        style = "dim" if phase.done else ""
        size = f"{phase.megabytes:.1f} MB"
        table.add_row(phase.name, phase.steps, left, size, phase.where, style=style)
    minutes = sum(phase.minutes for phase in phases if not phase.done)
    disk = sum(phase.megabytes for phase in phases if not phase.done)
    machine = "estimated for two CPU cores"
    if budget == "paper":
        machine += "; this budget is meant for a GPU"
    table.add_row("to do", "", duration(minutes), f"{disk:.1f} MB", machine)
    return table
