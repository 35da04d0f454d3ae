"""Decision-Pretrained Transformer: the action of a state, given a set of transitions of its task.

It learns the actions of the behaviour policy, as the paper's authors do; the variant `dpt-oracle`
learns the optimal action of every state, as DPT was first published, from an environment that knows
it. The query is a state alone: no time, no history of the running trial.

While acting, the set comes from the finished trials of the task. In training it comes from earlier
episodes of the query's task, chosen so that sets look like those of an agent: from few episodes or
many, up to an early moment of the history or a late one. Of more steps than a set may hold, one is
taken from each of equally long stretches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radt.collect.source import check_counts
from radt.data.reader import Dataset, Episodes
from radt.envs.suite import SUITES, Oracle
from radt.methods.method import METHODS, ContextSize, Memoryless, MethodEntry, Progress, unembedded
from radt.methods.transforms import check_transforms, transforms_of
from radt.methods.trials import RunningTrials
from radt.methods.windows import WindowOptions, Windows, WindowSampler, check_share, whole_episodes
from radt.model.losses import counted_errors, loss_in_parts
from radt.model.policy import ModelConfig
from radt.model.set_policy import HeldSets, SetPolicy, Transitions
from radt.spaces import TaskSpaces
from radt.trajectory import Batch, Trajectory

GOLDEN = (np.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class DPTOptions(WindowOptions):
    """What can be chosen about DPT; a window's states are queries, a transition is one token."""

    model: ModelConfig = field(default_factory=lambda: ModelConfig(return_to_go=False))
    queries: int = 50  # states of one episode that share a set in training
    set_size: int | None = None  # transitions in a set; None: as many as two episodes have
    set_episodes: int = 40  # a set in training comes from at most so many episodes
    context_dropout: float = 0.1  # share of empty sets, as in trial 1
    labels: Literal["data", "oracle"] = "data"  # the behaviour policy's actions, or optimal ones
    cache: bool = True  # keep what was made of a set for the whole trial

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = () if self.set_size is None else ("set_size",)
        check_counts(self, "queries", "set_episodes", *sizes)
        check_share("context_dropout", self.context_dropout)
        if self.model.recurrent:
            raise ValueError(
                f"DPT reads a set, which has no order: set model.backbone to transformer, not "
                f"{self.model.backbone}"
            )
        if self.model.return_to_go:
            raise ValueError("DPT reads no return-to-go: set model.return_to_go to false")
        if self.model.return_loss or self.model.return_bins is not None:
            raise ValueError(
                f"DPT predicts no return-to-go: set model.return_loss to 0, not "
                f"{self.model.return_loss}, and model.return_bins to null, not "
                f"{self.model.return_bins}"
            )


@dataclass(frozen=True)
class DPTExamples:
    """Query states with the actions to predict, and one set for those of a row."""

    recent: Batch  # [B, Q] the queries; only its states are read
    known: Transitions  # [B, M]
    labels: Tensor  # [B, Q] int64, or [B, Q, action_size] float32
    valid: Tensor | None  # [B, action_size] bool: dimensions that mean something


class DPT:
    """A policy over a query state and an order-free set."""

    name = "dpt"

    def __init__(self, spaces: TaskSpaces, options: DPTOptions, seed: int) -> None:
        self.spaces, self.options = spaces, options
        self.oracle: Oracle | None = None  # whose actions are learned; None: those of the data
        check_transforms(options, spaces)
        self.set_size = options.set_size or 2 * spaces.horizon
        self.policy = SetPolicy(spaces, options.model, seed)
        self.networks: dict[str, nn.Module] = {"policy": self.policy}

    @property
    def context(self) -> ContextSize:
        """A query and a full set."""
        return ContextSize(1 + self.set_size)

    def prepare(self, dataset: Dataset, progress: Progress | None = None) -> Mapping[str, float]:
        """Choose the episodes that queries come from; sets come from the whole history."""
        if self.options.labels == "oracle":
            self.oracle = oracle_of(dataset.manifest.env)
        self.sampler = WindowSampler(dataset, self.options.queries, self.options)
        self.transform = transforms_of(self.options, dataset)
        return {"episodes": len(self.sampler.episodes)}

    def draw(self, size: int, rng: np.random.Generator) -> DPTExamples:
        """Draw query states, and a set of transitions from before them."""
        dataset, windows = self.sampler.dataset, self.sampler.draw(size, rng)
        places = draw_places(
            dataset.episodes, windows.episode, self.set_size, self.options.set_episodes, rng
        )
        places.mask[rng.random(size) < self.options.context_dropout] = False
        recent, known = self.sampler.read(windows), read_places(dataset, places)
        labels = recent.actions
        if self.oracle is not None:
            labels = optimal_labels(self.oracle, dataset, windows, recent)
        examples = DPTExamples(recent, known, labels, self.sampler.valid(windows))
        return self.transform(examples, rng)

    def loss(self, examples: DPTExamples) -> Tensor:
        """Return how badly the labels of the queries are predicted."""
        known, valid = examples.known, examples.valid

        def of(rows: Tensor) -> Tensor:
            recent = examples.recent.rows(rows).trimmed()
            predicted = self.policy(recent.states, known.rows(rows))
            labels = examples.labels[rows, : recent.mask.shape[1]]
            return self.policy.action_head.loss(
                predicted, labels, recent.mask, None if valid is None else valid[rows]
            )

        counted = counted_errors(examples.recent.mask, valid)
        return loss_in_parts(of, known.mask.sum(1), counted, self.policy.device)

    def actor(self, slots: int) -> DPTActor:
        return DPTActor(self.policy, slots, self.set_size, self.options.cache)


def optimal_labels(oracle: Oracle, dataset: Dataset, windows: Windows, recent: Batch) -> Tensor:
    """Return the optimal actions, [B, Q]; behind a window's end they mean nothing."""
    labels = recent.actions.clone()
    episodes = whole_episodes(dataset, windows.episode)
    spans = zip(windows.episode, windows.start, windows.stop, strict=True)
    for row, (episode, start, stop) in enumerate(spans):
        taken = slice(0, int(dataset.episodes.length[episode]))
        best = oracle.optimal_actions(
            int(dataset.episodes.task[episode]),
            episodes.states[row, taken].numpy(),
            episodes.rewards[row, taken].numpy(),
        )
        labels[row, : stop - start] = torch.from_numpy(best[start:stop]).to(labels.dtype)
    return labels


def oracle_of(env: str) -> Oracle:
    """Find the suite that knows the optimal actions of an environment."""
    suite = SUITES[env]
    if not isinstance(suite, Oracle):
        raise ValueError(
            f"labels=oracle asks for optimal actions, which the suite of {env} does not tell; give "
            f"{type(suite).__name__} a method optimal_actions(task, states, rewards), or train dpt"
        )
    return suite


class DPTActor(Memoryless):
    """Acts on the state a slot is in and on a set from all its finished trials."""

    def __init__(self, policy: SetPolicy, slots: int, set_size: int, cache: bool) -> None:
        self.policy, self.set_size = policy.eval(), set_size
        self._finished: list[list[Trajectory]] = [[] for _ in range(slots)]
        self._held = HeldSets(policy, slots, set_size) if cache else None
        self._unread = np.ones(slots, dtype=bool)  # [slots] the set of this trial is not held yet

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Know of no transition."""
        for slot in slots.tolist():
            self._finished[slot] = []

    def begin_trials(self, slots: NDArray[np.int64]) -> None:
        """Let the first decision read the set of this trial."""
        self._unread[slots] = True

    def remember(self, finished: Sequence[Trajectory]) -> None:
        for trial in finished:
            self._finished[trial.task].append(trial)

    @torch.no_grad()
    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        states = torch.from_numpy(trials.states[slots, trials.step[slots]])
        if self._held is None:
            return torch.as_tensor(self.policy(states[:, None], self._sets(slots))[:, 0].cpu())
        if len(fresh := slots[self._unread[slots]]):
            self._held.hold(self._sets(fresh), torch.from_numpy(fresh))
            self._unread[fresh] = False
        return self._held.decide(states, torch.from_numpy(slots)).cpu()

    def _sets(self, slots: NDArray[np.int64]) -> Transitions:
        finished = [self._finished[slot] for slot in slots.tolist()]
        return from_trials(self.policy.spaces, finished, self.set_size)


def spread_out(total: int, size: int) -> NDArray[np.int64]:
    """Choose `size` of `total` steps, or all if there are fewer: one from each equal stretch.

    Where in its stretch a step lies follows the golden ratio: a fixed stride could fall into step
    with the episodes and show, say, every second cell of a grid only.
    """
    if total <= size:
        return np.arange(total)
    bounds = np.arange(size + 1) * total // size
    within = (np.arange(size) * GOLDEN) % 1  # [size] in [0, 1)
    return np.asarray(bounds[:-1] + (within * np.diff(bounds)).astype(np.int64))


@dataclass(frozen=True)
class Places:
    """Steps of episodes, set by set, padded at the end."""

    episode: NDArray[np.int64]  # [B, M] rows of the table of episodes
    step: NDArray[np.int64]  # [B, M]
    mask: NDArray[np.bool_]  # [B, M]


def earlier_episodes(before: int, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw episodes out of the first `before` of a history that is cut at a random moment."""
    moment = int(rng.integers(1, before + 1))
    count = int(np.exp(rng.uniform(0, np.log(most + 1))))  # 1 as often as 2-3 or 4-7
    return rng.choice(moment, size=min(count, moment), replace=False)


def draw_places(
    episodes: Episodes,
    rows: NDArray[np.int64],
    size: int,
    most: int,
    rng: np.random.Generator,
) -> Places:
    """Draw a set for each of some episodes; the first of a task or level gets an empty one."""
    shape = (len(rows), size)
    places = Places(np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, bool))
    order, place, before_each = episodes.same_level
    for number, row in enumerate(rows.tolist()):
        before = int(before_each[row])
        if before == 0:
            continue
        chosen = order[place[row] - before + earlier_episodes(before, most, rng)]
        ends = np.cumsum(episodes.length[chosen])
        step = spread_out(int(ends[-1]), size)
        which = np.searchsorted(ends, step, side="right")
        count = slice(0, len(step))
        places.episode[number, count] = chosen[which]
        places.step[number, count] = step - (ends - episodes.length[chosen])[which]
        places.mask[number, count] = True
    return places


def read_places(dataset: Dataset, places: Places) -> Transitions:
    """Read the transitions at some places, [B, M]."""
    pairs = dataset.windows(places.episode.ravel(), places.step.ravel(), 2)  # [B * M, 2]
    shape = places.mask.shape
    return Transitions(
        states=pairs.states[:, 0].unflatten(0, shape),
        actions=pairs.actions[:, 0].unflatten(0, shape),
        next_states=pairs.states[:, 1].unflatten(0, shape),
        rewards=pairs.rewards[:, 0].view(shape),
        ends=~pairs.mask[:, 1].view(shape),
        mask=torch.from_numpy(places.mask),
    )


def from_trials(
    spaces: TaskSpaces, finished: Sequence[Sequence[Trajectory]], size: int
) -> Transitions:
    """Collect each row's set from its finished trials, [B, M]."""
    state_type = np.int64 if spaces.state.kind == "discrete" else spaces.state.dtype
    action_type = np.int64 if spaces.action.kind == "discrete" else spaces.action.dtype
    longest = min(size, max(sum(map(len, trials)) for trials in finished))
    shape = (len(finished), longest)
    states = np.zeros((*shape, *spaces.state.shape), state_type)
    after = np.zeros_like(states)
    actions = np.zeros((*shape, *spaces.action.shape), action_type)
    rewards = np.zeros(shape, np.float32)
    ends, mask = np.zeros((2, *shape), bool)
    for row, trials in enumerate(finished):
        if not trials:
            continue
        chosen = spread_out(sum(map(len, trials)), size)
        count = slice(0, len(chosen))
        everything = np.concatenate([trial.states for trial in trials])
        last = np.concatenate([np.arange(1, len(trial) + 1) == len(trial) for trial in trials])
        states[row, count] = everything[chosen]
        after[row, count] = everything[np.minimum(chosen + 1, len(everything) - 1)]
        actions[row, count] = np.concatenate([trial.actions for trial in trials])[chosen]
        rewards[row, count] = np.concatenate([trial.rewards for trial in trials])[chosen]
        ends[row, count], mask[row, count] = last[chosen], True
    return Transitions(*map(torch.from_numpy, (states, actions, after, rewards, ends, mask)))


METHODS.register("dpt", MethodEntry(DPTOptions, unembedded(DPT)))
