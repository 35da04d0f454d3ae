"""Names, verbs, flags and `--set` paths of November 2026 still work, or say why they went."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import radt
from radt.cli import MENU, Menu, main
from radt.config import from_json
from radt.decode import leaves
from radt.envs.suite import SUITES
from radt.methods.windows import WindowOptions
from radt.variants import variant

SURFACE = json.loads(Path(__file__).with_name("surface.json").read_text())

# What went, with the reason. Anything else that is missing is a mistake.
GONE_VERBS: dict[str, str] = {
    "bench evaluate": "what is evaluated side by side is tested to be equal, and no longer timed",
    "bench distributed": "a run's log says how fast any number of processes trains",
}
GONE_FLAGS: dict[str, dict[str, str]] = {}
GONE_DOCS: dict[str, str] = {}


def verbs(menu: Menu = MENU, words: tuple[str, ...] = ()) -> list[str]:
    found = [] if menu.usual is None else [" ".join(words)]
    for word, item in menu.verbs.items():
        inside = (*words, word)
        found += verbs(item, inside) if isinstance(item, Menu) else [" ".join(inside)]
    return found


def test_public_names() -> None:
    assert set(SURFACE["names"]["radt"]) <= set(radt.__all__)
    assert all(getattr(radt, name) is not None for name in SURFACE["names"]["radt"])


def test_methods_and_environments() -> None:
    assert all(variant(name) for name in SURFACE["methods"])
    assert all(SUITES[name] for name in SURFACE["envs"])


@pytest.mark.parametrize("verb", sorted({*SURFACE["verbs"]} - {*GONE_VERBS}))
def test_verbs_take_their_flags(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verb in verbs()
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as ended:
        main([*verb.split(), "--help"])
    assert ended.value.code == 0
    known = set(re.findall(r"--[a-z][a-z0-9-]+", capsys.readouterr().out))
    assert set(SURFACE["verbs"][verb]) - set(GONE_FLAGS.get(verb, {})) <= known


@pytest.mark.parametrize("method", SURFACE["sets"])
def test_set_takes_every_old_path(method: str) -> None:
    sets = [
        f"{path}={json.dumps(value)}"
        for path, value in SURFACE["sets"][method].items()
        if path not in ("env", "method", "budget", "embedder")
    ]
    config = radt.preset("dark-room-10x10", method, "laptop", *sets)
    rule = ("evaluate.rule.temperature=0.5", "evaluate.rule.explore_temperature=2.0")  # as then
    assert config == radt.preset("dark-room-10x10", method, "laptop", *rule)


@pytest.mark.parametrize("path", sorted({p for known in SURFACE["sets"].values() for p in known}))
def test_an_old_path_alone_is_known(path: str) -> None:
    method, value = next(
        (method, known[path]) for method, known in SURFACE["sets"].items() if path in known
    )
    if path in ("env", "method", "budget") or (path, value) == ("embedder", None):
        return
    config = radt.preset("dark-room-10x10", method, "laptop", f"{path}={json.dumps(value)}")
    assert leaves(config.to_json())


def test_pages_of_the_docs() -> None:
    pages = {path.name for path in (Path(__file__).parents[2] / "docs").glob("*.md")}
    assert set(SURFACE["docs"]) - set(GONE_DOCS) <= pages


@pytest.mark.parametrize("method", ["dt", "ra-dt+"])
def test_the_old_name_of_a_source_is_known(method: str) -> None:
    old, new = (
        radt.preset("maze-runner-15x15", method, "smoke", f"source={name}", "collect.tasks=12")
        for name in ("annealed", "noisy-expert")
    )
    assert old == new == from_json({**new.to_json(), "source": "annealed"})


def test_a_removed_option_in_use_is_refused_with_a_word() -> None:
    with pytest.raises(radt.RadtError, match="removed"):
        radt.preset("dark-room-10x10", "ra-dt", "smoke", "options.model.shared_states=true")


def test_a_misspelt_old_name_is_recognised() -> None:
    with pytest.raises(radt.RadtError, match="count_bonus"):
        radt.preset("dark-room-10x10", "ra-dt", "smoke", "options.noveltyy=3")


def test_a_plug_in_that_gives_an_old_option_another_default_is_told() -> None:
    with pytest.raises(TypeError, match="top_fraction"):
        type("Options", (WindowOptions,), {"__annotations__": {"best_fraction": float}})
