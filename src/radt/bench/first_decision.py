"""The first decision of a trial, by how many entries are in memory.

It is the one that sees what the trial before has stored. All entries are of the agent's own task,
so that none is passed over; agents take turns, so that a busy machine slows all of them. Where
every trial begins alike, its first query is the last trial's; elsewhere it is a new one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from radt.agent import Agent
from radt.bench.common import tracked
from radt.data import Dataset
from radt.errors import RunError
from radt.loading import Loaded
from radt.memory.memory import Memory
from radt.memory.store import NewEntries
from radt.trajectory import Trajectory

TRIALS = 30  # of each agent
MOST = 200_000  # entries: beyond, their chunks fill gigabytes
Keys = Callable[[int], Tensor]  # so many of them, [N, d]


def first_decisions(
    loaded: Loaded, dataset: Dataset, keys: Keys, sizes: Sequence[int], quiet: bool = True
) -> list[dict[str, Any]]:
    """Time first decisions with so many entries in memory, in milliseconds."""
    seen = dataset.trajectory(0)
    stored = replace(seen, task=0, rewards=np.ones_like(seen.rewards))  # no memory refuses it
    agents = {n: filled_agent(loaded, stored, keys(n)) for n in sizes if n <= MOST}
    took: dict[str, dict[int, list[float]]] = {
        name: {size: [] for size in agents} for name in ("p50_ms", "new_start_p50_ms")
    }
    starts = np.unique(stored.states, axis=0)
    turns = list(product(took, range(TRIALS)))
    for name, trial in tracked("first decision", turns, quiet):
        start = stored.states[0] if name == "p50_ms" else starts[trial % len(starts)]
        for size, agent in agents.items():
            memory_of(agent).write([stored])
            begun = time.perf_counter()
            agent.act(start)
            took[name][size].append(1000 * (time.perf_counter() - begun))
            agent.abandon()
    return [
        {"size": size, **{name: float(np.median(times[size])) for name, times in took.items()}}
        for size in agents
    ]


def filled_agent(loaded: Loaded, stored: Trajectory, keys: Tensor) -> Agent:
    """Build an agent that remembers entries of such keys, whose chunks are those of one trial."""
    agent = loaded.agent()
    memory = memory_of(agent)
    memory.write([stored])
    known = memory.contents()
    new = known.rows(torch.arange(len(keys)) % len(known))
    number = torch.arange(len(keys)) // len(known) + 1  # [N] the trial of each
    memory.add(NewEntries(replace(new.entries, episode=number, age=number), keys, new.chunks))
    return agent


def memory_of(agent: Agent) -> Memory:
    """Return an agent's memory."""
    if agent.memory is None:
        raise RunError(f"the method {agent.method.name} has no memory that could grow")
    return agent.memory
