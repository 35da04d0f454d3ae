"""What a run says about its time, and what is believed of its log."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from radt.errors import RadtWarning
from radt.runs import provenance
from radt.runs.provenance import Stopwatch, read_log, validations


def test_a_machine_is_described_and_not_named() -> None:
    told = provenance.machine()
    assert told["cores"] >= 1
    assert isinstance(told["processor"], str)
    assert not told.keys() & {"node", "host", "user"}


def test_phases_add_up_over_starts(tmp_path: Path) -> None:
    file = tmp_path / "wall.json"
    file.write_text('{"train": 100.0}')
    watch = Stopwatch(file)
    with watch.phase("evaluate"):
        pass
    with pytest.raises(KeyboardInterrupt), watch.phase("train"):
        raise KeyboardInterrupt
    assert set(watch.seconds) == {"train", "evaluate"}
    assert watch.seconds["train"] >= 100.0
    assert json.loads(file.read_text()) == watch.seconds


def test_a_phase_that_never_ends_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "BEAT", 0.01)
    file = tmp_path / "wall.json"
    with Stopwatch(file).phase("train"):
        for _ in range(500):
            if file.exists() and json.loads(file.read_text())["train"] > 0:
                break
            time.sleep(0.01)
        else:
            pytest.fail("nothing was written while the phase ran")


ODD_COUNTS = ("[]", "{", "NaN", "[" * 9999, "\xff", *(
    f'{{"train": {value}}}' for value in ("-1", "true", "null", "NaN", "1e999", '"x"', 10**400)
), '{"a | b": 1.0}', '{"/../../../X": 1.0}')  # fmt: skip


@pytest.mark.parametrize("content", ODD_COUNTS, ids=range(len(ODD_COUNTS)))
def test_a_damaged_count_of_seconds_begins_anew(content: str, tmp_path: Path) -> None:
    file = tmp_path / "wall.json"
    file.write_bytes(content.encode("latin-1"))
    with pytest.warns(RadtWarning, match=r"wall\.json .*; time is counted anew from here"):
        watch = Stopwatch(file)
    with watch.phase("evaluate"):
        pass
    assert set(json.loads(file.read_text())) == {"evaluate"}


WHEN = '{"time": 1.0, "phase": "train", "step": 3'
ODD_LINES = (
    *("[1, 2]}", "{}}", '{"a": ' + "[" * 9999 + "}", "\xff}", '{"time": 1.0, "step": 3}'),
    *(f"{WHEN}, {said}}}" for said in ('"loss": "x"', '"loss": 1e999', f'"loss": {10**400}')),
    *(f"{WHEN}, {said}}}" for said in ('"loss": [1]', f'"trial_1": {10**400}', '"step": 0.5')),
)


@pytest.mark.parametrize("line", ODD_LINES, ids=range(len(ODD_LINES)))
def test_damaged_lines_of_a_log_are_left_out(line: str, tmp_path: Path) -> None:
    whole = f'{WHEN}, "trial_1": 2.0}}'
    (tmp_path / "log.jsonl").write_bytes(f"{whole}\n{line}\n".encode("latin-1"))
    with pytest.warns(RadtWarning, match=r"1 lines of .*log\.jsonl are damaged and left out"):
        assert read_log(tmp_path) == [json.loads(whole)]


def test_what_a_run_that_diverges_logs_is_no_number(tmp_path: Path) -> None:
    said = ('"loss": NaN', '"loss": Infinity', '"trial_1": null', '"trial_x": 1.0', '"trial_2": 5')
    (tmp_path / "log.jsonl").write_text("".join(f"{WHEN}, {each}}}\n" for each in said))
    lines = read_log(tmp_path)
    assert [line.get("loss") for line in lines] == [None] * len(said)
    assert validations(lines) == [{"update": 3, "trial_2": 5}]


def test_a_log_is_not_read_beyond_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "log.jsonl").open("wb") as file:
        file.write(f"{WHEN}}}\n".encode())
        file.truncate(1 << 40)  # no byte of it is on the disk
    monkeypatch.setattr(provenance, "MOST_BYTES", 1000)
    assert len(read_log(tmp_path)) == 1
