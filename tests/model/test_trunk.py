"""The trunk against GPT-2 of transformers, its key-value cache, its initialisation and its size."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from radt.envs.dark_room import DarkRoomSuite, Room
from radt.model.attention import Place
from radt.model.policy import DecisionTransformer, ModelConfig
from radt.model.transformer import Context, Transformer
from tests.model.batches import SPACES

WIDTH, HEADS, LAYERS = 24, 3, 3


def random_trunk(cross_layers: tuple[int, ...] = ()) -> Transformer:
    trunk = Transformer(LAYERS, WIDTH, HEADS, dropout=0.0, cross_layers=cross_layers)
    for parameter in trunk.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return trunk.eval()


def random_context(rows: int, length: int) -> Context:
    mask = torch.rand(rows, length) < 0.7
    mask[:, 0] = True
    return Context(torch.randn(rows, length, WIDTH), mask)


def as_transformers(trunk: Transformer):
    """Copy our weights into transformers' GPT-2; its Conv1D holds weights transposed."""
    from transformers import GPT2Config, GPT2Model

    crossed = any(block.cross_attention is not None for block in trunk.blocks)
    sizes = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 32}
    dropouts = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    config = GPT2Config(vocab_size=1, add_cross_attention=crossed, **sizes, **dropouts)
    theirs = GPT2Model(config).eval()
    with torch.no_grad():
        theirs.wpe.weight.zero_()  # our positions are in the tokens already
        copy_layer(trunk.norm, theirs.ln_f)
        for ours, other in zip(trunk.blocks, theirs.h, strict=True):
            copy_layer(ours.norm_self, other.ln_1)
            copy_linear(ours.self_attention.qkv, other.attn.c_attn)
            copy_linear(ours.self_attention.project, other.attn.c_proj)
            copy_layer(ours.norm_feed, other.ln_2)
            copy_linear(ours.feed[0], other.mlp.c_fc)
            copy_linear(ours.feed[2], other.mlp.c_proj)
            if crossed:
                copy_layer(ours.norm_cross, other.ln_cross_attn)
                copy_linear(ours.cross_attention.query, other.crossattention.q_attn)
                copy_linear(ours.cross_attention.key_value, other.crossattention.c_attn)
                copy_linear(ours.cross_attention.project, other.crossattention.c_proj)
    return theirs


def copy_layer(ours: torch.nn.LayerNorm, theirs: torch.nn.LayerNorm) -> None:
    theirs.weight.copy_(ours.weight)
    theirs.bias.copy_(ours.bias)


def copy_linear(ours: torch.nn.Linear, theirs) -> None:
    theirs.weight.copy_(ours.weight.T)
    theirs.bias.copy_(ours.bias)


@torch.no_grad()
def test_equals_gpt2_of_transformers() -> None:
    trunk, x = random_trunk(), torch.randn(4, 11, WIDTH)
    theirs = as_transformers(trunk)(inputs_embeds=x).last_hidden_state
    torch.testing.assert_close(trunk(x), theirs, rtol=0, atol=1e-5)


@torch.no_grad()
def test_equals_gpt2_of_transformers_with_cross_attention() -> None:
    trunk, x = random_trunk(cross_layers=(0, 1, 2)), torch.randn(4, 11, WIDTH)
    context = random_context(4, 7)
    theirs = as_transformers(trunk)(
        inputs_embeds=x,
        encoder_hidden_states=context.tokens,
        encoder_attention_mask=context.mask.long(),
    ).last_hidden_state
    torch.testing.assert_close(trunk(x, context), theirs, rtol=0, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("crossed", [False, True])
def test_stepping_with_a_cache_equals_the_full_forward(crossed: bool) -> None:
    trunk = random_trunk(cross_layers=(1,) if crossed else ())
    x, context = torch.randn(3, 9, WIDTH), random_context(3, 5) if crossed else None
    full = trunk(x, context)
    caches, rows = trunk.caches(rows=3, size=9), torch.arange(3)
    for step in range(9):
        place = Place.behind(rows, torch.full((3,), step), new=1)
        stepped = trunk.step(x[:, step : step + 1], caches, place, context)
        torch.testing.assert_close(stepped[:, 0], full[:, step], rtol=0, atol=1e-5)


@torch.no_grad()
def test_rows_step_on_their_own_and_start_again() -> None:
    trunk, x = random_trunk(), torch.randn(2, 6, WIDTH)
    full, caches = trunk(x), trunk.caches(rows=2, size=6)
    length = torch.zeros(2, dtype=torch.int64)

    def step(row: int) -> Tensor:
        at = int(length[row])
        place = Place.behind(torch.tensor([row]), length[row : row + 1], new=1)
        length[row] += 1
        return trunk.step(x[row : row + 1, at : at + 1], caches, place)[0, 0]

    for row in (0, 0, 1, 0, 1, 0):
        at = int(length[row])
        torch.testing.assert_close(step(row), full[row, at], rtol=0, atol=1e-5)
    length[0] = 0  # what is left in the ring must not be seen
    torch.testing.assert_close(step(0), full[0, 0], rtol=0, atol=1e-5)
    torch.testing.assert_close(step(1), full[1, 2], rtol=0, atol=1e-5)


def test_cross_attention_outside_the_layers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\{3\}.*3"):
        Transformer(3, WIDTH, HEADS, 0.0, cross_layers=(0, 3))


def test_initial_weights_are_those_of_gpt2() -> None:
    model = DecisionTransformer(SPACES["encoded"], ModelConfig(width=128), seed=0, retrieves=True)
    for name, weight in model.named_parameters():
        if "norm" in name:
            assert torch.equal(weight, torch.full_like(weight, float(name.endswith("weight"))))
        elif name.endswith("bias"):
            assert not weight.any(), name
        else:
            residual = name.endswith(("attention.project.weight", "feed.2.weight"))
            expected = 0.02 / math.sqrt(2 * 3) if residual else 0.02
            rough = 5 / math.sqrt(2 * weight.numel())  # five standard errors of the deviation
            assert weight.std().item() == pytest.approx(expected, rel=rough), name
            assert abs(weight.mean().item()) < 5 * expected / math.sqrt(weight.numel()), name


def test_a_seed_means_the_same_weights_whatever_was_drawn_before() -> None:
    def build(seed: int) -> dict[str, Tensor]:
        return DecisionTransformer(SPACES["vector"], ModelConfig(), seed, True).state_dict()

    one = build(3)
    torch.rand(7)
    same, other = build(3), build(4)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_the_papers_size() -> None:
    spaces = DarkRoomSuite("paper", Room(10, 10), (90.0, 5.0), trials=40).spaces
    config = ModelConfig(layers=4, width=512, heads=8, tokens="interleaved")
    with torch.device("meta"):
        plain = DecisionTransformer(spaces, config, seed=0)
        retrieving = DecisionTransformer(spaces, config, seed=0, retrieves=True)
    trunk = 4 * (12 * 512**2 + 13 * 512) + 2 * 512
    steps = (20 + 6 + 2 + 2 + 101 + 2) * 512  # state, action, reward, return, time, norm
    assert count(plain) == trunk + steps + 512 * 5 + 5
    crossing = 4 * (4 * 512**2 + 6 * 512)  # 4.2 M, as in the authors' model
    assert count(retrieving) - count(plain) == crossing + steps + 512
    assert count(retrieving) == pytest.approx(16.5e6, rel=0.05)  # the paper's number


def count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
