"""`radt bench memory`: which keys are read and what is reported, where speed says nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from radt import cli
from radt.bench import memory
from radt.bench.histories import made_up_histories
from radt.bench.memory import Asked, bench_memory, claims, content_bytes, read_all, too_large
from radt.bench.memory_keys import RealKeys, real_keys, turned, walked
from radt.bench.memory_reads import Read, exact_kth, flat_against_faiss, measure, milliseconds
from radt.data import Dataset
from radt.envs import SUITES
from radt.experiments.run import RunError
from radt.loading import load, shipped
from radt.methods.windows import up_to
from radt.track import Tracker

SUITE = SUITES["dark-room-10x10"]


@pytest.fixture(scope="module")
def dataset() -> Any:
    with made_up_histories(SUITE, 200) as made_up:
        yield made_up


@pytest.fixture(scope="module")
def embedder() -> Any:
    method: Any = load(shipped()).method
    return method.embedder


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


def test_an_exact_index_finds_all_and_a_read_is_described() -> None:
    real = some_keys()
    kth = exact_kth(real, 400, 8)
    read = measure("flat", real, 400, 8, kth)
    assert read.recall == 1
    assert read.searched == "every key"
    assert 0 < read.p50_ms <= read.p99_ms
    assert read.reads == 30
    assert read.bytes_per_entry == read.ram_bytes / 400
    blind = measure("flat", real, 400, 8, kth + 1)
    assert blind.recall == 0


def test_reads_stop_when_it_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radt.bench.memory_reads.LONGEST", 0.0)
    asked = list[int]()
    spent = milliseconds(asked.append, count=50)
    assert asked == [*range(20), *range(20)]  # warming up, then timed
    assert len(spent) == 20


def test_flat_and_faiss_find_the_same() -> None:
    compared = flat_against_faiss(some_keys(), 700, 16, queries=20, repeats=1)
    assert compared["queries"] == 20
    assert compared["largest_difference"] < 1e-5
    seconds = compared["seconds"]
    assert compared["times_as_fast"] == pytest.approx(seconds["faiss"] / seconds["flat"])


def a_read(**values: Any) -> Read:
    told = {"index": "flat", "size": 10, "width": 8, "searched": "", "recall": 1.0, "p50_ms": 1.0}
    told |= dict.fromkeys(("p99_ms", "raw_p50_ms", "own_task_p50_ms", "own_task_p99_ms"), 1.0)
    told |= {"reads": 1, "build_seconds": 0.0, "ram_bytes": 0, "bytes_per_entry": 0.0}
    return Read(**(told | values))


def test_claims_are_about_the_fastest_index_that_finds_enough() -> None:
    reads = [
        a_read(index="flat", p50_ms=0.4),
        a_read(index="faiss-hnsw", p50_ms=0.1, recall=0.9),  # fast, but it misses too much
        a_read(index="faiss-ivf", p50_ms=0.2, recall=0.96),
        a_read(index="flat", size=1000, p50_ms=9.0),
        a_read(index="faiss-ivf", size=1000, p50_ms=0.7, recall=0.95),
        a_read(index="flat", size=10, width=99, p50_ms=0.01),
    ]
    said = claims(reads, 5.0)
    assert said["fastest"] == {10: "faiss-ivf", 1000: "faiss-ivf"}
    assert said["recall_at_every_size"] == {10: 0.96, 1000: 0.95}
    assert said["times_as_slow_at_the_largest"] == pytest.approx(3.5)
    assert said["times_as_slow_holds"]
    assert said["flat_holds"]
    assert not said["interface_holds"]
    assert not claims(reads[:4], 3.9)["times_as_slow_holds"]


def test_an_interface_may_cost_a_fifth_or_a_tenth_of_a_millisecond() -> None:
    assert a_read(p50_ms=0.13, raw_p50_ms=0.04).interface_fits
    assert not a_read(p50_ms=0.15, raw_p50_ms=0.04).interface_fits
    assert a_read(p50_ms=11.9, raw_p50_ms=10.0).interface_fits
    assert not a_read(p50_ms=12.1, raw_p50_ms=10.0).interface_fits


def test_what_does_not_fit_is_skipped_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    assert too_large("flat", 1000, 8) is None
    assert "hours" in str(too_large("faiss-hnsw", 10_000_000, 64))
    monkeypatch.setattr(memory, "free_memory", lambda: 2**20)
    asked = Asked(sizes=[100, 100_000], indexes=["flat"])
    reads, skipped = read_all(some_keys(), asked, Tracker())
    assert [read.size for read in reads] == [100]
    assert [(item["size"], item["index"]) for item in skipped] == [(100_000, "flat")]
    assert "GiB" in skipped[0]["reason"]


def test_content_is_counted_as_it_is_collected() -> None:
    assert content_bytes(SUITE.spaces, 50) == 100 * (2 + 1 + 4)  # states, action, reward


def test_the_record_is_written_and_the_ratio_comes_last(
    dataset: Dataset,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "_dataset", lambda folder: dataset)

    def small(asked: Asked, quiet: bool) -> dict[str, Any]:
        return bench_memory(asked, (300, 64, 8), quiet)

    monkeypatch.setattr(memory, "bench_memory", small)
    out = tmp_path / "memory.json"
    words = ["--sizes", "300", "--reads", "25", "--real", "200", "--indexes", "flat,auto"]
    verb = cli.parse(["bench", "memory", *words, "--out", str(out), "--quiet"])
    verb.execute()
    record = json.loads(out.read_text())
    found = [(read["size"], read["index"], read["recall"]) for read in record["reads"]]
    assert found == [(300, "flat", 1.0), (300, "auto", 1.0)]
    assert record["real_keys"] == 200
    assert record["content_bytes"] == 700
    assert record["ratio"] == record["flat"]["times_as_fast"]
    assert capsys.readouterr().out.splitlines()[-1] == f"ratio {record['ratio']:.2f}"


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="radt collect dark-room-10x10"):
        bench_memory(Asked(data=tmp_path))
    with pytest.raises(RunError, match="--sizes must be whole numbers"):
        replace(cli.parse(["bench", "memory"]), sizes="10k").execute()  # type: ignore[call-arg]
