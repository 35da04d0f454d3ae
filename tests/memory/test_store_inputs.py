"""One battery of bad inputs for every store: refused before anything is written, and why."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from radt.memory.demonstrations import SourceError, from_dataset, from_npz, write_npz
from radt.memory.identity import (
    MOST_TASKS,
    BadTrajectoryError,
    MemoryMismatchError,
)
from radt.memory.memory import Memory, MemoryConfig
from radt.memory.store import open_store
from radt.trajectory import Trajectory
from tests.memory.stores import KINDS, place_of
from tests.memory.toy_data import toy_embedder, write_toys
from tests.toys import TOY_ENCODED, TOY_GRID, TOY_IMAGE, TOY_REACH, histories

CONFIG = MemoryConfig(context_len=4, top_l=5)
SUITES = {suite.name: suite for suite in (TOY_GRID, TOY_REACH, TOY_IMAGE, TOY_ENCODED)}
GOOD = {
    name: histories(suite, 2, tasks=[suite.train_tasks[1]])[suite.train_tasks[1]]
    for name, suite in SUITES.items()
}


@dataclass(frozen=True)
class Bad:
    """What is wrong, in which environment, how it is made, and what the error says of it."""

    name: str
    suite: str
    change: Callable[[Trajectory], Any]
    says: str


def with_array(name: str, change: Callable[[Any], Any]) -> Callable[[Trajectory], Trajectory]:
    """Change one array of a trajectory behind its own back."""

    def changed(good: Trajectory) -> Trajectory:
        bad = replace(good)
        object.__setattr__(bad, name, change(getattr(good, name).copy()))
        return bad

    return changed


def with_value(name: str, value: Any) -> Callable[[Trajectory], Trajectory]:
    """Put a value into one place of an array."""

    def put(array: Any) -> Any:
        array = array.astype(np.result_type(array, type(value)))
        array.flat[3] = value
        return array

    return with_array(name, put)


def longer(good: Trajectory) -> Trajectory:
    arrays = (np.concatenate([a, a]) for a in (good.states, good.actions, good.rewards))
    return Trajectory(*arrays, good.task, good.episode)


BATTERY = [
    Bad("none", "toy-grid", lambda good: None, "no Trajectory but NoneType"),
    Bad("a cut", "toy-grid", lambda good: good.cut(0, 4), "no Trajectory but SubTrajectory"),
    Bad("task below 0", "toy-grid", lambda good: replace(good, task=-1), "its task is -1"),
    Bad("task too high", "toy-grid", lambda g: replace(g, task=MOST_TASKS), "its task is 100000"),
    Bad("task a bool", "toy-grid", lambda good: replace(good, task=True), "its task is True"),
    Bad("task a text", "toy-grid", lambda good: replace(good, task="1"), "its task is '1'"),
    Bad("task huge", "toy-grid", lambda good: replace(good, task=1 << 70), "its task is 118"),
    Bad("age below 0", "toy-grid", lambda good: replace(good, episode=-3), "its episode is -3"),
    Bad("too long", "toy-grid", longer, "it has 24 steps.*T = 1..12"),
    Bad("no steps", "toy-grid", with_array("rewards", lambda a: a[:0]), "it has 0 steps"),
    Bad("states one less", "toy-grid", with_array("states", lambda a: a[:-1]), "states have shape"),
    Bad("states wider", "toy-grid", with_array("states", lambda a: a.repeat(2, 1)), r"\(12, 4\)"),
    Bad("states floats", "toy-grid", with_array("states", lambda a: a + 0.5), "states are float64"),
    Bad("states text", "toy-grid", with_array("states", lambda a: a.astype(str)), "are <U"),
    Bad("states below 0", "toy-grid", with_value("states", np.int64(-1)), "states from -1 to"),
    Bad("states outside", "toy-grid", with_value("states", np.int64(4)), "to 4 are not in"),
    Bad("states huge", "toy-grid", with_value("states", np.int64(1 << 40)), "1099511627776"),
    Bad("actions one more", "toy-grid", with_array("actions", lambda a: a[[0, *range(12)]]), "13"),
    Bad("actions outside", "toy-grid", with_value("actions", np.int64(5)), "actions from 0 to 5"),
    Bad("actions below 0", "toy-grid", with_value("actions", np.int64(-1)), "actions from -1"),
    Bad("actions floats", "toy-grid", with_array("actions", lambda a: a * 1.0), "are float64"),
    Bad("rewards NaN", "toy-grid", with_value("rewards", np.nan), "rewards are not finite"),
    Bad("rewards infinite", "toy-grid", with_value("rewards", -np.inf), "rewards are not finite"),
    Bad("rewards text", "toy-grid", with_array("rewards", lambda a: a.astype(str)), "are <U"),
    Bad("rewards too large", "toy-grid", with_value("rewards", 1e300), "rewards are not finite"),
    Bad(
        "return too large",
        "toy-grid",
        with_array("rewards", lambda a: np.full_like(a, 3e38)),
        "rewards are beyond",
    ),
    Bad("states NaN", "toy-reach", with_value("states", np.nan), r"not finite.*no NaN"),
    Bad("states too large", "toy-reach", with_value("states", 1e300), "states are not finite"),
    Bad("actions NaN", "toy-reach", with_value("actions", np.nan), "actions are not finite"),
    Bad("actions outside box", "toy-reach", with_value("actions", 1.01), r"leave \[-1, 1\]"),
    Bad("image floats", "toy-image", with_array("states", lambda a: a / 255), "are float64"),
    Bad("image outside", "toy-image", with_value("states", np.int64(256)), "to 256 are not in"),
    Bad("channels last", "toy-image", with_array("states", lambda a: a.swapaxes(1, 3)), "64, 3"),
    Bad("encoded NaN", "toy-encoded", with_value("states", np.nan), "states are not finite"),
    Bad("foreign: reach in a grid", "toy-grid", lambda good: GOOD["toy-reach"][0], r"\(12, 6\)"),
    Bad("foreign: image as codes", "toy-encoded", lambda g: GOOD["toy-image"][0], "3, 64, 64"),
]


@dataclass
class Place:
    """A memory of a kind and how to look at what was stored, apart from the memory itself."""

    memory: Memory
    stored: Callable[[], int]


def new_place(kind: str, suite: str, folder: Path) -> Place:
    spaces = SUITES[suite].spaces
    empty = Memory(toy_embedder(spaces), spaces, CONFIG)
    place = place_of(kind, folder / suite)
    memory = empty.at(place)
    if kind == "ram":
        return Place(memory, lambda: len(memory.store.entries))

    def stored() -> int:
        with closing(open_store(place, memory.identity(), writing=False)) as store:
            return len(store.entries)

    return Place(memory, stored)


@pytest.fixture(scope="module", params=KINDS)
def places(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One memory of each environment, with one good trajectory in it."""
    folder = tmp_path_factory.mktemp(request.param)
    made = {name: new_place(request.param, name, folder) for name in SUITES}
    for name, place in made.items():
        place.memory.write(GOOD[name][:1])
    yield made
    for place in made.values():
        place.memory.close()


@pytest.mark.parametrize("bad", BATTERY, ids=lambda bad: bad.name)
def test_bad_trajectories_are_refused_before_anything_is_written(
    bad: Bad, places: dict[str, Place]
) -> None:
    place, good = places[bad.suite], GOOD[bad.suite][1]
    memory, before = place.memory, place.stored()
    for together in ([bad.change(good)], [good, bad.change(good)]):
        with pytest.raises(BadTrajectoryError, match=bad.says) as caught:
            memory.write(together)
        assert "nothing was written" in str(caught.value)
        assert "Expected is T = 1..12 steps" in str(caught.value)
    assert place.stored() == before == len(memory) == len(memory.index) == len(memory.keys)


@pytest.mark.parametrize("name", SUITES)
def test_good_trajectories_of_any_fitting_type_are_taken(
    name: str, places: dict[str, Place]
) -> None:
    place, good = places[name], GOOD[name][1]
    before = place.stored()
    wide = np.int64 if good.actions.dtype.kind in "iu" else np.float64
    place.memory.write([replace(good, actions=good.actions.astype(wide), task=np.int32(2))])
    assert place.stored() == len(place.memory) == before + 3


@pytest.mark.parametrize("kind", KINDS)
def test_keys_that_cannot_be_are_refused(kind: str, tmp_path: Path) -> None:
    memory = new_place(kind, "toy-grid", tmp_path).memory
    memory.write(GOOD["toy-grid"][:1])
    every = memory.contents()
    nan = every.keys.clone()
    nan[1, 2] = torch.nan
    for keys, says in ((nan, "NaN"), (every.keys[:, 1:], "shape"), (every.keys[1:], "shape")):
        with pytest.raises(ValueError, match=says):
            memory.add(replace(every, keys=keys))
    assert len(memory) == 3
    memory.close()


def test_a_dataset_of_other_spaces_is_refused(tmp_path: Path) -> None:
    lived = histories(TOY_REACH, 1)
    dataset = write_toys(tmp_path, TOY_REACH, lived)
    with pytest.raises(MemoryMismatchError, match="toy-reach has other spaces"):
        from_dataset(dataset, TOY_GRID.spaces, None, None)


NPZ = [
    ({"lengths": None}, "has no lengths"),
    ({"states": None, "rewards": None}, "has no states and no rewards"),
    ({"lengths": np.array([12, 11])}, "make up the 24 steps, not 23"),
    ({"lengths": np.array([24, 0])}, "1 or more"),
    ({"lengths": np.array([12.0, 12.0])}, "lengths must be one whole number"),
    ({"lengths": np.array([[12, 12]])}, "lengths must be one whole number"),
    ({"tasks": np.array([1])}, "tasks must be one whole number"),
    ({"tasks": np.array([1, -1])}, "its task is -1"),
    ({"rewards": np.zeros(23, np.float32)}, "as many states as actions and rewards"),
    ({"rewards": np.full(24, np.nan)}, "finite"),
    ({"rewards": np.array(["a"] * 24)}, "episode 0 of task 1"),
    ({"states": np.zeros((24, 3), np.uint8)}, r"shape \(12, 3\)"),
    ({"states": np.full((24, 2), 9)}, "from 9 to 9 are not in"),
    ({"actions": np.full(24, 9)}, "actions from 9 to 9"),
    ({"actions": np.array(["x"] * 24, object)}, "holds Python objects, which are pickled"),
]


@pytest.mark.parametrize(("changes", "says"), NPZ, ids=lambda value: str(value)[:40])
def test_bad_files_of_trajectories_are_refused(
    changes: dict[str, Any], says: str, tmp_path: Path
) -> None:
    path, good = tmp_path / "mine.npz", GOOD["toy-grid"]
    write_npz(path, good)
    again = from_npz(path, TOY_GRID.spaces)
    assert [t.task for t in again] == [1, 1]
    assert [t.episode for t in again] == [0, 1]
    np.testing.assert_array_equal(again[1].states, good[1].states)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    left = {name: a for name, a in (arrays | changes).items() if a is not None}
    np.savez(path, **left)
    with pytest.raises((SourceError, BadTrajectoryError), match=says) as caught:
        from_npz(path, TOY_GRID.spaces)
    assert str(path) in str(caught.value)


def test_what_is_no_npz_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"PK\x03\x04 not really", b"\x00" * 100):
        (tmp_path / "x.npz").write_bytes(content)
        with pytest.raises(SourceError, match=r"no readable \.npz"):
            from_npz(tmp_path / "x.npz", TOY_GRID.spaces)
    with pytest.raises(SourceError, match=r"no readable \.npz"):
        from_npz(tmp_path / "none.npz", TOY_GRID.spaces)
