"""The work behind `radt reproduce`: finish what is missing of an experiment, ask, and write."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from radt.api import collect
from radt.commands.compare_work import work, write_table
from radt.commands.flags import Common, duration, plain_columns, say
from radt.engine import Engine
from radt.errors import RadtError, RunError
from radt.experiments import EXPERIMENTS, Experiment
from radt.experiments.reproduce import (
    Answer,
    Place,
    Where,
    answers_of,
    comparisons,
    config_at,
    cost,
    missing_weights,
    runs_of,
    state_of,
    verdict_of,
    weights_at,
    write_result,
)
from radt.experiments.tuning import note_try, tried
from radt.runs.compare import Comparison, Entry, State, entry
from radt.runs.run import RESULT

TO_DO: tuple[State, ...] = ("finished", "interrupted", "missing")


@dataclass(frozen=True)
class Worker:
    """Who does the work, and how it is told."""

    where: Where
    common: Common
    engine: Engine | None = None
    failed: dict[str, str] = field(default_factory=dict)  # why, by run

    def reproduce(self, experiment: Experiment) -> dict[str, Any]:
        """Run what is missing, ask what is asked, and write the result."""
        fresh = self._finish(experiment) if experiment.measurement is None else set()
        for answer in answers_of(experiment, self.where):
            if not answer.file.exists():
                self._ask(experiment, answer)
        result = write_result(experiment, self.where)
        for name in EXPERIMENTS.names():  # new weights may not be there tomorrow
            if fresh and experiment.name in EXPERIMENTS[name].weights_of:
                self._ask_anew(EXPERIMENTS[name], fresh)
        return result

    def draw(self, experiment: Experiment) -> dict[str, Any]:
        """Run nothing; draw what is published, and write the result."""
        if experiment.kind == "compare":
            drawn = {one.published: one for one in comparisons(experiment, self.where)}
            for folder, comparison in drawn.items():
                if any(folder.glob(f"*-seed*/{RESULT}")):
                    write_table(comparison)
        return write_result(experiment, self.where)

    def _finish(self, experiment: Experiment) -> set[Path]:
        """Finish the runs of an experiment, and return where the new ones are published."""
        todo: dict[Path, tuple[Comparison, list[Entry]]] = {}
        for comparison, one in runs_of(experiment, self.where):
            if one.state in TO_DO:
                todo.setdefault(comparison.published, (comparison, []))[1].append(one)
        fresh: set[Path] = set()
        if experiment.kind == "tune":
            self._tune(experiment, todo.values())
            return fresh
        for comparison, missing in todo.values():
            fresh |= self._run(comparison, missing)
            if experiment.kind == "compare" and fresh:
                write_table(comparison)
        return fresh

    def _tune(
        self, experiment: Experiment, todo: Iterable[tuple[Comparison, Sequence[Entry]]]
    ) -> None:
        """Try what was not tried yet; each score is on record before the next run begins."""
        self._note_tries(experiment)  # of a process that was killed in between
        for comparison, missing in todo:
            for one in missing:
                self._run(comparison, [one])
                self._note_tries(experiment)

    def _note_tries(self, experiment: Experiment) -> None:
        for _, one in runs_of(experiment, self.where):
            file = one.published / RESULT
            if file.exists() and not tried(self.where.results, one.config):
                note_try(self.where.results, json.loads(file.read_text()))

    def _run(self, comparison: Comparison, missing: Sequence[Entry]) -> set[Path]:
        news = work(comparison, missing, self.common, self.engine)
        self.failed.update(news.failed)
        return {one.published for one in missing if one.name in news.finished}

    def _ask_anew(self, experiment: Experiment, fresh: set[Path]) -> None:
        """Ask again what new weights answer anew, where all that it needs is kept."""
        asked = [
            answer
            for answer in answers_of(experiment, self.where)
            if any(one.published / f"{row.label}-seed0" in fresh for one, row in answer.places)
            and all(weights_at(place) for place in answer.places)
        ]
        for answer in asked:
            self._ask(experiment, answer)
        if asked:
            write_result(experiment, self.where)

    def _ask(self, experiment: Experiment, answer: Answer) -> None:
        """Ask something of weights or data, and let its file be written."""
        if experiment.measurement is None:
            return
        if not (self.common.quiet or self.common.json):
            say(f"{experiment.name}: {answer.file.stem}")
        answer.file.parent.mkdir(parents=True, exist_ok=True)
        asked = self._data(answer) if experiment.kind == "data" else self._weights(answer)
        experiment.measurement.ask(asked, answer.file)

    def _data(self, answer: Answer) -> list[Path]:
        quiet = self.common.quiet or self.common.json
        configs = [config_at(place) for place in answer.places]
        return [collect(one, self.common.workers, quiet, self.engine) for one in configs]

    def _weights(self, answer: Answer) -> list[Any]:
        """Find weights; those of runs that were never made are trained first."""
        for place in answer.places:
            comparison, row = place
            if weights_at(place) is not None:
                continue
            one = entry(comparison, row, 0, strict=False)
            if one.state not in TO_DO:
                raise missing_weights(place)
            self._run(comparison, [one])
        return [_kept(place) for place in answer.places]


def _kept(place: Place) -> Any:
    weights = weights_at(place)
    if weights is None:
        raise RunError(f"{place[1].label} on {place[0].env} could not be trained, see above")
    return weights


def listed(where: Where) -> tuple[dict[str, Any], Table]:
    """List all experiments with how far they have come."""
    table = plain_columns(["experiment", "claim", "state", "verdict"], where="the paper")
    values = []
    for name in EXPERIMENTS.names():
        one = EXPERIMENTS[name]
        verdict = verdict_of(one, where)
        try:
            state: str = state_of(one, where)
        except RadtError as error:  # of one that somebody else has added
            state = f"cannot be run: {error}"
        word = None if verdict is None or not one.claims else verdict.word
        table.add_row(name, one.claim or "-", state, word or "-", one.paper)
        values.append(
            {
                "entry": name,
                "kind": one.kind,
                "claim": one.claim,
                "paper": one.paper,
                "state": state,
                "verdict": word,
            }
        )
    return {"experiments": values}, table


def planned(experiments: Sequence[Experiment], where: Where) -> tuple[dict[str, Any], Table]:
    """Say what is left of experiments, how long it takes and how much it writes."""
    table = plain_columns(["experiment", "state"], ["runs to do", "time", "disk"], "runs")
    plans = []
    for one in experiments:
        runs = still_needed(one, where)
        hours, megabytes = cost(runs)
        states = Counter(run.state for _, run in runs)
        todo = sum(states[state] for state in TO_DO)
        state = state_of(one, where)
        counts = ", ".join(f"{count} {name}" for name, count in states.items()) or "none"
        table.add_row(
            one.name, state, str(todo), duration(60 * hours), f"{megabytes:.1f} MB", counts
        )
        plans.append(
            {
                "entry": one.name,
                "state": state,
                "runs": dict(states),
                "hours": hours,
                "megabytes": megabytes,
            }
        )
    return {"budget": where.budget, "plan": plans}, table


def still_needed(one: Experiment, where: Where) -> list[tuple[Comparison, Entry]]:
    """Return the runs of an experiment; of what trains nothing, those that it lacks."""
    runs = runs_of(one, where)
    if one.measurement is None:
        return runs
    asked = [answer for answer in answers_of(one, where) if not answer.file.exists()]
    places = [place for answer in asked for place in answer.places]
    if one.kind == "data":  # which are collected and not trained on
        looked = [entry(each, row, 0, strict=False) for each, row in places]
        only = [[phase for phase in run.phases if phase.name == "collect"] for run in looked]
        both = zip(places, looked, only, strict=True)
        return [(at[0], replace(run, phases=tuple(p), minutes=0.0)) for at, run, p in both]
    gone = {at.published / f"{row.label}-seed0" for at, row in places if not weights_at((at, row))}
    return [(each, run) for each, run in runs if run.published in gone]
