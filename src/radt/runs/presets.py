"""What each budget changes about the paper's defaults, and how layers become a config.

`smoke` takes seconds and shows that everything holds together, `laptop` takes minutes on two CPU
cores, `paper` is the paper's own tables on one GPU. What a row changes is its variant's (see
`variants`), what an environment changes is its suite's (`Recipe`).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from radt.collect import SOURCES
from radt.config import Layer, RunConfig, compose, from_json
from radt.decode import decode, leaves
from radt.envs.suite import SUITES, TaskSuite, recipes_of, source_of
from radt.memory.embed import EMBEDDERS
from radt.methods import METHODS
from radt.old_names import new_value
from radt.registry import UnknownNameError
from radt.variants import Variant, variant, variant_names

PAPER_MODEL = {"layers": 4, "width": 512, "heads": 8, "dropout": 0.2, "tokens": "interleaved"}
SMALL_MODEL = {"layers": 3, "width": 64, "heads": 4, "dropout": 0.0, "tokens": "fused"}
TINY_MODEL = {**SMALL_MODEL, "layers": 1, "width": 16, "heads": 2}

BUDGETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "laptop": {
        "learn": {
            "updates": 2000,
            "batch_size": 64,
            "learning_rate": 1e-3,
            "final_learning_rate": 1e-5,
            "warmup": 100,
            "evaluate_every": 500,
            "save_every": 250,
        },
    },
    "smoke": {
        "learn": {
            "updates": 6,
            "batch_size": 8,
            "learning_rate": 1e-3,
            "warmup": 2,
            "evaluate_every": 3,
            "log_every": 2,
            "save_every": 2,
        },
        "evaluate": {"trials": 2, "validation_trials": 1},
    },
}

MODELS = {"paper": PAPER_MODEL, "laptop": SMALL_MODEL, "smoke": TINY_MODEL}

EMBEDDER: dict[str, dict[str, Any]] = {  # by name and budget
    "dt": {
        "paper": {"model": PAPER_MODEL},
        "laptop": {"model": {**SMALL_MODEL, "layers": 2}, "updates": 500},
        "smoke": {"model": TINY_MODEL, "updates": 3},
    },
    "lm": {
        "paper": {
            "model": "bert-base-uncased",
            "tokens": "interleaved",
            "return_to_go": True,  # a token beside state, action and reward
        },
        "laptop": {},
        "smoke": {},
    },
}

LIGHT_RECURRENT_PPO = {
    "envs_per_task": 16,
    "units": 64,
    "batch_size": 512,
    "n_epochs": 4,
    "learning_rate": 1e-3,
    "tasks_per_group": 8,
    "rollouts_per_part": 7,
}

COLLECT: dict[str, dict[str, Any]] = {  # by source and budget; the rest is the paper's
    "ppo": {
        "smoke": {"transitions": 512, "n_steps": 256, "n_epochs": 1, "rollouts_per_part": 1},
    },
    "ppo-lstm": {
        "laptop": LIGHT_RECURRENT_PPO,
        "smoke": {
            **LIGHT_RECURRENT_PPO,
            "tasks": 5,
            "candidates": 5,
            "keep_above": None,
            "transitions": 1600,
            "envs_per_task": 2,
            "units": 8,
            "batch_size": 128,
            "n_epochs": 1,
        },
    },
    **{name: {"smoke": {"tasks": 5, "episodes": 10}} for name in ("expert", "noisy-expert")},
    "sb3": {"smoke": {"tasks": 5, "transitions": 512, "parts": 1}},
}


def preset_layers(env: str, row: str | Variant, budget: str, *over: Layer) -> list[Layer]:
    """Return the layers that names stand for, and those that are laid over them.

    A row is a variant or the label of one. Which data source the presets are for is said by an
    upper layer or by the environment.
    """
    if budget not in BUDGETS:
        raise UnknownNameError("budget", budget, list(BUDGETS))
    suite, row = SUITES[env], variant(row)
    if row.base:
        own = Layer(f"variant {row.label}", {**row.overrides, "label": row.label})
        return preset_layers(env, row.base, budget, own, *over)
    source = str(new_value("source", _said("source", over, source_of(suite))))
    named = {
        "env": env,
        "method": row.method,
        "label": row.label,
        "budget": budget,
        "source": source,
        "options": {},
    }
    layers = [
        Layer("run", named),
        *collect_layers(env, source, budget),
        Layer(f"environment {env}", {"evaluate": {"trials": suite.trials}}),
        Layer("every run", {"evaluate": {"controls": ("erased",)}}),  # tells what memory buys
        Layer(f"budget {budget}", BUDGETS[budget]),
    ]
    entry = METHODS[row.method]
    if "model" in entry.options.__dataclass_fields__:
        layers.append(Layer(f"budget {budget}", {"options": {"model": MODELS[budget]}}))
    overrides = Layer(f"variant {row.label}", row.overrides)
    embedder = _said("embedder_name", (overrides, *over), entry.embedder)
    if embedder in EMBEDDER:
        layers.append(Layer(f"budget {budget}", {"embedder": EMBEDDER[embedder][budget]}))
    layers.append(overrides)
    if budget != "paper":
        layers.append(Layer(f"variant {row.label}", row.below_paper))
    known = from_json({**named, "embedder_name": embedder}).to_json()
    known = {name: value for name, value in known.items() if (name, value) != ("embedder", None)}
    for recipe in recipes_of(suite):
        if recipe.fits(budget, row.label, row.method, source):
            values = {name: value for name, value in recipe.values.items() if name != "collect"}
            layers.append(Layer(f"environment {env}", as_far_as_known(values, known)))
    return [layer for layer in layers if layer.values] + list(over)


def as_far_as_known(values: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what a config has no place for: a recipe of a suite is for many methods."""
    kept = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and isinstance(known.get(name), Mapping):
            kept[name] = as_far_as_known(value, known[name])
        elif name in known and (known[name] is None or not isinstance(value, Mapping)):
            kept[name] = value  # a record stands where there is one, or nothing yet
    return {name: value for name, value in kept.items() if value != {}}


def unknown_in_recipes(suite: TaskSuite) -> Iterator[str]:
    """Say which values of a suite's recipes no run has a place for: they would change nothing."""
    for recipe in recipes_of(suite):
        rows = [variant(name).method for name in (*recipe.labels, *recipe.methods)]
        sources = SOURCES.names() if recipe.source is None else [recipe.source]
        named: list[dict[str, Any]] = [{"method": "random", "source": name} for name in sources]
        for method in rows or METHODS.names():
            keys = EMBEDDERS.names() if METHODS[method].embedder else [None]
            named += [{"method": method, "embedder_name": name} for name in keys]
        trees = [from_json({"env": suite.name, **names}).to_json() for names in named]
        known = {path for tree in trees for path in leaves(as_far_as_known(recipe.values, tree))}
        free = tuple(  # hyper-parameters by the names of another library
            f"collect.{name}."
            for tree in trees
            for name, value in tree["collect"].items()
            if value == {}
        )
        unknown = leaves(recipe.values).keys() - known
        for path in (path for path in unknown if not path.startswith(free)):
            yield f"a recipe sets {path}, which no config has; see `radt config show {suite.name}`"


def _said(name: str, layers: Sequence[Layer], default: Any) -> Any:
    """Return what the uppermost layer says that says anything."""
    said = [layer.values[name] for layer in layers if name in layer.values]
    return said[-1] if said and isinstance(said[-1], str) else default


def collect_layers(env: str, source: str, budget: str) -> list[Layer]:
    """Return the layers of a source's options; what a suite says of one budget is uppermost."""
    suite = SUITES[env]
    usual, own = asdict(SOURCES[source].options()), COLLECT.get(source, {}).get(budget, {})
    fitting = [r for r in recipes_of(suite) if r.fits(budget, "", "", source)]
    said = [
        (bool(r.budgets), {n: v for n, v in r.values.get("collect", {}).items() if n in usual})
        for r in fitting
    ]
    parts = [
        *((f"environment {env}", part) for part in (usual, *(p for at, p in said if not at))),
        (f"budget {budget}", own),
        *((f"environment {env}", part) for at_budget, part in said if at_budget),
    ]
    return [Layer(name, {"collect": part}) for name, part in parts if part]


def usual_recipe(env: str, source: str, budget: str) -> dict[str, Any]:
    """Return the options with which a source records at a budget."""
    values: dict[str, Any] = {}
    for layer in collect_layers(env, source, budget):
        values |= layer.values["collect"]
    return values


def row_of(config: RunConfig) -> Variant:
    """Return the variant that a config's label names, or that of its method as it is."""
    if config.label in variant_names() and variant(config.label).method == config.method:
        return variant(config.label)
    return Variant(config.label or config.method, config.method)


def usual_options(env: str, source: str, budget: str) -> Any:
    """Return the same as the source's own dataclass."""
    options = usual_recipe(env, source, budget)
    return decode(SOURCES[source].options, options, f"{env}, {source}")


def changed(config: RunConfig) -> dict[str, Any]:
    """Return the values of a config, by path, that its presets do not say."""
    same_source = Layer("run", {"source": config.source})
    usual, _ = compose(preset_layers(config.env, row_of(config), config.budget, same_source))
    known = leaves(usual.to_json()) | {"source": source_of(SUITES[config.env])}
    own = leaves(config.to_json())
    return {path: value for path, value in own.items() if value != known.get(path)}


def in_flags(changes: Mapping[str, Any]) -> list[str]:
    """Write changed values as words of a command line."""
    return [
        f"--set {shlex.quote(f'{path}={json.dumps(value)}')}" for path, value in changes.items()
    ]
