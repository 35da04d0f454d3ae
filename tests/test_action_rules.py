from __future__ import annotations

import pytest

from radt.action_rules import RULES, ActionRule, named_rule, rule_name
from radt.config import compose
from radt.registry import UnknownNameError
from radt.runs.presets import preset_layers


@pytest.mark.parametrize("method", ["ra-dt", "ad", "random"])
@pytest.mark.parametrize("name", RULES)
def test_a_rule_and_its_name_belong_together(name: str, method: str) -> None:
    assert rule_name(named_rule(name, method), method) == name


def test_the_authors_sample_from_their_own_method_alone() -> None:
    assert named_rule("authors", "ra-dt") == ActionRule(temperature=1.0, keep_best=2)
    assert named_rule("authors", "ad") == ActionRule(temperature=0.0)
    assert rule_name(ActionRule(temperature=0.0), "ra-dt") == "other"


@pytest.mark.parametrize("budget", ["paper", "laptop", "smoke"])
def test_presets_act_by_a_rule_that_knows_nothing_of_past_success(budget: str) -> None:
    config, _ = compose(preset_layers("dark-room-10x10", "ra-dt+", budget))
    assert rule_name(config.evaluate.rule, "ra-dt") == "paper"


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="explore-exploit"):
        named_rule("explore-exploi", "ad")
