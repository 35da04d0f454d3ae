"""What a run will do, how long it takes and how much it writes, before it does anything."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import nn

from radt.collect import SOURCES, Forecast
from radt.config import EncoderConfig, RunConfig
from radt.costs import tokens_per_step
from radt.data.manifest import MANIFEST
from radt.data.store import home
from radt.envs.suite import SUITES
from radt.memory.language import LanguageOptions
from radt.methods import METHODS, Method
from radt.methods.method import build_method
from radt.runs.run import CHECKPOINT, RESULT, Run, dataset_path, encoder_of, training_folder

# Measured on two CPU cores with Dark-Room 10x10 at laptop budget; another machine differs, the
# order of magnitude holds. Times of networks grow with parameters x tokens x examples.
MEASURED = {
    "train_seconds_per_parameter_token": 1.8e-10,  # forward, backward and AdamW
    "act_seconds_per_parameter_token": 1.0e-10,  # forward; small batches, so as dear as training
    "update_overhead_seconds": 5e-3,
    "act_overhead_seconds": 4e-3,
    "embed_seconds_per_token": 1.8e-4,  # by all-MiniLM-L6-v2, one thread
    "train_seconds_per_image": 5e-4,  # by impala-small, one thread, with reading it
    "encode_seconds_per_image": 2e-4,
}


@dataclass(frozen=True)
class Phase:
    """One phase of a run: how much it is, and whether it is already there."""

    name: str
    steps: str
    minutes: float
    megabytes: float
    where: str
    done: bool


def plan_run(config: RunConfig, out: Path) -> list[Phase]:
    """List the phases of a run in order."""
    run, entry = Run(config, out), METHODS[config.method]
    spaces = run.suite.spaces
    with torch.device("meta"):  # shapes and sizes alone, without room for weights
        method = build_method(
            *(config.method, spaces, config.options, config.embedder),
            *(config.seed, config.embedder_name, encoder_of(config)),
        )
    phases = []
    if entry.learns:
        path = out / CHECKPOINT
        phases.append(_collect(config))
        if config.encoder is not None:
            phases.append(_encode(config, config.encoder))
        if config.trains_embedder:
            phases.append(_train(config, method, "embedder", config.embedder.updates, path))
        if isinstance(config.embedder, LanguageOptions):
            phases.append(_embed(config, method, path.exists()))
        phases.append(_train(config, method, "policy", config.learn.updates, path))
    return [*phases, _evaluate(run, method)]


def _collect(config: RunConfig) -> Phase:
    expected, spaces, folder = _expected(config), SUITES[config.env].spaces, dataset_path(config)
    arrays = ((spaces.state.dtype, spaces.state.shape), (spaces.action.dtype, spaces.action.shape))
    size = 4 + sum(dtype.itemsize * prod(shape) for dtype, shape in arrays)  # and a reward
    return Phase(
        name="collect",
        steps=f"{expected.transitions:,} transitions",
        minutes=expected.seconds / 60,
        megabytes=expected.transitions * size / 1e6,
        where=str(folder),
        done=(folder / MANIFEST).is_file(),
    )


def _encode(config: RunConfig, encoder: EncoderConfig) -> Phase:
    """Count the images that an encoder is trained on, and those that it encodes once."""
    learn, folder = encoder.learn, training_folder(config)
    trained = learn.updates * learn.batch_size * encoder.teacher.context_len
    encoded = _expected(config).transitions
    seconds = trained * MEASURED["train_seconds_per_image"]
    return Phase(
        name="encode",
        steps=f"{learn.updates:,} updates, {encoded:,} images",
        minutes=(seconds + encoded * MEASURED["encode_seconds_per_image"]) / 60,
        megabytes=encoded * encoder.card.width * 4 / 1e6,
        where=str(folder),
        done=(folder / MANIFEST).is_file(),
    )


def _expected(config: RunConfig) -> Forecast:
    return SOURCES[config.source].forecast(SUITES[config.env], config.collect)


def _train(config: RunConfig, method: Method, part: str, updates: int, path: Path) -> Phase:
    weights = _weights(method.networks[part])
    work = config.learn.batch_size * _work(method, part, method.context.input_steps)
    each = work * MEASURED["train_seconds_per_parameter_token"]
    return Phase(
        name="train" if part == "policy" else part,
        steps=f"{updates:,} updates",
        minutes=updates * (each + MEASURED["update_overhead_seconds"]) / 60,
        megabytes=weights * 4 * 4 / 1e6,  # weights and two moments to go on from, and a checkpoint
        where=str(path),
        done=path.exists(),
    )


def _embed(config: RunConfig, method: Method, done: bool) -> Phase:
    """Count what a language model reads at most: a key per entry, and queries that are no keys."""
    suite, options = SUITES[config.env], config.options
    episodes = _expected(config).transitions // suite.spaces.horizon
    episodes //= options.episode_every
    entries = -(-suite.spaces.horizon // options.memory.halves.past)
    keys = episodes * (entries - 1)  # those of first states are all the same
    asked, offsets = config.learn.updates * config.learn.batch_size, options.training.query_offsets
    queries = asked if offsets is None else min(asked, episodes * entries * (len(offsets) - 1))
    per_step = 1 if config.embedder.tokens == "fused" else 3 + config.embedder.return_to_go
    tokens = (keys + queries) * method.context.input_steps * per_step
    return Phase(
        name="embed",
        steps=f"{keys + queries:,} prefixes",
        minutes=tokens * MEASURED["embed_seconds_per_token"] / 60,
        megabytes=min(keys + queries, config.embedder.cache_most) * 384 * 4 / 1e6,
        where=str(home() / "embeddings"),
        done=done,
    )


def _evaluate(run: Run, method: Method) -> Phase:
    config, suite = run.config, run.suite
    tasks = len(run.tasks[1])
    asked = config.evaluate
    controls = len(asked.controls) if METHODS[config.method].embeds else min(1, len(asked.controls))
    rules = len(asked.rules) * (2 if controls else 1)  # each with memories erased as well
    places = 1 + len(asked.also_on) + controls + rules
    steps = config.evaluate.trials * suite.spaces.horizon * places
    each = MEASURED["act_overhead_seconds"]
    if "policy" in method.networks:
        work = _work(method, "policy", steps_per_decision(method, config.options))
        each += tasks * work * MEASURED["act_seconds_per_parameter_token"]
    path = run.out / RESULT
    return Phase(
        name="evaluate",
        steps=f"{steps * tasks:,} steps",
        minutes=steps * each / 60,
        megabytes=1.0,  # numbers, a plot and a GIF
        where=str(path),
        done=path.exists(),
    )


def steps_per_decision(method: Method, options: Any) -> float:
    """Return how many steps a decision reads on average, with what is kept of earlier ones."""
    whole, moves = method.context.input_steps, getattr(options, "window_step", 1)
    if getattr(getattr(options, "model", None), "recurrent", False):
        return 1
    if getattr(options, "cache", False):
        return 1 + whole / method.spaces.horizon  # all of it once a trial
    return 1 + (whole - moves) / moves if moves > 1 else whole


def _work(method: Method, part: str, steps: float) -> float:
    """Multiply a network's weights by the tokens that so many steps feed it."""
    network = method.networks[part]
    return _weights(network) * steps * tokens_per_step(network)


def _weights(network: nn.Module) -> int:
    return sum(weight.numel() for weight in network.parameters())
