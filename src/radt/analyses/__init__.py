"""The analyses of the paper: what an agent looks at, where it goes, when it gets stuck, and why.

Each rolls out the trials of a run again, with an observer, and leaves a picture, the numbers behind
it and a verdict in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from radt.analyses.attention import STEPS, analyse_attention
from radt.analyses.delusions import analyse_delusions
from radt.analyses.retrieval import analyse_retrieval
from radt.analyses.shared import Finding, drawable, record_trials
from radt.analyses.visits import analyse_visits
from radt.methods import Method
from radt.runs.roll_out import Trials
from radt.track import Tracker

Agent = tuple[Method, Trials]  # and what it rolls out again


def look(
    analysis: str,
    agents: Sequence[Agent],
    path: Path,
    tracker: Tracker,
    steps: Sequence[int] = STEPS,
) -> Finding:
    """Roll out trials again and draw what is found; `steps` are those whose attention is drawn."""
    method, trials = agents[0]
    if analysis == "attention":
        return analyse_attention(method, trials, path, steps, tracker)
    if analysis == "retrieval":
        return analyse_retrieval(method, trials, path, tracker)
    for _, shown in agents:
        drawable(shown)  # an error before the work, not after it
    done = [record_trials(one, shown, tracker) for one, shown in agents]
    return analyse_visits(done[0], path) if analysis == "visits" else analyse_delusions(done, path)
