"""What demonstrations buy: an agent's first trial with k expert episodes in its memory.

The paper's first item of future work. The episodes come from an oracle of the environment, since
the data hold none of the unseen tasks; nothing is trained.

    python -m radt.experiments.demonstrations runs/x ... --out results/memory/demonstrations.json
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

from radt.agent import ActionRule
from radt.checkpoint import Card, load_checkpoint
from radt.decode import decode
from radt.envs.suite import SUITES
from radt.experiments.evaluate import Trials, live, optima
from radt.experiments.provenance import machine
from radt.experiments.run import CHECKPOINT, RunError
from radt.files import atomic_write
from radt.memory.demonstrations import from_oracle
from radt.memory.memory import Memory
from radt.methods import Method
from radt.track import Tracker
from radt.version import code_version


@dataclass(frozen=True)
class Ask:
    """Which trained runs or checkpoints to ask, and where the answer goes."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    episodes: tuple[int, ...] = (0, 1, 4)  # k
    trials: int = 10  # of each task; the first is what this is about
    noise: tuple[float, ...] = (0.0, 0.2)  # share of a demonstrator's steps that are random
    out: Path = Path("results/memory/demonstrations.json")


def measure(path: Path, ask: Ask) -> list[dict[str, Any]]:
    """Let one trained agent live on its unseen tasks, once for each number of demonstrations."""
    method, card = load_checkpoint(path / CHECKPOINT if path.is_dir() else path)
    own = method.actor(1).memory
    if own is None:
        raise RunError(f"{path} is trained with {card.method}, which has no memory to fill")
    trials = _trials(card, ask.trials)
    shown = [(k, noise) for k in ask.episodes for noise in (ask.noise if k else (0.0,))]
    return [_measure(method, card, own.at("ram:"), trials, *each) for each in shown]


def _trials(card: Card, count: int) -> Trials:
    suite, rule = SUITES[card.env], decode(ActionRule, card.action_rule, "action_rule")
    return Trials(suite, suite.eval_tasks, count, rule, card.seed)


def _measure(
    method: Method, card: Card, memory: Memory, trials: Trials, k: int, noise: float
) -> dict[str, Any]:
    """Fill a memory with k episodes of each task and look at what comes of it."""
    shown = [from_oracle(trials.suite, task, k, card.seed, noise) for task in trials.tasks]
    memory.write([episode for episodes in shown for episode in episodes])
    entries = len(memory)
    returns = live(method, trials, Tracker(), memory=memory).returns  # [task, trial]
    best = [value for value in optima(trials) if value is not None]
    return {
        "env": card.env,
        "method": card.method,
        "seed": card.seed,
        "episodes": k,
        "noise": noise,
        "entries": entries,
        "shown_return": _mean([e.total_return for episodes in shown for e in episodes]),
        "optimum": _mean(best),
        "trial_1": float(returns[:, 0].mean()),
        "last_trial": float(returns[:, -1].mean()),
        "action_rule": asdict(trials.rule),
        "returns": returns.tolist(),
    }


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def main(ask: Ask) -> None:
    """Ask every run and write what came out."""
    torch.set_num_threads(1)
    lines = [line for path in ask.runs for line in measure(path, ask)]
    record = {"code_version": code_version(), "machine": machine(), "measured": lines}
    atomic_write(ask.out, (json.dumps(record, indent=1) + "\n").encode())
    for line in lines:
        who = f"{line['env']} {line['method']} seed {line['seed']}"
        shown = f"{line['episodes']} episodes, {line['noise']:.0%} noise"
        print(f"{who}: {shown}: trial 1 {line['trial_1']:.1f}, last {line['last_trial']:.1f}")


if __name__ == "__main__":
    main(tyro.cli(Ask))
