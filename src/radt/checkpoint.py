"""Weights on disk: safetensors with a JSON header, written at once, checked before it is believed.

A checkpoint is one file that holds everything acting needs: the policy, the embedder, the state
encoder, and in the header the options, the spaces and the format's version. Nothing in it can run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import safetensors
import torch
from torch import Tensor

from radt.data.manifest import check_spaces
from radt.decode import DecodeError, decode
from radt.errors import RadtError
from radt.files import open_plain
from radt.memory.embed import EMBEDDERS
from radt.methods.exploration import ExplorationConfig, with_exploration
from radt.methods.method import METHODS, Method, build_method
from radt.model.encoders import EncoderCard
from radt.registry import UnknownNameError
from radt.sealed import EDITED, BrokenSealError, read_sealed, write_sealed
from radt.spaces import TaskSpaces
from radt.variants import resolved

VERSION = 2
T = TypeVar("T")


class CheckpointError(RadtError, ValueError):
    """A file that is not a checkpoint of this format, is damaged, or does not fit its header."""


@dataclass(frozen=True)
class EmbedderCard:
    """Which embedder makes the keys; its weights, if it carries any, are the part `embedder`."""

    name: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Card:
    """What a checkpoint says of itself."""

    method: str
    env: str
    spaces: TaskSpaces
    options: dict[str, Any]
    embedder: EmbedderCard | None
    target: tuple[float, float]
    action_rule: dict[str, Any]
    seed: int
    code_version: str
    tasks: tuple[int, ...] = ()  # that it was trained on; none: written before this was told
    label: str = ""  # of its row in tables
    task_targets: tuple[tuple[int, float, float], ...] = ()  # (task, mean, std) where tasks differ
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    encoder: EncoderCard | None = None  # frozen, of what environments show; its weights are a part


def save_checkpoint(path: Path, method: Method, card: Card) -> None:
    """Write a method and its card."""
    if not method.networks:
        raise ValueError(f"{method.name} learns nothing, so there is nothing to save of it")
    header = {"radt": json.dumps({"version": VERSION, "card": asdict(card)})}
    write_tensors(path, _tensors(method), header)


def load_checkpoint(path: Path) -> tuple[Method, Card]:
    """Rebuild a method from its checkpoint; shapes are compared before weights are read."""
    shapes, header = read_header(path)
    card = _card_in(path, header)
    _check_layers(path, shapes, card)
    _check_shapes(path, shapes, card)
    tensors, _ = read_tensors(path)
    method = untrained(path, card)
    method.name = card.label or card.method
    for part, network in method.networks.items():
        own = {
            n.removeprefix(f"{part}."): t for n, t in tensors.items() if n.startswith(f"{part}.")
        }
        network.load_state_dict(own)
        network.eval()
    return method, card


def untrained(path: Path, card: Card) -> Method:
    """Build the method of a checkpoint's card as it was before it was trained."""
    name = None if card.embedder is None else card.embedder.name
    options = options_of(path, card)
    method = build_method(card.method, card.spaces, *options, card.seed, name, card.encoder)
    return with_exploration(method, card.exploration)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> None:
    """Write named tensors and a header at once."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_sealed(path, _unshared(plain), header)


def _unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors that another name stands for, too: a file holds each name's own."""
    seen: set[int] = set()
    found = {}
    for name, tensor in tensors.items():
        found[name] = tensor.clone() if tensor.data_ptr() in seen else tensor
        seen.add(tensor.data_ptr())
    return found


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read all tensors and the header, and check that nobody changed them."""
    read_header(path)  # says so where there is no file
    try:
        tensors, header, has_seal = read_sealed(path)
        if not has_seal:
            raise BrokenSealError(EDITED)
    except BrokenSealError as error:
        raise CheckpointError(f"{path} {error}; delete it and train again") from error
    return tensors, header


def read_header(path: Path) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """Read names, shapes and the header without reading any tensor."""
    if not path.exists():
        raise CheckpointError(f"there is no checkpoint at {path}; train one with `radt run`")
    if not path.is_dir():
        open_plain(path).close()  # where that is not allowed, the system says so
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


def read_card(path: Path) -> Card:
    """Read what a checkpoint says of itself, without its weights."""
    return _card_in(path, read_header(path)[1])


def _card_in(path: Path, header: dict[str, str]) -> Card:
    try:
        content = json.loads(header["radt"])
        version, card = content["version"], content["card"]
        if not isinstance(card, dict):
            raise TypeError("a card is an object")
    except (KeyError, TypeError, RecursionError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path} holds tensors but is no checkpoint of radt") from error
    if version != VERSION:
        raise CheckpointError(
            f"{path} has format {version}, this radt reads {VERSION}; train it again, or load it "
            "with the radt that wrote it"
        )
    try:
        values = resolved(card)
        values.pop("embedder_name", None)  # which the card's embedder says itself
        return _decoded(path, Card, values)
    except UnknownNameError as error:
        raise CheckpointError(f"{path}: {error}; install the package that adds it") from error


def _decoded(path: Path, kind: type[T], values: Any) -> T:
    try:
        return decode(kind, values, where=kind.__name__)
    except DecodeError as error:
        raise CheckpointError(
            f"{path} says something of itself that cannot be ({error}); it was damaged or written "
            "by another version of radt"
        ) from error


def options_of(path: Path, card: Card) -> tuple[Any, Any]:
    """Decode the options of the method and of its embedder."""
    try:
        entry = METHODS[card.method]
        made_by = None if card.embedder is None else EMBEDDERS[card.embedder.name]
    except UnknownNameError as error:
        raise CheckpointError(f"{path}: {error}; install the package that adds it") from error
    if not entry.learns or entry.embeds != (card.embedder is not None):
        raise CheckpointError(f"{path}: {card.method} has no checkpoint of this kind")
    options = _decoded(path, entry.options, card.options)
    if card.embedder is None or made_by is None:
        return options, None
    return options, _decoded(path, made_by.options, card.embedder.options)


def _check_layers(path: Path, found: Mapping[str, Any], card: Card) -> None:
    """Refuse numbers of layers that the file cannot hold; building them would take for ever."""
    told = [card.options, card.embedder.options if card.embedder else {}]
    while told:
        for name, value in told.pop().items():
            if isinstance(value, dict):
                told.append(value)
            elif name == "layers" and isinstance(value, int) and value > len(found):
                raise CheckpointError(
                    f"{path} does not fit its own header: {value} layers in {len(found)} tensors"
                )


def _check_shapes(path: Path, found: Mapping[str, tuple[int, ...]], card: Card) -> None:
    """Build the method without memory for weights and compare every shape."""
    try:
        check_spaces(card.spaces)
        with torch.device("meta"):
            method = untrained(path, card)
    except CheckpointError:
        raise
    except (LookupError, RuntimeError, ValueError, TypeError, OverflowError) as error:
        reason = str(error).partition("\n")[0]
        raise CheckpointError(
            f"{path} asks for a model that cannot be built ({reason}); it was damaged or edited"
        ) from error
    expected = {name: tuple(tensor.shape) for name, tensor in _tensors(method).items()}
    if wrong := {n for n in expected.keys() | found.keys() if expected.get(n) != found.get(n)}:
        name = min(wrong)
        raise CheckpointError(
            f"{path} does not fit its own header: {name} is {found.get(name)} and should be "
            f"{expected.get(name)} ({len(wrong)} differ); it was damaged or edited, train again"
        )


def _tensors(method: Method) -> dict[str, Tensor]:
    """Name the weights of all networks."""
    return {
        f"{part}.{name}": tensor
        for part, network in method.networks.items()
        for name, tensor in network.state_dict().items()
    }
