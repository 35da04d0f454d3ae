"""RA-DT with utility=value: it meets the contracts of methods, resumes, is saved, and shares."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from radt.agent import Agent, Target
from radt.checkpoint import load_checkpoint, save_checkpoint
from radt.data import Dataset
from radt.envs.suite import TaskSuite
from radt.experiments.weights import remembering
from radt.icl import in_context_learning
from radt.learn import LearnConfig, learn
from radt.loading import Loaded
from radt.memory.memory import Memory
from radt.methods.controls import apply_control
from radt.track import Tracker
from radt.trajectory import Batch
from tests.contracts.method import (
    OPTIONS,
    build_method,
    card_of,
    check_acting,
    check_learning,
    toy_dataset,
)
from tests.test_learn import CONFIG, KilledError, assert_same_state, kill_at
from tests.toys import TOY_GRID, TOYS

VALUE: dict[str, Any] = {
    **OPTIONS["ra-dt"],
    "memory": {**OPTIONS["ra-dt"]["memory"], "utility": "value", "alpha": 10.0},
    "training": {"contexts": "earlier-worse", "dedup": None, "cut_off": None},
}
TWO = {**VALUE, "memory": {**VALUE["memory"], "top_k": 2, "past_len": 3}}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return toy_dataset(TOY_GRID, tmp_path_factory.mktemp("grid"), episodes=6)


def built(options: dict[str, Any] = VALUE) -> Any:
    return build_method("ra-dt", TOY_GRID.spaces, options)


def prepared(dataset: Dataset, options: dict[str, Any] = VALUE) -> Any:
    method = built(options)
    method.prepare(dataset)
    return method


@pytest.mark.parametrize("suite", TOYS, ids=lambda suite: suite.name)
def test_it_meets_the_contract(suite: TaskSuite, tmp_path: Path) -> None:
    check_learning("ra-dt", suite, toy_dataset(suite, tmp_path / "data"), VALUE)
    check_acting("ra-dt", suite, tmp_path, VALUE)


def test_it_learns_from_several_chunks_each_by_itself(dataset: Dataset) -> None:
    method = prepared(dataset, TWO)
    examples = method.draw(8, np.random.default_rng(0))
    losses = []
    for first in (0, 7):  # the first and the second chunk of each window
        one = prepared(dataset, {**TWO, "memory": {**TWO["memory"], "top_k": 1}})
        one.value.load_state_dict(method.value.state_dict())
        columns = slice(first, first + 7)
        parts = {name: part[:, columns] for name, part in vars(examples.retrieved).items()}
        read = replace(examples, retrieved=Batch(**parts))
        losses.append(one._value_loss(one.value, read))
    torch.testing.assert_close(method._value_loss(method.value, examples), sum(losses) / 2)


def test_a_killed_run_ends_as_an_uninterrupted_one(dataset: Dataset, tmp_path: Path) -> None:
    learn(prepared(dataset), CONFIG, 0, tmp_path / "whole", Tracker(()))
    for draws in (5, 2, 100):
        method = prepared(dataset)
        kill_at(method, draws)
        try:
            learn(method, CONFIG, 0, tmp_path / "killed", Tracker(()))
        except KilledError:
            torch.manual_seed(draws)
    assert_same_state(tmp_path / "whole", tmp_path / "killed")


def test_the_policy_begins_as_it_does_without() -> None:
    plain = build_method("ra-dt", TOY_GRID.spaces).networks["policy"].state_dict()
    ours = built().networks["policy"].state_dict()
    assert all(torch.equal(ours[name], tensor) for name, tensor in plain.items())
    assert all(name.startswith("value.") for name in ours.keys() - plain.keys())


def test_a_checkpoint_carries_what_judges(dataset: Dataset, tmp_path: Path) -> None:
    method, file = prepared(dataset), tmp_path / "model.safetensors"
    learn(method, LearnConfig(updates=3, batch_size=4), 0, tmp_path / "state", Tracker(()))
    save_checkpoint(file, method, card_of(method, "ra-dt", VALUE))
    loaded: Any = load_checkpoint(file)[0]
    for name, tensor in method.value.state_dict().items():
        assert torch.equal(loaded.actor(1).memory.value.state_dict()[name], tensor)


def rolled_out(method: Any, memory: Memory | None = None, control: str | None = None) -> Any:
    """Act in two tasks, and return what was earned and the utilities of the last search."""
    tasks = TOY_GRID.eval_tasks
    env = TOY_GRID.make_vec(tasks)
    agent = Agent(
        *(method, Target(*TOY_GRID.target_return), None, 0, len(tasks)),
        autoreset_mode=env.metadata["autoreset_mode"],
        tasks=tasks,
        memory=memory,
    )
    if control is not None:
        apply_control(control, agent.actor, tasks, seed=0)
    returns = in_context_learning(agent, env, 3, seed=0).returns
    assert agent.retrieval is not None
    return returns, agent.retrieval.utility


@pytest.mark.parametrize("place", ["ram:", "folder:{}", "copy:folder:{}"])
def test_a_shared_memory_judges_as_an_own_one(place: str, tmp_path: Path) -> None:
    method = built()
    loaded = Loaded(method, card_of(method, "ra-dt", VALUE), tmp_path)
    with loaded.memory(place.format(tmp_path / "memory")) as memory:
        returns, utility = rolled_out(method, memory)
    expected, own = rolled_out(method)
    np.testing.assert_array_equal(returns, expected)
    torch.testing.assert_close(utility, own)
    assert (utility.std(1) > 0).all()


def test_what_another_task_has_stored_is_judged_alike() -> None:
    _, utility = rolled_out(built(), control="other-task")
    assert (utility.std(1) > 0).all()


def test_weights_without_a_network_are_refused_this_utility() -> None:
    plain = build_method("ra-dt", TOY_GRID.spaces)
    with pytest.raises(ValueError, match="no network"):
        remembering(plain, {"utility": "value"}).actor(1)
    assert remembering(built(), {"utility": "return"}).actor(1).memory.config.utility == "return"


def test_parts_of_chunks_and_a_network_that_still_learns_are_refused(dataset: Dataset) -> None:
    memory = {**VALUE["memory"], "retrieve_every": 0}
    training = {**VALUE["training"], "start_chunks": True}
    with pytest.raises(ValueError, match="whole chunks"):
        built({**VALUE, "memory": memory, "training": training, "subgoals": True})
    with pytest.raises(ValueError, match="utility=value"):
        prepared(dataset, {**OPTIONS["ra-dt"], "training": {"utility": "value", "dedup": None}})
