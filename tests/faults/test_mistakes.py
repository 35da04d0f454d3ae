"""What a user may type wrong: one line and exit code 2, never a traceback."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from radt import preset
from radt.decode import leaves
from radt.errors import RadtError
from tests.faults.battery import assert_clean, watched
from tests.faults.mistakes import collected, mistaken
from tests.memory.conftest import Tally
from tests.runs.small import use_toys
from tests.toys import TOY_GRID

CHOICES = ("ra-dt+", "ra-dt-lm", "ad", "dpt", "rl2-online")
SOURCES = ("sb3", "noisy-expert", "ppo-lstm")


@pytest.mark.parametrize("chosen", [*CHOICES, *(f"dt source={name}" for name in SOURCES)])
def test_whatever_an_option_is_set_to_is_taken_or_refused(
    chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_toys(monkeypatch, tmp_path)
    method, *sets = chosen.split()
    usual = preset(TOY_GRID.name, method, "smoke", *sets)
    for name in leaves(usual.to_json()):
        for value in ("-1", "0", "-0.5", "NaN", "[[]]", "9" * 5000):
            with suppress(RadtError):
                preset(TOY_GRID.name, method, "smoke", *sets, f"{name}={value}")


@pytest.mark.long
def test_mistakes(tmp_path: Path, tally: Tally) -> None:
    collected(tmp_path / "home")
    assert_clean(watched(mistaken, tmp_path, tmp_path / "home", cases=300), tally)
