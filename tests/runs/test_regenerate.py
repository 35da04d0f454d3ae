"""Data may be deleted: their recipe makes the same bytes again."""

from __future__ import annotations

from pathlib import Path

import pytest

from radt import preset
from radt.data import Dataset
from radt.runs.run import collect


def test_a_recipe_makes_the_same_data_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = preset("dark-room-10x10", "dt", "smoke")
    assert config.source == "ppo"
    hashes = []
    for home in ("one", "other"):
        monkeypatch.setenv("RADT_HOME", str(tmp_path / home))
        hashes.append(Dataset.open(collect(config, workers=1)).sha256)
    assert hashes[0] == hashes[1]
