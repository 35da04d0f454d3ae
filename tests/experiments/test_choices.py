from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from radt.experiments import choices as module
from radt.experiments.choices import PROBED, Choices, choose, recall

Learner = Any


class Toy:
    """As much of a method as is measured; it writes down how it was asked to compute."""

    def __init__(self) -> None:
        self.networks: dict[str, nn.Module] = {"policy": nn.Linear(2, 1)}
        self.calls: list[tuple[int, bool]] = []

    def loss(self, examples: Tensor) -> Tensor:
        self.calls.append((torch.get_num_threads(), torch.is_autocast_enabled("cpu")))
        return torch.as_tensor(self.networks["policy"](examples).square().mean())


def probe(toy: Learner) -> Callable[[], tuple[Any, list[Any]]]:
    return lambda: (toy, [torch.ones(3, 2)] * PROBED)


def refuse() -> tuple[Any, list[Any]]:
    raise AssertionError("measured again")


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Let tests say how fast each candidate is on a machine of two cores."""
    speeds = {
        "1 threads, float32": 0.5,
        "2 threads, float32": 0.4,
        "1 threads, bfloat16": 0.39,
        "2 threads, bfloat16": 0.36,
    }
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(module, "_seconds", lambda choices, *_: speeds[choices.name])
    return speeds


def test_the_fastest_is_measured_once_and_kept(tmp_path: Path) -> None:
    toy, file = Toy(), tmp_path / "choices.json"
    first = choose(file, probe(toy), updates=1)
    assert first.name in first.measured
    assert len(toy.calls) == PROBED * len(first.measured)
    assert {rounded for _, rounded in toy.calls} == {True, False}
    assert choose(file, refuse, updates=1, requested=7) == first
    assert torch.get_num_threads() == first.threads
    torch.set_num_threads(first.threads + 1)
    assert recall(file) == first
    assert torch.get_num_threads() == first.threads


def test_what_is_asked_for_is_not_measured(tmp_path: Path) -> None:
    choices = choose(tmp_path / "choices.json", refuse, updates=1, requested=1)
    assert choices == Choices(1)
    assert torch.get_num_threads() == 1
    assert json.loads((tmp_path / "choices.json").read_text())["measured"] == {}
    assert recall(tmp_path / "nothing.json") is None


def test_rounding_has_to_be_worth_it(seconds: dict[str, float], tmp_path: Path) -> None:
    kept = choose(tmp_path / "a.json", probe(Toy()), updates=1)
    assert (kept.threads, kept.precision, kept.compiled) == (2, "float32", False)
    assert kept.measured == seconds
    seconds["1 threads, bfloat16"] = 0.33
    rounded = choose(tmp_path / "b.json", probe(Toy()), updates=1)
    assert (rounded.threads, rounded.precision) == (1, "bfloat16")


@pytest.mark.parametrize(("compiled", "chosen"), [(0.2, True), (0.4, False)])
def test_long_training_is_compiled_if_that_saves_time(
    seconds: dict[str, float], compiled: float, chosen: bool, tmp_path: Path
) -> None:
    seconds["2 threads, float32, compiled"] = compiled
    choices = choose(tmp_path / "choices.json", probe(Toy()), updates=3001)
    assert choices.compiled == chosen
    assert choices.measured["2 threads, float32, compiled"] == compiled


def test_a_compiler_that_fails_is_noted(
    monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float], tmp_path: Path
) -> None:
    def fail(choices: Choices, *_: Any) -> float:
        if choices.compiled:
            raise OSError("no compiler at /usr/bin/cc")
        return seconds[choices.name]

    monkeypatch.setattr(module, "_seconds", fail)
    choices = choose(tmp_path / "choices.json", probe(Toy()), updates=3001)
    assert (choices.compiled, choices.note) == (False, "not compiled: OSError")


def test_a_rounded_loss_leaves_weights_and_gradients_alone() -> None:
    toy: Any = Toy()
    examples = torch.tensor([[1.0, 1 / 3]])
    exact, rounded = Choices(1).loss(toy), Choices(1, precision="bfloat16").loss(toy)
    assert exact == toy.loss
    assert 0 < (exact(examples) - rounded(examples)).abs().item() < 0.1
    rounded(examples).backward()
    weight = toy.networks["policy"].weight
    assert weight.dtype == weight.grad.dtype == torch.float32
