"""Several agents on one task with one memory: each acts for itself, what one finds all know."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from radt.agent import Agent, Target, members
from radt.icl import in_context_learning
from radt.loading import WEIGHTS
from radt.memory.memory import Memory
from radt.methods.exploration import ExplorationConfig, with_exploration
from tests.contracts.method import build_method
from tests.contracts.unequal import HORIZON, SPACES, unequal_envs
from tests.memory import postgres
from tests.memory.stores import place_of

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "02_fleet.py"
KINDS = (
    *("ram", "shared-folder", "copy:shared-folder"),
    pytest.param("postgres", marks=postgres.needs_server),
)


def fleet(tasks: tuple[int, ...], memory: Memory | str | None = None) -> Agent:
    method = build_method("ra-dt", SPACES)
    return Agent(method, Target(5.0, 1.0), slots=len(tasks), tasks=tasks, memory=memory)


def begin(agent: Agent) -> None:
    agent.act(np.ones((agent.slots, 2), dtype=np.int64))


def one_trial(agent: Agent, rewards: list[float]) -> None:
    """Roll out a trial of one step in all slots."""
    begin(agent)
    agent.observe(rewards, [True] * agent.slots, [False] * agent.slots)


def test_members_of_a_task_are_told_apart() -> None:
    assert members([3, 5, 3, 3, 5]) == [(), (), (1,), (2,), (1,)]


def test_each_slot_has_noise_of_its_own_and_the_first_acts_as_it_would_alone() -> None:
    agents = fleet((3, 3, 5)), fleet((3,)), fleet((5,))
    for agent in agents:
        begin(agent)
    together, alone, other = (agent.trials for agent in agents)
    assert np.array_equal(together.noise[0], alone.noise[0])
    assert np.array_equal(together.noise[2], other.noise[0])
    assert (together.noise[0] != together.noise[1]).any()
    assert together.target[0] != together.target[1]


def test_slots_with_one_task_read_what_each_of_them_stored() -> None:
    alone = fleet((3, 4)).memory
    assert alone is not None
    agent = fleet((3, 3, 4), alone.at("ram:"))
    assert agent.memory is not None
    one_trial(agent, [1.0, 2.0, 3.0])
    assert agent.memory.of_task(3).total_return.tolist() == [1.0, 2.0]
    assert len(agent.memory.entries.episode.unique()) == 3
    begin(agent)
    assert agent.retrieval is not None
    assert (agent.retrieval.ids[:2] >= 0).sum(1).tolist() == [2, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_what_another_has_solved_is_known_from_the_next_trial_on(kind: str, tmp_path: Path) -> None:
    own = fleet((3,)).memory
    assert own is not None
    place = place_of(kind, tmp_path / "room")
    shared = own.at("ram:") if kind == "ram" else place
    one, other = (fleet((3,), shared) for _ in range(2))
    begin(other)
    one_trial(one, [2.0])
    assert not other.trials.solved[0]  # its trial goes on as it began
    other.observe([0.0], [True], [False])
    begin(other)
    assert other.trials.solved[0]
    assert other.memory is not None
    assert other.memory.entries.total_return.tolist() == [2.0, 0.0]
    assert other.retrieval is not None
    for agent in (one, other):
        assert agent.memory is not None
        agent.memory.close()


def test_a_fleet_in_ram_and_one_in_a_folder_do_the_same(tmp_path: Path) -> None:
    tasks, own = (2, 2, 2, 3), fleet((2,)).memory
    assert own is not None
    returns = []
    for place in ("ram:", f"shared-folder:{tmp_path / 'a'}", f"copy:folder:{tmp_path / 'b'}"):
        with own.at(place) as memory:
            agent = fleet(tasks, memory)
            env = unequal_envs(tasks, agent.autoreset_mode)
            returns.append(in_context_learning(agent, env, HORIZON, seed=0).returns)
    assert np.array_equal(returns[0], returns[1])
    assert np.array_equal(returns[0], returns[2])


@pytest.mark.skipif(not any(WEIGHTS.glob("*.safetensors")), reason="no weights are shipped")
def test_the_example_shares_what_one_agent_finds() -> None:
    returns = runpy.run_path(str(EXAMPLE))["main"]()
    assert len(returns) == 8
    assert np.mean(returns[-3:]) > np.mean(returns[:2])


def test_slots_with_one_task_count_together_what_they_have_tried() -> None:
    method = with_exploration(build_method("ra-dt", SPACES), ExplorationConfig(count_bonus=1.0))
    own = method.actor(1).memory
    assert own is not None
    agent = Agent(method, Target(5.0), slots=3, tasks=(3, 3, 4), memory=own.at("ram:"))
    for _ in range(3):
        begin(agent)
        agent.observe([0.0] * 3, [False] * 3, [False] * 3)
    begin(agent)
    kept = agent.actor.kept()  # type: ignore[attr-defined]
    tried = [int(kept["tried"][kept["tried_at"][:, 0] == slot].sum()) for slot in range(3)]
    assert tried == [6, 6, 3]
