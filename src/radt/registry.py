"""Names for what can be plugged in: from this package, from another one, or from a single file.

Each plug point has one `Registry`. Others add to it from outside, so that their names work on the
command line as the built-in ones do: a package with an entry point of the group `radt.<kind>`, a
file by standing in $RADT_PLUGINS (see `radt.plugins`).
"""

from __future__ import annotations

import difflib
import importlib
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
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

    def __init__(self, noun: str, name: str, known: list[str], hint: str = "") -> None:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        meant = f"did you mean {' or '.join(map(repr, near))}?"
        every = f"choose among {', '.join(known)}"
        self.message = f"unknown {noun} {name!r}; {meant if near else every}{hint}"
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message


class Registry(Generic[T]):
    """A dictionary of one kind of plug-in that also knows what is plugged in from outside."""

    def __init__(self, kind: str, noun: str) -> None:
        """Name what is registered: many, as in entry points, and one, as in messages."""
        self.kind, self.noun = kind, noun
        self._items: dict[str, T] = {}
        self._files: dict[str, Path | None] = {}  # that registered them; None: one of radt's own
        REGISTRIES.append(self)

    def register(self, name: str, item: T, file: Path | None = None) -> T:
        """Add `item` under a name that is still free, or taken by the same file, imported twice."""
        file = file or _registering_file()
        if self._items.get(name, item) is not item:
            if file is not None and file == self._files.get(name):
                return self._items[name]
            raise ValueError(f"the {self.noun} name {name!r} is taken")
        self._items[name], self._files[name] = item, file
        return item

    def names(self) -> list[str]:
        """All names: built-in, from files and from entry points."""
        load_plugins()
        return sorted({*self._items, *(point.name for point in offered(self.kind))})

    def is_from_outside(self, name: str) -> bool:
        """Tell whether something was plugged in rather than built in."""
        points = {point.name for point in offered(self.kind)}
        return name in points or self._files.get(name) is not None

    def __getitem__(self, name: str) -> T:
        load_plugins()
        for point in offered(self.kind):
            if point.name == name:
                self._add(point)
        if name not in self._items:
            hint = "" if plugin_files() else f" If it is your own, {PLUGINS}=FILE.py must name it."
            raise UnknownNameError(self.noun, name, self.names(), hint)
        return self._items[name]

    def _add(self, point: EntryPoint) -> None:
        """Register what an entry point names, unless its module has done so when it was loaded."""
        try:
            item, file = point.load(), getattr(sys.modules.get(point.module), "__file__", None)
            self.register(point.name, item, None if file is None else Path(file).resolve())
        except Exception as error:
            package = point.dist.name if point.dist else point.value
            raise PluginError(
                f"the {self.noun} {point.name!r} that the package {package} offers cannot be used: "
                f"{type(error).__name__}: {error}; mend the package or uninstall it"
            ) from error


def _registering_file() -> Path | None:
    """Return the file outside of radt that is registering something now."""
    frame = sys._getframe(2)
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module.startswith("importlib."):  # a module of radt's own registers itself
            return None
        if not module.startswith("radt.") or module.startswith("radt.plugins."):
            return Path(frame.f_code.co_filename).resolve()
        frame = frame.f_back  # type: ignore[assignment]
    return None


REGISTRIES: list[Registry[Any]] = []
LOADED: dict[Path, str] = {}  # files of $RADT_PLUGINS, and the sha256 of each when it was loaded


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


def plugins_behind(names: Iterable[Any]) -> dict[str, str]:
    """Return the files of $RADT_PLUGINS that registered some of `names`, each with its sha256."""
    load_plugins()
    found = _files_behind(names)
    return {file.name: LOADED[file.resolve()] for file in plugin_files() if file.resolve() in found}


def _files_behind(names: Iterable[Any]) -> set[Path]:
    """Return the loaded plug-ins that registered some of `names`."""
    said = {name for name in names if isinstance(name, str)}
    files = {
        registry._files.get(name)
        for registry in REGISTRIES
        for name in said & registry._items.keys()
    }
    return {file for file in files if file is not None and file in LOADED}


def plugin_changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Name the plug-ins whose content is not what it was; older files do not tell what it was."""
    lost = set(before.values()) - set(now.values())
    return sorted(name for name, content in before.items() if content in lost) if now else []


def with_plugins(command: str, names: Iterable[Any]) -> str:
    """Begin a command with the $RADT_PLUGINS it needs; paths are told only inside this folder."""
    here, behind = Path.cwd(), _files_behind(names)
    files = [file for file in plugin_files() if file.resolve() in behind]
    shown = [str(f.relative_to(here)) if f.is_relative_to(here) else f.name for f in files]
    return f"{PLUGINS}={shlex.quote(os.pathsep.join(shown))} {command}" if shown else command
