"""What a Decision Transformer may not see, what it must see, and what its loss counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from radt.model.losses import action_loss, counted_errors, loss_in_parts
from radt.model.policy import DecisionTransformer, ModelConfig
from radt.model.recurrent import RECURRENCES
from radt.model.transformer import Context
from radt.room import NoRoomError
from radt.trajectory import Batch
from tests.model.batches import SPACES, mixed, random_actions, random_batch, small_model

LENGTH = 6
MODELS = pytest.mark.parametrize(
    ("kind", "options"),
    [
        pytest.param(kind, {"tokens": tokens, "return_to_go": rtg}, id=f"{kind}-{tokens}-{rtg}")
        for kind in SPACES
        for tokens in ("fused", "interleaved")
        for rtg in ((True, False) if kind == "vector" else (True,))
    ]
    + [
        pytest.param(
            "vector",
            {"tokens": tokens, "return_to_go": True, "backbone": backbone},
            id=f"vector-{tokens}-{backbone}",
        )
        for backbone in RECURRENCES
        for tokens in ("fused", "interleaved")
    ],
)
FIELDS = ("states", "actions", "rewards", "returns_to_go")


def draw(kind: str, seed: int, lengths: Tensor | None = None, length: int = LENGTH) -> Batch:
    return random_batch(SPACES[kind], np.random.default_rng(seed), 3, length, lengths)


def changed(batch: Batch, field: str, at: Tensor) -> Batch:
    """Change one field of the steps marked in `at` [B, L], each to something else."""
    kind = next(k for k, s in SPACES.items() if s.state.shape == batch.states.shape[2:])
    other = draw(kind, 9, length=batch.mask.shape[1])
    if kind != "vector":
        other = replace(other, actions=(batch.actions + 1) % SPACES[kind].action.size)
    return replace(batch, **{field: getattr(mixed(~at, batch, other), field)})


@MODELS
@torch.no_grad()
def test_no_output_depends_on_a_later_step(kind: str, options: dict) -> None:
    model, batch = small_model(SPACES[kind], retrieves=True, **options), draw(kind, 0)
    retrieved = draw(kind, 1)
    before = model(batch, retrieved)
    assert before.shape == (3, LENGTH, SPACES[kind].action.size)
    for step in range(1, LENGTH):
        later = (torch.arange(LENGTH) >= step).expand(3, LENGTH)
        after = model(mixed(~later, batch, draw(kind, 9)), retrieved)
        assert torch.equal(before[:, :step], after[:, :step])
        assert not torch.allclose(before[:, step:], after[:, step:], atol=1e-3)


@MODELS
@torch.no_grad()
def test_an_action_is_predicted_without_seeing_it_or_its_reward(kind: str, options: dict) -> None:
    model, batch = small_model(SPACES[kind], **options), draw(kind, 0)
    before = model(batch)
    for step in range(LENGTH):
        for field in ("actions", "rewards"):
            at = (torch.arange(LENGTH) == step).expand(3, LENGTH)
            after = model(changed(batch, field, at))
            assert torch.equal(before[:, : step + 1], after[:, : step + 1])
            if step + 1 < LENGTH:  # but the next decision knows both
                assert not torch.allclose(before[:, step + 1], after[:, step + 1], atol=1e-4)


@MODELS
@torch.no_grad()
def test_an_action_is_predicted_from_its_state_and_return_to_go(kind: str, options: dict) -> None:
    model, batch = small_model(SPACES[kind], **options), draw(kind, 0)
    before = model(batch)
    at = (torch.arange(LENGTH) == 3).expand(3, LENGTH)
    for field in ("states", "returns_to_go"):
        after = model(changed(batch, field, at))
        seen = field == "states" or options["return_to_go"]
        assert torch.allclose(before[:, 3], after[:, 3], atol=1e-4) != seen


@MODELS
@torch.no_grad()
def test_padding_leaks_nothing(kind: str, options: dict) -> None:
    lengths = torch.tensor([2, 5, LENGTH])
    model = small_model(SPACES[kind], retrieves=True, **options)
    batch, retrieved = draw(kind, 0, lengths), draw(kind, 1, torch.tensor([4, 1, 3]))
    before = model(batch, retrieved)
    other = model(mixed(batch.mask, batch, draw(kind, 9)), retrieved)
    assert torch.equal(before[batch.mask], other[batch.mask])
    other = model(batch, mixed(retrieved.mask, retrieved, draw(kind, 9)))
    assert torch.equal(before, other)


@MODELS
@torch.no_grad()
def test_the_amount_of_padding_changes_nothing(kind: str, options: dict) -> None:
    model = small_model(SPACES[kind], retrieves=True, **options)
    batch, retrieved = draw(kind, 0, torch.full((3,), 4)), draw(kind, 1, torch.full((3,), 2))
    long, short = model(batch, retrieved), model(batch.steps(4), retrieved.steps(2))
    torch.testing.assert_close(long[:, :4], short, rtol=0, atol=1e-5)


@MODELS
@torch.no_grad()
def test_rows_are_independent(kind: str, options: dict) -> None:
    model = small_model(SPACES[kind], retrieves=True, **options)
    batch, retrieved = draw(kind, 0), draw(kind, 1)
    row = torch.tensor([1])
    alone = model(batch.rows(row), retrieved.rows(row))
    torch.testing.assert_close(model(batch, retrieved)[row], alone, rtol=0, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("tokens", ["fused", "interleaved"])
def test_all_of_a_retrieved_chunk_is_read_at_every_step(tokens: str) -> None:
    model, batch, retrieved = small_model(SPACES["vector"], True, tokens=tokens), *pair("vector")
    before = model(batch, retrieved)
    for field in FIELDS:
        for step in range(LENGTH):
            at = (torch.arange(LENGTH) == step).expand(3, LENGTH)
            after = model(batch, changed(retrieved, field, at))
            assert ((before - after).abs().amax(-1) > 1e-6).all(), (field, step)


def pair(kind: str) -> tuple[Batch, Batch]:
    return draw(kind, 0), draw(kind, 1)


@torch.no_grad()
def test_a_row_without_context_sees_only_the_null_chunk() -> None:
    model, batch, retrieved = small_model(SPACES["discrete"], True), *pair("discrete")
    nothing = model(batch)
    lengths = torch.tensor([0, LENGTH, 0])
    some = replace(retrieved, mask=torch.arange(LENGTH) < lengths[:, None])
    after = model(batch, some)
    torch.testing.assert_close(after[[0, 2]], nothing[[0, 2]], rtol=0, atol=1e-5)
    assert not torch.allclose(after[1], nothing[1], atol=1e-3)
    model.null_chunk += 1.0  # a row that has a chunk does not see the null one
    moved = model(batch, some)
    assert torch.equal(moved[1], after[1])
    assert not torch.allclose(moved[0], after[0], atol=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("layers", [(), (0,), (2,), (0, 2), (0, 1, 2), None])
def test_cross_attention_at_any_set_of_layers(layers: tuple[int, ...] | None) -> None:
    options = {"layers": 3, "cross_layers": layers}
    model = small_model(SPACES["discrete"], True, **options)
    expected = {0, 1, 2} if layers is None else set(layers)
    crossed = {i for i, block in enumerate(model.trunk.blocks) if block.cross_attention is not None}
    assert crossed == expected
    batch, retrieved = pair("discrete")
    sees = not torch.allclose(model(batch, retrieved), model(batch), atol=1e-4)
    assert sees == bool(expected)


@torch.no_grad()
def test_without_retrieval_there_is_nothing_to_cross_to() -> None:
    model, (batch, retrieved) = small_model(SPACES["discrete"]), pair("discrete")
    assert model.context(batch, retrieved) is None
    assert not hasattr(model, "null_chunk")
    assert torch.equal(model(batch, retrieved), model(batch))


@torch.no_grad()
def test_retrieved_steps_have_embeddings_of_their_own() -> None:
    model, (batch, retrieved) = small_model(SPACES["vector"], True), pair("vector")
    context = model.context(batch, retrieved)
    assert isinstance(context, Context)
    for parameter in model.embed.parameters():
        parameter += 1.0
    again = model.context(batch, retrieved)
    assert again is not None
    assert torch.equal(again.tokens, context.tokens)
    assert context.mask.any(1).all()


@torch.no_grad()
def test_interleaved_tokens_come_in_the_authors_order() -> None:
    model = small_model(SPACES["vector"], tokens="interleaved")
    embed, batch = model.embed, draw("vector", 0)
    tokens = embed(batch, past=False).unflatten(1, (LENGTH, 4))
    for place, field in enumerate(("states", "returns_to_go", "actions", "rewards")):
        at = torch.ones(3, LENGTH, dtype=torch.bool)
        after = embed(changed(batch, field, at), past=False).unflatten(1, (LENGTH, 4))
        moved = (tokens != after).any(-1)  # [B, L, 4]
        assert moved[:, :, place].all()
        assert moved.sum() == 3 * LENGTH
    hidden = torch.arange(4 * LENGTH).expand(1, -1)[..., None]
    assert embed.at_states(hidden)[0, :, 0].tolist() == list(range(0, 4 * LENGTH, 4))
    assert embed.at_decisions(hidden)[0, :, 0].tolist() == list(range(1, 4 * LENGTH, 4))
    assert embed.mask(batch).shape == (3, 4 * LENGTH)


@torch.no_grad()
def test_a_batch_is_left_as_it_was() -> None:
    model, batch = small_model(SPACES["vector"]), draw("vector", 0)
    copy = draw("vector", 0)
    model(batch)
    assert all(torch.equal(getattr(batch, f), getattr(copy, f)) for f in FIELDS)


@torch.no_grad()
def test_steps_behind_the_horizon_share_its_last_position() -> None:
    model, batch = small_model(SPACES["discrete"]), draw("discrete", 0)
    horizon = SPACES["discrete"].horizon
    last = replace(batch, timesteps=torch.full_like(batch.timesteps, horizon))
    behind = replace(batch, timesteps=torch.full_like(batch.timesteps, horizon + 5))
    assert torch.equal(model(last), model(behind))


@torch.no_grad()
def test_continuous_actions_lie_inside_the_box() -> None:
    model, batch = small_model(SPACES["vector"]), draw("vector", 0)
    model.head.weight *= 100
    assert (model(batch).abs() <= 1).all()


@torch.no_grad()
def test_dropout_acts_at_training_only() -> None:
    model: DecisionTransformer = small_model(SPACES["discrete"], True, dropout=0.5)
    batch, retrieved = pair("discrete")
    assert torch.equal(model(batch, retrieved), model(batch, retrieved))
    model.train()
    assert not torch.allclose(model(batch, retrieved), model(batch, retrieved))


def test_every_weight_learns() -> None:
    model = small_model(SPACES["vector"], True)
    batch, retrieved = pair("vector")
    some = replace(retrieved, mask=retrieved.mask & torch.tensor([True, True, False])[:, None])
    action_loss(model(batch, some), batch.actions, batch.mask).backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().max() > 0, name


@pytest.mark.parametrize("kind", ["discrete", "vector"])
def test_the_loss_ignores_steps_that_are_not_marked(kind: str, rng: np.random.Generator) -> None:
    spaces = SPACES[kind]
    steps = torch.arange(LENGTH) < torch.tensor([1, 4, 6])[:, None]
    predicted = torch.randn(3, LENGTH, spaces.action.size, requires_grad=True)
    actions = random_actions(spaces, rng, (3, LENGTH))
    loss = action_loss(predicted, actions, steps)
    loss.backward()
    assert predicted.grad is not None
    assert not predicted.grad[~steps].any()
    other = torch.where(steps[..., None], predicted, 99.0).detach()
    others = random_actions(spaces, rng, (3, LENGTH))
    spread = steps if actions.ndim == 2 else steps[..., None]
    assert torch.equal(action_loss(other, torch.where(spread, actions, others), steps), loss)


def test_the_discrete_loss_is_the_mean_cross_entropy(rng: np.random.Generator) -> None:
    predicted, actions = torch.randn(2, 3, 4), torch.tensor([[0, 1, 2], [3, 3, 0]])
    steps = torch.tensor([[True, True, False], [True, False, False]])
    by_hand = [cross_entropy(predicted[b, t], actions[b, t]) for b, t in ((0, 0), (0, 1), (1, 0))]
    torch.testing.assert_close(action_loss(predicted, actions, steps), torch.stack(by_hand).mean())


def test_the_continuous_loss_counts_valid_dimensions_only() -> None:
    predicted, actions = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    steps = torch.tensor([[True, True, False], [True, False, False]])
    valid = torch.tensor([[True, False, False, False], [True, True, True, False]])
    errors = [
        (predicted[b, t, d] - actions[b, t, d]) ** 2
        for b, t, dims in ((0, 0, 1), (0, 1, 1), (1, 0, 3))
        for d in range(dims)
    ]
    expected = torch.stack(errors).mean()
    torch.testing.assert_close(action_loss(predicted, actions, steps, valid), expected)
    noise = torch.randn(2, 1, 4).masked_fill(valid[:, None], 0)
    assert torch.equal(
        action_loss(predicted + noise, actions - noise, steps, valid),
        action_loss(predicted, actions, steps, valid),
    )


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_a_loss_in_parts_is_the_loss_of_the_whole(kind: str, rng: np.random.Generator) -> None:
    rows, steps, size = 37, 6, 3
    predicted = torch.from_numpy(rng.normal(size=(rows, steps, size))).requires_grad_()
    mask = torch.arange(steps) < torch.from_numpy(rng.integers(0, steps + 1, size=rows))[:, None]
    actions, valid = torch.from_numpy(rng.integers(size, size=(rows, steps))), None
    if kind == "continuous":
        actions = torch.from_numpy(rng.normal(size=(rows, steps, size)))
        valid = torch.arange(size) < torch.from_numpy(rng.integers(1, size + 1, size=rows))[:, None]

    def of(part: Tensor) -> Tensor:
        some = None if valid is None else valid[part]
        return action_loss(predicted[part], actions[part], mask[part], some)

    whole = action_loss(predicted, actions, mask, valid)
    parts = loss_in_parts(of, mask.sum(1), counted_errors(mask, valid), torch.device("cpu"))
    torch.testing.assert_close(parts, whole)
    gradients = [torch.autograd.grad(loss, predicted)[0] for loss in (whole, parts)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("size", [{"width": 10**9}, {"layers": 10**9}, {"return_bins": 10**12}])
def test_a_model_that_would_not_fit_into_memory_is_refused_with_the_number(
    size: dict[str, int],
) -> None:
    with pytest.raises(NoRoomError, match=r"would take .* GB, but .* GB of memory"):
        DecisionTransformer(SPACES["discrete"], ModelConfig(heads=1, **size), seed=0)
