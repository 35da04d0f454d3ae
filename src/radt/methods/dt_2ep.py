"""Decision Transformer with two episodes of context, as the paper runs it on grid-worlds.

The input is Algorithm Distillation's, with returns-to-go: the episode just before the current one,
whose returns are those it turned out to have, and the current one, aiming at its target.
"""

from __future__ import annotations

from dataclasses import dataclass

from radt.memory.embed import Embedder
from radt.methods.ad import AD, EpisodePairOptions
from radt.methods.method import METHODS, MethodEntry
from radt.spaces import TaskSpaces


@dataclass(frozen=True)
class DT2EpOptions(EpisodePairOptions):
    """What can be chosen about a Decision Transformer with two episodes; K is 1."""


def build(spaces: TaskSpaces, options: DT2EpOptions, seed: int, embedder: Embedder | None) -> AD:
    """Build the method as the registry asks for it."""
    return AD(spaces, options, seed, name="dt-2ep")


METHODS.register("dt-2ep", MethodEntry(DT2EpOptions, build))
