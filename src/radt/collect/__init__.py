"""Data sources: who acts while learning histories are recorded, and how that becomes a dataset."""

from radt.collect import annealed, ppo, ppo_lstm  # which register themselves
from radt.collect.annealed import AnnealedOptions
from radt.collect.ppo import CollectConfig, paper_config
from radt.collect.ppo_lstm import RecurrentConfig
from radt.collect.record import record_histories
from radt.collect.source import (
    SOURCES,
    CollectError,
    CollectProgress,
    Forecast,
    Recorded,
    Request,
    SourceEntry,
)

__all__ = [
    "SOURCES",
    "AnnealedOptions",
    "CollectConfig",
    "CollectError",
    "CollectProgress",
    "Forecast",
    "Recorded",
    "RecurrentConfig",
    "Request",
    "SourceEntry",
    "annealed",
    "paper_config",
    "ppo",
    "ppo_lstm",
    "record_histories",
]
