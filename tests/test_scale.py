"""docs/scale.md: its figures are those of the records, and its arithmetic is right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scripts import scale

COST = scale.Measured(
    content_bytes=700,
    ram_bytes=400.0,
    read_ms=0.5,
    size=10_000_000,
    index="faiss-ivf",
    disk_bytes=2000.0,
    write_ms=5.0,
    opened_per_second=1e6,
    searches=((100, 1.0), (1000, 2.0), (10_000, 11.0)),
    decision_ms=10.0,
)


def test_the_page_is_that_of_the_records(capsys: pytest.CaptureFixture[str]) -> None:
    assert scale.main(["--check"]) == 0, capsys.readouterr().out
    assert scale.BLOCK.search(scale.PAGE.read_text())


def test_the_arithmetic() -> None:
    assert scale.search_ms(COST, 10_000) == 11.0
    assert scale.search_ms(COST, 1_000_000) == pytest.approx(1001.0)
    assert scale.most_entries(COST, 11.0) == 10_000
    said = scale.block(COST)
    for result in (
        "| 2.00 TB |",
        "| 373 GiB: 2 machines of 256 GiB |",
        "| 60 GiB |",
        "| 17 minutes |",
        "| 16,777,216 |",
        "| 1,000 a second |",  # trials of 100 steps by agents that take a second for each
        "| 200 a second |",
        "| 60 |",  # memories, so that a client needs no more than a gigabyte
        "| 1,001 ms |",
        "| 9,000 |",
        "| 1,000: 63 machines of 16 |",
        "| 10 |",
    ):
        assert result in said, result
    slower = replace(COST, write_ms=100.0)
    assert "the larger of 1,000,000,000 / 16,777,216 and 1,000 / 10 | 100 |" in scale.block(slower)


def test_costs_are_picked_from_the_records() -> None:
    one = {"width": 64, "index": "flat", "bytes_per_entry": 1.0, "p50_ms": 2.0}
    read = {
        "content_bytes": 700,
        "fastest": {"10": "flat", "1000": "faiss-ivf"},
        "reads": [
            {**one, "size": 10},
            {**one, "size": 1000},
            {**one, "size": 1000, "index": "faiss-ivf", "bytes_per_entry": 3.0},
            {**one, "size": 1000, "index": "faiss-ivf", "width": 512},
        ],
    }
    server = {
        "disk_bytes_per_entry": 9.0,
        "write_trial_p50_ms": 1.0,
        "entries": 100,
        "open_seconds": 0.5,
        "search_in_task": [{"entries": 5, "p50_ms": 1.0}],
    }
    timing = {"model": "laptop", "slots": 1, "attention": "fused", "whole": 0.006}
    decide = {"timings": [{**timing, "who": "dt"}, {**timing, "who": "ra-dt, incremental"}]}
    cost = scale.measured(read, server, decide)
    assert (cost.size, cost.index, cost.ram_bytes) == (1000, "faiss-ivf", 3.0)
    assert (cost.opened_per_second, cost.decision_ms) == (200.0, 6.0)
