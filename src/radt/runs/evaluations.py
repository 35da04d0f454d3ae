"""All evaluations of some weights: the method itself, its controls, and other action rules.

They have tasks, trials and random numbers in common. Each is a file until the record that holds all
of them is written, so that a killed evaluation goes on with what is missing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from radt.action_rules import ActionRule
from radt.decode import DecodeError, read_json
from radt.files import atomic_write, sha256
from radt.icl import Observer
from radt.memory.demonstrations import can_demonstrate
from radt.memory.language import flush_embeddings
from radt.methods import Method
from radt.methods.controls import changes_nothing, possible
from radt.methods.method import head_of
from radt.runs.roll_out import RollOut, Trials
from radt.sealed import json_seal
from radt.track import Tracker
from radt.version import code_version

MAIN, ERASED = "main", "erased"


@dataclass(frozen=True)
class _Kept:
    stamp: str
    part: dict[str, Any]


@dataclass(frozen=True)
class Parts:
    """A folder of finished parts of one record."""

    folder: Path
    stamp: str  # of weights and code; parts with another one are made again

    def get(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return a part that is there, or make and keep it."""
        file = self.folder / f"{name}.json"
        with suppress(FileNotFoundError, DecodeError):  # a damaged one is made again
            kept = read_json(file, _Kept, "")
            if kept.stamp == self._seal(name, kept.part):
                return kept.part
        part = make()
        kept = _Kept(self._seal(name, part), part)
        atomic_write(file, (json.dumps(asdict(kept)) + "\n").encode())
        return part

    def _seal(self, name: str, part: dict[str, Any]) -> str:
        """Hash a part with its name and what it depends on."""
        return json_seal({"stamp": self.stamp, "name": name, "part": part})

    def drop(self, name: str) -> None:
        (self.folder / f"{name}.json").unlink(missing_ok=True)

    def close(self) -> None:
        """Delete all parts: the record holds them."""
        shutil.rmtree(self.folder, ignore_errors=True)


def evaluations(
    method: Method, trials: Trials, rules: Mapping[str, ActionRule], controls: Sequence[str]
) -> dict[str, Trials]:
    """Name all that is evaluated: the method itself, its controls, other rules.

    What cannot be is left out: controls that the method or the suite has nothing for, and other
    rules where one action is certain, so that no rule has a choice. Other rules are evaluated with
    the control `erased`, where that is asked for.
    """
    actor = method.actor(len(trials.tasks))
    usable = [control for control in controls if possible(control, actor, trials.tasks)]
    if "oracle" in usable and not can_demonstrate(trials.suite):
        usable.remove("oracle")
    asked = {MAIN: trials} | {
        control: replace(trials, control=control, title=f"evaluate {control}") for control in usable
    }
    sampled = head_of(method).sampled and method.networks  # what learns nothing is certain
    for name, rule in rules.items() if sampled else ():
        if rule != trials.rule:
            asked[name] = replace(trials, rule=rule, title=f"evaluate {name}")
            if "erased" in usable:
                title = f"evaluate {name} {ERASED}"
                asked[f"{name}-{ERASED}"] = replace(asked[name], control=ERASED, title=title)
    return asked


def evaluate_all(
    method: Method,
    asked: Mapping[str, Trials],
    parts: Parts,
    how: RollOut,
    tracker: Tracker,
    trace: Observer | None = None,
) -> dict[str, dict[str, Any]]:
    """Roll out everything that was asked for and is not there yet; a trace is of the method itself.

    A trace is only whole if all of it is written at once, so that it makes the method act again.
    """
    if trace is not None:
        parts.drop(MAIN)

    def roll(trials: Trials, observer: Observer | None) -> dict[str, Any]:
        result = how(method, trials, tracker, observer)
        embedded = flush_embeddings(getattr(method, "embedder", None))
        return {
            "returns": result.returns.tolist(),
            "first_reward": result.first_reward.tolist(),
            "success": result.told_success,
            "embeddings": embedded or None,
        }

    actor, told = method.actor(1), dict[str, dict[str, Any]]()
    for name, trials in asked.items():
        if changes_nothing(trials.control, actor):
            plain = replace(trials, control=None)
            told[name] = next(told[other] for other in told if asked[other] == plain)
        else:
            told[name] = parts.get(name, partial(roll, trials, trace if name == MAIN else None))
    return told


def rules_and_controls(
    asked: Mapping[str, Trials], told: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Say what controls and other rules brought."""
    own = asked[MAIN].rule
    controls: dict[str, Any] = {}
    rules: dict[str, Any] = {}
    for name, trials in asked.items():
        row = {"returns": told[name]["returns"]}
        if trials.rule != own and trials.control is None:
            rules[name] = {"action_rule": asdict(trials.rule), **row, "controls": {}}
        elif trials.rule != own:
            rules[name.removesuffix(f"-{ERASED}")]["controls"][ERASED] = row
        elif trials.control is not None:
            controls[trials.control] = row
    return {"controls": controls, "rules": rules}


def weights_stamp(checkpoint: Path) -> str:
    """Name the weights, if there are any, and the code that evaluates them."""
    weights = sha256(checkpoint) if checkpoint.is_file() else ""
    return f"{weights[:16]} {code_version()}"
