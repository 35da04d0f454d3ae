from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from radt.memory.embed import DecisionTransformerEmbedder, fingerprint
from radt.model.recurrent import RECURRENCES
from radt.model.tokens import Tokenisation
from tests.contracts import embedder as contract
from tests.memory.toy_data import toy_embedder
from tests.model.batches import SPACES, small_model

CASES = pytest.mark.parametrize("tokens", ["fused", "interleaved"])
KINDS = pytest.mark.parametrize("kind", SPACES)


@CASES
@KINDS
def test_contract(kind: str, tokens: str) -> None:
    spaces = SPACES[kind]
    embedder = toy_embedder(spaces, tokens)
    contract.check_vectors(embedder, spaces)
    contract.check_batch_size(embedder, spaces)
    contract.check_padding(embedder, spaces)
    contract.check_last_action_is_unknown(embedder, spaces)
    contract.check_dropping_states(embedder, spaces)
    no_action = embedder.model.embed.no_action
    contract.check_stepper(embedder, spaces, no_action)
    contract.check_stepper_resets_some_rows(embedder, spaces, no_action)


@pytest.mark.parametrize("backbone", RECURRENCES)
def test_a_recurrent_embedder_reads_windows_only(backbone: str) -> None:
    embedder = DecisionTransformerEmbedder(small_model(SPACES["vector"], backbone=backbone))
    contract.check_vectors(embedder, SPACES["vector"])
    contract.check_padding(embedder, SPACES["vector"])
    assert embedder.stepper(2, context_len=4) is None  # a state would know what left the window


@CASES
def test_a_stepper_reads_returns_to_go(tokens: Tokenisation) -> None:
    model = small_model(SPACES["vector"], tokens=tokens, return_to_go=True)
    contract.check_stepper(DecisionTransformerEmbedder(model), SPACES["vector"], no_action=0)


@CASES
def test_a_stepper_forgets_what_left_its_window_long_ago(tokens: Tokenisation) -> None:
    embedder, batch = toy_embedder(SPACES["vector"], tokens), contract.prefixes(SPACES["vector"])
    row, steps = torch.tensor([4]), int(contract.LENGTHS[4])
    vectors = []
    for shift in (0.0, 3.0):
        batch.states[4, 0] += shift
        stepper = embedder.stepper(1, context_len=2)
        for step in range(steps):
            latest = contract.newest(batch, row, torch.tensor([step]), no_action=0)
            vectors.append(stepper.step(latest, torch.tensor([0])))
    before, after = torch.cat(vectors).split(steps)
    assert (before[0] != after[0]).any()
    contract.assert_close(before[-1], after[-1])


def test_a_vector_is_the_mean_of_the_state_tokens() -> None:
    embedder, batch = (
        toy_embedder(SPACES["vector"], "interleaved"),
        contract.prefixes(SPACES["vector"]),
    )
    hidden = embedder.model.hidden(batch)[:, ::3]  # tokens s, a, r
    by_hand = [hidden[row, :n].mean(0) for row, n in enumerate(contract.LENGTHS.tolist())]
    contract.assert_close(embedder(batch), torch.stack(by_hand))


def test_dropped_tokens_count_as_zero_in_the_mean() -> None:
    embedder, batch = toy_embedder(SPACES["vector"]), contract.prefixes(SPACES["vector"])
    dropped = torch.rand(batch.mask.shape) < 0.5
    hidden = embedder.model.hidden(batch) * (batch.mask & ~dropped)[..., None]
    contract.assert_close(embedder(batch, dropped), hidden.sum(1) / contract.LENGTHS[:, None])


def test_a_stepper_of_a_model_that_could_retrieve_sees_its_null_chunk() -> None:
    model = small_model(SPACES["vector"], retrieves=True, return_to_go=False)
    contract.check_stepper(DecisionTransformerEmbedder(model), SPACES["vector"], no_action=0)


def test_the_model_is_frozen() -> None:
    model = small_model(SPACES["vector"]).train()
    embedder = DecisionTransformerEmbedder(model)
    assert not embedder.model.training
    assert not any(parameter.requires_grad for parameter in embedder.model.parameters())


def test_the_fingerprint_changes_with_all_that_changes_the_vectors() -> None:
    spaces = SPACES["discrete"]
    one = toy_embedder(spaces)
    moved = small_model(spaces, return_to_go=False)
    with torch.no_grad():
        moved.trunk.blocks[0].self_attention.qkv.bias[3] += 1e-4
    others = [
        moved,
        small_model(spaces, return_to_go=False, heads=4),
        small_model(spaces, return_to_go=False, tokens="interleaved"),
        small_model(spaces, return_to_go=True),
        small_model(replace(spaces, reward_scale=2.0), return_to_go=False),
    ]
    for other in others:
        contract.check_fingerprint(one, DecisionTransformerEmbedder(other), toy_embedder(spaces))
    assert len({fingerprint(other) for other in others}) == len(others)
    again = small_model(spaces, return_to_go=False, dropout=0.3)
    assert fingerprint(again) == one.fingerprint
