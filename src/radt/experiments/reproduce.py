"""How far an experiment has come, what is left of it, and what it leaves: `result.json`.

Runs live once, in `RESULTS/<env>/<label>-seed<k>`, as `radt compare` publishes them; several
experiments may use them. What is an experiment's own lies in `RESULTS/<entry>`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from radt.config import Budget, RunConfig
from radt.decode import DecodeError, read_json
from radt.experiments.experiment import (
    WORDS,
    Experiment,
    ExperimentError,
    Row,
    Study,
    Verdict,
    Weights,
    summed_up,
)
from radt.experiments.page import page
from radt.experiments.rows import rows_of
from radt.experiments.tuning import TUNE, is_among, rows_tried, tries_of, tries_on_record
from radt.files import atomic_write
from radt.loading import WEIGHTS as SHIPPED
from radt.plots.curves import icl_pictures
from radt.plots.icl_json import read_record
from radt.runs.compare import Comparison, Entry, entry, hours, to_collect
from radt.runs.run import CHECKPOINT, RESULT
from radt.variants import Variant
from radt.version import code_version

SHIPPED_ROW = ("ra-dt+", "laptop")  # label and budget
ABLATIONS = "ablations"  # where arms are kept that stand in no environment's table
ANSWER = "result.json"
PAGE = "result.md"
State = Literal["never run", "partly", "published", "config changed since"]
Place = tuple[Comparison, Variant]  # a run of seed 0: what it is compared in, and its row


@dataclass(frozen=True)
class Where:
    """At which budget, with how many seeds and in which folders."""

    budget: Budget = "laptop"
    seeds: int | None = None  # None: as many as the experiment says
    out: Path = Path("runs")
    results: Path = Path("results")


@dataclass(frozen=True)
class Answer:
    """What is asked of some weights or data at once, and the file of what comes out."""

    file: Path
    places: tuple[Place, ...]
    wall_minutes: float | None


def comparison_of(study: Study, where: Where) -> Comparison:
    """Say which runs a study is."""
    study, tunes = study.at(where.budget), TUNE in study.sets
    beside = ABLATIONS if study.apart else ""
    further = {"rules": study.rules, "controls": study.controls}
    return Comparison(
        env=study.env,
        methods=study.rows,
        seeds=where.seeds or study.seeds,
        budget=where.budget,
        sets=(*study.sets, *(f"evaluate.{n}={json.dumps(v)}" for n, v in further.items())),
        out=where.out / "tune" / fold_of(study) if tunes else where.out / beside,
        results=where.out / "tuned" / fold_of(study) if tunes else where.results / beside,
        wall_minutes=study.wall_minutes,
    )


def fold_of(study: Study) -> str:
    """Name the fold of a tuning study, as a folder."""
    said = [text.replace("=", "") for text in study.sets if text.startswith("fold=")]
    return said[-1] if said else "last-fold"


def studies_of(experiment: Experiment, where: Where) -> tuple[Study, ...]:
    """Return the studies of an experiment; of a tuning study a smoke test tries the first only."""
    once = where.budget == "smoke" and experiment.kind == "tune"
    return experiment.studies[:1] if once else experiment.studies


def comparisons(experiment: Experiment, where: Where) -> list[Comparison]:
    """List the runs of an experiment, study by study."""
    if where.budget not in experiment.budgets:
        known = ", ".join(experiment.budgets)
        raise ExperimentError(f"{experiment.name} has no budget {where.budget}; it has {known}")
    return [comparison_of(study, where) for study in studies_of(experiment, where)]


def runs_of(
    experiment: Experiment, where: Where, planned: bool = False
) -> list[tuple[Comparison, Entry]]:
    """Look at every run of an experiment, each once; of what reuses weights, those that are used.

    Tuning and ablations know no references, a try that is on record is not made again, and a run
    that lacks something here is left out. Only if `planned` they say what is left to do.
    """
    found: dict[Path, tuple[Comparison, Entry]] = {}
    if experiment.kind == "bench":
        return []
    on_record = tries_on_record(where.results) if experiment.kind == "tune" else None
    for study, comparison in zip(
        studies_of(experiment, where), comparisons(experiment, where), strict=True
    ):
        for row, seed in comparison.names():
            refers = experiment.kind == "compare" and not experiment.ablates
            if not refers and row not in study.at(where.budget).variants:
                continue
            one = entry(comparison, row, seed, strict=False, planned=planned)
            if on_record is not None and is_among(on_record, one.config):
                one = replace(one, state="published", phases=(), minutes=0.0)
            if one.state == "missing" and experiment.missing(one.config):
                continue
            found.setdefault(one.published, (comparison, one))
    return list(found.values())


def skipped(experiment: Experiment, where: Where) -> dict[str, str]:
    """Say which rows cannot be made here, and why."""
    configs = [
        config_at((comparison, row))
        for comparison in comparisons(experiment, where)
        for row in comparison.rows
        if not (comparison.published / f"{row.label}-seed0" / RESULT).exists()
    ]
    return {one.label: why for one in configs if (why := experiment.missing(one))}


def answers_of(experiment: Experiment, where: Where) -> list[Answer]:
    """List what is asked of weights or data, each with its file."""
    if experiment.measurement is None:
        return []
    folder = where.results / experiment.name
    places = [
        (comparison_of(study, where), row)
        for study in experiment.studies
        for row in study.at(where.budget).variants
    ]
    if experiment.measurement.together:
        return [Answer(folder / f"{experiment.name}.json", tuple(places), None)]
    asked: dict[Path, Answer] = {}
    for comparison, row in places:
        wall = "" if comparison.wall_minutes is None else f"-{comparison.published.name}"
        file = folder / f"{comparison.env}{wall}-{row.label}.json"
        asked.setdefault(file, Answer(file, ((comparison, row),), comparison.wall_minutes))
    return list(asked.values())


def state_of(experiment: Experiment, where: Where) -> State:
    """Say how far an experiment has come."""
    runs = [one.state for _, one in runs_of(experiment, where)]
    if experiment.measurement is not None:
        there = [answer.file.exists() for answer in answers_of(experiment, where)]
    else:
        there = [state in ("published", "changed") for state in runs]
    if not any(there):
        return "never run"
    if "changed" in runs and experiment.kind != "data":  # whose runs are never made
        return "config changed since"
    return "published" if all(there) else "partly"


def weights_at(place: Place) -> Weights | None:
    """Find the weights of a run of seed 0, or those that come with radt; None: not kept."""
    comparison, row = place
    env, name = comparison.env, f"{row.label}-seed0"
    for folder in (comparison.runs / name, comparison.published / name):
        if (folder / CHECKPOINT).is_file():
            return Weights(env, row.label, folder)
    file = SHIPPED / f"{env}.safetensors"
    fits = (row.label, comparison.budget) == SHIPPED_ROW and file.is_file()
    return Weights(env, row.label, file) if fits else None


def config_at(place: Place) -> RunConfig:
    """Return the config of a run of seed 0."""
    comparison, row = place
    return comparison.config(row, seed=0, updates=comparison.updates(row))


def cost(runs: Iterable[tuple[Comparison, Entry]]) -> tuple[float, float]:
    """Estimate hours and megabytes of what is left; a dataset is counted once."""
    left = [one for _, one in runs]
    data = sum(phase.megabytes for _, phase in to_collect(left).values())
    own = sum(
        phase.megabytes
        for one in left
        for phase in one.phases
        if phase.name != "collect" and not phase.done
    )
    return hours(left), data + own


def published_records(
    experiment: Experiment, where: Where
) -> Iterator[tuple[Comparison, list[dict[str, Any]]]]:
    """Read the records of an experiment, by the folder that they are published in."""
    folders: dict[Path, tuple[Comparison, list[dict[str, Any]]]] = {}
    for comparison, one in runs_of(experiment, where):
        if (one.published / RESULT).exists():
            kept = folders.setdefault(comparison.published, (comparison, []))
            older = {"older_config": True} if one.state == "changed" else {}
            kept[1].append(read_record(one.published / RESULT) | older)
    yield from folders.values()


def result_of(experiment: Experiment, where: Where) -> dict[str, Any]:
    """Put together what is known of an experiment."""
    rows: list[Row] = []
    findings: dict[str, str] = {}
    seconds, versions = 0.0, set()
    measurement = experiment.measurement
    if measurement is not None:
        for answer in answers_of(experiment, where):
            if answer.file.exists():
                content: Any = read_json(answer.file, object, "delete it and reproduce again")
                rows += [
                    {**row, "wall_minutes": answer.wall_minutes}
                    for row in measurement.rows(content)
                ]
                if isinstance(content, dict):
                    versions.add(content.get("code_version"))
                    seconds += content.get("wall_seconds", 0.0)
                    if measurement.verdict is not None:
                        findings[answer.file.stem] = content[measurement.verdict]
    else:
        for comparison, records in published_records(experiment, where):
            tries = tries_of(where.results, comparison.env)
            rows += rows_of(records, comparison.wall_minutes, tries)
            seconds += sum(sum(record["wall_seconds"].values()) for record in records)
            versions |= {record.get("code_version") for record in records}
    if experiment.kind == "tune":
        configs = [one.config for _, one in runs_of(experiment, where)]
        on_record = tries_on_record(where.results)
        rows = [row for config in configs for row in rows_tried(on_record, config)]
    verdicts = experiment.judged(rows)
    total = summed_up(verdicts)
    return {
        "entry": experiment.name,
        "claim": experiment.claim,
        "paper": experiment.paper,
        "verdict": total.word,
        "why": total.why,
        "claims": {claim: asdict(verdict) for claim, verdict in verdicts.items()},
        "kind": experiment.kind,
        "budget": where.budget,
        "note": experiment.note,
        "findings": findings,
        "skipped": skipped(experiment, where),
        "summary": experiment.summary(rows) if experiment.summary and rows else [],
        "pictures": pictures_of(experiment, where),
        "rows": rows,
        "measured_by": sorted(filter(None, versions)),
        "code_version": code_version(),
        "wall_seconds": round(seconds, 1),
    }


def pictures_of(experiment: Experiment, where: Where) -> list[str]:
    """Name the pictures there are, as seen from the experiment's own folder."""
    folder = where.results / experiment.name
    names = [file.name for file in sorted(folder.glob("*.png"))]
    if experiment.kind == "compare" and not experiment.ablates:
        folders = dict.fromkeys(one.published for one in comparisons(experiment, where))
        drawn = [file for folder in folders for file in sorted(folder.glob("compare*.png"))]
        others = [file for file in drawn if file.parent != folder]  # named as its environment?
        names += [f"../{file.relative_to(where.results).as_posix()}" for file in others]
    return names


def draw(experiment: Experiment, where: Where, rows: Sequence[Row]) -> None:
    """Draw what no environment's table shows: an experiment's own picture, curves of its arms."""
    folder = where.results / experiment.name
    if experiment.picture is not None and rows:
        experiment.picture(rows, folder / f"{experiment.name}.png")
    if experiment.ablates:
        records = [one for _, part in published_records(experiment, where) for one in part]
        for name, picture in icl_pictures(records, "curves").items() if records else ():
            picture.save(folder / name)


def written(file: Path) -> dict[str, Any]:
    """Read a result that was written before; nothing where there is none that can be read."""
    try:
        return read_json(file, dict[str, Any], "")
    except (OSError, DecodeError):  # it is made anew from the records
        return {}


def write_result(experiment: Experiment, where: Where) -> dict[str, Any]:
    """Write what is known of an experiment, for programs and for people."""
    result, folder = result_of(experiment, where), where.results / experiment.name
    draw(experiment, where, result["rows"])
    result["pictures"] = pictures_of(experiment, where)
    file = folder / ANSWER
    before = written(file)
    if {**before, "code_version": result["code_version"]} == json.loads(json.dumps(result)):
        result = before  # the same numbers keep the version that wrote them
    atomic_write(file, (json.dumps(result, indent=1) + "\n").encode())
    atomic_write(folder / PAGE, page(result).encode())
    return result


def verdict_of(experiment: Experiment, where: Where) -> Verdict | None:
    """Read the verdict that was written last; None where there is none."""
    content = written(where.results / experiment.name / ANSWER)
    word, why = content.get("verdict"), content.get("why")
    return Verdict(word, why) if word in WORDS and isinstance(why, str) else None
