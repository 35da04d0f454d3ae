"""The plug point of data sources: names, options, and what a third party has to write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import radt
from radt.collect import (
    SOURCES,
    CollectConfig,
    CollectError,
    Forecast,
    Recorded,
    RecurrentConfig,
    Request,
    SourceEntry,
    record_histories,
)
from radt.collect.rollout import by_end, episode_returns, one_history
from radt.config import from_json
from radt.data import Dataset, History
from radt.decode import DecodeError
from radt.envs import SUITES
from radt.errors import RadtError, RunError
from radt.registry import UnknownNameError
from radt.runs.run import collect_command, dataset_path, known_tasks
from tests.toys import TOY_ENCODED, TOY_GRID, TOY_REACH, histories

MAZE, ROOM = "maze-runner-15x15", "dark-room-10x10"


@dataclass(frozen=True)
class WalkOptions:
    """Of a third party."""

    seed: int = 0
    transitions: int = 24
    colour: str = "red"


def record_walks(request: Request) -> Recorded:
    """Walk at random: all that a third party has to write."""

    def walks() -> Iterator[History]:
        for task, episodes in histories(request.suite, 2, request.options.seed).items():
            parts = [(e.states, e.actions, e.rewards) for e in episodes]
            arrays = [np.concatenate(part) for part in zip(*parts, strict=True)]
            yield History(task, *arrays, np.array([len(e.rewards) for e in episodes], np.int32))

    return Recorded(walks())


ENTRY = SourceEntry(
    WalkOptions,
    record_walks,
    lambda suite, options: Forecast(4, 96, 0.1),
)


def test_a_third_party_records_with_its_own_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SOURCES._items, "walk", ENTRY)
    folder = record_histories(
        TOY_GRID, WalkOptions(seed=3), tmp_path / "a", quiet=True, source="walk"
    )
    dataset = Dataset.open(folder)
    assert (dataset.manifest.source, dataset.manifest.seed) == ("walk", 3)
    assert len(dataset.episodes) == 8
    config = radt.preset(ROOM, "dt", "smoke", "source=walk", "collect.colour=blue")
    assert config.collect == WalkOptions(colour="blue")
    assert from_json(config.to_json()) == config
    assert dataset_path(radt.preset(ROOM, "dt", "smoke", "source=walk")).name == "walk-seed0"
    assert dataset_path(config).name.startswith("walk-")
    with pytest.raises(RadtError, match=r"collect: unknown name 'color'; did you mean colour"):
        radt.preset(ROOM, "dt", "smoke", "source=walk", "collect.color=1")


def test_names_and_options_of_the_built_in_sources() -> None:
    assert {"noisy-expert", "ppo", "ppo-lstm"} <= set(SOURCES.names())
    assert radt.preset(ROOM).source == "ppo"
    assert radt.preset(MAZE).source == "ppo-lstm"
    assert radt.preset(MAZE, "dt", "paper").collect == RecurrentConfig()
    with pytest.raises(UnknownNameError, match=r"unknown data source 'pp'; did you mean 'ppo'"):
        radt.preset(ROOM, "dt", "smoke", "source=pp")
    with pytest.raises(RadtError, match="source must be a name"):
        radt.preset(ROOM, "dt", "smoke", "source=3")


def test_datasets_are_named_by_their_source() -> None:
    def name(env: str, budget: str, *sets: str) -> str:
        return dataset_path(radt.preset(env, "dt", budget, *sets)).name

    assert name(ROOM, "paper") == name(ROOM, "laptop") == "ppo-seed0"
    assert name(MAZE, "paper") == "ppo-lstm-seed0"
    assert name(MAZE, "laptop", "collect.seed=2") == "ppo-lstm-laptop-seed2"
    assert name(MAZE, "laptop", "source=noisy-expert") == "noisy-expert-seed0"
    hashed = name(MAZE, "laptop", "source=noisy-expert", "collect.tasks=1000")
    assert hashed.startswith("noisy-expert-")
    assert hashed.endswith("-seed0")
    assert len(hashed) == len("noisy-expert-01234567-seed0")


def test_the_command_that_makes_a_dataset_names_its_source() -> None:
    config = radt.preset(MAZE, "dt", "laptop", "source=noisy-expert", "collect.tasks=7")
    wanted = "radt collect maze-runner-15x15 --budget laptop --set 'source=\"noisy-expert\"' "
    assert collect_command(config) == wanted + "--set collect.tasks=7"


def test_configs_from_before_sources_had_names_are_ppo() -> None:
    config = radt.preset(ROOM, "dt", "paper")
    older = config.to_json()
    del older["source"]
    assert from_json(json.loads(json.dumps(older))) == config
    with pytest.raises(DecodeError, match="collect: unknown name 'transitions'"):
        from_json({**older, "source": "noisy-expert"})


def test_the_source_of_rooms_refuses_what_it_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(CollectError, match=r"needs discrete ones, not 'encoded'.*source=ppo-lstm"):
        record_histories(TOY_ENCODED, CollectConfig(), tmp_path)
    with pytest.raises(CollectError, match="discrete actions; 'toy-reach' has others"):
        record_histories(TOY_REACH, CollectConfig(), tmp_path)


def test_a_source_that_does_not_fit_suggests_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_items", "_files"):
        monkeypatch.setattr(SOURCES, name, dict(getattr(SOURCES, name)))
    SOURCES.register("walk", ENTRY)
    with pytest.raises(CollectError, match=r"; try --set source=walk$"):
        record_histories(TOY_REACH, CollectConfig(), tmp_path)
    with pytest.raises(UnknownNameError, match="did you mean 'walk'"):
        radt.preset(ROOM, "dt", "smoke", "source=wlak")


class Reach:
    """The toy of continuous actions, whose fields are no rules of its data."""

    def __getattr__(self, name: str) -> Any:
        return getattr(TOY_REACH, name)


def spoiled(name: str, value: Any, task: int) -> SourceEntry:
    """Record walks, with one value of a task spoiled."""

    def spoil(history: History) -> History:
        if history.task != task:
            return history
        values = getattr(history, name).copy().astype(np.result_type(type(value)))
        values[5] = value
        return replace(history, **{name: values})

    def record(request: Request) -> Recorded:
        return Recorded(spoil(history) for history in record_walks(request).histories)

    return replace(ENTRY, record=record)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("rewards", np.nan, "rewards are not finite numbers, first at step 5: nan"),
        ("states", np.inf, "states are not finite numbers, first at step 5"),
        ("actions", -1.5, r"leave \[-1, 1\], first at step 5"),
    ],
)
def test_what_a_source_cannot_have_recorded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: Any, said: str
) -> None:
    monkeypatch.setitem(SOURCES._items, "walk", spoiled(name, value, task=2))
    file = re.escape(str(tmp_path / "task-00002.h5"))
    with pytest.raises(CollectError, match=f"{file} .* walk recorded task 2, but .*{said}"):
        record_histories(Reach(), WalkOptions(), tmp_path, quiet=True, source="walk")  # type: ignore
    assert not (tmp_path / "manifest.json").exists()


def test_a_suite_of_fields_that_cannot_be_written_down_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SOURCES._items, "walk", ENTRY)
    with pytest.raises(CollectError, match=r"type function .* fields be numbers"):
        record_histories(TOY_REACH, WalkOptions(), tmp_path, quiet=True, source="walk")


def test_a_source_records_training_tasks_and_at_least_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(tasks: Any) -> SourceEntry:
        def record(request: Request) -> Recorded:
            (history, *_) = record_walks(request).histories
            return Recorded([replace(history, task=task) for task in tasks])

        return replace(ENTRY, record=record)

    for task in (5, 99, -1, 0.5):
        monkeypatch.setitem(SOURCES._items, "walk", other([task]))
        with pytest.raises(CollectError, match=f"walk recorded task {task}, which is none"):
            record_histories(TOY_GRID, WalkOptions(), tmp_path, quiet=True, source="walk")
    monkeypatch.setitem(SOURCES._items, "walk", other([]))
    with pytest.raises(CollectError, match="recorded none of the 4 training tasks"):
        record_histories(TOY_GRID, WalkOptions(), tmp_path, quiet=True, source="walk")


def test_a_dataset_without_a_known_task_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADT_HOME", str(tmp_path))
    monkeypatch.setitem(SOURCES._items, "walk", ENTRY)
    monkeypatch.setitem(SUITES._items, "toy-grid", TOY_GRID)
    config = radt.preset("toy-grid", "dt", "smoke", "source=walk")
    radt.collect(config)
    assert known_tasks(config) == TOY_GRID.train_tasks
    monkeypatch.setitem(SUITES._items, "toy-grid", replace(TOY_GRID, train_tasks=(7, 8)))
    with pytest.raises(RunError, match=r"4 tasks \(0 to 3\), but none of the training tasks"):
        known_tasks(config)


@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_episodes_of_several_environments_follow_by_their_end(
    steps: int, envs: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    ends = rng.random((steps, envs)) < 0.3
    time, env = np.indices(ends.shape)
    rewards = rng.random(ends.shape).astype(np.float32)
    history = one_history(7, np.stack([time, env], axis=-1), env, rewards, ends)
    assert sorted(by_end(ends).tolist()) == list(range(steps * envs))
    stops = np.cumsum(history.lengths)
    assert len(stops) == ends.sum()
    closing = []
    for stop, length, total in zip(stops, history.lengths, episode_returns(history), strict=True):
        own = history.states[stop - length : stop]  # [length, (time, env)]
        assert len(set(own[:, 1])) == 1
        assert own[:, 0].tolist() == list(range(own[0, 0], own[0, 0] + length))
        assert ends[tuple(own[-1])]
        assert not ends[tuple(own[:-1].T)].any()
        assert total == pytest.approx(rewards[tuple(own.T)].sum(dtype=np.float64))
        closing.append((own[-1, 0], own[-1, 1]))
    assert closing == sorted(closing)
