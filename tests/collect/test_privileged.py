"""The learner may see what a suite hides; what is stored is the same as ever."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from radt.collect import CollectConfig, CollectError, record_histories
from radt.collect.ppo import GroupLearner
from radt.collect.record import collection_plan
from radt.data import Dataset, read_manifest
from radt.envs import SUITES, KeyDoorSuite
from radt.runs.presets import usual_options
from tests.data.histories import assert_obeys

CONFIG = CollectConfig(n_steps=256, n_epochs=2, transitions=1000, rollouts_per_part=1)


def small(name: str = "dark-key-door-10x10") -> KeyDoorSuite:
    suite = SUITES[name]
    assert isinstance(suite, KeyDoorSuite)
    return replace(suite, train_tasks=(0, 9, 24))  # in task 9 the key lies under the start


class Killed(BaseException):
    """Stands for the end of the process."""


def stop(_: object) -> None:
    raise Killed


@pytest.mark.parametrize("privileged", [False, True])
@pytest.mark.parametrize("name", ["dark-key-door-10x10", "dark-key-door-10x10-persist"])
def test_the_recorded_steps_obey_the_environment(
    name: str, privileged: bool, tmp_path: Path
) -> None:
    suite, config = small(name), replace(CONFIG, privileged=privileged)
    for _ in range(2):  # resumed runs live the hidden state again, too
        with pytest.raises(Killed):
            record_histories(suite, config, tmp_path, workers=1, progress=stop)
    dataset = Dataset.open(record_histories(suite, config, tmp_path, workers=1, quiet=True))
    assert dataset.spaces == suite.spaces
    assert dataset.manifest.hyper_parameters.get("privileged", False) == privileged
    for task in suite.train_tasks:
        assert_obeys(suite, dataset.history(task))


def test_a_revealed_bit_is_one_more_input() -> None:
    learner = GroupLearner(small(), (0, 9), replace(CONFIG, privileged=True))
    assert learner.networks.inputs == 3
    rollout = learner.advance()
    held = learner.index.coordinates[rollout.states][..., 2]  # [steps, tasks]
    episode = np.arange(256) // 100
    for slot in range(2):
        for number in range(3):
            inside = episode == number
            earned = np.cumsum(rollout.rewards[inside, slot])
            assert held[inside, slot][1:].tolist() == (earned[:-1] > 0).astype(int).tolist()


def test_nothing_to_reveal_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CollectError, match="'dark-room-10x10' hides nothing"):
        record_histories(SUITES["dark-room-10x10"], replace(CONFIG, privileged=True), tmp_path)


def test_datasets_from_before_the_option_are_the_same_datasets(tmp_path: Path) -> None:
    content = collection_plan(small(), CONFIG)
    assert set(content["config"]) == set(asdict(CONFIG)) - {"privileged"}
    assert (
        collection_plan(small(), replace(CONFIG, privileged=True))["config"]["privileged"] is True
    )
    record_histories(small(), CONFIG, tmp_path, workers=1, quiet=True)
    before = read_manifest(tmp_path)
    assert "privileged" not in before.hyper_parameters
    record_histories(small(), CONFIG, tmp_path, workers=1, quiet=True)
    assert read_manifest(tmp_path) == before
    with pytest.raises(CollectError, match=r"config.privileged"):
        record_histories(small(), replace(CONFIG, privileged=True), tmp_path, workers=1, quiet=True)


def test_key_doors_are_collected_as_dark_rooms_of_their_size() -> None:
    for size in ("10x10", "20x20", "40x20"):
        for name in (f"dark-key-door-{size}", f"dark-key-door-{size}-persist"):
            room, key = (usual_options(env, "ppo", "paper") for env in (f"dark-room-{size}", name))
            assert replace(key, privileged=False) == room
            assert key.privileged == (not name.endswith("persist"))
