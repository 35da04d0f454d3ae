from __future__ import annotations

from io import BytesIO
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

from radt.agent import Agent, Target
from radt.config import RunConfig, compose, overrides
from radt.envs.suite import SUITES
from radt.icl import env_seed
from radt.methods import METHODS, Method
from radt.plots import episodes
from radt.plots.episodes import (
    FEWEST_FRAMES,
    MOST_BYTES,
    MOST_FRAMES,
    PANEL,
    EnvCamera,
    FilmMoment,
    beside_each_other,
    camera_for,
    film,
    small_gif,
    trials_gif,
)
from radt.runs.presets import preset_layers
from radt.runs.roll_out import Trials, roll_out
from radt.runs.run import Run
from radt.track import Tracker
from tests.toys import TOY_REACH


def run_of(method: str, out: Path, env: str = "dark-room-10x10", trials: int = 3) -> Run:
    layers = [*preset_layers(env, method, "smoke"), overrides([f"evaluate.trials={trials}"])]
    return Run(compose(layers)[0], out)


def built(config: RunConfig, run: Run) -> Method:
    return METHODS[config.method].build(run.suite.spaces, config.options, config.seed, None)


@pytest.mark.parametrize(
    ("method", "env"),
    [
        ("replay", "dark-room-10x10"),
        ("replay", "dark-room-10x10-slip"),
        ("dt", "dark-room-10x10"),
        ("random", "point-robot"),
    ],
)
def test_the_film_shows_what_was_measured(tmp_path: Path, method: str, env: str) -> None:
    run = run_of(method, tmp_path, env)
    actor = built(run.config, run)
    task = 81
    rule = run.config.evaluate.rule
    trials = Trials(run.suite, (80, task), 2, rule, run.config.seed)
    measured = roll_out(actor, trials, Tracker()).returns[1]
    agent = Agent(actor, Target(*run.suite.target_return), rule, run.config.seed, tasks=[task])
    env = run.suite.make(task, "rgb_array")
    seed = env_seed(run.config.seed, task)
    camera = camera_for(run.suite, task, env)
    assert camera is not None
    filmed = film(agent, env, 2, seed, {1, 2}, camera)
    assert [moments[-1].total for moments in filmed.values()] == measured.tolist()
    assert [len(moments) for moments in filmed.values()] == [101] * 2


def test_the_gif_is_small_and_holds_its_end(tmp_path: Path) -> None:
    run = run_of("sweep", tmp_path)
    path = trials_gif(run, built(run.config, run), 85, tmp_path / "trials.gif")
    assert path is not None
    assert path.stat().st_size < MOST_BYTES
    with Image.open(path) as gif:
        frames = gif.n_frames  # type: ignore[attr-defined]
        assert 1 < frames <= MOST_FRAMES
        assert 2 * PANEL < gif.size[0] < 3 * PANEL
        gif.seek(frames - 1)
        assert gif.info["duration"] > 1000


def test_what_cannot_be_drawn_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of("dt", tmp_path)
    actor = built(run.config, run)
    monkeypatch.setitem(SUITES._items, run.config.env, TOY_REACH)
    assert trials_gif(run, actor, 0, tmp_path / "trials.gif") is None
    assert not (tmp_path / "trials.gif").exists()


@pytest.mark.parametrize("env", ["point-robot", "meta-world"])
def test_robots_are_filmed_from_their_states(tmp_path: Path, env: str) -> None:
    run = run_of("random", tmp_path, env, trials=2)
    path = trials_gif(run, built(run.config, run), run.suite.eval_tasks[0], tmp_path / "trials.gif")
    assert path is not None
    assert path.stat().st_size < MOST_BYTES
    with Image.open(path) as gif:
        assert gif.n_frames > FEWEST_FRAMES  # type: ignore[attr-defined]


def test_a_large_film_has_fewer_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    shots = [Image.new("RGB", (PANEL, PANEL), (step, 0, 0)) for step in range(30)]
    moments = [FilmMoment(1, step, 0.0, shot) for step, shot in enumerate(shots)]
    monkeypatch.setattr(episodes, "MOST_BYTES", 1)
    with Image.open(BytesIO(small_gif([moments], EnvCamera(gym.Env())))) as gif:
        assert FEWEST_FRAMES // 2 <= gif.n_frames <= FEWEST_FRAMES  # type: ignore[attr-defined]


def test_a_short_film_waits_for_the_longer_one() -> None:
    picture, camera = Image.new("RGB", (PANEL, PANEL)), EnvCamera(gym.Env())
    long = [FilmMoment(1, step, 0.0, picture) for step in range(201)]
    frames = beside_each_other([long, long[:3]], camera)
    assert len(frames) == MOST_FRAMES
    assert frames[0].size == frames[-1].size


def test_other_environments_are_drawn_as_they_draw_themselves() -> None:
    class Square(gym.Env[int, int]):
        def render(self) -> np.ndarray:  # type: ignore[type-arg, override]
            return np.full((480, 480, 3), 7, np.uint8)

    picture = EnvCamera(Square()).see(np.zeros(1))
    assert picture.size == (PANEL, PANEL)
    assert picture.getpixel((5, 5)) == (7, 7, 7)
