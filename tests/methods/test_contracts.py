from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from radt.action_rules import ActionRule
from radt.data import Dataset
from radt.envs.suite import SUITES as REGISTERED
from radt.envs.suite import Oracle, TaskSuite
from radt.methods import METHODS
from radt.variants import variant
from tests.contracts.method import (
    LEARNING,
    OPTIONS,
    ROWS,
    build_method,
    check_acting,
    check_learning,
    roll_out,
    toy_dataset,
)
from tests.toys import TOY_GRID, TOY_REACH, TOYS

REFERENCES = [name for name in ROWS if not METHODS[variant(name).method].learns]
SUITES = {suite.name: suite for suite in TOYS}
# Methods meet the kinds of states through encoders alone: each way of drawing meets an image once.
LOOKING = {"toy-image": ("dt", "ad", "dpt", "ra-dt"), "toy-encoded": ("dt", "ra-dt")}
PAIRS = [
    pytest.param(name, suite, id=f"{name}-{suite.name}")
    for name in LEARNING
    for suite in TOYS
    if name in LOOKING.get(suite.name, LEARNING)
]


@pytest.fixture(autouse=True)
def known_toys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, suite in SUITES.items():
        monkeypatch.setitem(REGISTERED._items, name, suite)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    return {suite.name: toy_dataset(suite, tmp_path_factory.mktemp(suite.name)) for suite in TOYS}


@pytest.mark.parametrize("name", ROWS)
def test_a_method_answers_to_its_name(name: str) -> None:
    assert build_method(name, TOY_GRID.spaces).name == name


@pytest.mark.parametrize(("name", "suite"), PAIRS)
def test_learning(name: str, suite: TaskSuite, datasets: dict[str, Dataset]) -> None:
    if name == "dpt-oracle" and not isinstance(suite, Oracle):
        with pytest.raises(ValueError, match="a method optimal_actions"):
            check_learning(name, suite, datasets[suite.name])
    else:
        check_learning(name, suite, datasets[suite.name])


@pytest.mark.parametrize("name", LEARNING)
def test_every_method_can_leave_out_episodes_that_earned_little(
    name: str, datasets: dict[str, Dataset]
) -> None:
    method = build_method(name, TOY_GRID.spaces, {**OPTIONS[name], "min_return": 0.5})
    method.prepare(datasets[TOY_GRID.name])
    sampler = method.sampler  # type: ignore[attr-defined]  # all draw from one
    earned = sampler.dataset.episodes.total_return
    assert (earned[sampler.episodes] >= 0.5 * earned.max()).all()


@pytest.mark.parametrize("name", LEARNING)
def test_every_method_can_be_shown_beginnings(name: str, datasets: dict[str, Dataset]) -> None:
    method = build_method(name, TOY_GRID.spaces, {**OPTIONS[name], "start_windows": 1.0})
    method.prepare(datasets[TOY_GRID.name])
    assert (method.draw(8, np.random.default_rng(0)).recent.timesteps[:, 0] == 0).all()


@pytest.mark.parametrize(("name", "suite"), PAIRS)
def test_acting(name: str, suite: TaskSuite, tmp_path: Path) -> None:
    check_acting(name, suite, tmp_path)


@pytest.mark.parametrize("head", ["gaussian", "bins"])
@pytest.mark.parametrize("name", ["dt", "ad", "dpt", "ra-dt"])
def test_heads_that_are_sampled(
    name: str, head: str, datasets: dict[str, Dataset], tmp_path: Path
) -> None:
    options = {**OPTIONS[name], "model": {**OPTIONS[name]["model"], "action_head": head}}
    check_learning(name, TOY_REACH, datasets["toy-reach"], options)
    check_acting(name, TOY_REACH, tmp_path, options)
    method = build_method(name, TOY_REACH.spaces, options)
    (_, one, _), (_, other, _) = (
        roll_out(method, TOY_REACH, TOY_REACH.eval_tasks, rule=ActionRule(temperature))
        for temperature in (1.0, 0.0)
    )
    assert (abs(one) <= 1).all()
    assert (one != other).any()


@pytest.mark.parametrize("name", REFERENCES)
def test_references_act_on_grids(name: str, tmp_path: Path) -> None:
    check_acting(name, TOY_GRID, tmp_path)


@pytest.mark.parametrize("name", ["nearest", "random"])
@pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)
def test_some_references_act_anywhere(name: str, suite: TaskSuite, tmp_path: Path) -> None:
    check_acting(name, suite, tmp_path)


def test_replay_acts_on_continuous_actions(tmp_path: Path) -> None:
    check_acting("replay", TOY_REACH, tmp_path)


@pytest.mark.parametrize("name", ["retrace", "sweep"])
def test_others_need_places(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} recognises places and needs discrete"):
        build_method(name, TOY_REACH.spaces)


@pytest.mark.parametrize("name", REFERENCES)
def test_references_refuse_to_learn(name: str) -> None:
    method = build_method(name, TOY_GRID.spaces)
    with pytest.raises(TypeError, match="learns nothing; evaluate it directly"):
        method.draw(4, np.random.default_rng(0))
    with pytest.raises(TypeError, match="learns nothing"):
        method.loss(None)


@pytest.mark.parametrize("name", [name for name in REFERENCES if name != "random"])
def test_references_get_better(name: str) -> None:
    result, _, _ = roll_out(build_method(name, TOY_GRID.spaces), TOY_GRID, TOY_GRID.train_tasks, 12)
    assert result.returns[:, -1].mean() > result.returns[:, 0].mean()


@pytest.mark.parametrize("name", [name for name in LEARNING if name != "dpt-oracle"])
def test_examples_mark_the_action_dimensions_that_a_task_has(
    name: str, datasets: dict[str, Dataset]
) -> None:
    method = build_method(name, TOY_REACH.spaces)
    method.prepare(datasets["toy-reach"])
    windows = method.sampler.draw(16, np.random.default_rng(2))  # type: ignore[attr-defined]
    examples = method.draw(16, np.random.default_rng(2))
    tasks = datasets["toy-reach"].episodes.task[windows.episode]
    assert examples.valid.sum(1).tolist() == [1 + task % 3 for task in tasks]


def test_ra_dt_says_that_it_needs_an_embedder() -> None:
    entry = METHODS["ra-dt"]
    with pytest.raises(ValueError, match="needs an embedder"):
        entry.build(TOY_GRID.spaces, entry.options(), 0, None)


def test_tasks_without_any_reward_do_not_stop_training(tmp_path: Path) -> None:
    dataset = toy_dataset(TOY_GRID, tmp_path, episodes=2)
    options = {
        "model": {"layers": 1, "width": 16, "heads": 2},
        "memory": {"context_len": 4, "store_above": 1e6, "retrieve_every": 0},
    }
    method = build_method("ra-dt+", TOY_GRID.spaces, options)
    method.prepare(dataset)
    examples = method.draw(8, np.random.default_rng(0))
    assert not examples.retrieved.mask.any()
    assert torch.isfinite(method.loss(examples))
