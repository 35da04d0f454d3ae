"""Training a run: an encoder of images, the embedder, where they learn, then the method (Alg. 2).

An encoder is trained inside a Decision Transformer on all of a dataset's tasks and then frozen, so
that no method reads an image again (the paper's appendix). What it makes of the images is a dataset
of its own, in a folder inside theirs, with the encoder's weights beside it. Seeds of runs share it:
its own seed is that of the data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from torch import nn

from radt.checkpoint import read_tensors, save_checkpoint, write_tensors
from radt.config import EncoderConfig, RunConfig
from radt.data import Dataset, History, read_manifest, write_history, write_manifest
from radt.data.manifest import MANIFEST, Manifest, array_specs
from radt.data.store import open_task
from radt.decode import DecodeError, read_json
from radt.errors import RunError
from radt.files import atomic_write, locked, remove_leftovers, sha256
from radt.learn import learn
from radt.memory.language import flush_embeddings
from radt.methods import METHODS, Method
from radt.methods.dt import DT, DTOptions
from radt.methods.method import LearnOnline
from radt.methods.training_index import told
from radt.model.encoders import FrozenEncoder, fit_encoders
from radt.runs.belonging import check_dataset
from radt.runs.evaluate import validate
from radt.runs.provenance import Stopwatch
from radt.runs.run import (
    CHECKPOINT,
    Run,
    build_for,
    claim,
    dataset_path,
    describe,
    keep_threads,
    to_device,
    training_folder,
)
from radt.track import Tracker

EMBEDDER_STATE = "embedder.safetensors"
POLICY_STATE = "policy.safetensors"
WEIGHTS = "encoder.safetensors"
TEACHER = "teacher.safetensors"  # to go on from, until the encoder is trained
ENCODED = "encoded.json"  # the hashes of finished files, until all are
FRAMES = 256  # that are encoded at once


def train_run(run: Run, dataset: Dataset, watch: Stopwatch) -> Path:
    """Train the config's method on the training tasks and return its checkpoint."""
    path = run.out / CHECKPOINT
    config, entry = run.config, METHODS[run.config.method]
    claim(run)
    if path.exists() or not entry.learns:
        return path
    check_dataset(run, dataset.manifest)
    chosen = dataset.select(run.tasks[0])
    with run.group.rank_zero_first():
        keep_threads(run)
    method = build_for(run)
    fit_encoders(method.networks["policy"], chosen)
    if "encoder" in method.networks:
        load_encoder(method.networks["encoder"], config)
    with closing(run.tracker()) as tracker:
        if config.trains_embedder:
            with watch.phase("embedder"):
                train_embedder(run, method, chosen, tracker)
        with watch.phase("prepare"):
            tracker.start("prepare", total=1)
            facts = method.prepare(chosen, partial(_prepared, tracker))
            for line in told(facts):
                tracker.tell(line)
            tracker.log(1, **facts)
            tracker.finish()
            _log_embeddings(tracker, method, 0)
        with watch.phase("train"):
            if entry.learn_online is not None:
                train_online(run, method, entry.learn_online, tracker)
            else:
                learn(
                    method,
                    config.learn,
                    config.seed,
                    run.out / POLICY_STATE,
                    tracker,
                    evaluate=lambda update: validate(run, method),
                    group=run.group,
                )
        _log_embeddings(tracker, method, config.learn.updates)
        if run.group.is_rank_zero:
            save_checkpoint(path, method, describe(run))
            for state in (EMBEDDER_STATE, POLICY_STATE):  # to go on from; the weights are there
                (run.out / state).unlink(missing_ok=True)
        run.group.wait()
        return path


def train_online(run: Run, method: Method, learn_online: LearnOnline, tracker: Tracker) -> None:
    """Let a method learn in the training tasks; one that is killed begins again and ends alike."""
    learn, seed = run.config.learn, run.config.seed
    tracker.start("train", total=learn.updates)
    looks = 0
    for done, facts in learn_online(method, run.suite, run.tasks[0], learn.updates, seed):
        tracker.log(done, **facts)
        if learn.evaluate_every and done // learn.evaluate_every > looks:
            looks = done // learn.evaluate_every
            tracker.log(done, **validate(run, method))
    tracker.finish()


def _log_embeddings(tracker: Tracker, method: Method, update: int) -> None:
    """Keep and count what a language model embedded until an update, keys and queries together."""
    if counts := flush_embeddings(getattr(method, "embedder", None)):
        tracker.start("embed", total=update)
        tracker.log(update, **counts)
        tracker.finish()


def _prepared(tracker: Tracker, done: int, total: int) -> None:
    tracker.advance(done / total, f"{done:,} of {total:,}")


def train_embedder(run: Run, method: Method, dataset: Dataset, tracker: Tracker) -> None:
    """Train the Decision Transformer whose hidden states become the method's keys."""
    config = run.config
    options = DTOptions(config.embedder.model, method.context.input_steps)
    teacher = DT(method.spaces, options, config.seed)
    to_device(teacher, run.device)
    teacher.prepare(dataset)
    fit_encoders(teacher.policy, dataset)
    short = replace(config.learn, updates=config.embedder.updates, evaluate_every=0)
    file = run.out / EMBEDDER_STATE
    learn(teacher, short, config.seed, file, tracker, phase="embedder", group=run.group)
    method.networks["embedder"].load_state_dict(teacher.policy.state_dict())


def encode_images(config: RunConfig, quiet: bool = True, device: str = "cpu") -> Path:
    """Train a config's encoder and encode its dataset, or go on doing so; return the folder.

    A config without an encoder learns from the dataset as it is.
    """
    folder = training_folder(config)
    images, path = dataset_path(config), folder / MANIFEST
    if config.encoder is None or (path.is_file() and not (folder / ENCODED).exists()):
        return folder
    manifest = read_manifest(images)
    if manifest.spaces.state.kind != "image":
        raise RunError(f"{config.env} shows no images to encode; set encoder=null")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".encode.lock", wait=True):
        if not path.is_file():  # nor has another process written it meanwhile
            remove_leftovers(folder)
            with closing(Tracker(quiet=quiet)) as tracker:
                encoder = trained_encoder(
                    config.encoder, images, folder, manifest.seed, tracker, device
                )
                hashes = _encode_tasks(images, folder, manifest, encoder, tracker)
            _write_manifest(folder, manifest, config.encoder.card.width, hashes)
        (folder / ENCODED).unlink(missing_ok=True)
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
) -> dict[str, str]:
    """Encode every task's file that no earlier run has as it wrote it; return their hashes."""
    tracker.start("encode", sum(entry.transitions for entry in manifest.files))
    hashes, done = _hashes(folder), 0
    for entry in manifest.files:
        path = folder / entry.file
        if not path.is_file() or hashes.get(entry.file) != sha256(path):
            with closing(open_task(images, entry, manifest.spaces)) as task:
                vectors = []
                for start in range(0, entry.transitions, FRAMES):
                    vectors.append(encoder(task.read("states", start, start + FRAMES)))
                    tracker.advance(done + start, entry.file)
                rest = [task.read(spec.name) for spec in entry.arrays[1:]]  # in a history's order
            states = np.concatenate(vectors)  # [N, width]
            spaces = manifest.spaces.encoded(states.shape[1])
            written = write_history(folder, History(entry.task, states, *rest), spaces)
            hashes[entry.file] = written.sha256
            atomic_write(folder / ENCODED, json.dumps(hashes).encode())
        done += entry.transitions
    tracker.finish()
    return hashes


def _hashes(folder: Path) -> dict[str, str]:
    """Read the hashes of the files that earlier runs made with the weights that are there."""
    weights = {WEIGHTS: sha256(folder / WEIGHTS)}
    with suppress(FileNotFoundError, DecodeError):  # what it does not say is encoded again
        known = read_json(folder / ENCODED, dict[str, str], "")
        return known if weights.items() <= known.items() else weights
    return weights


def _write_manifest(folder: Path, images: Manifest, width: int, hashes: Mapping[str, str]) -> None:
    """Finish the dataset: it tells the same of itself as its images, and which encoder it is of."""
    spaces, files = images.spaces.encoded(width), []
    for entry in images.files:
        has_levels = entry.arrays[-1].name == "levels"
        own = array_specs(spaces, entry.transitions, entry.episodes, has_levels)
        files.append(replace(entry, sha256=hashes[entry.file], arrays=own))
    origin = {**images.hyper_parameters, "encoder": hashes[WEIGHTS]}
    whole = replace(images, spaces=spaces, files=tuple(files), hyper_parameters=origin)
    write_manifest(folder, whole)
