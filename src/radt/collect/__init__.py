"""Data sources: how learning histories are made and become a dataset.

Each source registers itself. The package can be called: `radt.collect(config)` makes the dataset
that a run's config asks for.
"""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from radt.collect import imported as imported
from radt.collect import noisy_expert as noisy_expert
from radt.collect import ppo as ppo
from radt.collect import ppo_lstm as ppo_lstm
from radt.collect import sb3 as sb3
from radt.collect.noisy_expert import NoisyExpertOptions as NoisyExpertOptions
from radt.collect.ppo import CollectConfig as CollectConfig
from radt.collect.ppo_lstm import RecurrentConfig as RecurrentConfig
from radt.collect.record import record_histories as record_histories
from radt.collect.sb3 import SB3Options as SB3Options
from radt.collect.source import SOURCES as SOURCES
from radt.collect.source import CollectError as CollectError
from radt.collect.source import CollectProgress as CollectProgress
from radt.collect.source import Forecast as Forecast
from radt.collect.source import Recorded as Recorded
from radt.collect.source import Request as Request
from radt.collect.source import SourceEntry as SourceEntry


class _CallablePackage(ModuleType):
    """Lets `radt.collect(config)` stand beside `from radt.collect import CollectConfig`."""

    def __call__(self, config: Any, *options: Any, **named: Any) -> Path:
        """Make the dataset that a run's config asks for, unless it exists; see `radt.api`."""
        from radt.api import collect

        return collect(config, *options, **named)


sys.modules[__name__].__class__ = _CallablePackage
