"""Made-up results in the format of `icl.json`, for the tests of plots and tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from radt.config import compose, overrides
from radt.runs.presets import preset_layers

ENV = "dark-room-10x10"
VARIANT = "dark-room-10x10-slip"
# level reached, trials until a goal is found on average, and the spread between tasks
SHAPES = {
    "dt": (8.0, 40.0, 6.0),
    "ra-dt": (62.0, 6.0, 10.0),
    "ra-dt+": (84.0, 3.0, 4.0),
    "replay": (87.0, 4.0, 3.0),
    "retrace": (87.5, 4.0, 3.0),
    "sweep": (90.0, 1.2, 1.0),
}


MEASURED: dict[str, Any] = {
    "cost": {
        "parameters": 1234,
        "input_steps": 50,
        "retrieved_steps": 100,
        "tokens_per_decision": 150,
        "flops_per_decision": 2.5e6,
        "targets_per_update": 1600.0,
    },
    "speed": {"samples_per_second": 640.0, "decisions_per_second": 2000.0},
    "learning": [
        {"update": 1000, "trial_1": 3.0, "trial_10": 20.0},
        {"update": 2000, "trial_1": 4.0, "trial_10": 40.0},
    ],
}


def synthetic_record(
    method: str,
    seed: int = 0,
    trials: int = 40,
    tasks: int = 20,
    variant: bool = False,
    source: str = "ppo",
) -> dict[str, Any]:
    """Return a result whose tasks jump to their level once their goal is found."""
    rng = np.random.default_rng([seed, sum(map(ord, method))])
    choice = overrides([f"evaluate.trials={trials}", f"seed={seed}", f"source={source}"])
    config, _ = compose(preset_layers(ENV, method, "smoke", choice))
    record = {
        "experiment": "icl",
        "env": ENV,
        "method": method,
        "seed": seed,
        "budget": "smoke",
        "split": "final",
        "tasks": list(range(80, 80 + tasks)),
        "returns": synthetic_returns(method, rng, trials, tasks),
        "optimum": [91.1] * tasks,
        "action_rule": {"temperature": 0.5, "explore_temperature": 2.0, "keep_best": None},
        "config": config.to_json(),
        "code_version": "0.1.0+abc",
        "machine": {"system": "Linux", "cores": 2},
        "wall_seconds": {"train": 60.0, "evaluate": 30.0},
        "variants": {},
    }
    if variant:
        returns = synthetic_returns(method, rng, trials, tasks)
        record["variants"] = {VARIANT: {"returns": returns, "optimum": [88.0] * tasks}}
    return record


def synthetic_returns(
    method: str, rng: np.random.Generator, trials: int, tasks: int
) -> list[list[float]]:
    """Draw returns [task][trial]: nothing before the goal is found, about the level after it."""
    level, patience, width = SHAPES[method]
    found = rng.geometric(1.0 / patience, size=tasks)[:, None] - 1  # [task, 1]
    trial = np.arange(trials)[None]
    reached = level + rng.normal(0.0, width, (tasks, 1)) + rng.normal(0.0, width, (tasks, trials))
    earned = np.clip(reached, 1.0, 91.0) * (1.0 - 0.5 * np.exp(-(trial - found).clip(0) / 3.0))
    return np.where(trial >= found, earned, 0.0).round(1).tolist()


def dense_record(label: str, seed: int = 0, trials: int = 24, tasks: int = 8) -> dict[str, Any]:
    """Return a result on `toy-reach`: continuous actions, costs, no optimum, no success.

    It has all that newer evaluations measure: controls, further rules, the data's returns, and
    what is 0 and 1 on the normalised scale. Its method is RA-DT whatever the label.
    """
    rng = np.random.default_rng([seed, sum(map(ord, label))])
    choice = overrides([f"evaluate.trials={trials}", f"seed={seed}"])
    config, _ = compose(preset_layers("toy-reach", "ra-dt", "smoke", choice))
    base = -900.0 + rng.normal(0.0, 60.0, (tasks, 1))
    learned = 600.0 * (1.0 - np.exp(-np.arange(trials) / 5.0))[None]

    def costs(share: float) -> list[list[float]]:
        return (base + share * learned + rng.normal(0.0, 25.0, (tasks, trials))).round(1).tolist()

    controls = {"erased": 0.0, "other-task": 0.2, "best-trial": 1.0, "oracle": 1.2}
    returns = costs(1.0)
    best = (np.array(returns) - rng.normal(0.0, 5.0, (tasks, trials))).round(1).tolist()
    return {
        **synthetic_record("ra-dt", seed),
        "env": "toy-reach",
        "label": label,
        "rule": "explore-exploit",
        "tasks": list(range(tasks)),
        "returns": returns,
        "controls": {
            name: {"returns": best if name == "best-trial" else costs(share)}
            for name, share in controls.items()
        },
        "rules": {
            "paper": {
                "action_rule": {"temperature": 1.0},
                "returns": costs(0.8),
                "controls": {"erased": {"returns": costs(0.0)}},
            }
        },
        "data": {"mean_return": -700.0, "best_return": -210.5},
        "scoring": {"kind": "data-normalised", "low": [-1000.0] * tasks, "high": [-200.0] * tasks},
        "solved_above": None,
        "optimum": [None] * tasks,
        "config": config.to_json(),
    }


def save(folder: Path, record: dict[str, Any]) -> Path:
    """Write a result into a new folder."""
    folder.mkdir(parents=True)
    path = folder / "icl.json"
    path.write_text(json.dumps(record))
    return path
