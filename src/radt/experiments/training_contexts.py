"""Why retrieval in training helps or hurts: which chunk a training window reads.

Held out: each fold trains on 64 of the 80 training tasks of Dark-Room 10x10 and is scored on 16.
The dial goes from sampling (a pool of one episode of the own task) to retrieval among all tasks.
Every arm has the same data, updates and random numbers, so that arms can be compared pair by pair.
"""

from __future__ import annotations

from typing import Any

from radt.config import FOLDS
from radt.experiments.dial import dial_picture, dial_summary
from radt.experiments.experiment import Study, add
from radt.experiments.mazerunner import ENV as MAZES
from radt.experiments.tuning import TUNE
from radt.variants import Variant, arm, laid

ENV = "dark-room-10x10"
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


def held_out(env: str, rows: tuple[str | Variant, ...], fold: int, *sets: str) -> Study:
    """Train rows without one fold of the training tasks, and score them on it."""
    return Study(
        env,
        rows,
        seeds=1,
        sets=(TUNE, f"fold={fold}", "learn.evaluate_every=0", *sets),
        rules=(),
        controls=("erased", "rewarded-only", "oracle"),
    )


TRAINING_CONTEXTS = add(
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
    ("key-door", "dark-key-door-10x10", ()),
    ("mazes", MAZES, ("learn.batch_size=32",)),
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
