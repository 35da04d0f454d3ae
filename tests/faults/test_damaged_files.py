"""Files of every kind, damaged in every way: refused in one line or read rightly, nothing else."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.damage import KINDS, attack, tell_attack
from tests.memory.conftest import Tally

COLUMNS = ("clean", "tracebacks", "silent wrong", "hangs", "crashes")
PATIENCE = 120  # seconds for one case, on a machine that has other work, too
Case = tuple[int, str, str]

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["tests.faults.damage"])


def watched(name: str, whole: Path, cases: int) -> Iterator[Case]:
    """Attack in processes that may crash or hang; each goes on behind the case that ended one."""
    done = 0
    while done < cases:
        receiver, sender = processes.Pipe(duplex=False)
        process = processes.Process(
            target=tell_attack, args=(name, whole, range(done, cases), sender)
        )
        process.start()
        sender.close()
        end = "crashes"
        try:
            while done < cases:
                if not receiver.poll(PATIENCE):
                    end = "hangs"
                    break
                yield receiver.recv()
                done += 1
        except EOFError:
            pass
        process.kill()
        process.join()
        if done < cases:
            yield done, "", end
            done += 1


def assert_clean(cases: Iterator[Case], tally: Tally) -> None:
    """Count what came of all, and let nothing be but clean."""
    found = list(cases)
    counts = Counter(said.partition(":")[0] for _, _, said in found)
    tally({"tried": len(found), **{column: counts[column] for column in COLUMNS}})
    assert not [case for case in found if case[2] != "clean"]


@pytest.mark.parametrize("name", KINDS)
def test_damaged_files(name: str, tmp_path: Path, tally: Tally) -> None:
    KINDS[name].make(tmp_path / "whole")
    assert_clean(attack(name, tmp_path / "whole", range(12)), tally)


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
def test_many_damaged_files(name: str, tmp_path: Path, tally: Tally) -> None:
    KINDS[name].make(tmp_path / "whole")
    assert_clean(watched(name, tmp_path / "whole", 400), tally)
