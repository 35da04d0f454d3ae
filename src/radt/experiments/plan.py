"""What a run will do, how long it takes and how much it writes, before it does anything."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from radt.config import RunConfig
from radt.data.manifest import MANIFEST
from radt.envs.suite import SUITES
from radt.experiments.run import CHECKPOINT, RESULT, Run, dataset_path
from radt.methods import METHODS
from radt.model.policy import DecisionTransformer, ModelConfig

# Measured on two CPU cores with Dark-Room 10x10 at laptop budget; another machine differs, the
# order of magnitude holds. Times of networks grow with parameters x tokens x examples.
MEASURED = {
    "collect_seconds_per_transition": 7.6e-6,  # 8M transitions at 10 epochs in a minute
    "collect_epochs": 10,
    "collect_bytes_per_transition": 7,
    "train_seconds_per_parameter_token": 1.8e-10,  # forward, backward and AdamW
    "act_seconds_per_parameter_token": 1.0e-10,  # forward; small batches, so as dear as training
    "update_overhead_seconds": 5e-3,
    "act_overhead_seconds": 4e-3,
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

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def plan_run(config: RunConfig, out: Path) -> list[Phase]:
    """List the phases of a run in order."""
    run, entry = Run(config, out), METHODS[config.method]
    phases = []
    if entry.learns:
        phases.append(_collect(config))
        if entry.embeds:
            model, updates = config.embedder.model, config.embedder.updates
            path = out / "embedder.safetensors"
            done = (out / CHECKPOINT).exists()
            phases.append(_train(config, "embedder", model, updates, path, done))
        model, updates, path = config.options.model, config.learn.updates, out / CHECKPOINT
        phases.append(_train(config, "train", model, updates, path, path.exists()))
    phases.append(_evaluate(run))
    return phases


def parameters(config: RunConfig, model: ModelConfig, retrieves: bool) -> int:
    """Count a network's weights without making room for them."""
    with torch.device("meta"):
        network = DecisionTransformer(SUITES[config.env].spaces, model, 0, retrieves)
    return sum(weight.numel() for weight in network.parameters())


def _collect(config: RunConfig) -> Phase:
    tasks, recipe = len(SUITES[config.env].train_tasks), config.collect
    count = tasks * recipe.transitions
    effort = recipe.n_epochs / MEASURED["collect_epochs"]
    seconds = count * effort * MEASURED["collect_seconds_per_transition"]
    folder = dataset_path(config)
    return Phase(
        name="collect",
        steps=f"{count:,} transitions",
        minutes=seconds / 60,
        megabytes=count * MEASURED["collect_bytes_per_transition"] / 1e6,
        where=str(folder),
        done=(folder / MANIFEST).is_file(),
    )


def _train(
    config: RunConfig, name: str, model: ModelConfig, updates: int, path: Path, done: bool
) -> Phase:
    retrieves = name == "train" and METHODS[config.method].embeds
    weights = parameters(config, model, retrieves)
    tokens = config.learn.batch_size * _context_len(config) * _tokens_per_step(model)
    each = weights * tokens * MEASURED["train_seconds_per_parameter_token"]
    return Phase(
        name=name,
        steps=f"{updates:,} updates",
        minutes=updates * (each + MEASURED["update_overhead_seconds"]) / 60,
        megabytes=weights * 4 * 4 / 1e6,  # weights and two moments to go on from, and a checkpoint
        where=str(path),
        done=done,
    )


def _evaluate(run: Run) -> Phase:
    config, suite = run.config, run.suite
    tasks = len(run.tasks[1])
    places = 1 + len(config.evaluate.also_on)
    steps = config.evaluate.trials * suite.spaces.horizon * places
    each = MEASURED["act_overhead_seconds"]
    if METHODS[config.method].learns:
        model = config.options.model
        weights = parameters(config, model, METHODS[config.method].embeds)
        tokens = tasks * _context_len(config) * _tokens_per_step(model)
        each += weights * tokens * MEASURED["act_seconds_per_parameter_token"]
    path = run.out / RESULT
    return Phase(
        name="evaluate",
        steps=f"{steps * tasks:,} steps",
        minutes=steps * each / 60,
        megabytes=1.0,  # numbers, a plot and a GIF
        where=str(path),
        done=path.exists(),
    )


def _context_len(config: RunConfig) -> int:
    options = config.options
    holder = getattr(options, "memory", options)
    return int(holder.context_len)


def _tokens_per_step(model: ModelConfig) -> int:
    return 1 if model.tokens == "fused" else 3 + model.return_to_go
