"""The verbs that measure speed; what they do and their arguments are in `radt.bench`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import import_module
from typing import ClassVar

from radt.bench import (
    CollectArguments,
    DecideArguments,
    DistributedArguments,
    EvaluateArguments,
    MemoryArguments,
    Resources,
    TrainArguments,
)
from radt.commands.flags import ComputingVerb


class BenchVerb(ComputingVerb):
    """A verb that measures."""

    benchmark: ClassVar[str]

    def execute(self) -> None:
        """Measure, write the record, and print it: one JSON object, or a table and the ratio."""
        from rich.text import Text

        from radt.files import atomic_write

        name, common, out = self.benchmark, self.common, vars(self)["out"]
        module = import_module(f"radt.bench.{name}")
        resources = Resources(common.device, common.workers, common.quiet)
        record = getattr(module, f"bench_{name}")(self, resources)
        content = json.dumps(record, allow_nan=False, indent=1)
        atomic_write(out, f"{content}\n".encode())
        written = Text(f"written to {out}", style="dim", no_wrap=True, overflow="ignore")
        common.answer(record, getattr(module, f"{name}_table")(record), written)
        if not common.json and record["ratio"] is not None:
            print(f"ratio {record['ratio']:.2f}")


@dataclass(frozen=True, kw_only=True)
class BenchCollectVerb(BenchVerb, CollectArguments):
    """Compare the speed of `radt collect` with other people's PPO, and how well both learn.

    Beside rooms stands stable-baselines3's PPO, beside mazes sb3-contrib's RecurrentPPO.

    Try:
      radt bench collect
      radt bench collect --rollouts 5 --skip-returns      a minute instead of many
      radt bench collect --env maze-runner-15x15
    """

    benchmark = "collect"


@dataclass(frozen=True, kw_only=True)
class BenchTrainVerb(BenchVerb, TrainArguments):
    """Measure sequences and action targets per second of every method at the paper's sizes.

    Try:
      radt bench train
      radt bench train --envs dark-room-10x10 --methods ad,ra-dt      the smallest room only
    """

    benchmark = "train"


@dataclass(frozen=True, kw_only=True)
class BenchDecideVerb(BenchVerb, DecideArguments):
    """Measure what a decision costs beside the policy's forward pass: embed, search, policy.

    Try:
      radt bench decide
      radt bench decide --threads 1
      radt bench decide --weights runs/dark-room-10x10/ra-dt-seed0
    """

    benchmark = "decide"


@dataclass(frozen=True, kw_only=True)
class BenchEvaluateVerb(BenchVerb, EvaluateArguments):
    """Compare acting on many tasks at once with acting on one after the other, same noise."""

    benchmark = "evaluate"


@dataclass(frozen=True, kw_only=True)
class BenchMemoryVerb(BenchVerb, MemoryArguments):
    """Measure one read of a memory at several sizes: how long, how much is found, how much RAM.

    Try:
      radt bench memory
      radt bench memory --sizes 10000,100000 --reads 200      minutes instead of an hour
    """

    benchmark = "memory"


@dataclass(frozen=True, kw_only=True)
class BenchDistributedVerb(BenchVerb, DistributedArguments):
    """Compare two processes that train together with one.

    Try:
      radt bench distributed
      radt bench distributed --updates 100
    """

    benchmark = "distributed"
