"""Speed as a ratio to something real, measured on the user's machine: `radt bench`.

Here are the arguments of each benchmark, written once: the command line reads them, and the
function `bench_<name>` in the module of that name takes them. `TABLE` there names what is shown of
its record as a table: which list, and which columns of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

OUT = Path("runs/bench")


@dataclass(frozen=True)
class Resources:
    """What every benchmark is run with."""

    device: str = "cpu"  # where networks compute
    workers: int = 2  # processes of each side that collects
    quiet: bool = True  # draw no bars


USUAL = Resources()


@dataclass(frozen=True, kw_only=True)
class CollectArguments:
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
    out: Path = OUT / "collect.json"  # where the JSON goes


@dataclass(frozen=True, kw_only=True)
class TrainArguments:
    """Measure sequences and action targets per second of every method at the paper's sizes.

    Try:
      radt bench train
      radt bench train --envs dark-room-10x10 --methods ad,ra-dt      the smallest room only
    """

    envs: str = "dark-room-10x10,dark-room-20x20,dark-room-40x20"  # the last one's ratio counts
    methods: Annotated[str | None, arg(help_behavior_hint="(default: all that learn)")] = None
    """Names with commas between them; ra-dt and ad must be among them."""
    micro_batch: int = 4  # sequences that go forward and backward together
    out: Path = OUT / "train.json"  # where the JSON goes


@dataclass(frozen=True, kw_only=True)
class DecideArguments:
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
    out: Path = OUT / "decide.json"  # where the JSON goes


@dataclass(frozen=True, kw_only=True)
class EnvsArguments:
    """Measure steps a second of Meta-World and DMControl, beside `metaworld` and `dm_control`.

    An original that is not installed is left out, and the record says so.

    Try:
      radt bench envs
      radt bench envs --tasks reach,walker-walk --steps 500      seconds instead of minutes
    """

    tasks: Annotated[str | None, arg(help_behavior_hint="(default: all 66)")] = None
    """Names of tasks, with commas between them."""
    steps: int = 2000  # that are timed, of all environments together
    num_envs: int = 16  # environments of the pool
    out: Path = OUT / "envs.json"  # where the JSON goes


@dataclass(frozen=True, kw_only=True)
class MemoryArguments:
    """Measure one read of a memory at several sizes: how long, how much is found, how much RAM.

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
    out: Path = OUT / "memory.json"  # where the JSON goes
