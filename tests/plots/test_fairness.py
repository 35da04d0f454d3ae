from __future__ import annotations

import re
from typing import Any

from radt.plots.fairness import conditions, in_words
from tests.plots.synthetic import synthetic_record


def learner(method: str, **options: Any) -> dict[str, Any]:
    record = synthetic_record(method)
    for name in ("best_fraction", "episode_every"):
        record["config"]["options"].pop(name, None)
    record["config"]["options"] |= options
    return record


def test_episodes_learned_from_are_a_condition() -> None:
    records = [learner("dt"), learner("ra-dt", episode_every=4, best_fraction=0.4)]
    groups = {"all": ["dt"], "one in 4, the best 40% of a task": ["ra-dt"]}
    assert conditions(records)["episodes learned from"] == groups
    assert "- episodes learned from: `all` (dt); " in in_words(records)
    same = [learner("dt", best_fraction=1.0), learner("ra-dt", episode_every=1)]
    assert "; episodes learned from `all`; " in in_words(same)


def test_all_that_is_chosen_of_the_data_is_told() -> None:
    ways = {"best_fraction": 0.4, "least_return": 0.5, "beginnings": 0.75, "renamed": 0.5}
    own = learner("ra-dt+", **ways, legs=True)
    own["config"]["options"]["training"] |= {"cut_short": 0.25, "from_start": True}
    own["config"]["options"]["model"]["heads"] = 1
    told = in_words([learner("dt"), own])
    assert (
        "`the best 40% of a task, those that earned 50% of the best of any task` (ra-dt+)" in told
    )
    assert (
        "- windows and chunks: `drawn uniformly` (dt); `75% of windows from beginnings, 50% of "
        "windows moved elsewhere, 25% of chunks end with an early reward, chunks begin with their "
        "episode, chunks shown leg by leg` (ra-dt+)" in told
    )
    assert "- model: `layers 1, heads 2, width 16` (dt); `layers 1, heads 1, width 16`" in told
    own["config"]["options"]["model"] = "theirs"
    assert "`of its own kind` (ra-dt+)" in in_words([learner("dt"), own])


def test_what_a_method_adds_at_work_is_a_condition() -> None:
    memory = {"store_above": 0.0, "erase_loops": True, "return_of": "chunk", "alpha": 10.0}
    own = learner("ra-dt+", novelty=24.0, restless=12.0, memory=memory)
    own["config"]["options"]["model"]["return_to_go"] = False
    paper = learner("ra-dt", memory={"alpha": 1.0, "store_above": None})
    paper["config"]["options"]["model"]["return_to_go"] = True
    found = conditions([learner("dt"), paper, own])
    assert found["what a method does to its logits before that rule"] == {
        "nothing": ["dt", "ra-dt"],
        "lowers what was tried until a task is solved by 24 log(1 + times), then what was done "
        "here since the trial's last reward by 12 log(1 + times)": ["ra-dt+"],
    }
    assert found["remembered, where there is a memory"] == {
        "whole trials, judged by its trial's return, alpha 1": ["ra-dt"],
        "trials that earned more than 0 without their loops, judged by what the chunk earned, "
        "alpha 10": ["ra-dt+"],
    }
    assert found["return-to-go"]["not read"][-1] == "ra-dt+"
    assert "ra-dt" in found["return-to-go"]["read"]


def test_equal_time_says_how_long_it_was() -> None:
    speed = {"speed": {"samples_per_second": 4.0}}
    spent = {"wall_seconds": {"embedder": 3.0, "prepare": 2.0, "train": 99.0, "evaluate": 30.0}}
    told = in_words([learner("dt"), learner("ra-dt") | speed | spent], wall_minutes=0.5)
    assert "Every method is given 0.5 minutes of training" in told
    assert "left out: `dt` 6 in ? s; `ra-dt` 6 in 17 s." in told
    again = learner("ra-dt") | {"seed": 1} | spent | {"speed": {"samples_per_second": 6.0}}
    assert "`ra-dt` 6 in 13 to 17 s." in in_words([learner("ra-dt") | speed | spent, again], 0.5)
    short = spent["wall_seconds"] | {"train": 9.0}  # which no speed can exceed
    assert "6 in 14 s." in in_words([learner("ra-dt") | speed | {"wall_seconds": short}], 0.5)


def test_precision_is_a_condition_and_older_records_are_single() -> None:
    rounded = {"choices": {"precision": "bfloat16", "compiled": True}}
    records = [learner("dt"), learner("ra-dt") | {"choices": None}, learner("ra-dt+") | rounded]
    assert conditions(records)["precision"] == {
        "float32, not compiled": ["dt", "ra-dt"],
        "bfloat16, compiled": ["ra-dt+"],
    }


def test_a_source_need_not_say_how_many_transitions_it_records() -> None:
    own = learner("dt")
    own["config"] |= {"source": "logs", "collect": {"seed": 0, "file": "logs.npz"}}
    (named,) = conditions([own])["dataset"]
    assert re.fullmatch(r"logs: recipe [0-9a-f]{8}", named)
    (named,) = conditions([learner("dt")])["dataset"]
    assert re.fullmatch(r"ppo: 512 transitions a task, recipe [0-9a-f]{8}", named)


def test_the_same_recipe_can_give_other_data_on_another_machine() -> None:
    records = [
        learner("dt") | {"data_sha256": "1" * 64},
        learner("ra-dt+") | {"data_sha256": "1" * 64},
        learner("ra-dt+") | {"data_sha256": "2" * 64, "seed": 1},
        learner("ra-dt"),  # an older record does not say
    ]
    name = "sha256 of the data"
    groups = {"1" * 8: ["dt", "ra-dt+"], "2" * 8: ["ra-dt+"], "unknown": ["ra-dt"]}
    assert conditions(records)[name] == groups
    listed = "`11111111` (dt, ra-dt+); `unknown` (ra-dt); `22222222` (ra-dt+)"
    assert f"- {name}: {listed}" in in_words(records)
    assert f"{name} `11111111`" in in_words(records[:2])
    assert name not in in_words(records[3:])


def test_how_often_a_memory_is_searched_is_a_condition() -> None:
    records = [learner(method) for method in ("dt", "ra-dt", "ra-dt+")]
    name = "steps between retrievals, where there is a memory"
    assert conditions(records)[name] == {"1": ["ra-dt"], "once a trial": ["ra-dt+"]}
    assert f"- {name}: `1` (ra-dt); `once a trial` (ra-dt+)" in in_words(records)
    assert conditions(records[:1])[name] == {}
    assert name not in in_words(records[:1])
    records[1]["config"]["options"]["memory"]["retrieve_every"] = 10
    assert f"{name} `10`" in in_words(records[:2])


def test_how_windows_move_is_a_condition_where_there_are_any() -> None:
    name = "steps by which windows move on at once"
    records = [learner("dt", window_step=50), learner("ra-dt"), learner("ra-dt+")]
    assert conditions(records)[name] == {"50": ["dt"], "1": ["ra-dt", "ra-dt+"]}
    whole = learner("dt")
    del whole["config"]["options"]["context_len"]  # reads whole episodes
    assert conditions([whole])[name] == {}


def test_versions_of_the_code_are_named_where_they_differ() -> None:
    records = [learner("dt"), learner("ra-dt")]
    assert "Versions of the code" not in in_words(records)
    newer = [records[0], records[1] | {"code_version": "0.2.0"}]
    assert "Versions of the code: `0.1.0+abc` (dt); `0.2.0` (ra-dt)." in in_words(newer)
