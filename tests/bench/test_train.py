"""`radt bench train` at a size where speed says nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from radt.api import preset
from radt.bench import TrainArguments, train
from radt.bench.common import made_up_folder, prepared_method
from radt.bench.train import Speed, bench_train
from radt.config import RunConfig
from radt.data import Dataset
from radt.envs import SUITES
from radt.memory.language import LanguageOptions
from radt.memory.language_model import LanguageModelError
from radt.runs.run import RunError

ENV = "dark-room-10x10"


def test_the_index_holds_a_key_for_every_entry_but_queries_are_really_embedded() -> None:
    config = preset(ENV, "ra-dt", "smoke")
    with made_up_folder(SUITES[ENV], 300) as folder:
        method, keys = prepared_method(config, Dataset.open(folder, in_memory=True), "cpu")
        assert keys == 80 * 3 * 2  # tasks, episodes, entries at steps 0 and 50
        before = {name: w.clone() for name, w in method.networks["embedder"].state_dict().items()}
        embedder: Any = method.embedder  # type: ignore[attr-defined]
        assert embedder.model is method.networks["embedder"]
        assert method.memory.embedder is embedder  # type: ignore[attr-defined]
        method.loss(method.draw(4, np.random.default_rng(0))).backward()
    for name, weight in method.networks["embedder"].state_dict().items():
        assert torch.equal(weight, before[name])


def test_methods_that_learn_are_timed() -> None:
    asked = TrainArguments(envs=ENV, methods="dt,ad,ra-dt,sweep", micro_batch=2)
    record = bench_train(asked, budget="smoke", timed=1, transitions=200)
    speeds = {speed["method"]: speed for speed in record["speeds"]}
    assert list(speeds) == ["dt", "ad", "ra-dt"]
    for speed in speeds.values():
        whole = speed["draw_seconds"] + speed["pass_seconds"] * 4 + speed["step_seconds"]
        assert speed["update_seconds"] == pytest.approx(whole)  # 8 sequences, two at a time
    ratio = speeds["ra-dt"]["sequences_per_second"] / speeds["ad"]["sequences_per_second"]
    assert record["ratio"] == pytest.approx(ratio)


def test_a_missing_language_model_gives_way_to_the_laptops(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def without_bert(config: RunConfig, *more: Any) -> Speed:
        if isinstance(config.embedder, LanguageOptions):
            tried.append(config.embedder.model)
            if config.embedder.model == "bert-base-uncased":
                raise LanguageModelError("fetch it first")
        return {"env": config.env, "method": config.method, "sequences_per_second": 1.0}

    monkeypatch.setattr(train, "time_method", without_bert)
    record = bench_train(TrainArguments(envs=ENV, methods="ad,ra-dt,ra-dt-lm"), transitions=200)
    assert tried == ["bert-base-uncased", LanguageOptions().model]
    assert record["missing_models"] == {"ra-dt-lm": ["fetch it first"]}


def test_both_compared_methods_are_needed() -> None:
    with pytest.raises(RunError, match="add ad"):
        bench_train(TrainArguments(envs=ENV, methods="ra-dt,dt"))
