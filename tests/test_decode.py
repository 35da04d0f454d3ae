from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radt.decode import DecodeError, decode, nearest, parse_assignment


@dataclass(frozen=True)
class Inner:
    size: int = 3
    name: str = "x"
    kind: Literal["big", "small"] = "big"

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError(f"size must not be negative, got {self.size}")


@dataclass(frozen=True)
class Outer:
    needed: int
    rate: float = 0.5
    on: bool = False
    inner: Inner = field(default_factory=Inner)
    maybe: float | None = None
    either: int | str = 0
    shape: tuple[int, ...] = ()
    pair: tuple[int, str] = (1, "a")
    nested: tuple[tuple[int, int], ...] = ()
    words: list[str] = field(default_factory=list)
    table: dict[str, int] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    anything: Any = None
    record: Inner | None = None


GOOD: list[tuple[str, Any, Any]] = [
    ("needed", 3, 3),
    ("rate", 2, 2.0),
    ("rate", 1e-3, 1e-3),
    ("on", True, True),
    ("inner", {"size": 5}, Inner(5)),
    ("inner", Inner(7), Inner(7)),
    ("maybe", None, None),
    ("maybe", 2, 2.0),
    ("either", "text", "text"),
    ("either", 4, 4),
    ("shape", [1, 2, 3], (1, 2, 3)),
    ("shape", (), ()),
    ("pair", [2, "b"], (2, "b")),
    ("nested", [[1, 2], [3, 4]], ((1, 2), (3, 4))),
    ("words", ["a"], ["a"]),
    ("table", {"a": 1}, {"a": 1}),
    ("facts", {"a": [1, None]}, {"a": [1, None]}),
    ("anything", {"b": [1]}, {"b": [1]}),
    ("record", None, None),
    ("record", {"kind": "small"}, Inner(kind="small")),
]


@pytest.mark.parametrize(("name", "given_value", "expected"), GOOD)
def test_what_fits_is_taken(name: str, given_value: Any, expected: Any) -> None:
    found = getattr(decode(Outer, {"needed": 1, name: given_value}), name)
    assert found == expected
    assert type(found) is type(expected)


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, r"missing needed"),
    ({"needed": "3"}, r"needed: expected int, got '3'"),
    ({"needed": 3.0}, r"needed: expected int, got 3.0"),
    ({"needed": True}, r"needed: expected int, got True"),
    ({"needed": None}, r"needed: expected int, got None"),
    ({"needed": 1, "rate": "fast"}, r"rate: expected float, got 'fast'"),
    ({"needed": 1, "rate": True}, r"rate: expected float, got True"),
    ({"needed": 1, "rate": float("nan")}, r"rate: expected a finite number, got nan"),
    ({"needed": 1, "rate": float("inf")}, r"rate: expected a finite number, got inf"),
    ({"needed": 1, "rate": 10**400}, r"rate: expected a finite number"),
    ({"needed": 1, "on": 1}, r"on: expected bool, got 1"),
    ({"needed": 1, "inner": 3}, r"inner: expected an object with the fields of Inner, got 3"),
    ({"needed": 1, "inner": {"sice": 3}}, r"inner: unknown name 'sice'; did you mean size\?"),
    ({"needed": 1, "inner": {"kind": "huge"}}, r"inner.kind: 'huge' is not one of 'big', 'small'"),
    ({"needed": 1, "inner": {"size": -1}}, r"inner: size must not be negative, got -1"),
    ({"needed": 1, "maybe": "x"}, r"maybe: expected float, got 'x'"),
    ({"needed": 1, "either": 0.5}, r"either: expected int, got 0.5; or either: expected str"),
    ({"needed": 1, "shape": 3}, r"shape: expected a list, got 3"),
    ({"needed": 1, "shape": "12"}, r"shape: expected a list"),
    ({"needed": 1, "shape": [1, "2"]}, r"shape: expected int, got '2'"),
    ({"needed": 1, "pair": [1]}, r"pair: expected 2 values, got \[1\]"),
    ({"needed": 1, "nested": [[1, 2, 3]]}, r"nested: expected 2 values"),
    ({"needed": 1, "words": "abc"}, r"words: expected a list"),
    ({"needed": 1, "table": [1]}, r"table: expected an object, got \[1\]"),
    ({"needed": 1, "table": {"a": "b"}}, r"table.a: expected int, got 'b'"),
    ({"needed": 1, "facts": []}, r"facts: expected an object"),
    ({"needed": 1, "record": {"size": "1"}}, r"record.size: expected int"),
    ({"needed": 1, "neded": 2}, r"unknown name 'neded'; did you mean needed or"),
    ({"needed": 1, "zzz": 2}, r"unknown name 'zzz'; known are anything, either, "),
]


@pytest.mark.parametrize(("values", "message"), BAD)
def test_what_does_not_fit_is_answered_with_what_would(
    values: dict[str, Any], message: str
) -> None:
    with pytest.raises(DecodeError, match=message):
        decode(Outer, values)


def test_the_place_is_named_from_the_outside() -> None:
    with pytest.raises(DecodeError, match=r"^run\.json\.inner\.size: expected int"):
        decode(Outer, {"needed": 1, "inner": {"size": "3"}}, "run.json")


def test_long_values_are_cut_in_the_message() -> None:
    with pytest.raises(DecodeError) as caught:
        decode(Outer, {"needed": "x" * 10_000})
    assert len(str(caught.value)) < 200


@given(
    st.builds(
        Outer,
        needed=st.integers(),
        rate=st.floats(allow_nan=False, allow_infinity=False),
        maybe=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        either=st.integers() | st.text(),
        shape=st.lists(st.integers()).map(tuple),
        pair=st.tuples(st.integers(), st.text()),
        table=st.dictionaries(st.text(), st.integers()),
        inner=st.builds(Inner, size=st.integers(0), name=st.text()),
        record=st.none() | st.builds(Inner, size=st.integers(0)),
    )
)
def test_json_and_back(value: Outer) -> None:
    assert decode(Outer, json.loads(json.dumps(dataclasses.asdict(value)))) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([f.name for f in dataclasses.fields(Outer)]), inner)
    ),
    max_leaves=10,
)


@given(JSON)
def test_any_json_decodes_or_is_refused(value: Any) -> None:
    try:
        found = decode(Outer, value)
    except DecodeError:
        return
    assert isinstance(found, Outer)


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("a=1", ("a",), 1),
        ("a.b.c=0.5", ("a", "b", "c"), 0.5),
        ("a=true", ("a",), True),
        ("a=True", ("a",), True),
        ("a=null", ("a",), None),
        ("a=None", ("a",), None),
        ("a=[1, 2]", ("a",), [1, 2]),
        ('a={"b": 1}', ("a",), {"b": 1}),
        ("a=ra-dt", ("a",), "ra-dt"),
        ('a="1"', ("a",), "1"),
        ("a=", ("a",), ""),
        ("a=b=c", ("a",), "b=c"),
    ],
)
def test_assignments(text: str, path: tuple[str, ...], value: Any) -> None:
    assert parse_assignment(text) == (path, value)


@pytest.mark.parametrize("text", ["", "a", "=1", "a.b"])
def test_other_texts_are_no_assignments(text: str) -> None:
    with pytest.raises(DecodeError, match=r"is not of the form name\.name=value"):
        parse_assignment(text)


def test_nearest_names() -> None:
    assert nearest("widht", ["width", "heads"]) == "did you mean width?"
    assert nearest("colour", ["width", "heads"]) == "known are heads, width"
