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
from radt.methods.dt import DTOptions
from radt.methods.exploration import ExplorationConfig
from radt.model.encoders import EncoderCard
from radt.old_names import moved, new_value, translated
from radt.variants import Variant, laid, resolved, variant, variant_names

Budget = Literal["smoke", "laptop", "paper"]
Split = Literal["final", "tune"]
FOLDS = 5  # of the training tasks, for tuning
NAMES = ("env", "method", "label", "embedder_name", "source")  # that decide which options there are
PLUGINS = "plugins"  # stands beside the values of a run's config: its plug-ins and their hashes
TRAINING_TASKS = "training-tasks"  # as many of those that were learned from as are tested on


@dataclass(frozen=True)
class EvaluateConfig:
    """How in-context learning is measured; the same for every method in a table."""

    trials: int = 40  # of an agent on each task
    rule: ActionRule = field(default_factory=ActionRule)
    also_on: tuple[str, ...] = ()  # splits of the suite, or environments with the same spaces
    rules: tuple[str, ...] = ()  # further action rules that the weights are evaluated under
    controls: tuple[str, ...] = ()  # further controls, as far as a method has a memory for them
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
class EncoderConfig:
    """How an encoder of images is trained, inside a Decision Transformer, before it is frozen."""

    teacher: DTOptions = field(default_factory=DTOptions)  # with its encoder, and how wide that is
    learn: LearnConfig = field(default_factory=LearnConfig)

    @property
    def card(self) -> EncoderCard:
        """What is left of it afterwards."""
        return EncoderCard(self.teacher.model.encoder or "image", self.teacher.model.width)


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run's outcome."""

    env: str  # `radt envs` lists them
    method: str  # that learns or only acts
    options: Any  # the method's own dataclass
    label: str = ""  # of its row in tables; none: the method's name
    embedder_name: str | None = None  # what makes the keys, if the method has any
    embedder: Any = None  # the embedder's own dataclass
    seed: int = 0  # of the run; the dataset has its own
    budget: Budget = "laptop"  # how much is computed; presets follow from it
    split: Split = "final"  # tune: train on all but a fifth of the training tasks, test on it
    fold: int = FOLDS - 1  # which fifth that is
    source: str = "ppo"  # what records the data
    collect: Any = field(default_factory=CollectConfig)  # the source's own dataclass
    encoder: EncoderConfig | None = None  # of images; None: the method reads states as they are
    learn: LearnConfig = field(default_factory=LearnConfig)
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)  # while acting
    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, not {self.seed}")
        if not 0 <= self.fold < FOLDS:
            raise ValueError(f"fold must lie in 0..{FOLDS - 1}, not {self.fold}")
        Variant(self.label or self.method, self.method)  # refuses what is no label

    @property
    def names(self) -> tuple[Any, ...]:
        """Every value, among them the names of all that can be plugged in."""
        return tuple(leaves(self.to_json()).values())

    @property
    def trains_embedder(self) -> bool:
        """Whether the embedder has to learn before the method can."""
        return self.embedder_name is not None and EMBEDDERS[self.embedder_name].learns

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
        raise DecodeError(f"{where}: method must be a name, one of {', '.join(variant_names())}")
    values = {name: value for name, value in resolved(values).items() if name != PLUGINS}
    method = values["method"]
    options = decode(METHODS[method].options, values.get("options", {}), f"{where}.options")
    name, embedder = _embedder(method, values, f"{where}.embedder")
    source = new_value("source", values.get("source", "ppo"))
    if not isinstance(source, str):
        raise DecodeError(f"{where}: source must be a name, one of {', '.join(SOURCES.names())}")
    collect = decode(SOURCES[source].options, values.get("collect", {}), f"{where}.collect")
    own = {"options": options, "embedder_name": name, "embedder": embedder, "collect": collect}
    return decode(RunConfig, {**values, **own}, where)


def _embedder(method: str, values: Mapping[str, Any], where: str) -> tuple[str | None, Any]:
    """Return the embedder's name and its options; the method's usual one where none is said."""
    usual, said = METHODS[method].embedder, values.get("embedder_name")
    if usual is not None:
        name = usual if said is None else str(said)
        return name, decode(EMBEDDERS[name].options, values.get("embedder") or {}, where)
    if values.get("embedder") is not None or said is not None:
        raise DecodeError(f"{where}: {method} has no embedder, so nothing can be chosen about it")
    return None, None


def compose(layers: Sequence[Layer]) -> tuple[RunConfig, dict[str, str]]:
    """Lay layers over each other; return the config and the source of every value by its path."""
    whole = _defaults(layers)  # so that a partly given record keeps the defaults of its place
    sources: dict[str, str] = {}
    for layer in layers:
        values = _by_new_names(moved(_rows_named(layer.values), whole.get("options", {})), whole)
        whole = laid(whole, json.loads(json.dumps(values)))
        sources |= {path: layer.source for path in leaves(values)}
    config = from_json(whole)
    known = leaves(config.to_json())
    return config, {path: sources.get(path, "default") for path in known}


def _defaults(layers: Sequence[Layer]) -> dict[str, Any]:
    """Return the tree as it is when nothing but environment, method and source is said."""
    said = {name: value for layer in layers for name, value in _rows_named(layer.values).items()}
    named = {name: said[name] for name in said if name in NAMES}
    try:
        return from_json(named).to_json()
    except DecodeError:
        return {}  # decoding all that was said will tell better what is missing


def _rows_named(values: Mapping[str, Any]) -> dict[str, Any]:
    """Read a label where a method is named; what it stands for lies in layers below."""
    name = values.get("method")
    if "label" in values or not isinstance(name, str):
        return dict(values)
    row = variant(name)
    return {**values, "method": row.method, "label": row.label}


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
        values = laid(values, _nested(path, value))
    return Layer("--set", values)


def _nested(path: Sequence[str], value: Any) -> dict[str, Any]:
    if not all(path):
        raise DecodeError(f"{'.'.join(path)!r} has an empty name; write a.b=c")
    for name in reversed(path):
        value = {name: value}
    return dict(value)
