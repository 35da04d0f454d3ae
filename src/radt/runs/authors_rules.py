"""What the authors' way of evaluating Algorithm Distillation costs it.

Their code takes AD's best action where it samples RA-DT's, and leaves attention dropout on while AD
acts. Here trained runs of AD roll out the same trials under our rule and under theirs, one
change at a time; nothing is trained.

    python -m radt.runs.authors_rules runs/dark-room-10x10/ad-seed0 ... --out FILE
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import tyro

from radt.agent import ActionRule
from radt.methods import Method
from radt.methods.ad import AD
from radt.model.attention import SelfAttention
from radt.runs.compare import read_config
from radt.runs.evaluate import load_trained, roll_out, trials_of
from radt.runs.questions import scores, write_answer
from radt.runs.run import Run
from radt.track import Tracker

DROPOUT = 0.1  # of attention, in the authors' fused path
BEST = ActionRule(temperature=0.0)


@dataclass(frozen=True)
class EvaluationRule:
    """One way of evaluating."""

    name: str
    rule: ActionRule | None = None  # None: the run's own
    dropout: float = 0.0


WAYS = (
    EvaluationRule("as here"),
    EvaluationRule("best action", BEST),
    EvaluationRule("attention dropout", dropout=DROPOUT),
    EvaluationRule("best action and attention dropout, as the authors", BEST, DROPOUT),
)


def in_every_way(folder: Path) -> Iterator[dict[str, Any]]:
    """Evaluate one run in every way."""
    run = Run(read_config(folder), folder, threads=1)
    for way in WAYS:
        method, trials = load_trained(run), trials_of(run)
        trials = replace(trials, rule=way.rule or trials.rule)
        torch.manual_seed(run.config.seed)  # of the dropout
        with dropped(method, way.dropout):
            returns = roll_out(method, trials, Tracker()).returns  # [task, trial]
        updates = run.config.learn.updates
        yield {"way": way.name, "seed": run.config.seed, "updates": updates, **scores(returns)}


@contextmanager
def dropped(method: Method, chance: float) -> Iterator[None]:
    """Leave attention dropout on while a method acts; a cache would skip it, so there is none."""
    if not chance:
        yield
        return
    if not isinstance(method, AD):
        raise TypeError(f"the authors' way is that of AD, not of {method.name}")
    options, act = method.options, method.actor
    attention = [part for part in method.policy.modules() if isinstance(part, SelfAttention)]

    def actor(slots: int) -> Any:
        made = act(slots)  # which puts the policy to rest
        for part in attention:
            part.train()
            part.dropout = chance
        return made

    method.options = replace(options, cache=False)
    method.actor = actor  # type: ignore[method-assign]
    yield
    for part in attention:
        part.eval()
    method.options, method.actor = options, act  # type: ignore[method-assign]


def main(
    runs: tyro.conf.Positional[tuple[Path, ...]], out: Path = Path("authors-rules.json")
) -> None:
    """Evaluate trained runs of AD in every way, write what came out and print it."""
    torch.set_num_threads(1)
    lines = [line for folder in runs for line in in_every_way(folder)]
    write_answer(out, {"dropout": DROPOUT, "ways": lines})
    for line in lines:
        low, high = line["ci95_tasks"]
        print(
            f"{line['way']:<50} seed {line['seed']}  {line['score']:5.1f} [{low:.1f}, {high:.1f}]"
        )


if __name__ == "__main__":
    tyro.cli(main)
