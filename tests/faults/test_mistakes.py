"""What a user may type wrong: one line and exit code 2, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.battery import assert_clean, watched
from tests.faults.mistakes import collected, mistaken
from tests.memory.conftest import Tally


@pytest.mark.long
def test_mistakes(tmp_path: Path, tally: Tally) -> None:
    collected(tmp_path / "home")
    assert_clean(watched(mistaken, tmp_path, tmp_path / "home", cases=300), tally)
