from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radt.data import DataError, Dataset, read_manifest, write_manifest
from radt.data.manifest import is_plain_name
from tests.data.histories import SPACES, write_dataset


@pytest.mark.parametrize("kind", SPACES)
def test_what_is_written_is_read(tmp_path: Path, kind: str) -> None:
    write_dataset(tmp_path, SPACES[kind], episodes=2)
    manifest = read_manifest(tmp_path)
    write_manifest(tmp_path / "copy", manifest)
    assert read_manifest(tmp_path / "copy") == manifest
    assert manifest.spaces == SPACES[kind]
    assert isinstance(hash(manifest.spaces), int)


def test_the_hash_ignores_only_who_wrote_it_and_when(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    manifest = read_manifest(tmp_path)
    for change in ({"wall_seconds": 99.0}, {"code_version": "later"}):
        assert dataclasses.replace(manifest, **change).sha256 == manifest.sha256
    for change in ({"seed": 4}, {"split": "eval"}, {"hyper_parameters": {"gamma": 0.9}}):
        assert dataclasses.replace(manifest, **change).sha256 != manifest.sha256
    fewer = dataclasses.replace(manifest, files=manifest.files[:2])
    assert fewer.sha256 != manifest.sha256


def test_nothing_in_it_says_where_it_was_written(tmp_path: Path) -> None:
    write_dataset(tmp_path / "a")
    write_dataset(tmp_path / "b")
    assert (tmp_path / "a/manifest.json").read_bytes() == (
        tmp_path / "b/manifest.json"
    ).read_bytes()
    assert str(tmp_path) not in (tmp_path / "a/manifest.json").read_text()


def test_a_folder_without_manifest_is_unfinished(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(DataError, match=r"no finished dataset.*radt collect"):
        Dataset.open(tmp_path)


def unsealed(path: Path) -> dict[str, Any]:
    """Read a manifest as older versions wrote it."""
    content: dict[str, Any] = json.loads(path.read_text())
    del content["sha256"]
    return content


def test_a_manifest_without_a_seal_is_read(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    manifest, path = read_manifest(tmp_path), tmp_path / "manifest.json"
    path.write_text(json.dumps(unsealed(path)))
    assert read_manifest(tmp_path) == manifest


EDITS = {
    "half of the files": lambda content: content.update(files=content["files"][:1]),
    "another order": lambda content: content["files"].reverse(),
    "another seed": lambda content: content.update(seed=4),
    "another environment": lambda content: content["env_spec"].update(size=[6, 8]),
    "other bins": lambda content: content["spaces"]["state"].update(bins=[6, 10]),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_manifest_that_was_edited_is_refused(tmp_path: Path, name: str) -> None:
    write_dataset(tmp_path)
    path = tmp_path / "manifest.json"
    content = json.loads(path.read_text())
    EDITS[name](content)
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match="damaged or edited after it was written"):
        Dataset.open(tmp_path)


def _set(where: str, value: Any):
    *path, last = where.split(".")

    def change(content: dict[str, Any]) -> None:
        for name in path:
            content = content[int(name) if name.isdigit() else name]  # type: ignore[call-overload]
        content[last] = value

    return change


BAD = {
    "leaves the folder": _set("files.0.file", "../x.h5"),
    "absolute": _set("files.0.file", "/etc/passwd"),
    "windows path": _set("files.0.file", "..\\x.h5"),
    "drive": _set("files.0.file", "C:x.h5"),
    "dots": _set("files.0.file", ".."),
    "empty name": _set("files.0.file", ""),
    "file is a number": _set("files.0.file", 3),
    "task twice": _set("files.0.task", 1),
    "negative task": _set("files.0.task", -1),
    "task is text": _set("files.0.task", "1"),
    "task is a truth value": _set("files.0.task", True),
    "short hash": _set("files.0.sha256", "abc"),
    "too many steps": _set("files.0.transitions", 10**15),
    "no steps": _set("files.0.transitions", 0),
    "more episodes than steps": _set("files.0.episodes", 10**6),
    "arrays beyond the counts": _set("files.0.arrays.0.shape", [10**9, 2]),
    "object elements": _set("files.0.arrays.0.dtype", "object"),
    "no tasks": _set("files", []),
    "files is a mapping": _set("files", {}),
    "another format": _set("format", 2),
    "unknown key": _set("extra", 1),
    "unknown key inside": _set("spaces.state.extra", 1),
    "unknown kind": _set("spaces.state.kind", "smell"),
    "huge state": _set("spaces.state.shape", [10**6, 10**6]),
    "negative shape": _set("spaces.state.shape", [-2]),
    "bins missing": _set("spaces.state.bins", [6]),
    "bins too large": _set("spaces.state.bins", [6, 10**30]),
    "no horizon": _set("spaces.horizon", 0),
    "huge horizon": _set("spaces.horizon", 10**30),
    "zero scale": _set("spaces.return_scale", 0),
    "infinite scale": _set("spaces.return_scale", 1e400),
    "too many actions": _set("spaces.action.size", 257),
    "pairs of three": _set("spaces.action_dims", [[1, 2, 3]]),
    "seed is text": _set("seed", "0"),
    "spec is a list": _set("env_spec", []),
    "negative time": _set("wall_seconds", -1),
}


@pytest.mark.parametrize("name", BAD)
def test_a_manifest_that_cannot_be_is_refused(tmp_path: Path, name: str) -> None:
    write_dataset(tmp_path)
    path = tmp_path / "manifest.json"
    content = unsealed(path)
    BAD[name](content)
    path.write_text(json.dumps(content).replace("Infinity", "1e400"))
    with pytest.raises(DataError, match=r"manifest\.json.*radt collect"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{", "[" * 100_000, '{"a": 1, "a": 2}', '{"a": NaN}', "\x00", "\ud800"],
)
def test_other_text_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(DataError):
        read_manifest(tmp_path)


def test_a_manifest_without_one_key_is_refused(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    content = unsealed(tmp_path / "manifest.json")
    for name in content.keys() - {"format", "wall_seconds"}:
        partial = {key: value for key, value in content.items() if key != name}
        (tmp_path / "manifest.json").write_text(json.dumps(partial))
        with pytest.raises(DataError, match=f"missing {name}"):
            read_manifest(tmp_path)


def test_a_manifest_that_is_too_large_is_not_parsed(tmp_path: Path) -> None:
    with (tmp_path / "manifest.json").open("wb") as file:
        file.truncate(2**30)
    with pytest.raises(DataError, match="larger than"):
        read_manifest(tmp_path)


def test_numbers_that_are_none_are_not_written(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    manifest = read_manifest(tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        write_manifest(
            tmp_path, dataclasses.replace(manifest, hyper_parameters={"x": float("nan")})
        )
    assert read_manifest(tmp_path) == manifest


@given(st.text(max_size=12))
def test_a_plain_name_is_one_component_that_stays_inside(name: str) -> None:
    if is_plain_name(name):
        assert Path(name).name == name
        assert not set(name) & set('/\\:*?"<>|\n\0')
        assert (Path("folder") / name).parent == Path("folder")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["seed", "files", "spaces", "task"]), inner, max_size=3
            )
        ),
        max_leaves=12,
    )
)
def test_any_other_json_is_a_data_error(tmp_path_factory: Any, content: Any) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(DataError):
        read_manifest(folder)
