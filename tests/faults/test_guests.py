"""A hostile guest at the viewer: shown nothing, and no nuisance to the owner."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.battery import assert_clean, watched
from tests.faults.guests import visit
from tests.memory.conftest import Tally


def test_guests(tmp_path: Path, tally: Tally) -> None:
    assert_clean(visit(tmp_path, range(15)), tally)


@pytest.mark.long
def test_many_guests(tmp_path: Path, tally: Tally) -> None:
    assert_clean(watched(visit, tmp_path, cases=600), tally)
