"""Options are explained by what stands beside them in the source, and by what presets do."""

from __future__ import annotations

from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Literal

import pytest

import radt
from radt.decode import leaves
from radt.envs.suite import SUITES
from radt.registry import UnknownNameError
from radt.runs.options import (
    BUDGETS,
    Option,
    all_options,
    by_paper,
    by_row,
    meant,
    options_in,
    paper_table,
)
from radt.variants import variant_names


@dataclass(frozen=True)
class Inner:
    depth: int = 3  # how deep; really
    plain: str = "x"


@dataclass(frozen=True)
class Outer(Inner):
    inner: Inner = field(default_factory=lambda: Inner(depth=5))  # not an option itself
    other: Inner | None = None
    way: Literal["a", "b"] = "a"  # this or that


def test_options_are_read_from_the_source() -> None:
    assert list(options_in(Outer(), "x.")) == [
        Option("x.depth", "int", "3", "how deep; really"),
        Option("x.plain", "str", '"x"', ""),
        Option("x.inner.depth", "int", "5", "how deep; really"),
        Option("x.inner.plain", "str", '"x"', ""),
        Option("x.other.depth", "int", "3", "how deep; really"),
        Option("x.other.plain", "str", '"x"', ""),
        Option("x.way", "Literal['a', 'b']", '"a"', "this or that"),
    ]


def test_a_dataclass_without_source_has_options_without_a_meaning() -> None:
    made = make_dataclass("Made", [("size", int, 1)])
    assert list(options_in(made())) == [Option("size", "int", "1", "")]


@pytest.mark.parametrize("row", ["ra-dt", "ra-dt-lm", "ad", "dpt", "rl2"])
def test_every_value_of_a_config_is_an_option(row: str) -> None:
    values = leaves(radt.preset("dark-room-10x10", row).to_json())
    absent = ("options", "embedder", "encoder")  # where there is nothing to choose
    assert values.keys() - {one.path for one in all_options()} <= {*absent}


def test_every_option_says_what_it_means() -> None:
    assert [one.path for one in all_options() if not one.meaning] == []


def test_a_name_stands_for_a_path_its_beginning_or_its_end() -> None:
    assert {one.path for one in meant("options.memory.alpha")} == {"options.memory.alpha"}
    assert {one.path for one in meant("alpha")} == {
        "options.memory.alpha",
        "options.training.alpha",
    }
    assert all(one.path.startswith("learn.") for one in meant("learn"))
    with pytest.raises(UnknownNameError, match=r"did you mean 'options\.memory\.alpha'"):
        meant("options.memory.alhpa")
    with pytest.raises(UnknownNameError, match="'alpha'"):
        meant("alpa")


@pytest.mark.parametrize("path", ["options.memory.alpha", "learn.batch_size", "collect.n_epochs"])
def test_values_are_those_of_the_presets(path: str) -> None:
    env = "maze-runner-15x15"
    grouped = by_row(path, env)
    known = {name: values for values, names in grouped.items() for name in names}
    assert len(known) == sum(map(len, grouped.values()))
    for row in known.keys() & {*variant_names()}:
        for budget, value in zip(BUDGETS, known[row], strict=True):
            assert value == str(leaves(radt.preset(env, row, budget).to_json())[path])


def test_the_papers_values_are_told() -> None:
    (said,) = by_paper("options.memory.similarity")
    assert said["value"] == "inner product"
    assert "departures" in said["where"]
    assert {one["value"] for one in by_paper("options.memory.context_len")} == {50, 100}
    assert by_paper("seed") == []


DEPARTURES_PAGE = Path(__file__).parents[2] / "docs" / "departures.md"
PAPER = paper_table()
EVERY, ALL = PAPER.named("every"), PAPER.named("all")
TARGETS = {
    **dict.fromkeys(PAPER.named("dark"), (90, 5)),
    **dict.fromkeys(PAPER.named("large"), (370, 10)),
    **dict.fromkeys(PAPER.named("largest"), (500, 10)),
    **dict.fromkeys(PAPER.named("maze"), (3, 0)),
}


@pytest.mark.parametrize("row", EVERY)
@pytest.mark.parametrize("env", ALL)
def test_every_value_is_the_papers_or_a_departure(env: str, row: str) -> None:
    """At paper budget, by the table that `radt config explain` shows (appendices B and C)."""
    values = leaves(radt.preset(env, row, "paper").to_json())
    expected = {
        path: value
        for _, envs, rows, path, value in PAPER.values
        if env in PAPER.named(envs) and row in PAPER.named(rows)
    }
    for envs, rows, path, papers, ours, _ in PAPER.departures:
        if env in PAPER.named(envs) and row in PAPER.named(rows):
            assert ours != papers
            assert path not in expected
            expected[path] = ours
    assert {path: values[path] for path in expected} == expected


def test_departures_are_told() -> None:
    page = DEPARTURES_PAGE.read_text()
    for *_, name in PAPER.departures:
        assert f"| {name}" in page, name


@pytest.mark.parametrize("env", ALL)
def test_target_returns_are_the_papers(env: str) -> None:
    assert SUITES[env].target_return == TARGETS[env]
