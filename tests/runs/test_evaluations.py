"""Rules and controls are evaluated with the weights of the run, and a kill loses none of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radt.action_rules import named_rule
from radt.config import EvaluateConfig
from radt.data import Dataset
from radt.data.stats import mean_and_best
from radt.errors import RunError
from radt.icl import ICLResult
from radt.methods.controls import CONTROLS, changes_nothing
from radt.methods.exploration import ExplorationConfig, with_exploration
from radt.runs.evaluate import evaluate_run, load_trained, trials_of
from radt.runs.evaluations import Parts, evaluations
from radt.runs.provenance import Stopwatch
from radt.runs.roll_out import Trials, roll_out
from radt.runs.run import Run, collect, conflicts
from radt.runs.train import train_run
from radt.track import Tracker
from tests.contracts.method import TINY, build_method
from tests.runs.small import small_config, use_toys
from tests.toys import TOY_GRID, TOY_REACH

EVERYTHING = (
    "evaluate.trials=4",
    'evaluate.rules=["paper", "authors", "explore-exploit"]',
    f"evaluate.controls={json.dumps(list(CONTROLS))}",
)
METHODS = ("dt", "ad", "dpt", "ra-dt", "nearest")
TIMES = ("wall_seconds", "speed")  # of a record


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def toys(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_toys(monkeypatch, home)


@pytest.fixture(scope="module")
def trained(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """Train a method once, and hand out runs that are still to be evaluated."""
    done: dict[str, Path] = {}

    def train(method: str) -> Run:
        config = small_config(method, *EVERYTHING)
        if method not in done:
            done[method] = tmp_path_factory.mktemp(method)
            dataset = Dataset.open(collect(config, workers=1))
            train_run(Run(config, done[method], threads=1), dataset, Stopwatch())
        out = tmp_path_factory.mktemp("evaluated")
        shutil.copytree(done[method], out, dirs_exist_ok=True)
        return Run(config, out, threads=1)

    return train


def evaluated(run: Run, how: Any = roll_out) -> dict[str, Any]:
    return dict(json.loads(evaluate_run(run, Stopwatch(), how=how).read_text()))


@pytest.mark.parametrize("method", METHODS)
def test_every_rule_and_control_is_in_the_record(
    method: str, trained: Callable[[str], Run]
) -> None:
    run = trained(method)
    record = evaluated(run)
    assert (record["label"], record["rule"]) == (method, "paper")
    remembers = method == "ra-dt"
    assert list(record["controls"]) == (list(CONTROLS) if remembers else ["erased"])
    rules = [] if method == "nearest" else ["authors", "explore-exploit"]  # which is always certain
    assert list(record["rules"]) == rules
    for name, told in record["rules"].items():
        rule = named_rule(name, method)
        assert told["action_rule"]["temperature"] == rule.temperature
        assert told["action_rule"]["keep_best"] == rule.keep_best
        assert told["returns"] == rolled_out(run, name)
        assert list(told["controls"]) == ["erased"]
    rows = [record, *record["rules"].values()]
    pairs = [(row["returns"], row["controls"]["erased"]["returns"]) for row in rows]
    for returns, erased in pairs:
        assert np.array(erased)[:, 0].tolist() == np.array(returns)[:, 0].tolist()
        assert np.shape(erased) == np.shape(returns) == (2, 4)
        if method == "dt":  # knows nothing of earlier trials
            assert erased == returns
    assert not (run.out / "evaluations").exists()
    phases = {
        json.loads(line)["phase"] for line in (run.out / "log.jsonl").read_text().splitlines()
    }
    told = {"evaluate"} | {f"evaluate {name}" for name in rules}
    erased = set() if method == "dt" else {f"{title} erased" for title in told}  # it has no memory
    assert {phase for phase in phases if phase.endswith("erased")} == erased
    assert told <= phases


def rolled_out(run: Run, rule: str) -> list[list[float]]:
    """Evaluate a rule as the run's own."""
    trials = replace(trials_of(run), rule=named_rule(rule, run.config.method))
    return roll_out(load_trained(run), trials, Tracker()).returns.tolist()


@pytest.mark.parametrize("count_bonus", [0.0, 1.0])
def test_what_has_nothing_to_erase_is_as_if_erased(count_bonus: float) -> None:
    method = with_exploration(
        build_method("dt", TOY_GRID.spaces), ExplorationConfig(count_bonus=count_bonus)
    )
    trials = Trials(TOY_GRID, (4, 5), 4, named_rule("paper", "dt"), 0)
    own, erased = (
        roll_out(method, replace(trials, control=control), Tracker()).returns
        for control in (None, "erased")
    )
    assert changes_nothing("erased", method.actor(2)) == (count_bonus == 0)  # counts are erased
    assert (own == erased).all() or count_bonus


def test_a_kill_after_each_evaluation_loses_none(trained: Callable[[str], Run]) -> None:
    whole, killed = trained("ra-dt"), trained("ra-dt")
    wanted, rolled = evaluated(whole), list[str]()

    def once(*arguments: Any) -> ICLResult:
        if len(rolled) > begun:
            raise KeyboardInterrupt
        rolled.append(arguments[1].title)
        return roll_out(*arguments)

    record = None
    while record is None:
        begun = len(rolled)
        try:
            record = evaluated(killed, once)
        except KeyboardInterrupt:
            assert not (killed.out / "icl.json").exists()
    assert len(rolled) == len(set(rolled)) == 1 + len(CONTROLS) + 2 * 2
    for told in (wanted, record):
        for name in TIMES:
            del told[name]
    assert record == wanted


def test_parts_of_other_weights_and_edited_ones_are_made_again(tmp_path: Path) -> None:
    made = list[int]()

    def make() -> dict[str, Any]:
        made.append(len(made))
        return {"returns": [[1.0, 2.5]], "embeddings": None}

    for stamp in ("these weights", "these weights", "others"):
        assert Parts(tmp_path, stamp).get("main", make)["returns"] == [[1.0, 2.5]]
    assert made == [0, 1]
    file = tmp_path / "main.json"
    for text in (file.read_text().replace("2.5", "7.5"), "{", ""):
        file.write_text(text)
        assert Parts(tmp_path, "others").get("main", make)["returns"] == [[1.0, 2.5]]
    assert made == [0, 1, 2, 3, 4]


def test_a_part_in_the_place_of_another_is_made_again(tmp_path: Path) -> None:
    parts = Parts(tmp_path, "these weights")
    parts.get("main", lambda: {"returns": [[1.0]]})
    parts.get("erased", lambda: {"returns": [[0.0]]})
    shutil.copy(tmp_path / "erased.json", tmp_path / "main.json")
    assert parts.get("main", lambda: {"returns": [[1.0]]}) == {"returns": [[1.0]]}


def test_further_tasks_are_evaluated_by_weights_that_are_there(
    trained: Callable[[str], Run],
) -> None:
    run = trained("dt")
    first = evaluated(run)
    evaluate = replace(run.config.evaluate, also_on=("train",))
    assert conflicts(run.config, replace(run.config, evaluate=evaluate)) == []
    again = evaluated(replace(run, config=replace(run.config, evaluate=evaluate)))
    assert list(again["variants"]) == ["train"]
    assert again["returns"] == first["returns"]


def test_what_was_learned_from_is_told(trained: Callable[[str], Run]) -> None:
    run = trained("dt")
    told = evaluated(run)["data"]
    dataset = Dataset.open(collect(run.config, workers=1))
    mean, best = mean_and_best(dataset.episodes)
    assert told == {"mean_return": mean, "best_return": best}
    assert mean <= best
    assert evaluated(trained("nearest"))["data"] is None


@pytest.mark.parametrize("head", ["mse", "gaussian", "bins"])
def test_other_rules_of_continuous_actions_need_a_head_that_is_sampled(head: str) -> None:
    method = build_method("dt", TOY_REACH.spaces, {"model": {**TINY, "action_head": head}})
    trials = Trials(TOY_REACH, (4, 5), 2, named_rule("paper", "dt"), 0)
    asked = evaluations(
        method, trials, {"authors": named_rule("authors", "dt")}, ("erased", "oracle")
    )
    rules = [] if head == "mse" else ["authors", "authors-erased"]
    assert list(asked) == ["main", "erased", *rules]


def test_an_experts_episode_is_left_out_where_there_is_none() -> None:
    for suite, known in ((TOY_GRID, True), (TOY_REACH, False)):
        method = build_method("ra-dt", suite.spaces)
        trials = Trials(suite, (4, 5), 2, named_rule("paper", "ra-dt"), 0)
        assert ("oracle" in evaluations(method, trials, {}, CONTROLS)) == known


@pytest.mark.parametrize("names", [{"rules": ("papr",)}, {"controls": ("best",)}])
def test_unknown_names_are_refused_with_the_choices(names: dict[str, Any]) -> None:
    with pytest.raises(RunError, match=r"choose among .*paper|choose among .*best-trial"):
        EvaluateConfig(**names)


@pytest.mark.parametrize("control", [each for each in CONTROLS if each != "other-task"])
def test_a_task_under_a_control_does_not_depend_on_the_tasks_beside_it(control: str) -> None:
    method, rule = build_method("ra-dt", TOY_GRID.spaces), named_rule("explore-exploit", "ra-dt")
    both = Trials(TOY_GRID, (4, 5), 4, rule, 0, control)
    alone = replace(both, tasks=(5,))
    returns = [roll_out(method, trials, Tracker()).returns for trials in (both, alone)]
    assert returns[0][1].tolist() == returns[1][0].tolist()
