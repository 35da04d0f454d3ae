"""Does retrieval in training catch up with more updates? Not in the paper: one seed, 16 times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from radt.experiments.ablations import ENV, arms
from radt.experiments.dark_room import ROOM_10X10
from radt.experiments.experiment import Row, add
from radt.experiments.pictures import Point, draw_series
from radt.experiments.verdicts import found
from radt.plots.style import Picture, plain_axes
from radt.variants import arm

ROWS = ("ra-dt", "ra-dt-tuned", "ad")
UPDATES = (2000, 8000, 32000)  # the first is the laptop's own


def label_at(row: str, updates: int) -> str:
    """Name a row with so many updates."""
    return row if updates == UPDATES[0] else f"{row}@updates-{updates}"


def picture(rows: Sequence[Row], file: Path) -> Path:
    """Draw scores against updates."""

    def point(label: str) -> Point | None:
        row = found(rows, ENV, label, rule="paper")
        if row is None:
            return None
        return row["score"], row["score"] - row["ci95"][0], row["ci95"][1] - row["score"]

    def draw(axes: Axes) -> None:
        series = {row: [point(label_at(row, n)) for n in UPDATES] for row in ROWS}
        plain_axes(axes, "score, rule paper", "updates")
        draw_series(axes, [f"{n:,}" for n in UPDATES], series)

    note = "mean return of late trials on unseen tasks, one seed; bars: 95 % over tasks"
    return Picture([draw], f"{ENV}: more updates", note, (5.5, 3.6)).save(file)


BUDGET_CURVE = add(
    name="budget-curve",
    paper="Not in the paper: RA-DT as printed, as tuned, and AD, with 1, 4 and 16 times as "
    "many updates.",
    studies=(
        ROOM_10X10.only(*ROWS),
        arms(
            *(
                arm(
                    label_at(row, updates),
                    row,
                    {"learn": {"updates": updates}},
                    note=f"{updates:,} updates",
                )
                for updates in UPDATES[1:]
                for row in ROWS
            ),
            smoke={"learn": {"updates": 6}},
        ),
    ),
    picture=picture,
)
