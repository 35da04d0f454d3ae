"""From what environments of one task lived through to the learning history that is stored."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.data import History

LATE_EPISODES = 50


def one_history(
    task: int,
    states: NDArray[Any],
    actions: NDArray[Any],
    rewards: NDArray[np.float32],
    ends: NDArray[np.bool_],
) -> History:
    """Lay the episodes of a task's environments, [steps, envs, ...], one after the other.

    They stand in the order in which they end, and those that end together in the order of their
    environments. What is unfinished at the end comes last and belongs to no episode.
    """
    order = by_end(ends)

    def laid(values: NDArray[Any]) -> NDArray[Any]:
        return values.reshape(-1, *values.shape[2:])[order]

    last = np.flatnonzero(laid(ends))
    lengths = np.diff(last, prepend=-1).astype(np.int32)
    return History(task, laid(states), laid(actions), laid(rewards), lengths)


def by_end(ends: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Sort the steps of all environments [steps, envs] by when their episode ends."""
    time, env = np.indices(ends.shape)
    closing = np.where(ends, time, len(ends))  # [steps, envs]
    closing = np.minimum.accumulate(closing[::-1])[::-1]  # the end of the episode that runs
    return np.asarray(np.lexsort((time.ravel(), env.ravel(), closing.ravel())))


def episode_returns(history: History) -> NDArray[np.float64]:
    """Sum the rewards of each complete episode."""
    stops = np.cumsum(history.lengths)  # [E]
    totals = np.concatenate([[0.0], np.cumsum(history.rewards, dtype=np.float64)])
    return np.asarray(totals[stops] - totals[stops - history.lengths])


def late_return(
    returns: NDArray[np.floating[Any]], lengths: NDArray[np.integer[Any]], transitions: int
) -> float | None:
    """Average the last 50 of the episodes that end within the first `transitions` steps."""
    within = np.asarray(returns)[np.cumsum(lengths) <= transitions]
    return float(within[-LATE_EPISODES:].mean()) if len(within) else None
