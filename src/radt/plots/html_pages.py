"""The page of a comparison: what its Markdown says, the data behind it, how each run was made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from radt.config import RunConfig
from radt.experiments.compare import any_config
from radt.experiments.run import RESULT, Run, dataset_path
from radt.methods import METHODS
from radt.plots.html import folded, render
from radt.plots.html_figures import icl_picture, learning_picture
from radt.plots.html_parts import (
    DataFacts,
    changed_parts,
    data_facts,
    data_parts,
    data_pictures,
)
from radt.plots.learning import LEARNING, has_learning
from radt.plots.prose import provenance, wall_table
from radt.plots.records import DATA, Record, variants
from radt.plots.report import making_parts, run_title


def comparison_body(
    records: Sequence[Record],
    runs: Sequence[Path],
    parts: Sequence[str],
    name: str,
    full: bool = True,
) -> str:
    """Show Markdown whose pictures are called after `name`, the data and, if `full`, every run."""
    known = [run_of(record, folder) for record, folder in zip(records, runs, strict=True)]
    data = shared_data([run for run in known if run is not None])
    pictures = {
        f"{name}.png": icl_picture(records),
        **{f"{name}-{other}.png": icl_picture(records, other) for other in variants(records)},
        **data_pictures(facts for _, facts in data),
    }
    if has_learning(records):
        pictures[LEARNING] = learning_picture(records)
    told = [part for config, facts in data for part in data_parts(config, facts)]
    body = render([*parts, *told], pictures)
    if not full:
        return body
    details = [
        folded(run_title(record), render(_details(record, run)))
        for record, run in zip(records, known, strict=True)
    ]
    return body + render(["## Every run"]) + "".join(details)


def run_of(record: Record, folder: Path) -> Run | None:
    """Return the run behind a record; None where nothing here can read its config."""
    try:
        return Run(any_config(record["config"], str(folder / RESULT)), folder)
    except (KeyError, ValueError):  # an older record, or an environment or a method of others
        return None


def shared_data(runs: Sequence[Run]) -> list[tuple[RunConfig, DataFacts | None]]:
    """Return what is known of each dataset that the runs learned from, measuring each at most once.

    Beside it stands the config of one run that learned from it.
    """
    learned = [run for run in runs if METHODS[run.config.method].learns]
    by_data: dict[Path, list[Run]] = {}
    for run in sorted(learned, key=lambda run: not (run.out / DATA).exists()):
        by_data.setdefault(dataset_path(run.config), []).append(run)
    return [(same[0].config, data_facts(same[0].config, same[0].out)) for same in by_data.values()]


def _details(record: Record, run: Run | None) -> list[str]:
    if run is None:
        return [wall_table(record["wall_seconds"]), provenance(record)]
    return [*making_parts(record, run), *changed_parts(run.config)]
