"""Images, encoded once: stored beside them, in every checkpoint, and by the agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import radt
from radt import cli
from radt.config import RunConfig
from radt.data import DataError, Dataset
from radt.envs.suite import SUITES
from radt.errors import InputError, RunError
from radt.files import sha256
from radt.loading import load
from radt.model.encoders import FrozenEncoder
from radt.runs import train as encode
from radt.runs.run import dataset_path, training_folder
from radt.runs.train import WEIGHTS, encode_images
from tests.contracts.method import toy_dataset
from tests.runs.small import assert_same_tensors, use_toys
from tests.toys import TOY_GRID, TOY_IMAGE

TEACHER = (
    "encoder.teacher.model.layers=1",
    "encoder.teacher.model.width=16",
    "encoder.teacher.model.heads=2",
    "encoder.teacher.context_len=4",
    "encoder.learn.updates=4",
    "encoder.learn.save_every=1",
    "encoder.learn.batch_size=4",
)
SMALL = ("learn.updates=2", "learn.evaluate_every=0", "options.memory.context_len=4")


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_toys(monkeypatch, tmp_path / "data")
    monkeypatch.setitem(SUITES._items, TOY_IMAGE.name, TOY_IMAGE)
    torch.set_num_threads(1)


def config_for(method: str) -> RunConfig:
    small = SMALL if method.startswith("ra-dt") else SMALL[:2]
    return radt.preset(TOY_IMAGE.name, method, "smoke", *TEACHER, *small)


def images_for(config: RunConfig) -> Path:
    folder = dataset_path(config)
    folder.mkdir(parents=True)
    toy_dataset(TOY_IMAGE, folder)
    return folder


def test_what_is_stored_is_what_the_encoder_says_of_each_image() -> None:
    config = config_for("dt")
    images = Dataset.open(images_for(config))
    encoded = Dataset.open(encode_images(config))
    assert encoded.spaces == images.spaces.encoded(16)
    assert config.encoder is not None
    encoder = FrozenEncoder(images.spaces.state, config.encoder.card)
    encode.load_encoder(encoder, config)
    for row in (0, len(images) - 1):
        before, after = images.trajectory(row), encoded.trajectory(row)
        np.testing.assert_allclose(after.states, encoder(before.states), rtol=1e-4, atol=1e-6)
        assert np.array_equal(after.actions, before.actions)
        assert np.array_equal(after.rewards, before.rewards)
    assert dataset_path(config) in training_folder(config).parents


@pytest.mark.parametrize("method", ["dt", "ra-dt", "ad", "dpt", "nearest"])
def test_from_images_to_an_agent(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, out = config_for(method), tmp_path / "run"
    images_for(config)
    if method != "nearest":
        radt.train(config, out, threads=1)
    record = radt.evaluate(config, out)
    assert np.isfinite(record["returns"]).all()
    loaded = load(out)
    assert loaded.card.spaces == TOY_IMAGE.spaces  # as environments show them
    agent, env = loaded.agent(), TOY_IMAGE.make(4)
    seen: list[Any] = []
    if method != "nearest":
        assert_same_tensors(training_folder(config) / WEIGHTS, save_encoder(loaded, tmp_path))
        monkeypatch.setattr(loaded.method.networks["encoder"], "forward", note(loaded, seen))
    steps = 0
    for _ in range(2):
        obs, over = env.reset()[0], False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(agent.act(obs))
            over, steps = terminated or truncated, steps + 1
            agent.observe(float(reward), terminated, truncated)
    assert len(seen) == (0 if method == "nearest" else steps)  # each frame once
    with pytest.raises(InputError, match="observations of shape"):
        agent.act(np.zeros(16, np.float32))


def save_encoder(loaded: Any, folder: Path) -> Path:
    path = folder / "of-the-checkpoint.safetensors"
    radt.checkpoint.write_tensors(path, loaded.method.networks["encoder"].state_dict(), {})
    return path


def note(loaded: Any, seen: list[Any]) -> Any:
    """Encode as before, and write down what was asked for."""
    before = loaded.method.networks["encoder"].forward

    def noted(states: Any) -> Any:
        seen.extend(states)
        return before(states)

    return noted


class Killed(BaseException):
    """Stands for the end of the process."""


def encode_and_die(config: RunConfig, name: str, calls: int) -> None:
    """Begin to encode, and be killed after so many calls of a function."""
    go_on, left = getattr(encode, name), iter(range(calls))

    def killed(*given: Any) -> Any:
        if next(left, None) is None:
            raise Killed
        return go_on(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, name, killed)
        with pytest.raises(Killed):
            encode_images(config)


@pytest.mark.parametrize(("name", "calls"), [("write_history", 2), ("write_tensors", 0)])
def test_a_kill_cannot_be_seen(
    name: str, calls: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = config_for("dt")
    images_for(config)
    encode_and_die(config, name, calls)
    resumed = Dataset.open(encode_images(config)).sha256
    monkeypatch.setenv("RADT_HOME", str(tmp_path / "again"))
    images_for(config)
    assert Dataset.open(encode_images(config)).sha256 == resumed


@pytest.mark.parametrize("change", ["bit", "swap", "hash", "noise", "weights"])
def test_what_was_changed_before_the_end_is_encoded_again(change: str) -> None:
    config = config_for("dt")
    images_for(config)
    encode_and_die(config, "write_history", 2)
    folder = training_folder(config)
    first, second, known = (folder / f for f in ("task-00000.h5", "task-00001.h5", "encoded.json"))
    before, hashes = first.read_bytes(), known.read_text()
    if change == "bit":
        content = bytearray(before)
        content[len(content) // 2] ^= 3
        first.write_bytes(content)
    elif change == "swap":
        first.write_bytes(second.read_bytes())
    elif change == "hash":
        known.write_text(hashes.replace(sha256(first), "0" * 64))
    elif change == "noise":
        known.write_bytes(b"\xff")
    elif change == "weights":
        known.write_text(hashes.replace(sha256(folder / WEIGHTS), "0" * 64))
    kept = second.stat().st_mtime_ns
    assert Dataset.open(encode_images(config)).manifest.files[0].sha256 == sha256(first)
    assert (second.stat().st_mtime_ns == kept) == (change not in ("noise", "weights"))
    assert first.read_bytes() == before
    assert not known.exists()


def test_all_runs_share_what_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_for("dt")
    images_for(config)
    folder = encode_images(config)
    monkeypatch.setattr(encode, "trained_encoder", None)  # it would fail
    for method in ("ad", "ra-dt"):
        assert encode_images(config_for(method)) == folder


@pytest.mark.parametrize("file", ["task-00001.h5", WEIGHTS])
def test_damage_is_named(file: str, tmp_path: Path) -> None:
    config = config_for("dt")
    images_for(config)
    path = encode_images(config) / file
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises((DataError, radt.checkpoint.CheckpointError), match=file):
        radt.train(config, tmp_path / "run", threads=1)


def test_only_images_are_encoded(capsys: pytest.CaptureFixture[str]) -> None:
    config = radt.preset(TOY_GRID.name, "dt", "smoke", "encoder={}")
    folder = dataset_path(config)
    folder.mkdir(parents=True)
    toy_dataset(TOY_GRID, folder)
    with pytest.raises(RunError, match="shows no images"):
        encode_images(config)
    assert cli.main(["data", "encode", TOY_GRID.name, "--budget=smoke"]) == 2
    assert "encoder" in capsys.readouterr().err


def test_the_verb_says_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    config = config_for("dt")
    images_for(config)
    words = [word for value in TEACHER for word in ("--set", value)]
    assert cli.main(["data", "encode", TOY_IMAGE.name, "--budget=smoke", "--quiet", *words]) == 0
    assert training_folder(config).name in capsys.readouterr().out.replace("\n", "")
