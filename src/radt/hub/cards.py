"""The page of a repository: what it holds, what was measured, how to load it, its licence."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from radt.data import Dataset, Manifest, card, render
from radt.decode import leaves
from radt.hub.repository import LOCAL, HubError, Listing
from radt.plots.icl_json import read_record
from radt.plots.report import config_parts, data_text, summary
from radt.plots.source import data_facts
from radt.plots.tables import plain_table
from radt.runs.compare import any_config
from radt.runs.run import RESULT, Run

LICENCE = re.compile(r"[a-z0-9][a-z0-9.-]{0,60}")
TAGS = ("radt", "in-context-learning", "decision-transformer")


def write_card(folder: Path, contents: Listing, address: str, licence: str) -> str:
    """Write the page of what is pushed from a folder."""
    if not LICENCE.fullmatch(licence):
        raise HubError(f"--license must be as the hub spells it, such as mit, not {licence!r}")
    is_run = contents.kind == "run"
    task = {"pipeline_tag": "reinforcement-learning"} if is_run else {}
    kind = {} if is_run else {"task_categories": ["reinforcement-learning"]}
    head = {"license": licence, "library_name": "radt", **task, **kind, "tags": list(TAGS)}
    front = [f"{name}: {json.dumps(value)}" for name, value in head.items()]  # YAML, as JSON is
    parts = run_parts(folder) if is_run else dataset_parts(Dataset.open(folder))
    return "\n\n".join(
        [
            "\n".join(["---", *front, "---"]),
            *parts,
            "## Load",
            *loading(contents, address),
            "## Licence",
            f"`{licence}`, as said by who has pushed it. radt itself is under the MIT licence.",
            f"Written by `radt hub push`, radt {contents.code_version}.\n",
        ]
    )


def run_parts(folder: Path) -> list[str]:
    """Tell what the summary of a run says, and its data and its config."""
    record = read_record(folder / RESULT)
    run = Run(any_config(record.get("config", {}), str(folder / RESULT)), folder)
    told = (
        summary(record, run, with_pictures=False),
        data_text(run.config, data_facts(run.config, folder)),
    )
    return [*told, "## Config", *config_parts(run.config)]


def dataset_parts(dataset: Dataset) -> list[str]:
    """Tell what a dataset is, what is in its files and how it was recorded."""
    manifest = dataset.manifest
    return [
        f"# Learning histories of {manifest.env}",
        f"All episodes of {len(manifest.files)} tasks in the order in which the source "
        f"`{manifest.source}` made them while it learned, one HDF5 file for each task.",
        _code(render(card(dataset))),
        "## Files",
        plain_table(["array", "type", "shape"], _arrays(manifest)),
        "N steps, E complete episodes; `manifest.json` has the counts and the hash of each file.",
        "## How it was recorded",
        plain_table(["name", "value"], _values(leaves(manifest.hyper_parameters))),
        f"Code: {manifest.code_version}. Seed: {manifest.seed}.",
    ]


def loading(contents: Listing, address: str) -> Sequence[str]:
    """Say how to get it and how to use it."""
    shown = f"{LOCAL}FOLDER" if address.startswith(LOCAL) else address
    get = _code(f"pip install 'radt[hub]'\nradt hub pull {shown}")
    if contents.kind == "run":
        use = f'import radt\n\nagent = radt.load("runs/{contents.name}").agent()'
        after = f"Evaluate it again with `radt evaluate runs/{contents.name}`."
    else:
        folder = f'home() / "{contents.env}" / "{contents.name}"'
        use = f"from radt.data import Dataset, home\n\ndataset = Dataset.open({folder})"
        after = f"`radt run {contents.env}` finds it there if its recipe is the one asked for."
    return [get, _code(use, "python"), after]


def _arrays(manifest: Manifest) -> list[list[str]]:
    specs, counted = manifest.files[0].arrays, {"lengths": "E"}
    return [
        [f"`{s.name}`", s.dtype, ", ".join([counted.get(s.name, "N"), *map(str, s.shape[1:])])]
        for s in specs
    ]


def _values(values: Mapping[str, Any]) -> list[list[str]]:
    return [[f"`{name}`", f"`{json.dumps(value)}`"] for name, value in values.items()]


def _code(text: str, language: str = "") -> str:
    return f"```{language}\n{text}\n```"
