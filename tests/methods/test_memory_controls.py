from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from radt.errors import RunError
from radt.memory.memory import Memory
from radt.methods.controls import (
    CONTROLS,
    apply_control,
    erase_before_each_trial,
    possible,
    retrieve_best_trial,
    retrieve_last_trial,
    retrieve_other_task,
    retrieve_random_own,
)
from radt.trajectory import Trajectory
from tests.contracts.method import build_method
from tests.toys import TOY_GRID

STEPS = 9  # of a trial; with C = 4 its entries stand at 0, 4 and 8


def trial(slot: int, number: int, total: float) -> Trajectory:
    rewards = np.zeros(STEPS, np.float32)
    rewards[-1] = total
    cells = np.stack([np.full(STEPS, slot), np.arange(STEPS) % 3], axis=1)
    return Trajectory(cells, np.zeros(STEPS, np.int64), rewards, slot, number)


def memory_actor() -> Any:
    options = {"model": {"layers": 1, "width": 16, "heads": 2}, "memory": {"context_len": 4}}
    return build_method("ra-dt", TOY_GRID.spaces, options).actor(2)


@pytest.fixture
def memory() -> Memory:
    found = memory_actor().memory
    assert isinstance(found, Memory)
    for number, total in enumerate((1.0, 3.0, 2.0)):
        found.write([trial(slot, number, total) for slot in (0, 1)])
    return found


def ask(memory: Memory, step: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    queries = torch.randn(2, memory.embedder.width, generator=torch.Generator().manual_seed(0))
    return queries, torch.tensor([0, 1]), torch.full((2,), step)


@pytest.mark.parametrize(("step", "position"), [(0, 0), (3, 4), (8, 8)])
def test_a_trial_is_read_at_the_present_step(memory: Memory, step: int, position: int) -> None:
    for retrieve, total in ((retrieve_best_trial, 3.0), (retrieve_last_trial, 2.0)):
        chosen = memory.entries.rows(retrieve(memory)(*ask(memory, step)).chosen[:, 0])
        assert chosen.total_return.tolist() == [total, total]
        assert chosen.position.tolist() == [position, position]
        assert chosen.task.tolist() == [0, 1]


def test_random_entries_are_of_the_own_task_and_vary(memory: Memory) -> None:
    retrieve = retrieve_random_own(memory, {task: np.random.default_rng(task) for task in (0, 1)})
    drawn = [memory.entries.rows(retrieve(*ask(memory, 0)).chosen[:, 0]) for _ in range(20)]
    assert all(entries.task.tolist() == [0, 1] for entries in drawn)
    assert len({int(entries.episode[0]) for entries in drawn}) == 3


def test_another_tasks_memory_is_searched(memory: Memory) -> None:
    chosen = retrieve_other_task(memory, [0, 1])(*ask(memory, 0)).chosen[:, 0]
    assert memory.entries.task[chosen].tolist() == [1, 0]


@pytest.mark.parametrize("control", [retrieve_best_trial, retrieve_last_trial])
def test_an_empty_memory_gives_nothing(memory: Memory, control: type) -> None:
    memory.forget(torch.tensor([0, 1]))
    assert control(memory)(*ask(memory, 0)).chosen.tolist() == [[-1], [-1]]


@pytest.mark.parametrize("name", ["ra-dt", "ad", "dpt"])
def test_erasing_works_for_any_method(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    actor, forgotten = build_method(name, TOY_GRID.spaces).actor(1), []
    monkeypatch.setattr(actor, "forget", lambda slots: forgotten.extend(slots.tolist()))
    erase_before_each_trial(actor)
    actor.begin_trials(np.array([0]))
    assert forgotten == [0]


def test_a_shared_memory_is_not_erased() -> None:
    actor = memory_actor()
    actor.share(actor.memory.at("ram:"), np.array([7, 9]))
    with pytest.raises(RunError, match="memory of its own"):
        apply_control("erased", actor, [7, 9], seed=0)


@pytest.mark.parametrize("control", ["other-task", "random-own", "last-trial", "best-trial"])
def test_a_shared_memory_is_read_by_task(control: str) -> None:
    found = []
    for shared in (False, True):
        actor = memory_actor()
        if shared:
            actor.share(actor.memory.at("ram:"), np.array([7, 9]))
        actor.remember([trial(slot, number, 1.0) for number in range(3) for slot in (0, 1)])
        apply_control(control, actor, [7, 9], seed=0)
        queries, own, steps = ask(actor.memory, 0)
        named = torch.tensor([7, 9]) if shared else own
        chosen = [actor.retrieve(queries, named, steps).chosen[:, 0] for _ in range(5)]
        found.append(torch.stack(chosen))
        tasks = actor.memory.entries.task[found[-1]]
        assert bool((tasks == named).all()) != (control == "other-task")
        assert control != "other-task" or bool((tasks != named).all())
    assert found[0].tolist() == found[1].tolist()


@pytest.mark.parametrize("name", ["dt", "ad", "dpt", "nearest"])
def test_a_method_without_a_memory_has_only_one_control(name: str) -> None:
    actor = build_method(name, TOY_GRID.spaces).actor(2)
    assert [each for each in CONTROLS if possible(each, actor, [0, 1])] == ["erased"]
    with pytest.raises(RunError, match="needs a memory"):
        apply_control("best-trial", actor, [0, 1], seed=0)


def test_one_task_has_no_other() -> None:
    actor = memory_actor()
    assert [each for each in CONTROLS if possible(each, actor, [0, 1])] == list(CONTROLS)
    assert not possible("other-task", actor, [0])
