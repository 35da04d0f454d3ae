"""Learning histories: stored one file per task, described by a manifest, read as windows."""

from radt.data.manifest import (
    ArraySpec,
    DataError,
    Manifest,
    TaskFile,
    read_manifest,
    write_manifest,
)
from radt.data.reader import Dataset, Episodes
from radt.data.stats import DatasetCard, card, render
from radt.data.store import History, dataset_folder, home, write_history

__all__ = [
    "ArraySpec",
    "DataError",
    "Dataset",
    "DatasetCard",
    "Episodes",
    "History",
    "Manifest",
    "TaskFile",
    "card",
    "dataset_folder",
    "home",
    "read_manifest",
    "render",
    "write_history",
    "write_manifest",
]
