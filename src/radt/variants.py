"""Rows of tables: a method, and what is changed about it.

Two variants of one method can stand in one table. An arm of an ablation, a try of a tuning study
and everything that is ours (`ra-dt+`) are variants: data, no code. Which rows there are, their
order, colours and notes is said here and nowhere else; others register theirs from outside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from radt.errors import RadtError
from radt.methods import METHODS
from radt.old_names import moved, with_meant_options
from radt.registry import Registry, UnknownNameError

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._@=-]*")  # labels are names of folders, too


NOT_OF_A_ROW = ("env", "method", "label", "seed", "budget", "split", "fold")


class VariantError(RadtError, ValueError):
    """A variant that cannot be; the message says how one is written."""


@dataclass(frozen=True)
class Variant:
    """One row of a table."""

    label: str
    method: str  # a name in METHODS
    overrides: Mapping[str, Any] = field(default_factory=dict)  # nested as the config is
    below_paper: Mapping[str, Any] = field(default_factory=dict)  # also, at smaller budgets
    base: str = ""  # label of the row that this one changes, presets of suites included
    note: str = ""  # a sentence under tables
    colour: str | None = None  # of its curves; None: a spare one
    dashes: tuple[float, ...] = ()  # of the thin line of what learns nothing

    def __post_init__(self) -> None:
        if not PLAIN.fullmatch(self.label):
            raise VariantError(
                f"{self.label!r} is no label: it names folders, so use letters, digits and + . _ @ "
                "= -, the first a letter or a digit"
            )
        if said := {*NOT_OF_A_ROW} & {*self.overrides, *self.below_paper}:
            raise VariantError(
                f"the row {self.label} cannot change {', '.join(sorted(said))}, which all rows of "
                "a table have in common; take it out"
            )


VARIANTS: Registry[Variant] = Registry("variants", "method")


def variant(name: str | Variant) -> Variant:
    """Return a registered variant, or that of a method as it is; a variant is returned itself."""
    if isinstance(name, Variant):
        return name
    if (row := registered_row(name)) is not None:
        return row
    if name in METHODS.names():
        return Variant(name, name)
    raise UnknownNameError(VARIANTS.noun, name, variant_names())


def registered_row(label: str) -> Variant | None:
    """Return the variant of a label; None where nobody has registered one.

    Plug-ins are not loaded for rows that are built in: modules of this package name such rows while
    they are imported, and a plug-in may need one of these modules.
    """
    if label in ORDER:
        return BUILT_IN[ORDER[label]]
    return VARIANTS[label] if label in VARIANTS.names() else None


def variant_names() -> list[str]:
    """Name all rows that can be asked for."""
    return sorted({*VARIANTS.names(), *METHODS.names()})


def resolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """Read a label where a method is named: its method, and below what is said its own values.

    Older files and command lines know labels as methods.
    """
    name = values.get("method")
    if not isinstance(name, str):
        return dict(values)
    values = moved(values, option_names(name))
    if "label" in values:
        return values
    row = variant(name)
    values = with_meant_options(values)
    return laid({**own_values(row), "label": row.label}, {**values, "method": row.method})


def option_names(name: str) -> set[str]:
    """Name the options of a method or of a row's method; none of an unknown one."""
    known = VARIANTS[name].method if name in VARIANTS.names() else name
    return (
        {one.name for one in fields(METHODS[known].options)} if known in METHODS.names() else set()
    )


def own_values(row: Variant) -> dict[str, Any]:
    """Return what a row changes about its method, at every budget."""
    return laid(own_values(variant(row.base)) if row.base else {}, row.overrides)


def arm(label: str, base: str, overrides: Mapping[str, Any], **more: Any) -> Variant:
    """Change a row: an arm of an ablation, or a try of a tuning study."""
    return Variant(label, variant(base).method, overrides, base=base, **more)


def laid(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay nested values over others."""
    both = dict(base)
    for name, value in over.items():
        inner = both.get(name)
        if isinstance(value, Mapping) and isinstance(inner, Mapping):
            value = laid(inner, value)
        both[name] = value
    return both


RA_DT_TUNED = {  # provisional: contexts of training are sampled, as the study suggests
    "options": {"training": {"contexts": "own-task", "dedup": None, "cut_off": None}}
}
RA_DT_LM = {"embedder_name": "lm"}
FEWER_QUESTIONS = {  # a language model is slow, so that repeated questions are asked and looked up
    "options": {
        "episode_every": 4,
        "memory": {"retrieve_every": 10},
        "training": {
            "query": "prefix",
            "query_offsets": (0, 25),
            "query_dropout": 0.0,
            "dedup": None,  # keys of one state lie closer than the bounds of learned ones
            "cut_off": None,
        },
    }
}
RA_DT_PLUS = {
    "exploration": {"count_bonus": 24.0, "revisit_penalty": 24.0},
    "options": {
        "top_fraction": 0.4,
        "model": {"return_to_go": False},
        "memory": {
            "store_above": 0.0,
            "retrieve_every": 0,
            "return_of": "chunk",
            "alpha": 10.0,  # every trial begins alike, so that relevance only breaks ties
        },
        # it asks once a trial, by the first step: all chunks are drawn from the own task
        "training": {"query": "prefix", "min_length": 10},
    },
}
TWO_EPISODES = {"options": {"episode_gap": 1, "model": {"return_to_go": True}}}
ORACLE = {"options": {"labels": "oracle"}}

RL2_NOTE = "it learned online: it acted in the training tasks itself and saw no recorded history."
DPT_NOTE = "its tokens are its set, its query and one that every set holds."
RA_DT_TUNED_NOTE = (
    "its training windows read random chunks of their own task, the best arm of training-contexts."
)
RA_DT_LM_NOTE = (
    "its minutes leave out what its cache on disk saved it: `embeddings_of_training` and "
    "`embeddings` in its icl.json say `seconds_saved`."
)
RA_DT_PLUS_NOTE = "it mostly retrieves the first C steps of a trial; twice as many is the most."

# Related methods have related colours; light and dark tell them apart for colour-blind readers, and
# every line carries its name. References are grey.
BUILT_IN = (  # in the order of tables
    Variant("dt", "dt", below_paper={"options": {"top_fraction": 0.4}}, colour="#D55E00"),
    Variant("dt-2ep", "ad", TWO_EPISODES, colour="#F0A04B"),
    Variant("ad", "ad", colour="#009E73"),
    Variant("dpt", "dpt", colour="#CC79A7", note=DPT_NOTE),
    Variant("dpt-oracle", "dpt", ORACLE, colour="#7B2D5B"),
    Variant("ra-dt", "ra-dt", colour="#56B4E9"),
    Variant("ra-dt-tuned", "ra-dt", RA_DT_TUNED, note=RA_DT_TUNED_NOTE, colour="#2A9DA8"),
    Variant("ra-dt-lm", "ra-dt", RA_DT_LM, FEWER_QUESTIONS, note=RA_DT_LM_NOTE, colour="#3B2F8F"),
    Variant("ra-dt+", "ra-dt", RA_DT_PLUS, note=RA_DT_PLUS_NOTE, colour="#0067B0"),
    Variant("rl2-online", "rl2", note=RL2_NOTE, colour="#8C6D1F"),
    Variant("nearest", "nearest", colour="#4A4F5A", dashes=(4, 1, 1, 1)),
    Variant("replay", "replay", colour="#6F7480", dashes=(5, 1.5)),
    Variant("retrace", "retrace", colour="#8B909B", dashes=(3, 1.5, 1, 1.5)),
    Variant("sweep", "sweep", colour="#A4A8B2", dashes=(1, 1.2)),
    Variant("random", "random", colour="#978A80", dashes=(1, 3)),
)
for one in BUILT_IN:
    VARIANTS.register(one.label, one)
ORDER = {one.label: place for place, one in enumerate(BUILT_IN)}
