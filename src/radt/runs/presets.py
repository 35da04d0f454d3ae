"""What each budget and each method changes about the paper's defaults.

`smoke` takes seconds and shows that everything holds together, `laptop` takes minutes on two CPU
cores, `paper` is the paper's own tables on one GPU. `ra-dt` is the paper's method at every budget,
but for what a smaller one has to save; all that is ours stands under `ra-dt+`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from radt.collect import SOURCES
from radt.config import TRAINING_TASKS, Layer, RunConfig, compose
from radt.decode import leaves
from radt.envs.suite import SUITES
from radt.methods import METHODS
from radt.old_names import new_value
from radt.registry import UnknownNameError

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
        "paper": {"model": "bert-base-uncased", "tokens": "interleaved"},
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
    "noisy-expert": {"smoke": {"tasks": 5, "episodes": 10}},
}

METHOD: dict[str, dict[str, Any]] = {  # at every budget
    "ra-dt-lm": {  # a language model is slow, so that repeated questions are asked and looked up
        "options": {"training": {"query_offsets": (0, 25), "query_dropout": 0.0}}
    },
    "ra-dt+": {
        "options": {
            "top_fraction": 0.4,
            "count_bonus": 24.0,
            "revisit_penalty": 24.0,
            "model": {"return_to_go": False},
            "memory": {
                "store_above": 0.0,
                "retrieve_every": 0,
                "return_of": "chunk",
                "alpha": 10.0,  # every trial begins alike, so that relevance only breaks ties
            },
        }
    },
}

SMALL_METHOD: dict[str, dict[str, Any]] = {  # below the paper's budget
    "dt": {"options": {"top_fraction": 0.4}},
    "ra-dt-lm": {  # fewer questions
        "options": {
            "episode_every": 4,
            "memory": {"retrieve_every": 10},
            "training": {
                "dedup": None,  # keys of one state lie closer than the bounds of learned ones
                "cut_off": None,
            },
        }
    },
}

ACTION_RULE = {"temperature": 0.5, "explore_temperature": 2.0}


LONG_TRIALS = {"memory": {"utility": "aligned-return"}}  # most of their chunks begin on the goal

LONG = {"context_len": 100, "methods": {"ra-dt+": LONG_TRIALS}}

ENVIRONMENTS: dict[str, dict[str, Any]] = {  # the paper's, where they differ from 10x10
    "dark-room-20x20": LONG,
    "dark-room-40x20": {**LONG, "batch_size": 32},
    "dark-key-door-20x20": LONG,
    "dark-key-door-20x20-persist": LONG,
    "dark-key-door-40x20": {**LONG, "batch_size": 32},
    "dark-key-door-40x20-persist": {**LONG, "batch_size": 32},
    "maze-runner-15x15": {
        "source": "ppo-lstm",
        "retrieve_every": 25,
        "methods": {"ad": {"episode_gap": 1000}, "ra-dt+": LONG_TRIALS},
        "also_on": (TRAINING_TASKS,),
    },
}

WHOLE_EPISODES = ("ad", "dt-2ep", "dpt", "dpt-oracle")  # read two of them at once

LONG_EPISODES: dict[str, Any] = {  # of ra-dt+, where most of an episode is spent on its goal
    "min_return": 0.5,  # the source never solves some tasks, and walks at random there
    "start_windows": 0.75,
    "translate": 0.5,
    "model": {"heads": 1},  # a head of 16 numbers has few to tell 40 rows and columns by
    "training": {"start_chunks": True},
    "memory": {"loop_erased": True},
}

ONE_GOAL = {**LONG_EPISODES, "training": {**LONG_EPISODES["training"], "truncated_chunks": 0.5}}
KEY_THEN_DOOR = {**LONG_EPISODES, "subgoals": True}


SMALL_SETS = {"set_size": 100, "queries": 100}  # of two episodes: ten times as many updates


def long_room(options: dict[str, Any]) -> dict[str, Any]:
    """Say what grids of 20x20 and 40x20 change at laptop budget, given the options of ra-dt+."""
    return {
        "batch_size": 32,
        "whole_episodes": {"batch_size": 8},  # 800 steps and more each: four times as many updates
        "window_step": 50,  # half of the context: most decisions read one step instead of 100
        "methods": {
            "dpt": SMALL_SETS,
            "dpt-oracle": SMALL_SETS,
            "ra-dt-lm": {  # questions that are keys: a language model takes 30 ms to read 100 steps
                "episode_every": 25,
                "memory": {"retrieve_every": 100},
                "training": {"query_offsets": (0,)},
            },
            "ra-dt+": {**options, "memory": {**options["memory"], **LONG_TRIALS["memory"]}},
        },
    }


LAPTOP_ENVIRONMENTS: dict[str, dict[str, Any]] = {  # ours, at laptop budget only
    "dark-key-door-10x10": {"batch_size": 32, "methods": {"ra-dt+": KEY_THEN_DOOR}},
    "dark-key-door-10x10-persist": {"batch_size": 32},
    "dark-room-20x20": long_room(ONE_GOAL),
    "dark-room-40x20": long_room(ONE_GOAL),
    "dark-key-door-20x20": long_room(KEY_THEN_DOOR),
    "dark-key-door-20x20-persist": long_room(ONE_GOAL),
    "dark-key-door-40x20": long_room(KEY_THEN_DOOR),
    "dark-key-door-40x20-persist": long_room(ONE_GOAL),
}


def preset_layers(env: str, method: str, budget: str, *over: Layer) -> list[Layer]:
    """Return the layers that names stand for, and those that are laid over them.

    Which data source the presets are for is said by an upper layer or by the environment.
    """
    if budget not in BUDGETS:
        raise UnknownNameError("budget", budget, list(BUDGETS))
    suite, entry = SUITES[env], METHODS[method]
    said = [layer.values["source"] for layer in over if "source" in layer.values]
    given = new_value("source", said[-1]) if said else None
    source = given if isinstance(given, str) else usual_source(env)
    named = {"env": env, "method": method, "budget": budget, "source": source, "options": {}}
    layers = [
        Layer("run", named),
        Layer(f"environment {env}", {"collect": asdict(SOURCES[source].paper(env))}),
        Layer(f"environment {env}", {"evaluate": {"trials": suite.trials}}),
        Layer(f"budget {budget}", BUDGETS[budget]),
        Layer(f"budget {budget}", {"collect": COLLECT.get(source, {}).get(budget, {})}),
    ]
    if budget != "paper":
        layers.append(Layer(f"budget {budget}", {"evaluate": {"rule": ACTION_RULE}}))
    if "model" in entry.options.__dataclass_fields__:
        layers.append(Layer(f"budget {budget}", {"options": {"model": MODELS[budget]}}))
    if entry.embedder in EMBEDDER:
        layers.append(Layer(f"budget {budget}", {"embedder": EMBEDDER[entry.embedder][budget]}))
    layers.append(Layer(f"method {method}", METHOD.get(method, {})))
    if budget != "paper":
        layers.append(Layer(f"method {method}", SMALL_METHOD.get(method, {})))
    return [*layers, *_environment_layers(env, method, budget), *over]


def usual_source(env: str) -> str:
    """Name the data source of an environment, unless another one is asked for."""
    return str(ENVIRONMENTS.get(env, {}).get("source", "ppo"))


def usual_recipe(env: str, source: str, budget: str) -> dict[str, Any]:
    """Return the options with which a source records at a budget."""
    changes: dict[str, Any] = COLLECT.get(source, {}).get(budget, {})
    return asdict(SOURCES[source].paper(env)) | changes


def changed(config: RunConfig) -> dict[str, Any]:
    """Return the values of a config, by path, that its presets do not say."""
    same_source = Layer("run", {"source": config.source})
    usual, _ = compose(preset_layers(config.env, config.method, config.budget, same_source))
    known = leaves(usual.to_json()) | {"source": usual_source(config.env)}
    own = leaves(config.to_json())
    return {path: value for path, value in own.items() if value != known.get(path)}


def in_flags(changes: Mapping[str, Any]) -> list[str]:
    """Write changed values as words of a command line."""
    return [
        f"--set {shlex.quote(f'{path}={json.dumps(value)}')}" for path, value in changes.items()
    ]


def _environment_layers(env: str, method: str, budget: str) -> list[Layer]:
    """Return what an environment changes about a method, as far as the method can be told."""
    paper, entry = ENVIRONMENTS.get(env, {}), METHODS[method]
    ours = LAPTOP_ENVIRONMENTS.get(env, {}) if budget == "laptop" else {}
    values = {**paper, **ours}
    options = dict({**paper.get("methods", {}), **ours.get("methods", {})}.get(method, {}))
    if method in WHOLE_EPISODES:
        values |= values.get("whole_episodes", {})
    memory = {name: values[name] for name in ("context_len", "retrieve_every") if name in values}
    memory |= options.pop("memory", {})
    if entry.embeds and memory:
        options["memory"] = memory
    elif "context_len" in memory and "context_len" in entry.options.__dataclass_fields__:
        options["context_len"] = memory["context_len"]
    if "window_step" in values and "window_step" in entry.options.__dataclass_fields__:
        options["window_step"] = values["window_step"]
    learn = {"batch_size": values["batch_size"]} if "batch_size" in values else {}
    evaluate = {"also_on": values["also_on"]} if "also_on" in values else {}
    parts = (("options", options), ("learn", learn), ("evaluate", evaluate))
    changes = {name: part for name, part in parts if part}
    return [Layer(f"environment {env}", changes)] if changes else []
