"""A learned retriever: what learns from what, and that it finds what lowers the loss."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from radt.checkpoint import load_checkpoint, read_tensors, save_checkpoint
from radt.data import Dataset
from radt.decode import decode
from radt.distributed import take_rows
from radt.learn import LearnConfig, learn
from radt.memory.embed import Projection
from radt.methods.learned_memory import LearnedMemoryOptions
from radt.methods.ra_dt import RADT
from radt.methods.retriever_learning import Compared, RetrieverLearning, cosines, retriever_loss
from radt.runs.evaluate import load_trained
from radt.runs.provenance import measured
from radt.runs.run import Run
from radt.track import Tracker
from tests.contracts.method import OPTIONS, TINY, build_method, card_of, roll_out, toy_dataset
from tests.runs.small import collect_here, small_config, train_here, use_toys
from tests.test_learn import KilledError, Lines, assert_same_state, kill_at
from tests.toys import TOY_GRID, TOY_REACH

CONFIG = LearnConfig(
    updates=8,
    batch_size=8,
    learning_rate=1e-2,
    warmup=2,
    evaluate_every=0,
    log_every=1,
    save_every=3,
)
EVERY = 2
LEARNING = {"windows": 4, "candidates": 3, "re_embed_every": EVERY}
SEARCHED: dict[str, Any] = OPTIONS["ra-dt"]["training"]
SAMPLED: dict[str, Any] = OPTIONS["ra-dt-tuned"]["training"]
CONTEXTS = pytest.mark.parametrize("training", [SEARCHED, SAMPLED], ids=["searched", "sampled"])


def options(retriever: str, training: dict[str, Any], dropout: float = 0.0) -> dict[str, Any]:
    model = {**TINY, "dropout": dropout}
    both = {"training": training, "retriever": retriever, "retriever_learning": LEARNING}
    return {**OPTIONS["ra-dt"], "model": model, **both}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return toy_dataset(TOY_GRID, tmp_path_factory.mktemp("grid"), episodes=6)


@pytest.fixture
def build(dataset: Dataset) -> Callable[..., Any]:
    """Build and prepare a method with a retriever of either kind."""

    def built(retriever: str = "learned", training: Any = SEARCHED, dropout: float = 0.0) -> Any:
        method = build_method("ra-dt", TOY_GRID.spaces, options(retriever, training, dropout))
        method.prepare(dataset)
        return method

    return built


def trained(method: Any, file: Path, config: LearnConfig = CONFIG) -> dict[int, dict[str, float]]:
    """Train, and return what was said of the retriever, by update."""
    sink = Lines()
    learn(method, config, 0, file, Tracker((sink,)))
    return {step: said for _, step, said in sink.lines if "retriever_choices_changed" in said}


def test_only_the_projection_learns_from_what_was_compared(build: Any) -> None:
    method = build()
    examples = method.draw(8, np.random.default_rng(0))
    method.loss(replace(examples, compared=None)).backward()
    policy, projection = method.networks["policy"], method.networks["retriever"]
    assert projection.weight.grad is None
    before = [copy.deepcopy(weight.grad) for weight in policy.parameters()]
    policy.zero_grad()
    method.loss(examples).backward()
    assert projection.weight.grad.abs().sum() > 0
    for weight, gradient in zip(policy.parameters(), before, strict=True):
        assert (weight.grad is None) == (gradient is None)
        assert gradient is None or torch.equal(weight.grad, gradient)
    assert all(weight.grad is None for weight in method.networks["embedder"].parameters())


def test_a_policy_that_samples_its_contexts_does_not_notice(build: Any, tmp_path: Path) -> None:
    policies = []
    for retriever in ("frozen", "learned"):
        method = build(retriever, SAMPLED, dropout=0.2)
        trained(method, tmp_path / retriever)
        policies.append(method.networks["policy"].state_dict())
    frozen, beside = policies
    assert all(torch.equal(frozen[name], beside[name]) for name in frozen)
    weight = method.networks["retriever"].weight
    assert not torch.equal(weight, torch.eye(len(weight)))


def test_before_it_learned_it_draws_what_a_frozen_one_does(build: Any) -> None:
    one, other = (
        build(retriever).draw(16, np.random.default_rng(3)) for retriever in ("frozen", "learned")
    )
    for name in ("states", "actions", "rewards", "mask"):
        assert torch.equal(getattr(one.retrieved, name), getattr(other.retrieved, name))
    assert not hasattr(one, "compared")
    assert len(other.compared.queries) == LEARNING["windows"]


@pytest.mark.parametrize("suite", [TOY_GRID, TOY_REACH], ids=lambda suite: suite.name)
def test_losses_of_rows_are_those_of_the_policy(suite: Any, tmp_path: Path) -> None:
    method: Any = build_method("ra-dt", suite.spaces)
    method.prepare(toy_dataset(suite, tmp_path))
    examples, policy = method.draw(6, np.random.default_rng(0)), method.networks["policy"].train()
    parts = (examples.recent, examples.targets, examples.valid, examples.retrieved)
    losses = policy.row_losses(*parts)
    assert policy.training
    policy.eval()
    for row in range(6):
        one = take_rows(examples, slice(row, row + 1))
        torch.testing.assert_close(losses[row], method.loss(one).detach())


def test_candidates_are_chunks_of_other_episodes_of_the_task(build: Any) -> None:
    method, drawn = build(), []
    memory, real = method.memory, method.memory.store.chunks
    good = set(method.beside._sampler.episodes.tolist())

    def seen(ids: Tensor) -> Any:
        drawn.append(ids)
        return real(ids)

    queries = []
    asking = memory.frozen_queries

    def asked(*where: Any) -> Any:
        queries.append(asking(*where))
        return queries[-1]

    memory.store.chunks, memory.frozen_queries = seen, asked
    for seed in range(20):
        method.beside.draw(np.random.default_rng(seed))
    entries = memory.store.entries
    for ids, query in zip(drawn, queries, strict=True):
        ids = ids.view(len(query), -1)
        absent = ids < 0
        assert (absent | (entries.task[ids] == query.task[:, None])).all()
        assert (absent | (entries.episode[ids] != query.episode[:, None])).all()
        assert set(query.episode.tolist()) <= good
    assert len(good) < len(method.sampler.episodes)
    assert len({int(step) for query in queries for step in query.position}) > 2  # not only ends


def compared_by_hand(seed: int, rows: int = 64, candidates: int = 8, width: int = 6) -> Compared:
    """Let one candidate lower the loss: the one that agrees in the last, faint number."""
    rng = np.random.default_rng(seed)
    sign = rng.choice([-1.0, 1.0], rows)
    signs = np.repeat(-sign[:, None], candidates, 1)
    best = rng.integers(candidates, size=rows)
    signs[np.arange(rows), best] *= -1
    queries, keys = rng.normal(size=(rows, width)), rng.normal(size=(rows, candidates, width))
    queries[:, -1], keys[..., -1] = 0.1 * sign, 0.1 * signs
    losses = np.ones((rows, candidates))
    losses[np.arange(rows), best] = 0.0
    return Compared(*(torch.from_numpy(part).float() for part in (queries, keys, losses)))


def share_of_best(projection: Projection, compared: Compared) -> float:
    found = cosines(projection, compared).argmax(1) == compared.losses.argmin(1)
    return float(found.float().mean())


def test_it_learns_to_choose_what_lowers_the_loss() -> None:
    projection, other = Projection(6), compared_by_hand(1000)
    adam = torch.optim.Adam(projection.parameters(), lr=0.03)
    assert share_of_best(projection, other) < 0.3
    for seed in range(300):
        adam.zero_grad()
        retriever_loss(projection, compared_by_hand(seed), RetrieverLearning()).backward()
        adam.step()
    assert share_of_best(projection, other) > 0.95


def test_what_is_no_candidate_counts_for_nothing() -> None:
    projection, some = Projection(6), compared_by_hand(0, rows=4)
    fewer = some._replace(keys=some.keys[:, :5], losses=some.losses[:, :5])
    losses, keys = some.losses.clone(), some.keys.clone()
    losses[:, 5:], keys[:, 5:] = torch.inf, 7.0
    nothing = torch.full_like(losses, torch.inf)

    def loss(compared: Compared) -> Tensor:
        return retriever_loss(projection, compared, RetrieverLearning())

    torch.testing.assert_close(loss(some._replace(losses=losses, keys=keys)), loss(fewer))
    loss(some._replace(losses=nothing)).backward()
    assert projection.weight.grad is not None
    assert not projection.weight.grad.any()


@CONTEXTS
def test_a_killed_run_ends_as_an_uninterrupted_one(
    training: dict[str, Any], build: Any, tmp_path: Path
) -> None:
    whole = build(training=training, dropout=0.2)
    said = trained(whole, tmp_path / "whole")
    heard: dict[int, dict[str, float]] = {}
    for draws in (2, 5, 1, 100):  # before the first save, behind a new index, at once, never
        method, sink = build(training=training, dropout=0.2), Lines()
        kill_at(method, draws)
        try:
            learn(method, CONFIG, 0, tmp_path / "killed", Tracker((sink,)))
        except KilledError:
            torch.manual_seed(draws)
        heard |= {step: own for _, step, own in sink.lines if "retriever_choices_changed" in own}
    assert_same_state(tmp_path / "whole", tmp_path / "killed")
    assert "beside.projection.weight" in read_tensors(tmp_path / "whole")[0]
    assert torch.equal(whole.memory.keys, method.memory.keys)
    assert said.keys() == heard.keys() == {0, 2, 4, 6, 8}
    for step, facts in said.items():  # gains since the last report a killed process takes along
        plain = {name for name in facts if "gain" not in name}
        assert {name: facts[name] for name in plain} == {n: heard[step][n] for n in plain}


@CONTEXTS
def test_keys_are_embedded_anew_when_it_is_due(
    training: dict[str, Any], build: Any, tmp_path: Path
) -> None:
    method, weights = build(training=training), []
    real = method.draw

    def draw(size: int, rng: np.random.Generator) -> Any:
        now = method.networks["retriever"].weight.detach().clone()
        weights.append((now, method.memory.projected_by))
        return real(size, rng)

    method.draw = draw
    said = trained(method, tmp_path / "state", replace(CONFIG, updates=5))
    for update, (_, indexed) in enumerate(weights):
        assert torch.equal(indexed, weights[update // EVERY * EVERY][0])
    memory = method.memory
    assert torch.equal(memory.projected_by, method.networks["retriever"].weight)  # at the end
    torch.testing.assert_close(memory.keys, memory.frozen_keys @ memory.projected_by.T)
    nearest = memory.index.search(memory.keys, 1)[0]
    torch.testing.assert_close(nearest, torch.ones_like(nearest))
    assert [*said] == [0, 2, 4, 5]
    assert said[0]["retriever_choices_changed"] == 0
    assert all("retriever_return_correlation" in facts for facts in said.values())
    gains = [facts["retriever_gain"] for facts in said.values() if "retriever_gain" in facts]
    most = [facts["retriever_gain_most"] for facts in said.values() if "retriever_gain" in facts]
    assert gains
    assert all(gain <= best + 1e-6 for gain, best in zip(gains, most, strict=True))


def test_staleness_is_the_share_of_choices_that_change(build: Any) -> None:
    method = build()
    method.beside.between_updates(0, 8)
    with torch.no_grad():
        method.networks["retriever"].weight.copy_(torch.diag(torch.arange(16.0)))
    facts = method.beside.between_updates(1, 8)  # not due
    assert facts == {}
    stale = method.beside._choices()
    facts = method.beside.between_updates(2, 8)
    fresh = method.beside._choices()
    assert facts["retriever_choices_changed"] == float((stale != fresh).float().mean())


def test_a_checkpoint_carries_it(build: Any, tmp_path: Path) -> None:
    method, file = build(), tmp_path / "model.safetensors"
    trained(method, tmp_path / "state")
    said = options("learned", SEARCHED)
    save_checkpoint(file, method, card_of(method, "ra-dt", said))
    loaded, card = load_checkpoint(file)
    assert card.options["retriever"] == "learned"
    one, other = method.networks["retriever"].weight, loaded.networks["retriever"].weight
    assert torch.equal(one, other)
    identities = [one.actor(1).memory.identity() for one in (method, loaded)]
    assert identities[0] == identities[1] != build("frozen").actor(1).memory.identity()
    before, after = (roll_out(one, TOY_GRID, (4, 5))[1] for one in (method, loaded))
    np.testing.assert_array_equal(before, after)


def test_a_memory_survives_its_agent(build: Any, tmp_path: Path) -> None:
    method = build()
    trained(method, tmp_path / "state")
    _, _, agent = roll_out(method, TOY_GRID, (4, 5))
    agent.save(tmp_path / "agent")
    again = roll_out(method, TOY_GRID, (4, 5), trials=1)[2]
    again.load(tmp_path / "agent")
    assert torch.equal(again.memory.keys, agent.memory.keys)
    with pytest.raises(ValueError, match="another embedder"):
        roll_out(build(), TOY_GRID, (4, 5), trials=1)[2].load(tmp_path / "agent")


def test_what_cannot_be_is_refused() -> None:
    for name, value in (("windows", 0), ("candidates", 1), ("tau", 0.0)):
        with pytest.raises(ValueError, match=name):
            RetrieverLearning(**{name: value})
    said = {"memory": {"retrieve_every": 0}, "training": {"start_chunks": True}, "subgoals": True}
    with pytest.raises(ValueError, match="subgoals"):
        decode(LearnedMemoryOptions, {**said, "retriever": "learned"})


def test_a_frozen_retriever_is_the_default() -> None:
    method = build_method("ra-dt", TOY_GRID.spaces)
    assert isinstance(method, RADT)
    assert "retriever" not in method.networks


def test_a_record_tells_what_was_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_toys(monkeypatch, tmp_path)
    sets = ("options.retriever=learned", "options.retriever_learning.re_embed_every=4")
    for row, updates in (("ra-dt", None), ("ra-dt-tuned", [0, 4, 6])):
        config = small_config(row, "embedder.updates=4", *(sets if updates else ()))
        out = tmp_path / row
        train_here(tmp_path, config, collect_here(tmp_path, config), out)
        run = Run(config, out, threads=1)
        record = measured(run, load_trained(run))
        if updates is None:
            assert "retriever" not in record
            continue
        assert [look["update"] for look in record["retriever"]] == updates
        assert all("retriever_return_correlation" in look for look in record["retriever"])
