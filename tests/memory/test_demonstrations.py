"""Demonstrations, recordings, and agents that begin with a memory instead of an empty one."""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from radt.agent import ActionRule, Agent, Target
from radt.checkpoint import save_checkpoint
from radt.envs import SUITES
from radt.envs.suite import Oracle, TaskSuite
from radt.experiments import weights as weights_room
from radt.experiments.experiment import Weights
from radt.experiments.shared_memory import SHOWN, ask_demonstrations
from radt.icl import in_context_learning
from radt.loading import Loaded
from radt.memory.demonstrations import (
    Recording,
    SourceError,
    as_task,
    from_dataset,
    from_npz,
    from_oracle,
)
from radt.memory.folder.store import FolderStore
from radt.memory.identity import MemoryMismatchError
from radt.memory.memory import Memory
from radt.methods import Method
from tests.contracts.method import build_method, card_of, toy_dataset
from tests.toys import TOY_GRID, TOY_REACH

ROOT = Path(__file__).parents[2]
TASKS = (4, 5)


@pytest.fixture(scope="module")
def method() -> Method:
    return build_method("ra-dt", TOY_GRID.spaces)


def memory_of(method: Method) -> Memory:
    own = method.actor(1).memory
    assert own is not None
    return own


def agent_on(method: Method, memory: Memory | str | Path | None, **options: Any) -> Agent:
    env = TOY_GRID.make_vec(TASKS)
    mode = env.metadata["autoreset_mode"]
    changes = {"slots": 2, "tasks": TASKS, **options}
    return Agent(method, Target(9.0), autoreset_mode=mode, memory=memory, **changes)


def test_an_agent_is_shown_episodes_before_its_first_trial(method: Method, tmp_path: Path) -> None:
    shown = from_dataset(toy_dataset(TOY_GRID, tmp_path / "data"), TOY_GRID.spaces, (1, 2), 1)
    loaded = Loaded(method, card_of(method, "ra-dt"), tmp_path)
    for place in (None, tmp_path / "m"):
        agent = loaded.agent(slots=2, tasks=[1, 2], memory=place, demonstrations=shown)
        agent.start_task()  # what was shown stays
        assert agent.memory is not None
        assert agent.memory.entries.task.unique().tolist() == [1, 2]
        agent.memory.close()
    with loaded.memory(tmp_path / "m", writing=False) as memory:
        assert memory.entries.task.unique().tolist() == [1, 2]


def test_demonstrations_that_no_slot_would_find_are_refused(method: Method, tmp_path: Path) -> None:
    loaded = Loaded(method, card_of(method, "ra-dt"), tmp_path)
    shown = from_oracle(TOY_GRID, 3, episodes=1)
    for tasks in (None, [85]):
        with pytest.raises(MemoryMismatchError, match=r"of task 3, but .* give tasks=\[3\]"):
            loaded.agent(tasks=tasks, memory=tmp_path / "m", demonstrations=shown)
    assert not (tmp_path / "m").exists()
    assert loaded.agent(tasks=[3], demonstrations=shown).trials.solved.tolist() == [True]


def test_the_best_episodes_of_each_task_are_chosen(tmp_path: Path) -> None:
    dataset = toy_dataset(TOY_GRID, tmp_path)
    chosen = from_dataset(dataset, TOY_GRID.spaces, (1, 2), 2)
    assert [t.task for t in chosen] == [1, 1, 2, 2]
    for task in (1, 2):
        every = [dataset.trajectory(row) for row in np.flatnonzero(dataset.episodes.task == task)]
        best = sorted((t.total_return for t in every), reverse=True)[:2]
        assert sorted((t.total_return for t in chosen if t.task == task), reverse=True) == best
    assert len(from_dataset(dataset, TOY_GRID.spaces, None, None)) == len(dataset) == 20
    with pytest.raises(SourceError, match="1 or more, not 0"):
        from_dataset(dataset, TOY_GRID.spaces, None, 0)


@pytest.mark.parametrize("name", ["dark-room-10x10", "dark-key-door-10x10"])
def test_an_oracle_shows_the_best_way(name: str) -> None:
    suite = SUITES[name]
    for task in (80, 93):
        shown = from_oracle(suite, task, episodes=2)
        assert [t.total_return for t in shown] == [suite.optimal_return(task)] * 2
        assert [(t.task, t.episode) for t in shown] == [(task, 0), (task, 1)]
    clumsy = from_oracle(suite, 80, episodes=2, noise=0.3)
    assert len({t.actions.tobytes() for t in clumsy}) == 2
    with pytest.raises(SourceError, match="does not know what is best"):
        from_oracle(TOY_REACH, 0, 1)


def test_what_is_done_in_a_gymnasium_environment_is_recorded(tmp_path: Path) -> None:
    env = Recording(gym.make("radt/DarkRoom-10x10-v0", task=85), task=85)
    with pytest.raises(ValueError, match="no episode is finished"):
        env.save(tmp_path / "x.npz")
    for episode in range(2):
        env.reset(seed=episode)
        over = False
        while not over:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            over = terminated or truncated
    env.reset()
    env.step(0)  # broken off
    env.save(tmp_path / "x.npz")
    spaces = SUITES["dark-room-10x10"].spaces
    found = from_npz(tmp_path / "x.npz", spaces)
    assert [(len(t), t.task, t.episode) for t in found] == [(100, 85, 0), (100, 85, 1)]
    np.testing.assert_array_equal(found[1].actions, env.episodes[1].actions)
    assert [t.task for t in as_task(found, 3)] == [3, 3]


@pytest.mark.parametrize("kind", ["ram", "folder"])
def test_an_agent_begins_with_what_is_known(kind: str, method: Method, tmp_path: Path) -> None:
    with memory_of(method).at(f"{kind}:{tmp_path / 'm'}") as memory:
        for task in TASKS:
            memory.write(from_oracle(TOY_GRID, task, episodes=1))
        before = len(memory)
        agent = agent_on(method, memory)
        assert agent.memory is memory
        assert agent.trials.solved.tolist() == [True, True]
        agent.act(np.zeros((2, 2), int))
        assert agent.retrieval is not None
        for slot, task in enumerate(TASKS):
            assert int(memory.entries.task[agent.retrieval.chosen[slot, 0]]) == task
        in_context_learning(agent, TOY_GRID.make_vec(TASKS), 2, seed=0)
        assert len(memory) > before
        assert set(memory.entries.task.tolist()) == set(TASKS)
        agent.start_task(0)
        assert len(memory.of_task(4)) > 0  # a memory that was given is not emptied


def test_an_empty_shared_memory_changes_nothing(method: Method, tmp_path: Path) -> None:
    env = TOY_GRID.make_vec(TASKS)
    own = agent_on(method, None)
    shared = agent_on(method, tmp_path / "m")
    lived = [in_context_learning(agent, env, 3, seed=0).returns for agent in (own, shared)]
    np.testing.assert_array_equal(*lived)
    assert own.memory is not None
    assert shared.memory is not None
    assert torch.equal(own.memory.keys, shared.memory.keys)
    assert shared.memory.entries.task.tolist() == [4 + t for t in own.memory.entries.task.tolist()]
    shared.memory.close()


def test_a_second_agent_goes_on_where_the_first_one_was(method: Method, tmp_path: Path) -> None:
    env = TOY_GRID.make_vec(TASKS)
    first = agent_on(method, str(tmp_path / "m"))
    in_context_learning(first, env, 2, seed=0)
    assert first.memory is not None
    keys = first.memory.keys.clone()
    first.memory.close()
    second = agent_on(method, tmp_path / "m")
    assert second.memory is not None
    assert torch.equal(second.memory.keys, keys)
    reader = agent_on(method, second.memory.at(tmp_path / "m", writing=False))
    in_context_learning(second, env, 1, seed=1)
    assert len(second.memory) > len(keys)
    assert reader.memory is not None
    in_context_learning(reader, env, 1, seed=2)
    assert len(reader.memory) == len(second.memory)  # sees what was written, and stores nothing
    reader.memory.close()
    second.memory.close()


def test_memories_that_do_not_fit_are_refused(method: Method, tmp_path: Path) -> None:
    other = memory_of(build_method("ra-dt", TOY_REACH.spaces))
    with pytest.raises(MemoryMismatchError, match="another"):
        agent_on(method, other)
    with pytest.raises(ValueError, match="method dt has no memory"):
        agent_on(build_method("dt", TOY_GRID.spaces), tmp_path / "m")
    with (
        memory_of(method).at(tmp_path / "m") as memory,
        pytest.raises(ValueError, match="would replace the memory in"),
    ):
        agent_on(method, memory).load(tmp_path / "x")


def test_exploring_ends_only_where_a_solution_is_known(method: Method) -> None:
    with memory_of(method).at("ram:") as memory:
        memory.write(from_oracle(TOY_GRID, 5, episodes=1))
        agent = agent_on(method, memory, rule=ActionRule(temperature=0.0))
        assert agent.trials.solved.tolist() == [False, True]


def test_the_experiment_measures_every_k(method: Method, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(weights_room, "SUITES", {"toy-grid": TOY_GRID})
    card = replace(card_of(method, "ra-dt"), env="toy-grid")
    save_checkpoint(tmp_path / "model.safetensors", method, card)
    out = tmp_path / "out.json"
    ask_demonstrations([Weights("toy-grid", "ra-dt", tmp_path)], out)
    lines = json.loads(out.read_text())["measured"]
    assert [(line["episodes"], line["noise"]) for line in lines] == list(SHOWN)
    assert lines[0]["entries"] == 0 < lines[1]["entries"]
    assert lines[1]["shown_return"] == lines[1]["optimum"]


def test_the_example_of_the_page_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")
    example, *_ = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "memory.md", "exec"), {})
    assert re.match(r"the first trial earned \d+; \d+ entries", capsys.readouterr().out)
    with closing(FolderStore(tmp_path / "memories" / "room", None, writing=False)) as store:
        assert store.entries.task.unique().tolist() == [85]


class OnlyGuided:
    """A suite that knows nothing of best actions, with vector environments that do."""

    def __init__(self, suite: TaskSuite) -> None:
        self._suite = suite

    def __getattr__(self, name: str) -> Any:
        if name == "optimal_actions":
            raise AttributeError(name)
        return getattr(self._suite, name)


def test_a_guide_shows_what_an_oracle_would() -> None:
    guided: Any = OnlyGuided(TOY_GRID)
    assert not isinstance(guided, Oracle)
    for task in TOY_GRID.eval_tasks:
        (theirs,), (ours,) = from_oracle(TOY_GRID, task, 1), from_oracle(guided, task, 1)
        assert ours.total_return == theirs.total_return == TOY_GRID.optimal_return(task)
        assert ours.states.shape == theirs.states.shape
