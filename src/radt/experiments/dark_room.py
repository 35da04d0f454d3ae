"""Dark-Room, section 4.1: equal updates on 10x10, equal time in the larger rooms."""

from __future__ import annotations

from radt.experiments.experiment import ERASED, Study, add
from radt.experiments.verdicts import NEAR, close, ranking

ROWS = ("dt", "dt-2ep", "ad", "dpt", "dpt-oracle", "ra-dt", "ra-dt-tuned", "ra-dt-lm", "ra-dt+")
LARGE_ROWS = ("dt", "ad", "dpt", "ra-dt-tuned", "ra-dt+")
# An evaluation takes as long there as training, so that search is compared with one control.
LARGE_CONTROLS = (ERASED, "best-trial")
FRESH = ('evaluate.also_on=["fresh"]',)  # tasks that no setting was ever chosen or looked at on
TRAINING_GOALS = ('evaluate.also_on=["training-tasks"]',)

ROOM_10X10 = Study("dark-room-10x10", (*ROWS, "rl2-online", "retrace"), sets=TRAINING_GOALS)
ROOM_20X20 = Study(
    "dark-room-20x20", LARGE_ROWS, 2, sets=FRESH, controls=LARGE_CONTROLS, wall_minutes=20
)
ROOM_40X20 = Study("dark-room-40x20", LARGE_ROWS, seeds=1, controls=LARGE_CONTROLS, wall_minutes=20)

DARK_ROOM = add(
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
