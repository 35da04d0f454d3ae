"""Grid-worlds, sections 4.1 to 4.3: Dark-Room, Dark Key-Door and MazeRunner.

Equal updates on 10x10, equal time in the larger rooms. The twenty goals of Dark-Room 10x10 have
been looked at up to four times; tasks that nobody has touched are cells of 20x20 outside the
published split, a quadrant of 10x10 in which no training goal lies, and mazes whose seeds begin at
2,000.
"""

from __future__ import annotations

from radt.experiments.experiment import ERASED, Study, add
from radt.experiments.verdicts import BASELINES, NEAR, alone_improves, close, ranking
from radt.variants import arm

ROWS = ("dt", "dt-2ep", "ad", "dpt", "dpt-oracle", "ra-dt", "ra-dt-tuned", "ra-dt-lm", "ra-dt+")
LARGE_ROWS = ("dt", "ad", "dpt", "ra-dt-tuned", "ra-dt+")
# An evaluation takes as long there as training, so that search is compared with one control.
LARGE_CONTROLS = (ERASED, "best-trial")
FRESH = ('evaluate.also_on=["fresh"]',)
TRAINING_GOALS = ('evaluate.also_on=["training-tasks"]',)

ROOM_10X10 = Study("dark-room-10x10", (*ROWS, "rl2-online", "retrace"), sets=TRAINING_GOALS)
ROOM_20X20 = Study(
    "dark-room-20x20", LARGE_ROWS, 2, sets=FRESH, controls=LARGE_CONTROLS, wall_minutes=20
)
ROOM_40X20 = Study("dark-room-40x20", LARGE_ROWS, seeds=1, controls=LARGE_CONTROLS, wall_minutes=20)
add(
    name="dark-room",
    paper="Unseen goals, 40 trials: RA-DT ends near the optimum on 10x10, AD and DPT rise "
    "slowly, DT is flat; the same ranking on 20x20 and 40x20, where RA-DT is not optimal.",
    studies=(ROOM_10X10, ROOM_20X20, ROOM_40X20),
    claims={
        "C1": ranking("dark-room-10x10", near=NEAR),
        "C2": ranking("dark-room-20x20", "dark-room-40x20", own="ra-dt-tuned"),
        "C4": close("dark-room-10x10", "ra-dt-lm", "ra-dt"),
    },
)
add(
    name="fresh-tasks",
    paper="Not in the paper: the same rows on tasks that nobody has touched.",
    studies=(
        Study(
            "dark-room-10x10-quadrant",
            ("dt", "ad", "dpt", "ra-dt", "ra-dt-tuned", "ra-dt+"),
            seeds=1,
        ),
        ROOM_20X20,
    ),
)
add(
    name="slippery-room",
    paper="Not in the paper: where steps slip, repeating a good trial step by step is no "
    "longer enough.",
    studies=(Study("dark-room-10x10-slip", ("ra-dt+", "retrace")),),
)

# With the key put back after each trial, and as in the authors' data.
KEY_RESET = Study("dark-key-door-10x10", (*ROWS, "retrace"))
KEY_KEPT = Study("dark-key-door-10x10-persist", (*ROWS, "retrace"))
add(
    name="key-door",
    paper="Unseen keys and doors: the ranking of Dark-Room on 10x10 and 20x20; on 40x20 the "
    "domain-agnostic RA-DT is ahead.",
    studies=(
        KEY_RESET,
        KEY_KEPT,
        *(
            Study(env, LARGE_ROWS, seeds, controls=LARGE_CONTROLS, wall_minutes=20)
            for env, seeds in (("dark-key-door-20x20", 2), ("dark-key-door-40x20", 1))
        ),
    ),
    claims={"C3": ranking("dark-key-door-10x10", "dark-key-door-20x20", own="ra-dt-tuned")},
)

# The large rooms as they were first published; these records stay for comparison.
FIVE_MINUTES = {
    env: Study(env, ROWS, seeds=1, wall_minutes=5)
    for env in (
        *("dark-room-20x20", "dark-room-40x20"),
        *("dark-key-door-20x20", "dark-key-door-40x20"),
    )
}
add(
    name="five-minutes",
    paper="Not in the paper: 20x20 and 40x20 after five minutes of training.",
    studies=tuple(FIVE_MINUTES.values()),
)

MAZES = "maze-runner-15x15"
WINDOWS = ("learn.batch_size=32",)  # that a batch holds
EPISODES = ("learn.batch_size=8",)
EXPERTS = tuple(  # beside the paper's data source, three datasets of a noisy expert
    arm(
        f"{row}@noisy-expert-{mazes}",
        row,
        {"source": "noisy-expert", "collect": {"tasks": mazes}},
        note=f"learned from a noisy expert in {mazes:,} mazes",
    )
    for row in ("ra-dt", "ra-dt-tuned")
    for mazes in (100, 300, 1000)
)
add(
    name="mazerunner",
    paper="30 trials: RA-DT is best and the only one to improve, 0.65 in training mazes and "
    "0.4 in unseen ones.",
    studies=(
        Study(MAZES, ("dt", "ra-dt"), sets=WINDOWS),
        Study(MAZES, ("ra-dt-tuned", "ra-dt-lm", "ra-dt+"), seeds=1, sets=WINDOWS),
        Study(MAZES, ("dt-2ep", "ad", "dpt", "dpt-oracle"), seeds=1, sets=EPISODES),
        Study(
            MAZES,
            EXPERTS,
            seeds=1,
            sets=WINDOWS,
            smoke={"collect": {"tasks": 5, "episodes": 10}},
        ),
    ),
    claims={"C5": alone_improves(MAZES, "ra-dt", BASELINES)},
)
