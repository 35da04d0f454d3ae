"""What a report says beyond its summary: where the data came from, and every value of a config."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from radt.config import RunConfig
from radt.data import DataError, Dataset, DatasetCard, card, render
from radt.data.manifest import MANIFEST
from radt.decode import DecodeError, decode, leaves
from radt.experiments.presets import changed
from radt.experiments.run import collect_command, dataset_path
from radt.files import atomic_write
from radt.methods import METHODS
from radt.plots.html_figures import source_picture
from radt.plots.records import DATA
from radt.plots.source import SourceCurve, source_curve
from radt.plots.tables import plain_table


@dataclass(frozen=True)
class DataFacts:
    """What is known of a run's dataset without having it."""

    card: DatasetCard
    curve: SourceCurve | None  # None where its histories are too short for one

    @property
    def picture(self) -> str:
        """What the picture of the curve is called in a page."""
        return f"source-{self.card.sha256[:8]}.png"


def data_facts(config: RunConfig, folder: Path) -> DataFacts | None:
    """Return what is known of a run's data: from its folder, or measured where they lie here."""
    file, source = folder / DATA, dataset_path(config)
    if not METHODS[config.method].learns:
        return None
    if file.exists():
        return read_facts(file)
    return measure(Dataset.open(source)) if (source / MANIFEST).is_file() else None


def keep_data_facts(config: RunConfig, folder: Path) -> None:
    """Write what is known of a run's data beside its result, so that it is known elsewhere, too."""
    facts = data_facts(config, folder)
    if facts is not None and not (folder / DATA).exists():
        atomic_write(folder / DATA, (json.dumps(asdict(facts)) + "\n").encode())


def read_facts(file: Path) -> DataFacts:
    """Read what a report measured before."""
    try:
        return decode(DataFacts, json.loads(file.read_text(encoding="utf-8")), str(file))
    except ValueError as error:
        raise DecodeError(f"{error}; delete {file}, and it is measured again") from error


def measure(dataset: Dataset) -> DataFacts:
    """Measure a dataset and how its source learned."""
    try:
        curve = source_curve(dataset)
    except DataError:
        curve = None
    return DataFacts(card(dataset), curve)


def data_parts(config: RunConfig, facts: DataFacts | None) -> list[str]:
    """Describe a dataset; where nothing is known of it, say how it is made."""
    if not METHODS[config.method].learns:
        return []
    made = f"This makes it: `{collect_command(config)}`"
    if facts is None:
        return ["## Data", "The dataset is not on this machine.", made]
    curve = [] if facts.curve is None else [f"![what the source earned]({facts.picture})"]
    return ["## Data", *curve, f"```\n{render(facts.card)}\n```", made]


def data_pictures(known: Iterable[DataFacts | None]) -> dict[str, str]:
    """Draw how each source learned whose curve is known."""
    return {
        facts.picture: source_picture([facts.curve])
        for facts in known
        if facts is not None and facts.curve is not None
    }


def config_parts(config: RunConfig) -> list[str]:
    """List every value of a config; those that no preset says are bold."""
    own = changed(config)
    rows = [
        [f"`{path}`", f"**{_shown(value)}**" if path in own else _shown(value)]
        for path, value in leaves(config.to_json()).items()
    ]
    note = "Bold: not what the presets of its environment, method and budget say."
    return [note, plain_table(["name", "value"], rows)]


def changed_parts(config: RunConfig) -> list[str]:
    """List only the values of a config that no preset says."""
    values: Mapping[str, Any] = {n: v for n, v in changed(config).items() if n != "seed"}
    if not values:
        return ["Every value of its config is that of the presets."]
    rows = [[f"`{path}`", _shown(value)] for path, value in values.items()]
    return ["Not what the presets say:", plain_table(["name", "value"], rows)]


def _shown(value: Any) -> str:
    return f"`{json.dumps(value)}`"
