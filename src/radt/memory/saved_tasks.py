"""Under which number entries stand: in a file and in a shared memory it is their task.

Only inside a running agent does each slot have a part of its own, so that two slots never mix. A
file names the task of each slot; older ones do not, and number entries by slots, or by tasks where
the memory was shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from radt.memory.identity import MOST_TASKS, MemoryFileError, MemoryMismatchError
from radt.memory.store import NewEntries

OPTIONAL = ("tasks", "rewards_of_trials")  # not in older files


def by_task(tasks: Sequence[int]) -> Tensor:
    """Return the number that the entries of each slot have in a file, [slots]."""
    if twice := [task for task in tasks if list(tasks).count(task) > 1]:
        raise MemoryMismatchError(
            f"several slots have the task {twice[0]}, and a file keeps entries by task; give each "
            "slot a task of its own, or share a memory that is saved by itself"
        )
    return torch.tensor(tasks, dtype=torch.int64)


def renamed(contents: NewEntries, numbers: Tensor) -> NewEntries:
    """Give entries other numbers: `numbers[i]` instead of i."""
    entries = contents.entries
    return replace(contents, entries=replace(entries, task=numbers[entries.task]))


@dataclass
class SavedTasks:
    """Finds the place of a file's entries in an agent, or says why they have none."""

    path: str | Path
    slots: int
    wanted: Sequence[int] | None  # the tasks of the slots; None: those of the file will do
    shared: bool  # entries stay under their tasks, else they go to the slots of these
    tasks: list[int] = field(default_factory=list)  # of the slots, once the file is read

    def place(self, contents: NewEntries, owner: Mapping[str, Tensor]) -> NewEntries:
        """Return the entries under the numbers that the agent uses."""
        if (count := len(owner.get("trial", ()))) != self.slots:
            raise MemoryMismatchError(
                f"{self.path} was not saved by an agent of {self.slots} slots; build an agent with "
                f"as many slots as it has ({count})"
            )
        self._check(owner)
        if "tasks" not in owner:
            contents = self._of_older(contents)
            self.tasks = self._expected()
        else:
            self.tasks = owner["tasks"].tolist()
        if self.tasks != self._expected() and self.wanted is not None:
            raise MemoryMismatchError(
                f"{self.path} was saved for the tasks {self.tasks}, but the slots of this agent "
                f"have {self._expected()}; build it with tasks={self.tasks}"
            )
        return contents if self.shared else self._into_slots(contents)

    def _check(self, owner: Mapping[str, Tensor]) -> None:
        """Refuse what no agent can have saved of how far it has come."""
        for name in ("trial", "solved", "tasks_started", "tasks", "rewards_of_trials"):
            if name not in owner and name in OPTIONAL:
                continue
            values = owner.get(name, torch.zeros(()))
            kind = torch.bool if name == "solved" else torch.int64
            low, axes = (-1, 2) if name == "rewards_of_trials" else (0, 1)
            is_own = (values.dtype, values.ndim) == (kind, axes)
            if not is_own or len(values) != self.slots or bool((values < low).any()):
                raise MemoryFileError(
                    f"{self.path} does not say rightly how far its agent had come ({name}); give a "
                    "file that agent.save wrote, or start with an empty memory"
                )
        if "tasks" in owner and int(owner["tasks"].max()) >= MOST_TASKS:
            raise MemoryFileError(f"{self.path} has tasks beyond {MOST_TASKS - 1}; start empty")

    def _expected(self) -> list[int]:
        return list(range(self.slots)) if self.wanted is None else list(self.wanted)

    def _of_older(self, contents: NewEntries) -> NewEntries:
        """Return the entries of a file that names no tasks under those of the agent."""
        found, tasks = set(contents.entries.task.tolist()), self._expected()
        if found <= set(range(self.slots)):
            return renamed(contents, torch.tensor(tasks))
        if not found <= set(tasks):
            raise MemoryMismatchError(
                f"{self.path} has entries of the tasks {sorted(found)}, but the slots of this "
                f"agent have {tasks}; build it with the tasks of the agent that saved it"
            )
        return contents

    def _into_slots(self, contents: NewEntries) -> NewEntries:
        """Number entries by slots; those of tasks that no slot has stay in the file."""
        slot_of = {task: slot for slot, task in enumerate(self.tasks)}
        slots = [slot_of.get(task, -1) for task in contents.entries.task.tolist()]
        known = torch.tensor(slots, dtype=torch.int64)
        entries = replace(contents.entries, task=known)
        return replace(contents, entries=entries).rows(known >= 0)
