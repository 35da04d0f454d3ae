"""One strict decoder from plain values (JSON, presets, `--set a.b=c`) to frozen dataclasses.

An unknown name is answered with the nearest known ones, a wrong type with what was expected.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import sys
import types
import typing
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from radt.errors import RadtError
from radt.files import open_plain
from radt.old_names import FIELDS, MOVED, REMOVED, translated

T = TypeVar("T")
MOST_BYTES, DEEPEST = 1 << 26, 64  # of a JSON file
MOST_NAMED = 6  # differences in a message


class DecodeError(RadtError, ValueError):
    """A value that does not fit where it was put; the message says what would."""


def decode(kind: type[T], value: Any, where: str = "") -> T:
    """Turn plain values into `kind`, strictly."""
    return typing.cast(T, _decode(kind, value, where))


def _decode(kind: Any, value: Any, where: str) -> Any:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return _decode_record(typing.cast(type, kind), value, where)
    if origin in (typing.Union, types.UnionType):
        return _decode_union(inner, value, where)
    if origin is typing.Literal:
        return _one_of(inner, value, where)
    if origin is tuple:
        return _decode_tuple(inner, value, where)
    if origin is list:
        return [_decode(inner[0], item, where) for item in _as_list(value, where)]
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise _wrong("an object", value, where)
        return {str(key): _decode(inner[1], item, f"{where}.{key}") for key, item in value.items()}
    return _decode_plain(kind, value, where)


def _decode_record(kind: type, value: Any, where: str) -> Any:
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise _wrong(f"an object with the fields of {kind.__name__}", value, where)
    hints = _hints(kind)
    known = {item.name for item in dataclasses.fields(kind)}
    value = translated(value, known)
    for name in value:
        if name not in known:
            raise DecodeError(f"{_at(where)}{unknown(name, known)}")
    missing = [
        item.name
        for item in dataclasses.fields(kind)
        if item.name not in value
        and item.default is dataclasses.MISSING
        and item.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise DecodeError(f"{_at(where)}missing {', '.join(missing)}")
    inside = {n: _decode(hints[n], v, f"{where}.{n}" if where else n) for n, v in value.items()}
    try:
        return kind(**inside)
    except DecodeError:
        raise
    except ValueError as error:
        raise DecodeError(f"{_at(where)}{error}") from error


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode_union(options: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in options:
        return None
    errors = []
    for option in options:
        if option is not type(None):
            try:
                return _decode(option, value, where)
            except DecodeError as error:
                errors.append(str(error))
    raise DecodeError("; or ".join(dict.fromkeys(errors)))


def _decode_tuple(inner: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    items = _as_list(value, where)
    if len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(_decode(inner[0], item, where) for item in items)
    if len(items) != len(inner):
        raise _wrong(f"{len(inner)} values", value, where)
    return tuple(_decode(kind, item, where) for kind, item in zip(inner, items, strict=True))


def _decode_plain(kind: Any, value: Any, where: str) -> Any:
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        if not -sys.float_info.max <= value <= sys.float_info.max:
            raise _wrong("a finite number", value, where)
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _wrong(kind.__name__, value, where)
    return value


def _one_of(allowed: tuple[Any, ...], value: Any, where: str) -> Any:
    if value not in allowed:
        raise DecodeError(f"{_at(where)}{value!r} is not one of {', '.join(map(repr, allowed))}")
    return value


def _as_list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise _wrong("a list", value, where)
    return list(value)


def _wrong(expected: str, value: Any, where: str) -> DecodeError:
    return DecodeError(f"{_at(where)}expected {expected}, got {repr(value)[:80]}")


def _at(where: str) -> str:
    return f"{where}: " if where else ""


def unknown(name: str, known: set[str]) -> str:
    """Say that a name is not known, and which was meant, also by one that it had before."""
    if name in REMOVED:
        return (
            f"{name!r} was removed, as it did not help; leave it out. Files that use it are read "
            "by radt 0.1.0 and older"
        )
    before = {old: new for old, new in FIELDS.items() if new in known} | dict(MOVED)
    for old in difflib.get_close_matches(name, before, n=1, cutoff=0.7):
        return f"unknown name {name!r}; did you mean {before[old]}, which was called {old}?"
    return f"unknown name {name!r}; {nearest(name, known)}"


def nearest(name: str, known: typing.Iterable[str]) -> str:
    """Suggest the known names nearest to one that is not."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(names)}"


def read_json(path: Path, kind: type[T], advice: str, error: type[RadtError] = DecodeError) -> T:
    """Decode a JSON file strictly; of a damaged one, say what to do.

    One that may not be read is not damaged: the system's own error says so.
    """
    try:
        with open_plain(path) as file:
            if (size := os.fstat(file.fileno()).st_size) > MOST_BYTES:
                raise ValueError(f"it has {size:,} bytes, more than {MOST_BYTES:,}")
            return decode(kind, parse_json(file.read()))
    except ValueError as reason:
        raise error(f"{path} is damaged ({reason}); {advice}") from reason


def parse_json(text: str | bytes) -> Any:
    """Read JSON as the standard has it: numbers are finite, names unique, and nothing too deep."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
        _check_depth(value, DEEPEST)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("the same key is given twice")
    return dict(pairs)


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is not a number here")


def _check_depth(value: Any, left: int) -> None:
    if left == 0:
        raise RecursionError
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, left - 1)


WORDS = {  # of Python, where JSON has others or none
    "None": None,
    "True": True,
    "False": False,
    **{name: float(name) for name in ("NaN", "Infinity", "-Infinity")},  # refused with a reason
}


def parse_assignment(text: str) -> tuple[tuple[str, ...], Any]:
    """Read `a.b=c`: a path of names and a JSON value, or a bare word taken as text."""
    path, equals, raw = text.partition("=")
    if not equals or not path:
        raise DecodeError(f"{text!r} is not of the form name.name=value")
    try:
        value = parse_json(raw)
    except ValueError:
        value = WORDS.get(raw, raw)
    return tuple(path.strip().split(".")), value


def leaves(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested values to dotted paths."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        path = f"{prefix}{name}"
        flat |= leaves(value, f"{path}.") if isinstance(value, Mapping) and value else {path: value}
    return flat


def named(unlike: list[str], between: str = "; ") -> str:
    """Name the first few of some differences, whole parts before what is inside them."""
    ordered = sorted(unlike, key=lambda line: line.partition(":")[0].count("."))
    more = len(ordered) - MOST_NAMED
    return between.join([*ordered[:MOST_NAMED], *([f"and {more} more"] if more > 0 else [])])


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], where: tuple[str, str] = ("there", "now")
) -> list[str]:
    """Say which of some nested values differ, e.g. `learn.updates: 6 there, 7 now`."""
    before, after = leaves(old), leaves(new)
    return [
        f"{path}: {before.get(path)!r} {where[0]}, {after.get(path)!r} {where[1]}"
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]
