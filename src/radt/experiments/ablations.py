"""Ablations, section 4.6 and appendix D: what is changed, and what the paper saw.

Each is trained anew on Dark-Room 10x10 and stands beside a row of the main table, mostly `ra-dt`.
The arms are kept under `results/ablations`, so that ablations share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from radt.config import RunConfig
from radt.experiments.experiment import Experiment, Judge, Row, Study, Verdict, add
from radt.experiments.grids import ROOM_10X10
from radt.experiments.page import Point, arms_picture, draw_series
from radt.experiments.verdicts import CLOSE, Above, all_above, found
from radt.memory.language import LanguageOptions
from radt.memory.language_model import LanguageModelError, find
from radt.plots.style import Picture, plain_axes
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
    """Put arms beside rows of the main table."""
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

GAPS = arms(
    *(
        arm(f"ad@gap-{gap}", "ad", {"options": {"episode_gap": gap}}, note=f"K = {gap}")
        for gap in (10, 50, 500)
    )
)
ablation(
    "ad-gap",
    "Appendix D.10: AD improves slowly with K = 10, ends below the optimum with K = 500, "
    "and improves steadily only with K = 100, its usual value.",
    "C19",
    all_above(ENV, *(Above("ad", f"ad@gap-{gap}") for gap in (10, 500))),
    GAPS,
    beside=("ad",),
)

ENCODERS = {  # full ones, each with its distilled one
    "bert-base-uncased": "distilbert-base-uncased",
    "roberta-base": "distilroberta-base",
}
DECODER = "distilgpt2"
PAPERS = (*ENCODERS, *ENCODERS.values(), DECODER)  # run where their weights are at hand


def read_by(label: str, note: str, **embedder: Any) -> Variant:
    """Change the language model that makes the keys of `ra-dt-lm`."""
    return arm(f"ra-dt-lm@{label}", "ra-dt-lm", {"embedder": embedder}, note=note)


def weights_missing(config: RunConfig) -> str:
    """Say why a language model cannot be used here; nothing where it can."""
    if not isinstance(config.embedder, LanguageOptions):
        return ""
    try:
        find(config.embedder.model)
    except LanguageModelError as error:
        return str(error)
    return ""


def judge_language_models(rows: Sequence[Row]) -> Verdict:
    """Judge encoders against the decoder, and full models against distilled ones."""
    own = "ra-dt-lm"
    gone = [name for name in PAPERS if found(rows, ENV, f"{own}@{name}") is None]
    if not gone:
        pairs = [*ENCODERS.items(), *((name, DECODER) for name in ENCODERS)]
        return all_above(ENV, *(Above(f"{own}@{a}", f"{own}@{b}") for a, b in pairs))(rows)
    trained = all_above(ENV, Above(own, f"{own}@random-weights"), Above(own, f"{own}@1-layers"))
    why = f"no weights of {', '.join(gone)} are at hand; of the one that is: {trained(rows).why}"
    return Verdict("not reachable", why)


ablation(
    "ablate-language-model",
    "Appendix D.9: encoders beat the decoder DistilGPT2, and BERT and RoBERTa beat their "
    "distilled ones.",
    "C18",
    judge_language_models,
    arms(  # what the training and the depth of the encoder of `radt[lm]` are worth; the paper's
        read_by("random-weights", "the same network with random weights", random_weights=True),
        *(read_by(f"{n}-layers", f"its first {n} of 6 layers", layers=n) for n in (1, 3)),
        *(read_by(name, f"{name} makes the keys", model=name) for name in PAPERS),
    ),
    beside=("ra-dt-lm",),
    missing=weights_missing,
)

LONGER_ROWS = ("ra-dt", "ra-dt-tuned", "ad")
UPDATES = (2000, 8000, 32000)  # the first is the laptop's own


def label_at(row: str, updates: int) -> str:
    """Name a row with so many updates."""
    return row if updates == UPDATES[0] else f"{row}@updates-{updates}"


def budget_picture(rows: Sequence[Row], file: Path) -> Path:
    """Draw scores against updates."""

    def point(label: str) -> Point | None:
        row = found(rows, ENV, label, rule="paper")
        if row is None:
            return None
        return row["score"], row["score"] - row["ci95"][0], row["ci95"][1] - row["score"]

    def draw(axes: Axes) -> None:
        series = {row: [point(label_at(row, n)) for n in UPDATES] for row in LONGER_ROWS}
        plain_axes(axes, "score, rule paper", "updates")
        draw_series(axes, [f"{n:,}" for n in UPDATES], series)

    note = "mean return of late trials on unseen tasks, one seed; bars: 95 % over tasks"
    return Picture([draw], f"{ENV}: more updates", note, (5.5, 3.6)).save(file)


LONGER = (
    arm(label_at(row, n), row, {"learn": {"updates": n}}, note=f"{n:,} updates")
    for n in UPDATES[1:]
    for row in LONGER_ROWS
)
add(
    name="budget-curve",
    paper="Not in the paper: RA-DT as printed, as tuned, and AD, with 1, 4 and 16 times as "
    "many updates.",
    studies=(ROOM_10X10.only(*LONGER_ROWS), arms(*LONGER, smoke={"learn": {"updates": 6}})),
    picture=budget_picture,
)
