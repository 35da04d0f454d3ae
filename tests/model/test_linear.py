"""A linear layer by oneDNN is torch's own but for the last bits, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from radt.model.linear import LARGE, Linear, linear

SHAPES = {"few": (2, 3, 8), "many": (16, 50, 64), "none": (0, 50, 64)}


def both(x: Tensor, weight: Tensor, bias: Tensor | None) -> list[list[Tensor]]:
    """Return the product and the gradients, ours and torch's."""
    found = []
    for product in (linear, nn.functional.linear):
        given = [t.detach().requires_grad_() for t in (x, weight, bias) if t is not None]
        y = product(*given)
        y.square().sum().backward()
        found.append([y.detach(), *(t.grad for t in given)])
    return found


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("has_bias", [True, False], ids=["bias", "no bias"])
def test_product_and_gradients_are_those_of_torch(shape: tuple[int, ...], has_bias: bool) -> None:
    weight, bias = torch.randn(192, shape[-1]), torch.randn(192) if has_bias else None
    ours, theirs = both(torch.randn(shape), weight, bias)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)


def test_inputs_that_are_views_give_the_same() -> None:
    x, weight = torch.randn(64, 50, 32).transpose(0, 2), torch.randn(256, 128)[:, ::2]
    assert x.numel() * len(weight) >= LARGE
    ours, theirs = both(x, weight, torch.randn(256))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN here")
@pytest.mark.parametrize(("rows", "ours"), [(1, False), (3200, True)])
def test_large_products_are_those_of_onednn(rows: int, ours: bool) -> None:
    y = Linear(64, 256)(torch.randn(rows, 64))
    assert ("OneDNN" in type(y.grad_fn).__name__) == ours


def test_only_what_needs_a_gradient_gets_one() -> None:
    layer = Linear(64, 256)
    layer.weight.requires_grad_(False)
    layer(torch.randn(64, 50, 64)).sum().backward()
    assert layer.weight.grad is None
    assert layer.bias.grad is not None


def test_other_precisions_are_left_to_torch() -> None:
    layer, x = Linear(64, 256), torch.randn(64, 50, 64)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
    assert layer.double()(x.double()).dtype == torch.float64
