"""What is written beside the result of one run: a curve, a moving picture, a summary, a page."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from radt.experiments.compare import any_config
from radt.experiments.evaluate import load_method
from radt.experiments.provenance import read_log
from radt.experiments.run import CHECKPOINT, RESULT, Run
from radt.methods import METHODS
from radt.metrics import late_score
from radt.plots.curves import icl_curve
from radt.plots.episodes import trials_gif
from radt.plots.html import REPORT, film_element, folded, render, write_html
from radt.plots.html_figures import icl_picture
from radt.plots.html_parts import (
    config_parts,
    data_facts,
    data_parts,
    data_pictures,
    keep_data_facts,
)
from radt.plots.prose import (
    PHASES,
    command,
    in_words,
    provenance,
    training_table,
    wall_table,
    write_page,
)
from radt.plots.records import Record, digits_of, read_record, titled, variants
from radt.plots.rows import method_table
from radt.plots.tables import markdown

CURVE, GIF, SUMMARY = "curve.png", "trials.gif", "summary.md"


def write_report(folder: Path) -> Path:
    """Write a run's curve, the GIF of its first and last trial, a summary and a page of its own."""
    record = read_record(folder / RESULT)
    run = Run(any_config(record["config"], str(folder / RESULT)), folder)
    icl_curve([record], folder / CURVE)
    for variant in variants([record]):
        icl_curve([record], folder / f"curve-{variant}.png", variant)
    film_once(run, median_task(record), folder / GIF)
    keep_data_facts(run.config, folder)
    bodies = (run_body(record, run, with_film) for with_film in (True, False))
    write_html(folder / REPORT, run_title(record), bodies)
    return write_page(folder / SUMMARY, summary_parts(record, run))


def run_title(record: Record) -> str:
    """Name a run."""
    return titled(f"{record['method']} on {record['env']}, seed {record['seed']}", [record])


def summary_parts(record: Record, run: Run) -> list[str]:
    """Say in Markdown what came of a run, how, and how to do it again."""
    has_film = (run.out / GIF).exists()
    return [
        f"# {run_title(record)}",
        *_result(record),
        *(_film(run, median_task(record)) if has_film else []),
        *making_parts(record, run),
    ]


def making_parts(record: Record, run: Run) -> list[str]:
    """Say how a run was made: its training, its time, its machine, its command."""
    return [
        *_training(run.out, digits_of([record])),
        "## Wall time",
        wall_table(record["wall_seconds"]),
        "## Provenance",
        provenance(record),
        f"Everything that decides the outcome stands in [{RESULT}]({RESULT}) under `config`.",
        "## Do it again",
        f"```\n{command(run.config, run.out)}\n```",
    ]


def run_body(record: Record, run: Run, with_film: bool = True) -> str:
    """Make the page of a run: its summary with pictures, its data, and every value."""
    facts, film = data_facts(run.config, run.out), run.out / GIF
    pictures = {
        CURVE: icl_picture([record]),
        **{f"curve-{name}.png": icl_picture([record], name) for name in variants([record])},
        **data_pictures([facts]),
    }
    if with_film and film.exists():
        pictures[GIF] = film_element(film)
    parts = [*summary_parts(record, run), *data_parts(run.config, facts)]
    values = folded("Every value of its config", render(config_parts(run.config)))
    return render(parts, pictures) + values


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


def _training(folder: Path, digits: int) -> list[str]:
    lines = read_log(folder)
    tables = {phase: training_table(lines, phase, digits) for phase in PHASES}
    shown = {PHASES[phase]: table for phase, table in tables.items() if table}
    titled = [part for who, table in shown.items() for part in (f"Loss of {who}:", table)]
    return ["## Training", *titled] if titled else []
