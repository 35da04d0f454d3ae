"""Agents with a part left out: what stays, and what is said of them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from radt.checkpoint import load_checkpoint, untrained
from radt.loading import shipped
from radt.runs.controls import controls, main
from radt.runs.run import RunError
from tests.contracts.method import build_method, roll_out
from tests.toys import TOY_GRID

ENV = "dark-room-10x10"


def test_a_control_changes_one_thing_and_not_the_method_itself() -> None:
    loaded, card = load_checkpoint(shipped(ENV))
    method: Any = loaded
    before = method.options
    made: dict[str, Any] = dict(controls(method, untrained(shipped(ENV), card)))
    assert method.options is before
    assert made["nothing remembered"].options.count_bonus == before.count_bonus > 0
    assert made["nothing remembered"].options.memory.store_above == math.inf
    assert made["nothing counted"].options.count_bonus == 0
    assert made["nothing counted"].options.memory == before.memory
    assert made["untrained"].options == before
    own, other = (each.policy.state_dict() for each in (method, made["untrained"]))
    assert any(not torch.equal(own[name], other[name]) for name in own)


def test_what_came_out_is_written_and_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "controls.json"
    main(ENV, shipped(ENV), out, trials=4, tasks=3)
    record = json.loads(out.read_text())
    names = [line["control"] for line in record["controls"]]
    assert names == ["as it is", "nothing remembered", "nothing counted", "untrained"]
    whole, forgetful = (np.array(record["controls"][place]["returns"]) for place in (0, 1))
    assert (whole[:, 0] == forgetful[:, 0]).all()  # nobody remembers anything in the first trial
    assert (whole != forgetful).any()
    assert record["method"] == "ra-dt+"
    printed = capsys.readouterr().out
    assert all(name in printed for name in names)


@pytest.mark.parametrize("name", ["ad", "dpt", "ra-dt"])
def test_a_method_without_an_exploration_bonus_is_given_one(name: str) -> None:
    method = build_method(name, TOY_GRID.spaces)
    made = dict(controls(method, method))
    assert ("nothing remembered" in made) == (name == "ra-dt")
    assert "nothing counted" not in made
    both = method, made["with exploration bonus"]
    rolled = [roll_out(each, TOY_GRID, TOY_GRID.train_tasks) for each in both]
    plain, counted = (actions for _, actions, _ in rolled)
    assert (plain[0] == counted[0]).all()  # nothing is tried yet
    assert (plain != counted).any()


def test_weights_of_another_room_are_refused() -> None:
    with pytest.raises(RunError, match="give a run in dark-room-20x20"):
        main("dark-room-20x20", shipped(ENV))
