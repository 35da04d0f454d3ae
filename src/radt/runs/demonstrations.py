"""What demonstrations buy: an agent's first trial with k expert episodes in its memory.

The paper's first item of future work. The episodes come from an oracle of the environment, since
the data hold none of the unseen tasks; nothing is trained.

    python -m radt.runs.demonstrations runs/x ... --out results/memory/demonstrations.json
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

from radt.errors import RunError
from radt.memory.demonstrations import from_oracle
from radt.runs.evaluate import optima, roll_out
from radt.runs.questions import read_weights, write_answer
from radt.track import Tracker


def main(
    runs: tyro.conf.Positional[tuple[Path, ...]],
    episodes: tuple[int, ...] = (0, 1, 4),
    trials: int = 10,
    noise: tuple[float, ...] = (0.0, 0.2),
    out: Path = Path("results/memory/demonstrations.json"),
) -> None:
    """Show trained agents some demonstrations, write what came of it and print it.

    Args:
        runs: folders of trained runs, or checkpoints.
        episodes: numbers of episodes that are shown.
        trials: of each task; the first is what this is about.
        noise: shares of a demonstrator's steps that are random.
        out: where the answer goes.
    """
    torch.set_num_threads(1)
    shown = [(k, share) for k in episodes for share in (noise if k else (0.0,))]
    lines = [with_demonstrations(path, trials, *each) for path in runs for each in shown]
    write_answer(out, {"measured": lines})
    for line in lines:
        who = f"{line['env']} {line['method']} seed {line['seed']}"
        what = f"{line['episodes']} episodes, {line['noise']:.0%} noise"
        print(f"{who}: {what}: trial 1 {line['trial_1']:.1f}, last {line['last_trial']:.1f}")


def with_demonstrations(path: Path, count: int, k: int, noise: float) -> dict[str, Any]:
    """Fill a memory with k episodes of each unseen task and see what a trained agent earns."""
    method, card, trials = read_weights(path, count)
    own = method.actor(1).memory
    if own is None:
        raise RunError(f"{path} is trained with {card.method}, which has no memory to fill")
    memory = own.at("ram:")
    shown = [
        episode
        for task in trials.tasks
        for episode in from_oracle(trials.suite, task, k, card.seed, noise)
    ]
    memory.write(shown)
    entries = len(memory)
    returns = roll_out(method, trials, Tracker(), memory=memory).returns  # [task, trial]
    best = [value for value in optima(trials) if value is not None]
    return {
        "env": card.env,
        "method": card.method,
        "seed": card.seed,
        "episodes": k,
        "noise": noise,
        "entries": entries,
        "shown_return": _mean([episode.total_return for episode in shown]),
        "optimum": _mean(best),
        "trial_1": float(returns[:, 0].mean()),
        "last_trial": float(returns[:, -1].mean()),
        "action_rule": asdict(trials.rule),
        "returns": returns.tolist(),
    }


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


if __name__ == "__main__":
    tyro.cli(main)
