"""What every method promises to the loops of training and acting.

Call `check_learning` and `check_acting` with a registered name and a suite; what fails says what
the method owes. The helpers below also build the small datasets and agents of other tests.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import VectorWrapper
from numpy.typing import NDArray

from radt.agent import ActionRule, Agent, Target
from radt.checkpoint import Card, EmbedderCard, load_checkpoint, save_checkpoint
from radt.data import Dataset, History, Manifest, write_history, write_manifest
from radt.decode import decode
from radt.envs.suite import TaskSuite
from radt.icl import ICLResult, in_context_learning
from radt.learn import LearnConfig, optimiser
from radt.memory.embed import EMBEDDERS
from radt.methods import METHODS, Method
from radt.spaces import TaskSpaces
from radt.variants import own_values, variant, variant_names
from tests.toys import histories

TINY = {"layers": 1, "width": 16, "heads": 2, "dropout": 0.0, "tokens": "fused"}
CONTEXT = 4
RETRIEVAL = {"min_length": 2, "dedup": None}
OPTIONS: dict[str, dict[str, Any]] = {
    "dt": {"model": TINY, "context_len": CONTEXT},
    "ad": {"model": {**TINY, "return_to_go": False}, "skip": 2},
    "dt-2ep": {"model": TINY, "episode_gap": 1},
    "dpt": {"model": {**TINY, "return_to_go": False}, "queries": CONTEXT, "set_size": 15},
    "dpt-oracle": {
        "model": {**TINY, "return_to_go": False},
        "queries": CONTEXT,
        "labels": "oracle",
    },
    "ra-dt": {"model": TINY, "memory": {"context_len": CONTEXT, "top_l": 6}, "training": RETRIEVAL},
    "ra-dt-tuned": {
        "model": TINY,
        "memory": {"context_len": CONTEXT, "top_l": 6},
        "training": {"contexts": "own-task", "dedup": None, "cut_off": None},
    },
    "ra-dt-lm": {
        "model": TINY,
        "memory": {"context_len": CONTEXT, "top_l": 6, "retrieve_every": 2},
        "training": {**RETRIEVAL, "query_offsets": [0, 3], "query_dropout": 0.0},
    },
    "ra-dt+": {
        "model": TINY,
        "memory": {"context_len": CONTEXT, "store_above": 0.0, "retrieve_every": 0},
        "training": RETRIEVAL,
        "top_fraction": 0.5,
    },
}
ROWS = variant_names()
LEARNING = [name for name in ROWS if METHODS[variant(name).method].learns_from_data]
EMBEDDER: dict[str, dict[str, Any]] = {"dt": {"model": {**TINY, "return_to_go": False}}}


def embedder_options(name: str) -> dict[str, Any]:
    """Choose a small embedder; a language model is made when it is asked for."""
    if name != "lm":
        return EMBEDDER.get(name, {})
    from tests.memory.tiny_language import tiny_folder

    return {"model": str(tiny_folder()), "cache_most": 0, "projection_seed": 0}


def toy_dataset(suite: TaskSuite, folder: Path, episodes: int = 5, seed: int = 0) -> Dataset:
    """Write and open the histories of a random policy on a suite's training tasks."""
    files = []
    for task, lived in histories(suite, episodes, seed).items():
        joined = [
            np.concatenate([getattr(trajectory, name) for trajectory in lived])
            for name in ("states", "actions", "rewards")
        ]
        lengths = np.array([len(trajectory) for trajectory in lived], np.int32)
        files.append(write_history(folder, History(task, *joined, lengths), suite.spaces))
    manifest = Manifest(
        env=suite.name,
        env_spec={},
        spaces=suite.spaces,
        split="train",
        seed=seed,
        source="random",
        hyper_parameters={},
        code_version="0",
        files=tuple(files),
    )
    write_manifest(folder, manifest)
    return Dataset.open(folder)


def build_method(
    name: str, spaces: TaskSpaces, options: dict[str, Any] | None = None, seed: int = 0
) -> Method:
    """Build a small method, its embedder untrained."""
    entry, made_by = METHODS[variant(name).method], embedder_of(name)
    embedder = None
    if made_by is not None:
        maker = EMBEDDERS[made_by]
        given = decode(maker.options, embedder_options(made_by))
        embedder = maker.build(spaces, given, seed + 1)
    chosen = OPTIONS.get(name, {}) if options is None else options
    method = entry.build(spaces, decode(entry.options, chosen), seed, embedder)
    method.name = name
    return method


def embedder_of(row: str) -> str | None:
    """Name the embedder of a row."""
    usual = METHODS[variant(row).method].embedder
    return own_values(variant(row)).get("embedder_name", usual)


def card_of(method: Method, name: str, options: dict[str, Any] | None = None) -> Card:
    """Describe a method that `build_method` made with seed 0."""
    entry = METHODS[variant(name).method]
    chosen = decode(entry.options, OPTIONS.get(name, {}) if options is None else options)
    return Card(
        method=variant(name).method,
        label=name,
        env="toy",
        spaces=method.spaces,
        options=json.loads(json.dumps(dataclasses.asdict(chosen))),  # as a file has it
        embedder=_embedder_card(embedder_of(name)),
        target=(9.0, 1.0),
        action_rule=dataclasses.asdict(ActionRule()),
        seed=0,
        code_version="0",
    )


def _embedder_card(name: str | None) -> EmbedderCard | None:
    if name is None:
        return None
    options = decode(EMBEDDERS[name].options, embedder_options(name))
    return EmbedderCard(name, dataclasses.asdict(options))


class Recording(VectorWrapper[Any, Any, Any, Any, Any]):
    """Writes down every action and reward that passes."""

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self.actions: list[NDArray[Any]] = []
        self.rewards: list[NDArray[Any]] = []

    def step(self, actions: NDArray[Any]) -> Any:
        answer = self.env.step(actions)
        self.actions.append(np.array(actions))
        self.rewards.append(np.array(answer[1]))
        return answer


def roll_out(
    method: Method,
    suite: TaskSuite,
    tasks: tuple[int, ...],
    trials: int = 3,
    rule: ActionRule | None = None,
) -> tuple[ICLResult, NDArray[Any], Agent]:
    """Let a method act; return its result and all its actions, [step, slot, ...]."""
    env = Recording(suite.make_vec(tasks))
    agent = Agent(
        method,
        Target(*suite.target_return),
        rule,
        slots=len(tasks),
        autoreset_mode=env.metadata["autoreset_mode"],
        tasks=tasks,
    )
    result = in_context_learning(agent, env, trials, seed=0)
    env.close()
    return result, np.stack(env.actions), agent


def check_learning(
    name: str, suite: TaskSuite, dataset: Dataset, options: dict[str, Any] | None = None
) -> None:
    """Drawing depends on the generator alone; the loss is finite, falls, and sees no padding."""
    method = _prepared(name, suite, dataset, options)
    first, again, other = (method.draw(16, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert same_examples(first, again)
    assert not same_examples(first, other)
    losses = _overfit(method, first, updates=20)
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.98 * losses[0]
    assert losses[:5] == _overfit(_prepared(name, suite, dataset, options), again, updates=5)
    check_padding(method, method.draw(16, np.random.default_rng(5)))


def check_padding(method: Method, examples: Any) -> None:
    """Whatever stands behind the end of a window, a chunk or a set changes no loss or gradient."""
    before = _loss_and_gradient(method, examples)
    for name in ("recent", "retrieved", "known"):
        batch = getattr(examples, name, None)
        if batch is not None:
            scrambled = _scramble(batch, method.spaces)
            examples = dataclasses.replace(examples, **{name: scrambled})
    for after, expected in zip(_loss_and_gradient(method, examples), before, strict=True):
        torch.testing.assert_close(after, expected, rtol=1e-4, atol=1e-6)


def _loss_and_gradient(method: Method, examples: Any) -> list[torch.Tensor]:
    policy = method.networks["policy"]
    policy.zero_grad()
    loss = method.loss(examples)
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in policy.parameters() if p.grad is not None)]


def check_acting(
    name: str, suite: TaskSuite, folder: Path, options: dict[str, Any] | None = None
) -> None:
    """Acting is repeatable, independent of who acts beside, and survives a checkpoint."""
    method = build_method(name, suite.spaces, options)
    tasks = suite.eval_tasks
    result, actions, _ = roll_out(method, suite, tasks)
    assert result.returns.shape == (len(tasks), 3)
    assert np.isfinite(result.returns).all()
    for slot, task in enumerate(tasks):
        alone, own, _ = roll_out(method, suite, (task,))
        np.testing.assert_allclose(own[:, 0], actions[: len(own), slot], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(alone.returns[0], result.returns[slot], rtol=1e-5)
    if METHODS[variant(name).method].learns:
        save_checkpoint(folder / "model.safetensors", method, card_of(method, name, options))
        method, card = load_checkpoint(folder / "model.safetensors")
        assert card == card_of(method, name, options)
    _, again, _ = roll_out(method, suite, tasks)
    np.testing.assert_array_equal(again, actions)


def same_examples(one: Any, other: Any) -> bool:
    """Tell whether two records of tensors hold the same numbers."""
    for field in dataclasses.fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if dataclasses.is_dataclass(a):
            if not same_examples(a, b):
                return False
        elif isinstance(a, torch.Tensor):
            if not torch.equal(a, b):
                return False
        elif a != b:
            return False
    return True


def _prepared(
    name: str, suite: TaskSuite, dataset: Dataset, options: dict[str, Any] | None
) -> Method:
    method = build_method(name, suite.spaces, options)
    method.prepare(dataset)
    return method


def _overfit(method: Method, examples: Any, updates: int) -> list[float]:
    """Learn one batch by heart."""
    policy = method.networks["policy"].train()
    adam = optimiser(policy, LearnConfig(learning_rate=3e-3))
    losses = []
    for _ in range(updates):
        loss = method.loss(examples)
        losses.append(loss.item())
        loss.backward()
        adam.step()
        adam.zero_grad()
    policy.eval()
    return losses


def _scramble(batch: Any, spaces: TaskSpaces) -> Any:
    """Put other valid values wherever the mask is False."""
    other = {"rewards": 7.0, "returns_to_go": -7.0, "timesteps": spaces.horizon - 1}
    fields = {f.name: getattr(batch, f.name).clone() for f in dataclasses.fields(batch)}
    for name, values in fields.items():
        if name != "mask":
            values[~batch.mask] = other.get(name, 1)
    return type(batch)(**fields)
