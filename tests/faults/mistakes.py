"""Mistakes on the command line: `--set`, flags and paths that a user may type.

Each ends with one line and exit code 2, or was none. Whatever the words are, no traceback is shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from radt.decode import leaves
from tests.faults.battery import Case
from tests.faults.kills import SMALL, drawn
from tests.faults.records import is_one_line, said_by
from tests.runs.small import small_config, use_toys
from tests.toys import TOY_GRID

METHODS = ("ra-dt", "ra-dt+", "ad", "dpt", "dt", "rl2", "replay")
USUAL = (TOY_GRID.name, "--budget", "smoke", "--threads", "1", "--quiet", "--set", *SMALL[:-1])
SMALLS = (  # with which a command that takes them is soon done
    *("-1", "0", "1", "2", "3", "7", "0.5", "-0.5", "1.5", "1e-30", "-0.0", "NaN", "-Infinity"),
    *("Infinity", "1e30", "1e400", "1e-400", "", " ", "x", "True", "false", "null", "None", "[]"),
    *("[1]", "[-1]", '["x"]', "[[]]", "{}", '{"a": 1}', '{"model": 0}', '"', "[", "a=b", "\x00"),
    *("[bold]x[/]", "../../x", "\x1b]0;x\x07", "é", "\udcff", "NaN]", '"7"', "0x10", "1_000"),
)
LARGE = ("1000000000", "9" * 40, "-" + "9" * 40, "9" * 5000, "2147483648", "100000", "[" * 3000)
SIZES = (
    "layers",
    "width",
    "heads",
    "context_len",
    "past_len",
    "future_len",
    "return_bins",
    "top_k",
)
NAMES = (
    "",
    ".",
    "..",
    "options.",
    ".options",
    "nope",
    "options.nope",
    "options.model.width.x",
    "x",
)
FLAGS: Mapping[str, tuple[str, ...]] = {
    "--seed": ("-1", "x", "1.5", "9" * 30, "nan"),
    "--threads": ("0", "-1", "x", "9" * 12, "1.5"),
    "--device": ("nowhere", "cuda:99", "meta", "", "cpu:1:1", "\udcff"),
    "--budget": ("tiny", "", "[red]", "\x1b[2J"),
    "--method": ("radt", "DT", "", "../dt", "ra-dt,dt"),
    "--trials": ("0", "-1", "x", "99999999999999999999"),
    "--split": ("unseen", "", "train,eval"),
    "--rules": ("none", ",", "authors,,"),
    "--controls": ("best", ",", "erased,none"),
    "--env": ("nope", "dark-room-20x20", "", "[/red]"),
    "--goals": ("0", "99", "-1", "x"),
    "--top": ("-1", "0", "x"),
    "--nope": ("", "1"),
    "--workers": ("0", "-1", "x"),
    "--seeds": ("0", "-1", "x"),
    "--port": ("-1", "99999999", "x"),
}
READERS = (  # verbs that are given what lies somewhere
    *("report", "evaluate", "data info", "data verify", "data curves", "memory info"),
    *("memory verify", "memory repair", "memory compact", "config diff", "analyse attention"),
    *(
        "analyse visits",
        "analyse delusions",
        "analyse retrieval",
        "hub push",
        "view",
        "run --config",
    ),
    *("run --config", "demo --checkpoint", "memory export", "memory import", "memory re-embed"),
)


def change(name: str, rng: np.random.Generator) -> str:
    """Make up a value for an option."""
    large = name.rpartition(".")[2] in SIZES and rng.random() < 0.5
    values = LARGE if large else SMALLS
    return f"{name}={values[int(rng.integers(len(values)))]}"


def trained(folder: Path, rng: np.random.Generator) -> list[str]:
    """Train with one option changed."""
    method = str(rng.choice(METHODS))
    names = [*leaves(small_config(method).to_json()), *NAMES]
    weights = np.array([5.0 if name.startswith("options") else 1.0 for name in names])
    name = str(rng.choice(names, p=weights / weights.sum()))
    verb = "train" if rng.random() < 0.7 else "run"
    out = ["--out", str(folder / "out")]
    return [verb, *USUAL, change(name, rng), "--method", method, *out]


def planned(folder: Path, rng: np.random.Generator) -> list[str]:
    """Only ask what there is to do, with any values."""
    names = [*leaves(small_config("ra-dt").to_json()), *NAMES]
    sets = [
        f"{name}={(*SMALLS, *LARGE)[int(rng.integers(len(SMALLS) + len(LARGE)))]}"
        for name in rng.choice(names, int(rng.integers(1, 4)))
    ]
    verb = ["config", "show"] if rng.random() < 0.3 else ["run", "--dry-run"]
    return [*verb, TOY_GRID.name, "--set", *sets]


def flagged(folder: Path, rng: np.random.Generator) -> list[str]:
    """Give flags that a verb has or has not values that they take or not."""
    verbs = ("run --dry-run", "config show", "envs", "data list", "evaluate", "demo", "report")
    verb = str(rng.choice([*verbs, "reproduce --dry-run", "compare --dry-run", "view", "doctor"]))
    words = [*verb.split(), TOY_GRID.name] if rng.random() < 0.7 else verb.split()
    for flag in rng.choice([*FLAGS], int(rng.integers(1, 3)), replace=False):
        words += [str(flag), FLAGS[flag][int(rng.integers(len(FLAGS[flag])))]]
    if verb in ("view", "doctor"):  # that would not come to an end
        words.append("--nope")
    return words


def odd_places(folder: Path) -> list[str]:
    """Make things that are nothing that any verb reads."""
    folder.mkdir(parents=True)
    (folder / "empty").touch()
    (folder / "noise").write_bytes(np.random.default_rng(0).bytes(5000))
    (folder / "list.json").write_text("[]")
    (folder / "deep.json").write_text("[" * 99_999)
    (folder / "hollow").mkdir()
    for name in ("icl.json", "manifest.json", "model.safetensors", "trace.jsonl", "config.json"):
        (folder / "hollow" / name).mkdir()
        (folder / f"in-{name}").mkdir()
        (folder / f"in-{name}" / name).write_text("{}")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    (folder / "[red]x").mkdir()
    odd = [str(path) for path in sorted(folder.iterdir())]
    odd += [f"{folder}/absent", "x" * 5000, f"{folder}/empty/below", "postgres:", "postgres:x y"]
    return [*odd, "\x00", "\udcff", "/", "", "folder:", "nope:x", "huggingface.example/x"]


def misled(folder: Path, rng: np.random.Generator) -> list[str]:
    """Let a verb read something odd."""
    odd = odd_places(folder / "odd")
    chosen = [odd[int(n)] for n in rng.integers(len(odd), size=2)]
    verb = READERS[int(rng.integers(len(READERS)))]
    two = verb in ("config diff", "memory export", "memory import", "memory re-embed", "hub push")
    words = [*verb.split(), *chosen[: 2 if two else 1]]
    return [*words, "--nope"] if verb == "view" and Path(chosen[0]).is_dir() else words


WAYS: tuple[Callable[[Path, np.random.Generator], list[str]], ...] = (
    *(trained, planned, misled),
    *(trained, flagged, misled),
)


def collected(home: Path) -> None:
    """Make the data that commands train on."""
    with pytest.MonkeyPatch.context() as patch:
        use_toys(patch, home)
        assert said_by("collect", *USUAL).code == 0


def mistaken(folder: Path, home: Path, cases: range) -> Iterator[Case]:
    """Type something wrong."""
    with pytest.MonkeyPatch.context() as patch:
        use_toys(patch, home)
        patch.setattr(Figure, "savefig", drawn)
        patch.setattr("radt.runs.provenance.cost", lambda run, method: None)
        patch.delenv("RADT_MEMORY_DSN", raising=False)
        for case in cases:
            here, rng = folder / f"case-{case}", np.random.default_rng(case)
            words = WAYS[case % len(WAYS)](here, rng)
            yield case, " ".join(words).replace(str(folder), ""), answered(words)


def answered(words: list[str]) -> str:
    """Say how a command was answered."""
    try:
        said = said_by(*words)
    except Exception as error:
        return f"tracebacks: {type(error).__name__}: {str(error)[:200]}"
    told = is_one_line(said) or "For full helptext" in said.err  # as the parser answers
    return "clean" if said.code == 0 or (said.code == 2 and told) else f"tracebacks: {said}"
