"""Dark Key-Door, section 4.2: with the key put back after each trial, and as the authors' data."""

from __future__ import annotations

from radt.experiments.dark_room import LARGE_CONTROLS, LARGE_ROWS, ROWS
from radt.experiments.experiment import Study, add
from radt.experiments.verdicts import ranking

KEY_RESET = Study("dark-key-door-10x10", (*ROWS, "retrace"))
KEY_KEPT = Study("dark-key-door-10x10-persist", (*ROWS, "retrace"))
LARGE = tuple(
    Study(env, LARGE_ROWS, seeds, controls=LARGE_CONTROLS, wall_minutes=20)
    for env, seeds in (("dark-key-door-20x20", 2), ("dark-key-door-40x20", 1))
)

KEY_DOOR = add(
    name="key-door",
    paper="Unseen keys and doors: the ranking of Dark-Room on 10x10 and 20x20; on 40x20 the "
    "domain-agnostic RA-DT is ahead.",
    studies=(KEY_RESET, KEY_KEPT, *LARGE),
    claims={"C3": ranking("dark-key-door-10x10", "dark-key-door-20x20", own="ra-dt-tuned")},
)
