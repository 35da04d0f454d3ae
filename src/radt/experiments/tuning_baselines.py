"""Four tries each of AD, DPT and DT with two episodes, on held-out training tasks as RA-DT's."""

from __future__ import annotations

from typing import Any

from radt.config import FOLDS
from radt.experiments.experiment import add
from radt.experiments.pictures import arms_picture
from radt.experiments.training_contexts import held_out
from radt.variants import arm

FASTER = {"learn": {"learning_rate": 3e-3}}
DROPOUT = {"options": {"model": {"dropout": 0.1}}}
GOOD = {"options": {"top_fraction": 0.4}}
TRIES: dict[str, dict[str, dict[str, Any]]] = {  # beside each row as it is
    "ad": {"lr-0.003": FASTER, "dropout-0.1": DROPOUT, "gap-50": {"options": {"episode_gap": 50}}},
    "dpt": {"lr-0.003": FASTER, "dropout-0.1": DROPOUT, "set-100": {"options": {"set_size": 100}}},
    "dt-2ep": {"lr-0.003": FASTER, "dropout-0.1": DROPOUT, "top-0.4": GOOD},
}

TUNING_BASELINES = add(
    name="tuning-baselines",
    paper="Not in the paper: settings of the baselines, chosen as those of RA-DT are.",
    kind="tune",
    studies=(
        held_out(
            "dark-room-10x10",
            (
                *TRIES,
                *(
                    arm(f"{row}@{name}", row, values)
                    for row, tries in TRIES.items()
                    for name, values in tries.items()
                ),
            ),
            fold=FOLDS - 1,
        ),
    ),
    picture=arms_picture,
)
