"""The verbs that measure speed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from radt.commands.flags import ComputingVerb


@dataclass(frozen=True, kw_only=True)
class BenchCollectVerb(ComputingVerb):
    """Compare the speed of `radt collect` with stable-baselines3's PPO, and how well both learn.

    Try:
      radt bench collect
      radt bench collect --rollouts 5 --skip-returns      a minute instead of many
    """

    env: Annotated[Positional[str], arg(metavar="ENV")] = "dark-room-10x10"
    rollouts: Annotated[int | None, arg(help_behavior_hint="(default: all)")] = None
    """Rollouts of each task that we collect."""
    sb3_rollouts: int = 5  # rollouts that stable-baselines3 is timed over without returns
    skip_returns: bool = False  # do not train stable-baselines3 to the end to compare returns
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
    """

    env: Annotated[Positional[str], arg(metavar="ENV")] = "dark-room-10x10"
    steps: int = 25  # decisions that are timed, once the window is full
    out: Path = Path("runs/bench/decide.json")  # where the JSON goes

    def execute(self) -> None:
        """Measure and print the ratio last."""
        from radt.bench.decide import main

        common = self.common
        main(self.out, self.env, self.steps, common.device, common.json, common.quiet)
