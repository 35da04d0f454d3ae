"""What every embedder must do, as functions of it and its spaces; a new one calls them all."""

from __future__ import annotations

import numpy as np
import torch

from radt.memory.embed import Embedder
from radt.spaces import TaskSpaces
from radt.trajectory import Batch
from tests.model.batches import mixed, random_batch

ROWS, LENGTH = 6, 8
LENGTHS = torch.tensor([1, 8, 3, 5, 8, 2])


def prefixes(spaces: TaskSpaces, seed: int = 0) -> Batch:
    """Draw prefixes of different lengths."""
    return random_batch(spaces, np.random.default_rng(seed), ROWS, LENGTH, LENGTHS)


def assert_close(one: torch.Tensor, other: torch.Tensor) -> None:
    """Compare vectors as closely as single precision allows."""
    torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


def check_vectors(embedder: Embedder, spaces: TaskSpaces) -> None:
    """Each prefix becomes one finite vector, always the same, and different ones differ."""
    vectors = embedder(prefixes(spaces))
    assert vectors.shape == (ROWS, embedder.width)
    assert vectors.dtype == torch.float32
    assert torch.isfinite(vectors).all()
    assert not vectors.requires_grad
    assert torch.equal(vectors, embedder(prefixes(spaces)))
    assert (torch.cdist(vectors, vectors) + torch.eye(ROWS) > 1e-3).all()


def check_batch_size(embedder: Embedder, spaces: TaskSpaces) -> None:
    """A vector does not depend on what is embedded beside it."""
    batch = prefixes(spaces)
    together = embedder(batch)
    for row in range(ROWS):
        assert_close(embedder(batch.rows(torch.tensor([row]))), together[row : row + 1])


def check_padding(embedder: Embedder, spaces: TaskSpaces) -> None:
    """A vector depends neither on the content nor on the amount of padding."""
    batch = prefixes(spaces)
    together = embedder(batch)
    other = mixed(batch.mask, batch, prefixes(spaces, seed=1))
    assert torch.equal(embedder(other), together)
    for row, length in enumerate(LENGTHS.tolist()):
        assert_close(
            embedder(batch.rows(torch.tensor([row])).steps(length)), together[row : row + 1]
        )


def check_last_action_is_unknown(embedder: Embedder, spaces: TaskSpaces) -> None:
    """The last step's action and reward, which an agent does not know yet, change nothing."""
    batch, other = prefixes(spaces), prefixes(spaces, seed=1)
    last = torch.arange(LENGTH) == LENGTHS[:, None] - 1
    swapped = mixed(~last, batch, other)
    changed = Batch(
        *(batch.states, swapped.actions, swapped.rewards),
        *(batch.returns_to_go, batch.timesteps, batch.mask),
    )
    assert torch.equal(embedder(changed), embedder(batch))


def check_dropping_states(embedder: Embedder, spaces: TaskSpaces) -> None:
    """Dropped state tokens leave a different vector; none dropped: the same; all: zero."""
    batch = prefixes(spaces)
    plain = embedder(batch)
    nothing = torch.zeros_like(batch.mask)
    assert torch.equal(embedder(batch, nothing), plain)
    assert not embedder(batch, ~nothing).any()
    first = nothing.clone()
    first[:, 0] = True
    assert ((embedder(batch, first) - plain).abs().amax(1) > 1e-4).all()


def check_fingerprint(embedder: Embedder, other: Embedder, same: Embedder) -> None:
    """Embedders that give other vectors have other fingerprints; the same one has the same."""
    assert embedder.fingerprint == same.fingerprint != other.fingerprint


def newest(batch: Batch, rows: torch.Tensor, steps: torch.Tensor, no_action: int) -> Batch:
    """Give one step of some rows as an agent knows it: with the action and reward before it."""
    before = (steps - 1).clamp_min(0)
    actions, rewards = batch.actions[rows, before].clone(), batch.rewards[rows, before].clone()
    actions[steps == 0] = no_action
    rewards[steps == 0] = 0
    at = (rows, steps)
    fields = (batch.states[at], actions, rewards, batch.returns_to_go[at], batch.timesteps[at])
    return Batch(*(field[:, None] for field in fields), mask=torch.ones(len(rows), 1).bool())


def check_stepper(embedder: Embedder, spaces: TaskSpaces, no_action: int) -> None:
    """Step by step, up to C steps, it equals embedding whole prefixes; rows go on as they like."""
    stepper = embedder.stepper(ROWS, LENGTH)
    if stepper is None:
        return
    for seed in (0, 1):  # the second round starts in rings that are full of the first
        batch = prefixes(spaces, seed)
        steps = torch.zeros(ROWS, dtype=torch.int64)
        stepper.reset(torch.arange(ROWS))
        while (steps < LENGTHS).any():
            rows = (steps < LENGTHS).nonzero().squeeze(1).flip(0)
            vectors = stepper.step(newest(batch, rows, steps[rows], no_action), rows)
            steps[rows] += 1
            known = Batch(
                *(batch.states, batch.actions, batch.rewards, batch.returns_to_go),
                batch.timesteps,
                torch.arange(LENGTH) < steps[:, None],
            )
            assert_close(vectors, embedder(known)[rows])


def check_stepper_resets_some_rows(embedder: Embedder, spaces: TaskSpaces, no_action: int) -> None:
    """A row that starts again forgets; the others do not notice."""
    stepper = embedder.stepper(2, LENGTH)
    if stepper is None:
        return
    batch, both = prefixes(spaces).rows(torch.tensor([1, 4])), torch.arange(2)
    for step in range(3):
        stepper.step(newest(batch, both, torch.full((2,), step), no_action), both)
    stepper.reset(torch.tensor([0]))
    steps = torch.tensor([0, 3])
    vectors = stepper.step(newest(batch, both, steps, no_action), both)
    assert_close(vectors[:1], embedder(batch.rows(torch.tensor([0])).steps(1)))
    assert_close(vectors[1:], embedder(batch.rows(torch.tensor([1])).steps(4)))
