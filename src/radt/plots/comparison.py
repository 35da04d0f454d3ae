"""What is written beside the results of many runs: a table, a picture, and both for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from radt.config import NAMES, from_json
from radt.decode import leaves, read_json
from radt.files import atomic_write
from radt.methods import METHODS
from radt.plots.curves import LEARNING, has_learning, icl_pictures, learning_picture
from radt.plots.html import REPORT, Section, fill_markdown, to_html, write_html, write_page
from radt.plots.icl_json import read_record
from radt.plots.records import (
    DATA,
    Record,
    RecordError,
    acts_by_rule,
    by_label,
    learns,
    titled,
    trained_on,
    variants,
)
from radt.plots.report import data_pictures, data_text, making, run_title
from radt.plots.row_json import row_json
from radt.plots.source import DataFacts, data_facts
from radt.plots.style import Picture
from radt.plots.tables import (
    MethodRow,
    markdown,
    method_table,
    plain_table,
    returns_tables,
    row_in_words,
)
from radt.runs.compare import any_config
from radt.runs.presets import changed
from radt.runs.run import RESULT, Run, dataset_path

NAME = "compare"  # of the table's, the picture's and the numbers' files
SAID_BY_ROWS = ("label", "method", "seed")  # not told as differences


def write_comparison(
    record_paths: Sequence[Path], out_folder: Path, wall_minutes: float | None = None
) -> Path:
    """Compare the results of many runs: `compare.png`, `compare.json`, `compare.md` and a page.

    `wall_minutes` says that the methods were given equal time instead of equal updates. What was
    compared at equal time in folders `wall-<X>min` below becomes a second table.
    """
    records = [read_record(path) for path in record_paths]
    for name, picture in comparison_pictures(records).items():
        picture.save(out_folder / name)
    rows, runs = method_table(records), [path.parent for path in record_paths]
    _write_json(out_folder, comparison_json(records, rows, wall_minutes))
    text = comparison_text(records, rows, out_folder, wall_minutes)
    versions = ([comparison_section(records, runs, text, full)] for full in (True, False))
    write_html(out_folder / REPORT, versions)
    told = f"The same numbers for programs: [{NAME}.json]({NAME}.json)."
    return write_page(out_folder / f"{NAME}.md", f"{text}\n\n{told}")


def write_equal_time_alone(folder: Path) -> Path:
    """Let a folder tell of its comparisons at equal wall time, where it has none at equal updates.

    Its JSON is that of the time with the most methods, and of such the longest; `wall_minutes` in
    it says which.
    """
    told = {
        file: read_json(file, dict[str, Any], "compare again", RecordError)
        for file in folder.glob(f"wall-*min/{NAME}.json")
    }
    most = max(told, key=lambda file: (len(told[file]["methods"]), _minutes(file.parent)))
    _write_json(folder, told[most])
    text = fill_markdown(
        "compare.md",
        title=f"In-context learning on {told[most]['env']}",
        only_equal_time=True,
        pictures=[f"{most.parent.name}/{NAME}.png"],
        equal_time=_equal_time(folder),
        **dict.fromkeys(("tables", "words", "differences"), ""),
    )
    return write_page(folder / f"{NAME}.md", text)


def comparison_pictures(records: Sequence[Record]) -> dict[str, Picture]:
    """Draw what there is to see of some results, by file."""
    records = by_named_rule(records)
    learning = {LEARNING: learning_picture(records)} if has_learning(records) else {}
    return {**icl_pictures(records, NAME), **learning}


def by_named_rule(records: Sequence[Record]) -> Sequence[Record]:
    """Leave out older records, which name no rule of action, where others do name theirs.

    They act by another rule, so that their curves would not compare.
    """
    named = [record for record in records if record.get("rule")]
    return named if any(learns(record) for record in named) else records


def comparison_text(
    records: Sequence[Record],
    rows: Sequence[MethodRow],
    folder: Path,
    wall_minutes: float | None = None,
) -> str:
    """Say in Markdown how rows compare."""
    own = [row for row in rows if row.env == records[0]["env"]]
    equal = "equal updates" if wall_minutes is None else f"{wall_minutes:g} minutes of training"
    return fill_markdown(
        "compare.md",
        title=titled(f"In-context learning on {records[0]['env']}, {equal}", records),
        only_equal_time=False,
        pictures=list(comparison_pictures(records)),
        tables=markdown(rows),
        equal_time=_equal_time(folder),
        words=[row_in_words(row, str(records[0]["split"])) for row in own],
        differences=differences_text(records, wall_minutes),
    )


def comparison_section(
    records: Sequence[Record], runs: Sequence[Path], told: str, full: bool = True
) -> Section:
    """Show what is told of runs with its pictures, the data and, if `full`, every run."""
    known = [run_of(record, place) for record, place in zip(records, runs, strict=True)]
    data = shared_data([run for run in known if run is not None])
    pictures = comparison_pictures(records)
    text = [told]
    for run, facts in data:
        pictures |= data_pictures(facts)
        text.append(data_text(run.config, facts))
    details = {
        run_title(record): to_html(_details(record, run))
        for record, run in zip(records, known, strict=True)
        if full
    }
    text += ["## Every run"] if full else []
    title = told.partition("\n")[0].removeprefix("# ")
    return Section(title, to_html("\n\n".join(text), pictures), details)


def run_of(record: Record, folder: Path) -> Run | None:
    """Return the run behind a record; None where nothing here can read its config."""
    try:
        return Run(any_config(record["config"], str(folder / RESULT)), folder)
    except (KeyError, ValueError):  # an older record, or an environment or a method of others
        return None


def shared_data(runs: Sequence[Run]) -> list[tuple[Run, DataFacts | None]]:
    """Return each dataset's facts, measuring it at most once, with one run that learned from it."""
    learned = [run for run in runs if METHODS[run.config.method].learns]
    by_data: dict[Path, Run] = {}
    for run in sorted(learned, key=lambda run: not (run.out / DATA).exists()):
        by_data.setdefault(dataset_path(run.config), run)
    return [(run, data_facts(run.config, run.out)) for run in by_data.values()]


def _details(record: Record, run: Run | None) -> str:
    own = None
    if run is not None:
        own = {n: json.dumps(value) for n, value in changed(run.config).items() if n != "seed"}
    return fill_markdown("details.md", changed=own, **making(record, run))


def differences_text(records: Sequence[Record], wall_minutes: float | None = None) -> str:
    """Tell in which values of their configs methods differ, as one table."""
    found = config_differences(records, timed=wall_minutes is not None)
    labels = [one for one in by_label(records) if any(one in values for values in found.values())]
    rows = [
        [f"`{path}`", *(_cell(values.get(label, ())) for label in labels)]
        for path, values in found.items()
    ]
    return fill_markdown(
        "differences.md",
        wall_minutes=None if wall_minutes is None else f"{wall_minutes:g}",
        codes=_code_versions(records),
        differences=found,
        table=plain_table(["", *(f"`{label}`" for label in labels)], rows),
    )


def config_differences(
    records: Sequence[Record], timed: bool = False
) -> dict[str, dict[str, list[Any]]]:
    """Return what differs between methods, by path: the values of each, over its seeds.

    Methods have options of their own. One that only some have is a difference where its value is
    not its default.
    """
    found: dict[str, dict[str, list[Any]]] = {}
    unusual: set[str] = set()
    for label, same in by_label(records).items():
        usual: dict[str, Any] = {}  # where nothing is said; of an unknown method that is not known
        if (run := run_of(same[0], Path())) is not None:
            config = run.config.to_json()
            usual = leaves(from_json({name: config[name] for name in NAMES}).to_json())
        for record in same:
            for path, value in decisive_values(record, timed).items():
                known = found.setdefault(path, {}).setdefault(label, [])
                known += [value] if value not in known else []
                unusual |= {path} if value != usual.get(path) else set()
    learners = sum(learns(same[0]) for same in by_label(records).values())
    return {
        path: values
        for path, values in sorted(found.items())
        if len(set(map(json.dumps, values.values()))) > 1
        or (path in unusual and len(values) < learners)
    }


def decisive_values(record: Record, timed: bool) -> dict[str, Any]:
    """Return what decides an outcome, by path; of what learns nothing only how it acts."""
    if "config" not in record:
        return {}
    run = run_of(record, Path())
    config = record["config"] if run is None else run.config.to_json()
    acts = record.get("action_rule", {}) if acts_by_rule(record) else {}
    rule = {"evaluate": {**config.get("evaluate", {}), "rule": acts}}
    if not learns(record):
        return leaves({"options": config.get("options", {}), **rule})
    facts: dict[str, Any] = {"data_sha256": str(record.get("data_sha256", "?"))[:6]}
    if timed:
        facts["seconds_of_training"] = trained_for(record)
    values = leaves({**config, **rule, **facts})
    if values.get("embedder_name") is None:
        values.pop("embedder_name", None)  # a method without one has nothing to differ in
    return {path: value for path, value in values.items() if path not in SAID_BY_ROWS}


def trained_for(record: Record) -> int | None:
    """Return the seconds of training by the speed that a log shows; not known to older records."""
    speed, wall = (record.get("speed") or {}).get("samples_per_second"), record["wall_seconds"]
    if not speed:
        return None
    learn = record["config"]["learn"]
    seconds = learn["updates"] * learn["batch_size"] / speed
    passed = min(seconds, wall.get("train", math.inf))  # a speed of few lines may be off
    return round(float(passed + wall.get("embedder", 0.0) + wall.get("prepare", 0.0)))


def _code_versions(records: Sequence[Record]) -> list[str]:
    return sorted({str(record.get("code_version")) for record in records})


def _cell(values: Iterable[Any]) -> str:
    words = (value if isinstance(value, str) else json.dumps(value) for value in values)
    return ", ".join(words).replace("|", "\\|") or "-"


def comparison_json(
    records: Sequence[Record], rows: Sequence[MethodRow], wall_minutes: float | None = None
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
        "conditions": config_differences(records, timed=wall_minutes is not None),
        "code_versions": _code_versions(records),
        "methods": {row.label: row_json(row) for row in own},
        "variants": {
            name: {
                "optimum": next(row.optimum for row in rows if row.env == name),
                "methods": {row.label: row_json(row) for row in rows if row.env == name},
            }
            for name in variants(records)
        },
    }


def _write_json(folder: Path, content: Mapping[str, Any]) -> None:
    atomic_write(folder / f"{NAME}.json", (json.dumps(content, indent=2) + "\n").encode())


def _equal_time(folder: Path) -> list[dict[str, str]]:
    """Return the returns of what was compared at equal wall time, and where the rest stands."""
    parts = []
    for page in sorted(folder.glob(f"wall-*min/{NAME}.md")):
        records = [read_record(path) for path in sorted(page.parent.glob(f"*-seed*/{RESULT}"))]
        rows = method_table([{**record, "variants": {}} for record in records])
        parts.append(
            {
                "minutes": f"{_minutes(page.parent):g}",
                "folder": page.parent.name,
                "tables": returns_tables(rows),
            }
        )
    return parts


def _minutes(folder: Path) -> float:
    return float(folder.name.removeprefix("wall-").removesuffix("min"))
