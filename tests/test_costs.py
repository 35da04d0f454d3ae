"""What methods cost, counted on toys and compared with sums done by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from radt.costs import (
    CPU_KERNELS,
    DRAWN_BATCHES,
    count_parameters,
    count_targets,
    flops_per_decision,
    measure_cost,
    random_answers,
    random_states,
    targets_per_update,
    tokens_per_decision,
    warm_actor,
)
from radt.envs.suite import TaskSuite
from radt.methods.dt import DTActor, WindowExamples
from radt.model.policy import DecisionTransformer, ModelConfig
from radt.trajectory import Trajectory
from tests.contracts import embedder as contract
from tests.contracts.method import CONTEXT, OPTIONS, TINY, build_method, toy_dataset
from tests.memory.tiny_language import tiny_embedder
from tests.toys import HORIZON, TOY_GRID, TOY_IMAGE, TOY_REACH

LEARNING = ["dt", "ad", "dt-2ep", "dpt", "ra-dt", "ra-dt+"]


def test_fused_attention_counts_as_much_as_its_two_products() -> None:
    torch.manual_seed(0)
    model = DecisionTransformer(TOY_GRID.spaces, ModelConfig(**TINY), seed=0)  # type: ignore[arg-type]
    _, trials = warm_actor(build_method("dt", TOY_GRID.spaces), 2)
    recent = trials.recent(np.arange(2), CONTEXT)
    counts = []
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.MATH):
        counter = FlopCounterMode(display=False, custom_mapping=CPU_KERNELS)
        with sdpa_kernel(backend), counter, torch.no_grad():
            model(recent)
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] > 0


def test_a_decision_of_dt_multiplies_what_the_layers_say() -> None:
    method = build_method("dt", TOY_GRID.spaces)
    width, actions = 16, TOY_GRID.spaces.action.size
    lengths = np.minimum(np.arange(HORIZON) + 1, CONTEXT)
    per_token = 2 * width * width + 2 * width + 2 * width  # keys and values; R, r; both products
    once = 10 * width * width + actions * width  # query, projection, feed-forward; the head
    expected = 2 * (lengths * per_token + once).mean()  # the last layer is for one token only
    assert flops_per_decision(method) == pytest.approx(expected)


@pytest.mark.parametrize("name", LEARNING)
def test_every_method_is_measured(name: str, tmp_path: Path) -> None:
    method = build_method(name, TOY_GRID.spaces)
    cost = measure_cost(method, toy_dataset(TOY_GRID, tmp_path), slots=2, batch_size=6)
    assert cost.parameters == count_parameters(method) > 0
    assert (cost.retrieved_steps > 0) == name.startswith("ra-dt")
    assert cost.input_steps > 0
    assert cost.tokens_per_decision > 0
    assert cost.flops_per_decision > 0
    assert cost.targets_per_update is not None
    assert 0 < cost.targets_per_update <= 6 * max(cost.input_steps, HORIZON)
    assert not hasattr(method, "sampler")  # the method itself was not prepared
    assert measure_cost(method, slots=1).targets_per_update is None


def test_flops_do_not_depend_on_how_many_decide_together() -> None:
    method = build_method("ra-dt", TOY_GRID.spaces)
    assert flops_per_decision(method, slots=3) == pytest.approx(flops_per_decision(method), rel=0.1)


def test_retrieving_seldom_costs_less() -> None:
    options = {"model": TINY, "memory": {"context_len": CONTEXT, "retrieve_every": 6}}
    seldom = build_method("ra-dt", TOY_GRID.spaces, options)
    assert flops_per_decision(seldom) < flops_per_decision(build_method("ra-dt", TOY_GRID.spaces))


def test_remembering_the_trial_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    method = build_method("dt", TOY_GRID.spaces)
    forgetting = flops_per_decision(method)

    def multiply(actor: DTActor, finished: Sequence[Trajectory]) -> None:
        assert all(trial.total_return > 0 for trial in finished)
        torch.ones(2, 3) @ torch.ones(3, 5)

    monkeypatch.setattr(DTActor, "remember", multiply)
    assert flops_per_decision(method) - forgetting == pytest.approx(2 * 2 * 3 * 5 / HORIZON)


def test_a_language_model_is_counted_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADT_HOME", str(tmp_path))
    embedder = tiny_embedder(TOY_GRID.spaces, cache_most=1000)
    method = build_method("ra-dt-lm", TOY_GRID.spaces)
    method.embedder = embedder  # type: ignore[attr-defined]
    cost = measure_cost(method)
    assert cost.frozen_parameters == embedder.model.parameters > 1000
    assert cost.parameters == count_parameters(method)
    assert embedder.cache.counts.computed == 0  # what is made up does not get into the cache
    embedder(contract.prefixes(TOY_GRID.spaces))  # nor does the cache change the count
    assert flops_per_decision(method) == cost.flops_per_decision
    dt = build_method("dt", TOY_GRID.spaces)
    assert measure_cost(dt).frozen_parameters == 0


def test_the_token_that_every_set_holds_is_counted() -> None:
    method = build_method("dpt", TOY_GRID.spaces)
    assert tokens_per_decision(method) == method.context.input_steps + 1


def test_targets_are_marked_steps_or_else_all_real_ones(tmp_path: Path) -> None:
    dataset = toy_dataset(TOY_GRID, tmp_path)
    dt, ra_dt = (build_method(name, TOY_GRID.spaces) for name in ("dt", "ra-dt"))
    for method in (dt, ra_dt):
        method.prepare(dataset)
    examples = dt.draw(8, np.random.default_rng(0))
    assert isinstance(examples, WindowExamples)
    assert count_targets(examples) == int(examples.recent.mask.sum())
    marked = ra_dt.draw(8, np.random.default_rng(0))
    assert count_targets(marked) == int(marked.targets.sum())
    mean_length = np.minimum(np.arange(HORIZON) + 1, CONTEXT).mean()  # window ends are uniform
    assert targets_per_update(dt, dataset, 200) == pytest.approx(200 * mean_length, rel=0.05)


def test_where_returns_decide_targets_are_counted_on_all_tasks(tmp_path: Path) -> None:
    dataset = toy_dataset(TOY_GRID, tmp_path)
    options = {**OPTIONS["ra-dt"], "min_return": 0.5}

    def drawn(tasks: Sequence[int]) -> float:
        method = build_method("ra-dt", TOY_GRID.spaces, options)
        method.prepare(dataset.select(tasks))
        rngs = map(np.random.default_rng, range(DRAWN_BATCHES))
        return float(np.mean([count_targets(method.draw(8, rng)) for rng in rngs]))

    counted = targets_per_update(build_method("ra-dt", TOY_GRID.spaces, options), dataset, 8)
    assert counted == drawn(dataset.tasks) != drawn(dataset.tasks[:1])


@pytest.mark.parametrize("suite", [TOY_GRID, TOY_REACH, TOY_IMAGE], ids=lambda suite: suite.name)
def test_made_up_states_and_actions_fit_the_spaces(suite: TaskSuite) -> None:
    rng = np.random.default_rng(0)
    env = suite.make(0)
    states = random_states(suite.spaces, 5, rng)
    actions, rewards = random_answers(suite.spaces, 5, rng)
    assert states.shape == (5, *suite.spaces.state.shape)
    assert states.dtype == suite.spaces.state.dtype
    assert actions.shape == (5, *suite.spaces.action.shape)
    assert not rewards.any()
    if suite is TOY_GRID:
        assert all(env.observation_space.contains(state) for state in states)
