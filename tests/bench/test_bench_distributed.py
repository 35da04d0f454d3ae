"""`radt bench distributed` at a size where speed says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from radt.bench import DistributedArguments, distributed
from radt.bench.distributed import (
    ONE,
    THREADS,
    TWO,
    Given,
    Taken,
    bench_distributed,
    distributed_table,
    reason,
    time_updates,
)
from radt.distributed import SINGLE_PROCESS
from radt.experiments.run import RunError


def test_one_and_two_processes_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def launch_here(processes: int, given: Given, folder: Path) -> Taken:
        folder.mkdir()
        return time_updates(given, folder, SINGLE_PROCESS)  # does what any number do together

    monkeypatch.setattr(distributed, "launch", launch_here)
    asked = DistributedArguments(budget="smoke", updates=2, skip_ray=True)
    record = bench_distributed(asked, transitions=200)
    assert list(record["ways"]) == [ONE, THREADS, TWO]
    assert record["largest_weight_difference"] < 1e-5
    assert record["ray"] is None
    seconds = {way: record["ways"][way]["seconds"] for way in (ONE, TWO)}
    assert record["ratio"] == pytest.approx(seconds[ONE] / seconds[TWO])
    assert distributed_table(record).row_count == 5


def test_the_reason_names_what_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {ONE: (1.0, 0.2, 0.0), THREADS: (0.8, 0.2, 0.0), TWO: (0.5, 0.2, 0.05)}
    taken = {way: Taken(*seconds) for way, seconds in times.items()}
    monkeypatch.setattr(distributed, "cores", lambda: 2)
    for share in ("40%", "10%", "1.25 times"):
        assert share in reason(taken)


@pytest.mark.long
def test_processes_that_fail_are_quoted(tmp_path: Path) -> None:
    given = Given({}, str(tmp_path / "nowhere"), threads=1)
    with pytest.raises(RunError, match=r"(?s)the processes failed:.*DecodeError"):
        distributed.launch(1, given, tmp_path / "own")
