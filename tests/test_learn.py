from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from radt.checkpoint import read_tensors
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
    assert header == {"updates": "9"}
    assert {name.split(".")[0] for name in tensors} == {"policy", "adam"}
    moments = [tensor for name, tensor in tensors.items() if name.startswith("adam.exp_avg_sq")]
    assert sum(float(moment.sum()) for moment in moments) > 0


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


# fmt: off
GOLDEN: dict[str, list[float]] = {
    "dt": [
        1.605012, 1.600775, 1.584827, 1.595578, 1.607392, 1.609055, 1.594344, 1.588082,
        1.567143, 1.575767, 1.604149, 1.592098, 1.619224, 1.597696, 1.56249, 1.583005,
        1.599759, 1.568873, 1.568887, 1.583543,
    ],
    "ra-dt": [
        1.614871, 1.608406, 1.594838, 1.589659, 1.619073, 1.601314, 1.613663, 1.582779,
        1.547629, 1.58745, 1.616452, 1.602983, 1.63365, 1.609154, 1.56436, 1.591008,
        1.582598, 1.579545, 1.564553, 1.562545,
    ],
    "ra-dt+": [
        1.61922, 1.600498, 1.587755, 1.555845, 1.593076, 1.541684, 1.586568, 1.594306,
        1.561868, 1.557566, 1.532005, 1.52276, 1.560771, 1.507727, 1.496904, 1.536751,
        1.587514, 1.546553, 1.497506, 1.472011,
    ],
    "ad": [
        1.612932, 1.602926, 1.604784, 1.575488, 1.588234, 1.565664, 1.557989, 1.55959,
        1.569486, 1.556141, 1.554007, 1.541438, 1.533216, 1.55141, 1.544968, 1.549679,
        1.554366, 1.542123, 1.494535, 1.503587,
    ],
    "dpt": [
        1.618616, 1.617194, 1.605806, 1.576604, 1.604922, 1.61405, 1.603622, 1.622059,
        1.579659, 1.578526, 1.615405, 1.609014, 1.648355, 1.635014, 1.58179, 1.604215,
        1.580977, 1.578732, 1.581776, 1.60363,
    ],
    "dpt-oracle": [
        1.582765, 1.549796, 1.524523, 1.500328, 1.41762, 1.338964, 1.311332, 1.283992,
        1.198439, 1.199046, 1.244089, 1.149117, 1.230173, 1.035823, 0.994544, 1.039455,
        1.035502, 1.051309, 1.166735, 0.964185,
    ],
    "dt-2ep": [
        1.630242, 1.620721, 1.606441, 1.583913, 1.607083, 1.575529, 1.596387, 1.586836,
        1.575264, 1.588612, 1.562163, 1.596716, 1.571787, 1.595625, 1.571484, 1.541054,
        1.546857, 1.569827, 1.533843, 1.540652,
    ],
    "ra-dt-tuned": [
        1.614865, 1.608401, 1.594937, 1.589641, 1.619204, 1.601222, 1.613805, 1.58289,
        1.547645, 1.587594, 1.616276, 1.602927, 1.633688, 1.609831, 1.564569, 1.591906,
        1.583256, 1.580044, 1.564796, 1.563007,
    ],
    "ra-dt-lm": [
        1.620447, 1.60141, 1.589468, 1.588938, 1.611374, 1.58036, 1.622964, 1.6085,
        1.542292, 1.592157, 1.616975, 1.587815, 1.652151, 1.58834, 1.6143, 1.585592,
        1.573985, 1.586497, 1.571167, 1.573694,
    ],
}
# fmt: on


@pytest.mark.parametrize("name", LEARNING)
def test_losses_are_those_that_were_recorded(name: str, dataset: Dataset, tmp_path: Path) -> None:
    lines = trained(prepared(name, dataset), tmp_path / "state", replace(CONFIG, updates=20))
    np.testing.assert_allclose(lines.column("loss"), GOLDEN[name], rtol=1e-4)


def test_a_loss_can_be_rounded_and_its_weights_stay_as_they_are(dataset: Dataset) -> None:
    single, rounded = CONFIG, replace(CONFIG, precision="bfloat16")
    method = build_method("dt", TOY_GRID.spaces)
    method.prepare(dataset)
    examples = method.draw(8, np.random.default_rng(0))
    exact, near = (loss_of(method, config)(examples).item() for config in (single, rounded))
    assert exact == method.loss(examples).item()
    assert near == pytest.approx(exact, rel=0.05)
    assert all(weight.dtype == torch.float32 for weight in method.networks["policy"].parameters())
