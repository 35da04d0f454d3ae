"""Why retrieval in training helps or hurts: which chunk a training window reads.

Held out: each fold trains on 64 of the 80 training tasks of Dark-Room 10x10 and is scored on 16.
The dial goes from sampling (a pool of one episode of the own task) to retrieval among all tasks.
Every arm has the same data, updates and random numbers, so that arms can be compared pair by pair:
what is paired with the arm that samples is the difference on the same fold, or on the same held-out
task of it. One row for each arm and fold, whatever folds are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from radt.config import FOLDS
from radt.experiments.experiment import Row, add
from radt.experiments.grids import MAZES, WINDOWS
from radt.experiments.page import Point, draw_series
from radt.experiments.tuning import held_out
from radt.metrics import crossed_interval
from radt.plots.style import Picture, plain_axes
from radt.variants import Variant, arm, laid

POOL_1 = "ra-dt@pool-1"
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}  # 97.5 % of Student's t for so many folds
Values = Mapping[tuple[int, str], float]  # by fold and task, or by fold alone

MEASURES: dict[str, Callable[[Row], Mapping[str, float]]] = {  # of one fold, by task
    "correlation": lambda row: _known((row["prepared"] or {}).get("return_correlation")),
    "failing, %": lambda row: _known((row["prepared"] or {}).get("failures_beside_good"), 100),
    "ceiling": lambda row: _known((row["controls"] or {}).get("oracle")),
    "score": lambda row: row["per_task"] or _known(row["score"]),
    "rewarded only": lambda row: _known((row["controls"] or {}).get("rewarded-only")),
    "erased": lambda row: _known((row["controls"] or {}).get("erased")),
}
PAIRED = ("score", "rewarded only", "ceiling")
PANELS = {  # of the picture: title, and which measures by what a legend calls them
    "correlation of returns": {"": "correlation"},
    "failing chunks beside good windows, %": {"": "failing, %"},
    "reading ceiling": {"": "ceiling"},
    "score": {"storing all": "score", "storing rewarded trials only": "rewarded only"},
}


def _known(value: float | None, scale: float = 1) -> dict[str, float]:
    return {} if value is None else {"": scale * value}


def values_of(rows: Sequence[Row], label: str, measure: str) -> Values:
    """Collect a measure of one arm over folds and held-out tasks."""
    own = [row for row in rows if (row["label"], row["tasks"]) == (label, "tune")]
    return {
        (row["fold"], task): value for row in own for task, value in MEASURES[measure](row).items()
    }


def against(one: Values, other: Values) -> tuple[float, float | None] | None:
    """Return the paired difference and half of its interval, as far as that is known."""
    apart = np.array([one[key] - other[key] for key in one if key in other])
    if not len(apart):
        return None
    if len(apart) > len(STUDENT) + 1:  # tasks
        found = crossed_interval(apart[None], np.random.default_rng(0))
        return found.mean, (found.high - found.low) / 2
    half = STUDENT[len(apart)] * apart.std(ddof=1) / sqrt(len(apart)) if len(apart) > 1 else None
    return float(apart.mean()), half


def dial_summary(rows: Sequence[Row]) -> list[Row]:
    """Make a line of each arm: its measures, and how they differ from those of sampling."""
    return [_line(rows, label) for label in dict.fromkeys(row["label"] for row in rows)]


def _line(rows: Sequence[Row], label: str) -> Row:
    folds = {row["fold"] for row in rows if row["label"] == label}
    line: Row = {"arm": f"`{label}`", "folds": len(folds)}
    for measure in MEASURES:
        own = values_of(rows, label, measure)
        line[measure] = float(np.mean(list(own.values()))) if own else None
        if measure in PAIRED:
            apart = against(own, values_of(rows, POOL_1, measure))
            line[f"{measure} against pool-1"] = None if label == POOL_1 else _signed(apart)
    return line


def _signed(apart: tuple[float, float | None] | None) -> str | None:
    if apart is None:
        return None
    mean, half = apart
    return f"{mean:+.1f}" + ("" if half is None else f" ± {half:.1f}")


def dial_picture(ticks: Mapping[str, str]) -> Callable[[Sequence[Row], Path], Path]:
    """Say how the dial is drawn: some arms in their order, by what they search."""

    def point(rows: Sequence[Row], label: str, measure: str) -> Point | None:
        own = values_of(rows, label, measure)
        if not own:
            return None
        apart = against(own, values_of(rows, POOL_1, measure))
        half = 0.0 if apart is None or label == POOL_1 else apart[1] or 0.0
        return float(np.mean(list(own.values()))), half, half

    def panel(axes: Axes, rows: Sequence[Row], title: str, measures: Mapping[str, str]) -> None:
        plain_axes(axes, title, "episodes that are searched")
        series = {
            name: [point(rows, label, measure) for label in ticks]
            for name, measure in measures.items()
        }
        draw_series(axes, list(ticks.values()), series)

    def draw(rows: Sequence[Row], file: Path) -> Path:
        panels = [partial(panel, rows=rows, title=t, measures=m) for t, m in PANELS.items()]
        folds = len({row["fold"] for row in rows})
        title = f"{rows[0]['env']}: from sampling a chunk of the own task to retrieving it"
        note = (
            f"held-out training tasks, {folds} {'fold' if folds == 1 else 'folds'}, rule paper; "
            "bars: half of the 95 % interval of the paired difference to a pool of 1, over tasks "
            "where each is known, else over folds"
        )
        return Picture(panels, title, note, (15.0, 3.8), (1.0,) * len(panels)).save(file)

    return draw


ENV, KEY_DOOR = "dark-room-10x10", "dark-key-door-10x10"
NO_BOUNDS: dict[str, Any] = {"dedup": None, "cut_off": None}


def training(label: str, note: str, **options: Any) -> Variant:
    """Change how `ra-dt` chooses its training contexts."""
    return arm(f"ra-dt@{label}", "ra-dt", {"options": {"training": options}}, note=note)


def changed(row: Variant, label: str, note: str, **options: Any) -> Variant:
    """Change an arm once more."""
    return arm(f"ra-dt@{label}", "ra-dt", laid(row.overrides, {"options": options}), note=note)


SAMPLED = training("pool-1", "random chunks of the own task", contexts="own-task", **NO_BOUNDS)
DIAL = (
    SAMPLED,
    training("pool-4", "the most similar of 4 random own-task episodes", pool=4, **NO_BOUNDS),
    training("pool-16", "the most similar of 16 random own-task episodes", pool=16, **NO_BOUNDS),
    training("pool-64", "the most similar of 64 random own-task episodes", pool=64, **NO_BOUNDS),
    training("pool-all", "the most similar own-task episode", pool=0, **NO_BOUNDS),
    training("no-bounds", "the paper's search, without dedup and cut-off", **NO_BOUNDS),
)
CAUSES = (
    training("equal-return", "random chunks of equal return", contexts="equal-return", **NO_BOUNDS),
    training("any-task", "random chunks of any task", contexts="all-tasks", **NO_BOUNDS),
    training("min-length-50", "sampling for all windows shorter than C", min_length=50),
    training(
        "dedup-random",
        "a fifth of the entries stays, in random order",
        dedup=None,
        dedup_keep=0.2,
        dedup_order="random",
    ),
    training("dedup-best", "a fifth of the entries stays, best first", dedup=None, dedup_keep=0.2),
    training("no-dedup", "cut-off only", dedup=None),
    training("no-cut-off", "dedup only", cut_off=None),
    training("prefix", "asked by what a random step knows; targets from there on", query="prefix"),
    training(
        "earlier",
        "sampled own-task retrieval, earlier episodes only",
        pool=1,
        earlier_only=True,
        **NO_BOUNDS,
    ),
)
BEST = (  # changes of the best arm of the dial
    changed(SAMPLED, "pool-1-no-rtg", "without return-to-go", model={"return_to_go": False}),
    changed(SAMPLED, "pool-1-good-targets", "targets from the better 40 %", top_fraction=0.4),
    changed(SAMPLED, "pool-1-prefix", "targets behind a random step", training={"query": "prefix"}),
    changed(
        SAMPLED,
        "pool-1-chunk-25",
        "chunks of 25 steps before and 25 behind, as the authors' code",
        memory={"past_len": 25, "future_len": 25},
    ),
    arm(
        "ra-dt@pool-1-embedder-2000",
        "ra-dt",
        laid(SAMPLED.overrides, {"embedder": {"updates": 2000}}),
        note="an embedder of 2,000 updates instead of 500",
    ),
)
ARMS = ("ra-dt", *DIAL, *CAUSES, *BEST)
TICKS = {  # of the picture, by label
    "ra-dt@pool-1": "1",
    "ra-dt@pool-4": "4",
    "ra-dt@pool-16": "16",
    "ra-dt@pool-64": "64",
    "ra-dt@pool-all": "own\ntask",
    "ra-dt@no-bounds": "all\ntasks",
    "ra-dt": "printed",
}
NOTE = (
    "*Against pool-1* is the difference to sampling, paired: of scores over tasks, of controls and "
    "causes over folds, with half of its 95 % interval. *Correlation* is that of the returns of a "
    "training window and its chunk; *failing* is the share of chunks that earned next to nothing "
    "beside windows of good episodes, which is what every new task begins with. *Ceiling* is the "
    "score with an expert's episode in memory. The rule is the paper's."
)


add(
    name="training-contexts",
    paper="Section 4.6 reports that retrieval beats random chunks of the own task, and these "
    "random chunks of any task. Held-out training tasks of Dark-Room 10x10.",
    kind="tune",
    studies=tuple(held_out(ENV, ARMS, fold) for fold in reversed(range(FOLDS))),
    note=NOTE,
    picture=dial_picture(TICKS),
    summary=dial_summary,
)

THREE = (SAMPLED.label, DIAL[2].label, "ra-dt")
for name, env, sets in (
    ("key-door", KEY_DOOR, ()),
    ("mazes", MAZES, WINDOWS),
):
    add(
        name=f"training-contexts-{name}",
        paper=f"The dial of training-contexts at three points, on {env}.",
        kind="tune",
        studies=(held_out(env, ("ra-dt", SAMPLED, DIAL[2]), FOLDS - 1, *sets),),
        note=NOTE,
        picture=dial_picture({label: TICKS[label] for label in THREE}),
        summary=dial_summary,
    )

# What a chunk is worth from here, beside the return of its episode. The arms with alpha=10 differ
# in the utility alone, as relevance only breaks ties there.
BASE = "ra-dt-tuned"
MOST = {"options": {"memory": {"alpha": 10.0}}}
VALUE = {"options": {"memory": {"utility": "value"}}}
IMPROVING = laid(MOST, {"options": {"training": {"contexts": "earlier-worse"}}})
SELDOM = {"options": {"memory": {"retrieve_every": 25}}}

EARLIER_WORSE = arm(
    f"{BASE}@earlier-worse",
    BASE,
    IMPROVING,
    note="windows read chunks of own-task episodes that came before and earned no more",
)
BY_VALUE = arm(
    f"{BASE}@value",
    BASE,
    laid(IMPROVING, VALUE),
    note="the same, and reads the candidate from which most is expected here",
)
BY_VALUE_SELDOM = arm(
    f"{BASE}@value-25",
    BASE,
    laid(laid(IMPROVING, VALUE), SELDOM),
    note="the same, asked every 25 steps",
)
RETRIEVED = arm(
    "ra-dt@value",
    "ra-dt",
    laid(laid(MOST, VALUE), {"options": {"training": {"alpha": 1.0}}}),
    note="with the paper's training contexts",
)
UTILITIES = (BASE, EARLIER_WORSE, BY_VALUE, RETRIEVED)

add(
    name="learned-utility",
    paper="Not in the paper, which leaves telling good experiences from bad ones by a value to "
    "future work. Held-out training tasks.",
    kind="tune",
    studies=(
        held_out(KEY_DOOR, (*UTILITIES, BY_VALUE_SELDOM), FOLDS - 1),
        held_out(MAZES, UTILITIES, FOLDS - 1, *WINDOWS),
    ),
)
