"""Which records stand in one picture."""

from __future__ import annotations

from radt.plots.comparison import by_named_rule


def test_older_records_are_left_out_where_learned_ones_name_their_rule() -> None:
    older, scripted = {"method": "ad"}, {"method": "replay", "rule": "paper"}
    newer = {"method": "dt", "rule": "paper"}
    assert by_named_rule([older, scripted, newer]) == [scripted, newer]
    assert by_named_rule([older, scripted]) == [older, scripted]
