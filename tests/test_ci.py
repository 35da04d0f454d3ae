"""The check of every change: where a browser can be installed, a missing one is a failure."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.viewer.conftest import NAMES, pytest_collection_modifyitems

ROOT = Path(__file__).resolve().parent.parent


def stand_in(folder: Path, name: str, line: str) -> None:
    """Put a command of one line into a folder."""
    (folder / name).write_text(f"#!{shutil.which('bash')}\n{line}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("user", "apt", "needed"), [(0, True, "1"), (0, False, ""), (1000, True, "")]
)
def test_a_browser_is_needed_where_it_is_installed(
    tmp_path: Path, user: int, apt: bool, needed: str
) -> None:
    for name in ("bash", "dirname"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    stand_in(tmp_path, "id", f"echo {user}")
    stand_in(tmp_path, "make", 'echo "$1 needs:${RADT_NEED_CHROMIUM:-} ${RADT_NEED_CONTROL:-}"')
    if apt:
        stand_in(tmp_path, "apt-get", "exit 1")
    ran = subprocess.run(
        [ROOT / ".ci" / "run"],
        env={"PATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == f"test needs:{needed} 1\n"


@pytest.mark.parametrize("needed", [True, False])
def test_only_who_needs_no_browser_skips(monkeypatch: pytest.MonkeyPatch, needed: bool) -> None:
    markers: list[Any] = []
    item: Any = SimpleNamespace(get_closest_marker=bool, add_marker=markers.append)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("RADT_CHROMIUM", raising=False)
    monkeypatch.setenv("RADT_NEED_CHROMIUM", "1" if needed else "")
    assert not any(map(shutil.which, NAMES))
    pytest_collection_modifyitems([item])
    assert len(markers) == (not needed)
