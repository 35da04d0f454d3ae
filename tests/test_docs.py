"""The pages say what the results say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_tables_of_the_pages_are_those_of_the_results() -> None:
    found = subprocess.run(
        [sys.executable, ROOT / "scripts/tables.py", "--check"], capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout
