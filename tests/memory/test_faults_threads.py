"""Threads that share one memory: some write, one forgets, some read, and every answer is true."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch

from radt.memory.folder.verify import verify
from radt.memory.memory import Memory, MemoryConfig
from radt.trajectory import Trajectory
from tests.memory.conftest import Tally
from tests.memory.faults import trajectory
from tests.memory.stores import KINDS, place_of
from tests.memory.toy_data import toy_embedder
from tests.toys import TOY_GRID

WRITES = [pytest.param(4, id="short"), pytest.param(40, id="long", marks=pytest.mark.long)]
THREADS = 8


def trial(task: int, number: int) -> Trajectory:
    """Make up a trial of a task."""
    return replace(trajectory(number * THREADS + task), task=task, episode=number)


@dataclass
class Crowd:
    """A memory and the threads that use it; thread n writes and reads task n."""

    memory: Memory
    writes: int
    over: threading.Event = field(default_factory=threading.Event)
    reads: Counter[str] = field(default_factory=Counter)
    problems: list[BaseException] = field(default_factory=list)

    def write(self, task: int) -> None:
        for number in range(self.writes):
            self.memory.write([trial(task, number)])
            if task == 0 and number % 2:
                self.memory.forget(torch.tensor([0]))

    def read(self, task: int) -> None:
        width = self.memory.embedder.width
        query = torch.randn(1, width, generator=torch.Generator().manual_seed(task))
        while not self.over.is_set():
            with self.memory.lock:
                found = self.memory.retrieve(query, torch.tensor([task]), torch.tensor([0]))
                chunk, entries = self.memory.chunks(found.chosen), self.memory.entries
            assert (entries.task[found.ids[found.ids >= 0]] == task).all()
            chosen = int(found.chosen[0, 0])
            if chosen >= 0:
                source = trial(task, int(entries.age[chosen]))
                steps = source.states[int(entries.start[chosen]) : int(entries.stop[chosen])]
                assert chunk.states[0][chunk.mask[0]].tolist() == steps.tolist()
            self.reads["found" if chosen >= 0 else "nothing"] += 1

    def guarded(self, work: Callable[[int], None], task: int) -> None:
        try:
            work(task)
        except BaseException as error:
            self.problems.append(error)

    def run(self) -> None:
        writing, reading = (
            [threading.Thread(target=self.guarded, args=(work, n)) for n in range(THREADS)]
            for work in (self.write, self.read)
        )
        for thread in (*reading, *writing):
            thread.start()
        for thread in writing:
            thread.join()
        self.over.set()
        for thread in reading:
            thread.join()


@pytest.mark.parametrize("writes", WRITES)
@pytest.mark.parametrize("kind", KINDS)
def test_threads(kind: str, writes: int, tmp_path: Path, tally: Tally) -> None:
    spaces, config = TOY_GRID.spaces, MemoryConfig(context_len=4, top_l=5)
    memory = Memory(toy_embedder(spaces), spaces, config).at(place_of(kind, tmp_path / kind))
    crowd = Crowd(memory, writes)
    crowd.run()
    assert crowd.problems == []
    kept = Counter(memory.entries.task.tolist())
    for task in range(1, THREADS):
        lived = [trial(task, number) for number in range(writes)]
        assert kept[task] == sum(-(-len(one) // 4) for one in lived)
    assert kept[0] == 0
    assert len(memory.index) == len(memory)
    memory.close()
    if kind == "folder":
        assert verify(tmp_path / kind).is_sound
    tally(
        {
            "writing threads": THREADS,
            "reading threads": THREADS,
            "writes": THREADS * writes,
            "reads": crowd.reads.total(),
            "wrong answers": len(crowd.problems),
        }
    )
