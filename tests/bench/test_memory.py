"""`radt bench memory`: which keys are read and what is reported, where speed says nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from radt.bench import MemoryArguments, memory
from radt.bench.common import made_up_folder
from radt.bench.memory import (
    TIMES,
    MemoryRecord,
    Read,
    bench_memory,
    claims,
    content_bytes,
    fastest_by_size,
    measure_read,
    memory_table,
    read_all,
    taking_turns,
    too_large,
)
from radt.bench.memory_keys import (
    K,
    RealKeys,
    filled_index,
    filled_memory,
    held_bytes,
    real_keys,
    turned,
    walked,
)
from radt.bench.memory_server import ServerArguments, measure_server
from radt.data import Dataset
from radt.envs import SUITES
from radt.experiments.run import RunError
from radt.loading import load, shipped
from radt.memory.memory import Memory, MemoryConfig
from radt.methods.windows import up_to
from radt.track import Tracker
from tests.memory.postgres import needs_server, running_server
from tests.memory.toy_data import toy_embedder
from tests.toys import TOY_GRID

SUITE = SUITES["dark-room-10x10"]


@pytest.fixture(scope="module")
def dataset() -> Any:
    with made_up_folder(SUITE, 200) as folder:
        yield Dataset.open(folder, in_memory=True)


@pytest.fixture(scope="module")
def embedder() -> Any:
    method: Any = load(shipped()).method
    return method.embedder


@pytest.fixture
def like() -> Memory:
    """A memory whose options those that are measured have."""
    return Memory(toy_embedder(TOY_GRID.spaces), TOY_GRID.spaces, MemoryConfig(context_len=4))


def some_keys(count: int = 300, queries: int = 30, width: int = 8) -> RealKeys:
    rng = np.random.default_rng(0)
    keys, asked = (rng.normal(size=(n, width)).astype(np.float32) for n in (count, queries))
    return RealKeys(keys, rng.integers(4, size=count), asked, rng.integers(4, size=queries))


def test_keys_are_those_of_a_memory(dataset: Dataset, embedder: Any) -> None:
    episodes = np.array([0, 5, 100])
    keys = walked(embedder, dataset, episodes, 50)
    assert keys.shape == (3, 50, 64)
    for step in (0, 1, 20, 49):
        prefixes = up_to(dataset.windows(episodes, np.zeros(3, int), 50), np.full(3, step + 1))
        np.testing.assert_allclose(keys[:, step], embedder(prefixes).numpy(), rtol=0, atol=1e-4)


def test_queries_are_from_other_episodes_than_keys(dataset: Dataset, embedder: Any) -> None:
    done = []
    real = real_keys(embedder, dataset, 50, count=200, queries=60, advance=done.append)
    assert real.keys.shape == (200, 64)
    assert real.queries.shape == (60, 64)
    assert sum(done) == 2 + 5  # episodes of 49 steps each
    assert set(real.task) <= set(dataset.tasks)
    again = real_keys(embedder, dataset, 50, count=200, queries=60)
    np.testing.assert_array_equal(again.keys, real.keys)
    with pytest.raises(RunError, match="the dataset has 160 in all"):
        real_keys(embedder, dataset, 50, count=1, queries=10_000)


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
        turned(8, 4)


def test_a_measured_memory_finds_what_its_index_does(like: Memory) -> None:
    real = some_keys()
    index, task = filled_index("flat", real, 400, 8)
    memory, (queries, its) = filled_memory(index, task, like), (real.asked(8), real.asked_by)
    for own in (None, torch.from_numpy(its)):
        for ours, theirs in zip(
            memory.search(queries, 5, own), index.search(queries, 5, own), strict=True
        ):
            assert torch.equal(ours, theirs)
    found = memory.retrieve(queries, torch.from_numpy(its), torch.zeros(30, dtype=torch.int64))
    assert found.ids.shape == (30, 50)
    assert (memory.entries.task[found.chosen[:, 0]] == torch.from_numpy(its)).all()


def test_an_exact_index_finds_all_and_a_read_is_described(like: Memory) -> None:
    real = some_keys()
    kth = filled_index("flat", real, 400, 8)[0].search(real.asked(8), K)[0][:, -1:]
    read = measure_read("flat", real, 400, 8, kth, like)
    assert read["recall"] == 1
    assert read["searched"] == "every key"
    assert 0 < read["p50_ms"] <= read["p99_ms"]
    assert (read["reads"], read["real"]) == (30, 300)
    assert read["bytes_per_entry"] == read["ram_bytes"] / 400
    assert read["ram_bytes"] >= 400 * 8 * 4  # the keys alone
    blind = measure_read("flat", real, 400, 8, kth + 1, like)
    assert blind["recall"] == 0
    assert blind["ram_bytes"] == read["ram_bytes"], "what was freed before counts for nothing"


@pytest.mark.parametrize(("name", "size"), [("faiss-hnsw", 1024), ("faiss-ivf", 4096)])
def test_what_faiss_holds_is_counted(like: Memory, name: str, size: int) -> None:
    faiss, real = pytest.importorskip("faiss"), some_keys()
    flat, found = filled_index("flat", real, size, 8), filled_index(name, real, size, 8)
    without, whole = (held_bytes(filled_memory(*each, like), each[0]) for each in (flat, found))
    finder: Any = found[0].finder  # type: ignore[attr-defined]
    assert whole - without == faiss.serialize_index(finder).nbytes
    assert whole - without > size * 8


def test_reads_take_turns_with_queries_far_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "WARM_UP", 2)
    asked = list[tuple[str, int]]()
    ways = {name: lambda at, name=name: asked.append((name, at)) for name in ("ours", "raw")}
    spent = taking_turns(ways, count=4)
    assert asked[:4] == [("ours", 0), ("raw", 2), ("ours", 1), ("raw", 3)]
    assert {name: len(times) for name, times in spent.items()} == {"ours": 4, "raw": 4}


def test_flat_and_faiss_find_the_same() -> None:
    compared = memory.flat_against_faiss(some_keys(), 700, 16, queries=20, repeats=1)
    assert compared["queries"] == 20
    assert compared["largest_difference"] < 1e-5
    seconds = compared["seconds"]
    assert compared["times_as_fast"] == pytest.approx(seconds["faiss"] / seconds["flat"])


def a_read(**values: Any) -> Read:
    times = dict.fromkeys((*TIMES, "own_task_p99_ms"), 1.0)
    return {**times, "index": "flat", "size": 10, "width": 8, "recall": 1.0, **values}


def test_claims_are_about_the_fastest_index_that_finds_enough() -> None:
    reads = [
        a_read(index="flat", p50_ms=0.4),
        a_read(index="faiss-hnsw", p50_ms=0.1, recall=0.9),  # fast, but it misses too much
        a_read(index="faiss-ivf", p50_ms=0.2, recall=0.96),
        a_read(index="flat", size=1000, p50_ms=9.0),
        a_read(index="faiss-ivf", size=1000, p50_ms=0.7, recall=0.95),
        a_read(index="flat", size=10, width=99, p50_ms=0.01),
    ]
    assert [(read["size"], read["index"]) for read in fastest_by_size(reads)] == [
        (10, "faiss-ivf"),
        (1000, "faiss-ivf"),
    ]
    recall, slower, interface, own_task, flat = claims(reads, 5.0)
    assert (recall["reached"], recall["holds"]) == (0.95, True)
    assert slower["reached"] == pytest.approx(3.5)
    assert (interface["reached"], interface["holds"]) == (8.0, False)
    assert own_task["holds"]
    assert flat["holds"]
    _, slower, *_, flat = claims(reads[:4], 3.9)
    assert not slower["holds"]
    assert "DOES NOT HOLD" in flat["said"]
    assert not claims([a_read(), a_read(size=99, recall=0.9)])[0]["holds"]  # nothing for 99


@pytest.mark.parametrize(
    ("ours", "raw", "holds"),
    [(0.13, 0.04, True), (0.15, 0.04, False), (11.9, 10.0, True), (12.1, 10.0, False)],
)
def test_an_interface_may_cost_a_fifth_or_a_tenth_of_a_millisecond(
    ours: float, raw: float, holds: bool
) -> None:
    assert claims([a_read(p50_ms=ours, raw_p50_ms=raw)])[1]["holds"] == holds


def test_what_does_not_fit_is_skipped_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert too_large(8, 1000, "flat") is None
    assert "hours" in str(too_large(64, 10_000_000, "faiss-hnsw"))
    monkeypatch.setattr(memory, "free_memory", lambda: 2**20)
    record = MemoryRecord(tmp_path / "record.json", {})
    assert record.plan([(8, 100, "flat"), (8, 100_000, "flat")]) == [(8, 100, "flat")]
    assert [(item["size"], item["index"]) for item in record.skipped] == [(100_000, "flat")]
    assert "GiB" in record.skipped[0]["reason"]


def test_a_benchmark_goes_on_from_what_was_measured(tmp_path: Path, like: Memory) -> None:
    file = tmp_path / "record.json"
    spots = [(8, size, index) for size in (100, 200) for index in ("flat", "auto")]
    record = MemoryRecord(file, {"embedder": "a"})
    assert record.plan(spots) == spots
    read_all(spots[:3], some_keys(), like, record, Tracker())  # then it is broken off
    again = MemoryRecord(file, {"embedder": "a"})
    assert again.reads == record.reads
    assert again.plan(spots) == spots[3:]
    with pytest.raises(RunError, match=r"embedder: 'a' in the file, 'b' here.*another --out"):
        MemoryRecord(file, {"embedder": "b"})
    file.write_text('{"reads": [1]}')
    with pytest.raises(RunError, match="is no record of this benchmark"):
        MemoryRecord(file, {"embedder": "a"})


def test_content_is_counted_as_it_is_collected() -> None:
    assert content_bytes(SUITE.spaces, 50) == 100 * (2 + 1 + 4)  # states, action, reward


def test_reads_are_measured_and_written_down(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_dataset", lambda folder: dataset)
    asked = MemoryArguments(
        sizes="300", reads=25, real=200, indexes="flat,auto", out=tmp_path / "memory.json"
    )
    record = bench_memory(asked, flat=(300, 64, 8))
    assert json.loads(asked.out.read_text())["reads"] == record["reads"]
    found = [(read["size"], read["index"], read["recall"]) for read in record["reads"]]
    assert found == [(300, "flat", 1.0), (300, "auto", 1.0)]
    assert [read["real"] for read in record["reads"]] == [200, 200]
    assert record["ratio"] == record["flat"]["times_as_fast"]
    assert memory_table(record).row_count == 2


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="radt collect dark-room-10x10"):
        bench_memory(MemoryArguments(data=tmp_path))
    with pytest.raises(RunError, match="--sizes must be whole numbers"):
        bench_memory(MemoryArguments(sizes="10k"))


@needs_server
def test_a_server_is_measured_and_left_as_it_was(like: Memory) -> None:
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
