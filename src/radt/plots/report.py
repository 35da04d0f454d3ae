"""What is written beside results: a summary of one run, and a comparison of many."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from radt.config import from_json
from radt.experiments.run import CHECKPOINT, RESULT, Run, load_method
from radt.files import atomic_write
from radt.methods import METHODS
from radt.metrics import Interval, late_score
from radt.plots.curves import icl_curve
from radt.plots.episodes import trials_gif
from radt.plots.prose import PHASES, command, in_words, provenance, training_table, wall_table
from radt.plots.records import Record, read_record, variants
from radt.plots.tables import Row, markdown, method_table

CURVE, GIF, SUMMARY = "curve.png", "trials.gif", "summary.md"


def write_report(folder: Path) -> Path:
    """Write a run's curve, the GIF of its first and last trial, and a summary in Markdown."""
    record = read_record(folder / RESULT)
    run = Run(from_json(record["config"], where=str(folder / RESULT)), folder)
    icl_curve([record], folder / CURVE)
    for variant in variants([record]):
        icl_curve([record], folder / f"curve-{variant}.png", variant)
    task = median_task(record)
    has_film = film_once(run, task, folder / GIF)
    parts = [
        f"# {record['method']} on {record['env']}, seed {record['seed']}",
        *_result(record),
        *(_film(run, task) if has_film else []),
        *_training(folder),
        "## Wall time",
        wall_table(record["wall_seconds"]),
        "## Provenance",
        provenance(record),
        f"Everything that decides the outcome stands in [{RESULT}]({RESULT}) under `config`.",
        "## Do it again",
        f"```\n{command(run.config, folder.resolve().name)}\n```",
    ]
    return _write(folder / SUMMARY, parts)


def write_comparison(record_paths: Sequence[Path], out_folder: Path, name: str = "compare") -> Path:
    """Compare the results of many runs: `<name>.png`, `<name>.json` and `<name>.md`."""
    records = [read_record(path) for path in record_paths]
    rows = method_table(records)
    pictures = [icl_curve(records, out_folder / f"{name}.png")]
    for variant in variants(records):
        pictures.append(icl_curve(records, out_folder / f"{name}-{variant}.png", variant))
    content = comparison_json(records, rows)
    atomic_write(out_folder / f"{name}.json", (json.dumps(content, indent=2) + "\n").encode())
    own = [row for row in rows if row.env == records[0]["env"]]
    parts = [
        f"# In-context learning on {records[0]['env']}",
        *(f"![{picture.stem}]({picture.name})" for picture in pictures),
        markdown(rows).strip(),
        "\n".join(f"- {in_words(row, str(records[0]['split']))}" for row in own),
        _rules(records),
        f"The same numbers for programs: [{name}.json]({name}.json).",
    ]
    return _write(out_folder / f"{name}.md", parts)


def comparison_json(records: Sequence[Record], rows: Sequence[Row]) -> dict[str, Any]:
    """Put a comparison into plain values: `methods.<name>.mean_31_40` and so on."""
    env = str(records[0]["env"])
    own = [row for row in rows if row.env == env]
    return {
        "env": env,
        "split": records[0]["split"],
        "tasks": own[0].tasks,
        "trials": own[0].trials,
        "optimum": own[0].optimum,
        "action_rules": action_rules(records),
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
    """Put a row into plain values; intervals over seeds are null with one seed."""
    return {
        f"mean_{row.late.replace('-', '_')}": row.mean,
        "ci95": _bounds(row.over_seeds),
        "ci95_tasks": _bounds(row.over_tasks),
        "improves": row.improves,
        "improvement": row.improvement_over_tasks.mean,
        "improves_ci95": _bounds(row.improvement_over_seeds),
        "improves_ci95_tasks": _bounds(row.improvement_over_tasks),
        "at_trial": {str(trial): value for trial, value in row.at_trial.items()},
        "found_by": {str(trial): value for trial, value in row.found_by.items()},
        "after_finding": row.after_finding,
        "seeds": row.seeds,
        "parameters": row.parameters,
        "wall_minutes": row.minutes,
    }


def median_task(record: Record) -> int:
    """Choose the task to show: the one whose score is the median, not the best."""
    scores = late_score(np.array(record["returns"]))  # [task]
    return int(record["tasks"][int(np.argsort(scores, kind="stable")[(len(scores) - 1) // 2])])


def film_once(run: Run, task: int, path: Path) -> bool:
    """Make the GIF unless it is newer than the result; say whether there is one."""
    if path.exists() and path.stat().st_mtime >= (run.out / RESULT).stat().st_mtime:
        return True
    if METHODS[run.config.method].learns and not (run.out / CHECKPOINT).exists():
        return False
    return trials_gif(run, load_method(run), task, path) is not None


def action_rules(records: Sequence[Record]) -> dict[str, list[str]]:
    """Name the methods that acted by each rule; a fair table has one rule."""
    rules: dict[str, list[str]] = {}
    for record in records:
        methods = rules.setdefault(json.dumps(record.get("action_rule", {}), sort_keys=True), [])
        if record["method"] not in methods:
            methods.append(str(record["method"]))
    return rules


def _result(record: Record) -> list[str]:
    rows = method_table([record])
    pictures = [CURVE, *(f"curve-{variant}.png" for variant in variants([record]))]
    return [
        in_words(rows[0], str(record["split"])),
        *(f"![return by trial]({picture})" for picture in pictures),
        markdown(rows).strip(),
    ]


def _film(run: Run, task: int) -> list[str]:
    what = run.suite.describe(task)
    return [
        "## The first and the last trial",
        f"![the first and the last trial]({GIF})",
        f"Task {task} ({what}), the one with the median score of all tasks.",
    ]


def _training(folder: Path) -> list[str]:
    log = folder / "log.jsonl"
    text = log.read_text(encoding="utf-8") if log.exists() else ""
    lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
    tables = {phase: training_table(lines, phase) for phase in PHASES}
    shown = {PHASES[phase]: table for phase, table in tables.items() if table}
    titled = [part for who, table in shown.items() for part in (f"Loss of {who}:", table)]
    return ["## Training", *titled] if titled else []


def _rules(records: Sequence[Record]) -> str:
    rules = action_rules(records)
    if len(rules) == 1:
        return f"Every method acts by the same rule: `{next(iter(rules))}`."
    listed = "\n".join(f"- {', '.join(who)}: `{rule}`" for rule, who in rules.items())
    return (
        f"**The methods do not act by the same rule**, so this is no fair comparison:\n\n{listed}"
    )


def _bounds(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _write(path: Path, parts: Sequence[str]) -> Path:
    """Write paragraphs to a file."""
    atomic_write(path, ("\n\n".join(parts) + "\n").encode())
    return path
