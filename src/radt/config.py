"""One tree of frozen dataclasses per run, and where each of its values came from.

The defaults are the paper's hyper-parameters; model sizes come from the budget. A budget, a
method's preset, a JSON file and `--set a.b=c` are laid over them in this order; each layer is a
nested dictionary, and the whole is decoded once, strictly.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from radt.action_rules import RULES, ActionRule
from radt.collect import SOURCES, CollectConfig
from radt.decode import DecodeError, decode, leaves, parse_assignment
from radt.errors import RunError
from radt.learn import LearnConfig
from radt.memory.embed import EMBEDDERS
from radt.methods import METHODS
from radt.methods.controls import CONTROLS
from radt.old_names import new_value, translated

Budget = Literal["smoke", "laptop", "paper"]
Split = Literal["final", "tune"]
TRAINING_TASKS = "training-tasks"  # as many of those that were learned from as are tested on


@dataclass(frozen=True)
class EvaluateConfig:
    """How in-context learning is measured; the same for every method in a table."""

    trials: int = 40
    rule: ActionRule = field(default_factory=ActionRule)
    also_on: tuple[str, ...] = ()  # environments with the same spaces, or `training-tasks`
    rules: tuple[str, ...] = ()  # further action rules that the weights are evaluated under
    controls: tuple[str, ...] = ()  # and controls, as far as a method has a memory for them
    validation_trials: int = 10  # trials of an evaluation during training

    def __post_init__(self) -> None:
        for noun, names, known in (
            ("rules", self.rules, RULES),
            ("controls", self.controls, CONTROLS),
        ):
            if unknown := [name for name in names if name not in known]:
                raise RunError(f"{noun} has {unknown[0]!r}; choose among {', '.join(known)}")
        for name in ("trials", "validation_trials"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run's outcome."""

    env: str
    method: str
    options: Any  # the method's own dataclass
    embedder: Any = None  # the dataclass of the method's embedder, if it has one
    seed: int = 0
    budget: Budget = "laptop"
    split: Split = "final"  # tune: train on all but the last fifth of training tasks, test on it
    source: str = "ppo"  # what records the data
    collect: Any = field(default_factory=CollectConfig)  # the source's own dataclass
    learn: LearnConfig = field(default_factory=LearnConfig)
    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, not {self.seed}")

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `from_json` takes back."""
        return dict(json.loads(json.dumps(dataclasses.asdict(self))))


@dataclass(frozen=True)
class Layer:
    """Values from one source, nested as the tree is."""

    source: str  # "budget laptop", "--set", a file's name
    values: Mapping[str, Any]


def from_json(values: Mapping[str, Any], where: str = "config") -> RunConfig:
    """Decode a run's config, the options of method, embedder and source with their dataclasses."""
    method = values.get("method") if isinstance(values, Mapping) else None
    if not isinstance(method, str):
        raise DecodeError(f"{where}: method must be a name, one of {', '.join(METHODS.names())}")
    options = decode(METHODS[method].options, values.get("options", {}), f"{where}.options")
    embedder = _embedder_options(method, values, f"{where}.embedder")
    source = new_value("source", values.get("source", "ppo"))
    if not isinstance(source, str):
        raise DecodeError(f"{where}: source must be a name, one of {', '.join(SOURCES.names())}")
    collect = decode(SOURCES[source].options, values.get("collect", {}), f"{where}.collect")
    own = {"options": options, "embedder": embedder, "collect": collect}
    return decode(RunConfig, {**values, **own}, where)


def _embedder_options(method: str, values: Mapping[str, Any], where: str) -> Any:
    name = METHODS[method].embedder
    if name is not None:
        return decode(EMBEDDERS[name].options, values.get("embedder", {}), where)
    if values.get("embedder") is not None:
        raise DecodeError(f"{where}: {method} has no embedder, so nothing can be chosen about it")
    return None


def compose(layers: Sequence[Layer]) -> tuple[RunConfig, dict[str, str]]:
    """Lay layers over each other; return the config and the source of every value by its path."""
    whole = _defaults(layers)  # so that a partly given record keeps the defaults of its place
    sources: dict[str, str] = {}
    for layer in layers:
        values = _by_new_names(layer.values, whole)
        _lay(whole, values)
        sources |= {path: layer.source for path in leaves(values)}
    config = from_json(whole)
    known = leaves(config.to_json())
    return config, {path: sources.get(path, "default") for path in known}


def _defaults(layers: Sequence[Layer]) -> dict[str, Any]:
    """Return the tree as it is when nothing but environment, method and source is said."""
    said = {name: value for layer in layers for name, value in layer.values.items()}
    named = {name: said[name] for name in said if name in ("env", "method", "source")}
    try:
        return from_json(named).to_json()
    except DecodeError:
        return {}  # decoding all that was said will tell better what is missing


def _by_new_names(values: Mapping[str, Any], known: Any) -> dict[str, Any]:
    """Translate old names to those of the tree that the values will be laid over."""
    if not isinstance(known, Mapping):
        return dict(values)
    return {
        name: _by_new_names(value, known.get(name)) if isinstance(value, Mapping) else value
        for name, value in translated(values, known).items()
    }


def overrides(assignments: Sequence[str]) -> Layer:
    """Turn `a.b=c` texts into a layer."""
    values: dict[str, Any] = {}
    for text in assignments:
        path, value = parse_assignment(text)
        _lay(values, _nested(path, value))
    return Layer("--set", values)


def _lay(base: dict[str, Any], over: Mapping[str, Any]) -> None:
    for name, value in over.items():
        if isinstance(value, Mapping) and isinstance(base.get(name), dict):
            _lay(base[name], value)
        else:
            base[name] = json.loads(json.dumps(value))


def _nested(path: Sequence[str], value: Any) -> dict[str, Any]:
    if not all(path):
        raise DecodeError(f"{'.'.join(path)!r} has an empty name; write a.b=c")
    for name in reversed(path):
        value = {name: value}
    return dict(value)
