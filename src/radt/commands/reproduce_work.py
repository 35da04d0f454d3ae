"""The work behind `radt reproduce`: finish what is missing of an experiment, ask, and write."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
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
    runs_of,
    state_of,
    verdict_of,
    weights_at,
    write_result,
)
from radt.experiments.tuning import is_among, note_try, tries_on_record
from radt.runs.compare import Comparison, Entry, State, entry
from radt.runs.compare import state_of as run_state
from radt.runs.run import RESULT

TO_DO: tuple[State, ...] = ("finished", "interrupted", "missing")


@dataclass(frozen=True)
class Choice:
    """Which runs of an experiment are wanted now; no names: all."""

    again: bool = False  # what is published with older values, too
    rows: frozenset[str] = frozenset()
    envs: frozenset[str] = frozenset()

    def wants(self, one: Entry) -> bool:
        """Tell whether a run is to be done now."""
        named = (self.rows, one.config.label), (self.envs, one.config.env)
        left = one.state in TO_DO or (self.again and one.state == "changed")
        return left and all(not names or name in names for names, name in named)


@dataclass(frozen=True)
class Worker:
    """Who does the work, and how it is told."""

    where: Where
    common: Common
    engine: Engine | None = None
    choice: Choice = Choice()
    failed: dict[str, str] = field(default_factory=dict)  # why, by run

    def reproduce(self, experiment: Experiment) -> dict[str, Any]:
        """Run what is missing, ask what is asked, and write the result."""
        fresh = self._finish(experiment) if experiment.measurement is None else set()
        for answer in answers_of(experiment, self.where):
            if not answer.file.exists() or any(map(self._is_outdated, answer.places)):
                self._ask(experiment, answer)
        result = write_result(experiment, self.where)
        for name in EXPERIMENTS.names():  # new weights may not be there tomorrow
            if fresh and experiment.name in EXPERIMENTS[name].weights_of:
                self._ask_anew(EXPERIMENTS[name], fresh)
        return result

    def draw(self, experiment: Experiment) -> dict[str, Any]:
        """Run nothing; draw what is published, and write the result."""
        if experiment.kind == "compare" and not experiment.ablates:
            drawn = {one.published: one for one in comparisons(experiment, self.where)}
            for folder, comparison in drawn.items():
                if any(folder.glob(f"*-seed*/{RESULT}")):
                    write_table(comparison)
        return write_result(experiment, self.where)

    def _finish(self, experiment: Experiment) -> set[Path]:
        """Finish the runs of an experiment, and return where the new ones are published."""
        runs, fresh = runs_of(experiment, self.where, planned=True), set[Path]()
        if experiment.kind == "tune":
            for _, one in runs:  # that a process which was killed in between has finished
                self._note_try(one)
            self._run([(comparison, one) for comparison, one in runs if self.choice.wants(one)])
            return fresh
        folders: dict[Path, list[tuple[Comparison, Entry]]] = {}
        for comparison, one in runs:
            if self.choice.wants(one):
                folders.setdefault(comparison.published, []).append((comparison, one))
        for missing in folders.values():
            fresh |= self._run(missing)
            if experiment.kind == "compare" and not experiment.ablates and fresh:
                write_table(missing[0][0])
        return fresh

    def _is_outdated(self, place: Place) -> bool:
        """Tell whether the weights of a place are to be trained again before they are asked."""
        return self.choice.again and entry(*place, 0, False, planned=False).state == "changed"

    def _note_try(self, one: Entry) -> None:
        """Put a try on record, unless it is."""
        results = self.where.results
        is_there = run_state(one.config, one.out, one.published, strict=False) == "published"
        if one.config.split != "tune" or not is_there:
            return
        if not is_among(tries_on_record(results), one.config):
            note_try(results, json.loads((one.published / RESULT).read_text()))

    def _run(self, missing: Sequence[tuple[Comparison, Entry]]) -> set[Path]:
        """Finish runs, side by side where there are workers; each try is noted when it ends."""
        fresh: set[Path] = set()

        def finished(one: Entry) -> None:
            fresh.add(one.published)
            self._note_try(one)

        self.failed.update(work(missing, self.common, self.engine, finished).failed)
        return fresh

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
        experiment.measurement.ask(self._asked(experiment, answer), answer.file)

    def _asked(self, experiment: Experiment, answer: Answer) -> Sequence[Any]:
        """Get ready what is asked: configs whose speed is measured, data, or weights."""
        configs = [config_at(place) for place in answer.places]
        if experiment.kind == "bench":
            return configs
        if experiment.kind != "data":
            return self._weights(answer)
        quiet = self.common.quiet or self.common.json
        return [collect(one, self.common.workers, quiet, self.engine) for one in configs]

    def _weights(self, answer: Answer) -> list[Any]:
        """Find weights; those of runs that were never made are trained first."""
        for place in answer.places:
            comparison, row = place
            if weights_at(place) is not None and not self._is_outdated(place):
                continue
            one = entry(comparison, row, 0, strict=False)
            if not self.choice.wants(one):
                raise RunError(
                    f"the weights of {one.published} are not kept, only its record; delete that "
                    "folder to train it again (--again does it where its values have changed "
                    "since), or give the --out where it was trained"
                )
            self._run([(comparison, one)])
            if weights_at(place) is None or self._is_outdated(place):
                raise RunError(f"{row.label} on {comparison.env} could not be trained, see above")
        return [weights_at(place) for place in answer.places]


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


def planned(
    experiments: Sequence[Experiment], where: Where, choice: Choice
) -> tuple[dict[str, Any], Table]:
    """Say what is left of experiments, how long it takes and how much it writes."""
    table = plain_columns(["experiment", "state"], ["runs to do", "time", "disk"], "runs")
    plans = []
    for one in experiments:
        runs = still_needed(one, where, choice.again)
        left = [run for run in runs if choice.wants(run[1])]
        hours, megabytes = cost(left)
        states = Counter(run.state for _, run in runs)
        state = state_of(one, where)
        counts = ", ".join(f"{count} {name}" for name, count in states.items()) or "none"
        table.add_row(
            one.name, state, str(len(left)), duration(60 * hours), f"{megabytes:.1f} MB", counts
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


def still_needed(
    one: Experiment, where: Where, again: bool = False
) -> list[tuple[Comparison, Entry]]:
    """Return the runs of an experiment; of what trains nothing, those that it lacks."""
    runs = runs_of(one, where, planned=True)
    if one.measurement is None:
        return runs
    old = {run.published for _, run in runs if again and run.state == "changed"}
    answers = answers_of(one, where)
    places = [at for each in answers if not each.file.exists() for at in each.places]
    if one.kind == "data":  # which are collected and not trained on
        looked = [entry(each, row, 0, strict=False) for each, row in places]
        only = [[phase for phase in run.phases if phase.name == "collect"] for run in looked]
        both = zip(places, looked, only, strict=True)
        return [(at[0], replace(run, phases=tuple(p), minutes=0.0)) for at, run, p in both]
    gone = {at.published / f"{row.label}-seed0" for at, row in places if not weights_at((at, row))}
    return [(each, run) for each, run in runs if run.published in gone | old]
