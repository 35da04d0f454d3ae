"""A first and a last trial side by side, as a moving picture.

The agent rolls out all its trials of one task again. It draws the same noise as it did in the
evaluation, so what is shown is what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import matplotlib
import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from radt.agent import Agent
from radt.envs.render import AGENT, FLOOR, START, GridView, draw_grid
from radt.files import atomic_write
from radt.icl import env_seed
from radt.methods import Method
from radt.runs.run import Run, target_of

PANEL, MARGIN, CAPTION = 240, 12, 30  # pixels
MOST_FRAMES = 60
FRAME_MS, LAST_MS = 90, 2500
COLOURS = 128


@dataclass(frozen=True)
class FilmMoment:
    """How a task looks after some steps of a trial."""

    trial: int  # from 1
    step: int
    total: float  # return so far
    picture: Image.Image


def trials_gif(run: Run, method: Method, task: int, path: Path) -> Path | None:
    """Show the first and the last trial of a task; None where the environment cannot be drawn."""
    env = run.suite.make(task, render_mode="rgb_array")
    if env.unwrapped.render_mode != "rgb_array":
        return None
    config = run.config
    agent = Agent(method, target_of(run), config.evaluate.rule, config.seed, tasks=[task])
    last = config.evaluate.trials
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # one slot at a time is too little work to share
    try:
        filmed = film(agent, env, last, env_seed(config.seed, task), {1, last})
    finally:
        torch.set_num_threads(threads)
        env.close()
    frames = beside_each_other(list(filmed.values()))
    atomic_write(path, lambda file: save_gif(frames, file))
    return path


def film(
    agent: Agent, env: gym.Env[Any, Any], trials: int, seed: int, watched: set[int]
) -> dict[int, list[FilmMoment]]:
    """Roll out the trials of one task (Algorithm 1) and keep pictures of the watched ones."""
    agent.start_task()
    films: dict[int, list[FilmMoment]] = {trial: [] for trial in sorted(watched)}
    for trial in range(1, trials + 1):
        obs, _ = env.reset(seed=seed if trial == 1 else None)
        step, total, over = 0, 0.0, False
        while not over:
            if trial in films:
                films[trial].append(FilmMoment(trial, step, total, take_picture(env)))
            obs, reward, terminated, truncated, _ = env.step(agent.act(obs))
            agent.observe(float(reward), terminated, truncated)
            step, total, over = step + 1, total + float(reward), terminated or truncated
        if trial in films:
            films[trial].append(FilmMoment(trial, step, total, take_picture(env)))
    return films


def take_picture(env: gym.Env[Any, Any]) -> Image.Image:
    """Draw a grid world cell by cell, and anything else as it draws itself."""
    view = getattr(env.unwrapped, "view", None)
    seen = view() if callable(view) else None
    pixels = draw_grid(seen, PANEL) if isinstance(seen, GridView) else env.render()
    picture = Image.fromarray(np.asarray(pixels, dtype=np.uint8))
    picture.thumbnail((PANEL, PANEL))
    return picture


def beside_each_other(films: Sequence[Sequence[FilmMoment]]) -> list[Image.Image]:
    """Run films beside each other, skipping steps of long ones; short ones wait at their end."""
    length = max(len(film) for film in films)
    count = min(length, MOST_FRAMES)
    moments = np.linspace(0, length - 1, count).round().astype(int).tolist()
    return [_compose([film[min(at, len(film) - 1)] for film in films]) for at in moments]


def save_gif(frames: Sequence[Image.Image], file: Path) -> None:
    """Write frames with one small palette for all, and hold the last one."""
    palette = _palette(frames)
    small = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    durations = [FRAME_MS] * (len(small) - 1) + [LAST_MS]
    small[0].save(
        file, format="GIF", save_all=True, append_images=small[1:], duration=durations, loop=0
    )


def _palette(frames: Sequence[Image.Image]) -> Image.Image:
    """Choose the colours that a few frames of the beginning, the middle and the end need."""
    chosen = [frames[at] for at in np.linspace(0, len(frames) - 1, 6).round().astype(int)]
    montage = Image.fromarray(np.concatenate([np.asarray(frame) for frame in chosen]))
    return montage.quantize(COLOURS, dither=Image.Dither.NONE)


def _compose(moments: Sequence[FilmMoment]) -> Image.Image:
    """Put pictures in a row, each with its trial, step and return above it."""
    height = max(moment.picture.height for moment in moments)
    size = (len(moments) * (PANEL + MARGIN) + MARGIN, height + CAPTION + MARGIN)
    canvas = Image.new("RGB", size, FLOOR)
    draw = ImageDraw.Draw(canvas)
    for place, moment in enumerate(moments):
        left = MARGIN + place * (PANEL + MARGIN)
        draw.text((left, 8), f"trial {moment.trial}", fill=AGENT, font=_font(13))
        earned = f"step {moment.step}   return {moment.total:g}"
        right = left + moment.picture.width
        draw.text((right, 9), earned, fill=START, font=_font(12), anchor="ra")
        canvas.paste(moment.picture, (left, CAPTION))
    return canvas


def _font(size: int) -> ImageFont.FreeTypeFont:
    """Load the font that comes with Matplotlib, so that every machine draws the same letters."""
    return ImageFont.truetype(f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans.ttf", size)
