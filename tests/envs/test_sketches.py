"""How robots look: what is drawn is what was observed, and no picture costs a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from radt.envs import dm_control, dm_poses, photographs
from radt.envs.point_robot import RADIUS, goals
from radt.envs.suite import SUITES, SketchedSuite, sketch_of
from radt.errors import MissingError
from tests.toys import TOY_REACH, roll

CONTROL, ARM, POINT = (SUITES[name] for name in ("dm-control", "meta-world", "point-robot"))


def states_of(suite: Any, task: int, steps: int = 4) -> np.ndarray[Any, Any]:
    env, generator = suite.make(task), np.random.default_rng(0)
    states = [env.reset(seed=0)[0]]
    for _ in range(steps):
        action = generator.uniform(-1, 1, env.action_space.shape).astype(np.float32)
        states.append(env.step(action)[0])
    env.close()
    return np.stack(states)


def sketched(suite: Any, task: int) -> tuple[Any, Any]:
    states = states_of(suite, task)
    sketch = sketch_of(suite, task, states)
    assert sketch is not None
    assert np.isfinite(sketch.bodies).all()
    assert sketch.bodies.shape == (len(states), len(sketch.radii), 4)
    assert "robot" in sketch.kinds
    seen = np.abs(sketch.path - sketch.centre).max(axis=1) < sketch.size / 2
    assert seen[0]  # by the camera
    return states, sketch


@pytest.mark.parametrize("robot", dm_poses.LOOKS)
def test_every_robot_of_dmcontrol_is_drawn(robot: str) -> None:
    sketched(CONTROL, next(n for n, name in enumerate(dm_control.NAMES) if robot in name))


def test_a_walker_is_turned_as_it_observes() -> None:
    states = states_of(CONTROL, dm_control.NAMES.index("walker-walk"))
    seen = {
        kind: states[:, at : at + dm_control.WIDTHS[kind]] for kind, at in dm_control.PLACES.items()
    }
    model = dm_poses.model_of("walker")
    _, turns = dm_poses.kinematics(model, dm_poses.positions("walker", seen))
    limbs = [geom for geom in range(model.ngeom) if model.geom_bodyid[geom] > 0]
    bodies = model.geom_bodyid[limbs]
    assert bodies.tolist() == list(range(1, 8))
    along = turns[:, limbs, 0, 2]  # [T, 7] how far each limb leans forward
    shown = np.array([model.geom_quat[geom] for geom in limbs])
    upright = np.isclose(shown[:, 0], 1.0)  # a foot lies in its body's frame
    leaning = seen["orientations"].reshape(-1, 7, 2)[..., 1]
    np.testing.assert_allclose(along[:, upright], leaning[:, upright], atol=1e-5)


def test_a_goal_lies_where_it_is_observed() -> None:
    states, sketch = sketched(CONTROL, dm_control.NAMES.index("reacher-easy"))
    goal = sketch.bodies[:, sketch.kinds.index("goal"), :2]
    np.testing.assert_allclose(goal, np.broadcast_to(goal[0], goal.shape), atol=1e-5)
    at = dm_control.PLACES["to_target"]
    np.testing.assert_allclose(goal - sketch.path, states[:, at : at + 2], atol=1e-5)


def test_an_arm_has_its_objects() -> None:
    _, sketch = sketched(ARM, ARM.eval_tasks[0])
    assert {"ground", "object"} <= set(sketch.kinds)


def test_a_point_is_drawn_on_its_plane() -> None:
    states, sketch = sketched(POINT, 200)
    np.testing.assert_allclose(sketch.path, states)
    np.testing.assert_allclose(sketch.bodies[0, 0, :2], goals()[200])
    assert sketch.radii[0] == RADIUS


def test_who_says_nothing_of_its_looks_is_not_drawn() -> None:
    assert not isinstance(TOY_REACH, SketchedSuite)
    assert sketch_of(TOY_REACH, 4, roll(TOY_REACH, 4, 0, 0).states) is None


def test_a_missing_package_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise MissingError(name)

    monkeypatch.setattr(dm_poses, "module", missing)
    assert sketch_of(CONTROL, 0) is None


@pytest.mark.parametrize("script", ["import os; os.abort()", "print('no picture')", ""])
def test_a_renderer_that_dies_leaves_no_photographs(
    script: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(script)
    monkeypatch.setattr(photographs, "__file__", str(broken))
    task = dm_control.NAMES.index("pendulum-swingup")
    assert CONTROL.photographs(task, states_of(CONTROL, task), [0, 3], 16) is None  # type: ignore[attr-defined]


def test_photographs_show_the_asked_steps_or_nothing() -> None:
    task = dm_control.NAMES.index("reacher-easy")
    photos = CONTROL.photographs(task, states_of(CONTROL, task), [0, 2, 4], 32)  # type: ignore[attr-defined]
    if photos is None:
        pytest.skip("no renderer: mujoco with OSMesa, e.g. Debian's libosmesa6")
    assert photos.shape == (3, 32, 32, 3)
    assert len(np.unique(photos)) > 10
