"""SIGKILL at random moments: commands end in the same arrays, memories hold what they said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.battery import assert_clean
from tests.faults.kills import COMMANDS, kill_commands, kill_writers, writers
from tests.memory.conftest import Tally
from tests.memory.postgres import needs_server

KILLS = [pytest.param(3, id="few"), pytest.param(100, id="many", marks=pytest.mark.long)]
MEMORIES = ("folder", pytest.param("server", marks=needs_server), "memory file")


@pytest.mark.long
@pytest.mark.parametrize("verb", COMMANDS)
def test_kills_of_commands(verb: str, tmp_path: Path, tally: Tally) -> None:
    assert_clean(kill_commands(verb, tmp_path, seed=0, kills=100), tally)


@pytest.mark.parametrize("kills", KILLS)
@pytest.mark.parametrize("kind", MEMORIES)
def test_kills_of_writers(kind: str, kills: int, tmp_path: Path, tally: Tally) -> None:
    writer = writers(tmp_path)[kind]()
    assert_clean(kill_writers(writer, seed=kills, kills=kills), tally)
    assert writer.count() > 0
