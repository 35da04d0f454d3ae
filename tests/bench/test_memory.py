"""`radt bench memory`: which keys are read and what is reported, where speed says nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from radt.bench import MemoryArguments, memory
from radt.bench.common import made_up_folder
from radt.bench.memory import (
    RealKeys,
    bench_memory,
    fastest_by_size,
    measure_read,
    real_keys,
    too_large,
    widened,
)
from radt.data import Dataset
from radt.envs import SUITES
from radt.loading import load, shipped
from radt.memory.memory import Memory, MemoryConfig
from radt.runs.run import RunError
from scripts.memory_server import ServerArguments, measure_server
from tests.memory.postgres import needs_server, running_server
from tests.memory.toy_data import toy_embedder
from tests.toys import TOY_GRID

SUITE = SUITES["dark-room-10x10"]


@pytest.fixture(scope="module")
def dataset() -> Any:
    with made_up_folder(SUITE, 200) as folder:
        yield Dataset.open(folder, in_memory=True)


def some_keys(count: int = 300, queries: int = 30, width: int = 8) -> RealKeys:
    rng = np.random.default_rng(0)
    keys, asked = (rng.normal(size=(n, width)).astype(np.float32) for n in (count, queries))
    return RealKeys(keys, rng.integers(4, size=count), asked, rng.integers(4, size=queries))


def test_keys_are_drawn_from_the_dataset(dataset: Dataset) -> None:
    method: Any = load(shipped()).method
    real = real_keys(method.embedder, dataset, 50, count=200, queries=60)
    assert real.keys.shape == (200, 64)
    assert real.queries.shape == (60, 64)
    assert set(real.task) <= set(dataset.tasks)
    again = real_keys(method.embedder, dataset, 50, count=200, queries=60)
    np.testing.assert_array_equal(again.keys, real.keys)
    with pytest.raises(RunError, match="collect more"):
        real_keys(method.embedder, dataset, 101, count=1, queries=1)


def test_beyond_the_real_keys_come_others_of_their_kind() -> None:
    real = some_keys(count=300)
    keys, task = (torch.cat(part) for part in zip(*real.blocks(1000, 8), strict=True))
    assert keys.shape == (1000, 8)
    np.testing.assert_array_equal(keys[:300].numpy(), real.keys)
    np.testing.assert_array_equal(task[:300].numpy(), real.task)
    apart = torch.cdist(keys[300:], keys[:300]).amin(1)  # each is near a real one
    assert 0 < float(apart.median()) < float(torch.cdist(keys[:300], keys[:300]).median()) / 4
    fewer = torch.cat([part for part, _ in real.blocks(200, 8)])
    np.testing.assert_array_equal(fewer.numpy(), real.keys[:200])


def test_wider_keys_have_the_same_cosines() -> None:
    real = some_keys()
    wide = torch.cat([keys for keys, _ in real.blocks(300, 20)]).numpy()
    assert wide.shape == (300, 20)
    np.testing.assert_allclose(wide @ wide.T, real.keys @ real.keys.T, rtol=0, atol=1e-4)
    with pytest.raises(RunError, match="cannot ask for 4"):
        widened(real.keys, 4)


def test_an_exact_index_finds_all() -> None:
    read = measure_read("flat", some_keys(), 400, 8)
    assert (read["recall"], read["reads"], read["real"]) == (1, 30, 300)
    assert min(read[name] for name in read if name.endswith("_ms")) > 0


def test_the_fastest_index_is_one_that_finds_enough() -> None:
    reads = [
        {"index": index, "size": size, "width": width, "p50_ms": took, "recall": recall}
        for index, size, width, took, recall in (
            ("flat", 10, 8, 0.4, 1.0),
            ("faiss-hnsw", 10, 8, 0.1, 0.9),  # fast, but it misses too much
            ("faiss-ivf", 10, 8, 0.2, 0.96),
            ("flat", 1000, 8, 9.0, 1.0),
            ("flat", 10, 99, 0.01, 1.0),
        )
    ]
    found = {size: read["index"] for size, read in fastest_by_size(reads).items()}
    assert found == {10: "faiss-ivf", 1000: "flat"}


def test_what_does_not_fit_is_skipped_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    assert too_large(8, 1000, "flat") is None
    assert "hours" in str(too_large(64, 10_000_000, "faiss-hnsw"))
    monkeypatch.setattr(memory, "free_memory", lambda: 2**20)
    assert "GiB" in str(too_large(8, 100_000, "flat"))


def test_reads_are_in_the_record(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_dataset", lambda folder: dataset)
    asked = MemoryArguments(sizes="300", reads=25, real=200, indexes="flat,auto")
    record = bench_memory(asked)
    found = [(read["size"], read["index"], read["recall"]) for read in record["reads"]]
    assert found == [(300, "flat", 1.0), (300, "auto", 1.0)]
    fastest = min(record["reads"], key=lambda read: read["p50_ms"])
    assert record["fastest"] == {300: fastest["index"]}
    assert record["ratio"] == fastest["product_p50_ms"] / fastest["p50_ms"]
    (first,) = record["first_decisions"]
    assert first["size"] == 300
    assert first["p50_ms"] > 0


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="radt collect dark-room-10x10"):
        bench_memory(MemoryArguments(data=tmp_path))
    with pytest.raises(RunError, match="--sizes must be whole numbers"):
        bench_memory(MemoryArguments(sizes="10k"))


@needs_server
def test_a_server_is_measured_and_left_as_it_was() -> None:
    like = Memory(toy_embedder(TOY_GRID.spaces), TOY_GRID.spaces, MemoryConfig(context_len=4))
    server = running_server()
    asked = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'radt_bench%'"
    (before,) = server.admin(asked)
    measured = measure_server(like, ServerArguments(sizes=(3, 60), reads=2))
    assert server.admin(asked) == [before]
    assert measured["entries"] == 63
    assert [cost["entries"] for cost in measured["search_in_task"]] == [3, 60]
    assert measured["disk_bytes_per_entry"] > 100
    assert measured["fsync"] == "off"
    times = ("read_chunk_p50_ms", "write_trial_p50_ms", "open_seconds")
    assert all(measured[name] > 0 for name in times)
