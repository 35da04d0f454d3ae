"""A live run: what it says happened, its knobs, and the memory that can be taken away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radt.icl import env_seed
from radt.loading import Loaded, load
from radt.viewer.conversation import MOST_AT_ONCE, MOST_CHARACTERS, Conversation
from radt.viewer.library import Library
from radt.viewer.live import MOST_STEPS, LiveRun, Settings, bounds
from tests.viewer.serving import SCRIPTED

SOURCE = "shipped-dark-room-10x10"
TASK, HORIZON = SCRIPTED.eval_tasks[0], SCRIPTED.spaces.horizon


@pytest.fixture(scope="module")
def loaded(runs: Path) -> Loaded:
    return load(runs / "plain")


@pytest.fixture
def run(loaded: Loaded) -> LiveRun:
    """A run on an unseen goal, never hurried by the clock."""
    return LiveRun(loaded, SCRIPTED, TASK, seed=0, clock=lambda: 0.0)


def trials(events: list[dict[str, Any]]) -> dict[int, dict[str, list[Any]]]:
    """Join the steps of each trial, as the page does."""
    joined: dict[int, dict[str, list[Any]]] = {}
    for event in events:
        if event["event"] == "trial":
            joined[event["trial"]] = {"entries": event["entries"], "cells": [], "rewards": []}
            joined[event["trial"]] |= {"actions": [], "searches": [], "probabilities": []}
        elif event["event"] == "steps":
            assert len(joined[event["trial"]]["rewards"]) == event["start"]
            for name in ("cells", "rewards", "actions", "searches", "probabilities"):
                joined[event["trial"]][name] += event[name]
    return joined


def test_what_is_shown_is_what_a_plain_agent_lives_through(loaded: Loaded, run: LiveRun) -> None:
    lived = trials([event for size in (1, 7, 4, 12, 6) for event in run.advance(size)])
    agent, env = loaded.agent(seed=0, tasks=[TASK]), SCRIPTED.make(TASK)
    for trial in (0, 1):
        obs, _ = env.reset(seed=env_seed(0, TASK) if trial == 0 else None)
        for step in range(HORIZON):
            assert lived[trial]["cells"][step] == obs.tolist()
            action = agent.act(obs)
            obs, reward, terminated, truncated, _ = env.step(action)
            agent.observe(float(reward), terminated, truncated)
            assert lived[trial]["actions"][step] == action
            assert lived[trial]["rewards"][step] == reward
    assert len(lived[2]["rewards"]) == 6


def test_trials_begin_and_end_in_order(run: LiveRun) -> None:
    events = run.advance(2 * HORIZON + 5)
    kinds = [(event["event"], event["trial"]) for event in events]
    once = [("trial", 0), ("steps", 0), ("end", 0), ("trial", 1), ("steps", 1), ("end", 1)]
    assert kinds == [*once, ("trial", 2), ("steps", 2)]
    returns = {e["trial"]: e["return"] for e in events if e["event"] == "end"}
    lived = trials(events)
    assert all(sum(lived[trial]["rewards"]) == earned for trial, earned in returns.items())
    json.dumps(events, allow_nan=False)


def test_a_slow_machine_answers_sooner(loaded: Loaded) -> None:
    ticks = iter(np.arange(0.0, 100.0, 0.1))
    slow = LiveRun(loaded, SCRIPTED, TASK, clock=lambda: float(next(ticks)))
    (_, steps) = slow.advance(HORIZON)
    assert 0 < len(steps["rewards"]) < 5


def test_the_chances_are_those_of_the_rule(run: LiveRun) -> None:
    run.change(Settings(temperature=0.0, explore_temperature=0.0))
    (_, steps) = run.advance(9)
    assert all(max(probabilities) == 1.0 for probabilities in steps["probabilities"])
    assert [np.argmax(probabilities) for probabilities in steps["probabilities"]] == steps[
        "actions"
    ]


def test_knobs_reach_the_search(run: LiveRun) -> None:
    run.advance(2 * HORIZON)
    run.change(Settings(alpha=0.0, top_l=1, retrieve_every=5))
    searches = trials(run.advance(HORIZON))[2]["searches"]
    assert [search["step"] for search in searches] == [0, 5, 10]
    assert all(len(search["ids"]) == 1 for search in searches)
    assert run.agent.memory is not None
    assert run.agent.memory.config.alpha == 0.0


def test_without_its_memory_every_trial_is_the_first(run: LiveRun) -> None:
    run.advance(10 * HORIZON)
    assert run.agent.memory is not None
    known = len(run.agent.memory)
    assert known > 0
    assert run.agent.trials.solved.all()
    assert run.change(Settings(memory=False)) == [{"event": "again", "trial": 10}]
    assert not run.agent.trials.solved.any()
    assert run.agent.trials.rewards_of_trials == [[]]
    lived = trials(run.advance(HORIZON + 1))
    assert all(trial["entries"]["ids"] == [] for trial in lived.values())
    assert all(trial["searches"] == [] for trial in lived.values())
    assert run.change(Settings(memory=True)) == [{"event": "again", "trial": 11}]
    back = trials(run.advance(1))[11]
    assert len(back["entries"]["ids"]) == known
    assert back["searches"][0]["chosen"]
    assert run.agent.trials.solved.all()
    assert len(run.agent.trials.rewards_of_trials[0]) == 10


def test_a_trial_that_is_broken_off_is_forgotten(run: LiveRun) -> None:
    run.advance(HORIZON + 5)
    run.change(Settings(memory=False))
    run.change(Settings(memory=True))
    events = run.advance(HORIZON)
    assert [event["event"] for event in events] == ["trial", "steps", "end"]
    assert run.agent.memory is not None
    assert run.agent.memory.entries.age.tolist() == 3 * [0] + 3 * [1]


def test_a_run_ends(run: LiveRun) -> None:
    run.steps = MOST_STEPS - 3
    *_, last = run.advance(10)
    assert run.steps == MOST_STEPS
    assert last["event"] in ("over", "steps")
    assert {"event": "over", "steps": MOST_STEPS} in run.advance(10)


@given(
    st.builds(
        Settings,
        temperature=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        explore_temperature=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        alpha=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        top_l=st.none() | st.integers(),
        retrieve_every=st.none() | st.integers(),
        memory=st.booleans(),
    )
)
def test_settings_are_always_inside_their_bounds(asked: Settings) -> None:
    known = Settings(0.5, 2.0, 1.0, 50, 0)
    settings = asked.bounded(known, horizon=100)
    for name, (least, most) in bounds(100).items():
        assert least <= getattr(settings, name) <= most
    nothing = asked.bounded(Settings(), horizon=100)
    assert {getattr(nothing, name) for name in bounds(100)} == {None}


def ask(conversation: Conversation, **question: Any) -> dict[str, Any]:
    answer = conversation.answer(json.dumps(question))
    json.dumps(answer, allow_nan=False)
    return answer


@pytest.fixture
def conversation() -> Conversation:
    return Conversation(Library(None))


def test_a_goal_is_picked_by_its_cell(conversation: Conversation) -> None:
    started = ask(conversation, do="start", source=SOURCE, goal=[2, 7])
    assert started["kind"] == "started"
    assert started["ground"]["marks"] == [
        {"step": 0, "marks": {"goal": [2, 7], "others": [], "key": None}}
    ]
    assert started["optimum"] == 100 - (2 + 7) + 1
    assert started["trained"] == ((2, 7) in started["learned"])
    (_, steps) = ask(conversation, do="advance", steps=3)["events"]
    assert steps["cells"][0] == [0, 0]


def test_a_task_is_chosen_by_its_number_and_said_to_be_unseen(conversation: Conversation) -> None:
    started = ask(conversation, do="start", source=SOURCE, env="dark-room-10x10-slip", task=85)
    assert (started["env"], started["task"], started["trained"]) == (
        "dark-room-10x10-slip",
        85,
        False,
    )
    assert [one["task"] for one in started["tasks"][:20]] == list(range(80, 100))


def test_steps_are_bounded(conversation: Conversation) -> None:
    ask(conversation, do="start", source=SOURCE)
    assert conversation.run is not None
    conversation.run._clock = lambda: 0.0
    ask(conversation, do="advance", steps=10**9)
    assert conversation.run.steps == MOST_AT_ONCE
    ask(conversation, do="advance", steps=-5)
    assert conversation.run.steps == MOST_AT_ONCE + 1


def test_a_change_leaves_the_rest_as_it_is(conversation: Conversation) -> None:
    ask(conversation, do="start", source=SOURCE)
    ask(conversation, do="change", memory=False)
    changed = ask(conversation, do="change", alpha=1e300, top_l=-7)
    assert changed["settings"]["memory"] is False
    assert (changed["settings"]["alpha"], changed["settings"]["top_l"]) == (10.0, 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nonsense", "Expecting value"),
        ("[1, 2]", "expected an object"),
        ('{"do": "delete"}', "unknown question"),
        ('{"do": "start"}', "missing source"),
        ('{"do": "start", "source": "../x"}', "unknown run"),
        (f'{{"do": "start", "source": "{SOURCE}", "goal": [99, 0]}}', "not inside"),
        (f'{{"do": "start", "source": "{SOURCE}", "goal": [1, 1], "key": [2, 2]}}', "one can pick"),
        (f'{{"do": "start", "source": "{SOURCE}", "goal": "here"}}', "a list"),
        (f'{{"do": "start", "source": "{SOURCE}", "task": 12345}}', "has no task"),
        (f'{{"do": "start", "source": "{SOURCE}", "env": "dark-room-20x20"}}', "environment"),
        (f'{{"do": "start", "source": "{SOURCE}", "path": "/etc"}}', "unknown name"),
        ('{"do": "advance"}', "no agent acts"),
        ('{"do": "change", "alpha": 1}', "no agent acts"),
        ('{"do": "change", "alpha": NaN}', "not a number"),
        (" " * (MOST_CHARACTERS + 1), "characters"),
    ],
)
def test_mistakes_are_answered_in_words(conversation: Conversation, text: str, says: str) -> None:
    answer = conversation.answer(text)
    assert answer["kind"] == "error"
    assert says in answer["message"]


def test_no_number_is_no_value(conversation: Conversation) -> None:
    ask(conversation, do="start", source=SOURCE)
    for value in ("NaN", "Infinity", '"1"', "null", "true"):
        answer = conversation.answer(f'{{"do": "change", "top_l": {value}}}')
        assert (answer["kind"] == "error") == (value != "null")
