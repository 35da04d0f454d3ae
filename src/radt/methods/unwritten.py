"""Trials that a memory could not take: they wait, each is written once, and none keeps out others.

What may pass, such as a full disk or a lost server, lets a trial wait. What a memory refuses for
good is named and left out. A write of which nobody knows whether it was kept is not done again.
"""

from __future__ import annotations

from radt.memory.identity import BadTrajectoryError, StoreError
from radt.methods.method import Actor
from radt.trajectory import Trajectory

PASSING = (StoreError, OSError, MemoryError)  # why a memory cannot take a trial now


class Unwritten:
    """The finished trials that wait for an actor's memory, the oldest first."""

    def __init__(self) -> None:
        self.trials: list[Trajectory] = []

    def write(self, actor: Actor, finished: list[Trajectory]) -> None:
        """Write what waits and what has finished, all or none; where one is refused, one by one."""
        waiting = self.trials = [*self.trials, *finished]
        try:
            return self._write(actor, waiting)
        except Exception as error:
            if self.trials or len(waiting) == 1 or getattr(error, "in_doubt", False):
                raise
        self.trials, errors = waiting, list[Exception]()
        for trial in waiting:
            try:
                self._write(actor, [trial])
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _write(self, actor: Actor, trials: list[Trajectory]) -> None:
        """Write some of the trials, all or none; they wait on where that may help."""
        written = written_by(actor)
        try:
            actor.remember(trials)
        except BaseException as error:
            wait = isinstance(error, PASSING) and not isinstance(error, BadTrajectoryError)
            if not isinstance(error, Exception):  # stopped, maybe behind the write
                wait = written_by(actor) == written
            if wait and not getattr(error, "in_doubt", False):
                raise
            self._take_out(trials)
            raise
        self._take_out(trials)

    def _take_out(self, trials: list[Trajectory]) -> None:
        done = set(map(id, trials))
        self.trials = [trial for trial in self.trials if id(trial) not in done]


def written_by(actor: Actor) -> int:
    """Count the trials that were ever written into an actor's memory."""
    return 0 if actor.memory is None else actor.memory.store.episodes
