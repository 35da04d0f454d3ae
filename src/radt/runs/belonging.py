"""Whether data and weights belong to the run that is about to use them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from radt.checkpoint import Card, options_of
from radt.data import Manifest
from radt.decode import differences, named
from radt.errors import RunError
from radt.runs.run import CHECKPOINT, Run, collect_command, describe, training_folder
from radt.spaces import TaskSpaces

READ = ("state", "action", "horizon", "action_dims")  # of spaces: what data depend on
SCALES = ("return_scale", "reward_scale")  # and weights, too
TRAINED = ("method", "env", "seed", "options", "embedder", "exploration", "encoder")


def check_dataset(run: Run, manifest: Manifest) -> None:
    """Refuse data of other states or actions than those that the run's method reads."""
    encoder, spaces = run.config.encoder, run.suite.spaces
    names = (*READ, "lowest_return")  # from which bounds on returns count
    there = {"env": manifest.env, **_of(manifest.spaces, names)}
    read = spaces if encoder is None else spaces.encoded(encoder.card.width)
    here = {"env": run.config.env, **_of(read, names)}
    if unlike := differences(there, here, ("in the data", "in the run")):
        raise RunError(
            f"{training_folder(run.config)} does not hold the data of this run "
            f"({named(unlike)}); delete the folder and collect again with\n  "
            f"{collect_command(run.config)}"
        )


def check_checkpoint(run: Run, card: Card) -> None:
    """Refuse weights in a run's folder that another run has trained."""
    path = run.out / CHECKPOINT
    options, embedding = options_of(path, card)
    theirs, ours = asdict(card) | {"options": asdict(options)}, asdict(describe(run))
    if card.embedder is not None:
        theirs["embedder"] = {"name": card.embedder.name, "options": asdict(embedding)}
    there = {name: theirs[name] for name in TRAINED} | _of(card.spaces, (*READ, *SCALES))
    here = {name: ours[name] for name in TRAINED} | _of(run.suite.spaces, (*READ, *SCALES))
    unlike = differences(there, here, ("in the checkpoint", "in the run"))
    if seen := {*card.tasks} & {*run.tasks[1]}:
        unlike.append(f"it was trained on {len(seen)} of the tasks that the run is tested on")
    if unlike:
        raise RunError(
            f"{path} was not trained by the run in its folder ({named(unlike)}); bring the run's "
            "own back, or delete it and train again"
        )


def _of(spaces: TaskSpaces, names: tuple[str, ...]) -> dict[str, Any]:
    return {f"spaces.{name}": asdict(spaces)[name] for name in names}
