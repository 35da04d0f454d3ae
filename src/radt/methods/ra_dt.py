"""Retrieval-augmented Decision Transformer: section 3.2 of the paper and nothing else.

Eq. 2 (keys, from a language model) is the embedder's, Eq. 3 to 5 (search and reweight) are the
memory's, Eq. 6 (predict) is the policy's; here they become Algorithm 1, how the method acts
(`RADTActor`), and Algorithm 2, how it is trained (`RADT`). docs/concepts.md lays the paper's lines
beside these. Filters, transforms and exploration are composed around it by its options; a memory
that learns with the policy is in learned_memory.py, where `ra-dt` is registered.

In training the whole window asks and all its actions are targets, as Algorithm 2 is printed. With
`training.query=prefix` what was known at a random step asks, and only the steps from there on are
targets, so that no target helps to find its context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radt.collect.source import check_counts
from radt.data.reader import Dataset
from radt.memory.embed import Embedder
from radt.memory.memory import Memory, MemoryConfig
from radt.memory.reweight import VALUE
from radt.methods.decision_cache import HeldChunks, Window, window_of
from radt.methods.method import ContextSize, Progress, Retrieve
from radt.methods.training_contexts import RetrievalTraining, check_query_offsets
from radt.methods.training_memory import TrainingMemory
from radt.methods.transforms import ChunkOptions, check_transforms, held_chunks, transforms_of
from radt.methods.trials import RunningTrials
from radt.methods.windows import WindowSampler
from radt.model.policy import DecisionTransformer, ModelConfig
from radt.spaces import TaskSpaces
from radt.trajectory import Batch, Retrieval, Trajectory

LOOKED_AT = 1024  # windows, before training begins


@dataclass(frozen=True)
class RADTOptions(ChunkOptions):
    """What can be chosen about RA-DT; docs/departures.md tells which defaults are ours."""

    model: ModelConfig = field(default_factory=ModelConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    training: RetrievalTraining = field(default_factory=RetrievalTraining)
    episode_every: int = 1  # use every n-th episode of each task, for windows and for the index
    window_step: int = 1  # steps by which a full window moves on at once while acting, at most C

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self, "window_step", "episode_every")
        check_query_offsets(self.training.query_offsets, self.memory.halves.past)


@dataclass(frozen=True)
class RADTExamples:
    """Windows, what was retrieved for them, and which steps are targets."""

    recent: Batch  # [B, L] tau_in
    retrieved: Batch  # [B, k * 2C] the tau_ret of S
    targets: Tensor  # [B, L] bool
    valid: Tensor | None  # [B, action_size] bool
    episode: Tensor  # [B] int64: rows of the dataset's table of episodes


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
        check_transforms(options, spaces)
        self.policy = DecisionTransformer(spaces, options.model, seed, retrieves=True)
        self.networks: dict[str, nn.Module] = {"policy": self.policy}
        if embedder.network is not None:
            self.networks["embedder"] = embedder.network

    @property
    def context(self) -> ContextSize:
        """The last C steps of the running trial, at most, and k chunks of usually 2C steps."""
        memory = self.options.memory
        return ContextSize(memory.context_len, memory.top_k * memory.halves.chunk_len)

    def prepare(self, dataset: Dataset, progress: Progress | None = None) -> Mapping[str, float]:
        """Fill the index with every sub-trajectory of the data (Algorithm 2, lines 1-4)."""
        options = self.options
        dataset = dataset.thinned(options.episode_every)
        self.sampler = WindowSampler(dataset, options.memory.context_len, options)
        self.memory = TrainingMemory(
            dataset, self.embedder, options.memory, options.training, progress
        )
        self.transform = transforms_of(options, dataset)
        return {**self.memory.sizes, **self._confound()}

    def _confound(self) -> Mapping[str, float]:
        """Look at what windows would read, with random numbers that training does not use."""
        rng = np.random.default_rng(0)
        windows = self.sampler.draw(LOOKED_AT, rng)
        steps = self.memory.draw_query_steps(windows, rng)
        chosen = self.memory.choose_for(windows.episode, steps, rng)
        return self.memory.confound(windows.episode, chosen[:, 0])

    def draw(self, size: int, rng: np.random.Generator) -> RADTExamples:
        """Draw windows (Algorithm 2, line 6) and retrieve for them (lines 7-9, Eq. 3-5)."""
        windows = self.sampler.draw(size, rng)  # line 6
        query_step = self.memory.draw_query_steps(windows, rng)
        retrieved = self.memory.retrieve_for(windows.episode, query_step, rng)  # lines 7-9
        recent = self.sampler.read(windows)
        targets = recent.mask
        if self.options.training.asks_by_prefix:  # then what comes before it helped to find it
            targets = targets & (recent.timesteps >= torch.from_numpy(query_step)[:, None])
        valid = self.sampler.valid(windows)
        episode = torch.from_numpy(windows.episode)
        return self.transform(RADTExamples(recent, retrieved, targets, valid, episode), rng)

    def loss(self, examples: RADTExamples) -> Tensor:
        """Predict the actions of the batch (Algorithm 2, line 10, Eq. 6) and compare (line 11)."""
        recent, targets = examples.recent, examples.targets
        return self.policy.loss(recent, targets, examples.valid, examples.retrieved)

    def new_memory(self) -> Memory:
        """Return the empty memory of an agent."""
        return Memory(self.embedder, self.spaces, self.options.memory)

    def actor(self, slots: int) -> RADTActor:
        options = self.options
        memory = self.new_memory()
        length, step = options.memory.context_len, options.window_step
        window = window_of(self.policy, slots, length, step)
        nothing = memory.chunks(torch.full((slots, options.memory.top_k), -1))
        return RADTActor(window, memory, held_chunks(options, self.policy, nothing))


class RADTActor:
    """Acts as in Algorithm 1: query, retrieve, reweight, predict."""

    def __init__(self, window: Window, memory: Memory, held: HeldChunks) -> None:
        self.window, self.policy, self.held = window, window.policy.eval(), held
        self.memory: Memory | None = memory
        self.retrieval: Retrieval | None = None
        self.query_slots = np.zeros(0, dtype=np.int64)
        self.query: Tensor | None = None  # [B, d] what `retrieval` looked for
        self.retrieve: Retrieve | None = None  # how to choose chunks; None: as the paper does
        self._memory = memory
        self._tasks: NDArray[np.int64] | None = None  # [slots] in a shared memory; None: its own
        slots, config = len(held.chunks), memory.config
        self._searches = np.ones(slots, dtype=bool)  # [slots] in this trial there is what to find
        every_step = config.retrieve_every == 1
        self._stepper = memory.embedder.stepper(slots, config.context_len) if every_step else None

    @property
    def reading(self) -> Batch:
        """What each slot reads of the chunks it holds, [slots, k * 2C]."""
        return self.held.chunks

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

    def begin_trials(self, slots: NDArray[np.int64]) -> None:
        """Start new windows and queries."""
        self.window.begin_trials(slots)
        stored: NDArray[np.bool_] = np.isin(slots, self._memory.entries.task.numpy())
        only_own = self._tasks is None and self.retrieve is None  # nothing comes before its end
        self._searches[slots] = stored | (not only_own)
        self.held.drop(torch.from_numpy(slots[~self._searches[slots]]))
        if self._stepper is not None:
            self._stepper.reset(torch.from_numpy(slots))

    def remember(self, finished: Sequence[Trajectory]) -> None:
        """Add finished trials to the index (Algorithm 1, line 13), unless it may only be read."""
        if self._tasks is None:
            self._memory.write(finished)
        elif self._memory.store.writing:
            tasks = self._tasks
            self._memory.write([replace(trial, task=int(tasks[trial.task])) for trial in finished])

    @torch.no_grad()
    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        """Retrieve where it is time to (Algorithm 1, lines 5-7), and predict (line 8, Eq. 6)."""
        self._retrieve(trials, slots)
        self.held.show(trials, slots)
        held = self.held.of(torch.from_numpy(slots))
        return self.window.decide(trials, slots, held, self.held.version[slots])

    def now(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor | None:
        """Embed the states that some slots are in for utility=value, [B, 1, width]."""
        value = self._memory.value
        if value is None or self._memory.config.utility != VALUE:
            return None
        latest = trials.latest(slots, value.state.no_action)
        return value.now(latest, torch.from_numpy(trials.target[slots]))

    def _retrieve(self, trials: RunningTrials, slots: NDArray[np.int64]) -> None:
        """Construct queries (line 5), search and reweight (lines 6 and 7, Eq. 3-5)."""
        every = self._memory.config.retrieve_every
        slots = slots[self._searches[slots]]
        step = trials.step[slots]
        asking = step == 0 if every == 0 else step % every == 0
        self.retrieval, self.query_slots, self.query = None, slots[:0], None
        if not len(slots):
            return
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
            self.retrieval = retrieve(
                query,
                torch.from_numpy(tasks),
                torch.from_numpy(step)[rows],
                now=self.now(trials, self.query_slots),
            )
            self._hold(self.query_slots, self.retrieval.chosen)

    def _hold(self, slots: NDArray[np.int64], chosen: Tensor) -> None:
        """Keep the chosen chunks in use until the next retrieval."""
        if not len(slots):
            return
        rows = torch.from_numpy(slots)
        if bool((chosen < 0).all()):
            self.held.drop(rows)
        else:
            self.held.hold(self._memory.chunks(chosen), rows)


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
