"""`radt envs check` finds what a suite declares and does not keep."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from radt import cli
from radt.envs import SUITES
from radt.envs.check import CHECKS, check_suite
from radt.envs.suite import Recipe
from radt.runs.presets import unknown_in_recipes
from tests.toys import REACH_SPACES, TOY_REACH, Padded, Reach, ToySuite


def suite_of(change: Callable[[Any], Any] | None = None, **fields: Any) -> ToySuite:
    """Change the environment, or what the suite says of it."""
    build = TOY_REACH.build if change is None else lambda task: change(TOY_REACH.build(task))
    return replace(TOY_REACH, **{"name": "mine", "build": build, **fields})


class Changed(gym.Wrapper[Any, Any, Any, Any]):
    """An environment whose steps are spoiled."""

    def step(self, action: Any) -> Any:
        return self.spoil(*self.env.step(action))

    def spoil(self, *step: Any) -> Any:
        raise NotImplementedError


def spoiling(spoil: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda env: type("Spoiled", (Changed,), {"spoil": lambda self, *step: spoil(*step)})(env)


def clockless(env: Any) -> Any:
    """Draw from the system's entropy instead of the seed."""
    noise = np.random.default_rng()
    return gym.wrappers.TransformReward(env, lambda reward: reward + noise.random())


class Slots(ToySuite):
    """Vector environments that reset otherwise than they declare."""

    def make_vec(self, tasks: Any, autoreset_mode: Any = None) -> Any:
        env = SyncVectorEnv([lambda task=task: self.make(task) for task in tasks])
        env.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        return env


class Undeclared(ToySuite):
    def make_vec(self, tasks: Any, autoreset_mode: Any = None) -> Any:
        env = super().make_vec(tasks)
        env.metadata = {}
        return env


class Clumsy(ToySuite):
    def expert(self, task: int) -> Any:
        return lambda state: np.zeros(7)


class Mistaken(ToySuite):
    def expert(self, task: int) -> Any:
        return lambda state: state @ np.zeros(77)


def other(kind: type[ToySuite]) -> ToySuite:
    return kind(**{name: getattr(TOY_REACH, name) for name in TOY_REACH.__dataclass_fields__})


class Wide(Reach):
    """Acts in [-2, 2]."""

    def __init__(self, task: int) -> None:
        super().__init__(task)
        self.action_space = gym.spaces.Box(-2.0, 2.0, (self.dims,), np.float32)


def wide(task: int) -> Any:
    env = Padded(Wide(task), REACH_SPACES)
    env.action_space = gym.spaces.Box(-2.0, 2.0, (3,), np.float32)
    return env


BROKEN = [
    ("splits are disjoint", suite_of(eval_tasks=(3, 4)), "task 3 is in train_tasks and in eval"),
    ("splits are disjoint", suite_of(train_tasks=(1, 1)), "names task 1 twice"),
    ("unknown tasks are refused", suite_of(), "raise a ValueError"),
    (
        "spaces are as declared",
        suite_of(spaces=replace(REACH_SPACES, state=replace(REACH_SPACES.state, shape=(7,)))),
        r"have shape \(6,\), spaces.state.shape says \(7,\)",
    ),
    ("spaces are as declared", suite_of(build=wide), "RescaleAction"),
    (
        "observations and rewards are in bounds",
        suite_of(spoiling(lambda s, r, *rest: (s, np.nan, *rest))),
        "the reward is nan; let it be finite",
    ),
    (
        "observations and rewards are in bounds",
        suite_of(spoiling(lambda s, *rest: (np.full_like(s, np.nan), *rest))),
        "is not finite",
    ),
    (
        "observations and rewards are in bounds",
        suite_of(spoiling(lambda s, *rest: (s + 5, *rest))),
        "widen the space",
    ),
    (
        "episodes end by the horizon",
        suite_of(spaces=replace(REACH_SPACES, horizon=11)),
        "goes on after spaces.horizon = 11 steps; return truncated=True",
    ),
    ("seeds reproduce", suite_of(clockless), "self.np_random"),
    ("autoreset mode is declared", other(Undeclared), "AutoresetMode"),
    ("vector equals single", other(Slots), "SAME_STEP"),
    ("experts act", other(Clumsy), "none of Box"),
    ("experts act", other(Mistaken), "raises ValueError"),
    ("returns are as described", suite_of(target_return=(np.nan, 0.0)), "finite mean"),
    (
        "returns are as described",
        suite_of(spaces=replace(REACH_SPACES, lowest_return=100.0)),
        "less than spaces.lowest_return = 100",
    ),
]


@pytest.mark.parametrize(("check", "suite", "said"), BROKEN)
def test_what_is_not_kept_is_found(
    check: str, suite: ToySuite, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if check == "unknown tasks are refused":
        monkeypatch.setattr(ToySuite, "make", lambda self, task, render_mode=None: self.build(0))
    found = {finding.check: finding for finding in check_suite(suite)}
    assert found[check].verdict == "failed"
    assert any(re.search(said, text) for text in found[check].problems)


def test_a_suite_that_lacks_something_is_told_what() -> None:
    class Nothing:
        name = "nothing"

    (finding,) = check_suite(Nothing())  # type: ignore[arg-type]
    assert "make_vec" in finding.problems[0]


def test_an_environment_that_raises_fails_its_checks() -> None:
    def fail(*step: Any) -> Any:
        raise RuntimeError("not today")

    failed = [one for one in check_suite(suite_of(spoiling(fail))) if one.problems]
    assert all("RuntimeError: not today" in one.problems[0] for one in failed)
    assert failed


def test_recipes_name_options_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    class Suite(ToySuite):
        recipes = (
            Recipe({"learn": {"updates": 1, "upddates": 2}, "options": {"no": {"w": 1}}}),
            Recipe({"collect": {"settings": {"gamma": 0.9}, "setings": {"gamma": 0.9}}}),
        )

    monkeypatch.setitem(SUITES._items, "toy-reach", other(Suite))
    said = " ".join(unknown_in_recipes(SUITES["toy-reach"]))
    assert "learn.upddates" in said
    assert "options.no.w" in said
    assert "collect.setings.gamma" in said
    assert "collect.settings" not in said  # which the algorithm itself knows
    assert "learn.updates," not in said


def test_the_verb_tells_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["envs", "check", "dark-room-10x10", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["ok"]
    assert len(said["checks"]) == len(CHECKS) + 2
    assert {check["verdict"] for check in said["checks"]} == {"ok"}
    monkeypatch.setitem(SUITES._items, "mine", suite_of(eval_tasks=(3, 4)))
    assert cli.main(["envs", "check", "mine"]) == 2
    out, err = capsys.readouterr()
    assert "leave it out of one of them" in out
    assert "fails 1 of" in err
    assert cli.main(["envs"]) == 0
