"""What an agent did and why, step by step: the record behind the trace and the viewer.

A recorder looks at an agent after each step and keeps, per slot, columns of plain values: states,
actions, rewards, how likely each action was, what was searched and found, and what the policy
looked at in the chunks it holds. An agent that nobody watches pays nothing for it.

What the memory holds is also drawn as a map: keys are compared by their direction, so it shows the
two principal axes of their directions. A map that follows another one is turned, so that what was
known before stays where it was as far as possible.
"""

from __future__ import annotations

import base64
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes
from torch import Tensor

from radt.agent import Agent
from radt.memory.memory import Memory
from radt.memory.similarity import unit
from radt.methods.decision_cache import MovingWindow
from radt.model.attention_weights import looking
from radt.model.policy import DecisionTransformer
from radt.trajectory import Retrieval


@dataclass
class RecordedSteps:
    """Consecutive steps of one trial as columns of plain values."""

    trial: int  # from 0
    start: int  # the step of the first row
    states: list[Any] = field(default_factory=list)  # None for images
    actions: list[Any] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    probabilities: list[list[float] | None] = field(default_factory=list)  # of each discrete action
    attention: list[dict[str, Any] | None] = field(default_factory=list)  # see `packed`
    searches: list[dict[str, Any]] = field(default_factory=list)  # each with its step

    def __len__(self) -> int:
        return len(self.rewards)


class StepRecorder:
    """Looks at one agent; a context, because only inside it can attention be seen."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.parts = [RecordedSteps(trial=0, start=0) for _ in range(agent.slots)]
        self.entries: list[dict[str, list[Any]]] = [{} for _ in range(agent.slots)]
        self._maps: list[KeyMap | None] = [None] * agent.slots
        self._held: list[list[int]] = [[] for _ in range(agent.slots)]
        self._context = ExitStack()
        window = getattr(agent.actor, "window", None)
        self._window = window if isinstance(window, MovingWindow) else None
        self._looks: list[Tensor] = []  # [B, heads, L, M] of each layer

    def __enter__(self) -> StepRecorder:
        policy = self.agent.method.networks.get("policy")
        if isinstance(policy, DecisionTransformer):
            self._looks = self._context.enter_context(looking(policy))
        if self._window is not None:
            self._context.enter_context(self._window.read_anew())
        return self

    def __exit__(self, *error: object) -> None:
        self._context.close()

    def see(self, rewards: NDArray[Any]) -> None:
        """Take down the latest step, before the agent observes what it brought."""
        trials, looks = self.agent.trials, self._attention()
        probabilities = self.agent.action_probabilities
        for row, slot in enumerate(np.flatnonzero(self.agent.is_acting).tolist()):
            step = int(trials.step[slot])
            if step == 0:
                self._begin(slot)
            part = self.parts[slot]
            self._note_search(slot, step, part)
            state = trials.states[slot, step]
            part.states.append(None if state.ndim > 1 else rounded(state, 6))
            part.actions.append(rounded(self.agent.actions[slot]))
            part.rewards.append(float(rewards[slot]))
            part.probabilities.append(
                None if probabilities is None else rounded(probabilities[row])
            )
            part.attention.append(self._packed(slot, looks, row))

    def take(self, slot: int) -> RecordedSteps:
        """Hand over what was noted of a slot; what comes next goes on behind it."""
        taken = self.parts[slot]
        self.parts[slot] = RecordedSteps(taken.trial, taken.start + len(taken))
        return taken

    def _begin(self, slot: int) -> None:
        """Note what the memory of a slot holds as its trial begins."""
        self.parts[slot] = RecordedSteps(int(self.agent.trials.trial[slot]), start=0)
        self._held[slot] = []
        if (memory := self.agent.memory) is not None:
            self._maps[slot], self.entries[slot] = described_entries(memory, slot, self._maps[slot])

    def _note_search(self, slot: int, step: int, part: RecordedSteps) -> None:
        retrieval, asked = self.agent.retrieval, self.agent.query_slots
        if retrieval is None or slot not in asked:
            return
        row = int(np.flatnonzero(asked == slot)[0])
        query, key_map = getattr(self.agent.actor, "query", None), self._maps[slot]
        place = None
        if query is not None and key_map is not None:
            place = rounded(key_map.places(query[row : row + 1].cpu())[0])
        self._held[slot] = [entry for entry in retrieval.chosen[row].tolist() if entry >= 0]
        part.searches.append({"step": step, "query": place, **found_entries(retrieval, row)})

    def _attention(self) -> NDArray[np.float32] | None:
        """Return what the deciding tokens looked at, [layers, B, 1 + steps], and forget it."""
        looks, self._looks[:] = list(self._looks), []
        if not looks or looks[0].shape[3] == 1:  # nothing but the null chunk
            return None
        policy, window = self.agent.method.networks["policy"], self._window
        assert isinstance(policy, DecisionTransformer)  # only then there are looks
        trials, acting = self.agent.trials, np.flatnonzero(self.agent.is_acting)
        token = np.full(len(acting), policy.embed.per_step)  # a recurrent one decides by its last
        if window is not None:
            start = trials.window_start(acting, window.context_len, window.window_step)  # [B]
            token = (trials.step[acting] - start) * policy.embed.per_step + policy.embed.deciding
        layers = []
        for look in looks:  # the last layer decides alone: one token
            at = np.minimum(token, look.shape[2] - 1)
            weights = look[torch.arange(len(at)), :, torch.from_numpy(at)].mean(1)  # [B, M]
            steps = weights[:, 1:].unflatten(1, (-1, policy.embed.per_step)).sum(-1)
            layers.append(torch.cat([weights[:, :1], steps], dim=1))
        return np.asarray(torch.stack(layers).cpu().numpy())

    def _packed(
        self, slot: int, looks: NDArray[np.float32] | None, row: int
    ) -> dict[str, Any] | None:
        """Keep what was looked at in the chunks that a slot holds."""
        held, memory = self._held[slot], self.agent.memory
        if looks is None or not held or memory is None:
            return None
        room = memory.config.halves.chunk_len
        lengths = (memory.entries.stop - memory.entries.start)[held].tolist()
        behind = [chunk * room + np.arange(length) for chunk, length in enumerate(lengths)]
        return packed(looks[:, row, 1:][:, np.concatenate(behind)])


def packed(weights: NDArray[np.float32]) -> dict[str, Any]:
    """Pack weights [layers, steps] into bytes of 1/255 of the largest, as base64."""
    peak = float(weights.max(initial=0.0))
    levels = np.rint(weights * (255 / max(peak, 1e-9))).astype(np.uint8)
    text = base64.b64encode(levels.tobytes()).decode()
    return {"layers": len(weights), "peak": round(peak, 4), "bytes": text}


def found_entries(retrieval: Retrieval, row: int) -> dict[str, list[Any]]:
    """Describe as columns what one search found, by falling relevance, and what was chosen."""
    present = retrieval.ids[row] >= 0
    score = retrieval.score[row][present].tolist()
    return {
        "ids": retrieval.ids[row][present].tolist(),
        "relevance": rounded(retrieval.relevance[row][present].numpy()),
        "utility": rounded(retrieval.utility[row][present].numpy()),
        "score": [round(value, 4) if np.isfinite(value) else None for value in score],
        "verdict": retrieval.verdict[row][present].tolist(),
        "chosen": [entry for entry in retrieval.chosen[row].tolist() if entry >= 0],
    }


def described_entries(
    memory: Memory, slot: int, before: KeyMap | None
) -> tuple[KeyMap, dict[str, Any]]:
    """Describe a slot's entries as columns and draw their map, turned as the one before."""
    with memory.lock:
        ids = (memory.entries.task == slot).nonzero().squeeze(1)  # [n]
        entries, keys = memory.entries.rows(ids), memory.keys[ids]
    key_map = fit_map(keys)
    if before is not None and len(ids):
        key_map = key_map.turned_to(before, keys)
    x, y = key_map.places(keys).T if len(ids) else ([], [])
    columns: dict[str, Any] = {
        "ids": ids.tolist(),
        "trial": entries.age.tolist(),
        "position": entries.position.tolist(),
        "start": entries.start.tolist(),
        "stop": entries.stop.tolist(),
        "return": rounded(entries.total_return.numpy()),
        "without_loops": memory.config.loop_erased,  # then steps are those of the loop-erased trial
        "x": rounded(np.asarray(x)),
        "y": rounded(np.asarray(y)),
    }
    return key_map, columns


def rounded(values: Any, digits: int = 4) -> Any:
    """Turn numbers into plain ones of a few digits."""
    array = np.asarray(values)
    return (
        array.tolist() if array.dtype.kind in "iub" else array.astype(float).round(digits).tolist()
    )


@dataclass(frozen=True)
class KeyMap:
    """Two axes through the middle of some keys."""

    middle: NDArray[np.float64]  # [d]
    axes: NDArray[np.float64]  # [d, 2]

    def places(self, vectors: Tensor) -> NDArray[np.float64]:
        """Project keys or queries, [N, d] -> [N, 2]."""
        return np.asarray((_directions(vectors) - self.middle) @ self.axes)

    def turned_to(self, other: KeyMap, keys: Tensor) -> KeyMap:
        """Turn or mirror the axes so that keys [N, d] lie as they do in the other map."""
        ours, theirs = self.places(keys), other.places(keys)
        if not ours.any() or not theirs.any():
            return self
        turn, _ = orthogonal_procrustes(ours, theirs - theirs.mean(axis=0))
        return KeyMap(self.middle, self.axes @ turn)


def fit_map(keys: Tensor) -> KeyMap:
    """Find the two directions in which keys [N, d] differ most."""
    axes = np.zeros((keys.shape[1], 2))
    if not len(keys):
        return KeyMap(axes[:, 0], axes)
    directions = _directions(keys)  # [N, d]
    middle = directions.mean(axis=0)
    _, _, principal = np.linalg.svd(directions - middle, full_matrices=False)
    found = principal[:2].T  # [d, <=2]
    largest = np.abs(found).argmax(axis=0)
    signs = np.where(found[largest, np.arange(found.shape[1])] < 0, -1.0, 1.0)
    axes[:, : found.shape[1]] = found * signs  # a decomposition leaves the sign open
    return KeyMap(middle, axes)


def _directions(vectors: Tensor) -> NDArray[np.float64]:
    return np.asarray(unit(torch.as_tensor(vectors)).numpy())
