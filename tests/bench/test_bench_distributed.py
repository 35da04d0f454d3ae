"""`radt bench distributed`: what is compared and reported, at a size where speed says nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from radt.bench import distributed
from radt.bench.distributed import ONE, THREADS, TWO, bench_distributed, reason, speed_up
from radt.bench.together import Given, Taken, train
from radt.distributed import SINGLE_PROCESS
from radt.experiments.run import RunError

ENV = "dark-room-10x10"


def launch_here(processes: int, given: Given, folder: Path) -> Taken:
    """Stands in for torchrun: one process does what any number would do together."""
    folder.mkdir()
    return train(given, folder, SINGLE_PROCESS)


def test_the_record_says_what_was_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(distributed, "launch", launch_here)
    monkeypatch.setattr(
        distributed,
        "bench_distributed",
        lambda *words, ray, quiet: bench_distributed(*words, transitions=200, ray=ray, quiet=quiet),
    )
    out = tmp_path / "record.json"
    assert distributed.main(out, ENV, "ra-dt", "smoke", 2, ray=False, quiet=True) == 0
    record = json.loads(out.read_text())
    assert list(record["ways"]) == [ONE.name, THREADS.name, TWO.name]
    assert record["largest_weight_difference"] < 1e-5
    assert record["ray"] is None
    assert capsys.readouterr().out.splitlines()[-1] == f"ratio {record['ratio']:.2f}"


def test_the_reason_names_what_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = {
        ONE.name: Taken(1.0, 0.2, 0.0),
        THREADS.name: Taken(0.8, 0.2, 0.0),
        TWO.name: Taken(0.5, 0.2, 0.05),
    }
    assert speed_up(taken) == 2.0
    monkeypatch.setattr(distributed, "cores", lambda: 2)
    assert "40% is drawing" in reason(taken)
    assert "10% averaging" in reason(taken)
    assert "1.25 times as fast" in reason(taken)
    monkeypatch.setattr(distributed, "cores", lambda: 1)
    assert reason(taken) == "there is only one core"


@pytest.mark.long
def test_processes_that_fail_are_quoted(tmp_path: Path) -> None:
    given = Given({}, str(tmp_path / "nowhere"), threads=1)
    with pytest.raises(RunError, match=r"(?s)the processes failed:.*DecodeError"):
        distributed.launch(1, given, tmp_path / "own")
