"""Encoding a dataset's images once, so that no method reads an image again (the paper's appendix).

An encoder is trained inside a Decision Transformer on all of a dataset's tasks and then frozen.
What it makes of the images is a dataset of its own, in a folder inside theirs, with the encoder's
weights beside it. Seeds of runs share it: its own seed is that of the data.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import nn

from radt.checkpoint import read_tensors, write_tensors
from radt.config import EncoderConfig, RunConfig
from radt.data import Dataset, History, read_manifest, write_history, write_manifest
from radt.data.manifest import MANIFEST, Manifest, array_specs
from radt.data.store import open_task
from radt.errors import RunError
from radt.files import locked, remove_leftovers, sha256
from radt.learn import learn
from radt.methods.dt import DT
from radt.model.encoders import FrozenEncoder
from radt.runs.run import dataset_path, to_device, training_folder
from radt.track import Tracker

WEIGHTS = "encoder.safetensors"
TEACHER = "teacher.safetensors"  # to go on from, until the encoder is trained
FRAMES = 256  # that are encoded at once


def encode_images(config: RunConfig, quiet: bool = True, device: str = "cpu") -> Path:
    """Train a config's encoder and encode its dataset, or go on doing so; return the folder.

    A config without an encoder learns from the dataset as it is.
    """
    folder = training_folder(config)
    if config.encoder is None or (folder / MANIFEST).is_file():
        return folder
    images, path = dataset_path(config), folder / MANIFEST
    manifest = read_manifest(images)
    if manifest.spaces.state.kind != "image":
        raise RunError(f"{config.env} shows no images to encode; set encoder=null")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".encode.lock", wait=True):
        if not path.is_file():  # nor has another process written it meanwhile
            remove_leftovers(folder)
            with contextlib.closing(Tracker(quiet=quiet)) as tracker:
                encoder = trained_encoder(
                    config.encoder, images, folder, manifest.seed, tracker, device
                )
                _encode_tasks(images, folder, manifest, encoder, tracker)
            _describe(folder, manifest, config.encoder.card.width)
    return folder


def trained_encoder(
    config: EncoderConfig, images: Path, folder: Path, seed: int, tracker: Tracker, device: str
) -> FrozenEncoder:
    """Train an encoder on a dataset of images, unless its weights are there."""
    dataset = Dataset.open(images, in_memory=False)
    frozen = FrozenEncoder(dataset.spaces.state, config.card).to(device)
    if not (folder / WEIGHTS).exists():
        teacher = DT(dataset.spaces, config.teacher, seed)
        to_device(teacher, device)
        teacher.prepare(dataset)
        learn(teacher, config.learn, seed, folder / TEACHER, tracker, phase="encoder")
        frozen.network.load_state_dict(teacher.policy.embed.state.state_dict())
        write_tensors(folder / WEIGHTS, frozen.state_dict(), {})
        (folder / TEACHER).unlink()
    frozen.load_state_dict(read_tensors(folder / WEIGHTS)[0])
    return frozen


def load_encoder(encoder: nn.Module, config: RunConfig) -> None:
    """Give a method the encoder that its data were encoded by."""
    encoder.load_state_dict(read_tensors(training_folder(config) / WEIGHTS)[0])


def _encode_tasks(
    images: Path, folder: Path, manifest: Manifest, encoder: FrozenEncoder, tracker: Tracker
) -> None:
    """Encode every task's file that no earlier run has."""
    tracker.start("encode", sum(entry.transitions for entry in manifest.files))
    done = 0
    for entry in manifest.files:
        if not (folder / entry.file).exists():
            with contextlib.closing(open_task(images, entry, manifest.spaces)) as task:
                vectors = []
                for start in range(0, entry.transitions, FRAMES):
                    vectors.append(encoder(task.read("states", start, start + FRAMES)))
                    tracker.advance(done + start, entry.file)
                rest = [task.read(spec.name) for spec in entry.arrays[1:]]  # in a history's order
            states = np.concatenate(vectors)  # [N, width]
            spaces = manifest.spaces.encoded(states.shape[1])
            write_history(folder, History(entry.task, states, *rest), spaces)
        done += entry.transitions
    tracker.finish()


def _describe(folder: Path, images: Manifest, width: int) -> None:
    """Finish the dataset: it tells the same of itself as its images, and which encoder it is of."""
    spaces, files = images.spaces.encoded(width), []
    for entry in images.files:
        has_levels = entry.arrays[-1].name == "levels"
        own = array_specs(spaces, entry.transitions, entry.episodes, has_levels)
        files.append(replace(entry, sha256=sha256(folder / entry.file), arrays=own))
    origin = {**images.hyper_parameters, "encoder": sha256(folder / WEIGHTS)}
    whole = replace(images, spaces=spaces, files=tuple(files), hyper_parameters=origin)
    write_manifest(folder, whole)
