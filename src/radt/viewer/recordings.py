"""Recorded trials as the page draws them: a trace, read trial by trial, with its scene."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from radt.envs.suite import SUITES, TaskSuite
from radt.experiments.trace import Contents, TraceError, read_trial
from radt.registry import UnknownNameError
from radt.viewer.library import contents_of
from radt.viewer.scene import Scene, action_names

COLUMNS = ("actions", "rewards", "chances", "attention", "searches", "entries")


def open_trace(path: Path) -> dict[str, Any]:
    """Describe a trace: its tasks with the returns of their trials."""
    contents = contents_of(path)
    suite = SUITES[contents.env]
    if not contents.tasks:
        raise TraceError(f"{path.name} holds no trial; evaluate again with `--trace`")
    return {
        "name": path.name,
        "env": contents.env,
        "method": contents.method,
        "cut": contents.cut,
        "actions": action_names(suite, contents.tasks[0]),
        "horizon": suite.spaces.horizon,
        "solved_above": suite.spaces.solved_above,
        "tasks": [_task(contents, suite, task) for task in contents.tasks],
    }


def open_trial(path: Path, task: int, trial: int) -> dict[str, Any]:
    """Describe one trial step by step."""
    contents = contents_of(path)
    place = contents.trials.get((task, trial))
    if place is None:
        raise UnknownNameError("trial", f"{trial} of task {task}", [])
    line, scene = read_trial(path, place), Scene(SUITES[contents.env], task)
    try:
        states, rewards = np.array(line["states"]), np.array(line["rewards"], np.float32)
        return {
            "trial": trial,
            "start": 0,
            "ground": scene.ground(states[0]),
            "cells": scene.cells(states, rewards),
            "marks": scene.marks(states, rewards, start=0),
            **{name: line[name] for name in COLUMNS},
        }
    except (KeyError, IndexError, TypeError) as error:
        raise TraceError(
            f"trial {trial} of task {task} in {path.name} is damaged: {error}"
        ) from error


def _task(contents: Contents, suite: TaskSuite, task: int) -> dict[str, Any]:
    places = sorted(
        (place for (own, _), place in contents.trials.items() if own == task),
        key=lambda place: place.trial,
    )
    return {
        "task": task,
        "says": suite.describe(task),
        "trained": task in suite.train_tasks,
        "optimum": suite.optimal_return(task),
        "trials": [place.trial for place in places],
        "returns": [place.total_return for place in places],
    }
