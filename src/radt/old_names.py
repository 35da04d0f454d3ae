"""What had another name before: old files, `--set` paths and command lines go on working.

A name is only translated where the new one is known and the old one is not, so that a plug-in's
options may be called as it likes.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

FIELDS: Mapping[str, str] = {  # options and columns of files: old name -> new name
    "renamed": "translate",
    "legs": "subgoals",
    "erase_loops": "loop_erased",
    "best_fraction": "top_fraction",
    "least_return": "min_return",
    "beginnings": "start_windows",
    "from_start": "start_chunks",
    "cut_short": "truncated_chunks",
    "skip": "episode_gap",
    "farthest": "most_rewards",
    "doubts": "back_off",
    "reveal": "privileged",
    "found_by": "solved_by",
    "after_finding": "return_after_success",
}
MOVED: Mapping[str, str] = {  # options of one method once, now around any: old name -> new path
    "novelty": "exploration.count_bonus",
    "restless": "exploration.revisit_penalty",
    "count_bonus": "exploration.count_bonus",
    "revisit_penalty": "exploration.revisit_penalty",
}
VALUES: Mapping[str, Mapping[str, str]] = {  # what fields hold: field -> old value -> new value
    "utility": {"way": "aligned-return"},
    "source": {"annealed": "noisy-expert"},
}

# Options that did not help and went, with the value that leaves them out.
REMOVED: Mapping[str, Any] = {"shared_states": False, "arrival_reward": False}


def translated(values: Mapping[str, Any], known: Container[str]) -> dict[str, Any]:
    """Give fields their new names, and leave out removed ones that were not in use."""
    now: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            if name in REMOVED and value == REMOVED[name]:
                continue
            if FIELDS.get(name, name) in known:
                name = FIELDS[name]
        now[name] = new_value(name, value)
    return now


def moved(values: Mapping[str, Any], options: Container[str]) -> dict[str, Any]:
    """Put values of a config where they are now, unless the method's own options have their names.

    What is said at the new place counts.
    """
    said = values.get("options")
    if not isinstance(said, Mapping):
        return dict(values)
    away = {name for name in said if name in MOVED and name not in options}
    now: dict[str, Any] = {**values, "options": {n: v for n, v in said.items() if n not in away}}
    for name in away:
        group, _, field = MOVED[name].partition(".")
        now[group] = {field: said[name], **now.get(group, {})}
    return now


def with_old_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Give fields their old names again, as they were when a hash was made of them."""
    old = {new: name for name, new in FIELDS.items()}
    return {old.get(name, name): value for name, value in values.items()}


def new_value(field: str, value: Any) -> Any:
    """Return what a field holds now where it held this before."""
    return VALUES.get(field, {}).get(value, value) if isinstance(value, str) else value


def old_value(field: str, value: str) -> str:
    """Return what a field held where it holds this now."""
    return {new: old for old, new in VALUES.get(field, {}).items()}.get(value, value)


def with_meant_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Say what a config or card from before labels meant where it says nothing."""
    options = values.get("options")
    if not isinstance(options, Mapping):
        return dict(values)
    training = options.get("training")
    if not isinstance(training, Mapping) or "query" in training:
        return dict(values)
    meant = {"min_length": 10, **training, "query": "prefix"}
    return {**values, "options": {**options, "training": meant}}
