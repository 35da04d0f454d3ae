"""Dark Key-Door, section 4.2: with the key put back after each trial, and as the authors' data."""

from __future__ import annotations

from radt.experiments.dark_room import ROWS
from radt.experiments.experiment import Experiment, Study, add
from radt.experiments.verdicts import ranking

KEY_RESET = Study("dark-key-door-10x10", (*ROWS, "retrace"))
KEY_KEPT = Study("dark-key-door-10x10-persist", (*ROWS, "retrace"))
LARGE = tuple(
    Study(env, ROWS, seeds=1, wall_minutes=5)
    for env in ("dark-key-door-20x20", "dark-key-door-40x20")
)

KEY_DOOR = add(
    Experiment(
        name="key-door",
        paper="Unseen keys and doors: the ranking of Dark-Room on 10x10 and 20x20; on 40x20 the "
        "domain-agnostic RA-DT is ahead.",
        studies=(KEY_RESET, KEY_KEPT, *LARGE),
        claims={"C3": ranking("dark-key-door-10x10", "dark-key-door-20x20")},
    )
)
