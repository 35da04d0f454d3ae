"""Dark-Room, section 4.1: three rooms, from equal updates to equal time."""

from __future__ import annotations

from radt.experiments.experiment import Experiment, Study, add
from radt.experiments.verdicts import NEAR, close, ranking

ROWS = ("dt", "dt-2ep", "ad", "dpt", "dpt-oracle", "ra-dt", "ra-dt-tuned", "ra-dt-lm", "ra-dt+")

ROOM_10X10 = Study("dark-room-10x10", (*ROWS, "retrace"))
SIX_MINUTES = Study("dark-room-10x10", ROWS, seeds=1, wall_minutes=6)
ROOM_20X20 = Study("dark-room-20x20", ROWS, seeds=1, wall_minutes=5)
TWENTY_MINUTES = Study("dark-room-20x20", ("ad",), seeds=1, wall_minutes=20)
ROOM_40X20 = Study("dark-room-40x20", ROWS, seeds=1, wall_minutes=5)

DARK_ROOM = add(
    Experiment(
        name="dark-room",
        paper="Unseen goals, 40 trials: RA-DT ends near the optimum on 10x10, AD and DPT rise "
        "slowly, DT is flat; the same ranking on 20x20 and 40x20, where RA-DT is not optimal.",
        studies=(ROOM_10X10, SIX_MINUTES, ROOM_20X20, TWENTY_MINUTES, ROOM_40X20),
        claims={
            "C1": ranking("dark-room-10x10", near=NEAR),
            "C2": ranking("dark-room-20x20", "dark-room-40x20"),
            "C4": close("dark-room-10x10", "ra-dt-lm", "ra-dt"),
        },
    )
)
