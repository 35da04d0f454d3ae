"""The runs of a folder: what is listed, and that links do not lead out of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from radt.checkpoint import CheckpointError
from radt.viewer.library import Library, contents_of, suites_for
from tests.viewer.serving import SCRIPTED


def listed(folder: Path | None) -> dict[str, list[str]]:
    """Return the traces of each run of the folder by its name."""
    sources = [source.to_json() for source in Library(folder).sources()]
    return {one["name"]: one["traces"] for one in sources if not one["id"].startswith("shipped")}


def test_shipped_weights_are_always_there() -> None:
    library = Library(None)
    source, *others = library.sources()
    assert source.id == "shipped-dark-room-10x10"
    assert "shipped-dark-key-door-10x10" in [other.id for other in others]
    loaded = library.weights(source)
    assert loaded is library.weights(source)
    assert suites_for(loaded)[0].name == "dark-room-10x10"
    assert "dark-room-10x10-slip" in [suite.name for suite in suites_for(loaded)]


def test_runs_are_listed_with_their_traces(runs: Path) -> None:
    expected = {f"{runs.name}/plain": ["trace.jsonl"]}
    assert expected.items() <= listed(runs).items()
    assert listed(runs / "plain") == {"plain": ["trace.jsonl"]}


def test_ids_stand_for_the_same_run_and_hide_its_name(runs: Path) -> None:
    for source in Library(runs).sources():
        assert Library(runs).find(source.id) == source
        assert source.id.replace("-", "").isalnum()


def test_links_that_lead_outside_are_not_followed(runs: Path, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    (inside / "own").mkdir(parents=True)
    os.symlink(runs / "plain", inside / "folder")
    os.symlink(runs / "plain" / "trace.jsonl", inside / "own" / "trace.jsonl")
    os.symlink(runs / "plain" / "model.safetensors", inside / "own" / "model.safetensors")
    os.symlink(inside / "ring", inside / "ring")
    os.symlink(tmp_path / "nothing", inside / "dangling")
    assert listed(inside) == {}


def test_links_inside_are_followed(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    content = (runs / "plain" / "trace.jsonl").read_bytes()
    (tmp_path / "real" / "trace.jsonl").write_bytes(content)
    os.symlink(tmp_path / "real", tmp_path / "also")
    assert sorted(listed(tmp_path)) == [f"{tmp_path.name}/also", f"{tmp_path.name}/real"]


def test_a_folder_that_is_a_link_is_its_target(runs: Path, tmp_path: Path) -> None:
    os.symlink(runs, tmp_path / "link")
    assert listed(tmp_path / "link") == listed(runs)


def test_a_run_that_vanishes_is_unknown(runs: Path, tmp_path: Path) -> None:
    library = Library(tmp_path)
    (tmp_path / "trace.jsonl").write_text("")
    source = next(source for source in library.sources() if source.traces)
    assert library.trace(source.id, 0).name == "trace.jsonl"
    (tmp_path / "trace.jsonl").unlink()
    with pytest.raises(KeyError, match="unknown run"):
        library.trace(source.id, 0)


def test_who_has_no_weights_cannot_live(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_text("")
    source = next(source for source in Library(tmp_path).sources() if source.traces)
    with pytest.raises(CheckpointError, match="no weights"):
        Library(tmp_path).weights(source)


def test_a_trace_is_read_again_when_it_changes(runs: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    lines = (runs / "plain" / "trace.jsonl").read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2]))
    assert len(contents_of(path).trials) == 1
    path.write_text("".join(lines))
    assert len(contents_of(path).trials) == 3 * len(SCRIPTED.eval_tasks)
