"""`radt bench train`: how many sequences and action targets a second each method learns from.

Every method has the paper's model and context, the same micro-batch and histories of the same size.
A batch is drawn whole, with the embedding of its queries and the search, as in training; some of
its micro-batches go forward and backward; the time of an update follows from both. Dropout is off:
with it PyTorch computes attention unfused on a CPU, which would hurt long contexts most. Where the
paper's language model is not at hand, the laptop's reads the queries; the record says what missed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn

from radt.api import preset
from radt.bench import USUAL, Resources, TrainArguments
from radt.bench.common import (
    made_up_folder,
    mean_seconds,
    prepared_method,
    tracked,
    with_provenance,
)
from radt.config import Budget, RunConfig
from radt.costs import count_parameters, count_targets, tokens_per_decision
from radt.data import Dataset
from radt.distributed import take_rows
from radt.envs.suite import SUITES
from radt.learn import optimiser
from radt.memory.language import LanguageOptions
from radt.memory.language_model import LanguageModelError
from radt.methods import METHODS
from radt.runs.run import RunError
from radt.variants import variant, variant_names

COMPARED = ("ra-dt", "ad")  # the ratio is the first's sequences/s over the second's
Speed = dict[str, Any]  # of one method in one environment, see `time_method`
TABLE = (
    "speeds",
    ("env", "method", "tokens", "keys", "sequences_per_second", "targets_per_second"),
)


def bench_train(
    arguments: TrainArguments,
    resources: Resources = USUAL,
    budget: Budget = "paper",
    timed: int = 2,
    transitions: int | None = None,
) -> dict[str, Any]:
    """Measure how fast methods learn.

    `timed` micro-batches of each method are timed, after one to warm up; each task's made-up
    history has `transitions` steps, None: as many as are collected.
    """
    envs, names = arguments.envs.split(","), _learning(arguments.methods)
    speeds, missing = list[Speed](), dict[str, list[str]]()
    for env in envs:
        steps = transitions or int(preset(env, "dt", "paper").collect.transitions)
        with made_up_folder(SUITES[env], steps) as folder:
            dataset = Dataset.open(folder, in_memory=True)
            for name in tracked(env, names, resources.quiet):
                config = preset(env, name, budget, "options.model.dropout=0.0")
                how = (dataset, arguments.micro_batch, timed, resources.device)
                try:
                    speeds.append(time_method(config, *how))
                except LanguageModelError as error:  # it has to be fetched first
                    missing.setdefault(name, []).append(str(error))
                    laptop = replace(config, embedder=preset(env, name, "laptop").embedder)
                    speeds.append(time_method(laptop, *how))
    measured = {
        "budget": budget,
        "micro_batch": arguments.micro_batch,
        "timed_micro_batches": timed,
        "dropout": 0.0,
        "speeds": speeds,
        "missing_models": missing,
        "compared": list(COMPARED),
    }
    last = {speed["method"]: speed for speed in speeds if speed["env"] == envs[-1]}
    ours, theirs = (last[name]["sequences_per_second"] for name in COMPARED)
    return with_provenance("train", measured, ours / theirs)


def _learning(methods: str | None) -> list[str]:
    names = variant_names() if methods is None else methods.split(",")
    if missing := set(COMPARED) - set(names):
        raise RunError(f"--methods must name {' and '.join(COMPARED)}; add {', '.join(missing)}")
    return [name for name in names if METHODS[variant(name).method].learns_from_data]


def time_method(
    config: RunConfig, dataset: Dataset, micro_batch: int, timed: int, device: str
) -> Speed:
    """Time the parts of one update."""
    method, keys = prepared_method(config, dataset, device)
    policy = method.networks["policy"].train()
    adam = optimiser(policy, config.learn)
    size = config.learn.batch_size

    def draw(number: int) -> Any:
        return method.draw(size, np.random.default_rng(number))

    def there_and_back(number: int) -> None:
        start = number * micro_batch % size
        method.loss(take_rows(examples, slice(start, start + micro_batch))).backward()

    def step(number: int) -> None:
        nn.utils.clip_grad_norm_(policy.parameters(), config.learn.clip)
        adam.step()

    examples = draw(0)
    there_and_back(0)
    step(0)
    draw_seconds, pass_seconds, step_seconds = (
        mean_seconds(action, timed) for action in (draw, there_and_back, step)
    )
    update = draw_seconds + pass_seconds * size / micro_batch + step_seconds
    targets = count_targets(examples)
    embedder = config.embedder
    return {
        "env": config.env,
        "method": config.label,
        "parameters": count_parameters(method),
        "tokens": tokens_per_decision(method),  # of a full sequence, what was retrieved included
        "keys": keys,  # in the index that is searched; 0: there is none
        "batch_size": size,
        "targets": targets,  # actions that one batch asks for
        "draw_seconds": draw_seconds,  # of a whole batch, query embedding and search included
        "pass_seconds": pass_seconds,  # of one micro-batch there and back
        "step_seconds": step_seconds,  # of the optimiser
        "update_seconds": update,  # of the whole batch, micro-batch after micro-batch
        "sequences_per_second": size / update,
        "targets_per_second": targets / update,
        "language_model": embedder.model if isinstance(embedder, LanguageOptions) else None,
    }
