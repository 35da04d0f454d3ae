"""`radt bench train`: what is timed and reported, at a size where speed says nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from radt.api import preset
from radt.bench import train
from radt.bench.histories import made_up_histories, prepared, random_walks
from radt.bench.train import Speed, _language_model, bench_train
from radt.config import RunConfig
from radt.distributed import take_rows
from radt.envs import SUITES
from radt.experiments.run import RunError
from radt.memory.language import LanguageOptions
from radt.memory.language_model import LanguageModelError
from tests.toys import TOY_GRID

ENV = "dark-room-10x10"
SUITE = SUITES[ENV]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "AT_LEAST", 0.0)


def test_random_walks_are_whole_episodes_of_every_training_task() -> None:
    walks = random_walks(TOY_GRID, transitions=30, seed=3)
    assert [walk.task for walk in walks] == list(TOY_GRID.train_tasks)
    for walk in walks:
        assert walk.lengths.tolist() == [12, 12]
        env = TOY_GRID.make(walk.task)
        for episode in range(2):
            state, _ = env.reset()
            for step in range(12 * episode, 12 * episode + 12):
                np.testing.assert_array_equal(walk.states[step], state)
                state, reward, *_ = env.step(int(walk.actions[step]))
                assert walk.rewards[step] == reward


def test_the_index_holds_a_key_for_every_entry_but_queries_are_really_embedded() -> None:
    config = preset(ENV, "ra-dt", "smoke")
    with made_up_histories(SUITE, 300) as dataset:
        method, keys = prepared(config, dataset, "cpu")
        assert keys == 80 * 3 * 2  # tasks, episodes, entries at steps 0 and 50
        before = {name: w.clone() for name, w in method.networks["embedder"].state_dict().items()}
        embedder: Any = method.embedder  # type: ignore[attr-defined]
        assert embedder.model is method.networks["embedder"]
        assert method.memory.embedder is embedder  # type: ignore[attr-defined]
        method.loss(method.draw(4, np.random.default_rng(0))).backward()
    for name, weight in method.networks["embedder"].state_dict().items():
        assert torch.equal(weight, before[name])


def test_micro_batches_are_cut_from_all_kinds_of_examples() -> None:
    with made_up_histories(SUITE, 200) as dataset:
        for name in ("dt", "ra-dt"):
            method, _ = prepared(preset(ENV, name, "smoke"), dataset, "cpu")
            examples = method.draw(6, np.random.default_rng(0))
            part = take_rows(examples, slice(2, 4))
            assert type(part) is type(examples)
            assert torch.equal(part.recent.states, examples.recent.states[2:4])
            assert part.valid is None
            assert torch.isfinite(method.loss(part))


@pytest.mark.usefixtures("quick")
def test_every_learning_method_is_in_the_record_and_the_ratio_comes_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(envs: Any, methods: Any, micro_batch: int, device: str, quiet: bool) -> Any:
        return bench_train(envs, methods, "smoke", micro_batch, 1, 200, device, quiet)

    monkeypatch.setattr(train, "bench_train", small)
    out = tmp_path / "train.json"
    assert train.main(out, [ENV], ["dt", "ad", "ra-dt", "sweep"], 2, quiet=True) == 0
    record = json.loads(out.read_text())
    speeds = {speed["method"]: speed for speed in record["speeds"]}
    assert list(speeds) == ["dt", "ad", "ra-dt"]
    for speed in speeds.values():
        whole = speed["draw_seconds"] + speed["pass_seconds"] * 4 + speed["step_seconds"]
        assert speed["update_seconds"] == pytest.approx(whole)  # 8 sequences, two at a time
        assert speed["sequences_per_second"] == pytest.approx(8 / whole)
        assert speed["targets_per_second"] == pytest.approx(speed["targets"] / whole)
    assert speeds["ad"]["tokens"] == 200
    assert speeds["ra-dt"]["tokens"] == 150
    assert speeds["ra-dt"]["keys"] == 80 * 2 * 2
    ratio = speeds["ra-dt"]["sequences_per_second"] / speeds["ad"]["sequences_per_second"]
    assert record["ratio"] == pytest.approx(ratio)
    assert capsys.readouterr().out.splitlines()[-1] == f"ratio {record['ratio']:.2f}"


def test_a_missing_language_model_gives_way_to_the_laptops(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def without_bert(config: RunConfig, *more: Any) -> Speed:
        if isinstance(config.embedder, LanguageOptions):
            tried.append(config.embedder.model)
            if config.embedder.model == "bert-base-uncased":
                raise LanguageModelError("fetch it first")
        return Speed(config.env, config.method, *[1] * 11, language_model=_language_model(config))

    monkeypatch.setattr(train, "time_method", without_bert)
    names = ["ad", "ra-dt", "ra-dt-lm"]
    record = bench_train([ENV], names, transitions=200)
    assert [speed["method"] for speed in record["speeds"]] == names
    assert tried == ["bert-base-uncased", LanguageOptions().model]
    assert record["speeds"][-1]["language_model"] == LanguageOptions().model
    assert record["missing_models"] == {"ra-dt-lm": ["fetch it first"]}


def test_both_compared_methods_are_needed() -> None:
    with pytest.raises(RunError, match="add ad"):
        bench_train([ENV], ["ra-dt", "dt"])
