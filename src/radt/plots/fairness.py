"""What is the same for every method in a table, and what is not: a reader must not have to ask."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from radt.plots.records import Record, by_method, learns, source_of

SIZES = ("layers", "heads", "width")
Groups = dict[str, list[str]]  # a value, and the methods that have it


def conditions(records: Sequence[Record]) -> dict[str, Groups]:
    """Group methods by each thing that a fair comparison holds equal; learners by training, too."""
    trained = _trained(records)
    remembering = [record for record in trained if _memory(record)]
    return {
        "action rule": grouped(records, action_rule),
        "what a method does to its logits before that rule": grouped(trained, counts),
        "updates": grouped(trained, lambda record: f"{_updates(record):,}"),
        "batch": grouped(trained, lambda record: str(record["config"]["learn"]["batch_size"])),
        "dataset": grouped(trained, dataset),
        "sha256 of the data": grouped(
            trained if any("data_sha256" in record for record in trained) else (),
            lambda record: str(record.get("data_sha256", "unknown"))[:8],
        ),  # a recipe rounds as its machine does
        "model": grouped(trained, model),
        "return-to-go": grouped(trained, return_to_go),
        "episodes learned from": grouped(trained, episodes),
        "windows and chunks": grouped(trained, windows),
        "remembered, where there is a memory": grouped(remembering, remembered),
        "steps between retrievals, where there is a memory": grouped(remembering, retrieval),
        "steps by which windows move on at once": grouped(
            [record for record in trained if _window_step(record) is not None],
            lambda record: str(_window_step(record)),
        ),
        "precision": grouped(trained, precision),
        "budget": grouped(trained, lambda record: str(record.get("budget"))),
    }


def action_rule(record: Record) -> str:
    """Write how actions are chosen."""
    return json.dumps(_said(record.get("action_rule", {})), sort_keys=True)


def counts(record: Record) -> str:
    """Say what a method counts while it acts, and how much it lowers what was done often."""
    options = record["config"].get("options", {})
    weights = (
        (options.get("novelty"), "what was tried until a task is solved"),
        (options.get("restless"), "what was done here since the trial's last reward"),
    )
    parts = [f"{what} by {weight:g} log(1 + times)" for weight, what in weights if weight]
    return f"lowers {', then '.join(parts)}" if parts else "nothing"


def return_to_go(record: Record) -> str:
    """Say whether a policy reads the return that is left to earn."""
    size = record["config"].get("options", {}).get("model")
    return "read" if isinstance(size, dict) and size.get("return_to_go") else "not read"


def remembered(record: Record) -> str:
    """Say which trials are stored, and by what a stored chunk is judged."""
    memory = _memory(record)
    above, whole = memory.get("store_above"), "" if memory.get("erase_loops") else "whole "
    stored = f"{whole}trials" + ("" if above is None else f" that earned more than {above:g}")
    stored += "" if whole else " without their loops"
    judged = "what the chunk earned" if memory.get("return_of") == "chunk" else "its trial's return"
    return f"{stored}, judged by {judged}, alpha {memory.get('alpha', 1.0):g}"


def dataset(record: Record) -> str:
    """Name the source of the data and its recipe by a hash; how much it is, where it says so."""
    recipe = _said(record["config"]["collect"])
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:8]
    size = f"{recipe['transitions']:,} transitions a task, " if "transitions" in recipe else ""
    return f"{source_of(record)}: {size}recipe {digest}"


def model(record: Record) -> str:
    """Name the size of a method's policy."""
    size = record["config"].get("options", {}).get("model")
    told = {part: size[part] for part in SIZES if part in size} if isinstance(size, dict) else {}
    return ", ".join(f"{part} {count}" for part, count in told.items()) or "of its own kind"


def episodes(record: Record) -> str:
    """Say which episodes of the data a method learns from; all where a record says nothing."""
    options = record["config"].get("options", {})
    best, every = options.get("best_fraction", 1.0), options.get("episode_every", 1)
    least = options.get("least_return")
    parts = [f"one in {every}"] if every != 1 else []
    parts += [f"the best {best:.0%} of a task"] if best != 1 else []
    parts += [f"those that earned {least:.0%} of the best of any task"] if least else []
    return ", ".join(parts) or "all"


def windows(record: Record) -> str:
    """Say how windows of episodes and the chunks they read are drawn, but for uniformly."""
    options = record["config"].get("options", {})
    training = options.get("training") or {}
    shares = (
        (options.get("beginnings"), "of windows from beginnings"),
        (options.get("renamed"), "of windows moved elsewhere"),
        (training.get("cut_short"), "of chunks end with an early reward"),
    )
    parts = [f"{share:.0%} {what}" for share, what in shares if share]
    parts += ["chunks begin with their episode"] if training.get("from_start") else []
    parts += ["chunks shown leg by leg"] if options.get("legs") else []
    return ", ".join(parts) or "drawn uniformly"


def retrieval(record: Record) -> str:
    """Say how often a method searches its memory."""
    every = _memory(record).get("retrieve_every", 1)
    return str(every) if every else "once a trial"


def precision(record: Record) -> str:
    """Say how training computed; older records did so in single precision, not compiled."""
    choices = record.get("choices") or {}
    compiled = "compiled" if choices.get("compiled") else "not compiled"
    return f"{choices.get('precision', 'float32')}, {compiled}"


def _memory(record: Record) -> dict[str, Any]:
    return dict(record["config"].get("options", {}).get("memory") or {})


def _window_step(record: Record) -> int | None:
    """Return by how much the window of a method moves; None where it has none."""
    options = record["config"].get("options", {})
    moves = "context_len" in options or "memory" in options
    return options.get("window_step", 1) if moves else None


def _said(values: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is not used: a record may be older than the option."""
    return {n: value for n, value in values.items() if value is not None and value is not False}


def grouped(records: Sequence[Record], value: Callable[[Record], str]) -> Groups:
    """List the methods by value, each once."""
    groups: Groups = {}
    for method, same in by_method(records).items():
        for found in dict.fromkeys(map(value, same)):
            groups.setdefault(found, []).append(method)
    return groups


def in_words(records: Sequence[Record], wall_minutes: float | None = None) -> str:
    """Say what every method shares and, louder, what they do not."""
    found = {name: groups for name, groups in conditions(records).items() if groups}
    meant = {"updates"} if wall_minutes is not None else set()
    shared = [f"{name} `{next(iter(groups))}`" for name, groups in found.items() if _one(groups)]
    unequal = {n: groups for n, groups in found.items() if not _one(groups) and n not in meant}
    parts = [f"The same for every method: {'; '.join(shared)}."] if shared else []
    if wall_minutes is not None and "updates" in found:
        parts.append(
            f"Every method is given {wall_minutes:g} minutes of training, the embedder of a memory "
            "and the filling of its index included: as many updates as fit by a pace that was "
            "measured before. Updates, and the seconds that they took by the log of the run, "
            f"looks at validation tasks and cached vectors left out: {_taken(records)}."
        )
    if unequal:
        listed = "\n".join(f"- {name}: {_list(groups)}" for name, groups in unequal.items())
        parts.append(f"**Not the same for every method**, so compare with care:\n\n{listed}")
    return "\n\n".join([*parts, *_embedders(records, wall_minutes), *_codes(records)])


def _taken(records: Sequence[Record]) -> str:
    """Say how long each method trained for its updates, from its shortest to its longest run."""
    told = []
    for method, same in by_method(_trained(records)).items():
        counts = sorted({_updates(record) for record in same})
        known = sorted(seconds for record in same if (seconds := _trained_for(record)) is not None)
        spent = " to ".join(dict.fromkeys(f"{known[end]:.0f}" for end in (0, -1))) if known else "?"
        told.append(f"`{method}` {' and '.join(f'{n:,}' for n in counts)} in {spent} s")
    return "; ".join(told)


def _trained_for(record: Record) -> float | None:
    """Return the seconds of training by the speed that a log shows; not known to older records."""
    speed, wall = (record.get("speed") or {}).get("samples_per_second"), record["wall_seconds"]
    if not speed:
        return None
    samples = _updates(record) * record["config"]["learn"]["batch_size"]
    passed = min(samples / speed, wall.get("train", math.inf))  # a speed of few lines may be off
    return float(passed + wall.get("embedder", 0.0) + wall.get("prepare", 0.0))


def _trained(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if learns(record) and "config" in record]


def _updates(record: Record) -> int:
    return int(record["config"]["learn"]["updates"])


def _embedders(records: Sequence[Record], wall_minutes: float | None) -> list[str]:
    """Name the methods that train a second network first, which the updates do not count."""
    having = [r for r in records if learns(r) and r["wall_seconds"].get("embedder")]
    if not having or wall_minutes is not None:
        return []
    updates = grouped(having, lambda record: f"{record['config']['embedder']['updates']:,}")
    return [f"The embedder of a memory is trained before that, in updates: {_list(updates)}."]


def _codes(records: Sequence[Record]) -> list[str]:
    """Name the versions of the code, if there are several."""
    codes = grouped(records, lambda record: str(record.get("code_version")))
    return [] if _one(codes) else [f"Versions of the code: {_list(codes)}."]


def _one(groups: Groups) -> bool:
    return len(groups) == 1


def _list(groups: Groups) -> str:
    return "; ".join(f"`{value}` ({', '.join(methods)})" for value, methods in groups.items())
