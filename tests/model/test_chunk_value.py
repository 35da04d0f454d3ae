"""V(s, chunk): what it may look at, that both of its forms agree, and that it learns what helps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from radt.methods.trials import RunningTrials
from radt.model.chunk_value import ChunkValue
from radt.spaces import TaskSpaces
from radt.trajectory import Batch
from tests.model.batches import SPACES, random_batch
from tests.toys import TOY_GRID

ROWS, LENGTH, CHUNK = 5, 4, 6
GOALS = torch.tensor([[0, 0], [2, 3]])  # corners of a room of 3 x 4 cells
START = torch.tensor([1, 1])


def large(spaces: TaskSpaces) -> ChunkValue:
    """Build a network whose weights are so large that every leak would show."""
    value = ChunkValue(spaces, seed=0)
    for parameter in value.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=torch.Generator().manual_seed(1))
    return value.eval()


def drawn(spaces: TaskSpaces, rng: np.random.Generator) -> tuple[Batch, Batch]:
    """Draw windows, and chunks of 0 to 4 real steps."""
    recent = random_batch(spaces, rng, ROWS, LENGTH, None)
    return recent, random_batch(spaces, rng, ROWS, CHUNK, torch.arange(ROWS))


@torch.no_grad()
def judged(value: ChunkValue, recent: Batch, chunks: Batch) -> Tensor:
    """Return V of the first state of each window, [B]."""
    states = value.now(recent.steps(1), torch.full((ROWS,), 5.0))
    return value(states, value.read(chunks))[:, 0]


@pytest.mark.parametrize("kind", SPACES)
def test_padding_and_the_chunks_beside_change_nothing(kind: str, rng: np.random.Generator) -> None:
    spaces = SPACES[kind]
    value, (recent, chunks) = large(spaces), drawn(spaces, rng)
    expected, order = judged(value, recent, chunks), torch.from_numpy(rng.permutation(ROWS))
    other = random_batch(spaces, rng, ROWS, CHUNK, None)
    for name in ("states", "actions", "rewards", "returns_to_go", "timesteps"):
        getattr(chunks, name)[~chunks.mask] = getattr(other, name)[~chunks.mask]
    torch.testing.assert_close(judged(value, recent, chunks), expected)
    reordered = judged(value, recent.rows(order), chunks.rows(order))
    torch.testing.assert_close(reordered, expected[order])
    assert (expected[1:] - expected[:-1]).abs().min() > 1e-4


def test_an_empty_chunk_gives_the_baseline(rng: np.random.Generator) -> None:
    value, (recent, chunks) = large(TOY_GRID.spaces), drawn(TOY_GRID.spaces, rng)
    nothing = judged(value, recent, replace(chunks, mask=torch.zeros_like(chunks.mask)))
    assert torch.equal(nothing[0], judged(value, recent, chunks)[0])  # the first has no step
    assert (nothing[1:] - judged(value, recent, chunks)[1:]).abs().min() > 1e-4


@pytest.mark.parametrize("kind", SPACES)
def test_a_running_trial_is_judged_as_in_training_whatever_it_aims_at(
    kind: str, rng: np.random.Generator
) -> None:
    spaces = SPACES[kind]
    value, episode = large(spaces), random_batch(spaces, rng, 1, LENGTH, None)
    episode = replace(episode, timesteps=torch.arange(LENGTH)[None])
    to_go = episode.rewards.flip(1).cumsum(1).flip(1)
    episode, slot = replace(episode, returns_to_go=to_go), np.zeros(1, np.int64)
    _, chunks = drawn(spaces, rng)
    read = value.read(chunks.rows(torch.tensor([3])))
    seen: list[Tensor] = []
    value.head.register_forward_hook(lambda module, args, out: seen.append(out[..., 0].detach()))
    targets = torch.ones(1, LENGTH, dtype=torch.bool)
    loss = value.loss(episode, targets, to_go[:, 0], chunks.rows(torch.tensor([3])))
    for aim in (0.0, 7.0):
        trials = RunningTrials(spaces, 1)
        trials.begin_task(slot)
        trials.begin_trial(slot, np.full(1, aim, np.float32))
        for step in range(LENGTH):
            trials.see(slot, episode.states[:, step].numpy())
            latest = trials.latest(slot, value.state.no_action)
            value(value.now(latest, torch.from_numpy(trials.target)), read)
            torch.testing.assert_close(seen[-1][:, 0], seen[0][:, step], rtol=1e-4, atol=1e-4)
            action, reward = episode.actions[:, step], episode.rewards[:, step]
            trials.record(slot, action.numpy(), reward.numpy())
    apart = seen[0] - to_go / spaces.return_scale
    torch.testing.assert_close(loss.detach(), apart.square().mean())


def walks(rng: np.random.Generator, rows: int, shift: float) -> tuple[Batch, Batch, Tensor]:
    """Draw states, the chunk that is read there, and what follows: the nearer the goal the more.

    A chunk goes to one of two goals and is paid there or not; who reads it does the same. A `shift`
    is earned by everybody.
    """
    goal, paid = (torch.from_numpy(rng.integers(0, 2, rows)) for _ in range(2))
    cells = torch.from_numpy(rng.integers(0, [3, 4], (rows, 2)))
    return batch_of(cells, goal, paid, shift)


def batch_of(
    cells: Tensor, goal: Tensor, paid: Tensor, shift: float
) -> tuple[Batch, Batch, Tensor]:
    rows = len(cells)
    steps = torch.arange(CHUNK).expand(rows, -1)
    there = (steps >= 2) * paid[:, None]
    path = torch.where((steps < 2)[..., None], START, GOALS[goal][:, None])
    blank = torch.zeros(rows, CHUNK)
    rewards = there + shift / CHUNK
    chunks = Batch(
        path, blank.long(), rewards, rewards.flip(1).cumsum(1).flip(1), steps, blank == 0
    )
    far = (cells - GOALS[goal]).abs().sum(1)
    follows = torch.where(paid == 1, 6.0 - far, 1.0) + shift
    now = Batch(*(part[:, :1] for part in (path, blank.long(), blank, blank, steps, blank == 0)))
    now = replace(now, states=cells[:, None], returns_to_go=follows[:, None])
    return now, chunks, follows


@pytest.mark.parametrize("shift", [0.0, -12.0])
def test_it_learns_to_rank_the_chunk_first_that_helps_from_here(
    shift: float, rng: np.random.Generator
) -> None:
    value = ChunkValue(TOY_GRID.spaces, seed=0)
    value.begin_at(walks(rng, 1000, shift)[2])
    adam = torch.optim.Adam(value.parameters(), lr=3e-3)
    for _ in range(100):
        now, chunks, follows = walks(rng, 64, shift)
        loss = value.loss(now, now.mask, follows, chunks)
        loss.backward()
        adam.step()
        adam.zero_grad()
    cells = torch.cartesian_prod(torch.arange(3), torch.arange(4)).repeat_interleave(4, 0)
    goal, paid = torch.tensor([0, 0, 1, 1]).repeat(12), torch.tensor([0, 1, 0, 1]).repeat(12)
    now, chunks, follows = batch_of(cells, goal, paid, shift)
    with torch.no_grad():
        expected = value(value.now(now, follows), value.read(chunks))[:, 0].view(12, 4)
    best = follows.view(12, 4).amax(1)
    first = follows.view(12, 4).gather(1, expected.argmax(1, keepdim=True))[:, 0]
    assert torch.equal(first, best)
    scale = TOY_GRID.spaces.return_scale
    assert (expected * scale - follows.view(12, 4)).abs().mean() < 0.5
