"""The actor that a user holds: start a task, act, observe, and get better from trial to trial.

agent = radt.load("runs/x").agent()
agent.start_task()                       # an empty memory
action = agent.act(obs)
agent.observe(reward, terminated, truncated)   # ends trials itself and remembers them
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from radt.action_rules import ActionRule as ActionRule
from radt.errors import InputError
from radt.memory.identity import MOST_TASKS, MemoryFileError, refuse_other
from radt.memory.memory import Memory
from radt.memory.memory_file import SavedTasks, by_task
from radt.memory.store import NewEntries
from radt.methods.exploration import exploring, packed, unpacked
from radt.methods.method import Method, SavesState, UsesSharedMemory, check_size, head_of
from radt.methods.trials import RunningTrials
from radt.methods.unwritten import Unwritten
from radt.model.encoders import FrozenEncoder
from radt.spaces import is_whole_number, value_problem
from radt.trajectory import Retrieval, Trajectory


@dataclass(frozen=True)
class Target:
    """The return that a return-conditioned policy aims at, drawn anew for each trial."""

    mean: float
    std: float = 0.0
    of_tasks: tuple[tuple[int, float, float], ...] = ()  # (task, mean, std) where tasks differ

    def of(self, task: int) -> tuple[float, float]:
        """Return the mean and the standard deviation of one task's target."""
        known = {one: (mean, std) for one, mean, std in self.of_tasks}
        return known.get(task, (self.mean, self.std))


class Agent:
    """Acts in one environment or in several side by side, each slot with a memory of its own."""

    def __init__(
        self,
        method: Method,
        target: Target,
        rule: ActionRule | None = None,
        seed: int = 0,
        slots: int | None = None,
        autoreset_mode: AutoresetMode = AutoresetMode.DISABLED,
        tasks: Sequence[int] | None = None,
        memory: Memory | str | Path | None = None,
    ) -> None:
        """Put a method to work.

        `slots=None` is one environment with plain numbers in and out. `tasks` are the ids of the
        tasks in the slots: each has a random stream of its own, so that its noise does not depend
        on other slots, and actions are 0 in dimensions that its task does not have. A `memory`, or
        the place of one, is used instead of an empty one and outlives the agent: each slot reads
        and writes the entries of its task. Slots with one task are a fleet: each has noise of its
        own, and sees at the start of a trial what all have stored.
        """
        self.method, self.target, self.rule, self.seed = method, target, rule or ActionRule(), seed
        self.single = slots is None
        self.slots = slots or 1
        self.autoreset_mode = autoreset_mode
        self.tasks, self._tasks_given = checked_tasks(tasks, self.slots), tasks is not None
        self._members = members(self.tasks)
        check_size(method, self.slots)
        self.actor, self.head = method.actor(self.slots), head_of(method)
        self._shared = None if memory is None else self._share(memory)
        self.trials = RunningTrials(method.spaces, self.slots)
        self._encoder = method.networks.get("encoder")
        self._observed = method.spaces  # as environments show them
        if isinstance(self._encoder, FrozenEncoder):
            self._observed = replace(method.spaces, state=self._encoder.space)
        self._padding = None if tasks is None else method.spaces.padding(tasks)
        self._tasks_started = np.zeros(self.slots, dtype=np.int64)
        self._between = np.ones(self.slots, dtype=bool)  # no trial is running
        self._dummy = np.zeros(self.slots, dtype=bool)  # the next step is the one that resets
        self._acting = np.zeros(0, dtype=np.int64)
        self._actions: NDArray[Any] = np.zeros(0)
        self._decided: Tensor | None = None  # [B, A] logits of the slots that acted last
        self._may_act, self._may_observe = True, False  # one after the other, in turn
        self._unwritten = Unwritten()
        self.start_task()

    @property
    def unwritten(self) -> list[Trajectory]:
        """Finished trials that the memory could not take yet."""
        return self._unwritten.trials

    @property
    def memory(self) -> Memory | None:
        """What the agent remembers; None for methods that have no memory."""
        return self.actor.memory

    @property
    def retrieval(self) -> Retrieval | None:
        """The search behind the latest action, where there was one."""
        return self.actor.retrieval

    @property
    def query_slots(self) -> NDArray[np.int64]:
        """The slots that the rows of `retrieval` belong to, [B]."""
        return self.actor.query_slots

    @property
    def actions(self) -> NDArray[Any]:
        """The latest action of every slot, [slots] or [slots, action_size]."""
        return self._actions

    @property
    def action_probabilities(self) -> NDArray[np.float64] | None:
        """How likely each action was, [B, A], in the slots that act, until they `observe`.

        None where actions are continuous or nothing is decided.
        """
        if self._decided is None:
            return None
        weights = self.rule.weigh(self._decided, exploring(self.trials, self._acting))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    @property
    def is_acting(self) -> NDArray[np.bool_]:
        """Which slots' last action counts; the others are being reset, [slots]."""
        acting = np.zeros(self.slots, dtype=bool)
        acting[self._acting] = True
        return acting

    def start_task(self, slots: ArrayLike | None = None) -> None:
        """Begin a new task with an empty memory or a shared one, in all slots or in some.

        The environments of these slots are reset, too: the next observation starts a trial.
        """
        chosen = np.arange(self.slots) if slots is None else np.atleast_1d(np.asarray(slots))
        self.actor.forget(chosen)
        self.trials.begin_task(chosen)
        if self._shared is None:
            others = [trial for trial in self.unwritten if trial.task not in chosen]
            self._unwritten.trials = others
        else:
            self._recall(self._shared, chosen)
        self._tasks_started[chosen] += 1
        self.abandon(chosen)

    def abandon(self, slots: ArrayLike | None = None) -> None:
        """Break off the running trials of all slots or of some: nothing of them is remembered.

        The environments of these slots are reset, too: the next observation starts a trial.
        """
        chosen = np.arange(self.slots) if slots is None else np.atleast_1d(np.asarray(slots))
        self._between[chosen] = True
        self._dummy[chosen] = False
        self._acting = np.setdiff1d(self._acting, chosen)  # what comes of it belongs to no trial
        self._decided = None
        self._may_act |= not len(self._acting)

    def act(self, obs: ArrayLike) -> Any:
        """Choose the next action, or one per slot, for the states the environments are in."""
        if not self._may_act:
            raise RuntimeError(
                "act was called twice; call observe(reward, terminated, truncated) with what the "
                "last action brought, or start_task() to begin anew"
            )
        states = np.asarray(obs)[None] if self.single else np.asarray(obs)
        self._check(states)
        acting = np.flatnonzero(~self._dummy)
        self._begin(acting[self._between[acting]])
        shape, dtype = self.method.spaces.action.shape, self.trials.actions.dtype
        actions = np.zeros((self.slots, *shape), dtype=dtype)
        if len(acting):
            seen = states[acting]
            self.trials.see(acting, seen if self._encoder is None else self._encoder(seen))
            actions[acting] = self._choose(acting)
        self._acting, self._actions = acting, actions
        self._may_act, self._may_observe = False, True
        if not self.single:
            return actions
        return actions[0] if shape else int(actions[0])

    def observe(self, reward: ArrayLike, terminated: ArrayLike, truncated: ArrayLike) -> None:
        """Take in what the last action brought; finished trials go to the memory."""
        if not self._may_observe:
            raise RuntimeError(
                "observe was called without an action to learn about; call act(obs) first, and "
                "observe once after each step of the environment"
            )
        rewards, done = self._outcome(reward, terminated, truncated)
        self._may_act, self._may_observe = True, False
        acting = self._acting
        self._dummy[:] = False
        self.trials.record(acting, self._actions[acting], rewards[acting])
        ended = acting[done[acting]]
        self._acting, self._decided = np.zeros(0, dtype=np.int64), None
        self._between[ended] = True  # whatever becomes of the write
        self._dummy[ended] = self.autoreset_mode == AutoresetMode.NEXT_STEP
        if len(ended):
            finished = [self.trials.finish(slot) for slot in ended.tolist()]
            self._unwritten.write(self.actor, finished)

    def flush(self) -> None:
        """Write the trials that a full disk or a lost server kept out of the memory.

        They are in `unwritten`; the end of the next trial does this, too.
        """
        if self.unwritten:
            self._unwritten.write(self.actor, [])

    def save(self, path: str | Path) -> None:
        """Write the memory to a file, with how far each slot has come.

        In the file each entry stands under its slot's task, as in a shared memory. Trials that are
        `unwritten` go to the memory first; where it still cannot take them, nothing is saved.
        """
        self.flush()
        trials = self.trials
        progress = {
            "trial": torch.from_numpy(trials.trial),
            "solved": torch.from_numpy(trials.solved),
            "rewards_of_trials": packed(trials.rewards_of_trials),
            "tasks_started": torch.from_numpy(self._tasks_started),
        }
        kept = self.actor.kept() if isinstance(self.actor, SavesState) else {}
        owner = progress | kept | {"tasks": torch.tensor(self.tasks)}
        named = by_task(self.tasks) if self._shared is None else None
        self._needs_memory().save(Path(path), owner, named)

    def load(self, path: str | Path) -> None:
        """Replace the memory by one that an agent with as many slots saved, and go on there.

        A file that is refused replaces nothing.
        An agent that was built without `tasks` takes those of the file.
        """
        shares = self._shared is not None
        wanted = self.tasks if self._tasks_given or shares else None
        own = SavedTasks(path, self.slots, wanted, shares)

        def place(contents: NewEntries, progress: Mapping[str, Tensor]) -> NewEntries:
            placed = own.place(contents, progress)
            if isinstance(self.actor, SavesState):
                restore_or_refuse(path, self.actor, progress)  # the last that may be refused
            return placed

        progress = self._needs_memory().load(Path(path), place)
        self.tasks[:] = own.tasks
        self._members = members(self.tasks)
        self.trials.trial[:] = progress["trial"].numpy()
        self.trials.solved[:] = progress["solved"].numpy()
        known = progress.get("rewards_of_trials", torch.zeros(self.slots, 0))  # not in older files
        self.trials.rewards_of_trials = unpacked(known)
        self._tasks_started[:] = progress["tasks_started"].numpy()
        self._unwritten.trials = []
        self.abandon()
        self._may_observe = False

    def _share(self, memory: Memory | str | Path) -> Memory:
        """Let the actor use a memory that was given, once it fits."""
        own = self._needs_memory()
        if not isinstance(self.actor, UsesSharedMemory):
            raise ValueError(f"the method {self.method.name} cannot share a memory")
        shared = memory if isinstance(memory, Memory) else own.at(memory)
        refuse_other(shared.store.place, shared.identity(), own.identity())
        self.actor.share(shared, np.array(self.tasks, dtype=np.int64))
        return shared

    def _recall(self, memory: Memory, slots: NDArray[np.int64]) -> None:
        """See what others have written; tasks that anybody has solved need no exploration."""
        memory.refresh()
        above = self.method.spaces.solved_above
        if above is None:
            return
        for slot in slots.tolist():
            earned = memory.of_task(self.tasks[slot]).total_return
            self.trials.solved[slot] |= bool((earned > above).any())

    def _needs_memory(self) -> Memory:
        if self.memory is None:
            raise ValueError(f"the method {self.method.name} has no memory to save or load")
        return self.memory

    def _begin(self, slots: NDArray[np.int64]) -> None:
        """Start trials: draw each one's target and noise from a stream of its own."""
        if not len(slots):
            return
        targets = np.zeros(len(slots), dtype=np.float32)
        for row, slot in enumerate(slots.tolist()):
            name = (self.seed, self.tasks[slot], self._tasks_started[slot], self.trials.trial[slot])
            rng = np.random.default_rng([*map(int, name), *self._members[slot]])
            targets[row] = rng.normal(*self.target.of(self.tasks[slot]))
            self.trials.noise[slot] = rng.random(self.trials.noise.shape[1:])
        self.trials.begin_trial(slots, targets)
        if self._shared is not None:
            self._recall(self._shared, slots)
        self.actor.begin_trials(slots)
        self._between[slots] = False

    def _choose(self, slots: NDArray[np.int64]) -> NDArray[Any]:
        decided = self.actor.decide(self.trials, slots)  # [B, head.size]
        if self.method.spaces.action.kind == "discrete":
            self._decided = decided
        uniform = self.trials.noise[slots, self.trials.step[slots]]  # [B, 1] or [B, action_size]
        chosen = self.head.choose(decided, self.rule, uniform, exploring(self.trials, slots))
        if self._padding is not None:
            chosen = np.where(self._padding[slots], np.float32(0), chosen)
        if problem := value_problem("actions", chosen, self.method.spaces, row="slot"):
            raise InputError(f"the method {self.method.name} decided what is no action: {problem}")
        return chosen

    def _check(self, states: NDArray[Any]) -> None:
        spaces, expected = self._observed, (self.slots, *self._observed.state.shape)
        if states.shape != expected:
            raise InputError(
                f"observations of shape {states.shape} given to an agent that expects {expected}"
            )
        kinds = "iu" if spaces.state.kind in ("discrete", "image") else "iuf"
        if states.dtype.kind not in kinds:
            raise InputError(
                f"observations of type {states.dtype} given to an agent whose {spaces.state.kind} "
                f"states are {spaces.state.dtype}; give them as the environment returns them"
            )
        if problem := value_problem("states", states, spaces, row="slot"):
            raise InputError(f"this is no observation that the agent knows: {problem}")

    def _outcome(
        self, reward: ArrayLike, terminated: ArrayLike, truncated: ArrayLike
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Check what came of the last actions and bring it to one row a slot, [slots] each."""
        given = [np.atleast_1d(np.asarray(part)) for part in (reward, terminated, truncated)]
        if any(part.shape != (self.slots,) for part in given):
            raise InputError(
                f"rewards, terminated and truncated of shapes {[part.shape for part in given]} "
                f"given to an agent of {self.slots} slots"
            )
        rewards, ends = given[0], np.stack(given[1:])
        if rewards.dtype.kind not in "biuf":
            raise InputError(f"rewards of type {rewards.dtype} given; rewards are numbers")
        if problem := value_problem("rewards", rewards, self.method.spaces, row="slot"):
            raise InputError(f"{problem}; give finite rewards, e.g. clip them")
        if not np.isin(ends, (0, 1)).all():
            raise InputError(f"terminated and truncated must be True or False, not {ends.tolist()}")
        return rewards.astype(np.float32), ends[0].astype(bool) | ends[1].astype(bool)


def restore_or_refuse(path: str | Path, actor: SavesState, saved: Mapping[str, Tensor]) -> None:
    """Let an actor know what was saved; where it cannot, it knows what it knew before."""
    before = actor.kept()
    try:
        actor.restore(saved)
    except Exception as error:
        actor.restore(before)
        raise MemoryFileError(
            f"{path} says something of what was tried that cannot be ({error}); start empty"
        ) from error


def checked_tasks(tasks: Sequence[int] | None, slots: int) -> list[int]:
    """Return the task of each slot; without any, slots count as tasks."""
    if tasks is None:
        return list(range(slots))
    for task in tasks:
        if not is_whole_number(task) or not 0 <= task < MOST_TASKS:
            raise InputError(
                f"{task!r} is no task; give whole numbers from 0 to {MOST_TASKS - 1}, one a slot"
            )
    if len(tasks) != slots:
        raise InputError(
            f"{slots} slots were given {len(tasks)} tasks ({list(tasks)}); give each slot a task"
        )
    return [int(task) for task in tasks]


def members(tasks: Sequence[int]) -> list[tuple[int, ...]]:
    """Tell slots with one task apart; the first has no number and acts as it would alone."""
    seen: Counter[int] = Counter()
    found: list[tuple[int, ...]] = []
    for task in tasks:
        found.append((seen[task],) if seen[task] else ())
        seen[task] += 1
    return found
