"""A record of every retrieval of an evaluation, bounded, one JSON object a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.agent import Agent
from radt.trajectory import Verdict

MOST_LINES = 200_000


class Trace:
    """Writes what was searched, found, scored and chosen before each action of one task."""

    def __init__(self, path: Path, slot: int = 0, most: int = MOST_LINES) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8")
        self.slot, self.most, self.written = slot, most, 0

    def after_step(self, step: int, agent: Agent, obs: NDArray[Any], rewards: NDArray[Any]) -> None:
        """Write one line about the slot that is followed; stop silently at the bound."""
        retrieval, memory = agent.retrieval, agent.memory
        if retrieval is None or memory is None or self.written >= self.most:
            return
        asked = np.flatnonzero(agent.asked == self.slot)
        if not len(asked) or not agent.is_acting[self.slot]:
            return
        row = int(asked[0])
        present = (retrieval.ids[row] >= 0).nonzero().squeeze(1).tolist()
        entries = memory.entries
        candidates = [
            {
                "id": int(retrieval.ids[row, place]),
                "relevance": round(float(retrieval.relevance[row, place]), 6),
                "utility": float(retrieval.utility[row, place]),
                "score": round(float(retrieval.score[row, place]), 6),
                "verdict": Verdict(int(retrieval.verdict[row, place])).name.lower(),
                "trial": int(entries.age[retrieval.ids[row, place]]),
                "start": int(entries.start[retrieval.ids[row, place]]),
                "stop": int(entries.stop[retrieval.ids[row, place]]),
            }
            for place in present
        ]
        line = {
            "step": step,
            "trial": int(agent.trials.trial[self.slot]),
            "reward": float(rewards[self.slot]),
            "chosen": retrieval.chosen[row].tolist(),
            "candidates": candidates,
        }
        self._file.write(json.dumps(line) + "\n")
        self.written += 1

    def close(self) -> None:
        """Close the file."""
        self._file.close()
