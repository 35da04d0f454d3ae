"""Training a run: the embedder first, where it learns, then the method (Algorithm 2)."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from radt.checkpoint import save_checkpoint
from radt.data import Dataset
from radt.learn import learn
from radt.memory.language import flush_embeddings
from radt.methods import METHODS, Method
from radt.methods.dt import DT, DTOptions
from radt.methods.method import LearnOnline
from radt.methods.training_index import told
from radt.model.encoders import fit_encoders
from radt.runs.belonging import check_dataset
from radt.runs.encode import load_encoder
from radt.runs.evaluate import validate
from radt.runs.provenance import Stopwatch
from radt.runs.run import CHECKPOINT, Run, build_for, claim, describe, keep_threads, to_device
from radt.track import Tracker

EMBEDDER_STATE = "embedder.safetensors"
POLICY_STATE = "policy.safetensors"


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
