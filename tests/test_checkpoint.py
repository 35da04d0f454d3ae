from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from radt.checkpoint import (
    Card,
    CheckpointError,
    EmbedderCard,
    load_checkpoint,
    read_header,
    read_tensors,
    save_checkpoint,
    write_tensors,
)
from radt.loading import load
from radt.memory.embed import EMBEDDERS, EmbedderEntry
from radt.methods import METHODS, Method, MethodEntry
from radt.room import NoRoomError
from radt.sealed import seal
from radt.spaces import TaskSpaces
from tests.contracts.method import build_method, card_of, roll_out
from tests.toys import TOY_GRID, TOY_REACH, TOYS


@pytest.fixture(scope="module")
def method() -> Method:
    return build_method("ra-dt", TOY_GRID.spaces)


@pytest.fixture
def path(method: Method, tmp_path: Path) -> Path:
    file = tmp_path / "model.safetensors"
    save_checkpoint(file, method, card_of(method, "ra-dt"))
    return file


def weights(method: Method) -> dict[str, torch.Tensor]:
    return {
        f"{part}.{name}": value
        for part, network in method.networks.items()
        for name, value in network.state_dict().items()
    }


def assert_same(one: Method, other: Method) -> None:
    mine, theirs = weights(one), weights(other)
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert torch.equal(mine[name], theirs[name]), name


@pytest.mark.parametrize("suite", TOYS, ids=lambda suite: suite.name)
def test_weights_and_card_survive(suite: Any, tmp_path: Path) -> None:
    method = build_method("ra-dt", suite.spaces)
    for network in method.networks.values():
        for weight in network.parameters():
            torch.nn.init.normal_(weight)
    card = replace(card_of(method, "ra-dt"), seed=5)
    save_checkpoint(tmp_path / "x", method, card)
    loaded, found = load_checkpoint(tmp_path / "x")
    assert found == card
    assert_same(method, loaded)
    assert not any(network.training for network in loaded.networks.values())


def test_actions_survive(method: Method, path: Path) -> None:
    loaded, _ = load_checkpoint(path)
    before, after = roll_out(method, TOY_GRID, (4, 5))[1], roll_out(loaded, TOY_GRID, (4, 5))[1]
    np.testing.assert_array_equal(before, after)


def test_a_truncated_file_is_refused(path: Path) -> None:
    content = path.read_bytes()
    for length in np.linspace(0, len(content) - 1, 20).astype(int):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=r"model\.safetensors"):
            load_checkpoint(path)


def test_a_flipped_byte_is_noticed_or_harmless(
    method: Method, path: Path, rng: np.random.Generator
) -> None:
    content = path.read_bytes()
    head = 8 + struct.unpack("<Q", content[:8])[0]
    places = [*range(0, 8, 2), *rng.integers(8, head, 32), *rng.integers(head, len(content), 20)]
    refused = 0
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            loaded, card = load_checkpoint(path)
        except CheckpointError:
            refused += 1
            continue
        assert card == card_of(method, "ra-dt")
        assert_same(method, loaded)
    assert refused >= 45


def edited(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change what a checkpoint says of itself, hash included."""
    tensors, header = read_tensors(path)
    content = json.loads(header["radt"])
    change(content)
    write_tensors(path, tensors, {"radt": json.dumps(content)})


def put(where: str, value: Any) -> Callable[[dict[str, Any]], None]:
    *names, last = where.split(".")

    def change(content: dict[str, Any]) -> None:
        for name in names:
            content = content[name]
        content[last] = value

    return change


EDITS = {
    "other width": put("card.options.model.width", 32),
    "absurd width": put("card.options.model.width", 10**9),
    "absurd embedder": put("card.embedder.options.model.width", 10**12),
    "width beyond any number": put("card.options.model.width", 10**40),
    "endless layers": put("card.options.model.layers", 10**12),
    "endless embedder": put("card.embedder.options.model.layers", 10**12),
    "no layers": put("card.options.model.layers", 0),
    "no heads": put("card.options.model.heads", 0),
    "heads that do not divide": put("card.options.model.heads", 3),
    "layer that is not there": put("card.options.model.cross_layers", [7]),
    "other tokens": put("card.options.model.tokens", "letters"),
    "absurd horizon": put("card.spaces.horizon", 10**15),
    "absurd bins": put("card.spaces.state.bins", [10**18, 10**18]),
    "negative bins": put("card.spaces.state.bins", [-4, 4]),
    "absurd actions": put("card.spaces.action.size", 10**30),
    "absurd context": put("card.options.memory.context_len", 10**12),
    "no context": put("card.options.memory.context_len", 0),
    "an image": put("card.spaces.state.kind", "image"),
    "a huge image": put(
        "card.spaces.state", {"kind": "image", "shape": [3, 10**9, 10**9], "bins": []}
    ),
    "a huge vector": put("card.spaces.state", {"kind": "vector", "shape": [10**20], "bins": []}),
    "a vector of no shape": put("card.spaces.state", {"kind": "vector", "shape": [], "bins": []}),
    "seed beyond any number": put("card.seed", 10**40),
    "unknown method": put("card.method", "ra-dtt"),
    "a reference": put("card.method", "replay"),
    "a method without embedder": put("card.method", "dt"),
    "no embedder": put("card.embedder", None),
    "unknown embedder": put("card.embedder.name", "dtt"),
    "unknown option of an embedder": put("card.embedder.options.colour", "red"),
    "a network for an embedder": put("card.embedder", {"layers": 1, "width": 16, "heads": 2}),
    "unknown option": put("card.options.colour", "red"),
    "text for a number": put("card.options.memory.top_k", "1"),
    "unknown key": put("card.extra", 1),
    "not finite": put("card.options.memory.alpha", float("inf")),
    "card is a list": put("card", []),
    "no card": put("card", None),
    "another version": put("version", 1),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_header_is_refused_before_anything_is_allocated(
    name: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited(path, EDITS[name])

    def refuse(*_: Any) -> Any:
        raise AssertionError("tensors were read")

    monkeypatch.setattr("radt.checkpoint.read_tensors", refuse)
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        ("card.options.memory.top_k", 100_000, "read 8000.. steps at once"),
        ("card.options.memory.past_len", 100_000_000, "must lie in"),
        ("card.spaces.horizon", 2**31 - 1, "should be .2147483648, 16."),
    ],
)
def test_sizes_are_refused_with_the_number_before_memory_is_taken(
    where: str, value: int, said: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("radt.room.free_memory", lambda: 10**8)
    edited(path, put(where, value))
    with pytest.raises((NoRoomError, CheckpointError), match=said):
        load(path).agent()
    with pytest.raises((NoRoomError, CheckpointError), match=said):
        load(path).memory()


def test_a_horizon_without_room_is_refused_with_the_number(tmp_path: Path) -> None:
    """In a method whose weights do not depend on it."""
    method = build_method("dpt", TOY_GRID.spaces)
    save_checkpoint(tmp_path / "x.safetensors", method, card_of(method, "dpt"))
    edited(tmp_path / "x.safetensors", put("card.spaces.horizon", 2**31 - 1))
    with pytest.raises(NoRoomError, match=r"up to 2147483647 steps .* GB of memory are free"):
        load(tmp_path / "x.safetensors").agent()


def test_an_edited_header_without_its_hash_is_refused(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b'\\"target\\": [9.0', b'\\"target\\": [8.0'))
    with pytest.raises(CheckpointError, match="sha256 does not fit"):
        load_checkpoint(path)


def test_another_version_says_what_to_do(path: Path) -> None:
    edited(path, put("version", 99))
    with pytest.raises(CheckpointError, match=r"format 99.*train it again"):
        load_checkpoint(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x04K\x01.", b"\xff" * 64])
def test_other_files_are_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged or no safetensors file"):
        load_checkpoint(path)


@pytest.mark.parametrize("header", [None, {"format": "pt"}, {"radt": "["}, {"radt": "[]"}])
def test_foreign_safetensors_are_refused(path: Path, header: dict[str, str] | None) -> None:
    safetensors.torch.save_file({"weight": torch.zeros(3)}, path, metadata=header)
    with pytest.raises(CheckpointError, match="no checkpoint of radt"):
        load_checkpoint(path)


def test_deeply_nested_headers_are_refused(path: Path) -> None:
    safetensors.torch.save_file({"x": torch.zeros(1)}, path, metadata={"radt": "[" * 100_000})
    with pytest.raises(CheckpointError):
        load_checkpoint(path)


def test_extra_and_missing_tensors_are_refused(path: Path) -> None:
    tensors, header = read_tensors(path)
    write_tensors(path, {**tensors, "policy.extra": torch.zeros(2)}, header)
    with pytest.raises(CheckpointError, match=r"policy\.extra is \(2,\) and should be None"):
        load_checkpoint(path)
    name = min(tensors)
    write_tensors(path, {n: t for n, t in tensors.items() if n != name}, header)
    with pytest.raises(CheckpointError, match=f"{name} is None"):
        load_checkpoint(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        load_checkpoint(tmp_path / "nothing")
    with pytest.raises(CheckpointError):
        load_checkpoint(tmp_path)


def test_the_hash_covers_names_types_shapes_and_numbers() -> None:
    base, header = {"a": torch.zeros(2, 3)}, {"x": "y"}
    others = [
        ({"b": torch.zeros(2, 3)}, header),
        ({"a": torch.zeros(3, 2)}, header),
        ({"a": torch.zeros(2, 3, dtype=torch.int32)}, header),
        ({"a": torch.full((2, 3), -0.0)}, header),
        (base, {"x": "z"}),
    ]
    assert seal(base, header) == seal({"a": torch.zeros(2, 3)}, {"x": "y"})
    assert len({seal(base, header), *(seal(*other) for other in others)}) == 6


def test_a_failed_write_leaves_the_old_checkpoint(
    method: Method, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError("no space left")

    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail)
        with pytest.raises(OSError, match="no space"):
            save_checkpoint(path, method, card_of(method, "ra-dt"))
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_references_have_no_checkpoint(tmp_path: Path) -> None:
    reference = build_method("replay", TOY_GRID.spaces)
    card: Card = card_of(reference, "replay")
    with pytest.raises(ValueError, match="replay learns nothing"):
        save_checkpoint(tmp_path / "x", reference, card)


def test_shapes_are_read_without_tensors(path: Path) -> None:
    shapes, header = read_header(path)
    assert shapes["policy.head.weight"] == (5, 16)
    assert set(header) == {"radt", "sha256"}


def test_tensors_of_any_type_and_size_are_kept(tmp_path: Path) -> None:
    tensors = {
        "step": torch.tensor(3.0),
        "none": torch.zeros(0, 4),
        "flags": torch.tensor([True, False]),
        "half": torch.ones(2, dtype=torch.bfloat16),
        "strided": torch.arange(6).view(2, 3).T,
    }
    write_tensors(tmp_path / "x", tensors, {"a": "ü"})
    found, header = read_tensors(tmp_path / "x")
    assert header == {"a": "ü"}
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
    assert TOY_REACH.spaces.action.size == 3


@dataclass(frozen=True)
class PluggedOptions:
    """Options with no model in them."""

    hidden: int = 3


class Plugged:
    """A method of a third party, with two networks of its own."""

    name = "plugged"

    def __init__(self, spaces: TaskSpaces, options: PluggedOptions, embedder: Any) -> None:
        self.spaces, self.embedder = spaces, embedder
        sizes = spaces.action.size, options.hidden
        self.networks = {"policy": torch.nn.Linear(*sizes), "critic": torch.nn.Linear(*sizes)}


@pytest.mark.parametrize("name", [None, "plugged"])
def test_methods_and_embedders_of_third_parties_are_kept(
    name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(spaces: TaskSpaces, options: Any, seed: int, embedder: Any) -> Any:
        return Plugged(spaces, options, embedder)

    maker = EmbedderEntry(PluggedOptions, lambda *given: given)  # type: ignore[arg-type]
    monkeypatch.setitem(
        METHODS._items, "plugged", MethodEntry(PluggedOptions, build, embedder=name)
    )
    monkeypatch.setitem(EMBEDDERS._items, "plugged", maker)
    path, spaces = tmp_path / "model.safetensors", TOY_GRID.spaces
    method: Any = Plugged(spaces, PluggedOptions(5), None)
    embedder = None if name is None else EmbedderCard(name, {"hidden": 7})
    save_checkpoint(path, method, replace(PLUGGED, embedder=embedder))
    loaded: Any = load_checkpoint(path)[0]
    assert_same(method, loaded)
    assert loaded.embedder == (None if name is None else (spaces, PluggedOptions(7), 0))
    edited(path, put("card.options.hidden", 6))
    with pytest.raises(CheckpointError, match=r"critic.bias is \(5,\) and should be \(6,\)"):
        load_checkpoint(path)


PLUGGED = Card(
    method="plugged",
    env="toy",
    spaces=TOY_GRID.spaces,
    options={"hidden": 5},
    embedder=None,
    target=(9.0, 1.0),
    action_rule={},
    seed=0,
    code_version="0",
)
