"""What had another name before: old files, `--set` paths and command lines go on working.

A name is only translated where the new one is known and the old one is not, so that a plug-in's
options may be called as it likes.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

OPTIONS: Mapping[str, str] = {}  # fields of records: old name -> new name
VALUES: Mapping[str, Mapping[str, str]] = {}  # names that fields hold: field -> old -> new

# Options that did not help and went, with the value that leaves them out.
REMOVED: Mapping[str, Any] = {"shared_states": False, "arrival_reward": False}


def translated(values: Mapping[str, Any], known: Container[str]) -> dict[str, Any]:
    """Give fields their new names, and leave out removed ones that were not in use."""
    now: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            if name in REMOVED and value == REMOVED[name]:
                continue
            if OPTIONS.get(name, name) in known:
                name = OPTIONS[name]
        if isinstance(value, str):
            value = VALUES.get(name, {}).get(value, value)
        now[name] = value
    return now
