"""What is retrieved: the columns are those of the agent's own searches."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from radt.agent import Agent
from radt.analyses.retrieval import SearchKeeper, analyse_retrieval
from radt.analyses.shared import record_trials
from radt.runs.run import RunError
from radt.trajectory import Verdict
from tests.analyses.made_up import TASKS, toy_trials
from tests.contracts.method import CONTEXT, build_method
from tests.toys import TOY_GRID


class Plain:
    """Keeps the same facts of every chosen chunk as the trace would write them."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, int, float, float, float]] = []

    def after_step(self, step: int, agent: Agent, obs: NDArray[Any], rewards: NDArray[Any]) -> None:
        retrieval, memory = agent.retrieval, agent.memory
        if retrieval is None or memory is None:
            return
        for row, slot in enumerate(agent.query_slots.tolist()):
            places = (retrieval.verdict[row] == Verdict.CHOSEN).nonzero().flatten().tolist()
            if agent.is_acting[slot] and agent.trials.step[slot] % 7 == 0 and places:
                entry = int(retrieval.ids[row, places[0]])
                entries, now = memory.entries, int(agent.trials.trial[slot])
                relevance = float(retrieval.relevance[row, places[0]])
                earned, age = float(entries.total_return[entry]), int(entries.age[entry])
                self.lines.append((agent.tasks[slot], now, relevance, earned, now - age))


def test_the_columns_are_those_of_the_agents_own_searches() -> None:
    keeper, twin = SearchKeeper(CONTEXT, trials=4), Plain()
    rolled = record_trials(
        build_method("ra-dt", TOY_GRID.spaces), toy_trials(4), None, keeper, twin
    )
    found = keeper.searches()
    assert len(found) == 2 * 3 * 2  # tasks, trials with a memory, steps 0 and 7
    names = ("task", "trial", "relevance", "earned", "ago")
    kept = np.stack([getattr(found, name) for name in names], axis=1)
    np.testing.assert_allclose(kept, np.array(twin.lines), rtol=1e-6)
    assert found.own.tolist() == [1.0] * len(found)
    assert (found.found_relevance <= 1 + 1e-6).all()
    best = [rolled.returns[TASKS.index(t), :n].max() for t, n in zip(found.task, found.trial)]  # noqa: B905
    np.testing.assert_allclose(found.best_earned, best)
    assert np.isnan(found.by_trial("earned", 4)[0])
    first = found.earned[found.trial == 1].mean()
    assert found.by_trial("earned", 4)[1] == pytest.approx(first)


def test_alone_one_finds_only_oneself(tmp_path: Path) -> None:
    trials = replace(toy_trials(3), tasks=TASKS[:1])
    method = build_method("ra-dt", TOY_GRID.spaces)
    finding = analyse_retrieval(method, trials, tmp_path / "retrieval.png")
    numbers = json.loads(finding.write().read_text())
    assert numbers["own_if_free"]["mean"] == 1.0
    assert numbers["chance_of_own_task"] == 1.0
    assert numbers["by_trial"]["own"][0] is None
    assert finding.picture.stat().st_size > 5000
    assert "retrieves from its own task in 100%" in finding.verdict


def test_nothing_retrieved_is_said(tmp_path: Path) -> None:
    method = build_method("ra-dt", TOY_GRID.spaces)
    with pytest.raises(RunError, match="nothing was retrieved"):
        analyse_retrieval(method, toy_trials(1), tmp_path / "a.png")
