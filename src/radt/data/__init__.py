"""Learning histories: stored one file per task, described by a manifest, read as windows."""

from radt.data.manifest import ArraySpec as ArraySpec
from radt.data.manifest import DataError as DataError
from radt.data.manifest import Manifest as Manifest
from radt.data.manifest import TaskFile as TaskFile
from radt.data.manifest import read_manifest as read_manifest
from radt.data.manifest import write_manifest as write_manifest
from radt.data.reader import Dataset as Dataset
from radt.data.reader import Episodes as Episodes
from radt.data.stats import DatasetCard as DatasetCard
from radt.data.stats import card as card
from radt.data.stats import render as render
from radt.data.store import History as History
from radt.data.store import dataset_folder as dataset_folder
from radt.data.store import home as home
from radt.data.store import write_history as write_history
