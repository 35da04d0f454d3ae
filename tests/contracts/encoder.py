"""What every state encoder must do, as functions of a space; a new encoder calls them all.

A name asks for another encoder than the one for the space's kind.
"""

from __future__ import annotations

import numpy as np
import torch

from radt.model.encoders import state_encoder
from radt.spaces import TaskSpaces
from tests.model.batches import random_states

WIDTH = 16


def check_shapes(spaces: TaskSpaces, name: str | None = None) -> None:
    """States [..., *state_shape] become vectors [..., width], whatever the leading axes."""
    encoder, rng = state_encoder(spaces.state, WIDTH, name), np.random.default_rng(0)
    for leading in ((3,), (2, 5), (2, 3, 2)):
        vectors = encoder(random_states(spaces, rng, leading))
        assert vectors.shape == (*leading, WIDTH)
        assert vectors.dtype == torch.float32
        assert torch.isfinite(vectors).all()


def check_each_state_on_its_own(spaces: TaskSpaces, name: str | None = None) -> None:
    """A state's vector depends neither on its neighbours nor on their number."""
    encoder = state_encoder(spaces.state, WIDTH, name)
    states = random_states(spaces, np.random.default_rng(0), (3, 4))
    together = encoder(states)
    alone = encoder(states[1:2, 2:3])
    torch.testing.assert_close(together[1:2, 2:3], alone, rtol=1e-5, atol=1e-6)


def check_tells_states_apart(spaces: TaskSpaces, name: str | None = None) -> None:
    """Different states become different vectors."""
    encoder = state_encoder(spaces.state, WIDTH, name)
    states = random_states(spaces, np.random.default_rng(0), (2,))
    assert not torch.equal(states[0], states[1])
    one, other = encoder(states)
    assert (one - other).abs().max() > 1e-4


def check_takes_states_as_stored(spaces: TaskSpaces, name: str | None = None) -> None:
    """The type that states are stored in needs no conversion by the caller."""
    encoder = state_encoder(spaces.state, WIDTH, name)
    states = random_states(spaces, np.random.default_rng(0), (2, 3))
    stored = torch.from_numpy(states.numpy().astype(spaces.state.dtype))
    assert torch.equal(encoder(stored), encoder(states))


def check_learns(spaces: TaskSpaces, name: str | None = None) -> None:
    """Every weight receives a gradient."""
    encoder = state_encoder(spaces.state, WIDTH, name)
    states = random_states(spaces, np.random.default_rng(0), (64,))
    encoder(states).square().sum().backward()
    for part, weight in encoder.named_parameters():
        assert weight.grad is not None, part
        assert weight.grad.abs().max() > 0, part
