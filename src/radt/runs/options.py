"""The options of runs: what the source says beside each, and which presets change it."""

from __future__ import annotations

import ast
import inspect
import io
import json
import textwrap
import tokenize
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from radt.collect import SOURCES
from radt.config import Budget, Layer, RunConfig, compose
from radt.decode import leaves, read_json
from radt.envs.suite import SUITES
from radt.memory.embed import EMBEDDERS
from radt.methods import METHODS
from radt.registry import Registry, UnknownNameError
from radt.runs.presets import preset_layers
from radt.variants import ORDER, variant_names

CHOSEN: Mapping[str, Registry[Any]] = {  # parts that have kinds
    "options": METHODS,
    "embedder": EMBEDDERS,
    "collect": SOURCES,
}
BUDGETS: tuple[str, ...] = typing.get_args(Budget)
PAPER = Path(__file__).with_name("paper_values.json")
Values = tuple[str, ...]  # as JSON, budget by budget


@dataclass(frozen=True)
class Option:
    """One value of a run's config."""

    path: str  # as --set has it
    kind: str  # its type, as the source has it
    default: str  # of its dataclass, as JSON; presets lay theirs over it
    meaning: str


@dataclass(frozen=True)
class PaperTable:
    """The hyper-parameters of the paper's appendices, and where we depart from them."""

    groups: Mapping[str, tuple[str, ...]]  # of environments or rows
    values: tuple[tuple[str, str, str, str, Any], ...]  # section, environments, rows, path, value
    departures: tuple[tuple[str, str, str, Any, Any, str], ...]  # no section; ours, and its name

    def named(self, words: str) -> tuple[str, ...]:
        """Name the environments or rows of groups."""
        return tuple(name for word in words.split() for name in self.groups.get(word, (word,)))


@cache
def comments(kind: type) -> Mapping[str, str]:
    """Read the comment at the end of the line of each field of a dataclass."""
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):  # made by a program
        return {}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    said = {one.end[0]: one.string.lstrip("# ") for one in tokens if one.type == tokenize.COMMENT}
    body = typing.cast(ast.ClassDef, ast.parse(source).body[0]).body
    found = [node for node in body if isinstance(node, ast.AnnAssign)]
    return {ast.unparse(node.target): said.get(node.end_lineno or 0, "") for node in found}


def options_in(record: Any, prefix: str = "") -> Iterator[Option]:
    """List the options in a record, and in the records inside it."""
    kinds = [kind for kind in type(record).__mro__ if is_dataclass(kind)]
    hints = typing.get_type_hints(kinds[0])
    said = {name: text for kind in reversed(kinds) for name, text in comments(kind).items()}
    for item in fields(record):
        path, value = f"{prefix}{item.name}", getattr(record, item.name)
        hint = hints[item.name]
        inside: list[Any] = [one for one in (hint, *typing.get_args(hint)) if is_dataclass(one)]
        if inside:
            yield from options_in(inside[0]() if value is None else value, f"{path}.")
        else:
            shown = inspect.formatannotation(hint).replace("typing.", "")
            yield Option(path, shown, json.dumps(value), said.get(item.name, ""))


def all_options() -> dict[Option, list[str]]:
    """Return every option with the methods, embedders or sources that have it; none: every run."""
    whole = options_in(RunConfig("", "dt", None, collect=None))
    found: dict[Option, list[str]] = {one: [] for one in whole if one.path not in CHOSEN}
    for part, registry in CHOSEN.items():
        for name in registry.names():
            for option in options_in(registry[name].options(), f"{part}."):
                found.setdefault(option, []).append(name)
    return found


def meant(name: str) -> dict[Option, list[str]]:
    """Find what a path, the beginning of paths or the last word of some stands for."""
    known = all_options()
    inside = [one for one in known if f"{one.path}.".startswith(f"{name}.")]
    found = inside or [one for one in known if one.path.endswith(f".{name}")]
    if not found:
        paths = {one.path if "." in name else one.path.rpartition(".")[2] for one in known}
        raise UnknownNameError("option", name, sorted(paths))
    return {one: known[one] for one in found}


def by_row(path: str, env: str) -> dict[Values, list[str]]:
    """Return an option's values at each budget, and the rows (or sources) that have them."""
    sources = path.startswith("collect.")
    names = SOURCES.names() if sources else [*ORDER, *sorted({*variant_names()} - {*ORDER})]
    given = {name: _values(path, env, name, sources) for name in names}
    return _grouped(given)


def by_environment(path: str, like: str) -> dict[Values, list[str]]:
    """Return the same of the usual run in each environment that differs from one of them."""
    row, sources = ("ppo", True) if path.startswith("collect.") else ("ra-dt", False)
    given = {env: _values(path, env, row, sources) for env in SUITES.names()}
    return _grouped({env: values for env, values in given.items() if values != given[like]})


def _values(path: str, env: str, name: str, is_source: bool) -> Values:
    row, said = ("random", {"source": name}) if is_source else (name, {})
    layers = (preset_layers(env, row, budget, Layer("explain", said)) for budget in BUDGETS)
    found = (leaves(compose(layer)[0].to_json()) for layer in layers)
    return tuple(json.dumps(one[path]) for one in found if path in one)


def _grouped(given: Mapping[str, Values]) -> dict[Values, list[str]]:
    found: dict[Values, list[str]] = {}
    for name, values in given.items():
        if values:
            found.setdefault(values, []).append(name)
    return found


@cache
def paper_table() -> PaperTable:
    """Read the paper's table."""
    return read_json(PAPER, PaperTable, "install radt again")


def by_paper(path: str) -> list[dict[str, Any]]:
    """Return what the paper says of an option, for what, and where we say otherwise."""
    table = paper_table()
    given = [(f"appendix {section}", *rest) for section, *rest in table.values]
    given += [
        (f"{name!r} in docs/departures.md, ours is {json.dumps(ours)}", envs, rows, own, value)
        for envs, rows, own, value, ours, name in table.departures
    ]
    return [
        {"value": value, "envs": table.named(envs), "rows": table.named(rows), "where": where}
        for where, envs, rows, own, value in given
        if own == path
    ]
