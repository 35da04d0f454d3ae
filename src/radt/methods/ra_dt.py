"""Retrieval-augmented Decision Transformer: the method of the paper (section 3.2).

Training follows Algorithm 2: a window is drawn, a chunk is retrieved from other trajectories, and
the actions are predicted with both. One chunk serves a whole window: it is retrieved from what was
known at step p, and only the steps from p on are targets, so no target helps to find its context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radt.data.reader import Dataset
from radt.memory.embed import Embedder
from radt.memory.memory import Memory, MemoryConfig
from radt.methods.decision_cache import HeldChunks, MovingWindow, check_window_step
from radt.methods.dt import valid_dimensions
from radt.methods.exploration import ExplorationBonus
from radt.methods.method import METHODS, ContextSize, MethodEntry, Progress, Retrieve
from radt.methods.training_memory import RetrievalTraining, TrainingMemory
from radt.methods.transforms import (
    SUBGOALS,
    check_translate,
    draw_subgoals,
    show_subgoal,
    subgoals_of_windows,
    translate_batches,
)
from radt.methods.trials import RunningTrials
from radt.methods.windows import WindowOptions, Windows, WindowSampler, check_share
from radt.model.policy import DecisionTransformer, ModelConfig
from radt.spaces import TaskSpaces
from radt.trajectory import Batch, Retrieval, Trajectory


@dataclass(frozen=True)
class RADTOptions(WindowOptions):
    """What can be chosen about RA-DT; docs/departures.md tells which defaults are ours."""

    model: ModelConfig = field(default_factory=ModelConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    training: RetrievalTraining = field(default_factory=RetrievalTraining)
    subgoals: bool = False  # show the chunk up to the next reward only (see transforms.py)
    episode_every: int = 1  # use every n-th episode of each task, for windows and for the index
    count_bonus: float = 0.0  # avoid what was tried until a task is solved (see exploration.py)
    revisit_penalty: float = 0.0  # and what was done in this state since the trial's last reward
    window_step: int = 1  # steps by which a full window moves on at once while acting, at most C

    def __post_init__(self) -> None:
        super().__post_init__()
        check_window_step(self.window_step)
        check_share("truncated_chunks", self.training.truncated_chunks)
        if self.training.truncated_chunks and self.memory.top_k > 1:
            raise ValueError("truncated_chunks ends one chunk; it needs memory.top_k=1")
        asks_once = self.memory.top_k == 1 and self.memory.retrieve_every == 0
        if self.subgoals and not (asks_once and self.training.start_chunks):
            raise ValueError(
                "subgoals are counted from the start of one chunk and of the trial; they need "
                "memory.top_k=1, memory.retrieve_every=0 and training.start_chunks=true"
            )
        offsets, context_len = self.training.query_offsets, self.memory.context_len
        if offsets is not None and (0 not in offsets or not _all_in(offsets, context_len)):
            raise ValueError(
                f"query_offsets are steps behind an entry, 0 among them and all below context_len="
                f"{context_len}; got {offsets}"
            )


@dataclass(frozen=True)
class RADTExamples:
    """Windows, what was retrieved for them, and which steps are targets."""

    recent: Batch  # [B, L]
    retrieved: Batch  # [B, k * 2C]
    targets: Tensor  # [B, L] bool
    valid: Tensor | None  # [B, action_size] bool


class RADT:
    """A Decision Transformer that reads what it retrieved."""

    name = "ra-dt"

    def __init__(
        self,
        spaces: TaskSpaces,
        options: RADTOptions,
        seed: int,
        embedder: Embedder,
    ) -> None:
        self.spaces, self.options, self.embedder = spaces, options, embedder
        check_translate(options.translate, spaces)
        self.policy = DecisionTransformer(spaces, options.model, seed, retrieves=True)
        self.networks: dict[str, nn.Module] = {"policy": self.policy}
        if embedder.network is not None:
            self.networks["embedder"] = embedder.network

    @property
    def context(self) -> ContextSize:
        """The last C steps of the running trial, at most, and k chunks of 2C steps."""
        memory = self.options.memory
        return ContextSize(memory.context_len, memory.top_k * 2 * memory.context_len)

    def prepare(self, dataset: Dataset, progress: Progress | None = None) -> Mapping[str, float]:
        """Fill the index with every sub-trajectory of the data (Algorithm 2, lines 1-4)."""
        options = self.options
        dataset = dataset.thinned(options.episode_every)
        self.sampler = WindowSampler(dataset, options.memory.context_len, options)
        self.memory = TrainingMemory(
            dataset, self.embedder, options.memory, options.training, progress
        )
        return self.memory.sizes

    def draw(self, size: int, rng: np.random.Generator) -> RADTExamples:
        """Draw windows, construct queries, retrieve and reweight (Algorithm 2, lines 6-9)."""
        windows = self.sampler.draw(size, rng)
        query_step = self._draw_query_step(windows, rng)
        recent = self.sampler.read(windows)
        retrieved = self.memory.retrieve_for(windows.episode, query_step, rng)
        targets = recent.mask & (recent.timesteps >= torch.from_numpy(query_step)[:, None])
        tasks = self.sampler.dataset.episodes.task[windows.episode]
        if self.options.subgoals:
            every = subgoals_of_windows(self.sampler.dataset, windows, recent)  # [B, L]
            drawn = draw_subgoals(every, targets, rng)  # [B]
            retrieved = show_subgoal(retrieved, drawn)
            targets = targets & (every == drawn[:, None])
        recent, retrieved = translate_batches(
            [recent, retrieved], self.spaces.state, self.options.translate, rng
        )
        return RADTExamples(recent, retrieved, targets, valid_dimensions(self.spaces, tasks))

    def loss(self, examples: RADTExamples) -> Tensor:
        """Predict the actions of the batch (Algorithm 2, line 10) and compare."""
        recent, loss = examples.recent, self.policy.action_head.loss
        predicted = self.policy(recent, examples.retrieved)
        return loss(predicted, recent.actions, examples.targets, examples.valid)

    def actor(self, slots: int) -> RADTActor:
        """Put the method to work with empty memories."""
        memory = Memory(self.embedder, self.spaces, self.options.memory)
        options = self.options
        weights = options.count_bonus, options.revisit_penalty
        bonus = ExplorationBonus(self.spaces, slots, *weights)
        length, step = options.memory.context_len, options.window_step
        window = MovingWindow(self.policy, slots, length, step)
        return RADTActor(window, memory, bonus, slots, options.subgoals)

    def _draw_query_step(self, windows: Windows, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw the step p of each window's query, as an agent would make one."""
        memory, offsets = self.options.memory, self.options.training.query_offsets
        if memory.retrieve_every == 0:
            return np.zeros_like(windows.start)
        step = rng.integers(windows.start, windows.stop)
        if offsets is None:
            return step // memory.retrieve_every * memory.retrieve_every
        entry = step // memory.context_len * memory.context_len
        known = np.array(sorted(offsets), dtype=np.int64)
        latest: NDArray[np.int64] = known[np.searchsorted(known, step - entry, side="right") - 1]
        return entry + latest


class RADTActor:
    """Acts as in Algorithm 1: query, retrieve, reweight, predict."""

    def __init__(
        self,
        window: MovingWindow,
        memory: Memory,
        bonus: ExplorationBonus,
        slots: int,
        subgoals: bool = False,
    ) -> None:
        self.window, self.policy, self._bonus = window, window.policy.eval(), bonus
        self.memory: Memory | None = memory
        self.retrieval: Retrieval | None = None
        self.query_slots = np.zeros(0, dtype=np.int64)
        self.query: Tensor | None = None  # [B, d] what `retrieval` looked for
        self.retrieve: Retrieve | None = None  # how to choose chunks; None: as the paper does
        self._memory = memory
        self._tasks: NDArray[np.int64] | None = None  # [slots] in a shared memory; None: its own
        config = memory.config
        every_step = config.retrieve_every == 1
        self._stepper = memory.embedder.stepper(slots, config.context_len) if every_step else None
        nothing = torch.full((slots, config.top_k), -1)
        self._held = HeldChunks(self.policy, memory.chunks(nothing))
        self._found = memory.chunks(nothing) if subgoals else None  # whole chunks
        self._subgoal = torch.full((slots,), -1)  # [slots] the one that is shown; -1: none yet

    @property
    def reading(self) -> Batch:
        """What each slot reads of the chunks it holds, [slots, k * 2C]."""
        return self._held.chunks

    @property
    def shares_memory(self) -> bool:
        """Whether the memory is one that others use, too."""
        return self._tasks is not None

    def share(self, memory: Memory, tasks: NDArray[np.int64]) -> None:
        """Use a memory that others fill, too: each slot uses a task of it, [slots]."""
        self.memory = self._memory = memory
        self._tasks = tasks

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Start with an empty index (Algorithm 1, line 1), or with what a shared one knows."""
        if self._tasks is None:
            self._memory.forget(torch.from_numpy(slots))
        self._bonus.forget(slots)

    def begin_trials(self, slots: NDArray[np.int64]) -> None:
        """Start new windows and queries; in a shared memory, see what others have written."""
        self.window.begin_trials(slots)
        if self._tasks is not None:
            self._memory.refresh()
        if self._stepper is not None:
            self._stepper.reset(torch.from_numpy(slots))

    def remember(self, finished: Sequence[Trajectory]) -> None:
        """Add finished trials to the index (Algorithm 1, line 13), unless it may only be read."""
        if self._tasks is None:
            self._memory.write(finished)
        elif self._memory.store.writing:
            tasks = self._tasks
            self._memory.write([replace(trial, task=int(tasks[trial.task])) for trial in finished])

    def kept(self) -> dict[str, Tensor]:
        """Return what was tried; the rest is in the memory."""
        return self._bonus.kept()

    def restore(self, kept: Mapping[str, Tensor]) -> None:
        """Know what was tried when the memory was saved, and nothing else."""
        self._bonus.restore(kept)

    @torch.no_grad()
    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        """Retrieve where it is time to, and predict the next action (Algorithm 1, lines 5-8)."""
        self._retrieve(trials, slots)
        self._show_subgoals(trials, slots)
        held = self._held.of(torch.from_numpy(slots))
        predicted = self.window.decide(trials, slots, held, self._held.version[slots])
        return self._bonus.adjust(predicted, trials, slots)

    def _retrieve(self, trials: RunningTrials, slots: NDArray[np.int64]) -> None:
        every = self._memory.config.retrieve_every
        step = trials.step[slots]
        asking = step == 0 if every == 0 else step % every == 0
        self.retrieval, self.query_slots, self.query = None, slots[:0], None
        vectors = None
        if self._stepper is not None:
            latest = trials.latest(slots, self.policy.embed.no_action)
            vectors = self._stepper.step(latest, torch.from_numpy(slots))
        if not asking.any() or not len(self._memory):
            none = torch.full((int(asking.sum()), self._memory.config.top_k), -1)
            self._hold(slots[asking], none)
            return
        rows, self.query_slots = torch.from_numpy(np.flatnonzero(asking)), slots[asking]
        if vectors is None:  # a query is of the last C steps, however windows move
            recent = trials.recent(self.query_slots, self._memory.config.context_len)
            query = self._memory.embedder(recent)
        else:
            query = vectors[rows]
        self.query = query
        tasks = self.query_slots if self._tasks is None else self._tasks[self.query_slots]
        with self._memory.lock:  # what was found is what is read
            retrieve = self.retrieve or self._memory.retrieve
            self.retrieval = retrieve(query, torch.from_numpy(tasks), torch.from_numpy(step)[rows])
            self._hold(self.query_slots, self.retrieval.chosen)

    def _hold(self, slots: NDArray[np.int64], chosen: Tensor) -> None:
        """Keep the chosen chunks in use until the next retrieval."""
        if not len(slots):
            return
        rows = torch.from_numpy(slots)
        if self._found is not None:
            self._found.put(rows, self._memory.chunks(chosen))
            self._subgoal[rows] = -1
        elif bool((chosen < 0).all()):
            self._held.drop(rows)
        else:
            self._held.hold(self._memory.chunks(chosen), rows)

    def _show_subgoals(self, trials: RunningTrials, slots: NDArray[np.int64]) -> None:
        """After a reward, show the part of the chunk that leads to the next one."""
        if self._found is None:
            return
        rows, had = torch.from_numpy(slots), torch.from_numpy(trials.rewards_so_far[slots])
        subgoal = had.clamp_max(SUBGOALS - 1)  # [B]
        turned = self._subgoal[rows] != subgoal
        if bool(turned.any()):
            subgoal, rows = subgoal[turned], rows[turned]
            self._subgoal[rows] = subgoal
            self._held.hold(show_subgoal(self._found.rows(rows), subgoal), rows)


def _all_in(offsets: Sequence[int], context_len: int) -> bool:
    return all(0 <= offset < context_len for offset in offsets)


def build(
    spaces: TaskSpaces,
    options: RADTOptions,
    seed: int,
    embedder: Embedder | None,
    name: str = RADT.name,
) -> RADT:
    """Build the method as the registry asks for it, or under another name."""
    if embedder is None:
        raise ValueError("RA-DT needs an embedder for its keys; train one first")
    method = RADT(spaces, options, seed, embedder)
    method.name = name
    return method


METHODS.register("ra-dt", MethodEntry(RADTOptions, build, embedder="dt"))
