from __future__ import annotations

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


def test_precision_is_a_condition_and_older_records_are_single() -> None:
    rounded = {"choices": {"precision": "bfloat16", "compiled": True}}
    records = [learner("dt"), learner("ra-dt") | {"choices": None}, learner("ra-dt+") | rounded]
    assert conditions(records)["precision"] == {
        "float32, not compiled": ["dt", "ra-dt"],
        "bfloat16, compiled": ["ra-dt+"],
    }


def test_versions_of_the_code_are_named_where_they_differ() -> None:
    records = [learner("dt"), learner("ra-dt")]
    assert "Versions of the code" not in in_words(records)
    newer = [records[0], records[1] | {"code_version": "0.2.0"}]
    assert "Versions of the code: `0.1.0+abc` (dt); `0.2.0` (ra-dt)." in in_words(newer)
