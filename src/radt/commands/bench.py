"""The verbs that measure speed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import subcommand

from radt.commands.flags import Verb


@dataclass(frozen=True, kw_only=True)
class BenchCollectVerb(Verb):
    """Compare the speed of `radt collect` with stable-baselines3's PPO."""

    def execute(self) -> None:
        """Measure and print the ratio last."""


@dataclass(frozen=True, kw_only=True)
class BenchEvaluateVerb(Verb):
    """Compare acting on all tasks at once with acting on one at a time."""

    def execute(self) -> None:
        """Measure and print the ratio last."""


@dataclass(frozen=True)
class BenchVerb:
    """Measure speed."""

    verb: (
        Annotated[BenchCollectVerb, subcommand("collect")]
        | Annotated[BenchEvaluateVerb, subcommand("evaluate")]
    )
