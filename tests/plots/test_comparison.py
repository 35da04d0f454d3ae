"""Which records stand in one picture, and what differs between the rows of a table."""

from __future__ import annotations

from typing import Any

from radt.plots.comparison import (
    by_named_rule,
    config_differences,
    differences_text,
    trained_for,
)
from tests.plots.synthetic import synthetic_record


def learner(method: str, seed: int = 0, **options: Any) -> dict[str, Any]:
    record = synthetic_record(method, seed)
    record["config"]["options"] |= options
    return record


def test_values_that_differ_are_told_for_every_method_that_has_them() -> None:
    records = [learner("dt", best_fraction=1.0), learner("ra-dt", best_fraction=0.4)]
    found = config_differences([*records, synthetic_record("replay")])
    assert found["options.top_fraction"] == {"dt": [1.0], "ra-dt": [0.4]}
    assert not {"method", "seed", "learn.updates"} & found.keys()
    assert "| `options.top_fraction` | 1.0 | 0.4 |" in differences_text(records)


def test_an_option_that_only_some_have_differs_where_it_is_not_its_default() -> None:
    found = config_differences([learner("dt"), learner("ra-dt+", episode_every=4, legs=False)])
    assert found["options.episode_every"] == {"ra-dt+": [4]}
    assert "options.subgoals" not in found


def test_options_that_moved_differ_at_their_new_place() -> None:
    older = learner("ra-dt+", novelty=24.0, restless=0.0)
    del older["config"]["exploration"]
    found = config_differences([learner("dt"), older])
    assert found["exploration.count_bonus"] == {"dt": [0.0], "ra-dt+": [24.0]}
    assert "exploration.revisit_penalty" not in found


def test_seeds_that_differ_are_told_too() -> None:
    records = [learner("dt", best_fraction=0.4), learner("dt", 1, best_fraction=0.5)]
    both = [*records, learner("ra-dt", best_fraction=0.4)]
    assert config_differences(both)["options.top_fraction"] == {"dt": [0.4, 0.5], "ra-dt": [0.4]}


def test_nothing_differs_from_itself() -> None:
    assert config_differences([learner("dt"), learner("dt", 1)]) == {}
    assert "No value" in differences_text([learner("dt")])


def test_what_a_record_says_beside_its_config_may_differ() -> None:
    cold = {"action_rule": {"temperature": 0.0}}
    hashed = {"data_sha256": "ab12" * 16}
    found = config_differences([learner("dt") | cold, learner("ra-dt") | hashed])
    assert found["data_sha256"] == {"dt": ["?"], "ra-dt": ["ab12ab"]}
    assert found["evaluate.rule.temperature"] == {"dt": [0.0], "ra-dt": [0.5]}


def test_configs_that_are_not_known_here_are_compared_as_they_are() -> None:
    strange = learner("dt") | {"method": "theirs"}
    strange["config"] = {"method": "theirs", "learn": {"updates": 7}}
    found = config_differences([learner("dt"), strange])
    assert found["learn.updates"] == {"dt": [6], "theirs": [7]}


def test_equal_time_says_how_long_it_was() -> None:
    speed = {"speed": {"samples_per_second": 4.0}}
    spent = {"wall_seconds": {"embedder": 3.0, "prepare": 2.0, "train": 99.0, "evaluate": 30.0}}
    ra_dt = learner("ra-dt") | speed | spent
    assert trained_for(ra_dt) == 17
    short = spent["wall_seconds"] | {"train": 9.0}  # which no speed can exceed
    assert trained_for(ra_dt | {"wall_seconds": short}) == 14
    told = differences_text([learner("dt"), ra_dt], wall_minutes=0.5)
    assert "given 0.5 minutes of training" in told
    assert "| `seconds_of_training` | null | 17 |" in told


def test_versions_of_the_code_are_named_where_they_differ() -> None:
    records = [learner("dt"), learner("ra-dt")]
    assert "0.1.0+abc" not in differences_text(records)
    newer = [records[0], records[1] | {"code_version": "0.2.0"}]
    assert "0.1.0+abc, 0.2.0" in differences_text(newer)


def test_older_records_are_left_out_where_learned_ones_name_their_rule() -> None:
    older, scripted = {"method": "ad"}, {"method": "replay", "rule": "paper"}
    newer = {"method": "dt", "rule": "paper"}
    assert by_named_rule([older, scripted, newer]) == [scripted, newer]
    assert by_named_rule([older, scripted]) == [older, scripted]
