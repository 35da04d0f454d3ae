"""External memory for decision-making agents: the Retrieval-Augmented Decision Transformer.

    config = radt.preset("dark-room-10x10", "ra-dt+", "laptop")
    radt.collect(config)
    radt.train(config, "runs/x")
    radt.evaluate(config, "runs/x")
    agent = radt.load("runs/x").agent()

Importing radt registers its environments with Gymnasium and loads nothing heavy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import radt.envs  # registers the environments  # noqa: F401

if TYPE_CHECKING:
    from radt.agent import Agent
    from radt.api import collect, evaluate, preset, run, train
    from radt.config import RunConfig
    from radt.errors import RadtError
    from radt.loading import Loaded, load, shipped

_HOMES = {
    "Agent": "radt.agent",
    "Loaded": "radt.loading",
    "RadtError": "radt.errors",
    "RunConfig": "radt.config",
    "collect": "radt.collect",  # the subpackage, which can be called
    "evaluate": "radt.api",
    "load": "radt.loading",
    "preset": "radt.api",
    "run": "radt.api",
    "shipped": "radt.loading",
    "train": "radt.api",
}

__all__ = [
    "Agent",
    "Loaded",
    "RadtError",
    "RunConfig",
    "collect",
    "evaluate",
    "load",
    "preset",
    "run",
    "shipped",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for the first time it is."""
    if name == "__version__":
        return importlib.import_module("radt.version").released()
    if name not in _HOMES:
        raise AttributeError(f"module 'radt' has no attribute {name!r}")
    home = importlib.import_module(_HOMES[name])
    return home if name == "collect" else getattr(home, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
