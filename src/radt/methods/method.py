"""The plug point of methods: what the loops of training and acting need of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from radt.data.reader import Dataset
from radt.envs.suite import TaskSuite
from radt.memory.embed import EMBEDDERS, Embedder
from radt.memory.entries import step_bytes
from radt.memory.memory import Memory
from radt.methods.trials import RunningTrials
from radt.model.encoders import EncoderCard, FrozenEncoder
from radt.model.heads import ActionHead, action_head
from radt.registry import Registry
from radt.room import check_room
from radt.spaces import TaskSpaces
from radt.trajectory import Retrieval, Trajectory


@dataclass(frozen=True)
class ContextSize:
    """The most steps that one decision looks at."""

    input_steps: int  # of the running trial, and of earlier ones where they are part of the input
    retrieved_steps: int = 0  # read out of a memory


TOKENS = 4  # of a step at most
Progress = Callable[[int, int], None]  # is told how much is done, of how much


class Retrieve(Protocol):
    """A way to choose what is read of a memory."""

    def __call__(
        self, queries: Tensor, tasks: Tensor, steps: Tensor, /, *, now: Tensor | None = None
    ) -> Retrieval:
        """Choose for queries [B, d] of tasks [B] at steps [B]; `now` as `Memory.retrieve`."""


class Actor(Protocol):
    """A method at work on several slots at once; it sees trials and answers with actions."""

    memory: Memory | None
    retrieval: Retrieval | None  # the latest search, for whoever wants to look
    query_slots: NDArray[np.int64]  # the slots that the rows of `retrieval` belong to

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Start a new task in some slots with an empty memory."""

    def begin_trials(self, slots: NDArray[np.int64]) -> None:
        """Start a new trial of the same task in some slots."""

    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        """Return what the action head says of some slots: [B, size].

        Of a method whose policy has none these are logits, or actions in [-1, 1].
        """

    def remember(self, finished: Sequence[Trajectory]) -> None:
        """Take in finished trials; a trajectory's `task` is its slot."""


class Memoryless:
    """What actors have in common that retrieve nothing; a subclass says what else it knows."""

    memory: Memory | None = None
    retrieval: Retrieval | None = None
    query_slots: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Nothing to forget."""

    def begin_trials(self, slots: NDArray[np.int64]) -> None:
        """Nothing to prepare."""

    def remember(self, finished: Sequence[Trajectory]) -> None:
        """Nothing to remember."""


@runtime_checkable
class SavesState(Protocol):
    """An actor that knows more of its tasks than its memory holds, and can hand it on."""

    def kept(self) -> dict[str, Tensor]:
        """Return what has to be saved beside the memory."""

    def restore(self, kept: Mapping[str, Tensor]) -> None:
        """Replace what is known of all tasks by what was saved; what is missing is empty."""


@runtime_checkable
class UsesSharedMemory(Protocol):
    """An actor that can use a memory which outlives it, and which others may use, too."""

    def share(self, memory: Memory, tasks: NDArray[np.int64]) -> None:
        """Use a memory instead of the own one; slot i uses its task `tasks[i]`."""


class TrainedBeside(nn.Module):
    """What a method trains beside its policy, as its `beside`; the method's loss holds both."""

    def between_updates(self, done: int, of: int) -> Mapping[str, float]:
        """Do what is due after `done` updates, 0 included; return facts worth logging."""
        return {}


class Method(Protocol):
    """A way to learn from histories and to act afterwards."""

    name: str  # of its row in tables
    spaces: TaskSpaces
    networks: dict[str, nn.Module]  # all that a checkpoint has to carry; the policy is "policy"

    @property
    def context(self) -> ContextSize:
        """The most steps that a decision looks at."""

    def prepare(self, dataset: Dataset, progress: Progress | None = None) -> Mapping[str, float]:
        """Build once what drawing from the data needs; return facts worth logging."""

    def draw(self, size: int, rng: np.random.Generator) -> Any:
        """Draw one batch of training examples: a record of tensors, with windows as `recent`.

        Every real step of `recent` is a target, unless the record marks others in `targets`.
        """

    def loss(self, examples: Any) -> Tensor:
        """Return the loss of a batch of examples."""

    def actor(self, slots: int) -> Actor:
        """Put the method to work on several slots."""


def check_size(method: Method, slots: int) -> None:
    """Refuse to act with trials and contexts that would not fit into memory."""
    spaces, context = method.spaces, method.context
    steps = context.input_steps + context.retrieved_steps
    network = getattr(method.networks.get("policy"), "config", None)
    values = TOKENS * network.width * (2 * network.layers + 4) if network else 0  # of one step
    check_room(
        f"{slots} trials of up to {spaces.horizon} steps that read {steps} steps at once",
        slots * (step_bytes(spaces) * (2 * spaces.horizon + steps) + 4 * values * steps),
        "use fewer slots, or a method with a smaller horizon, context_len and top_k",
    )


def head_of(method: Method) -> ActionHead:
    """Return the head that says what a method's decisions mean; the usual one if it has none."""
    own: ActionHead | None = getattr(method.networks.get("policy"), "action_head", None)
    return own or action_head(method.spaces.action)


# From a method, a suite, its training tasks, a number of updates and a seed: yields how many of
# them are done, and facts worth logging.
LearnOnline = Callable[
    [Method, TaskSuite, Sequence[int], int, int], Iterator[tuple[int, dict[str, float]]]
]


@dataclass(frozen=True)
class MethodEntry:
    """A registered method: its options, how it is built, and which embedder it usually has."""

    options: type[Any]
    build: Callable[[TaskSpaces, Any, int, Embedder | None], Method]
    learns: bool = True
    embedder: str | None = None  # a name in EMBEDDERS
    learn_online: LearnOnline | None = None  # trains it in the tasks, not on recorded histories

    @property
    def learns_from_data(self) -> bool:
        """Whether it is trained on recorded histories."""
        return self.learns and self.learn_online is None

    @property
    def embeds(self) -> bool:
        """Whether the method needs an embedder."""
        return self.embedder is not None


METHODS: Registry[MethodEntry] = Registry("methods", "method")


def unembedded(
    method: Callable[[TaskSpaces, Any, int], Method],
) -> Callable[[TaskSpaces, Any, int, Embedder | None], Method]:
    """Let the registry build a method that needs no embedder."""
    return lambda spaces, options, seed, _: method(spaces, options, seed)


def build_method(
    name: str,
    spaces: TaskSpaces,
    options: Any,
    embedder_options: Any,
    seed: int,
    embedder_name: str | None = None,
    encoder: EncoderCard | None = None,
) -> Method:
    """Build a method and the embedder that it needs, its usual one or another, both untrained.

    With an encoder, `spaces` are what environments show; all else reads what it makes of them.
    """
    entry, embedder, observed = METHODS[name], None, spaces.state
    if encoder is not None and entry.learns:
        spaces = spaces.encoded(encoder.width)
    if entry.embedder is not None:
        known = EMBEDDERS[embedder_name or entry.embedder]
        embedder = known.build(spaces, embedder_options, seed)
    method = entry.build(spaces, options, seed, embedder)
    if encoder is not None and entry.learns:
        method.networks["encoder"] = FrozenEncoder(observed, encoder)
    return method
