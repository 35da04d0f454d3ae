"""`radt bench decide`: where the time of a decision goes, at a size where speed says nothing."""

from __future__ import annotations

import numpy as np
import pytest

from radt.bench import DecideArguments, decide
from radt.bench.decide import (
    FORWARD,
    WHOLE,
    bench_decide,
    contestants,
    embedding_cosine,
    time_scene,
)
from radt.costs import random_trial, warm_actor
from radt.loading import load, shipped
from radt.runs.run import RunError
from tests.contracts.method import CONTEXT, build_method
from tests.toys import TOY_GRID

ENV = "dark-room-10x10"


def test_a_method_asks_as_often_as_it_is_told(rng: np.random.Generator) -> None:
    options = {
        "model": {"layers": 1, "width": 16, "heads": 2},
        "memory": {"context_len": CONTEXT, "retrieve_every": 3},
    }
    method = build_method("ra-dt", TOY_GRID.spaces, options)
    past = [[random_trial(TOY_GRID.spaces, 0, episode, rng)] for episode in range(2)]
    actor, trials = warm_actor(method, 1, past)
    asked = []
    for _ in range(7):
        trials.see(np.arange(1), np.zeros((1, 2)))
        actor.decide(trials, np.arange(1))
        asked.append(actor.retrieval is not None)
        trials.record(np.arange(1), np.zeros(1), np.zeros(1, np.float32))
    assert asked == [True, False, False, True, False, False, True]


def test_embeddings_are_alike_behind_the_window_but_not_the_same() -> None:
    assert 0.9 < embedding_cosine(load(shipped(ENV)), ENV, trials=1) < 1


def test_everybody_is_timed_against_the_forward_pass_alone() -> None:
    timings = {timing["who"]: timing for timing in time_scene(ENV, "smoke", 2, 2, "cpu")}
    assert list(timings) == [FORWARD, *contestants(ENV, "smoke", "cpu")]
    alone = timings[FORWARD]["policy"]
    for timing in timings.values():
        parts = timing["embed"] + timing["search"] + timing["policy"] + timing["rest"]
        assert timing["whole"] == pytest.approx(parts)
        assert timing["decisions_per_second"] == pytest.approx(2 / timing["whole"])
        assert timing["ratio"] == pytest.approx(timing["whole"] / alone)
        assert timing["policy"] > 0
        remembers = timing["who"].startswith("ra-dt")
        assert (timing["embed"] > 0) == (timing["search"] > 0) == remembers


def test_steps_beyond_a_trial_are_refused() -> None:
    with pytest.raises(RunError, match="at most 50"):
        time_scene(ENV, "smoke", 1, 51, "cpu")


def test_the_record_has_the_ratio_of_the_first_scene(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "embedding_cosine", lambda *args: 0.99)
    record = bench_decide(DecideArguments(steps=1), scenes=(("smoke", 1), ("smoke", 2)))
    timings = record["timings"]
    assert {timing["slots"] for timing in timings} == {1, 2}
    assert record["ratio"] == next(one["ratio"] for one in timings if one["who"] == WHOLE)
    assert (record["incremental_cosine"], record["weights"]) == (0.99, "shipped")


def test_weights_of_another_room_are_refused() -> None:
    with pytest.raises(RunError, match="give a run of ra-dt in dark-room-20x20"):
        bench_decide(DecideArguments(env="dark-room-20x20", weights=shipped(ENV)))
