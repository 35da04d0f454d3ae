"""Changed rows and dropped connections: refused or gone on with, never answered wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.battery import assert_clean, watched
from tests.memory.conftest import Tally
from tests.memory.postgres import needs_server

pytestmark = needs_server
ATTACKS = ("change_rows", "drop_connections")


@pytest.mark.parametrize("name", ATTACKS)
def test_servers(name: str, tmp_path: Path, tally: Tally) -> None:
    from tests.faults import servers

    assert_clean(getattr(servers, name)(tmp_path, range(4)), tally)


@pytest.mark.long
@pytest.mark.parametrize("name", ATTACKS)
def test_many_servers(name: str, tmp_path: Path, tally: Tally) -> None:
    from tests.faults import servers

    assert_clean(watched(getattr(servers, name), tmp_path, cases=300), tally)
