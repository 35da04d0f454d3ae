"""The large rooms as they were first published: five minutes of training, one seed.

`dark-room` and `key-door` train twenty minutes there; these records stay for comparison.
"""

from __future__ import annotations

from radt.experiments.dark_room import ROWS
from radt.experiments.experiment import Study, add

STUDIES = {
    env: Study(env, ROWS, seeds=1, wall_minutes=5)
    for env in (
        *("dark-room-20x20", "dark-room-40x20"),
        *("dark-key-door-20x20", "dark-key-door-40x20"),
    )
}

FIVE_MINUTES = add(
    name="five-minutes",
    paper="Not in the paper: 20x20 and 40x20 after five minutes of training.",
    studies=tuple(STUDIES.values()),
)
