"""The plug point of data sources: what acts while learning histories are recorded.

A source is a name in `SOURCES`, a frozen dataclass of options and a function that yields the
history of one task after the other. Where they are written, that nobody else writes there, and
that a finished dataset is not made twice, is `record`'s business. Third parties add a source with
an entry point of the group `radt.sources`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radt.data import History
from radt.engine import Engine
from radt.envs.suite import TaskSuite
from radt.errors import RadtError
from radt.registry import Registry


class CollectError(RadtError, ValueError):
    """A collection that cannot start or go on; the message says what to do."""


@dataclass(frozen=True)
class CollectProgress:
    """How much of a collection is done, and the mean return of recent episodes."""

    transitions: int  # of all tasks
    total: int  # as far as it is known: it grows where more tasks turn out to be needed
    recent_return: float


OnProgress = Callable[[CollectProgress], None]


@dataclass(frozen=True)
class Request:
    """What a source is asked for."""

    suite: TaskSuite
    options: Any  # the source's own dataclass
    parts: Path  # a folder for what has to survive a kill; it is deleted once all is written
    engine: Engine  # where work can be shared; the data do not depend on it
    report: OnProgress


@dataclass(frozen=True)
class Recorded:
    """What a source answers with."""

    histories: Iterable[History]  # in the order of the tasks; made while they are read, or before
    seconds: float = 0.0  # spent before they are read, in earlier runs too


@dataclass(frozen=True)
class Forecast:
    """How much a source will record and how long that takes, roughly, on two CPU cores."""

    tasks: int
    transitions: int  # of all tasks
    seconds: float


def check_rates(options: Any) -> None:
    """Refuse what PPO cannot learn with: rates below 0, bounds of 0, discounts beyond 1."""
    for name in ("learning_rate", "ent_coef", "vf_coef"):
        if (value := getattr(options, name)) < 0:
            raise ValueError(f"{name} must not be negative, as {value} is")
    for name in ("clip_range", "max_grad_norm", "adam_epsilon"):
        if (value := getattr(options, name)) <= 0:
            raise ValueError(f"{name} must be above 0, not {value}")
    for name in ("gamma", "gae_lambda"):
        if not 0 <= (value := getattr(options, name)) <= 1:
            raise ValueError(f"{name} must lie in [0, 1], not {value}")


MOST_COUNTED = 1 << 40


def check_counts(options: Any, *names: str) -> None:
    """Refuse a negative seed, and options of these names that are below 1 or beyond all counts."""
    if (seed := getattr(options, "seed", 0)) < 0:
        raise ValueError(f"seed must be at least 0, not {seed}")
    for name in names:
        if getattr(options, name) < 1:
            raise ValueError(f"{name} must be at least 1, not {getattr(options, name)}")
        if getattr(options, name) > MOST_COUNTED:
            raise ValueError(f"{name} must be at most {MOST_COUNTED}, not {getattr(options, name)}")


def everything_fits(suite: TaskSuite, options: Any) -> None:
    """Refuse nothing."""


@dataclass(frozen=True)
class SourceEntry:
    """A registered data source: its options, and how it records."""

    options: type[Any]  # a frozen dataclass with at least a `seed`
    record: Callable[[Request], Recorded]
    forecast: Callable[[TaskSuite, Any], Forecast]
    check: Callable[[TaskSuite, Any], None] = everything_fits  # a ValueError says what does not


SOURCES: Registry[SourceEntry] = Registry("sources", "data source")
