"""How attacks are run, watched and counted: a case is clean, or it is a fault of some kind.

An attack is a generator: told which cases, it yields of each its number, what was done, and what
came of it.
"""

from __future__ import annotations

import multiprocessing
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from radt.errors import RadtError
from tests.memory.conftest import Tally

COLUMNS = ("clean", "tracebacks", "silent wrong", "hangs", "crashes")
PATIENCE = 120  # seconds for one case, on a machine that has other work, too
Case = tuple[int, str, str]  # its number, what was done, and what came of it
Attack = Callable[..., Iterator[Case]]

processes = multiprocessing.get_context("forkserver")  # imports once, not at every start
processes.set_forkserver_preload(["tests.faults.damage", "tests.faults.kills"])


def judged(look: Callable[[], bool]) -> str:
    """Look at what is left, and say what came of it: an error of radt's own is clean."""
    try:
        return "clean" if look() else "silent wrong"
    except RadtError:
        return "clean"
    except Exception as error:
        return f"tracebacks: {type(error).__name__}: {error}"


def tell(attack: Attack, arguments: tuple[Any, ...], cases: range, told: Connection) -> None:
    """Attack in a process of its own, which may crash or hang."""
    warnings.simplefilter("ignore")
    for case in attack(*arguments, cases):
        told.send(case)


def watched(attack: Attack, *arguments: Any, cases: int) -> Iterator[Case]:
    """Attack in processes that may crash or hang; each goes on behind the case that ended one."""
    done = 0
    while done < cases:
        receiver, sender = processes.Pipe(duplex=False)
        told = (attack, arguments, range(done, cases), sender)
        process = processes.Process(target=tell, args=told)
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


def assert_clean(cases: Iterable[Case], tally: Tally, **further: int) -> None:
    """Count what came of all, and let nothing be but clean."""
    found = list(cases)
    counts = Counter(said.partition(":")[0] for _, _, said in found)
    tally({"tried": len(found), **{column: counts[column] for column in COLUMNS}, **further})
    assert not [case for case in found if case[2] != "clean"]
