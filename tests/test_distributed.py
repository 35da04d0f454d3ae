"""Two processes that train together do what one does, and end together when one fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from radt import cli
from radt.checkpoint import read_tensors
from radt.distributed import (
    SINGLE_PROCESS,
    ProcessGroup,
    ProcessGroupError,
    count_loss_terms,
    current_group,
    take_rows,
)
from radt.envs.suite import SUITES
from tests.contracts.method import build_method, toy_dataset
from tests.process_group import CONFIG, cases, launch, learn_one
from tests.toys import TOY_GRID, TOY_REACH

CLOSE = 1e-5
SMALL = (
    "collect.transitions=128",
    "collect.n_steps=64",
    "learn.updates=6",
    "learn.evaluate_every=3",
    "learn.log_every=2",
    "embedder.updates=4",
    "evaluate.trials=2",
    "options.memory.context_len=4",
    "options.model.dropout=0.0",
    "embedder.model.dropout=0.0",
)


@pytest.fixture(autouse=True)
def _known_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SUITES._items, TOY_GRID.name, TOY_GRID)


def logged(file: Path, name: str) -> list[Any]:
    lines = map(json.loads, file.read_text().splitlines())
    return [line[name] for line in lines if name in line]


def assert_close(one: Path, two: Path) -> None:
    (mine, header), (theirs, other_header) = read_tensors(one), read_tensors(two)
    assert header == other_header
    assert mine.keys() == theirs.keys()
    for name in mine:
        torch.testing.assert_close(theirs[name], mine[name], atol=CLOSE, rtol=CLOSE, msg=name)


def test_two_processes_train_as_one_does(tmp_path: Path) -> None:
    together = launch("learn", str(tmp_path / "two"), *cases())
    assert together.code == 0, together.said
    for case in cases():
        learn_one(case, tmp_path / "one")
        assert_close(tmp_path / "one" / case, tmp_path / "two" / case)
        for name in ("step", "loss", "grad", "lr"):
            np.testing.assert_allclose(
                logged(tmp_path / "two" / f"{case}.jsonl", name),
                logged(tmp_path / "one" / f"{case}.jsonl", name),
                atol=CLOSE,
                rtol=CLOSE,
            )


@pytest.mark.long
def test_a_failure_ends_all_and_the_next_start_goes_on(tmp_path: Path) -> None:
    failed = launch("fail", str(tmp_path / "two"), "ra-dt")
    assert failed.code != 0
    assert "the disk of this process is full" in failed.said
    _, header = read_tensors(tmp_path / "two" / "ra-dt")
    assert int(header["updates"]) == CONFIG.save_every
    again = launch("learn", str(tmp_path / "two"), "ra-dt")
    assert again.code == 0, again.said
    steps = logged(tmp_path / "two" / "ra-dt.jsonl", "step")
    assert steps[-1] == CONFIG.updates
    assert steps.count(CONFIG.save_every) == 1  # what was saved is not done again
    learn_one("ra-dt", tmp_path / "one")
    assert_close(tmp_path / "one" / "ra-dt", tmp_path / "two" / "ra-dt")


@pytest.mark.long
def test_a_whole_run_of_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADT_HOME", str(tmp_path / "home"))
    sets = [f"--set={text}" for text in SMALL]
    words = ["run", TOY_GRID.name, "--method=ra-dt", "--budget=smoke", "--threads=1", *sets]
    together = launch("radt", *words, f"--out={tmp_path / 'two'}")
    assert together.code == 0, together.said
    assert cli.main([*words, "--quiet", f"--out={tmp_path / 'one'}"]) == 0
    one, two = ({path.name for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two
    assert_close(tmp_path / "one" / "model.safetensors", tmp_path / "two" / "model.safetensors")
    for name in ("phase", "step"):  # every line once: one process speaks
        logs = [logged(tmp_path / who / "log.jsonl", name) for who in ("one", "two")]
        assert logs[0] == logs[1]


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("suite", [TOY_GRID, TOY_REACH], ids=lambda suite: suite.name)
def test_shares_of_a_loss_add_up_to_it(suite: object, size: int, tmp_path: Path) -> None:
    method = build_method("ra-dt", suite.spaces)  # type: ignore[attr-defined]
    method.prepare(toy_dataset(suite, tmp_path))  # type: ignore[arg-type]
    examples = method.draw(8, np.random.default_rng(0))
    parts = [take_rows(examples, slice(rank, None, size)) for rank in range(size)]
    assert sum(count_loss_terms(part) for part in parts) == count_loss_terms(examples)
    shares = [
        method.loss(part) * count_loss_terms(part) / count_loss_terms(examples) for part in parts
    ]
    torch.testing.assert_close(torch.stack(shares).sum(), method.loss(examples))


def test_whoever_is_not_started_by_torchrun_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")  # as batch systems set it
    monkeypatch.setenv("RANK", "3")
    assert current_group() == SINGLE_PROCESS
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1000")
    assert current_group() == ProcessGroup(3, 4, threads=1)


def test_a_batch_smaller_than_the_process_group_is_refused() -> None:
    with pytest.raises(ProcessGroupError, match=r"batch of 3 .*4 processes.*learn.batch_size"):
        ProcessGroup(0, 4).check_batch(3)
