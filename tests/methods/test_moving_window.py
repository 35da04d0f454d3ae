"""A window that moves on by several steps at once is decided on as if it were read anew."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from radt.agent import Agent, Target
from radt.costs import random_answers, random_states
from radt.icl import in_context_learning
from radt.methods.decision_cache import HeldChunks, MovingWindow
from radt.methods.dt import DTOptions
from radt.methods.ra_dt import RADTOptions
from radt.methods.trials import RunningTrials
from radt.model.policy import DecisionTransformer
from radt.spaces import TaskSpaces
from tests.contracts.method import OPTIONS, build_method
from tests.contracts.unequal import SPACES as UNEQUAL
from tests.contracts.unequal import diaries, unequal_envs
from tests.methods.test_held_chunks import chunks
from tests.model.batches import small_model
from tests.toys import TOY_GRID, TOY_REACH

SLOTS, CONTEXT = 4, 5
SUITES = {suite.spaces.state.kind: suite for suite in (TOY_GRID, TOY_REACH)}


def begun(spaces: TaskSpaces) -> RunningTrials:
    trials, everyone = RunningTrials(spaces, SLOTS), np.arange(SLOTS)
    trials.begin_task(everyone)
    trials.begin_trial(everyone, np.full(SLOTS, 3, np.float32))
    return trials


def live_on(trials: RunningTrials, slots: NDArray[np.int64], rng: np.random.Generator) -> None:
    """Let some slots act; who is at the end of a trial begins another one."""
    trials.record(slots, *random_answers(trials.spaces, len(slots), rng))
    over = slots[(trials.step[slots] == trials.spaces.horizon) | (rng.random(len(slots)) < 0.05)]
    for slot in over.tolist():
        trials.finish(slot)
    trials.begin_trial(over, np.full(len(over), 3, np.float32))
    trials.see(slots, random_states(trials.spaces, len(slots), rng))


def read_steps(policy: DecisionTransformer) -> list[int]:
    """Note from now on how many steps a policy is asked to read at once."""
    counts: list[int] = []
    policy.embed.register_forward_pre_hook(
        lambda module, args: counts.append(args[0].mask.shape[1])
    )
    return counts


@pytest.mark.parametrize("window_step", [1, 2, 5])
def test_a_window_holds_the_last_steps_and_moves_seldom(window_step: int) -> None:
    trials = RunningTrials(TOY_GRID.spaces, 1)
    for step in range(14):
        trials.step[:] = step
        start = int(trials.window_start(np.array([0]), CONTEXT, window_step)[0])
        assert start % window_step == 0
        held = step - start + 1
        assert held == step + 1 if step < CONTEXT else CONTEXT - window_step < held <= CONTEXT


@torch.no_grad()
@pytest.mark.parametrize("window_step", [1, 2, 5])
@pytest.mark.parametrize(("kind", "tokens"), [("discrete", "fused"), ("vector", "interleaved")])
def test_decisions_are_those_of_the_window_read_anew(
    kind: str, tokens: str, window_step: int, rng: np.random.Generator
) -> None:
    suite = SUITES[kind]
    policy = small_model(suite.spaces, retrieves=True, tokens=tokens)
    window = MovingWindow(policy, SLOTS, CONTEXT, window_step)
    held, trials = HeldChunks(policy, chunks(suite, rng, SLOTS)), begun(suite.spaces)
    for _ in range(60):
        slots = rng.permutation(SLOTS)[: rng.integers(1, SLOTS + 1)]
        if rng.random() < 0.2:
            held.hold(chunks(suite, rng, len(slots)), torch.from_numpy(slots))
        elif rng.random() < 0.1:
            held.drop(torch.from_numpy(slots))
        context = held.of(torch.from_numpy(slots))
        expected = policy.decide(trials.recent(slots, CONTEXT, window_step), context)
        for _ in range(rng.integers(1, 3)):  # being asked twice changes nothing
            decided = window.decide(trials, slots, context, held.version[slots])
            torch.testing.assert_close(decided, expected, rtol=0, atol=1e-5)
        live_on(trials, slots, rng)


@torch.no_grad()
def test_a_window_that_stays_is_read_once(rng: np.random.Generator) -> None:
    policy = small_model(TOY_GRID.spaces)
    counts, trials = read_steps(policy), begun(TOY_GRID.spaces)
    window, everyone = MovingWindow(policy, SLOTS, CONTEXT, window_step=3), np.arange(SLOTS)
    for _ in range(10):
        window.decide(trials, everyone)
        trials.record(everyone, *random_answers(trials.spaces, SLOTS, rng))
    assert counts == [1, 1, 1, 1, 1, 3, 1, 1, 3, 1]  # it moves on at steps 5 and 8


@torch.no_grad()
def test_another_chunk_is_another_input(rng: np.random.Generator) -> None:
    policy = small_model(TOY_GRID.spaces, retrieves=True)
    first, second = chunks(TOY_GRID, rng, SLOTS), chunks(TOY_GRID, rng, SLOTS)
    held, slots = HeldChunks(policy, first), torch.arange(SLOTS)
    before = held.version.copy()
    held.hold(first, slots)
    assert (held.version == before).all()  # it is held already
    held.hold(second.rows(slots[1:]), slots[1:])
    assert (held.version != before).tolist() == [False, True, True, True]
    after, some = held.version.copy(), held.chunks.mask.any(1).numpy()
    held.drop(slots)
    assert ((held.version != after) == some).all()
    held.drop(slots)
    assert ((held.version != after) == some).all()


@torch.no_grad()
def test_who_looks_on_sees_whole_windows(rng: np.random.Generator) -> None:
    policy = small_model(TOY_GRID.spaces)
    counts, trials = read_steps(policy), begun(TOY_GRID.spaces)
    window, everyone = MovingWindow(policy, SLOTS, CONTEXT, window_step=3), np.arange(SLOTS)
    for step in range(9):
        with window.read_anew() if step < 6 else nullcontext():
            window.decide(trials, everyone)
        trials.record(everyone, *random_answers(trials.spaces, SLOTS, rng))
    assert counts == [1, 2, 3, 4, 5, 3, 4, 1, 3]  # what was read before is not gone on from


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("name", ["dt", "ra-dt", "ra-dt+"])
def test_an_agent_lives_as_one_that_reads_its_windows_anew(name: str, mode: AutoresetMode) -> None:
    lives, tasks = [], (0, 1, 2, 5)
    for anew in (False, True):
        method = build_method(name, UNEQUAL, {**OPTIONS[name], "window_step": 3})
        agent = Agent(method, Target(5.0), slots=len(tasks), autoreset_mode=mode, tasks=tasks)
        env = unequal_envs(tasks, mode)
        window: MovingWindow = agent.actor.window  # type: ignore[attr-defined]
        with window.read_anew() if anew else nullcontext():
            in_context_learning(agent, env, trials=6, seed=0)
        lives.append(diaries(env))
    assert lives[0] == lives[1]


@pytest.mark.parametrize("options", [DTOptions, RADTOptions])
def test_a_window_must_move_and_leaves_no_gap(options: type) -> None:
    with pytest.raises(ValueError, match="window_step must be at least 1, not 0"):
        options(window_step=0)
    assert MovingWindow(small_model(TOY_GRID.spaces), SLOTS, CONTEXT, 50).window_step == CONTEXT
