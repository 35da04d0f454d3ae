from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.compat.golden import CASES, FILE, measure

RECORDED = json.loads(FILE.read_text())
TOLERANCE = 1e-5  # on one kind of machine losses agree to 1e-6; others round otherwise


def test_every_case_is_recorded() -> None:
    assert RECORDED.keys() == CASES.keys()


@pytest.mark.parametrize("case", RECORDED)
def test_losses_and_returns_are_as_recorded(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, expected = measure(case, tmp_path, monkeypatch), RECORDED[case]
    apart = np.abs(np.subtract(found["losses"], expected["losses"])).max()
    print(f"{case}: losses at most {apart:.1e} apart")
    assert apart <= TOLERANCE
    assert found["returns"] == expected["returns"]
