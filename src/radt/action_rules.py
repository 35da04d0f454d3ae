"""How an action is chosen, and the names of the rules that tables are made under.

| rule              | what it does                                                                |
|-------------------|-----------------------------------------------------------------------------|
| `paper`           | samples from the softmax                                                    |
| `authors`         | RA-DT samples among its two best actions, other methods take the best one   |
| `explore-exploit` | flattens the softmax until a task's first success, and sharpens it then     |

For continuous actions it depends on the head (`model.action_head`) what that means:

| rule              | `gaussian`                            | `bins`, in each dimension            |
|-------------------|---------------------------------------|--------------------------------------|
| `paper`           | samples                               | samples from the softmax             |
| `authors`         | RA-DT samples, others take the mean   | RA-DT: two best bins, others: best   |
| `explore-exploit` | samples with twice the standard       | flattens the softmax, then sharpens  |
|                   | deviation, then with half of it       |                                      |

`mse` predicts one action, which every rule takes. A Gaussian has no second best action: `keep_best`
changes it only where it is 1, which is the mean. Of `nucleus` it keeps the middle part. Samples are
clipped to [-1, 1].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from radt.registry import UnknownNameError


@dataclass(frozen=True)
class ActionRule:
    """How an action is chosen: one rule for every method that is compared."""

    temperature: float = 1.0  # of the softmax, or times a standard deviation; 0: the best action
    explore_temperature: float | None = None  # while a slot explores; None: the same
    keep_best: int | None = None  # sample only among so many actions; the authors' code: 2
    nucleus: float | None = None  # sample only among the likeliest that make up this probability

    def __post_init__(self) -> None:
        for temperature in (self.temperature, self.explore_temperature or 0.0):
            if not 0 <= temperature < np.inf:
                raise ValueError(f"a temperature must be a number from 0 on, not {temperature}")
        if self.keep_best is not None and self.keep_best < 1:
            raise ValueError(f"keep_best must leave at least one action, not {self.keep_best}")
        if self.nucleus is not None and not 0 < self.nucleus <= 1:
            raise ValueError(f"nucleus must be a probability above 0, not {self.nucleus}")

    def choose(
        self, logits: Tensor, uniform: NDArray[np.float64], exploring: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Pick actions [B] from logits [B, A] with one uniform number [B] each."""
        ladder = np.cumsum(self.weigh(logits, exploring), axis=1)
        above_zero = np.maximum(uniform, np.finfo(np.float64).tiny)  # 0 would take any first action
        return np.asarray((ladder < above_zero[:, None] * ladder[:, -1:]).sum(axis=1))

    def weigh(self, logits: Tensor, exploring: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Say how likely each action is, up to a factor of its row: logits [B, A] -> [B, A]."""
        temperature = self.temperatures(exploring)[:, None]  # [B, 1]
        values = logits.double().cpu().numpy()
        if self.keep_best is not None:
            kept = min(self.keep_best, values.shape[1])
            floor = np.sort(values, axis=1)[:, -kept][:, None]
            values = np.where(values >= floor, values, -np.inf)
        values = values - values.max(axis=1, keepdims=True)
        chance = np.exp(values / np.maximum(temperature, 1e-9))
        if self.nucleus is not None:
            chance = likeliest(chance, self.nucleus)
        return np.asarray(chance)

    def temperatures(self, exploring: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the temperature of each row, [B]."""
        explore = self.temperature if self.explore_temperature is None else self.explore_temperature
        return np.where(exploring, explore, self.temperature)


def likeliest(chance: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Zero all but the fewest actions [B, A] that together have this share of the probability."""
    order = np.argsort(-chance, axis=1, kind="stable")
    sorted_chance = np.take_along_axis(chance, order, axis=1)
    before = np.cumsum(sorted_chance, axis=1) - sorted_chance  # what likelier actions have
    kept = np.zeros(chance.shape, dtype=bool)
    enough = share * chance.sum(axis=1, keepdims=True)
    np.put_along_axis(kept, order, before < enough, axis=1)
    return np.where(kept, chance, 0.0)


RULES = ("paper", "authors", "explore-exploit")
OTHER = "other"


def named_rule(name: str, method: str) -> ActionRule:
    """Return the rule of a name for a method (a name in METHODS)."""
    if name not in RULES:
        raise UnknownNameError("action rule", name, list(RULES))
    if name == "authors":
        return ActionRule(keep_best=2) if method == "ra-dt" else ActionRule(temperature=0.0)
    return ActionRule() if name == "paper" else ActionRule(0.5, explore_temperature=2.0)


def rule_name(rule: ActionRule, method: str) -> str:
    """Return the name of a method's rule, `other` where it has none."""
    return next((name for name in RULES if named_rule(name, method) == rule), OTHER)
