"""Tasks that nobody has touched: no setting was chosen on them, and nobody has looked at them.

The twenty goals of Dark-Room 10x10 have been looked at up to four times. Fresh are cells of 20x20
outside the published split, a quadrant of 10x10 in which no training goal lies, and mazes whose
seeds begin at 2,000 (the entry `mazerunner`).
"""

from __future__ import annotations

from radt.experiments.dark_room import ROOM_20X20
from radt.experiments.experiment import Study, add

ROWS = ("dt", "ad", "dpt", "ra-dt", "ra-dt-tuned", "ra-dt+")

FRESH_TASKS = add(
    name="fresh-tasks",
    paper="Not in the paper: the same rows on tasks that nobody has touched.",
    studies=(Study("dark-room-10x10-quadrant", ROWS, seeds=1), ROOM_20X20),
)
