from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from radt.config import Layer, RunConfig, compose, from_json, overrides
from radt.decode import DecodeError, differences, leaves
from radt.envs import SUITES
from radt.envs.suite import Recipe
from radt.memory.embed import DTEmbedderOptions
from radt.methods import METHODS, MethodEntry
from radt.runs.presets import BUDGETS, preset_layers, usual_recipe
from radt.runs.run import Run, RunError, claim, conflicts
from radt.variants import variant_names
from tests.toys import TOY_GRID


def preset(env: str = "dark-room-10x10", method: str = "ra-dt", budget: str = "smoke") -> RunConfig:
    return compose(preset_layers(env, method, budget))[0]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("method", variant_names())
def test_every_preset_survives_json(method: str, budget: str) -> None:
    for env in SUITES.names():
        config, sources = compose(preset_layers(env, method, budget))
        plain = json.loads(json.dumps(config.to_json(), allow_nan=False))
        assert from_json(plain) == config
        assert (config.env, config.label, config.budget) == (env, method, budget)
        assert set(sources) == set(leaves(plain))
        assert all(sources.values())
        assert differences(plain, from_json(plain).to_json()) == []


@pytest.mark.parametrize(
    ("env", "method", "values"),
    [
        ("dark-room-10x10", "ra-dt", {"learn.batch_size": 128, "options.memory.retrieve_every": 1}),
        ("dark-key-door-40x20", "ra-dt", {"learn.batch_size": 32}),
        ("dark-room-10x10", "ra-dt-lm", {"options.training.dedup": 0.98}),
        (
            "maze-runner-15x15",
            "ra-dt",
            {"options.memory.context_len": 50, "options.memory.retrieve_every": 25},
        ),
        ("maze-runner-15x15", "ad", {"options.episode_gap": 1000, "evaluate.trials": 30}),
    ],
)
def test_the_paper_budget_has_the_papers_values(
    env: str, method: str, values: dict[str, Any]
) -> None:
    plain = leaves(preset(env, method, "paper").to_json())
    assert {path: plain[path] for path in values} == values


def test_later_layers_win_and_are_named() -> None:
    layers = preset_layers("dark-room-10x10", "dt", "smoke")
    file = Layer("run.json", {"learn": {"updates": 11, "clip": 0.5}})
    config, sources = compose([*layers, file, overrides(["learn.updates=12", "seed=3"])])
    assert (config.learn.updates, config.learn.clip, config.seed) == (12, 0.5, 3)
    assert sources["learn.updates"] == sources["seed"] == "--set"
    assert sources["learn.clip"] == "run.json"
    assert sources["learn.batch_size"] == "budget smoke"
    assert sources["learn.weight_decay"] == "default"
    assert sources["env"] == "run"


def test_a_suite_says_how_its_data_are_made_at_each_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = (
        Recipe({"collect": {"tasks": 3}}, budgets=("smoke",)),
        Recipe({"collect": {"tasks": 9, "episodes": 7}}),
    )
    monkeypatch.setitem(SUITES._items, "told", replace(TOY_GRID, name="told", recipes=recipes))
    expert = Layer("--set", {"source": "noisy-expert"})
    for budget, tasks, episodes in (("paper", 9, 7), ("laptop", 9, 7), ("smoke", 3, 10)):
        collect = compose(preset_layers("told", "dt", budget, expert))[0].collect
        assert (collect.tasks, collect.episodes) == (tasks, episodes)
        assert asdict(collect) == usual_recipe("told", "noisy-expert", budget)


def test_one_recipe_serves_methods_that_lack_some_of_its_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = Recipe({"embedder": {"updates": 7}, "options": {"episode_gap": 3}})
    monkeypatch.setitem(SUITES._items, "told", replace(TOY_GRID, name="told", recipes=(recipe,)))
    assert preset("told", "ra-dt").embedder.updates == 7
    assert preset("told", "ad").options.episode_gap == 3
    assert preset("told", "random").embedder is None


def test_laying_a_layer_changes_neither_it_nor_the_ones_below() -> None:
    below = {"learn": {"updates": 1}, "env": "e", "method": "dt"}
    above = {"learn": {"clip": 0.1}}
    compose([Layer("a", below), Layer("b", above)])
    assert below == {"learn": {"updates": 1}, "env": "e", "method": "dt"}
    assert above == {"learn": {"clip": 0.1}}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("learn.updats=1", r"config\.learn: unknown name 'updats'; did you mean updates"),
        ("lern.updates=1", r"config: unknown name 'lern'; did you mean learn"),
        ("options.memroy.top_k=1", r"config\.options: unknown name 'memroy'; did you mean memory"),
        ("options.memory.top_k=one", r"config\.options\.memory\.top_k: expected int, got 'one'"),
        ("options.memory.top_k=0", r"config\.options\.memory: top_k must lie in 1"),
        ("options.model.heads=3", r"config\.options\.model: .*heads=3"),
        ("options.model.tokens=fussed", r"tokens: 'fussed' is not one of 'fused', 'interleaved'"),
        ("budget=huge", r"budget: 'huge' is not one of 'smoke', 'laptop', 'paper'"),
        ("evaluate.rule.temperature=-1", r"evaluate\.rule: a temperature must be"),
        ("learn.clip=NaN", r"learn\.clip: expected a finite number"),
        ("learn=3", r"config\.learn: expected an object with the fields of LearnConfig"),
        ("seed.x=3", r"config\.seed: expected int"),
        ("collect.batch_size=60", r"config\.collect: n_steps=256 must be a multiple"),
        ("method=3", r"method must be a name, one of .*, dt, "),
    ],
)
def test_wrong_settings_say_what_is_right(assignment: str, message: str) -> None:
    layers = preset_layers("dark-room-10x10", "ra-dt", "smoke")
    with pytest.raises(DecodeError, match=message):
        compose([*layers, overrides([assignment])])


def test_empty_names_in_a_path_are_refused() -> None:
    with pytest.raises(DecodeError, match="has an empty name"):
        overrides(["learn..updates=3"])


def test_assignments_build_one_layer() -> None:
    layer = overrides(["a.b=1", "a.c=x", "d=[1]", "a.b=2"])
    assert layer == Layer("--set", {"a": {"b": 2, "c": "x"}, "d": [1]})


def test_leaves_and_differences() -> None:
    assert leaves({"a": {"b": 1, "c": {}}, "d": [1]}) == {"a.b": 1, "a.c": {}, "d": [1]}
    one = preset()
    other = replace(one, seed=4, learn=replace(one.learn, updates=7))
    assert differences(one.to_json(), other.to_json()) == [
        "learn.updates: 6 there, 7 now",
        "seed: 0 there, 4 now",
    ]


@dataclass(frozen=True)
class PluginOptions:
    strength: float = 1.0
    colours: tuple[str, ...] = ("red",)


def test_options_of_a_plugged_in_method(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: Any) -> Any:
        raise NotImplementedError

    entry = MethodEntry(PluginOptions, build, learns=False)
    monkeypatch.setitem(METHODS._items, "plug-in", entry)
    layers = preset_layers("dark-room-10x10", "plug-in", "smoke")
    config, sources = compose([*layers, overrides(['options.colours=["blue"]'])])
    assert config.options == PluginOptions(colours=("blue",))
    assert sources["options.colours"] == "--set"
    assert sources["options.strength"] == "default"
    assert from_json(config.to_json()) == config
    with pytest.raises(
        DecodeError, match=r"options: unknown name 'strenth'; did you mean strength"
    ):
        compose([*layers, overrides(["options.strenth=1"])])


def test_a_folder_belongs_to_one_config(tmp_path: Path) -> None:
    config = preset()
    claim(Run(config, tmp_path / "x"))
    file = tmp_path / "x" / "config.json"
    before = file.stat().st_mtime_ns
    claim(Run(config, tmp_path / "x"))
    assert file.stat().st_mtime_ns == before
    assert from_json(json.loads(file.read_text())) == config
    with pytest.raises(RunError, match=r"(?s)belongs to another run:.*seed: 0 there, 1 now.*--out"):
        claim(Run(replace(config, seed=1), tmp_path / "x"))
    with pytest.raises(RunError, match=r"(?s)method: 'ra-dt' there, 'dt' now.*and \d+ more\n"):
        claim(Run(preset(method="dt"), tmp_path / "x"))
    assert file.stat().st_mtime_ns == before


def test_a_method_that_learns_nothing_does_not_care_how_others_learn() -> None:
    def told(method: str, *sets: str) -> tuple[RunConfig, RunConfig]:
        layers = preset_layers("dark-room-10x10", method, "smoke")
        texts = ("learn.batch_size=32", "collect.seed=1", *sets)
        return compose([*layers, overrides(sets)])[0], compose([*layers, overrides(texts)])[0]

    assert conflicts(*told("replay")) == []
    said = ["collect.seed: 0 there, 1 now", "learn.batch_size: 8 there, 32 now"]
    assert conflicts(*told("dt")) == said
    for tested in ("split=tune", 'evaluate.also_on=["training-tasks"]'):
        assert conflicts(*told("replay", tested)) == said[:1]  # data say which tasks there are
    one, other = preset(method="replay"), preset(method="sweep")
    assert conflicts(one, other) == [
        f"{name}: 'replay' there, 'sweep' now" for name in ("label", "method")
    ]
    annealed = Layer("x", {"source": "noisy-expert"})
    data = compose(preset_layers("dark-room-10x10", "replay", "smoke", annealed))[0]
    assert conflicts(one, data) == []


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"method": "dtt"}', '{"method": "dt"}'])
def test_a_folder_with_a_damaged_config_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(RunError, match="choose another --out"):
        claim(Run(preset(), tmp_path))


def test_the_method_says_whose_options_the_embedder_has() -> None:
    assert preset().embedder == DTEmbedderOptions(preset().embedder.model, updates=3)
    assert preset(method="dt").embedder is None
    layers = preset_layers("dark-room-10x10", "ra-dt", "smoke")
    with pytest.raises(DecodeError, match=r"config\.embedder: unknown name 'updats'; did you mean"):
        compose([*layers, overrides(["embedder.updats=1"])])
    layers = preset_layers("dark-room-10x10", "dt", "smoke")
    with pytest.raises(DecodeError, match=r"config\.embedder: dt has no embedder"):
        compose([*layers, overrides(["embedder.updates=1"])])
