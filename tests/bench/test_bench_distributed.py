"""`radt bench distributed` at a size where speed says nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from radt.bench import DistributedArguments, distributed
from radt.bench.distributed import ONE, THREADS, TWO, bench_distributed, time_updates
from radt.runs.run import RunError


def test_one_and_two_processes_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def launch_here(processes: int, *given: Any) -> Any:
        return time_updates(*given)  # does what any number do together

    monkeypatch.setattr(distributed, "launch", launch_here)
    asked = DistributedArguments(budget="smoke", updates=2)
    record = bench_distributed(asked, transitions=200)
    assert list(record["ways"]) == [ONE, THREADS, TWO]
    assert record["largest_weight_difference"] < 1e-5
    seconds = {way: record["ways"][way]["seconds"] for way in (ONE, TWO)}
    assert record["ratio"] == pytest.approx(seconds[ONE] / seconds[TWO])


@pytest.mark.long
def test_processes_that_fail_are_quoted(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"(?s)the processes failed:.*DecodeError"):
        distributed.launch(1, {}, tmp_path / "nowhere", 1, tmp_path / "own")
