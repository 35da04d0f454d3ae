"""A recurrent trunk comes to the same whether it reads a sequence at once or step by step."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from radt.methods.dpt import DPTOptions
from radt.model.policy import DecisionTransformer, ModelConfig
from radt.model.recurrent import RECURRENCES, RecurrentTrunk, scan
from radt.model.transformer import Context
from tests.model.batches import SPACES, small_model

WIDTH, HEADS, LAYERS = 8, 2, 2
BACKBONES = pytest.mark.parametrize("backbone", RECURRENCES)


def random_trunk(backbone: str, cross_layers: tuple[int, ...] = (0, 1)) -> RecurrentTrunk:
    trunk = RecurrentTrunk(RECURRENCES[backbone], LAYERS, WIDTH, HEADS, 0.0, cross_layers)
    for parameter in trunk.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return trunk.eval()


def random_context(rows: int) -> Context:
    mask = torch.rand(rows, 5) < 0.7
    mask[:, 0] = True
    return Context(torch.randn(rows, 5, WIDTH), mask)


@BACKBONES
@settings(deadline=None, max_examples=25)
@given(
    rows=st.integers(1, 4),
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    crossed=st.booleans(),
    seed=st.integers(0, 2**31),
)
@torch.no_grad()
def test_a_sequence_in_pieces_is_the_sequence_at_once(
    backbone: str, rows: int, lengths: list[int], crossed: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    trunk, context = random_trunk(backbone), random_context(rows) if crossed else None
    x = torch.randn(rows, sum(lengths), WIDTH)
    whole, state, pieces = trunk(x, context), trunk.blank(rows), []
    for piece in x.split(lengths, dim=1):
        hidden, state = trunk.step(piece, state, torch.ones(piece.shape[:2]).bool(), context)
        pieces.append(hidden)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, rtol=0, atol=1e-5)
    at = torch.randint(x.shape[1], (rows,))
    torch.testing.assert_close(trunk.only(x, at, context), whole[torch.arange(rows), at])


@BACKBONES
@torch.no_grad()
def test_tokens_that_are_not_real_leave_no_trace(backbone: str) -> None:
    trunk, real = random_trunk(backbone), torch.rand(5, 9) < 0.6
    x, context = torch.randn(5, 9, WIDTH), random_context(5)
    hidden, state = trunk.step(x, trunk.blank(5), real, context)
    for row, kept in enumerate(real):
        one = torch.tensor([row])
        alone, after = trunk.step(
            x[one][:, kept], trunk.blank(1), kept[kept][None], context.rows(one)
        )
        torch.testing.assert_close(hidden[row, kept], alone[0], rtol=0, atol=1e-5)
        torch.testing.assert_close(state[row], after[0], rtol=0, atol=1e-5)


@BACKBONES
@torch.no_grad()
def test_another_chunk_changes_later_steps_only(backbone: str) -> None:
    trunk, x, real = random_trunk(backbone), torch.randn(2, 6, WIDTH), torch.ones(2, 3).bool()
    chunk, other = random_context(2), random_context(2)
    before, state = trunk.step(x[:, :3], trunk.blank(2), real, chunk)
    torch.testing.assert_close(before, trunk(x, chunk)[:, :3], rtol=0, atol=1e-5)
    after, _ = trunk.step(x[:, 3:], state, real, other)
    for read in (chunk, other):  # the state knows the one, these steps see the other
        assert not torch.allclose(after, trunk(x, read)[:, 3:], atol=1e-3)


@settings(deadline=None)
@given(length=st.integers(1, 40), seed=st.integers(0, 2**31))
def test_a_scan_is_the_recurrence(length: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    keep, new = torch.rand(2, 2, length, 3, generator=generator, dtype=torch.float64)
    keep, new = keep.requires_grad_(), (new - 0.5).requires_grad_()
    h, steps = torch.zeros(2, 3, dtype=torch.float64), list[Tensor]()
    for kept, added in zip(keep.unbind(1), new.unbind(1), strict=True):
        h = kept * h + added
        steps.append(h)
    ways = scan(keep, new), torch.stack(steps, dim=1)
    torch.testing.assert_close(*ways)
    weights = torch.randn(2, length, 3, generator=generator, dtype=torch.float64)
    one, other = (
        torch.autograd.grad((way * weights).sum(), (keep, new), materialize_grads=True)
        for way in ways
    )
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("gate", [-200.0, 0.0, 200.0])
def test_gates_that_are_shut_or_open_for_long_overflow_nothing(gate: float) -> None:
    layer = RECURRENCES["mingru"](WIDTH)
    torch.nn.init.constant_(layer.gate.bias, gate)  # type: ignore[union-attr]
    outputs, state = layer(100 * torch.randn(1, 3000, WIDTH), torch.full((1, 1, WIDTH), 1e6))
    outputs.square().sum().backward()
    values = [outputs, state, *(weight.grad for weight in layer.parameters())]
    assert all(bool(torch.isfinite(value).all()) for value in values if value is not None)


@BACKBONES
def test_a_seed_means_the_same_weights_whatever_was_drawn_before(backbone: str) -> None:
    config = ModelConfig(backbone=backbone)  # type: ignore[arg-type]

    def build(seed: int) -> dict[str, Tensor]:
        return DecisionTransformer(SPACES["vector"], config, seed, True).state_dict()

    one = build(3)
    torch.rand(7)
    same, other = build(3), build(4)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


@BACKBONES
@torch.no_grad()
def test_some_units_remember_for_long_before_anything_is_learned(backbone: str) -> None:
    config = ModelConfig(backbone=backbone, width=64)  # type: ignore[arg-type]
    trunk = DecisionTransformer(SPACES["vector"], config, seed=0).trunk
    x = torch.randn(2, 300, 64)
    other = torch.cat([-x[:, :1], x[:, 1:]], dim=1)
    apart = (trunk(x) - trunk(other))[:, -1].abs().max()
    assert apart > 1e-4


@BACKBONES
def test_cross_attention_outside_the_layers_is_refused(backbone: str) -> None:
    with pytest.raises(ValueError, match="cross-attention asked at layers"):
        small_model(SPACES["vector"], True, backbone=backbone, cross_layers=(0, 5))


@BACKBONES
def test_a_set_has_no_order_to_recur_over(backbone: str) -> None:
    model = ModelConfig(return_to_go=False, backbone=backbone)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no order"):
        DPTOptions(model=model)
