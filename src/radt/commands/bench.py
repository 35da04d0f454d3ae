"""The verbs that measure speed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from radt.commands.flags import Budget, ComputingVerb


@dataclass(frozen=True, kw_only=True)
class BenchCollectVerb(ComputingVerb):
    """Compare the speed of `radt collect` with other people's PPO, and how well both learn.

    Beside rooms stands stable-baselines3's PPO, beside mazes sb3-contrib's RecurrentPPO.

    Try:
      radt bench collect
      radt bench collect --rollouts 5 --skip-returns      a minute instead of many
      radt bench collect --env maze-runner-15x15
    """

    env: str = "dark-room-10x10"  # whose training tasks are learned, by its usual source
    rollouts: Annotated[int | None, arg(help_behavior_hint="(default: all)")] = None
    """Rollouts of each task that we collect."""
    sb3_rollouts: int = 5  # rollouts that the baseline is timed over without returns
    skip_returns: bool = False  # do not train the baseline to the end to compare returns
    out: Path = Path("runs/bench/collect.json")  # where the JSON goes

    def execute(self) -> None:
        """Measure and print the ratio last."""
        from radt.bench.collect import main

        common = self.common
        main(
            out=self.out,
            env=self.env,
            rollouts=self.rollouts,
            sb3_rollouts=self.sb3_rollouts,
            returns=not self.skip_returns,
            workers=common.workers,
            json_only=common.json,
            quiet=common.quiet,
        )


@dataclass(frozen=True, kw_only=True)
class BenchEvaluateVerb(ComputingVerb):
    """Compare acting on many tasks at once with acting on one after the other, same noise."""

    checkpoint: Annotated[Path | None, arg(help_behavior_hint="(default: shipped weights)")] = None
    """A run or checkpoint of your own."""
    tasks: int = 20  # how many tasks
    trials: int = 4  # of each task
    out: Path = Path("runs/bench/evaluate.json")  # where the JSON goes

    def execute(self) -> None:
        """Measure and print the ratio last."""
        from radt.bench.evaluate import main

        common = self.common
        main(
            self.out,
            self.checkpoint,
            self.tasks,
            self.trials,
            common.device,
            common.json,
            common.quiet,
        )


@dataclass(frozen=True, kw_only=True)
class BenchTrainVerb(ComputingVerb):
    """Measure sequences and action targets per second of every method at the paper's sizes.

    Try:
      radt bench train
      radt bench train --envs dark-room-10x10 --methods ad,ra-dt      the smallest room only
    """

    envs: str = "dark-room-10x10,dark-room-20x20,dark-room-40x20"  # the last one's ratio counts
    methods: Annotated[str | None, arg(help_behavior_hint="(default: all that learn)")] = None
    """Names with commas between them; ra-dt and ad must be among them."""
    micro_batch: int = 4  # sequences that go forward and backward together
    out: Path = Path("runs/bench/train.json")  # where the JSON goes

    def execute(self) -> None:
        """Measure and print the ratio last."""
        from radt.bench.train import main

        common = self.common
        main(
            self.out,
            self.envs.split(","),
            None if self.methods is None else self.methods.split(","),
            self.micro_batch,
            common.device,
            common.json,
            common.quiet,
        )


@dataclass(frozen=True, kw_only=True)
class BenchDecideVerb(ComputingVerb):
    """Measure what a decision costs beside the policy's forward pass: embed, search, policy.

    Try:
      radt bench decide
      radt bench decide --threads 1
      radt bench decide --weights runs/dark-room-10x10/ra-dt-seed0
    """

    env: Annotated[Positional[str], arg(metavar="ENV")] = "dark-room-10x10"
    steps: int = 25  # decisions that are timed, once the window is full
    weights: Annotated[Path | None, arg(metavar="RUN", help_behavior_hint="")] = None
    """Trained weights whose incremental embedding is held against the windowed one (default: those
    that ship)."""
    out: Path = Path("runs/bench/decide.json")  # where the JSON goes

    def execute(self) -> None:
        """Measure and print the ratio last."""
        from radt.bench.decide import main

        common = self.common
        main(self.out, self.env, self.steps, common.device, common.json, common.quiet, self.weights)


@dataclass(frozen=True, kw_only=True)
class BenchDistributedVerb(ComputingVerb):
    """Compare two processes that train together with one, and two Ray nodes with one process.

    Try:
      radt bench distributed
      radt bench distributed --skip-ray --updates 100
    """

    env: Annotated[Positional[str], arg(metavar="ENV")] = "dark-room-10x10"
    method: str = "ra-dt"  # what is trained
    budget: Budget = "laptop"  # whose model and batch are taken
    updates: int = 30  # that are timed, after some to warm up
    skip_ray: bool = False  # leave out the Ray nodes
    out: Path = Path("runs/bench/distributed.json")  # where the JSON goes

    def execute(self) -> None:
        """Measure and print the ratio last."""
        from radt.bench.distributed import main

        main(
            self.out,
            self.env,
            self.method,
            self.budget,
            self.updates,
            not self.skip_ray,
            self.common.json,
            self.common.quiet,
        )


@dataclass(frozen=True, kw_only=True)
class BenchMemoryVerb(ComputingVerb):
    """Measure one read of a memory at several sizes: how long, how much is found, how much RAM.

    What is measured is written down at once: the same command goes on from what --out holds.

    Try:
      radt bench memory
      radt bench memory --sizes 10000,100000 --reads 200      minutes instead of an hour
    """

    sizes: str = "10000,100000,1000000,10000000"  # numbers of entries
    widths: Annotated[str | None, arg(help_behavior_hint="(default: the embedder's)")] = None
    """Widths of keys; wider ones are the real keys turned into more dimensions."""
    indexes: str = "flat,faiss-hnsw,faiss-ivf"  # which are read through
    reads: int = 1000  # reads that are timed, each with another query
    real: int = 1_000_000  # real chunk embeddings at most; beyond, real ones are moved a little
    data: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: Dark-Room)")] = (
        None
    )
    """The dataset whose chunks are embedded."""
    checkpoint: Annotated[Path | None, arg(help_behavior_hint="(default: shipped weights)")] = None
    """A run or checkpoint of your own, whose embedder makes the keys."""
    out: Path = Path("runs/bench/memory.json")  # where the JSON goes

    def execute(self) -> None:
        """Measure and print the ratio last."""
        from radt.bench.memory import Asked, main

        asked = Asked(
            sizes=whole_numbers("--sizes", self.sizes),
            widths=None if self.widths is None else whole_numbers("--widths", self.widths),
            indexes=self.indexes.split(","),
            reads=self.reads,
            real=self.real,
            data=self.data,
            checkpoint=self.checkpoint,
        )
        main(self.out, asked, self.common.json, self.common.quiet)


def whole_numbers(flag: str, text: str) -> list[int]:
    """Read numbers with commas between them."""
    from radt.experiments.run import RunError

    parts = [part.strip().replace("_", "") for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        raise RunError(f"{flag} must be whole numbers such as 10000,100000, not {text!r}")
    return [int(part) for part in parts]
