from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gymnasium.vector import AutoresetMode

from radt.agent import Agent, Target
from radt.experiments.trace import Trace
from radt.icl import in_context_learning
from tests.contracts.method import OPTIONS, build_method
from tests.contracts.unequal import SPACES, diaries, unequal_envs

TASKS = (0, 1, 2, 5)


def traced(
    folder: Path, slot: int, mode: AutoresetMode, every: int = 1, **limits: int
) -> tuple[list[dict[str, Any]], Agent, Any]:
    options = {**OPTIONS["ra-dt"], "memory": {"context_len": 3, "retrieve_every": every}}
    agent = Agent(
        build_method("ra-dt", SPACES, options),
        Target(5.0),
        slots=len(TASKS),
        autoreset_mode=mode,
    )
    env = unequal_envs(TASKS, mode)
    trace = Trace(folder / "trace.jsonl", **limits)
    in_context_learning(agent, env, 4, seed=0, after_step=trace.after_step)
    trace.close()
    lines = (folder / "trace.jsonl").read_text().splitlines()
    written = [json.loads(line) for line in lines]
    return [line for line in written if line.get("slot", slot) == slot], agent, env


@pytest.mark.parametrize("slot", range(len(TASKS)))
@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("every", [0, 1, 3])
def test_lines_are_about_the_slot_that_is_followed(
    tmp_path: Path, slot: int, mode: AutoresetMode, every: int
) -> None:
    lines, agent, env = traced(tmp_path, slot, mode, every)
    assert agent.memory is not None
    entries = agent.memory.entries
    diary = diaries(env)[slot]
    by_trial: dict[int, list[dict[str, Any]]] = {}
    for line in lines:
        by_trial.setdefault(line["trial"], []).append(line)
        ids = [candidate["id"] for candidate in line["candidates"]]
        assert {int(entries.task[entry]) for entry in ids} <= {slot}
        assert all(candidate["trial"] < line["trial"] for candidate in line["candidates"])
        chosen = {c["id"] for c in line["candidates"] if c["verdict"] == "chosen"}
        assert chosen == {entry for entry in line["chosen"] if entry >= 0}
    for trial, found in by_trial.items():
        rewards = [reward for *_, reward in diary[trial]]
        asked = rewards[:1] if every == 0 else rewards[::every]
        if trial > 0:  # from then on, the slot's memory holds something
            assert [line["reward"] for line in found] == asked
            assert all(line["chosen"][0] >= 0 for line in found)


def test_a_trace_is_bounded(tmp_path: Path) -> None:
    traced(tmp_path, 0, AutoresetMode.SAME_STEP, most=5)
    lines = (tmp_path / "trace.jsonl").read_text().splitlines()
    assert len(lines) == 6
    assert "cut" in json.loads(lines[-1])


def test_methods_without_memory_leave_an_empty_trace(tmp_path: Path) -> None:
    mode = AutoresetMode.SAME_STEP
    agent = Agent(build_method("dt", SPACES), Target(5.0), slots=4, autoreset_mode=mode)
    trace = Trace(tmp_path / "deep" / "trace.jsonl")
    in_context_learning(agent, unequal_envs(TASKS, mode), 1, seed=0, after_step=trace.after_step)
    trace.close()
    assert (tmp_path / "deep" / "trace.jsonl").read_text() == ""
