"""A record of every retrieval of an evaluation, bounded, one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from radt.agent import Agent
from radt.memory.entries import Entries
from radt.trajectory import Retrieval, Verdict

MOST_LINES = 200_000


class Trace:
    """Writes what was searched, found, scored and chosen before each action."""

    def __init__(self, path: Path, most: int = MOST_LINES) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8")
        self.most, self.written = most, 0

    def after_step(self, step: int, agent: Agent, obs: NDArray[Any], rewards: NDArray[Any]) -> None:
        """Write a line for every slot that searched; the last line says so where it was cut."""
        retrieval, memory = agent.retrieval, agent.memory
        if retrieval is None or memory is None:
            return
        for row, slot in enumerate(agent.asked.tolist()):
            if not agent.is_acting[slot] or self.written > self.most:
                continue
            if self.written == self.most:
                self._write({"cut": f"only the first {self.most} searches are kept"})
                continue
            self._write(
                {
                    "step": step,
                    "slot": slot,
                    "task": agent.keys[slot],
                    "trial": int(agent.trials.trial[slot]),
                    "reward": float(rewards[slot]),
                    "chosen": retrieval.chosen[row].tolist(),
                    "candidates": _candidates(retrieval, row, memory.entries),
                }
            )

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self.written += 1

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@contextmanager
def tracing(path: Path | None) -> Iterator[Trace | None]:
    """Write a trace to a file while inside, or none."""
    trace = None if path is None else Trace(path)
    try:
        yield trace
    finally:
        if trace is not None:
            trace.close()


def _candidates(retrieval: Retrieval, row: int, entries: Entries) -> list[dict[str, Any]]:
    """Describe what one search found, by falling relevance."""
    present = (retrieval.ids[row] >= 0).nonzero().squeeze(1).tolist()
    ids = [int(retrieval.ids[row, place]) for place in present]
    return [
        {
            "id": entry,
            "relevance": round(float(retrieval.relevance[row, place]), 6),
            "utility": float(retrieval.utility[row, place]),
            "score": round(float(retrieval.score[row, place]), 6),
            "verdict": Verdict(int(retrieval.verdict[row, place])).name.lower(),
            "trial": int(entries.age[entry]),
            "start": int(entries.start[entry]),
            "stop": int(entries.stop[entry]),
        }
        for place, entry in zip(present, ids, strict=True)
    ]
