"""What is written beside the result of one run: a curve, a moving picture, a summary, a page."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from radt.config import RunConfig
from radt.data import render
from radt.decode import leaves
from radt.methods import METHODS
from radt.metrics import late_score
from radt.plots.curves import icl_pictures
from radt.plots.episodes import trials_gif
from radt.plots.html import (
    MOST_BYTES,
    REPORT,
    Section,
    as_text,
    fill_markdown,
    to_html,
    write_html,
    write_page,
)
from radt.plots.icl_json import read_record
from radt.plots.records import (
    Record,
    acts_by_rule,
    digits_of,
    label_of,
    rule_in_words,
    titled,
)
from radt.plots.source import DataFacts, data_facts, keep_data_facts, source_picture
from radt.plots.style import Picture
from radt.plots.tables import markdown, method_table, plain_table, row_in_words
from radt.registry import with_plugins
from radt.runs.compare import any_config
from radt.runs.evaluate import load_trained
from radt.runs.presets import changed, in_flags, row_of
from radt.runs.provenance import read_log, validations
from radt.runs.run import CHECKPOINT, RESULT, Run, collect_command
from radt.variants import variant_names

CURVE, GIF, SUMMARY = "curve", "trials.gif", "summary.md"
RULE = "evaluate.rule."  # values that do nothing where actions are continuous
MARKS = 5  # rows of the training table where there was no validation
PHASES = {"embedder": "the embedder", "train": "the policy"}


def write_report(folder: Path) -> Path:
    """Write a run's curve, the GIF of its first and last trial, a summary and a page of its own."""
    record = read_record(folder / RESULT)
    run = Run(any_config(record.get("config", {}), str(folder / RESULT)), folder)
    for name, picture in icl_pictures([record], CURVE).items():
        picture.save(folder / name)
    film_once(run, median_task(record), folder / GIF)
    keep_data_facts(run.config, folder)
    versions = ([run_section(record, run, full)] for full in (True, False))
    write_html(folder / REPORT, versions)
    return write_page(folder / SUMMARY, summary(record, run))


def run_title(record: Record) -> str:
    """Name a run."""
    return titled(f"{label_of(record)} on {record['env']}, seed {record['seed']}", [record])


def summary(record: Record, run: Run, with_pictures: bool = True) -> str:
    """Say in Markdown what came of a run, how, and how to do it again."""
    rows, task = method_table([record]), median_task(record)
    return fill_markdown(
        "summary.md",
        title=run_title(record),
        words=row_in_words(rows[0], str(record["split"])),
        pictures=list(icl_pictures([record], CURVE)) if with_pictures else [],
        tables=markdown(rows),
        film=GIF if with_pictures and film_of(run) else None,
        task=task,
        about=run.suite.describe(task),
        **making(record, run),
    )


def making(record: Record, run: Run | None) -> dict[str, Any]:
    """Say how a run was made: its training, its time, its machine, its command (`making.md`)."""
    training: dict[str, str] = {}
    if run is not None:
        lines, digits = read_log(run.out), digits_of([record])
        tables = {PHASES[phase]: training_table(lines, phase, digits) for phase in PHASES}
        training = {trained: table for trained, table in tables.items() if table}
    return {
        "training": training,
        "wall": record["wall_seconds"],
        "provenance": provenance(record),
        "command": None if run is None else command(run.config, run.out),
    }


def run_section(record: Record, run: Run, full: bool = True) -> Section:
    """Show a run: its summary with pictures, a film if `full`, its data, and every value."""
    facts, film = data_facts(run.config, run.out), film_of(run)
    pictures: dict[str, Picture | Path] = {
        **icl_pictures([record], CURVE),
        **data_pictures(facts),
        **({GIF: film} if full and film else {}),
    }
    text = "\n\n".join([summary(record, run), data_text(run.config, facts)])
    values = to_html("\n\n".join(config_parts(run.config)))
    return Section(
        run_title(record), to_html(text, pictures), {"Every value of its config": values}
    )


def data_text(config: RunConfig, facts: DataFacts | None) -> str:
    """Describe a dataset; where nothing is known of it, say how it is made."""
    if not METHODS[config.method].learns:
        return ""
    card = "" if facts is None else render(facts.card)
    return fill_markdown("data.md", facts=facts, card=card, made=collect_command(config))


def data_pictures(facts: DataFacts | None) -> dict[str, Picture]:
    """Draw how a source learned, where that is known."""
    if facts is None or facts.curve is None:
        return {}
    return {facts.picture: source_picture([facts.curve])}


def median_task(record: Record) -> int:
    """Choose the task to show: the one whose score is the median, not the best."""
    scores = late_score(np.array(record["returns"]))  # [task]
    return int(record["tasks"][int(np.argsort(scores, kind="stable")[(len(scores) - 1) // 2])])


def film_of(run: Run) -> Path | None:
    """Return the GIF that lies in a run's folder; a link may lead to anything."""
    film = run.out / GIF
    is_there = film.is_file() and not film.is_symlink()
    return film if is_there and film.stat().st_size <= MOST_BYTES else None


def film_once(run: Run, task: int, path: Path) -> bool:
    """Make the GIF unless it is newer than the result; say whether there is one."""
    if path.exists() and path.stat().st_mtime >= (run.out / RESULT).stat().st_mtime:
        return True
    if METHODS[run.config.method].learns and not (run.out / CHECKPOINT).exists():
        return False
    return trials_gif(run, load_trained(run), task, path) is not None


def training_table(
    lines: Sequence[Mapping[str, Any]], phase: str = "train", digits: int = 1
) -> str:
    """Write loss and validation over a phase of training; empty where there was none."""
    losses = {  # a step that was logged again after a restart counts once
        int(line["step"]): float(line["loss"])
        for line in lines
        if line["phase"] == phase and line.get("loss") is not None
    }
    looks = {look.pop("update"): look for look in validations(lines, phase)}
    if not losses:
        return ""
    few = np.linspace(0, len(losses) - 1, min(MARKS, len(losses))).round().astype(int)
    marks = sorted(looks) or [sorted(losses)[place] for place in few]
    names = sorted(
        {name for look in looks.values() for name in look},
        key=lambda name: int(name.rpartition("_")[2]),
    )
    head = ["update", "loss", *(f"validation, {name.replace('_', ' ')}" for name in names)]
    rows, before = [], 0
    for mark in marks:
        since = [loss for step, loss in losses.items() if before < step <= mark]
        shown = [f"{looks[mark][n]:.{digits}f}" if n in looks.get(mark, {}) else "-" for n in names]
        rows.append([str(mark), f"{np.mean(since):.3f}" if since else "-", *shown])
        before = mark
    return plain_table(head, rows)


def provenance(record: Record) -> str:
    """List the code, the machine and the rules behind a result."""
    facts: dict[str, Any] = {
        "code": record.get("code_version"),
        "plug-ins": _pairs({n: f"sha256 {v[:16]}" for n, v in record.get("plugins", {}).items()}),
        "seed": record["seed"],
        "budget": record.get("budget"),
        "split": record["split"],
        "action rule": rule_in_words(record, record),
        "machine": _pairs(record.get("machine", {})),
    }
    known = {name: fact for name, fact in facts.items() if fact not in (None, "")}
    return "\n".join(f"- {name}: {as_text(fact)}" for name, fact in known.items())


def command(config: RunConfig, out: Path) -> str:
    """Write the command that makes this run again, with every value that is not the preset's."""
    changes = {path: value for path, value in changed(config).items() if path != "seed"}
    row = row_of(config)
    name = row.label
    if name not in variant_names():
        name, changes["label"] = row.method, row.label
    out, here = out.resolve(), Path.cwd()
    inside = out.is_relative_to(here)  # else it is a path of this machine, which is no one's affair
    shown = out.relative_to(here) if inside else Path("runs", out.name)
    words = [
        with_plugins(f"radt run {config.env} --method {name}", config.names)
        + f" --budget {config.budget}",
        f"--seed {config.seed} --out {shlex.quote(str(shown))}",
        *in_flags(changes),
    ]
    return " \\\n  ".join(words)


def config_parts(config: RunConfig) -> list[str]:
    """List every value of a config that acts; those that no preset says are bold."""
    own, values = changed(config), config.to_json()
    idle = () if acts_by_rule({"env": config.env, "config": values}) else (RULE,)
    rows = [
        [f"`{path}`", f"**{_shown(value)}**" if path in own else _shown(value)]
        for path, value in leaves(values).items()
        if not path.startswith(idle)
    ]
    note = "Bold: not what the presets of its environment, method and budget say."
    return [note, plain_table(["name", "value"], rows)]


def _shown(value: Any) -> str:
    return f"`{json.dumps(value)}`"


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)
