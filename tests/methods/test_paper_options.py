"""Each alternative to Algorithm 2 is one option, which acts; its default changes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from radt.data import Dataset
from radt.memory.embed import DecisionTransformerEmbedder, DTEmbedderOptions, fingerprint
from radt.memory.entries import stack
from radt.memory.folder.rewrite import re_embed
from radt.memory.identity import Identity, MemoryFileError, MemoryMismatchError
from radt.memory.language import LanguageOptions
from radt.memory.memory import Memory, MemoryConfig
from radt.memory.retrieve import Searchable
from radt.methods.training_contexts import RetrievalTraining
from radt.methods.training_index import told
from radt.methods.training_memory import TrainingMemory
from radt.model.policy import DecisionTransformer, ModelConfig
from radt.trajectory import Batch, Trajectory
from tests.contracts import embedder as embedder_contract
from tests.contracts.method import OPTIONS, TINY, check_acting, check_learning, toy_dataset
from tests.contracts.store import assert_same_steps
from tests.memory.tiny_language import tiny_embedder
from tests.memory.toy_data import toy_embedder
from tests.model.batches import SPACES as KINDS_OF_SPACES
from tests.model.batches import random_batch, small_model
from tests.toys import TOY_GRID, histories

C = 4
CONFIG = MemoryConfig(context_len=C, top_l=6)
PLAIN = RetrievalTraining(cut_off=None, query_dropout=0.0, dedup=None, context_dropout=0.0)
SPACES, VECTOR = TOY_GRID.spaces, KINDS_OF_SPACES["vector"]
ROWS = 400


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return toy_dataset(TOY_GRID, tmp_path_factory.mktemp("grid"), episodes=12)


def training_memory(
    dataset: Dataset, config: MemoryConfig = CONFIG, **changes: Any
) -> TrainingMemory:
    return TrainingMemory(dataset, toy_embedder(SPACES), config, replace(PLAIN, **changes))


def chosen(memory: TrainingMemory, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Choose for many random queries; return ids and the queries' tasks, both [B]."""
    ask = np.random.default_rng(1)
    episode = ask.integers(len(memory.dataset), size=ROWS)
    step = ask.integers(memory.dataset.episodes.length[episode])
    task = torch.from_numpy(memory.dataset.episodes.task[episode])
    return memory.choose_for(episode, step, rng)[:, 0], task


def lived(slot: int = 0, count: int = 3) -> list[Trajectory]:
    (some,) = histories(TOY_GRID, count, seed=slot, tasks=[TOY_GRID.train_tasks[0]]).values()
    return [replace(trial, task=slot) for trial in some]


def written(config: MemoryConfig) -> Memory:
    memory = Memory(toy_embedder(SPACES), SPACES, config)
    memory.write(lived())
    return memory


# training.sampled_share, training.any_task_share: a mix of given shares


@pytest.mark.parametrize(
    ("option", "contexts"), [("sampled_share", "own-task"), ("any_task_share", "all-tasks")]
)
def test_a_share_of_one_is_sampling(dataset: Dataset, option: str, contexts: str) -> None:
    rng = np.random.default_rng(0)
    mixed, _ = chosen(training_memory(dataset, **{option: 1.0}), rng)
    rng = np.random.default_rng(0)
    rng.random(ROWS)  # what tells the shares apart
    assert torch.equal(mixed, chosen(training_memory(dataset, contexts=contexts), rng)[0])


def test_shares_of_both_kinds_leave_the_rest_to_retrieval(dataset: Dataset) -> None:
    memory = training_memory(dataset, sampled_share=0.3, any_task_share=0.5)
    kind = memory._kinds(np.full(20_000, 5), np.random.default_rng(0))
    shares = {name: float((kind == name).mean()) for name in np.unique(kind)}
    expected = {"own-task": 0.3, "all-tasks": 0.5, "retrieved": 0.2}
    assert shares == pytest.approx(expected, abs=0.02)
    ids, task = chosen(training_memory(dataset, any_task_share=1.0), np.random.default_rng(0))
    of_own = memory.store.entries.task[ids] == task
    assert 0 < of_own[ids >= 0].float().mean() < 0.9


def test_shares_that_are_more_than_all_are_refused() -> None:
    with pytest.raises(ValueError, match=r"sampled_share \+ any_task_share"):
        RetrievalTraining(sampled_share=0.6, any_task_share=0.6)


# training.alpha, apart from the alpha of inference


def test_alpha_at_training_and_at_inference_are_apart(dataset: Dataset) -> None:
    def ids(config: MemoryConfig, **changes: Any) -> Tensor:
        return chosen(training_memory(dataset, config, **changes), np.random.default_rng(0))[0]

    strong = replace(CONFIG, alpha=50.0)
    assert torch.equal(ids(CONFIG, alpha=50.0), ids(strong))
    assert torch.equal(ids(strong, alpha=1.0), ids(CONFIG))
    assert torch.equal(ids(strong, alpha=0.0), ids(CONFIG, utility="none"))
    assert not torch.equal(ids(strong, alpha=0.0), ids(strong))


# memory.past_len, memory.future_len: halves of a chunk apart from C


def test_halves_of_c_are_the_usual_chunks(dataset: Dataset) -> None:
    same = replace(CONFIG, past_len=C, future_len=C)
    one, other = written(CONFIG), written(same)
    assert one.identity() == other.identity()
    assert set(one.identity().to_json()) == {"embedder", "key_width", "context_len", "spaces"}
    assert torch.equal(one.keys, other.keys)
    ids = torch.arange(len(one))[:, None]
    assert_same_steps(one.chunks(ids), other.chunks(ids))
    usual, halves = (training_memory(dataset, config) for config in (CONFIG, same))
    assert torch.equal(usual.keys, halves.keys)
    drawn = (chosen(memory, np.random.default_rng(0))[0] for memory in (usual, halves))
    assert torch.equal(*drawn)


@pytest.mark.parametrize(("past", "future"), [(2, 3), (3, 1), (6, 5)])
def test_positions_follow_the_past_and_keys_still_embed_c_steps(
    dataset: Dataset, past: int, future: int
) -> None:
    config = replace(CONFIG, past_len=past, future_len=future)
    memory, trials = written(config), lived()
    spans = [(trial, t) for trial in trials for t in range(0, len(trial), past)]
    assert memory.entries.position.tolist() == [t for _, t in spans]
    keys = [trial.cut(max(0, t - C + 1), t + 1) for trial, t in spans]
    vectors = memory.embedder(stack(keys, SPACES, C))
    torch.testing.assert_close(memory.keys, vectors, rtol=0, atol=1e-5)
    pieces = [trial.cut(max(0, t - past), min(len(trial), t + future)) for trial, t in spans]
    ids = torch.arange(len(memory))[:, None]
    assert_same_steps(memory.chunks(ids), stack(pieces, SPACES, past + future))
    built = training_memory(dataset, config)  # the same at training
    again = Memory(built.embedder, SPACES, config)
    again.write([dataset.trajectory(row) for row in range(len(dataset))])
    torch.testing.assert_close(built.keys, again.keys, rtol=0, atol=1e-5)
    ids = torch.arange(len(again))[:, None]
    assert_same_steps(built.store.chunks(ids), again.chunks(ids))


def test_memories_of_other_halves_are_refused(tmp_path: Path) -> None:
    short = written(replace(CONFIG, past_len=2))
    assert Identity.from_json(short.identity().to_json()) == short.identity()
    short.save(tmp_path / "short")
    with pytest.raises(MemoryMismatchError, match="past_len: 2"):
        written(CONFIG).load(tmp_path / "short")
    with short.at(tmp_path / "folder") as memory:
        memory.write(lived())
        assert_same_steps(*(one.chunks(torch.arange(6)[:, None]) for one in (short, memory)))
    with pytest.raises(MemoryMismatchError, match="past_len"):
        written(CONFIG).at(tmp_path / "folder")
    with pytest.raises(MemoryFileError, match="2 steps before"):  # too few to embed C of them
        re_embed(tmp_path / "folder", short.embedder, short.identity())


def test_a_method_learns_and_acts_with_other_halves(dataset: Dataset, tmp_path: Path) -> None:
    memory = {"context_len": C, "top_l": 6, "past_len": 2, "future_len": 3, "top_k": 2}
    options = {**OPTIONS["ra-dt"], "memory": memory}
    check_learning("ra-dt", TOY_GRID, dataset, options)
    check_acting("ra-dt", TOY_GRID, tmp_path, options)


# memory.similarity: raw inner product at inference


def test_the_inner_product_prefers_long_keys() -> None:
    memory = Memory(toy_embedder(SPACES), SPACES, replace(CONFIG, similarity="inner-product"))
    empty, _ = memory.search(torch.randn(2, memory.embedder.width), 3)
    assert empty.isneginf().all()
    memory.write(lived())
    memory.write(lived(1))
    queries, slots = torch.randn(5, memory.embedder.width), torch.tensor([0, 1, 0, 2, 1])
    expected = (queries.double() @ memory.keys.double().T).masked_fill(
        memory.entries.task != slots[:, None], -torch.inf
    )
    relevance, ids = memory.search(queries, 4, slots)
    found = relevance.isfinite()
    assert found.any(1).tolist() == [True, True, True, False, True]
    assert torch.equal(ids >= 0, found)
    best = expected.topk(4, dim=1).values.float()
    torch.testing.assert_close(relevance, best, rtol=1e-5, atol=1e-5)
    memory.forget(torch.tensor([0]))
    assert (memory.search(queries, 4, slots)[1][0] == -1).all()


def test_what_cannot_compare_by_inner_product_is_refused() -> None:
    with pytest.raises(ValueError, match="flat"):
        MemoryConfig(similarity="inner-product", index="faiss-ivf")
    memory = written(replace(CONFIG, similarity="inner-product"))

    class Server(type(memory.store)):  # type: ignore[misc]
        def search(self, *asked: Any) -> Any:
            raise AssertionError

    store = Server(SPACES, 2 * C, memory.embedder.width)
    assert isinstance(store, Searchable)
    with pytest.raises(ValueError, match="cosine"):
        Memory(memory.embedder, SPACES, memory.config, store)


# memory.dedup_spares_start


def test_dedup_at_inference_can_spare_first_entries() -> None:
    def positions(**options: Any) -> list[int]:
        memory = written(replace(CONFIG, dedup=-1.0, **options))  # everything resembles everything
        return memory.entries.position.tolist()

    first = [trial.episode == 0 for trial in lived() for _ in range(0, len(trial), C)]
    assert len(positions()) == sum(first)  # of other episodes nothing is left
    assert positions(dedup_spares_start=True) == [*positions(), 0, 0]


# preparing an index tells of each regulariser


def test_each_regulariser_tells_what_it_leaves(dataset: Dataset) -> None:
    memory = training_memory(dataset, dedup=0.99, cut_off=0.9)
    sizes = memory.sizes
    assert sizes["cut"] > sizes["distinct"] == len(memory.store.entries)
    assert sizes["candidates"] > sizes["below_cut_off"] > 0
    share = sizes["below_cut_off"] / sizes["candidates"]
    assert sizes["kept_by_cut_off"] == pytest.approx(share)
    lines = list(told(sizes))
    assert len(lines) == 4
    assert f"{sizes['distinct_return']:.1f}" in lines[1]
    assert not list(told({"loss": 1.0}))


# embedder.query_tokens: which hidden states become keys and queries

KINDS = ("states", "actions", "rewards", "returns", "all", "last")


def embedder(tokens: Any, made: Any = "interleaved", rtg: bool = True) -> Any:
    model = small_model(VECTOR, tokens=made, return_to_go=rtg)
    return DecisionTransformerEmbedder(model, tokens)


@pytest.mark.parametrize("rtg", [True, False])
@pytest.mark.parametrize("tokens", KINDS)
def test_keys_of_any_tokens_keep_the_contract(tokens: str, rtg: bool) -> None:
    if tokens == "returns" and not rtg:
        return
    made = embedder(tokens, rtg=rtg)
    embedder_contract.check_vectors(made, VECTOR)
    embedder_contract.check_padding(made, VECTOR)
    embedder_contract.check_last_action_is_unknown(made, VECTOR)
    embedder_contract.check_stepper(made, VECTOR, made.model.embed.no_action)


def test_keys_are_the_mean_of_the_tokens_that_are_named() -> None:
    batch = embedder_contract.prefixes(VECTOR)
    hidden = embedder("all").model.hidden(batch).unflatten(1, (-1, 4))  # s, R, a, r
    steps = int(batch.mask[1].sum())
    seen = hidden[1, :steps]
    known = {
        "states": seen[:, 0],
        "returns": seen[:, 1],
        "actions": seen[:-1, 2],
        "rewards": seen[:-1, 3],
        "all": seen.flatten(0, 1)[:-2],
        "last": seen[-1:, 1],
    }
    for tokens in KINDS:
        torch.testing.assert_close(embedder(tokens)(batch)[1], known[tokens].mean(0))
    fused = [embedder(tokens, "fused")(batch) for tokens in ("states", "all")]
    torch.testing.assert_close(*fused)


def test_other_tokens_are_another_embedder() -> None:
    prints = {tokens: embedder(tokens).fingerprint for tokens in KINDS}
    assert len({*prints.values()}) == len(KINDS)
    plain = DecisionTransformerEmbedder(embedder("states").model)
    assert prints["states"] == plain.fingerprint == fingerprint(plain.model)


@pytest.mark.parametrize(
    ("tokens", "made", "rtg"),
    [("actions", "fused", True), ("returns", "fused", True), ("returns", "interleaved", False)],
)
@pytest.mark.parametrize("options", [DTEmbedderOptions, LanguageOptions])
def test_tokens_that_are_not_made_are_refused(
    options: Any, tokens: str, made: Any, rtg: bool
) -> None:
    model = {"tokens": made, "return_to_go": rtg}
    given = {"model": ModelConfig(**model)} if options is DTEmbedderOptions else model
    with pytest.raises(ValueError, match="choose states"):
        options(query_tokens=tokens, **given)


@pytest.mark.parametrize("tokens", ["actions", "all", "last"])
def test_a_language_model_can_read_keys_from_other_tokens(tokens: Any) -> None:
    plain, other = (
        tiny_embedder(SPACES, tokens="interleaved", query_tokens=kind)
        for kind in ("states", tokens)
    )
    assert plain.fingerprint != other.fingerprint
    embedder_contract.check_vectors(other, SPACES)
    embedder_contract.check_last_action_is_unknown(other, SPACES)
    batch = embedder_contract.prefixes(SPACES)
    assert not torch.allclose(plain(batch), other(batch))


# model.return_bins, model.return_loss


def pair() -> tuple[Batch, Batch]:
    rng = np.random.default_rng(0)
    return random_batch(VECTOR, rng, 3, 6, None), random_batch(VECTOR, rng, 3, 5, None)


def model_loss(model: DecisionTransformer, recent: Batch, retrieved: Batch) -> Tensor:
    return model.loss(recent, recent.mask, None, retrieved)


@torch.no_grad()
def test_returns_can_enter_by_bins() -> None:
    model = small_model(VECTOR, True, return_bins=5, tokens="interleaved")
    recent, retrieved = pair()
    scale = VECTOR.return_scale

    def decided(share: float) -> Tensor:
        returns = torch.full_like(recent.returns_to_go, share * scale)
        return model(replace(recent, returns_to_go=returns), retrieved)

    assert torch.equal(decided(0.5), decided(0.55))  # the same bin of width a quarter
    assert torch.equal(decided(1.0), decided(7.0))
    assert not torch.allclose(decided(0.5), decided(0.75))
    assert model.embed.return_to_go.weight.shape == (5, model.config.width)
    assert model.embed_retrieved.return_to_go.weight.shape == (5, model.config.width)


@pytest.mark.parametrize("bins", [None, 5])
def test_a_return_loss_is_added_by_its_weight(bins: int | None) -> None:
    recent, retrieved = pair()
    options = {"tokens": "interleaved", "return_bins": bins}
    plain, weighted = (
        small_model(VECTOR, True, **options, return_loss=weight) for weight in (0.0, 2.0)
    )
    assert plain.return_head is None
    shared = weighted.load_state_dict(plain.state_dict(), strict=False)
    assert {name.split(".")[0] for name in shared.missing_keys} == {"return_head"}
    states = weighted.embed.at_states(weighted.hidden(recent, retrieved))
    said = weighted.return_head(states)[recent.mask]
    aimed = (recent.returns_to_go / VECTOR.return_scale)[recent.mask]
    by_hand = (said[:, 0] - aimed).square().mean()
    if bins:
        by_hand = cross_entropy(said, (aimed.clamp(0, 1) * (bins - 1)).round().long())
    total = model_loss(weighted, recent, retrieved)
    torch.testing.assert_close(total, model_loss(plain, recent, retrieved) + 2 * by_hand)
    total.backward()
    assert weighted.return_head.weight.grad.abs().max() > 0


def test_a_return_cannot_be_predicted_from_a_token_that_holds_it() -> None:
    with pytest.raises(ValueError, match="interleaved"):
        ModelConfig(return_loss=1.0)
    ModelConfig(return_loss=1.0, return_to_go=False)


# model.chunk_embedding, model.chunk_encoder


def test_a_shared_embedding_has_no_parameters_of_its_own() -> None:
    models = {
        kind: small_model(VECTOR, True, chunk_embedding=kind)
        for kind in ("separate", "shared", "detached")
    }
    count = {kind: sum(p.numel() for p in model.parameters()) for kind, model in models.items()}
    own = sum(p.numel() for p in models["separate"].embed.parameters())
    assert count["shared"] == count["detached"] == count["separate"] - own
    recent, retrieved = pair()
    twin = models["separate"]  # the same numbers in both embeddings act as one that is shared
    twin.load_state_dict(models["shared"].state_dict(), strict=False)
    twin.embed_retrieved.load_state_dict(twin.embed.state_dict())
    for kind in ("shared", "detached"):
        assert torch.equal(models[kind](recent, retrieved), twin(recent, retrieved))


def test_a_detached_embedding_does_not_learn_from_chunks() -> None:
    recent, retrieved = pair()
    gradient = {}
    for kind in ("shared", "detached", "separate"):
        model = small_model(VECTOR, True, chunk_embedding=kind)
        tokens = model.context(recent, retrieved).tokens
        weights = model.embed.state.linear.weight
        gradient[kind] = torch.autograd.grad(tokens.square().sum(), weights, allow_unused=True)[0]
    assert gradient["shared"].abs().max() > 0
    assert gradient["detached"] is None
    assert gradient["separate"] is None


@torch.no_grad()
def test_an_encoder_reads_a_chunk_both_ways() -> None:
    recent, retrieved = pair()
    assert small_model(VECTOR, True).chunk_encoder is None
    model = small_model(VECTOR, True, chunk_encoder=2)
    assert len(model.chunk_encoder.blocks) == 2
    part = replace(retrieved, mask=torch.arange(5) < torch.tensor([5, 3, 0])[:, None])
    tokens = model.context(recent, part).tokens[:, 1:]  # [B, 5, width], behind the null chunk
    assert tokens.isfinite().all()
    last = replace(part, rewards=part.rewards + (torch.arange(5) == 4))
    moved = (model.context(recent, last).tokens[:, 1:] - tokens).abs().amax(-1) > 1e-6
    assert moved[0].all()  # the first step knows of the last
    assert not moved[1, :3].any()  # but nobody of padding
    assert torch.equal(model(recent, part)[2], model(recent, last)[2])


@pytest.mark.parametrize(
    "model",
    [
        {"chunk_embedding": "shared", "chunk_encoder": 1},
        {"chunk_embedding": "detached", "return_bins": 7},
        {"return_loss": 1.0, "return_bins": 7, "tokens": "interleaved"},
    ],
    ids=["shared, encoded", "detached, bins", "return loss"],
)
def test_a_method_learns_and_acts_with_other_models(
    dataset: Dataset, tmp_path: Path, model: dict[str, Any]
) -> None:
    options = {**OPTIONS["ra-dt"], "model": {**TINY, **model}}
    check_learning("ra-dt", TOY_GRID, dataset, options)
    check_acting("ra-dt", TOY_GRID, tmp_path, options)
