"""`radt bench memory`: which keys are read and what is reported, where speed says nothing."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from radt import cli
from radt.bench import memory
from radt.bench.histories import made_up_histories
from radt.bench.memory import Asked, Place, bench_memory, content_bytes, plan, read_all, too_large
from radt.bench.memory_bytes import held_bytes
from radt.bench.memory_claims import claims, fastest_by_size
from radt.bench.memory_filled import filled_index, filled_memory
from radt.bench.memory_keys import RealKeys, real_keys, turned, walked
from radt.bench.memory_reads import (
    Read,
    exact_kth,
    flat_against_faiss,
    measure,
    milliseconds,
    taking_turns,
)
from radt.bench.memory_record import MemoryRecord
from radt.data import Dataset
from radt.envs import SUITES
from radt.experiments.run import RunError
from radt.loading import load, shipped
from radt.memory.memory import Memory, MemoryConfig
from radt.methods.windows import up_to
from radt.track import Tracker
from tests.memory.toy_data import toy_embedder
from tests.toys import TOY_GRID

SUITE = SUITES["dark-room-10x10"]


@pytest.fixture(scope="module")
def dataset() -> Any:
    with made_up_histories(SUITE, 200) as made_up:
        yield made_up


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
    kth = exact_kth(real, 400, 8)
    read = measure("flat", real, 400, 8, kth, like)
    assert read.recall == 1
    assert read.searched == "every key"
    assert 0 < read.p50_ms <= read.p99_ms
    assert (read.reads, read.real) == (30, 300)
    assert read.bytes_per_entry == read.ram_bytes / 400
    table = 8 * 4 + 8 + 4 + 8 + 8 + 1 + 8  # key, length, inverse, id, task, living, row of the task
    assert read.ram_bytes == 400 * (table + 6 * 8 + 4 + 8)  # columns of the entry, its number
    blind = measure("flat", real, 400, 8, kth + 1, like)
    assert blind.recall == 0
    assert blind.ram_bytes == read.ram_bytes, "what was freed before counts for nothing"


@pytest.mark.parametrize(("name", "size"), [("faiss-hnsw", 400), ("faiss-ivf", 4096)])
def test_what_faiss_holds_is_counted(like: Memory, name: str, size: int) -> None:
    faiss, real = pytest.importorskip("faiss"), some_keys()
    flat, found = filled_index("flat", real, size, 8), filled_index(name, real, size, 8)
    without, whole = (held_bytes(filled_memory(*each, like), each[0]) for each in (flat, found))
    finder: Any = found[0].finder  # type: ignore[attr-defined]
    assert whole - without == faiss.serialize_index(finder.index).nbytes
    assert whole - without > size * 8


def test_copies_of_what_is_left_are_counted() -> None:
    index, _ = filled_index("flat", some_keys(), 300, 8)
    before = index.table.nbytes  # type: ignore[attr-defined]
    index.remove(torch.arange(10))
    index.search(torch.ones(4, 8), 5, torch.arange(4))
    assert index.table.nbytes == before + 290 * 8  # type: ignore[attr-defined]


def test_reads_take_turns_with_queries_far_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radt.bench.memory_reads.WARM_UP", 2)
    asked = list[tuple[str, int]]()
    ways = {name: lambda at, name=name: asked.append((name, at)) for name in ("ours", "raw")}
    spent = taking_turns(ways, count=4)
    assert asked[:4] == [("ours", 0), ("raw", 2), ("ours", 1), ("raw", 3)]
    assert {name: len(times) for name, times in spent.items()} == {"ours": 4, "raw": 4}


def test_reads_stop_when_it_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radt.bench.memory_reads.LONGEST", 0.0)
    asked = list[int]()
    spent = milliseconds(asked.append, count=50)
    assert asked == list(range(40))  # 20 to warm up, then 20 that are timed
    assert len(spent) == 20


def test_flat_and_faiss_find_the_same() -> None:
    compared = flat_against_faiss(some_keys(), 700, 16, queries=20, repeats=1)
    assert compared["queries"] == 20
    assert compared["largest_difference"] < 1e-5
    seconds = compared["seconds"]
    assert compared["times_as_fast"] == pytest.approx(seconds["faiss"] / seconds["flat"])


def a_read(**values: Any) -> Read:
    times = {field.name: 1.0 for field in fields(Read) if field.name.endswith("_ms")}
    told = {"index": "flat", "size": 10, "width": 8, "real": 10, "searched": "", "recall": 1.0}
    told |= {"reads": 1, "build_seconds": 0.0, "ram_bytes": 0, "bytes_per_entry": 0.0}
    return Read(**(times | told | {"code_version": ""} | values))


def test_claims_are_about_the_fastest_index_that_finds_enough() -> None:
    reads = [
        a_read(index="flat", p50_ms=0.4),
        a_read(index="faiss-hnsw", p50_ms=0.1, recall=0.9),  # fast, but it misses too much
        a_read(index="faiss-ivf", p50_ms=0.2, recall=0.96),
        a_read(index="flat", size=1000, p50_ms=9.0),
        a_read(index="faiss-ivf", size=1000, p50_ms=0.7, recall=0.95),
        a_read(index="flat", size=10, width=99, p50_ms=0.01),
    ]
    assert [(read.size, read.index) for read in fastest_by_size(reads)] == [
        (10, "faiss-ivf"),
        (1000, "faiss-ivf"),
    ]
    recall, slower, interface, own_task, flat = claims(reads, 5.0)
    assert (recall.reached, recall.holds) == (0.95, True)
    assert slower.reached == pytest.approx(3.5)
    assert str(slower) == (
        "p50 at 1,000 entries (faiss-ivf) over that at 10 (faiss-ivf), the fastest of each: 3.500, "
        "must be at most 4: holds"
    )
    assert (interface.reached, interface.holds) == (8.0, False)
    assert own_task.holds
    assert flat.holds
    _, slower, *_, flat = claims(reads[:4], 3.9)
    assert not slower.holds
    assert not flat.holds
    assert "DOES NOT HOLD" in str(flat)
    assert not claims([a_read(), a_read(size=99, recall=0.9)])[0].holds  # nothing for 99


def test_an_interface_may_cost_a_fifth_or_a_tenth_of_a_millisecond() -> None:
    assert a_read(p50_ms=0.13, raw_p50_ms=0.04).interface_fits
    assert not a_read(p50_ms=0.15, raw_p50_ms=0.04).interface_fits
    assert a_read(p50_ms=11.9, raw_p50_ms=10.0).interface_fits
    assert not a_read(p50_ms=12.1, raw_p50_ms=10.0).interface_fits


def test_what_does_not_fit_is_skipped_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert too_large(Place(8, 1000, "flat")) is None
    assert "hours" in str(too_large(Place(64, 10_000_000, "faiss-hnsw")))
    monkeypatch.setattr(memory, "free_memory", lambda: 2**20)
    record = MemoryRecord(tmp_path / "record.json", {})
    asked = Asked(sizes=[100, 100_000], indexes=["flat"])
    assert plan(record, asked, width=8) == [Place(8, 100, "flat")]
    assert [(item["size"], item["index"]) for item in record.skipped] == [(100_000, "flat")]
    assert "GiB" in record.skipped[0]["reason"]


def test_a_benchmark_goes_on_from_what_was_measured(tmp_path: Path, like: Memory) -> None:
    file, asked = tmp_path / "record.json", Asked(sizes=[100, 200], indexes=["flat", "auto"])
    record = MemoryRecord.open(file, {"embedder": "a"})
    todo = plan(record, asked, width=8)
    read_all(todo[:3], some_keys(), like, record, Tracker())  # then it is broken off
    again = MemoryRecord.open(file, {"embedder": "a"})
    assert again.reads == record.reads
    assert plan(again, asked, width=8) == todo[3:] == [Place(8, 200, "auto")]
    with pytest.raises(RunError, match=r"embedder: 'a' in the file, 'b' here.*another --out"):
        MemoryRecord.open(file, {"embedder": "b"})
    file.write_text('{"reads": [1]}')
    with pytest.raises(RunError, match="is no record of this benchmark"):
        MemoryRecord.open(file, {"embedder": "a"})


def test_content_is_counted_as_it_is_collected() -> None:
    assert content_bytes(SUITE.spaces, 50) == 100 * (2 + 1 + 4)  # states, action, reward


def test_the_record_is_written_and_the_ratio_comes_last(
    dataset: Dataset,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "_dataset", lambda folder: dataset)

    def small(out: Path, asked: Asked, quiet: bool) -> dict[str, Any]:
        return bench_memory(out, asked, (300, 64, 8), quiet)

    monkeypatch.setattr(memory, "bench_memory", small)
    out = tmp_path / "memory.json"
    words = ["--sizes", "300", "--reads", "25", "--real", "200", "--indexes", "flat,auto"]
    verb = cli.parse(["bench", "memory", *words, "--out", str(out), "--quiet"])
    verb.execute()
    record = json.loads(out.read_text())
    found = [(read["size"], read["index"], read["recall"]) for read in record["reads"]]
    assert found == [(300, "flat", 1.0), (300, "auto", 1.0)]
    assert [read["real"] for read in record["reads"]] == [200, 200]
    assert record["content_bytes"] == 700
    assert record["ratio"] == record["flat"]["times_as_fast"]
    assert capsys.readouterr().out.splitlines()[-1] == f"ratio {record['ratio']:.2f}"


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="radt collect dark-room-10x10"):
        bench_memory(tmp_path / "record.json", Asked(data=tmp_path))
    with pytest.raises(RunError, match="--sizes must be whole numbers"):
        replace(cli.parse(["bench", "memory"]), sizes="10k").execute()  # type: ignore[call-arg]
