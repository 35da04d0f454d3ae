"""`radt bench train`: how many sequences and action targets a second each method learns from.

Every method has the paper's model and context, the same micro-batch and histories of the same size.
A batch is drawn whole, with the embedding of its queries and the search, as in training; some of
its micro-batches go forward and backward; the time of an update follows from both. Dropout is off:
with it PyTorch computes attention unfused on a CPU, which would hurt long contexts most. Where the
paper's language model is not at hand, the laptop's reads the queries; the record says what missed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from radt.api import preset
from radt.bench.histories import made_up_histories, prepared
from radt.bench.report import publish, with_provenance
from radt.config import Budget, RunConfig
from radt.costs import count_parameters, count_targets, tokens_per_decision
from radt.data import Dataset
from radt.distributed import take_rows
from radt.envs.suite import SUITES
from radt.experiments.run import RunError
from radt.learn import optimiser
from radt.memory.language import LanguageOptions
from radt.memory.language_model import LanguageModelError
from radt.methods import METHODS
from radt.track import Tracker

OUT = Path("runs/bench/train.json")
ENVS = ("dark-room-10x10", "dark-room-20x20", "dark-room-40x20")
COMPARED = ("ra-dt", "ad")  # the ratio is the first's sequences/s over the second's
AT_LEAST = 0.5  # seconds that anything is repeated for


@dataclass(frozen=True)
class Speed:
    """How fast one method learns in one environment."""

    env: str
    method: str
    parameters: int
    tokens: int  # of a full sequence, what was retrieved included
    keys: int  # in the index that is searched; 0: there is none
    batch_size: int
    targets: int  # actions that one batch asks for
    draw_seconds: float  # of a whole batch, query embedding and search included
    pass_seconds: float  # of one micro-batch there and back
    step_seconds: float  # of the optimiser
    update_seconds: float  # of the whole batch, micro-batch after micro-batch
    sequences_per_second: float
    targets_per_second: float
    language_model: str | None = None  # that embeds for it


def bench_train(
    envs: Sequence[str] = ENVS,
    methods: Sequence[str] | None = None,
    budget: Budget = "paper",
    micro_batch: int = 4,
    timed: int = 2,
    transitions: int | None = None,
    device: str = "cpu",
    quiet: bool = True,
) -> dict[str, Any]:
    """Measure how fast methods learn.

    Args:
        envs: Suites; the ratio is that of the last one.
        methods: Names; None: all that learn.
        budget: Whose model and context lengths are taken.
        micro_batch: Sequences that go forward and backward together.
        timed: How many micro-batches of each method are timed, after one to warm up.
        transitions: Steps of each task's made-up history; None: as many as are collected.
        device: Where networks compute.
        quiet: Draw no bars.
    """
    names = _learning(methods)
    tracker, speeds, missing = Tracker(quiet=quiet), list[Speed](), dict[str, list[str]]()
    tracker.start("train", total=len(envs) * len(names))
    for env in envs:
        with made_up_histories(SUITES[env], transitions or _collected(env)) as dataset:
            for name in names:
                config = preset(env, name, budget, "options.model.dropout=0.0")
                laptop = replace(config, embedder=preset(env, name, "laptop").embedder)
                for candidate in (config, laptop):
                    try:
                        speeds.append(time_method(candidate, dataset, micro_batch, timed, device))
                        break
                    except LanguageModelError as error:  # it has to be fetched first
                        missing.setdefault(name, []).append(str(error))
                tracker.advance(len(speeds), f"{name} in {env}")
    tracker.finish()
    measured = {
        "budget": budget,
        "micro_batch": micro_batch,
        "timed_micro_batches": timed,
        "dropout": 0.0,
        "speeds": [asdict(speed) for speed in speeds],
        "missing_models": missing,
        "compared": list(COMPARED),
    }
    last = {speed.method: speed.sequences_per_second for speed in speeds if speed.env == envs[-1]}
    return with_provenance("train", measured, last[COMPARED[0]] / last[COMPARED[1]])


def _learning(methods: Sequence[str] | None) -> list[str]:
    names = METHODS.names() if methods is None else list(methods)
    if missing := set(COMPARED) - set(names):
        raise RunError(f"--methods must name {' and '.join(COMPARED)}; add {', '.join(missing)}")
    return [name for name in names if METHODS[name].learns]


def _collected(env: str) -> int:
    return int(preset(env, "dt", "paper").collect.transitions)


def time_method(
    config: RunConfig, dataset: Dataset, micro_batch: int, timed: int, device: str
) -> Speed:
    """Time the parts of one update."""
    method, keys = prepared(config, dataset, device)
    policy = method.networks["policy"].train()
    adam = optimiser(policy, config.learn)
    size = config.learn.batch_size

    def draw(seed: int) -> Any:
        return method.draw(size, np.random.default_rng(seed))

    def there_and_back(number: int) -> None:
        start = number * micro_batch % size
        method.loss(take_rows(examples, slice(start, start + micro_batch))).backward()

    def step() -> None:
        nn.utils.clip_grad_norm_(policy.parameters(), config.learn.clip)
        adam.step()

    examples = draw(0)
    there_and_back(0)
    step()
    draw_seconds = _mean_seconds(lambda number: draw(1 + number), timed)
    pass_seconds = _mean_seconds(lambda number: there_and_back(1 + number), timed)
    step_seconds = _mean_seconds(lambda number: step(), timed)
    update = draw_seconds + pass_seconds * size / micro_batch + step_seconds
    targets = count_targets(examples)
    return Speed(
        env=config.env,
        method=config.method,
        parameters=count_parameters(method),
        tokens=tokens_per_decision(method),
        keys=keys,
        batch_size=size,
        targets=targets,
        draw_seconds=draw_seconds,
        pass_seconds=pass_seconds,
        step_seconds=step_seconds,
        update_seconds=update,
        sequences_per_second=size / update,
        targets_per_second=targets / update,
        language_model=_language_model(config),
    )


def _language_model(config: RunConfig) -> str | None:
    return config.embedder.model if isinstance(config.embedder, LanguageOptions) else None


def _mean_seconds(action: Callable[[int], object], times: int) -> float:
    """Repeat an action, told which time it is, and return how long it takes."""
    begun, done = time.perf_counter(), 0
    while done < times or time.perf_counter() - begun < AT_LEAST:
        action(done)
        done += 1
    return (time.perf_counter() - begun) / done


COLUMNS = ("env", "method", "tokens", "keys", "sequences/s", "targets/s", "drawing")


def _table(record: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            speed["env"],
            speed["method"] + (f" ({speed['language_model']})" if speed["language_model"] else ""),
            f"{speed['tokens']:,}",
            f"{speed['keys']:,}" if speed["keys"] else "-",
            f"{speed['sequences_per_second']:.3g}",
            f"{speed['targets_per_second']:,.0f}",
            f"{speed['draw_seconds'] / speed['update_seconds']:.0%}",
        )
        for speed in record["speeds"]
    ]


def main(
    out: Path | None = None,
    envs: Sequence[str] = ENVS,
    methods: Sequence[str] | None = None,
    micro_batch: int = 4,
    device: str = "cpu",
    json_only: bool = False,
    quiet: bool = False,
) -> int:
    """Run the benchmark, write its JSON and print the ratio last."""
    record = bench_train(envs, methods, micro_batch=micro_batch, device=device, quiet=quiet)
    title = f"learning, micro-batches of {micro_batch}; the ratio is {' / '.join(COMPARED)}"
    publish(record, title, _table(record), out or OUT, json_only, COLUMNS)
    return 0
