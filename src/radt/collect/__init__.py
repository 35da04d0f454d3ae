"""Data sources: how learning histories are made and become a dataset.

The package can be called: `radt.collect(config)` makes the dataset that a run's config asks for.
"""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from radt.collect import imported, noisy_expert, ppo, ppo_lstm, sb3  # which register themselves
from radt.collect.noisy_expert import NoisyExpertOptions
from radt.collect.ppo import CollectConfig
from radt.collect.ppo_lstm import RecurrentConfig
from radt.collect.record import record_histories
from radt.collect.sb3 import SB3Options
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
    "CollectConfig",
    "CollectError",
    "CollectProgress",
    "Forecast",
    "NoisyExpertOptions",
    "Recorded",
    "RecurrentConfig",
    "Request",
    "SB3Options",
    "SourceEntry",
    "imported",
    "noisy_expert",
    "ppo",
    "ppo_lstm",
    "record_histories",
    "sb3",
]


class _CallablePackage(ModuleType):
    """Lets `radt.collect(config)` stand beside `from radt.collect import CollectConfig`."""

    def __call__(self, config: Any, *options: Any, **named: Any) -> Path:
        """Make the dataset that a run's config asks for, unless it exists; see `radt.api`."""
        from radt.api import collect

        return collect(config, *options, **named)


sys.modules[__name__].__class__ = _CallablePackage
