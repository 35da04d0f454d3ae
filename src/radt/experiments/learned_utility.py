"""A learned utility: what a chunk is worth from here, beside the return of its episode.

Held out as training-contexts is. The arms with alpha=10 differ in the utility alone, as relevance
only breaks ties there.
"""

from __future__ import annotations

from radt.config import FOLDS
from radt.experiments.experiment import add
from radt.experiments.grids import MAZES, WINDOWS
from radt.experiments.tuning import held_out
from radt.variants import arm, laid

KEY_DOOR = "dark-key-door-10x10"
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
ARMS = (BASE, EARLIER_WORSE, BY_VALUE, RETRIEVED)

add(
    name="learned-utility",
    paper="Not in the paper, which leaves telling good experiences from bad ones by a value to "
    "future work. Held-out training tasks.",
    kind="tune",
    studies=(
        held_out(KEY_DOOR, (*ARMS, BY_VALUE_SELDOM), FOLDS - 1),
        held_out(MAZES, ARMS, FOLDS - 1, *WINDOWS),
    ),
)
