"""Simulated arms that look for a hidden goal: `reach-hidden` and `reacher-hidden`, on EnvPool.

In neither world does a goal touch anything, so it is ours: a task is a point where the goals of
Meta-World's reach and of DMControl's reacher lie, and whether the arm is near it is reckoned from
where the arm is. What a pool itself draws as its goal is never read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from radt.envs.hidden_goal import (
    HORIZON,
    NOISE,
    RECIPES,
    HiddenGoalSuite,
    hidden_spaces,
    split_goals,
)
from radt.envs.pools import PoolVec
from radt.envs.suite import Recipe
from radt.envs.vector import Floats, Infos, Slots, check_tasks
from radt.spaces import TaskSpaces


@dataclass(frozen=True)
class Robot:
    """An arm, what is seen of it, and how one that knows the goal moves it there."""

    pool: str  # its name in EnvPool
    width: int  # numbers of a state without the goal
    actions: int  # dimensions
    radius: float  # metres up to which the arm is near its goal
    goals: Callable[[], Floats]  # [tasks, d], of all tasks
    read: Callable[[Any], Floats]  # what a pool shows -> state, [width]
    place: Callable[[Floats], Floats]  # states -> what has to be at the goal, [..., d]
    steer: Callable[[Floats, Floats], Floats]  # states, goals -> the expert's actions
    repeat: int = 1  # simulated steps of one action
    warm_up: int = 0  # simulated steps of a random action where a pool starts every episode alike


CENTRE, HALF = np.array([0.0, 0.85, 0.175]), np.array([0.1, 0.05, 0.125])  # of Meta-World's goals
SCALE = 0.2  # metres that are 1 in a state
LINK = 0.12  # metres of each of reacher's two links


@cache
def reach_goals() -> Floats:
    """Draw goals; those to the right and high up are left out."""
    drawn = np.random.default_rng(0).uniform(-1.0, 1.0, (4000, 3))
    return split_goals(CENTRE + HALF * drawn, (drawn[:, 0] > 0) & (drawn[:, 2] > 0))


def reach_steer(states: Floats, goals: Floats) -> Floats:
    """Move the hand straight to the goal; full actions move it a centimetre a simulated step."""
    towards = (goals - hand(states)) * 50 / REACH.repeat  # half of the way, for the hand lags
    return np.concatenate([towards, np.zeros((*towards.shape[:-1], 1))], axis=-1)  # fingers rest


def hand(states: Floats) -> Floats:
    """Return where the hand is, in metres."""
    return np.asarray(states[..., :3] * SCALE + CENTRE)


@cache
def reacher_goals() -> Floats:
    """Draw goals by distance and direction, as DMControl does; one quadrant is left out."""
    rng = np.random.default_rng(0)
    far, angle = rng.uniform(0.05, 0.2, 4000), rng.uniform(-np.pi, np.pi, 4000)
    drawn = far[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return split_goals(drawn, (drawn > 0).all(axis=1))


def reacher_read(observed: Any) -> Floats:
    """Write angles as cosines and sines, then velocities."""
    angles, velocity = observed["position"][0], observed["velocity"][0]
    return np.concatenate([np.cos(angles), np.sin(angles), velocity / 10])


def reacher_angles(states: Floats) -> Floats:
    """Return the angles of shoulder and wrist, [..., 2]."""
    return np.asarray(np.arctan2(states[..., 2:4], states[..., :2]))


def finger(states: Floats) -> Floats:
    """Return where the finger is, in metres."""
    along = np.cumsum(reacher_angles(states), axis=-1)
    return LINK * np.stack([np.cos(along).sum(axis=-1), np.sin(along).sum(axis=-1)], axis=-1)


def reacher_steer(states: Floats, goals: Floats) -> Floats:
    """Turn to the angles that reach the goal, the wrist bent as it is, and brake."""
    angles, far = reacher_angles(states), (goals**2).sum(axis=-1)
    bent = np.arccos(far / (2 * LINK**2) - 1) * np.where(angles[..., 1] < 0, -1, 1)
    wanted = np.stack([np.arctan2(goals[..., 1], goals[..., 0]) - bent / 2, bent], axis=-1)
    missing = wanted - angles
    missing[..., 0] = (missing[..., 0] + np.pi) % (2 * np.pi) - np.pi  # the shoulder goes round
    return np.asarray(2.0 * missing - 2.0 * states[..., 4:6])


REACH = Robot(
    pool="MetaWorld/Reach-v3",
    width=3,
    actions=4,
    radius=0.06,
    goals=reach_goals,
    read=lambda observed: (observed[0, :3] - CENTRE) / SCALE,
    place=hand,
    steer=reach_steer,
    repeat=4,
    warm_up=20,
)
REACHER = Robot(
    pool="ReacherEasy-v1",
    width=6,
    actions=2,
    radius=0.06,  # DMControl's: of target and finger
    goals=reacher_goals,
    read=reacher_read,
    place=finger,
    steer=reacher_steer,
)
ROBOTS: Mapping[str, Robot] = {"reach": REACH, "reacher": REACHER}


@cache
def spaces(robot: str, visible: bool) -> TaskSpaces:
    """Say what a model needs to know."""
    own = ROBOTS[robot]
    return hidden_spaces(own.width + own.goals().shape[1] * visible, own.actions)


class HiddenGoalVec(PoolVec):
    """Many goals at once, one slot each."""

    def __init__(
        self,
        tasks: Sequence[int],
        autoreset_mode: AutoresetMode | str,
        robot: str,
        visible: bool,
        random_start: bool,
    ) -> None:
        self._robot, self._visible = ROBOTS[robot], visible
        all_goals = self._robot.goals()
        check_tasks(tasks, len(all_goals), f"{robot}-hidden")
        self.goals = all_goals[list(tasks)]  # [N, d]
        self._warm_up = self._robot.warm_up * random_start
        super().__init__(
            tasks,
            [self._robot.pool] * len(all_goals),
            spaces(robot, visible),
            autoreset_mode,
            same_start=not random_start and not self._robot.warm_up,
            max_episode_steps=self._robot.warm_up + HORIZON * self._robot.repeat + 1,
        )

    def _read(self, slot: int, observed: Any) -> Floats:
        seen = self._robot.read(observed)
        return np.append(seen, self.goals[slot] if self._visible else []).astype(np.float32)

    def _begin(self, slots: Slots) -> Floats:
        states = super()._begin(slots)
        held = self._drawn(slots, lambda rng, size: rng.uniform(-1.0, 1.0, size))
        return self._moved(slots, held, self._warm_up) if self._warm_up else states

    def _act(self, slots: Slots, actions: Floats) -> tuple[Floats, Floats, Infos]:
        noise = NOISE * self._drawn(slots, lambda rng, size: rng.standard_normal(size))
        states = self._moved(slots, np.clip(actions + noise, -1.0, 1.0), self._robot.repeat)
        apart = np.linalg.norm(self._robot.place(states) - self.goals[slots], axis=1)
        return states, (apart <= self._robot.radius).astype(np.float64), {}

    def _drawn(
        self, slots: Slots, draw: Callable[[np.random.Generator, int], NDArray[np.float64]]
    ) -> Floats:
        """Draw numbers of an action in some slots, from the stream of each, [n, actions]."""
        return np.stack([draw(self._streams[slot], self._robot.actions) for slot in slots.tolist()])

    def _moved(self, slots: Slots, actions: Floats, times: int) -> Floats:
        """Repeat actions and return the states they lead to, [n, width]."""
        for _ in range(times):
            states, _, _ = super()._act(slots, actions)
        return states

    def optimal_actions(self) -> Floats:
        return steered(self._robot, self._states, self.goals)


def steered(robot: Robot, states: Floats, goals: Floats) -> Floats:
    """Let the expert act in states, [..., actions]."""
    return np.clip(robot.steer(states.astype(np.float64), goals), -1.0, 1.0).astype(np.float32)


@dataclass(frozen=True)
class HiddenRobotSuite(HiddenGoalSuite):
    """An arm and its goals."""

    recipes: ClassVar[tuple[Recipe, ...]] = (
        *RECIPES,
        Recipe({"collect": {"episodes": 50}}, budgets=("laptop", "paper")),  # minutes to simulate
        Recipe({"options": {"episode_gap": 5}}),
    )

    robot: str = field(default="reach", kw_only=True)

    @cached_property
    def spaces(self) -> TaskSpaces:
        return spaces(self.robot, self.visible)

    def goal(self, task: int) -> Floats:
        return np.asarray(ROBOTS[self.robot].goals()[task])

    def make_vec(
        self, tasks: Sequence[int], autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP
    ) -> HiddenGoalVec:
        return HiddenGoalVec(tasks, autoreset_mode, self.robot, self.visible, self.random_start)

    def optimal_return(self, task: int) -> None:
        """Return None: it is not known."""

    def optimal_actions(self, task: int, states: Floats, rewards: Floats) -> Floats:
        """Ask the expert in each state of an episode, [T, actions]."""
        return steered(ROBOTS[self.robot], states, self.goal(task))
