"""Names for what can be plugged in: from this package, from another one, or from a single file.

Each plug point has one `Registry`. Others add to it from outside, so that their names work on the
command line as the built-in ones do: a package with an entry point of the group `radt.<kind>`, a
file by standing in $RADT_PLUGINS (see `radt.plugins`).
"""

from __future__ import annotations

import difflib
import importlib
import os
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from radt.errors import RadtError

PLUGINS = "RADT_PLUGINS"
T = TypeVar("T")


class PluginError(RadtError, ValueError):
    """Something from outside that cannot be plugged in; the message says why and what to do."""


class UnknownNameError(RadtError, KeyError):
    """A name that nothing is registered under; the message lists the nearest ones."""

    def __init__(self, noun: str, name: str, known: list[str]) -> None:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        meant = f"did you mean {' or '.join(map(repr, near))}?"
        every = f"choose among {', '.join(known)}"
        self.message = f"unknown {noun} {name!r}; {meant if near else every}"
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message


class Registry(Generic[T]):
    """A dictionary of one kind of plug-in that also knows what is plugged in from outside."""

    def __init__(self, kind: str, noun: str) -> None:
        """Name what is registered: many, as in entry points, and one, as in messages."""
        self.kind, self.noun = kind, noun
        self._items: dict[str, T] = {}
        REGISTRIES.append(self)

    def register(self, name: str, item: T) -> T:
        """Add `item` under a name that is still free."""
        if self._items.get(name, item) is not item:
            raise ValueError(f"the {self.noun} name {name!r} is taken")
        self._items[name] = item
        return item

    def names(self) -> list[str]:
        """All names: built-in, from files and from entry points."""
        load_plugins()
        return sorted({*self._items, *(point.name for point in offered(self.kind))})

    def __getitem__(self, name: str) -> T:
        load_plugins()
        for point in offered(self.kind):
            if point.name == name:
                self._add(point)
        if name not in self._items:
            raise UnknownNameError(self.noun, name, self.names())
        return self._items[name]

    def _add(self, point: EntryPoint) -> None:
        """Register what an entry point names, unless its module has done so when it was loaded."""
        try:
            self.register(point.name, point.load())
        except Exception as error:
            package = point.dist.name if point.dist else point.value
            raise PluginError(
                f"the {self.noun} {point.name!r} that the package {package} offers cannot be used: "
                f"{type(error).__name__}: {error}; mend the package or uninstall it"
            ) from error


REGISTRIES: list[Registry[Any]] = []


def registered() -> set[tuple[str, str]]:
    """List what is registered by now, each by its kind and name."""
    return {(registry.kind, name) for registry in REGISTRIES for name in registry._items}


@cache
def offered(kind: str) -> tuple[EntryPoint, ...]:
    """Return what the installed packages offer of one kind."""
    return tuple(entry_points(group=f"radt.{kind}"))


def plugin_files() -> list[Path]:
    """Return the files of $RADT_PLUGINS, which are separated as those of $PATH."""
    words = os.environ.get(PLUGINS, "").split(os.pathsep)
    return [Path(word).absolute() for word in words if word]


def load_plugins() -> None:
    """Load the files of $RADT_PLUGINS, the first time that a name is looked up."""
    if os.environ.get(PLUGINS):
        importlib.import_module("radt.plugins")  # which needs the rooms above this one
