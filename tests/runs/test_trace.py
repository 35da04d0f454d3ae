"""A trace: what is written is what was lived, and can be read trial by trial."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from radt.agent import Agent, Target
from radt.icl import in_context_learning
from radt.runs.trace import Trace, TraceError, read_contents, read_trial
from radt.trajectory import Verdict
from tests.contracts.method import OPTIONS, build_method
from tests.contracts.unequal import SPACES, diaries, unequal_envs

TASKS = (0, 1, 2, 5)


def traced(
    folder: Path,
    mode: AutoresetMode,
    every: int = 1,
    method: str = "ra-dt",
    window_step: int = 1,
    **limits: int,
) -> tuple[Path, Agent, Any]:
    options = dict(OPTIONS[method])
    if method == "ra-dt":
        options["memory"] = {"context_len": 3, "retrieve_every": every}
        options["window_step"] = window_step
    agent = Agent(
        build_method(method, SPACES, options),
        Target(5.0),
        slots=len(TASKS),
        autoreset_mode=mode,
        tasks=TASKS,
    )
    env = unequal_envs(TASKS, mode)
    trace = Trace(folder / "deep" / "trace.jsonl", "unequal", **limits)
    in_context_learning(agent, env, 4, seed=0, after_step=trace.after_step)
    trace.close()
    return folder / "deep" / "trace.jsonl", agent, env


def trials_of(path: Path, task: int) -> list[dict[str, Any]]:
    contents = read_contents(path)
    return [read_trial(path, place) for key, place in contents.trials.items() if key[0] == task]


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("every", [0, 1, 3])
@pytest.mark.parametrize("window_step", [1, 2])
def test_every_trial_is_written_as_it_was_lived(
    tmp_path: Path, mode: AutoresetMode, every: int, window_step: int
) -> None:
    path, _, env = traced(tmp_path, mode, every, window_step=window_step)
    contents = read_contents(path)
    assert (contents.env, contents.method, contents.cut) == ("unequal", "ra-dt", None)
    assert sorted(contents.tasks) == list(TASKS)
    for slot, task in enumerate(TASKS):
        for trial, (line, diary) in enumerate(
            zip(trials_of(path, task)[:4], diaries(env)[slot], strict=False)
        ):
            assert (line["task"], line["trial"], line["steps"]) == (task, trial, len(diary))
            states, actions, rewards = zip(*diary, strict=True)
            np.testing.assert_allclose(line["states"], np.stack(states), atol=1e-4)
            np.testing.assert_allclose(line["actions"], np.stack(actions), atol=1e-4)
            np.testing.assert_allclose(line["rewards"], rewards, atol=1e-6)
            asked = [0] if every == 0 else list(range(0, len(diary), every))
            if trial:  # from then on, the slot's memory holds something
                assert [search["step"] for search in line["searches"]] == asked


def test_a_search_names_what_was_found_and_why_it_was_chosen(tmp_path: Path) -> None:
    path, agent, _ = traced(tmp_path, AutoresetMode.SAME_STEP)
    assert agent.memory is not None
    searches = 0
    for slot, task in enumerate(TASKS):
        for line in trials_of(path, task):
            known = line["entries"]
            assert all(int(agent.memory.entries.task[entry]) == slot for entry in known["ids"])
            assert all(trial < line["trial"] for trial in known["trial"])
            for search in line["searches"]:
                if not known["ids"]:
                    assert search["ids"] == search["chosen"] == []
                    continue
                searches += 1
                verdict = dict(zip(search["ids"], search["verdict"], strict=True))
                chosen = [entry for entry, word in verdict.items() if word == Verdict.CHOSEN]
                assert chosen == search["chosen"]
                assert set(search["ids"]) <= set(known["ids"])
                best = max(score for score in search["score"] if score is not None)
                assert search["score"][search["ids"].index(chosen[0])] == best
                assert len(search["query"]) == 2
    assert searches > 0


@pytest.mark.parametrize("window_step", [1, 2])
def test_attention_is_shared_out_over_the_chunk_that_is_held(
    tmp_path: Path, window_step: int
) -> None:
    path, agent, _ = traced(tmp_path, AutoresetMode.SAME_STEP, window_step=window_step)
    assert agent.memory is not None
    looked = 0
    for task in TASKS:
        for line in trials_of(path, task):
            known = line["entries"]
            lengths = np.subtract(known["stop"], known["start"]).tolist()
            spans = dict(zip(known["ids"], lengths, strict=True))
            held = {search["step"]: search["chosen"] for search in line["searches"]}
            for step, look in enumerate(line["attention"]):
                if look is None:
                    assert step not in held or not held[step]
                    continue
                weights = np.frombuffer(base64.b64decode(look["bytes"]), np.uint8)
                weights = weights.reshape(look["layers"], -1) / 255 * look["peak"]
                assert weights.shape[1] == sum(spans[entry] for entry in held[step])
                np.testing.assert_allclose(weights.sum(axis=1), 1, atol=0.03)
                looked += 1
    assert looked > 0


def test_watching_changes_nothing(tmp_path: Path) -> None:
    path, watched, _ = traced(tmp_path, AutoresetMode.SAME_STEP)
    options = {**OPTIONS["ra-dt"], "memory": {"context_len": 3}}
    alone = Agent(
        build_method("ra-dt", SPACES, options),
        Target(5.0),
        slots=len(TASKS),
        autoreset_mode=AutoresetMode.SAME_STEP,
        tasks=TASKS,
    )
    result = in_context_learning(alone, unequal_envs(TASKS, AutoresetMode.SAME_STEP), 4, seed=0)
    for row, task in enumerate(TASKS):
        returns = [line["return"] for line in trials_of(path, task)[:4]]
        np.testing.assert_allclose(returns, result.returns[row], atol=1e-5)
    policy = watched.method.networks["policy"]
    assert not any(layer._forward_hooks for layer in policy.modules())


def test_a_trace_is_bounded_and_says_where_it_was_cut(tmp_path: Path) -> None:
    path, _, _ = traced(tmp_path, AutoresetMode.SAME_STEP, most=20)
    contents = read_contents(path)
    assert contents.cut is not None
    assert 0 < sum(place.steps for place in contents.trials.values()) <= 20


def test_methods_without_memory_search_nothing(tmp_path: Path) -> None:
    path, _, _ = traced(tmp_path, AutoresetMode.SAME_STEP, method="dt")
    for line in trials_of(path, 0):
        assert line["searches"] == []
        assert line["attention"] == [None] * line["steps"]


@pytest.mark.parametrize("content", ["", "{}\n", '{"radt_trace": 1}\n', "[1, 2]\n", "nonsense\n"])
def test_what_is_no_trace_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(content)
    with pytest.raises(TraceError, match="radt evaluate"):
        read_contents(path)


def test_a_damaged_trial_is_refused(tmp_path: Path) -> None:
    path, _, _ = traced(tmp_path, AutoresetMode.SAME_STEP)
    contents = read_contents(path)
    place = next(iter(contents.trials.values()))
    content = bytearray(path.read_bytes())
    content[place.offset + place.size - 10] = 0
    path.write_bytes(content)
    with pytest.raises(TraceError, match="damaged"):
        read_trial(path, place)


def test_lines_that_were_changed_moved_or_dropped_are_noticed(tmp_path: Path) -> None:
    path, _, _ = traced(tmp_path, AutoresetMode.SAME_STEP)
    first, *trials, end = path.read_bytes().splitlines(keepends=True)
    place = next(iter(read_contents(path).trials.values()))
    assert read_contents(path).cut is None
    changed = trials[0].replace(b'"trial": 0', b'"trial": 9')
    unsealed = trials[0].replace(b'"seal"', b'"sxal"')
    for lines in (
        [first, changed, *trials[1:], end],
        [first, unsealed, *trials[1:], end],
        [first, *trials[1:], end],
        [first, *reversed(trials), end],
        [first.replace(b'"env": "', b'"env": "x'), *trials, end],
    ):
        path.write_bytes(b"".join(lines))
        with pytest.raises(TraceError, match="damaged"):
            read_contents(path)
    path.write_bytes(b"".join([first, unsealed, *trials[1:], end]))
    with pytest.raises(TraceError, match="damaged"):
        read_trial(path, place)
    path.write_bytes(b"".join([first, *trials]) + end[:9])  # as a killed writer leaves it
    contents = read_contents(path)
    assert len(contents.trials) == len(trials)
    assert contents.cut is not None


def test_a_line_without_an_end_is_not_read_whole(tmp_path: Path) -> None:
    path, _, _ = traced(tmp_path, AutoresetMode.SAME_STEP)
    known = read_contents(path)
    with path.open("r+b") as file:
        file.truncate(1 << 40)  # no byte of it is on the disk
    found = read_contents(path)
    assert (found.trials, found.cut) == (known.trials, known.cut)


def test_deterministic_maps(tmp_path: Path) -> None:
    torch.manual_seed(1)
    one = traced(tmp_path / "a", AutoresetMode.SAME_STEP)[0].read_bytes()
    torch.manual_seed(2)
    assert traced(tmp_path / "b", AutoresetMode.SAME_STEP)[0].read_bytes() == one
