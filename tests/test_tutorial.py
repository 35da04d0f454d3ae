"""The code of docs/add-an-environment.md does what the page says."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from radt.collect import SOURCES
from radt.envs.suite import SUITES
from tests.contracts import env as contract

PAGE = Path(__file__).parents[1] / "docs" / "add-an-environment.md"


def code_of(page: Path) -> str:
    """Join the page's Python as a reader who copies it into one file would."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return "\n\n".join(blocks)


@pytest.fixture
def tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the page's code in an empty folder, and forget what it registered."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RADT_HOME", str(tmp_path / "data"))
    for registry in (SUITES, SOURCES):
        monkeypatch.setattr(registry, "_items", dict(registry._items))
    torch.set_num_threads(1)
    file = tmp_path / "hallway.py"
    file.write_text(code_of(PAGE), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("hallway", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "hallway", module)
    spec.loader.exec_module(module)
    return module


def test_the_tutorial_trains_and_evaluates_what_it_adds(tutorial: Any, tmp_path: Path) -> None:
    suite, result = tutorial.HallwaySuite(), tutorial.result
    assert np.shape(result["returns"]) == (2, tutorial.config.evaluate.trials)
    assert result["tasks"] == list(suite.eval_tasks)
    assert (tmp_path / "runs/hallway/model.safetensors").is_file()
    assert len(list((tmp_path / "data/hallway").glob("homing*/task-*.h5"))) == 6
    contract.check_describes_itself(suite)
    contract.check_horizon(suite, 0)
    contract.check_deterministic(suite, 6, seed=0)
    assert suite.make_vec([1, 2]).metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
