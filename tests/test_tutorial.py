"""The code of docs/add-an-environment.md does what the page says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from radt.envs.check import check_suite
from tests.pages import ROOT, run_page


@pytest.fixture
def tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the page's code in an empty folder."""
    monkeypatch.setenv("RADT_HOME", str(tmp_path / "data"))
    return run_page(ROOT / "docs" / "add-an-environment.md", tmp_path, monkeypatch)


def test_the_tutorial_trains_and_evaluates_what_it_adds(tutorial: Any, tmp_path: Path) -> None:
    suite, result = tutorial.HallwaySuite(), tutorial.result
    assert np.shape(result["returns"]) == (2, tutorial.config.evaluate.trials)
    assert result["tasks"] == list(suite.eval_tasks)
    assert (tmp_path / "runs/hallway/model.safetensors").is_file()
    assert len(list((tmp_path / "data/hallway").glob("homing*/task-*.h5"))) == 6
    assert [finding for finding in check_suite(suite) if finding.problems] == []
    assert suite.make_vec([1, 2]).metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
