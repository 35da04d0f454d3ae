"""How many episodes lie between AD's two: K, appendix D.10."""

from __future__ import annotations

from radt.experiments.ablations import ENV, arms
from radt.experiments.dark_room import ROOM_10X10
from radt.experiments.experiment import add
from radt.experiments.pictures import arms_picture
from radt.experiments.verdicts import Above, all_above
from radt.variants import arm

GAPS = arms(
    *(
        arm(f"ad@gap-{gap}", "ad", {"options": {"episode_gap": gap}}, note=f"K = {gap}")
        for gap in (10, 50, 500)
    )
)

AD_GAP = add(
    name="ad-gap",
    paper="Appendix D.10: AD improves slowly with K = 10, ends below the optimum with K = 500, "
    "and improves steadily only with K = 100, its usual value.",
    studies=(ROOM_10X10.only("ad"), GAPS),
    claims={"C19": all_above(ENV, *(Above("ad", f"ad@gap-{gap}") for gap in (10, 500)))},
    picture=arms_picture,
)
