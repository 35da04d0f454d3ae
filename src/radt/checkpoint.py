"""Weights on disk: safetensors with a JSON header, written at once, checked before it is believed.

A checkpoint is one file that holds everything acting needs: the policy, the embedder, the state
encoder, and in the header the options, the spaces and the format's version. Nothing in it can run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from radt.decode import decode
from radt.files import atomic_write
from radt.memory.embed import DecisionTransformerEmbedder, Embedder
from radt.methods.method import METHODS, Method
from radt.model.policy import DecisionTransformer, ModelConfig
from radt.spaces import TaskSpaces

VERSION = 1
MOST_PARAMETERS = 2_000_000_000


class CheckpointError(ValueError):
    """A file that is not a checkpoint of this format, is damaged, or does not fit its header."""


@dataclass(frozen=True)
class Card:
    """What a checkpoint says of itself."""

    method: str
    env: str
    spaces: TaskSpaces
    options: dict[str, Any]
    embedder: ModelConfig | None
    target: tuple[float, float]
    action_rule: dict[str, Any]
    seed: int
    code_version: str


def save_checkpoint(path: Path, method: Method, card: Card) -> None:
    """Write a method and its card."""
    tensors = {
        f"{part}.{name}": value
        for part, network in method.networks.items()
        for name, value in network.state_dict().items()
    }
    header = {"radt": json.dumps({"version": VERSION, "card": asdict(card)})}
    write_tensors(path, tensors, header)


def load_checkpoint(path: Path) -> tuple[Method, Card]:
    """Rebuild a method from its checkpoint; shapes are compared before weights are read."""
    shapes, header = read_header(path)
    card = _read_card(path, header)
    entry = METHODS[card.method]
    options = decode(entry.options, card.options, where=f"{path}: options")
    _check_shapes(path, shapes, card, options)
    tensors, _ = read_tensors(path)
    embedder: Embedder | None = None
    if card.embedder is not None:
        teacher = DecisionTransformer(card.spaces, card.embedder, card.seed)
        teacher.load_state_dict(_part("embedder", tensors))
        embedder = DecisionTransformerEmbedder(teacher)
    method = entry.build(card.spaces, options, card.seed, embedder)
    for part, network in method.networks.items():
        network.load_state_dict(_part(part, tensors))
        network.eval()
    return method, card


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> None:
    """Write named tensors and a header at once."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    atomic_write(path, safetensors.torch.save(plain, metadata=dict(header)))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read all tensors and the header."""
    _, header = read_header(path)
    with safetensors.safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, header  # noqa: SIM118


def read_header(path: Path) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """Read names, shapes and the header without reading any tensor."""
    if not path.exists():
        raise CheckpointError(f"there is no checkpoint at {path}; train one with `radt run`")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            shapes = {
                name: tuple(file.get_slice(name).get_shape())
                for name in file.keys()  # noqa: SIM118
            }
            return shapes, dict(file.metadata() or {})
    except (safetensors.SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} is damaged or no safetensors file ({error}); delete it and train again"
        ) from error


def _read_card(path: Path, header: dict[str, str]) -> Card:
    try:
        content = json.loads(header["radt"])
        version, card = content["version"], content["card"]
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path} holds tensors but is no checkpoint of radt") from error
    if version != VERSION:
        raise CheckpointError(
            f"{path} has format {version}, this radt reads {VERSION}; install the radt it names"
        )
    return decode(Card, card, where=str(path))


def _check_shapes(
    path: Path, found: Mapping[str, tuple[int, ...]], card: Card, options: Any
) -> None:
    """Build the networks without memory for weights and compare every shape."""
    with torch.device("meta"):
        parts: dict[str, nn.Module] = {}
        if card.embedder is not None:
            parts["embedder"] = DecisionTransformer(card.spaces, card.embedder, card.seed)
        retrieves = card.embedder is not None
        parts["policy"] = DecisionTransformer(
            card.spaces, options.model, card.seed, retrieves=retrieves
        )
    expected = {
        f"{part}.{name}": tuple(tensor.shape)
        for part, network in parts.items()
        for name, tensor in network.state_dict().items()
    }
    if wrong := {n for n in expected.keys() | found.keys() if expected.get(n) != found.get(n)}:
        name = min(wrong)
        raise CheckpointError(
            f"{path} does not fit its own header: {name} is {found.get(name)} and should be "
            f"{expected.get(name)} ({len(wrong)} differ); it was damaged or edited, train again"
        )


def _part(part: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(f"{part}."): t for n, t in tensors.items() if n.startswith(f"{part}.")}
