"""Dark-Room where some steps go astray: what replaying a trial cannot do."""

from __future__ import annotations

from radt.experiments.experiment import Study, add

SLIPPERY_ROOM = add(
    name="slippery-room",
    paper="Not in the paper: where steps slip, repeating a good trial step by step is no "
    "longer enough.",
    studies=(Study("dark-room-10x10-slip", ("ra-dt+", "retrace")),),
)
