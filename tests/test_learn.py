from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from radt.checkpoint import CheckpointError, read_tensors, write_tensors
from radt.data import Dataset
from radt.envs.suite import SUITES
from radt.learn import LearnConfig, learn, learning_rate, loss_of, optimiser
from radt.methods import Method
from radt.track import Tracker
from tests.contracts.method import LEARNING, OPTIONS, TINY, build_method, roll_out, toy_dataset
from tests.toys import TOY_GRID

CONFIG = LearnConfig(
    updates=9,
    batch_size=8,
    learning_rate=3e-3,
    final_learning_rate=1e-4,
    warmup=3,
    evaluate_every=0,
    log_every=1,
    save_every=3,
)


class Lines:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, int, dict[str, float]]] = []

    def write(self, phase: str, step: int, values: dict[str, float]) -> None:
        self.lines.append((phase, step, values))

    def close(self) -> None:
        """Nothing to close."""

    def column(self, name: str) -> list[float]:
        return [values[name] for _, _, values in self.lines if name in values]


@pytest.fixture(autouse=True)
def _known_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the toy grid: an oracle is looked up by the name of the data's environment."""
    monkeypatch.setitem(SUITES._items, TOY_GRID.name, TOY_GRID)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return toy_dataset(TOY_GRID, tmp_path_factory.mktemp("grid"), episodes=6)


def prepared(name: str, dataset: Dataset, dropout: float = 0.0) -> Method:
    options = {**OPTIONS[name], "model": {**OPTIONS[name].get("model", TINY), "dropout": dropout}}
    method = build_method(name, TOY_GRID.spaces, options)
    method.prepare(dataset)
    return method


def trained(
    method: Method,
    file: Path,
    config: LearnConfig = CONFIG,
    evaluate: Callable[[int], dict[str, float]] | None = None,
) -> Lines:
    lines = Lines()
    learn(method, config, 0, file, Tracker((lines,)), evaluate)
    return lines


def assert_same_state(one: Path, other: Path) -> None:
    (mine, header), (theirs, other_header) = read_tensors(one), read_tensors(other)
    assert header == other_header
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert torch.equal(mine[name], theirs[name]), name


class KilledError(Exception):
    """Stands for the end of the process."""


def kill_at(method: Method, draws: int) -> None:
    """Let a method die when it draws for the so-many-th time."""
    real, count = method.draw, 0

    def draw(size: int, rng: np.random.Generator) -> Any:
        nonlocal count
        count += 1
        if count == draws:
            raise KilledError
        return real(size, rng)

    method.draw = draw  # type: ignore[method-assign]


@pytest.mark.parametrize("name", LEARNING)
def test_a_killed_run_ends_as_an_uninterrupted_one(
    name: str, dataset: Dataset, tmp_path: Path
) -> None:
    whole = trained(prepared(name, dataset, dropout=0.2), tmp_path / "whole")
    losses: dict[int, float] = {}
    for draws in (2, 5, 1, 4, 100):  # before the first save, between saves, at once, ...
        method = prepared(name, dataset, dropout=0.2)
        kill_at(method, draws)
        lines = Lines()
        try:
            learn(method, CONFIG, 0, tmp_path / "killed", Tracker((lines,)))
        except KilledError:
            torch.manual_seed(draws)  # nothing depends on the ambient generator
        losses |= {step: values["loss"] for _, step, values in lines.lines}
    assert_same_state(tmp_path / "whole", tmp_path / "killed")
    assert [losses[step] for step in sorted(losses)] == whole.column("loss")
    tensors, header = read_tensors(tmp_path / "killed")
    assert header["updates"] == "9"
    assert {name.split(".")[0] for name in tensors} == {"policy", "adam"}
    moments = [tensor for name, tensor in tensors.items() if name.startswith("adam.exp_avg_sq")]
    assert sum(float(moment.sum()) for moment in moments) > 0


@pytest.mark.parametrize(
    ("name", "seed", "config", "said"),
    [
        ("dt", 1, CONFIG, "seed: 0 there, 1 now"),
        ("dt", 0, replace(CONFIG, learning_rate=1e-3), "learn.learning_rate: 0.003 there"),
        ("ad", 0, CONFIG, "method: 'dt' there, 'ad' now"),
    ],
)
def test_the_state_of_another_training_is_refused(
    name: str, seed: int, config: LearnConfig, said: str, dataset: Dataset, tmp_path: Path
) -> None:
    trained(prepared("dt", dataset), tmp_path / "state")
    content = (tmp_path / "state").read_bytes()
    with pytest.raises(CheckpointError, match=f"state of another training .{said}.*; delete it"):
        learn(prepared(name, dataset), config, seed, tmp_path / "state", Tracker())
    assert (tmp_path / "state").read_bytes() == content


def test_a_state_goes_on_with_other_intervals_and_from_before_it_told_its_training(
    dataset: Dataset, tmp_path: Path
) -> None:
    method = prepared("dt", dataset)
    kill_at(method, 5)
    with pytest.raises(KilledError):
        trained(method, tmp_path / "state")
    tensors, header = read_tensors(tmp_path / "state")
    write_tensors(tmp_path / "state", tensors, {"updates": header["updates"]})
    for intervals in ({"save_every": 1}, {"log_every": 2}):
        method = prepared("dt", dataset)
        kill_at(method, 2)
        with pytest.raises(KilledError):
            trained(method, tmp_path / "state", replace(CONFIG, **intervals))
    trained(prepared("dt", dataset), tmp_path / "state")
    trained(prepared("dt", dataset), tmp_path / "whole")
    assert_same_state(tmp_path / "whole", tmp_path / "state")


def test_a_finished_run_is_left_alone(dataset: Dataset, tmp_path: Path) -> None:
    trained(prepared("dt", dataset), tmp_path / "state")
    content, changed = (tmp_path / "state").read_bytes(), (tmp_path / "state").stat().st_mtime_ns
    method = prepared("dt", dataset)
    assert trained(method, tmp_path / "state").lines == []
    assert (tmp_path / "state").read_bytes() == content
    assert (tmp_path / "state").stat().st_mtime_ns == changed
    tensors, _ = read_tensors(tmp_path / "state")
    for name, value in method.networks["policy"].state_dict().items():
        assert torch.equal(value, tensors[f"policy.{name}"])


@pytest.mark.parametrize("name", ["dt", "ra-dt"])
def test_looking_does_not_change_the_training(name: str, dataset: Dataset, tmp_path: Path) -> None:
    blind, watched = (prepared(name, dataset, dropout=0.1) for _ in range(2))

    def look(update: int) -> dict[str, float]:
        torch.rand(7)
        return {"return": float(roll_out(watched, TOY_GRID, (4, 5), 1)[0].returns.mean())}

    plain = trained(blind, tmp_path / "blind")
    seen = trained(watched, tmp_path / "watched", replace(CONFIG, evaluate_every=2), look)
    assert_same_state(tmp_path / "blind", tmp_path / "watched")
    assert plain.column("loss") == seen.column("loss")
    assert [step for _, step, values in seen.lines if "return" in values] == [2, 4, 6, 8]
    assert not watched.networks["policy"].training


def test_an_evaluation_is_not_lost_with_the_process(dataset: Dataset, tmp_path: Path) -> None:
    looked: list[int] = []

    def look(update: int) -> dict[str, float]:
        looked.append(update)
        if looked == [3]:
            raise KilledError
        return {"return": 0.0}

    config = replace(CONFIG, evaluate_every=3)
    with pytest.raises(KilledError):
        trained(prepared("dt", dataset), tmp_path / "state", config, look)
    trained(prepared("dt", dataset), tmp_path / "state", config, look)
    assert looked == [3, 3, 6, 9]


def test_the_rate_rises_then_falls_along_a_cosine() -> None:
    config = LearnConfig(updates=110, warmup=10, learning_rate=1.0, final_learning_rate=0.2)
    rates = [learning_rate(config, update) for update in range(111)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == pytest.approx(1.0)
    assert rates[60] == pytest.approx(0.6)
    assert rates[35] == pytest.approx(0.2 + 0.8 * (1 + math.cos(math.pi / 4)) / 2)
    assert rates[110] == pytest.approx(0.2)
    assert learning_rate(config, 500) == pytest.approx(0.2)
    assert (np.diff(rates[:10]) > 0).all()
    assert (np.diff(rates[10:]) < 0).all()
    assert learning_rate(replace(config, warmup=0), 0) == pytest.approx(1.0)
    few = replace(config, updates=25)  # a fifth of which are five
    rising = [learning_rate(few, update) for update in range(6)]
    assert rising == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])


def test_the_rate_is_logged(dataset: Dataset, tmp_path: Path) -> None:
    lines = trained(prepared("dt", dataset), tmp_path / "state")
    assert lines.column("lr") == [learning_rate(CONFIG, update) for update in range(9)]
    assert [step for _, step, _ in lines.lines] == list(range(1, 10))
    assert {phase for phase, *_ in lines.lines} == {"train"}


def test_only_the_weights_of_linear_layers_decay() -> None:
    policy = build_method("ra-dt", TOY_GRID.spaces).networks["policy"]
    adam = optimiser(policy, replace(CONFIG, weight_decay=0.3))
    names = {id(weight): name for name, weight in policy.named_parameters()}
    groups = [{names[id(weight)] for weight in group["params"]} for group in adam.param_groups]
    assert [group["weight_decay"] for group in adam.param_groups] == [0.3, 0.0]
    assert groups[0] | groups[1] == set(names.values())
    assert not groups[0] & groups[1]
    kinds = {id(m.weight): type(m).__name__ for m in policy.modules() if hasattr(m, "weight")}
    for group, expected in zip(
        adam.param_groups, ({"Linear"}, {"Embedding", "LayerNorm"}), strict=True
    ):
        found = {kinds[id(weight)] for weight in group["params"] if id(weight) in kinds}
        assert found == expected
    assert "null_chunk" in groups[1]
    assert all(name.endswith("weight") for name in groups[0])


def test_gradients_are_clipped(dataset: Dataset, tmp_path: Path) -> None:
    method = prepared("dt", dataset)
    policy = method.networks["policy"]
    norms: list[float] = []
    real = torch.optim.AdamW.step

    def step(self: Any, *args: Any) -> Any:
        total = sum(float(p.grad.square().sum()) for p in policy.parameters() if p.grad is not None)
        norms.append(math.sqrt(total))
        return real(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", step)
        lines = trained(method, tmp_path / "state", replace(CONFIG, clip=0.05))
    assert min(lines.column("grad")) > 0.05
    np.testing.assert_allclose(norms, 0.05, rtol=1e-3)


@pytest.mark.parametrize("name", ["batch_size", "log_every", "save_every"])
def test_counts_must_be_positive(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        LearnConfig(**{name: 0})


def test_a_loss_can_be_rounded_and_its_weights_stay_as_they_are(dataset: Dataset) -> None:
    single, rounded = CONFIG, replace(CONFIG, precision="bfloat16")
    method = build_method("dt", TOY_GRID.spaces)
    method.prepare(dataset)
    examples = method.draw(8, np.random.default_rng(0))
    exact, near = (loss_of(method, config)(examples).item() for config in (single, rounded))
    assert exact == method.loss(examples).item()
    assert near == pytest.approx(exact, rel=0.05)
    assert all(weight.dtype == torch.float32 for weight in method.networks["policy"].parameters())
