from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from radt.agent import Agent, Target
from radt.icl import ICLResult, in_context_learning
from radt.methods.controls import apply_control
from tests.contracts.method import build_method
from tests.contracts.unequal import SPACES, diaries, unequal_envs

TASKS = (0, 1, 2, 5)
TRIALS = 5


def agent_for(name: str, mode: AutoresetMode, slots: int = len(TASKS), **changes: Any) -> Agent:
    return Agent(
        build_method(name, SPACES), Target(5.0), slots=slots, autoreset_mode=mode, **changes
    )


@pytest.mark.parametrize("name", ["dt", "ra-dt", "ra-dt+", "replay"])
@pytest.mark.parametrize("mode", AutoresetMode)
def test_returns_are_what_the_environment_paid(name: str, mode: AutoresetMode) -> None:
    env = unequal_envs(TASKS, mode)
    result = in_context_learning(agent_for(name, mode), env, TRIALS, seed=0)
    for slot, episodes in enumerate(diaries(env)):
        lived = episodes[:TRIALS]
        paid = [sum(reward for *_, reward in episode) for episode in lived]
        np.testing.assert_array_equal(result.returns[slot], paid)
        first = [
            next((step for step, (*_, reward) in enumerate(episode) if reward > 0), -1)
            for episode in lived
        ]
        assert result.first_reward[slot].tolist() == first


@pytest.mark.parametrize("name", ["dt", "ra-dt", "replay"])
def test_all_modes_give_the_same_returns(name: str) -> None:
    results = [
        in_context_learning(agent_for(name, mode), unequal_envs(TASKS, mode), TRIALS, seed=0)
        for mode in AutoresetMode
    ]
    for other in results[1:]:
        np.testing.assert_array_equal(other.returns, results[0].returns)
        np.testing.assert_array_equal(other.first_reward, results[0].first_reward)


@pytest.mark.parametrize("control", [None, "erased", "rewarded-only"])
def test_slots_that_have_stored_nothing_act_as_if_they_searched(control: str | None) -> None:
    returns = []
    for always in (False, True):
        mode = AutoresetMode.NEXT_STEP
        agent = agent_for("ra-dt", mode)
        actor: Any = agent.actor
        if control is not None:
            apply_control(control, actor, TASKS, seed=0)
        if always:
            actor.retrieve = actor.memory.retrieve
        result = in_context_learning(agent, unequal_envs(TASKS, mode), TRIALS, seed=0)
        returns.append(result.returns)
    np.testing.assert_array_equal(*returns)


def test_success_is_what_the_environment_says() -> None:
    mode = AutoresetMode.NEXT_STEP
    silent = in_context_learning(agent_for("dt", mode), unequal_envs(TASKS, mode), 2, seed=0)
    assert silent.told_success is None
    env = unequal_envs(TASKS, mode)
    step = env.step

    def telling(actions: Any) -> Any:
        *told, infos = step(actions)
        paid = np.asarray(told[1] > 0, np.float64)
        return *told, {**infos, "success": paid}

    env.step = telling  # type: ignore[method-assign]
    result = in_context_learning(agent_for("dt", mode), env, TRIALS, seed=0)
    assert result.told_success == (result.first_reward >= 0).astype(float).tolist()


def test_slots_that_finish_early_go_on_uncounted() -> None:
    env = unequal_envs(TASKS, AutoresetMode.SAME_STEP)
    agent = agent_for("dt", AutoresetMode.SAME_STEP)
    in_context_learning(agent, env, 3, seed=0)
    assert agent.trials.trial.min() == 3
    assert agent.trials.trial.max() > 3


def test_watchers_see_every_step_and_every_trial() -> None:
    mode = AutoresetMode.NEXT_STEP
    steps: list[int] = []
    acting: list[int] = []
    trials: list[tuple[int, list[float]]] = []

    def after_step(step: int, agent: Agent, obs: Any, rewards: Any) -> None:
        steps.append(step)
        acting.append(int(agent.is_acting.sum()))

    def after_trial(result: ICLResult, trial: int) -> None:
        trials.append((trial, result.returns[:, trial - 1].tolist()))

    env = unequal_envs(TASKS, mode)
    result = in_context_learning(
        agent_for("dt", mode), env, TRIALS, 0, after_step=after_step, after_trial=after_trial
    )
    assert steps == list(range(len(steps)))
    lived = sum(len(episode) for diary in diaries(env) for episode in diary)
    assert sum(acting) == lived
    assert [trial for trial, _ in trials] == list(range(1, TRIALS + 1))
    np.testing.assert_array_equal(np.array([r for _, r in trials]).T, result.returns)


def test_the_memory_is_empty_at_the_start() -> None:
    mode = AutoresetMode.NEXT_STEP
    agent = agent_for("ra-dt", mode)
    first = in_context_learning(agent, unequal_envs(TASKS, mode), TRIALS, seed=0)
    assert agent.memory is not None
    sizes: list[int] = []
    in_context_learning(
        agent,
        unequal_envs(TASKS, mode),
        1,
        seed=0,
        after_step=lambda *_: sizes.append(len(agent.memory or ())),
    )
    assert sizes[0] == 0
    assert first.returns.shape == (4, TRIALS)


def test_agent_and_environment_must_fit() -> None:
    env = unequal_envs(TASKS, AutoresetMode.NEXT_STEP)
    with pytest.raises(ValueError, match=r"DISABLED .* NEXT_STEP"):
        in_context_learning(agent_for("dt", AutoresetMode.DISABLED), env, 1, seed=0)
    with pytest.raises(ValueError, match="an agent of 2 slots"):
        in_context_learning(agent_for("dt", AutoresetMode.NEXT_STEP, slots=2), env, 1, seed=0)
