from __future__ import annotations

import numpy as np
import pytest
import torch

from radt.model.encoders import (
    ENCODERS,
    EncoderCard,
    FrozenEncoder,
    OneHotEncoder,
    PrecomputedEncoder,
    StandardisedEncoder,
)
from radt.spaces import StateSpace
from tests.contracts import encoder as contract
from tests.model.batches import SPACES

CHECKS = [check for name, check in vars(contract).items() if name.startswith("check_")]


OF_KINDS = {
    **dict(zip(SPACES, SPACES, strict=True)),
    **{"standardised": "vector", "impala": "image", "impala-small": "image"},
}


def test_every_encoder_is_put_to_the_contract() -> None:
    assert set(OF_KINDS) == set(ENCODERS.names())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(("name", "kind"), OF_KINDS.items())
def test_contract(name: str, kind: str, check) -> None:
    check(SPACES[kind], name)


def test_one_hot_equals_a_linear_layer_on_one_hots() -> None:
    encoder = OneHotEncoder(StateSpace("discrete", (2,), (3, 5)), 4)
    states = torch.tensor([[2, 0], [0, 4], [1, 1]])
    one_hot = torch.zeros(3, 8)
    for row, (x, y) in enumerate(states.tolist()):
        one_hot[row, x] = one_hot[row, 3 + y] = 1
    torch.testing.assert_close(encoder(states), one_hot @ encoder.table.weight)


@pytest.mark.parametrize("shape", [(), (6,), (2, 3)])
def test_one_hot_takes_coordinates_of_any_shape(shape: tuple[int, ...]) -> None:
    bins = tuple(range(2, 8)) if shape else (4,)
    encoder = OneHotEncoder(StateSpace("discrete", shape, bins), 4)
    states = torch.ones(5, 2, *shape, dtype=torch.int64)
    flat = states.reshape(5, 2, len(bins)) + encoder.offsets
    assert torch.equal(encoder(states), encoder.table(flat).sum(-2))


def test_encoded_states_of_the_right_width_pass_unchanged() -> None:
    encoder = PrecomputedEncoder(StateSpace("encoded", (8,)), 8)
    states = torch.randn(2, 3, 8)
    assert torch.equal(encoder(states), states)
    assert not list(encoder.parameters())


def test_standardised_states_do_not_depend_on_their_units() -> None:
    encoder = StandardisedEncoder(StateSpace("vector", (3,)), 4)
    states = torch.randn(50, 3)
    states[:, 2] = 7.0  # never changes
    encoder.fit(states)
    expected = encoder(states)
    units = torch.tensor([1e3, 1e-3, 1.0])
    encoder.fit(states * units + 5)
    torch.testing.assert_close(encoder(states * units + 5), expected, rtol=1e-3, atol=1e-3)


def test_a_frozen_encoder_encodes_as_its_network_does_and_does_not_learn() -> None:
    space = SPACES["image"].state
    frozen = FrozenEncoder(space, EncoderCard("impala-small", 6))
    images = np.random.default_rng(0).integers(0, 256, (3, *space.shape)).astype(np.uint8)
    encoded = frozen(images)
    assert (encoded.shape, encoded.dtype) == ((3, 6), np.float32)
    np.testing.assert_allclose(encoded, frozen.network(torch.from_numpy(images)).numpy())
    assert not any(weight.requires_grad for weight in frozen.parameters())
