"""What is written beside the results of many runs: a table, a picture, and both for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from radt.files import atomic_write
from radt.metrics import Estimate, Interval
from radt.plots import fairness
from radt.plots.curves import icl_curve
from radt.plots.html import REPORT, write_html
from radt.plots.html_pages import comparison_body
from radt.plots.learning import LEARNING, has_learning, learning_curve
from radt.plots.prose import in_words, write_page
from radt.plots.records import Record, read_record, titled, trained_on, variants
from radt.plots.rows import Row, method_table
from radt.plots.tables import markdown, returns_tables


def write_comparison(
    record_paths: Sequence[Path],
    out_folder: Path,
    name: str = "compare",
    wall_minutes: float | None = None,
) -> Path:
    """Compare the results of many runs: `<name>.png`, `<name>.json` and `<name>.md`.

    `wall_minutes` says that the methods were given equal time instead of equal updates. What was
    compared at equal time in folders `wall-<X>min` below becomes a second table.
    """
    records = [read_record(path) for path in record_paths]
    icl_curve(records, out_folder / f"{name}.png")
    for variant in variants(records):
        icl_curve(records, out_folder / f"{name}-{variant}.png", variant)
    if has_learning(records):
        learning_curve(records, out_folder / LEARNING)
    rows = method_table(records)
    content = comparison_json(records, rows, wall_minutes)
    atomic_write(out_folder / f"{name}.json", (json.dumps(content, indent=2) + "\n").encode())
    parts = comparison_parts(records, rows, out_folder, name, wall_minutes)
    runs = [path.parent for path in record_paths]
    bodies = (comparison_body(records, runs, parts, name, full) for full in (True, False))
    write_html(out_folder / REPORT, title_of(records, wall_minutes), bodies)
    told = f"The same numbers for programs: [{name}.json]({name}.json)."
    return write_page(out_folder / f"{name}.md", [*parts, told])


def write_equal_time_alone(folder: Path, name: str = "compare") -> Path:
    """Let a folder tell of its comparisons at equal wall time, where it has none at equal updates.

    Its JSON is that of the time with the most methods, and of such the longest; `wall_minutes` in
    it says which.
    """
    told = {
        file: json.loads(file.read_text(encoding="utf-8"))
        for file in folder.glob(f"wall-*min/{name}.json")
    }
    most = max(told, key=lambda file: (len(told[file]["methods"]), _minutes(file.parent)))
    content, picture = told[most], most.with_suffix(".png").relative_to(folder)
    atomic_write(folder / f"{name}.json", most.read_bytes())
    parts = [
        f"# In-context learning on {content['env']}",
        "Methods were compared at equal wall time only, not at equal updates.",
        f"![{name}]({picture})",
        *_equal_time(folder),
    ]
    return write_page(folder / f"{name}.md", parts)


def title_of(records: Sequence[Record], wall_minutes: float | None = None) -> str:
    """Say what is compared and what was equal."""
    equal = "equal updates" if wall_minutes is None else f"{wall_minutes:g} minutes of training"
    return titled(f"In-context learning on {records[0]['env']}, {equal}", records)


def comparison_parts(
    records: Sequence[Record],
    rows: Sequence[Row],
    folder: Path,
    name: str,
    wall_minutes: float | None = None,
) -> list[str]:
    """Say in Markdown how methods compare; pictures are called after `name`."""
    own = [row for row in rows if row.env == records[0]["env"]]
    pictures = [name, *(f"{name}-{variant}" for variant in variants(records))]
    pictures += [Path(LEARNING).stem] if has_learning(records) else []
    return [
        f"# {title_of(records, wall_minutes)}",
        *(f"![{picture}]({picture}.png)" for picture in pictures),
        markdown(rows).strip(),
        *_equal_time(folder),
        "\n".join(f"- {in_words(row, str(records[0]['split']))}" for row in own),
        fairness.in_words(records, wall_minutes),
    ]


def comparison_json(
    records: Sequence[Record], rows: Sequence[Row], wall_minutes: float | None = None
) -> dict[str, Any]:
    """Put a comparison into plain values: `methods.<name>.mean_31_40` and so on."""
    env = str(records[0]["env"])
    own = [row for row in rows if row.env == env]
    return {
        "env": env,
        "split": records[0]["split"],
        "tasks": own[0].tasks,
        "trials": own[0].trials,
        "optimum": own[0].optimum,
        "wall_minutes": wall_minutes,
        "data": trained_on(records) or None,
        "conditions": fairness.conditions(records),
        "code_versions": sorted({str(record.get("code_version")) for record in records}),
        "methods": {row.method: row_json(row) for row in own},
        "variants": {
            name: {
                "optimum": next(row.optimum for row in rows if row.env == name),
                "methods": {row.method: row_json(row) for row in rows if row.env == name},
            }
            for name in variants(records)
        },
    }


def row_json(row: Row) -> dict[str, Any]:
    """Put a row into plain values; `ci95` is over tasks where there is one seed, and says so."""
    expense = row.expense
    return {
        f"mean_{row.late.replace('-', '_')}": row.score.mean,
        **_intervals(row.score),
        "improves": row.improves,
        "improvement": row.gain.mean,
        **_intervals(row.gain, "improves_"),
        "at_trial": {str(trial): found.mean for trial, found in row.at_trial.items()},
        "at_trial_ci95": {str(t): _bounds(found.known[0]) for t, found in row.at_trial.items()},
        "at_trial_ci95_tasks": {
            str(trial): _bounds(found.over_tasks) for trial, found in row.at_trial.items()
        },
        "minus": {other: _difference_json(found) for other, found in row.against.items()},
        "found_by": {str(trial): value for trial, value in row.found_by.items()},
        "after_finding": row.after_finding,
        "seeds": row.seeds,
        "source": row.source,
        "parameters": expense.parameters,
        "frozen_parameters": expense.frozen_parameters,
        "context_steps": expense.context_steps,
        "input_steps": expense.input_steps,
        "retrieved_steps": expense.retrieved_steps,
        "tokens_per_decision": expense.tokens_per_decision,
        "flops_per_decision": expense.flops_per_decision,
        "updates": expense.updates,
        "batch_size": expense.batch_size,
        "targets_per_update": expense.targets_per_update,
        "samples_per_second": expense.samples_per_second,
        "decisions_per_second": expense.decisions_per_second,
        "wall_minutes": expense.minutes,
    }


def _difference_json(found: Estimate) -> dict[str, Any]:
    return {"mean": found.mean, **_intervals(found), "seeds": found.seeds}


def _intervals(found: Estimate, prefix: str = "") -> dict[str, Any]:
    return {
        f"{prefix}ci95": _bounds(found.known[0]),
        f"{prefix}ci95_over": "tasks" if found.over_seeds is None else "seeds within tasks",
        f"{prefix}ci95_tasks": _bounds(found.over_tasks),
    }


def _bounds(interval: Interval) -> list[float]:
    return [interval.low, interval.high]


def _equal_time(folder: Path) -> list[str]:
    """Show the returns of what was compared at equal wall time, and where the rest stands."""
    parts: list[str] = []
    for page in sorted(folder.glob("wall-*min/compare.md")):
        records = [read_record(path) for path in sorted(page.parent.glob("*-seed*/icl.json"))]
        parts += [
            f"## Equal wall time: {_minutes(page.parent):g} minutes of training",
            *returns_tables(method_table([{**record, "variants": {}} for record in records])),
            f"The whole comparison: [{page.parent.name}]({page.parent.name}/{page.name}).",
        ]
    return parts


def _minutes(folder: Path) -> float:
    return float(folder.name.removeprefix("wall-").removesuffix("min"))
