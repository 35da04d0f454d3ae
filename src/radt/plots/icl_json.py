"""One `icl.json` from disk, decoded strictly: it may come from elsewhere, and names files here."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from radt.decode import DecodeError, decode, read_json
from radt.envs.suite import SUITES, splits_of
from radt.plots.records import DATA, Record, RecordError
from radt.runs.provenance import TRIAL
from radt.spaces import LARGEST
from radt.variants import PLAIN

NEEDED = ("env", "method", "seed", "split", "tasks", "returns", "optimum", "wall_seconds")
AGAIN = "delete it and evaluate again"
Parts = dict[str, dict[str, Any]]
FIELDS: Mapping[str, Any] = {
    **dict.fromkeys(("env", "method", "label", "split", "code_version", "budget", "rule"), str),
    **dict.fromkeys(("config", "machine"), dict[str, Any]),
    "action_rule": dict[str, float | bool | None],
    **dict.fromkeys(("variants", "controls", "rules"), Parts | None),
    **dict.fromkeys(("cost", "speed", "data", "prepared"), dict[str, float | bool | None] | None),
    "seed": int,
    "tasks": list[int],
    "returns": list[list[float]],  # [task][trial]
    "optimum": list[float | None],  # [task]
    "solved_above": float | None,
    "scoring": dict[str, str | list[float]] | None,
    "wall_seconds": dict[str, float],
    "parameters": int,
    "plugins": dict[str, str],
    "learning": list[dict[str, float]],
}


def read_record(path: Path) -> dict[str, Any]:
    """Read one `icl.json`, and the hash of its data, which lies beside it."""
    try:
        record = read_json(path, dict[str, Any], AGAIN, RecordError)
    except FileNotFoundError:
        raise RecordError(f"there is no result at {path}; make it with `radt evaluate`") from None
    if missing := [name for name in NEEDED if name not in record]:
        raise RecordError(
            f"{path} is no result of an evaluation: it lacks {', '.join(missing)}; give the "
            "icl.json of a run"
        )
    try:
        _check(record)
    except DecodeError as error:
        raise RecordError(f"{path} is damaged or was edited ({error}); {AGAIN}") from error
    facts = path.with_name(DATA)
    if facts.exists():
        advice = "delete it, and it is measured again"
        card = read_json(facts, dict[str, Any], advice, RecordError).get("card")
        record["data_sha256"] = card.get("sha256") if isinstance(card, dict) else None
        if not isinstance(record["data_sha256"], str):
            raise RecordError(f"{facts} does not say which data were learned from; {advice}")
    return record


def _check(record: Record) -> None:
    """Check all that is counted on, named by or drawn."""
    _check_part(record)
    named = [record[name] for name in ("env", "split", "method", "label") if name in record]
    _check_names("names", *named, *record["wall_seconds"])
    _expect(min(record["wall_seconds"].values(), default=0.0) >= 0, "wall_seconds", "at least 0")
    _expect(record["seed"] >= 0, "seed", "at least 0")
    _expect(len(record["tasks"]) == len(record["returns"]), "tasks", "as many as lists of returns")
    if record["env"] in SUITES.names():
        known = set(chain(*splits_of(SUITES[record["env"]]).values()))
        _expect(known >= {*record["tasks"]}, "tasks", f"tasks of {record['env']}")
    for look in record.get("learning", ()):
        names = {name for name in look if name == "update" or TRIAL.fullmatch(name)}
        _expect("update" in look and names == {*look} != {"update"}, "learning", "returns by trial")
    config = record.get("config", {})
    for name in ("learn", "options", "evaluate", "collect"):
        decode(dict[str, Any], config.get(name, {}), f"config.{name}")
    for name in ("updates", "batch_size"):
        decode(int, config.get("learn", {}).get(name, 1), f"config.learn.{name}")
    decode(dict[str, Any], config.get("options", {}).get("model", {}), "config.options.model")
    _check_names("config.source", decode(str, config.get("source", "ppo"), "config.source"))


def _check_part(part: Record, where: str = "", like: tuple[int, int] | None = None) -> None:
    """Check types and shapes of a record, or of its part about other tasks, rules or memories."""
    for name, kind in FIELDS.items():
        if name in part:
            decode(kind, part[name], where + name)
    returns = part.get("returns") or [[]]
    shape = len(returns), len(returns[0])
    _expect(
        min(shape) > 0 and {shape[1]} == set(map(len, returns)), f"{where}returns", "equal rows"
    )
    _expect(like in (None, shape), f"{where}returns", f"the shape {like}")
    _expect(max(map(abs, chain(*returns))) <= LARGEST, f"{where}returns", f"at most {LARGEST:g}")
    scoring = part.get("scoring") or {}
    per_task = {"optimum": part.get("optimum"), **{n: scoring.get(n) for n in ("low", "high")}}
    for name, values in per_task.items():
        _expect(values is None or len(values) == shape[0], where + name, f"{shape[0]} numbers")
        known = [abs(value) for value in values or () if value is not None]
        _expect(max(known, default=0) <= LARGEST, where + name, f"at most {LARGEST:g}")
    _check_names(f"{where}action_rule", *part.get("action_rule", ()))
    for kind in ("variants", "controls", "rules"):
        for name, inner in (part.get(kind) or {}).items():
            _check_names(kind, name)
            _check_part(inner, f"{where}{kind}.{name}.", None if kind == "variants" else shape)
            _expect(kind != "variants" or "optimum" in inner, f"{kind}.{name}", "with optimum")


def _check_names(where: str, *names: str) -> None:
    """Refuse what could lead out of a folder, or mean something in Markdown or a terminal."""
    for name in names:
        _expect(PLAIN.fullmatch(name) is not None, where, f"a plain name, not {name[:80]!r}")


def _expect(is_so: bool, where: str, what: str) -> None:
    if not is_so:
        raise DecodeError(f"{where}: expected {what}")
