"""MazeRunner, section 4.3: the paper's data source, and three datasets of a noisy expert."""

from __future__ import annotations

from radt.experiments.experiment import Study, add
from radt.experiments.verdicts import BASELINES, alone_improves
from radt.variants import arm

ENV = "maze-runner-15x15"
WINDOWS = ("learn.batch_size=32",)  # that a batch holds
EPISODES = ("learn.batch_size=8",)
FEW = {"collect": {"tasks": 5, "episodes": 10}}
MAZES = (100, 300, 1000)

EXPERTS = tuple(
    arm(
        f"{row}@noisy-expert-{mazes}",
        row,
        {"source": "noisy-expert", "collect": {"tasks": mazes}},
        note=f"learned from a noisy expert in {mazes:,} mazes",
    )
    for row in ("ra-dt", "ra-dt-tuned")
    for mazes in MAZES
)

MAZERUNNER = add(
    name="mazerunner",
    paper="30 trials: RA-DT is best and the only one to improve, 0.65 in training mazes and "
    "0.4 in unseen ones.",
    studies=(
        Study(ENV, ("dt", "ra-dt"), sets=WINDOWS),
        Study(ENV, ("ra-dt-tuned", "ra-dt-lm", "ra-dt+"), seeds=1, sets=WINDOWS),
        Study(ENV, ("dt-2ep", "ad", "dpt", "dpt-oracle"), seeds=1, sets=EPISODES),
        Study(ENV, EXPERTS, seeds=1, sets=WINDOWS, smoke=FEW),
    ),
    claims={"C5": alone_improves(ENV, "ra-dt", BASELINES)},
)
