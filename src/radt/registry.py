"""Names for what can be plugged in, from this package or from another one.

Each plug point has one `Registry`. A third party adds to it from outside with an entry point of the
group `radt.<kind>`, so that its name works on the command line as the built-in ones do.
"""

from __future__ import annotations

import difflib
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

T = TypeVar("T")


class UnknownNameError(KeyError):
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
    """A dictionary of one kind of plug-in that also looks among installed entry points."""

    def __init__(self, kind: str, noun: str) -> None:
        """Name what is registered: many, as in entry points, and one, as in messages."""
        self.kind, self.noun = kind, noun
        self._items: dict[str, T] = {}

    def register(self, name: str, item: T) -> T:
        """Add `item` under a name that is still free."""
        if self._items.get(name, item) is not item:
            raise ValueError(f"the {self.noun} name {name!r} is taken")
        self._items[name] = item
        return item

    def names(self) -> list[str]:
        """All names, built-in and from entry points."""
        return sorted({*self._items, *(point.name for point in self._points())})

    def __getitem__(self, name: str) -> T:
        if name not in self._items:
            for point in self._points():
                if point.name == name:
                    self._items[name] = point.load()
                    break
            else:
                raise UnknownNameError(self.noun, name, self.names())
        return self._items[name]

    def _points(self) -> list[EntryPoint]:
        return list(entry_points(group=f"radt.{self.kind}"))
