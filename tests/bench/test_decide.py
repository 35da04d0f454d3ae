"""`radt bench decide`: where the time of a decision goes, at a size where speed says nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from radt.bench import DecideArguments, decide
from radt.bench.common import Clock
from radt.bench.decide import (
    FORWARD,
    WHOLE,
    WatchedEmbedder,
    bench_decide,
    check_step_embedder,
    contestants,
    decide_table,
    measure_agreement,
    time_scene,
    variant,
    without_memory,
)
from radt.costs import random_trial, warm_actor
from radt.experiments.run import RunError
from radt.loading import Loaded, shipped
from tests.contracts.method import CONTEXT, build_method, card_of
from tests.toys import TOY_GRID

ENV = "dark-room-10x10"


def test_a_part_inside_another_counts_for_itself_only(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([10.0, 11.0, 14.0, 16.0])  # outer begins, inner begins, inner ends, outer ends
    monkeypatch.setattr("radt.bench.common.time.perf_counter", lambda: next(moments))
    clock = Clock()
    with clock.part("outer"), clock.part("inner"):
        pass
    assert clock.seconds == {"inner": 3.0, "outer": 3.0}


def test_watching_an_embedder_changes_nothing() -> None:
    method: Any = build_method("ra-dt", TOY_GRID.spaces)
    _, trials = warm_actor(method, 2)
    recent = trials.recent(np.arange(2), CONTEXT)
    watched = WatchedEmbedder(method.embedder, Clock(), incremental=True)
    assert torch.equal(watched(recent), method.embedder(recent))
    assert watched.fingerprint == method.embedder.fingerprint
    assert watched.stepper(2, CONTEXT) is watched
    assert WatchedEmbedder(method.embedder, Clock(), False).stepper(2, CONTEXT) is None


def untrained(context_len: int) -> Loaded:
    options = {
        "model": {"layers": 1, "width": 16, "heads": 2},
        "memory": {"context_len": context_len, "retrieve_every": 0},
    }
    method = build_method("ra-dt", TOY_GRID.spaces, options)
    card = dataclasses.replace(card_of(method, "ra-dt", options), env=TOY_GRID.name)
    return Loaded(method, card, Path("untrained"))


def test_both_embeddings_agree_as_long_as_nothing_has_left_the_window() -> None:
    loaded = untrained(context_len=6)
    found = measure_agreement(loaded, TOY_GRID, (4, 5), trials=3)
    assert found["decisions"] == 2 * 2 * 6  # tasks, trials with a memory, steps behind C
    assert 0 < found["cosine"] < 1
    before = loaded.method.options.memory.retrieve_every  # type: ignore[attr-defined]
    assert before == 0  # the loaded method stays as it was


def test_agreement_needs_something_to_retrieve() -> None:
    with pytest.raises(RunError, match="give more"):
        measure_agreement(untrained(context_len=6), TOY_GRID, (4,), trials=1)


def test_a_variant_asks_as_often_as_it_is_told(rng: np.random.Generator) -> None:
    method = build_method("ra-dt", TOY_GRID.spaces)
    past = [[random_trial(TOY_GRID.spaces, 0, episode, rng)] for episode in range(2)]
    actor, trials = warm_actor(variant(method, 3, False), 1, past)
    asked = []
    for _ in range(7):
        trials.see(np.arange(1), np.zeros((1, 2)))
        actor.decide(trials, np.arange(1))
        asked.append(actor.retrieval is not None)
        trials.record(np.arange(1), np.zeros(1), np.zeros(1, np.float32))
    assert asked == [True, False, False, True, False, False, True]


def test_everybody_is_timed_against_the_forward_pass_alone() -> None:
    timings = {timing["who"]: timing for timing in time_scene(ENV, "smoke", 2, "fused", 2, "cpu")}
    assert list(timings) == list(contestants(ENV, "smoke", "cpu"))
    alone = timings[FORWARD]["policy"]
    for timing in timings.values():
        parts = timing["embed"] + timing["search"] + timing["policy"] + timing["rest"]
        assert timing["whole"] == pytest.approx(parts)
        assert timing["decisions_per_second"] == pytest.approx(2 / timing["whole"])
        assert timing["ratio"] == pytest.approx(timing["whole"] / alone)
        assert min(timing["policy"], timing["rest"]) > 0
        remembers = timing["who"].startswith("ra-dt")
        assert (timing["memory_ratio"] is not None) == remembers
        assert (timing["embed"] > 0) == (timing["search"] > 0) == remembers


def test_steps_beyond_a_trial_are_refused() -> None:
    with pytest.raises(RunError, match="at most 50"):
        time_scene(ENV, "smoke", 1, "fused", 51, "cpu")


def test_both_kinds_of_attention_are_in_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    alike = {"decisions": 5, "same_chunk": 0.8, "same_action": 1.0, "cosine": 0.99}
    monkeypatch.setattr(decide, "measure_agreement", lambda *args: alike)
    record = bench_decide(DecideArguments(steps=1), scenes=(("smoke", 1),))
    attentions = [timing["attention"] for timing in record["timings"]]
    assert attentions == ["fused"] * (len(attentions) // 2) + ["math"] * (len(attentions) // 2)
    whole = next(timing for timing in record["timings"] if timing["who"] == WHOLE)
    assert record["ratio"] == whole["ratio"]
    found = record["agreement"]
    assert (found["decisions"], found["method"], found["weights"]) == (5, "ra-dt+", "shipped")
    assert decide_table(record).row_count == len(attentions)


def test_weights_of_another_room_are_refused() -> None:
    with pytest.raises(RunError, match="give a run of ra-dt in dark-room-20x20"):
        bench_decide(DecideArguments(env="dark-room-20x20", weights=shipped(ENV)))
    legs: Any = untrained(context_len=6)
    options = legs.method.options
    once = dataclasses.replace(options.memory, retrieve_every=0)
    start = dataclasses.replace(options.training, start_chunks=True)
    legs.method.options = dataclasses.replace(options, memory=once, training=start, subgoals=True)
    with pytest.raises(RunError, match="may ask at every step"):
        check_step_embedder(legs, legs.card.env)


def test_a_memory_is_weighed_against_a_window_that_moves_alike() -> None:
    methods = contestants(ENV, "smoke", "cpu")
    assert {without_memory(who) for who in methods} == {"dt", "dt, moves by 25"}
    assert without_memory("ra-dt, every 25, moves by 25") == "dt, moves by 25"
    assert without_memory(WHOLE) == without_memory("ad, cache") == "dt"
