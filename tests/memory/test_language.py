from __future__ import annotations

import builtins
import importlib.util
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from radt.memory import language
from radt.memory.embed import EMBEDDERS
from radt.memory.language import LanguageEmbedder, LanguageOptions, flush_embeddings
from radt.memory.language_model import (
    KNOWN,
    MINILM,
    MINILM_PACKAGE,
    LanguageModel,
    LanguageModelError,
    find,
    hash_weights,
)
from radt.trajectory import Batch
from tests.contracts import embedder as contract
from tests.memory.tiny_language import WIDTH, tiny_embedder, tiny_folder
from tests.model.batches import SPACES, mixed

GRID = SPACES["discrete"]
TOKENS = pytest.mark.parametrize("tokens", ["fused", "interleaved"])
MODELS = pytest.mark.parametrize("kind", ["encoder", "decoder", "both"])


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RADT_HOME", str(tmp_path))
    return tmp_path


@TOKENS
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("cache_most", [0, 1000])
def test_contract(space: str, tokens: str, cache_most: int) -> None:
    spaces = SPACES[space]
    embedder = tiny_embedder(spaces, tokens=tokens, cache_most=cache_most)
    contract.check_vectors(embedder, spaces)
    contract.check_batch_size(embedder, spaces)
    contract.check_padding(embedder, spaces)
    contract.check_last_action_is_unknown(embedder, spaces)
    contract.check_dropping_states(embedder, spaces)
    assert embedder.stepper(2, 5) is None
    assert embedder.network is None


@MODELS
@TOKENS
def test_any_kind_of_language_model_serves(kind: str, tokens: str) -> None:
    embedder = tiny_embedder(GRID, kind, tokens=tokens)
    assert embedder.width == WIDTH
    contract.check_vectors(embedder, GRID)
    contract.check_padding(embedder, GRID)
    contract.check_last_action_is_unknown(embedder, GRID)


@TOKENS
def test_a_vector_is_the_mean_of_the_state_tokens(tokens: str) -> None:
    embedder = tiny_embedder(GRID, tokens=tokens)
    batch = contract.prefixes(GRID).rows(torch.tensor([1]))  # of full length
    words = embedder._tokens(embedder._numbers(batch))
    present = torch.ones(words.shape[:2], dtype=torch.bool)
    if tokens == "interleaved":
        present[:, -2:] = False  # the last action and reward
    hidden = embedder.model(words, present)
    states = hidden if tokens == "fused" else hidden[:, ::3]
    contract.assert_close(embedder(batch), states.mean(1))


def test_a_fused_token_is_frozen_hopfield_of_all_one_hots() -> None:
    embedder = tiny_embedder(GRID)
    batch = contract.prefixes(GRID).rows(torch.tensor([1]))
    (width, height), actions = GRID.state.bins, GRID.action.size
    one_hot = torch.nn.functional.one_hot
    second = torch.cat(
        [
            one_hot(batch.states[0, 1, 0], width),
            one_hot(batch.states[0, 1, 1], height),
            one_hot(batch.actions[0, 0], actions + 1),
            one_hot((batch.rewards[0, 0] > 0.5).long(), 2),
        ]
    ).float()
    words = embedder._tokens(embedder._numbers(batch))
    expected = embedder.tables[0].hopfield(second[None])
    contract.assert_close(words[0, 1:2], expected)


@TOKENS
def test_the_future_leaks_nothing(tokens: str) -> None:
    """What lies behind the query's step, rewards and returns included, changes no bit."""
    embedder = tiny_embedder(GRID, tokens=tokens)
    batch, other = contract.prefixes(GRID), contract.prefixes(GRID, seed=1)
    steps = torch.arange(contract.LENGTH)
    now = contract.LENGTHS[:, None] - 1
    later = mixed(steps < now, batch, other)  # all but the state in which the agent stands
    states = torch.where((steps <= now)[..., None], batch.states, other.states)
    changed = replace(later, states=states, returns_to_go=other.returns_to_go)
    assert torch.equal(embedder(changed), embedder(batch))


def test_a_batch_is_left_as_it_was() -> None:
    batch, copy = contract.prefixes(GRID), contract.prefixes(GRID)
    tiny_embedder(GRID, tokens="interleaved")(batch)
    assert all(torch.equal(getattr(batch, n), getattr(copy, n)) for n in Batch.__dataclass_fields__)


def test_returns_to_go_are_read_only_if_asked_for() -> None:
    batch = contract.prefixes(GRID)
    richer = replace(batch, returns_to_go=batch.returns_to_go.flip(0))
    for tokens in ("fused", "interleaved"):
        plain = tiny_embedder(GRID, tokens=tokens)
        assert torch.equal(plain(batch), plain(richer))
        aiming = tiny_embedder(GRID, tokens=tokens, return_to_go=True)
        assert not torch.allclose(aiming(batch), aiming(richer), atol=1e-4)


def test_cached_equals_computed(home: Path) -> None:
    batch = contract.prefixes(GRID)
    one = tiny_embedder(GRID, cache_most=1000)
    vectors = one(batch)
    contract.assert_close(vectors, tiny_embedder(GRID)(batch))
    one.cache.flush()
    assert list((home / "embeddings" / one.fingerprint).iterdir())
    two = tiny_embedder(GRID, cache_most=1000)
    assert torch.equal(two(batch), vectors)
    assert (two.cache.counts.hits, two.cache.counts.computed) == (contract.ROWS, 0)


def test_the_same_prefix_at_another_time_is_embedded_once() -> None:
    batch = contract.prefixes(GRID)
    later = replace(batch, timesteps=batch.timesteps + 1)
    embedder = tiny_embedder(GRID, cache_most=1000)
    assert torch.equal(embedder(batch), embedder(later))
    assert embedder.cache.counts.computed == contract.ROWS


def test_dropped_states_are_never_cached() -> None:
    batch = contract.prefixes(GRID)
    dropped = torch.zeros_like(batch.mask)
    dropped[:, 0] = True
    embedder = tiny_embedder(GRID, cache_most=1000)
    embedder(batch, dropped)
    assert len(embedder.cache) == 0
    embedder(batch, ~batch.mask)  # drops padding alone
    assert len(embedder.cache) == contract.ROWS


def test_the_fingerprint_changes_with_all_that_changes_the_vectors(tmp_path: Path) -> None:
    one = tiny_embedder(GRID)
    moved = tmp_path / "moved"
    shutil.copytree(tiny_folder(), moved)
    same = tiny_embedder(GRID, model=str(moved), cache_most=7)
    others = [
        tiny_embedder(GRID, model=str(tiny_folder(seed=1))),
        tiny_embedder(GRID, "decoder"),
        tiny_embedder(GRID, tokens="interleaved"),
        tiny_embedder(GRID, beta=5.0),
        tiny_embedder(GRID, similarity="dot"),
        tiny_embedder(GRID, reward_bins=3),
        tiny_embedder(GRID, reward_max=2.0),
        tiny_embedder(GRID, return_to_go=True),
        tiny_embedder(GRID, projection_seed=1),
        tiny_embedder(replace(GRID, reward_scale=2.0)),
    ]
    for other in others:
        contract.check_fingerprint(one, other, same)
    assert len({other.fingerprint for other in others}) == len(others)


def test_the_fingerprint_changes_with_the_format(monkeypatch: pytest.MonkeyPatch) -> None:
    before = tiny_embedder(GRID).fingerprint
    monkeypatch.setattr(language, "FORMAT", language.FORMAT + 1)
    assert tiny_embedder(GRID).fingerprint != before


def test_uncached_computes_the_same_and_leaves_no_trace() -> None:
    batch = contract.prefixes(GRID)
    embedder = tiny_embedder(GRID, cache_most=1000)
    vectors, tables = embedder(batch), embedder.tables
    with embedder.uncached():
        contract.assert_close(embedder(batch), vectors)
        assert embedder.tables is not tables
    assert embedder.tables is tables
    assert (embedder.cache.counts.hits, embedder.cache.counts.computed) == (0, contract.ROWS)


def test_the_projection_follows_the_run_unless_it_has_a_seed_of_its_own() -> None:
    options = LanguageOptions(model=str(tiny_folder()), cache_most=0)
    batch = contract.prefixes(GRID)
    zero, one = (LanguageEmbedder(GRID, options, seed)(batch) for seed in (0, 1))
    assert not torch.allclose(zero, one, atol=1e-4)
    fixed = replace(options, projection_seed=0)
    assert torch.equal(LanguageEmbedder(GRID, fixed, 1)(batch), zero)


def test_nothing_is_loaded_before_it_is_needed() -> None:
    entry = EMBEDDERS["lm"]
    embedder = entry.build(GRID, LanguageOptions(model="nowhere"), 0)
    assert not entry.learns
    assert embedder.network is None
    with pytest.raises(LanguageModelError, match="neither a folder nor in the cache"):
        _ = embedder.width


def test_a_missing_model_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LanguageModelError, match=r"hf download .*nobody/nothing .*model=FOLDER"):
        LanguageModel.load("nobody/nothing")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(LanguageModelError, match=r"pip install 'radt\[lm\]'"):
        find(MINILM)


def test_missing_transformers_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "transformers":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(LanguageModelError, match=r"pip install 'radt\[lm\]'"):
        LanguageModel.load(str(tiny_folder()))


def test_other_weights_than_expected_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tiny_folder())
    weights = hash_weights(Path(folder))
    assert LanguageModel.load(folder, weights).sha256 == weights
    with pytest.raises(LanguageModelError, match="damaged or another model's"):
        LanguageModel.load(folder, "0" * 64)
    monkeypatch.setitem(KNOWN, folder, "0" * 64)
    with pytest.raises(LanguageModelError, match="damaged or another model's"):
        tiny_embedder(GRID)(contract.prefixes(GRID))


def test_only_safetensors_are_read(tmp_path: Path) -> None:
    shutil.copy(tiny_folder() / "config.json", tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"anything")
    with pytest.raises(LanguageModelError, match=r"holds no model\*\.safetensors"):
        LanguageModel.load(str(tmp_path))


def test_too_many_tokens_are_refused() -> None:
    model = LanguageModel.load(str(tiny_folder()))
    with pytest.raises(LanguageModelError, match="reads at most 64"):
        model(torch.zeros(1, 65, WIDTH), torch.ones(1, 65, dtype=torch.bool))


def test_the_model_is_frozen() -> None:
    model = LanguageModel.load(str(tiny_folder()))
    assert not model._network.training
    assert not any(weight.requires_grad for weight in model._network.parameters())
    assert not model.words.requires_grad


@pytest.mark.parametrize(
    "wrong", [{"reward_bins": 1}, {"return_bins": 0}, {"beta": 0.0}, {"reward_max": -1.0}]
)
def test_options_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        LanguageOptions(**wrong)


def test_settling_writes_and_counts_what_a_language_model_embedded(home: Path) -> None:
    embedder = tiny_embedder(GRID, cache_most=1000)
    for _ in range(2):
        embedder(contract.prefixes(GRID))
    counts = flush_embeddings(embedder)
    assert counts.pop("seconds") > 0
    assert (counts.pop("from_disk"), counts.pop("seconds_saved")) == (0, 0.0)
    assert counts == dict.fromkeys(("hits", "misses", "computed"), contract.ROWS)
    assert list((home / "embeddings" / embedder.fingerprint).iterdir())
    assert flush_embeddings(None) == {}


def test_it_can_be_moved_before_and_after_it_is_loaded() -> None:
    embedder = tiny_embedder(GRID)
    embedder.to("cpu")
    before = embedder(contract.prefixes(GRID))
    embedder.to("cpu")
    assert torch.equal(embedder(contract.prefixes(GRID)), before)


@pytest.mark.skipif(
    importlib.util.find_spec(MINILM_PACKAGE) is None, reason="radt[lm] is not installed"
)
def test_the_packaged_model_is_the_public_one() -> None:
    folder = find(MINILM)
    assert hash_weights(folder) == KNOWN[MINILM]
    model = LanguageModel.load(MINILM)
    assert (model.width, tuple(model.words.shape)) == (384, (30522, 384))
    assert model.longest == 512


def test_a_model_can_be_cut_or_have_random_weights() -> None:
    folder = str(tiny_folder())
    whole, first, random, same = (
        LanguageModel.load(folder, **changes)
        for changes in ({}, {"layers": 1}, {"random_weights": True}, {"random_weights": True})
    )
    assert first.parameters < whole.parameters == random.parameters
    assert torch.equal(first.words, whole.words)
    assert not torch.equal(random.words, whole.words)
    assert torch.equal(random.words, same.words)
    assert len({whole.sha256, first.sha256, random.sha256}) == 3
    with pytest.raises(LanguageModelError, match="layers must lie in"):
        LanguageModel.load(folder, layers=99)
