"""Which language model makes the keys, appendix D.9: as far as weights are at hand.

One encoder comes with `radt[lm]`. The same network with random weights, or cut after its first
layers, tells what its training and its depth are worth. The paper's models are declared, too: each
is run where its weights are in the cache of the hub, and left out elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from radt.config import RunConfig
from radt.experiments.ablations import ENV, arms
from radt.experiments.dark_room import ROOM_10X10
from radt.experiments.experiment import Row, Verdict, add
from radt.experiments.pictures import arms_picture
from radt.experiments.verdicts import Above, all_above, found
from radt.memory.language import LanguageOptions
from radt.memory.language_model import LanguageModelError, find
from radt.variants import Variant, arm

BASE = "ra-dt-lm"
ENCODERS = {  # full ones, each with its distilled one
    "bert-base-uncased": "distilbert-base-uncased",
    "roberta-base": "distilroberta-base",
}
DECODER = "distilgpt2"
PAPERS = (*ENCODERS, *ENCODERS.values(), DECODER)


def read_by(label: str, note: str, **embedder: Any) -> Variant:
    """Change the language model of `ra-dt-lm`."""
    return arm(f"{BASE}@{label}", BASE, {"embedder": embedder}, note=note)


MODELS = arms(
    read_by("random-weights", "the same network with random weights", random_weights=True),
    *(read_by(f"{n}-layers", f"its first {n} of 6 layers", layers=n) for n in (1, 3)),
    *(read_by(name, f"{name} makes the keys", model=name) for name in PAPERS),
)


def weights_missing(config: RunConfig) -> str:
    """Say why a language model cannot be used here; nothing where it can."""
    if not isinstance(config.embedder, LanguageOptions):
        return ""
    try:
        find(config.embedder.model)
    except LanguageModelError as error:
        return str(error)
    return ""


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge encoders against the decoder, and full models against distilled ones."""
    gone = [name for name in PAPERS if found(rows, ENV, f"{BASE}@{name}") is None]
    if not gone:
        pairs = [*ENCODERS.items(), *((name, DECODER) for name in ENCODERS)]
        return all_above(ENV, *(Above(f"{BASE}@{a}", f"{BASE}@{b}") for a, b in pairs))(rows)
    trained = all_above(ENV, Above(BASE, f"{BASE}@random-weights"), Above(BASE, f"{BASE}@1-layers"))
    why = f"no weights of {', '.join(gone)} are at hand; of the one that is: {trained(rows).why}"
    return Verdict("not reachable", why)


ABLATE_LANGUAGE_MODEL = add(
    name="ablate-language-model",
    paper="Appendix D.9: encoders beat the decoder DistilGPT2, and BERT and RoBERTa beat their "
    "distilled ones.",
    studies=(ROOM_10X10.only(BASE), MODELS),
    claims={"C18": judge},
    picture=arms_picture,
    missing=weights_missing,
)
