"""Ablations of RA-DT, section 4.6 and appendix D: what is changed, and what the paper saw.

Each is trained anew on Dark-Room 10x10 and stands beside `ra-dt` as the main table has it. The arms
are kept under `results/ablations`, so that ablations share them.
"""

from __future__ import annotations

from typing import Any

from radt.experiments.dark_room import ROOM_10X10
from radt.experiments.experiment import Experiment, Judge, Study, add
from radt.experiments.pictures import arms_picture
from radt.experiments.verdicts import CLOSE, Above, all_above
from radt.variants import Variant, arm

ENV = ROOM_10X10.env
BASE = "ra-dt"


def arms(*rows: str | Variant, seeds: int = 1, **more: Any) -> Study:
    """Train arms, and evaluate them by the rule of the paper and with an erased memory only."""
    sets = ("learn.evaluate_every=0",)
    return Study(ENV, rows, seeds, sets, rules=(), controls=("erased",), apart=True, **more)


def changed(label: str, note: str, **options: Any) -> Variant:
    """Change options of `ra-dt`."""
    return arm(f"{BASE}@{label}", BASE, {"options": options}, note=note)


def trained(label: str, note: str, **training: Any) -> Variant:
    """Change what `ra-dt` is trained on."""
    return changed(label, note, training=training)


def ablation(
    name: str,
    paper: str,
    claim: str,
    judge: Judge,
    *studies: Study,
    seeds: int = 1,
    beside: tuple[str, ...] = (BASE,),
    **more: Any,
) -> Experiment:
    """Put arms beside `ra-dt`, and other rows of the main table where they tell more."""
    return add(
        name=name,
        paper=paper,
        studies=(ROOM_10X10.only(*beside, seeds=seeds), *studies),
        claims={claim: judge},
        picture=arms_picture,
        **more,
    )


ablation(
    "ablate-context",
    "Section 4.6: training with retrieved chunks beats random chunks of the own task, and these "
    "random chunks of all tasks.",
    "C9",
    all_above(ENV, Above(BASE, f"{BASE}@own-task"), Above(f"{BASE}@own-task", f"{BASE}@all-tasks")),
    arms(
        trained("own-task", "random chunks of the own task", contexts="own-task"),
        trained("all-tasks", "random chunks of all tasks", contexts="all-tasks"),
        seeds=3,
    ),
    seeds=3,
    beside=(BASE, "ra-dt-tuned"),
    note="As in the paper, only the mechanism is swapped: the arms draw from the index that dedup "
    "leaves. `ra-dt-tuned` draws from all of it.",
)

ablation(
    "ablate-reweighting",
    "Appendix D.2: reweighting by task in training is critical; none at all costs much.",
    "C10",
    all_above(ENV, Above(BASE, f"{BASE}@no-task"), Above(BASE, f"{BASE}@no-reweighting")),
    arms(
        trained("no-task", "no reweighting in training", alpha=0.0),
        changed(
            "no-reweighting",
            "none in training and none at inference",
            training={"alpha": 0.0},
            memory={"alpha": 0.0},
        ),
        seeds=3,
    ),
    arms(
        trained("by-return", "by return in training, too", utility="return"),
        trained("by-position", "by what was generated before", utility="position"),
    ),
    seeds=3,
    note="`ra-dt@alpha-0` of `ablate-alpha-eval` is the same weights without reweighting at "
    "inference.",
)

ablation(
    "ablate-alpha-train",
    "Figure 6b: in training RA-DT does well for a range of alpha; 0 is worse.",
    "C11",
    all_above(
        ENV,
        *(Above(f"{BASE}@train-alpha-{alpha}", BASE, -CLOSE) for alpha in (0.5, 2)),
        Above(BASE, f"{BASE}@no-task"),
    ),
    arms(
        trained("no-task", "no reweighting in training", alpha=0.0),
        *(
            trained(f"train-alpha-{alpha}", f"alpha {alpha} in training", alpha=float(alpha))
            for alpha in (0.1, 0.5, 2, 10)
        ),
    ),
)

WITHOUT: dict[str, dict[str, Any]] = {
    "dedup": {"dedup": None},
    "cut-off": {"cut_off": None},
    "query-dropout": {"query_dropout": 0.0},
    "min-length": {"min_length": 0},
}
ablation(
    "ablate-regularisers",
    "Appendix D.3: each regulariser of retrieval helps, deduplication most.",
    "C12",
    all_above(
        ENV,
        Above(BASE, f"{BASE}@no-regularisers"),
        Above(BASE, f"{BASE}@no-dedup"),
        *(Above(f"{BASE}@no-{name}", f"{BASE}@no-dedup") for name in WITHOUT if name != "dedup"),
    ),
    arms(
        *(trained(f"no-{name}", f"without {name}", **values) for name, values in WITHOUT.items()),
        trained(
            "no-regularisers",
            "without any of them",
            **{name: value for values in WITHOUT.values() for name, value in values.items()},
        ),
        seeds=3,
    ),
    seeds=3,
)

QUERY_TOKENS = ("states", "actions", "rewards", "returns", "all", "last")
ablation(
    "ablate-query-tokens",
    "Appendix D.4: the mean over state tokens is the best query, of states, actions, rewards, "
    "returns-to-go, all tokens and the last one.",
    "C13",
    all_above(ENV, *(Above(f"{BASE}@by-states", f"{BASE}@by-{name}") for name in QUERY_TOKENS[1:])),
    arms(
        *(
            arm(
                f"{BASE}@by-{name}",
                BASE,
                {
                    "embedder": {
                        "query_tokens": name,
                        "model": {"tokens": "interleaved", "return_to_go": name == "returns"},
                    }
                },
                note=f"keys and queries are of {name}, one token each",
            )
            for name in QUERY_TOKENS
        )
    ),
)

LAYERS = {"bottom": (0,), "middle": (1,), "top": (2,), "lower": (0, 1), "upper": (1, 2)}
ablation(
    "ablate-cross-attention",
    "Appendix D.5: one cross-attention at the first layer is as good as one after every layer; "
    "only in upper layers it tends to hurt.",
    "C14",
    all_above(
        ENV,
        Above(f"{BASE}@cross-bottom", BASE, -CLOSE),
        *(Above(BASE, f"{BASE}@cross-{name}") for name in ("top", "upper")),
    ),
    arms(
        *(
            changed(
                f"cross-{name}",
                f"cross-attention in layer {' and '.join(str(n + 1) for n in layers)} of 3",
                model={"cross_layers": layers},
            )
            for name, layers in LAYERS.items()
        ),
        smoke={"options": {"model": {"layers": 3}}},
    ),
    budgets=("smoke", "laptop"),  # whose models have three layers
)
