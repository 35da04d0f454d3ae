"""A first and a last trial side by side, as a moving picture.

The agent rolls out all its trials of one task again. It draws the same noise as it did in the
evaluation, so what is shown is what was measured.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import gymnasium as gym
import matplotlib
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from radt.agent import Agent
from radt.envs import render
from radt.envs.render import AGENT, FLOOR, START, BodyKind, Floats, GridView, Sketch, draw_grid
from radt.envs.suite import PhotographedSuite, SketchedSuite, TaskSuite, sketch_of
from radt.files import atomic_write
from radt.icl import env_seed
from radt.methods import Method
from radt.runs.run import Run, target_of

PANEL, MARGIN, CAPTION = 240, 12, 30  # pixels
MOST_FRAMES, FEWEST_FRAMES = 60, 8
MOST_BYTES = 300_000  # of a film, if fewer frames make that possible
FRAME_MS, LAST_MS = 90, 2500
COLOURS = 128
Place = Callable[[Floats], NDArray[np.float64]]  # where a point of the plane is on the canvas

FINER = 3  # pixels are drawn so much smaller and averaged
MARK = 0.5  # between two marks of a floor
INKS: dict[BodyKind, render.Colour] = {
    "ground": render.WALL,
    "goal": (212, 164, 54),  # darker than on grids, because it can be large
    "object": render.KEY,
    "robot": render.AGENT,
}


@dataclass(frozen=True)
class FilmMoment:
    """What was seen of a task after some steps of a trial."""

    trial: int  # from 1
    step: int
    total: float  # return so far
    seen: Any  # a picture, or a state to be drawn


class Camera(Protocol):
    """Sees every moment of a trial, and shows some of them later."""

    def see(self, obs: NDArray[Any]) -> Any:
        """Keep what is seen now."""

    def show(self, film: Sequence[FilmMoment], steps: Sequence[int]) -> list[Image.Image]:
        """Return how the task looks after some steps of a trial."""


@dataclass(frozen=True)
class EnvCamera:
    """Takes pictures of an environment that draws itself."""

    env: gym.Env[Any, Any]

    def see(self, obs: NDArray[Any]) -> Image.Image:
        """Draw a grid world cell by cell, and anything else as it draws itself."""
        view = getattr(self.env.unwrapped, "view", None)
        seen = view() if callable(view) else None
        pixels = draw_grid(seen, PANEL) if isinstance(seen, GridView) else self.env.render()
        picture = Image.fromarray(np.asarray(pixels, dtype=np.uint8))
        picture.thumbnail((PANEL, PANEL))
        return picture

    def show(self, film: Sequence[FilmMoment], steps: Sequence[int]) -> list[Image.Image]:
        return [film[step].seen for step in steps]


@dataclass(frozen=True)
class StateCamera:
    """Keeps states, and draws them as their suite photographs or sketches them."""

    suite: SketchedSuite
    task: int

    def see(self, obs: NDArray[Any]) -> NDArray[Any]:
        return np.array(obs)

    def show(self, film: Sequence[FilmMoment], steps: Sequence[int]) -> list[Image.Image]:
        """Draw states; a robot that was just paid is green where a reward means success."""
        states = np.stack([moment.seen for moment in film])  # [T, width]
        if isinstance(self.suite, PhotographedSuite):
            photos = self.suite.photographs(self.task, states, steps, PANEL)
            if photos is not None:
                return [Image.fromarray(photo) for photo in photos]
        paid = np.diff([moment.total for moment in film], prepend=0.0) > 0  # [T]
        paid &= self.suite.spaces.solved_above is not None
        sketch = self.suite.sketch(self.task, states)
        return [draw_sketch(sketch, step, PANEL, bool(paid[step])) for step in steps]


def camera_for(suite: TaskSuite, task: int, env: gym.Env[Any, Any]) -> Camera | None:
    """Choose how a task is filmed; None where it cannot be drawn."""
    if env.unwrapped.render_mode == "rgb_array":
        return EnvCamera(env)
    if isinstance(suite, SketchedSuite) and sketch_of(suite, task) is not None:
        return StateCamera(suite, task)
    return None


def trials_gif(run: Run, method: Method, task: int, path: Path) -> Path | None:
    """Show the first and the last trial of a task; None where the task cannot be drawn."""
    env = run.suite.make(task, render_mode="rgb_array")
    camera = camera_for(run.suite, task, env)
    if camera is None:
        return None
    config = run.config
    agent = Agent(method, target_of(run), config.evaluate.rule, config.seed, tasks=[task])
    last = config.evaluate.trials
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # one slot at a time is too little work to share
    try:
        filmed = film(agent, env, last, env_seed(config.seed, task), {1, last}, camera)
        content = small_gif(list(filmed.values()), camera)
    finally:
        torch.set_num_threads(threads)
        env.close()
    atomic_write(path, content)
    return path


def film(
    agent: Agent, env: gym.Env[Any, Any], trials: int, seed: int, watched: set[int], camera: Camera
) -> dict[int, list[FilmMoment]]:
    """Roll out the trials of one task (Algorithm 1) and keep what is seen of the watched ones."""
    agent.start_task()
    films: dict[int, list[FilmMoment]] = {trial: [] for trial in sorted(watched)}
    for trial in range(1, trials + 1):
        obs, _ = env.reset(seed=seed if trial == 1 else None)
        step, total, over = 0, 0.0, False
        while not over:
            if trial in films:
                films[trial].append(FilmMoment(trial, step, total, camera.see(obs)))
            obs, reward, terminated, truncated, _ = env.step(agent.act(obs))
            agent.observe(float(reward), terminated, truncated)
            step, total, over = step + 1, total + float(reward), terminated or truncated
        if trial in films:
            films[trial].append(FilmMoment(trial, step, total, camera.see(obs)))
    return films


def small_gif(films: Sequence[Sequence[FilmMoment]], camera: Camera) -> bytes:
    """Make a moving picture, of fewer frames where it would be too large."""
    frames = beside_each_other(films, camera)
    while len(content := gif(frames)) > MOST_BYTES and len(frames) > FEWEST_FRAMES:
        frames = [*frames[:-1:2], frames[-1]]
    return content


def beside_each_other(films: Sequence[Sequence[FilmMoment]], camera: Camera) -> list[Image.Image]:
    """Run films beside each other, skipping steps of long ones; short ones wait at their end."""
    length = max(len(film) for film in films)
    moments = np.linspace(0, length - 1, min(length, MOST_FRAMES)).round().astype(int)
    steps = [np.minimum(moments, len(film) - 1).tolist() for film in films]
    shown = [
        list(zip([film[step] for step in own], camera.show(film, own), strict=True))
        for film, own in zip(films, steps, strict=True)
    ]
    return [_compose(row) for row in zip(*shown, strict=True)]


def gif(frames: Sequence[Image.Image]) -> bytes:
    """Write frames with one small palette for all, and hold the last one."""
    chosen = [frames[at] for at in np.linspace(0, len(frames) - 1, 6).round().astype(int)]
    montage = Image.fromarray(np.concatenate([np.asarray(frame) for frame in chosen]))
    palette, written = montage.quantize(COLOURS, dither=Image.Dither.NONE), io.BytesIO()
    small = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    durations = [FRAME_MS] * (len(small) - 1) + [LAST_MS]
    small[0].save(
        written, format="GIF", save_all=True, append_images=small[1:], duration=durations, loop=0
    )
    return written.getvalue()


def _compose(shown: Sequence[tuple[FilmMoment, Image.Image]]) -> Image.Image:
    """Put pictures in a row, each with its trial, step and return above it."""
    height = max(picture.height for _, picture in shown)
    size = (len(shown) * (PANEL + MARGIN) + MARGIN, height + CAPTION + MARGIN)
    canvas = Image.new("RGB", size, FLOOR)
    draw = ImageDraw.Draw(canvas)
    for place, (moment, picture) in enumerate(shown):
        left = MARGIN + place * (PANEL + MARGIN)
        draw.text((left, 8), f"trial {moment.trial}", fill=AGENT, font=_font(13))
        earned = f"step {moment.step}   return {moment.total:.1f}".removesuffix(".0")
        right = left + picture.width
        draw.text((right, 9), earned, fill=START, font=_font(12), anchor="ra")
        canvas.paste(picture, (left, CAPTION))
    return canvas


def _font(size: int) -> ImageFont.FreeTypeFont:
    """Load the font that comes with Matplotlib, so that every machine draws the same letters."""
    return ImageFont.truetype(f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans.ttf", size)


def draw_sketch(sketch: Sketch, step: int, pixels: int, paid: bool = False) -> Image.Image:
    """Paint a state with the path that led to it; a robot that was just paid is green."""
    side = FINER * pixels
    scale = side / sketch.size
    corner = sketch.centre[step] + np.array([-0.5, 0.5]) * sketch.size  # upper left
    picture = Image.new("RGB", (side, side), render.FLOOR)
    pen = ImageDraw.Draw(picture)

    def at(places: Floats) -> NDArray[np.float64]:
        return np.asarray((places - corner) * (scale, -scale))

    def draw(*kinds: BodyKind) -> None:
        for body, radius, kind in zip(sketch.bodies[step], sketch.radii, sketch.kinds, strict=True):
            if kind in kinds:
                ink = render.REWARDED if paid and kind == "robot" else INKS[kind]
                _capsule(pen, at(body.reshape(2, 2)), radius * scale, ink, kind != "ground")

    if sketch.floor is not None:
        _floor(pen, at, sketch.floor, sketch.centre[step, 0], sketch.size / 2)
    draw("ground", "goal")
    way = at(sketch.path[: step + 1])
    pen.line([*way.ravel()], fill=render.TRAIL, width=2 * FINER, joint="curve")
    x, y = way[0]
    pen.ellipse(_box(x, y, 5 * FINER), outline=render.START, width=FINER)
    draw("object", "robot")
    pen.rectangle((0, 0, side - 1, side - 1), outline=render.LINE, width=FINER)
    return picture.resize((pixels, pixels), Image.Resampling.BOX)


def _floor(pen: ImageDraw.ImageDraw, at: Place, height: float, middle: float, half: float) -> None:
    """Draw a floor with marks, so that it can be seen to pass by."""
    low, high = middle - half, middle + half
    marks = np.arange(np.ceil(low / MARK), np.floor(high / MARK) + 1) * MARK
    ends = [(low, height, high, height), *((x, height, x, height - 0.05) for x in marks)]
    for line in np.array(ends).reshape(-1, 2, 2):
        pen.line([*at(line).ravel()], fill=render.WALL, width=FINER)


def _capsule(
    pen: ImageDraw.ImageDraw,
    ends: NDArray[np.float64],
    radius: float,
    ink: render.Colour,
    edged: bool,
) -> None:
    """Fill a body; a dark edge tells limbs apart."""
    radius = max(radius, 2.0 * FINER if edged else 0.5 * FINER)
    layers = [(radius + FINER, render.FLOOR), (radius, ink)] if edged else [(radius, ink)]
    for thick, colour in layers:
        pen.line([*ends.ravel()], fill=colour, width=round(2 * thick))
        for x, y in ends:
            pen.ellipse(_box(x, y, thick), fill=colour)


def _box(x: float, y: float, radius: float) -> tuple[float, float, float, float]:
    return x - radius, y - radius, x + radius, y + radius
