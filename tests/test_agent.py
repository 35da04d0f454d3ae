from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.torch import load_file

from radt.agent import ActionRule, Agent, Target
from radt.errors import InputError
from radt.icl import in_context_learning
from radt.memory.identity import BadTrajectoryError, MemoryFileError, MemoryMismatchError
from radt.memory.memory_file import look_into, read_file, write_file
from radt.methods.exploration import ExplorationConfig, with_exploration
from radt.model.heads import CONTINUOUS
from radt.trajectory import Trajectory
from tests.contracts.method import OPTIONS, build_method
from tests.contracts.unequal import HORIZON, SPACES, Unequal, diaries, unequal_envs
from tests.toys import TOY_REACH

TASKS = (0, 1, 2, 5)


def agent_for(name: str = "ra-dt", **changes: Any) -> Agent:
    return Agent(build_method(name, SPACES), Target(5.0, 1.0), **changes)


def remembered(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> list[Trajectory]:
    kept: list[Trajectory] = []
    real = agent.actor.remember
    monkeypatch.setattr(agent.actor, "remember", lambda new: (kept.extend(new), real(new)))
    return kept


@pytest.mark.parametrize("name", ["dt", "ra-dt", "ra-dt+", "replay"])
@pytest.mark.parametrize("mode", AutoresetMode)
def test_what_is_remembered_is_what_was_lived(
    name: str, mode: AutoresetMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = agent_for(name, slots=len(TASKS), autoreset_mode=mode)
    kept = remembered(agent, monkeypatch)
    env = unequal_envs(TASKS, mode)
    in_context_learning(agent, env, 4, seed=0)
    lived = diaries(env)
    for slot in range(len(TASKS)):
        own = [trial for trial in kept if trial.task == slot]
        assert [trial.episode for trial in own] == list(range(len(own)))
        assert len(own) >= 4
        for trial, diary in zip(own, lived[slot], strict=False):
            states, actions, rewards = zip(*diary, strict=True)
            assert trial.states.tolist() == list(states)
            assert trial.actions.tolist() == list(actions)
            assert trial.rewards.tolist() == list(rewards)


def test_one_environment_takes_and_gives_plain_numbers() -> None:
    agent, env = agent_for(), Unequal(0)
    for _ in range(3):
        obs, _ = env.reset()
        over = False
        while not over:
            action = agent.act(obs)
            assert type(action) is int
            obs, reward, terminated, truncated, _ = env.step(np.int64(action))
            agent.observe(reward, terminated, truncated)
            over = terminated or truncated
    assert agent.trials.trial.tolist() == [3]
    assert agent.memory is not None
    assert len(agent.memory) > 0


def test_one_environment_equals_one_slot() -> None:
    actions = []
    for slots in (None, 1):
        agent, env = agent_for(slots=slots), Unequal(1)
        for _ in range(3):
            obs, _ = env.reset()
            over = False
            while not over:
                action = agent.act(obs if slots is None else obs[None])
                action = action if slots is None else action[0]
                actions.append(int(action))
                obs, reward, terminated, truncated, _ = env.step(action)
                agent.observe(
                    *(
                        (reward, terminated, truncated)
                        if slots is None
                        else ([reward], [terminated], [truncated])
                    )
                )
                over = terminated or truncated
    half = len(actions) // 2
    assert actions[:half] == actions[half:]


def test_continuous_actions_are_vectors_inside_the_box() -> None:
    agent = Agent(build_method("ra-dt", TOY_REACH.spaces), Target(10.0))
    env = TOY_REACH.make(1)
    obs, _ = env.reset(seed=0)
    action = agent.act(obs)
    assert action.shape == (3,)
    assert action.dtype == np.float32
    assert (abs(action) <= 1).all()


@pytest.mark.parametrize("head", CONTINUOUS)
@pytest.mark.parametrize("name", ["dt", "ad", "dpt", "ra-dt", "random", "nearest"])
def test_dimensions_that_a_task_does_not_have_are_0(name: str, head: str) -> None:
    options = {**OPTIONS.get(name, {})}
    if "model" in options:
        options["model"] = {**options["model"], "action_head": head}
    method = build_method(name, TOY_REACH.spaces, options)
    known = Agent(method, Target(10.0), slots=3, tasks=[0, 1, 2])
    unknown = Agent(method, Target(10.0), slots=3)  # whose slots are no tasks of the suite
    valid = np.arange(3) < [[1], [2], [3]]
    for step in range(15):  # into the second trial
        acted, free = (agent.act(np.full((3, 6), 0.1)) for agent in (known, unknown))
        assert not acted[~valid].any()
        for agent in (known, unknown):
            agent.observe(np.ones(3), step == 11 + np.zeros(3), np.zeros(3))
        assert not known.trials.actions[:, step % 12][~valid].any()
        assert step or (head == "bins") or (acted[valid].all() and free.all())


def lived_agent(mode: AutoresetMode = AutoresetMode.NEXT_STEP) -> Agent:
    agent = agent_for(slots=len(TASKS), autoreset_mode=mode)
    in_context_learning(agent, unequal_envs(TASKS, mode), 3, seed=0)
    return agent


def test_a_new_task_empties_only_its_slots() -> None:
    agent = lived_agent()
    memory = agent.memory
    assert memory is not None
    others = memory.entries.task != 1
    keys, chunks = memory.keys[others].clone(), memory.contents().chunks.rows(others)
    trial = agent.trials.trial.copy()
    agent.start_task([1])
    assert not (memory.entries.task == 1).any()
    assert torch.equal(memory.keys, keys)
    assert torch.equal(memory.contents().chunks.states, chunks.states)
    trial[1] = 0
    np.testing.assert_array_equal(agent.trials.trial, trial)
    agent.start_task()
    assert len(memory) == 0
    assert not agent.trials.solved.any()


def test_a_task_that_starts_between_act_and_observe_learns_nothing_of_the_old_one() -> None:
    agent = agent_for(slots=2)
    agent.act(np.zeros((2, 2), int))
    agent.start_task(1)
    agent.observe([1.0, 1.0], [True, True], [False, False])
    assert agent.trials.trial.tolist() == [1, 0]
    assert agent.memory is not None
    assert agent.memory.entries.task.unique().tolist() == [0]


def test_a_saved_memory_goes_on_in_another_agent(tmp_path: Path) -> None:
    agent = lived_agent()
    agent.save(tmp_path / "memory.safetensors")
    other = agent_for(slots=len(TASKS), autoreset_mode=AutoresetMode.NEXT_STEP)
    other.load(str(tmp_path / "memory.safetensors"))
    assert agent.memory is not None
    assert other.memory is not None
    assert torch.equal(other.memory.keys, agent.memory.keys)
    np.testing.assert_array_equal(other.trials.trial, agent.trials.trial)
    np.testing.assert_array_equal(other.trials.solved, agent.trials.solved)
    obs = np.stack([env.reset()[0] for env in map(Unequal, TASKS)])
    logits = []
    for one in (agent, other):
        one.trials.begin_trial(np.arange(4), np.full(4, 5.0, np.float32))
        one.actor.begin_trials(np.arange(4))
        one.trials.see(np.arange(4), obs)
        logits.append(one.actor.decide(one.trials, np.arange(4)))
    assert torch.equal(logits[0], logits[1])
    assert other.retrieval is not None
    assert other.query_slots.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("shared", [True, False])
def test_a_memory_is_saved_by_task_and_found_again(tmp_path: Path, shared: bool) -> None:
    file, memory = tmp_path / "memory", agent_for().memory if shared else None
    agent = agent_for(slots=2, tasks=[85, 3], memory=memory)
    agent.act(np.array([[1, 0], [2, 0]]))
    agent.observe([1.0, 0.0], [True, True], [False, False])
    agent.save(file)
    identity, entries, progress = look_into(file)
    assert identity == agent.memory.identity()  # type: ignore[union-attr]
    assert entries.task.tolist() == [85, 3]
    assert progress == {"tasks_of_slots": [85, 3], "trials_of_slots": [1, 1]}
    for tasks in (None, [85, 3]):
        other = agent_for(slots=2, tasks=tasks)
        other.load(file)
        assert other.tasks == [85, 3]
        other.act(np.array([[1, 0], [2, 0]]))
        assert other.retrieval is not None
        assert (other.retrieval.chosen >= 0).all()
    for tasks in ([3, 85], [0, 1]):
        with pytest.raises(MemoryMismatchError, match=r"build it with tasks=\[85, 3\]"):
            agent_for(slots=2, tasks=tasks).load(file)
    same = agent_for(slots=2, tasks=[85, 3], memory=agent_for().memory)
    same.load(file)
    assert same.memory.entries.task.tolist() == [85, 3]  # type: ignore[union-attr]


def test_an_older_file_names_no_tasks_and_is_found(tmp_path: Path) -> None:
    agent = agent_for(tasks=[85])
    agent.act([1, 0])
    agent.observe(1.0, True, False)
    memory = agent.memory
    assert memory is not None
    owner = {name: torch.zeros(1, dtype=torch.int64) for name in ("trial", "tasks_started")}
    owner["solved"] = torch.zeros(1, dtype=torch.bool)
    for file, numbers in (("slots", None), ("tasks", torch.tensor([85]))):
        memory.save(tmp_path / file, owner, numbers)
        other = agent_for(tasks=[85])
        other.load(tmp_path / file)
        other.act([1, 0])
        assert (other.retrieval.chosen >= 0).all()  # type: ignore[union-attr]
    with pytest.raises(MemoryMismatchError, match=r"entries of the tasks \[85\]"):
        agent_for().load(tmp_path / "tasks")


def test_slots_of_one_task_cannot_be_saved_apart(tmp_path: Path) -> None:
    with pytest.raises(MemoryMismatchError, match="several slots have the task 5"):
        agent_for(slots=2, tasks=[5, 5]).save(tmp_path / "x")


def test_a_saved_agent_knows_what_it_tried_and_forgets_what_it_tried_since(tmp_path: Path) -> None:
    def wander(agent: Agent, steps: int) -> NDArray[np.int64]:
        for step in range(steps):
            agent.act(np.zeros(2, int))
            agent.observe(0.0, step % HORIZON == HORIZON - 1, False)
        return agent.actor.kept()["tried"].numpy().copy()  # type: ignore

    method = with_exploration(build_method("ra-dt", SPACES), ExplorationConfig(count_bonus=5.0))
    agent, other = (Agent(method, Target(5.0), seed=seed) for seed in (0, 1))
    tried = wander(agent, 3 * HORIZON)
    assert tried.sum() > 0
    agent.save(tmp_path / "memory.safetensors")
    wander(agent, 2 * HORIZON)
    wander(other, HORIZON)
    for one in (agent, other):
        one.load(tmp_path / "memory.safetensors")
        assert (one.actor.kept()["tried"].numpy() == tried).all()  # type: ignore


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tasks_started", None),
        ("tasks_started", torch.zeros(2)),
        ("trial", torch.tensor([-1, 0])),
        ("solved", torch.zeros(2, dtype=torch.int64)),
        ("solved", torch.zeros(3, dtype=torch.bool)),
        ("tasks", torch.tensor([0, 1 << 40])),
        ("rewards_of_trials", torch.zeros(2, dtype=torch.int64)),
        ("tried", torch.zeros(0)),
        ("tried_at", torch.tensor([[7, 0]])),
    ],
)
def test_a_load_that_is_refused_replaces_nothing(
    tmp_path: Path, name: str, value: torch.Tensor | None
) -> None:
    method = with_exploration(build_method("ra-dt", SPACES), ExplorationConfig(count_bonus=5.0))
    agent, other = (Agent(method, Target(5.0), slots=2) for _ in range(2))
    for each, reward in ((agent, 1.0), (other, 0.0)):
        one_trial(each, reward, slots=2)
    other.save(tmp_path / "file")
    assert other.memory is not None
    contents, owner = read_file(tmp_path / "file", other.memory.identity())
    changed = {key: kept for key, kept in owner.items() if key != name}
    changed |= {} if value is None else {name: value}
    write_file(tmp_path / "bad", other.memory.identity(), contents, changed)
    agent.save(tmp_path / "before")
    with pytest.raises(MemoryFileError):
        agent.load(tmp_path / "bad")
    agent.save(tmp_path / "after")
    before, after = (load_file(tmp_path / name) for name in ("before", "after"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    agent.load(tmp_path / "file")


@pytest.mark.parametrize("mode", AutoresetMode)
def test_acting_and_observing_take_turns(mode: AutoresetMode) -> None:
    agent, obs = agent_for(slots=2, autoreset_mode=mode), np.zeros((2, 2), int)
    nothing = ([0.0, 0.0], [False, False], [False, False])
    with pytest.raises(RuntimeError, match=r"call act\(obs\) first"):
        agent.observe(*nothing)
    agent.act(obs)
    with pytest.raises(RuntimeError, match="act was called twice"):
        agent.act(obs)
    agent.start_task(1)  # slot 0 still waits for what its action brings
    with pytest.raises(RuntimeError, match="act was called twice"):
        agent.act(obs)
    agent.observe(*nothing)
    with pytest.raises(RuntimeError, match="without an action"):
        agent.observe(*nothing)
    agent.act(obs)
    agent.start_task()
    agent.act(obs)
    assert agent.trials.step.tolist() == [0, 0]


@pytest.mark.parametrize("name", ["dt", "replay"])
def test_methods_without_a_memory_say_so(name: str, tmp_path: Path) -> None:
    agent = agent_for(name)
    assert agent.memory is None
    assert agent.retrieval is None
    for use in (agent.save, agent.load):
        with pytest.raises(ValueError, match=f"method {name} has no memory"):
            use(tmp_path / "x")


def test_other_observations_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(2, 2\) .* \(3, 2\)"):
        agent_for(slots=3).act(np.zeros((2, 2), int))
    with pytest.raises(ValueError, match=r"shape \(1, 3\)"):
        agent_for().act(np.zeros(3))
    for outside in ([5, 0], [0, -1]):
        with pytest.raises(ValueError, match=r"not in 0\.\.\[4, 7\], first at slot 0"):
            agent_for().act(np.array(outside))


def test_what_is_no_observation_is_refused() -> None:
    with pytest.raises(InputError, match="float64 given to an agent whose discrete states"):
        agent_for().act([1.0, 0.0])
    agent = Agent(build_method("dt", TOY_REACH.spaces), Target(5.0), slots=2)
    states = np.zeros((2, 6))
    for value in (np.nan, np.inf, 1e30, 1e300):
        states[1, 3] = value
        with pytest.raises(InputError, match=r"not finite numbers|beyond.*, first at slot 1"):
            agent.act(states)
    agent.act(np.zeros((2, 6)))  # nothing was begun by what was refused


@pytest.mark.parametrize("reward", [np.nan, np.inf, 1e300, 1e30, -(2**63), None, "1", 1j])
def test_rewards_that_are_no_numbers_are_refused(reward: float) -> None:
    agent = agent_for()
    agent.act([1, 0])
    with pytest.raises(InputError, match=r"rewards are not finite|beyond|rewards of type"):
        agent.observe(reward, False, False)
    for end in (None, np.nan, "no", 2):
        with pytest.raises(InputError, match="must be True or False"):
            agent.observe(1.0, end, False)
    with pytest.raises(InputError, match="given to an agent of 1 slots"):
        agent.observe([1.0, 2.0], False, False)
    agent.observe(1.0, False, False)  # the step can still be told rightly


def one_trial(agent: Agent, reward: float, slots: int = 1) -> None:
    """Roll out a trial of two steps in all slots."""
    for ended in (False, True):
        agent.act(np.ones((slots, 2), dtype=np.int64))
        agent.observe([reward] * slots, [ended] * slots, [False] * slots)


FULL = [MemoryFileError("full"), OSError("full"), MemoryError("full"), KeyboardInterrupt("full")]


@pytest.mark.parametrize("error", FULL)
def test_a_write_that_fails_ends_the_trial_and_is_done_later(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = agent_for(memory=tmp_path / "room", tasks=[3], slots=1)
    assert agent.memory is not None
    with monkeypatch.context() as full:
        full.setattr(agent.memory.store, "append", raises(error))
        with pytest.raises(type(error), match="full"):
            one_trial(agent, 1.0)
        with pytest.raises(type(error), match="full"):
            agent.flush()
    assert [len(trial) for trial in agent.unwritten] == [2]
    one_trial(agent, 0.0)
    assert not agent.unwritten
    agent.flush()
    found = agent.memory.of_task(3)
    assert found.total_return.tolist() == [2.0, 0.0]  # each by itself, each once
    assert found.age.tolist() == [0, 1]
    assert agent.trials.trial.tolist() == [2]


def test_a_saved_memory_holds_the_trials_that_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, file = agent_for(slots=1), tmp_path / "saved"
    assert agent.memory is not None
    with monkeypatch.context() as full:
        full.setattr(agent.memory.store, "append", raises(MemoryError("full")))
        with pytest.raises(MemoryError):
            one_trial(agent, 1.0)
        with pytest.raises(MemoryError):
            agent.save(file)
        assert not file.exists()
    agent.save(file)
    again = agent_for(slots=1)
    again.load(file)
    assert again.memory is not None
    assert again.memory.entries.total_return.tolist() == [2.0]
    assert again.trials.trial.tolist() == [1]


def raises(error: BaseException) -> Any:
    def fail(*_: Any) -> None:
        raise error

    return fail


def test_a_write_that_may_have_been_kept_is_not_done_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = agent_for(memory=tmp_path / "room", slots=1)
    assert agent.memory is not None
    monkeypatch.setattr("radt.memory.folder.store.acknowledge", raises(OSError("full")))
    with pytest.raises(MemoryFileError, match="is whole, but could not be acknowledged"):
        one_trial(agent, 1.0)
    assert not agent.unwritten


@pytest.mark.parametrize("error", [MemoryFileError("full"), OSError("full")])
def test_a_write_after_which_no_room_can_be_made_is_not_done_twice(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**OPTIONS["ra-dt"], "memory": {"context_len": HORIZON, "capacity": 1}}
    method = build_method("ra-dt", SPACES, options)
    agent = Agent(method, Target(5.0), slots=1, memory=tmp_path / "room")
    assert agent.memory is not None
    one_trial(agent, 1.0)
    with monkeypatch.context() as full:
        full.setattr(agent.memory.store, "keep", raises(error))
        one_trial(agent, 2.0)
    agent.flush()
    assert agent.memory.entries.total_return.tolist() == [2.0, 4.0]
    one_trial(agent, 3.0)
    assert agent.memory.entries.total_return.tolist() == [6.0]


def test_a_trial_that_is_refused_keeps_out_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = agent_for(slots=3)
    assert agent.memory is not None
    write = agent.memory.write

    def refuse(trials: Sequence[Trajectory]) -> int:
        if any(trial.task == 1 for trial in trials):
            raise BadTrajectoryError("task 1 is refused")
        return write(trials)

    monkeypatch.setattr(agent.memory, "write", refuse)
    with pytest.raises(BadTrajectoryError, match="task 1"):
        one_trial(agent, 1.0, slots=3)
    assert agent.memory.entries.task.tolist() == [0, 2]
    assert not agent.unwritten
    with monkeypatch.context() as full:  # nor where nothing can be written
        full.setattr(agent.memory.store, "append", raises(MemoryFileError("full")))
        with pytest.raises(MemoryFileError, match="full"):
            one_trial(agent, 1.0, slots=3)
        assert [trial.task for trial in agent.unwritten] == [0, 2]
    agent.flush()
    assert agent.memory.entries.task.tolist() == [0, 2, 0, 2]


def test_a_stop_behind_a_write_does_not_write_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = agent_for(slots=1)
    assert agent.memory is not None
    monkeypatch.setattr(agent.memory, "_follow", raises(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        one_trial(agent, 1.0)
    assert not agent.unwritten
    assert len(agent.memory) == 1


def test_actions_outside_the_box_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(build_method("dt", TOY_REACH.spaces), Target(5.0))
    monkeypatch.setattr(agent.head, "choose", lambda *_: np.full((1, 3), 1.5, np.float32))
    with pytest.raises(InputError, match=r"the method dt decided .* leave \[-1, 1\]"):
        agent.act(np.zeros(6))


@pytest.mark.parametrize(
    ("slots", "tasks", "said"),
    [
        (3, [1, 2], "3 slots were given 2 tasks"),
        (None, [1, 2], "1 slots were given 2 tasks"),
        (None, [-1], "-1 is no task"),
        (None, [1.5], "1.5 is no task"),
        (None, [10**9], "1000000000 is no task"),
        (None, [True], "True is no task"),
    ],
)
def test_tasks_that_cannot_be_are_refused(slots: int | None, tasks: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        agent_for(slots=slots, tasks=tasks)


def test_an_environment_that_is_reset_in_the_middle_is_noticed_at_the_horizon() -> None:
    def walk(agent: Agent, steps: int) -> None:
        for _ in range(steps):
            agent.act([0, 0])
            agent.observe(0.0, False, False)

    agent = agent_for("dt")
    walk(agent, 4)
    agent.abandon()  # as one does who resets the environment
    walk(agent, HORIZON)
    other = agent_for("dt")
    walk(other, 4)  # and here it is reset without a word
    with pytest.raises(ValueError, match=r"reset in the middle of a trial, call abandon"):
        walk(other, HORIZON)


def test_the_same_keys_give_the_same_noise_whatever_the_method(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = []
    for name, keys in (("dt", (7, 9)), ("ra-dt", (7, 9)), ("dt", (9, 7))):
        agent = agent_for(name, slots=2, tasks=keys, seed=3)
        monkeypatch.setattr(agent.actor, "decide", lambda trials, slots: torch.zeros(len(slots), 3))
        actions = []
        for step in range(30):
            actions.append(agent.act(np.zeros((2, 2), int)))
            over = step % HORIZON == 4
            agent.observe([0, 0], [over, over], [False, False])
        chosen.append((np.stack(actions), agent.trials.target.copy()))
    np.testing.assert_array_equal(chosen[0][0], chosen[1][0])
    np.testing.assert_array_equal(chosen[0][1], chosen[1][1])
    np.testing.assert_array_equal(chosen[0][0], chosen[2][0][:, ::-1])
    assert (chosen[0][0][:, 0] != chosen[0][0][:, 1]).any()


def test_each_trial_and_each_task_draws_anew() -> None:
    agent = agent_for("dt")
    targets = []
    for trial in range(6):
        if trial == 3:
            agent.start_task()
        agent.act(np.zeros(2, int))
        targets.append(float(agent.trials.target[0]))
        agent.observe(0.0, True, False)
    assert len(set(targets)) == 6


NEVER = np.zeros(1, bool)


@given(
    st.lists(st.floats(-30, 30), min_size=2, max_size=6),
    st.floats(0, 1, exclude_max=True),
)
def test_temperature_0_takes_the_best(values: list[float], uniform: float) -> None:
    logits = torch.tensor([values], dtype=torch.float64)
    (action,) = ActionRule(temperature=0.0).choose(logits, np.array([uniform]), NEVER)
    assert values[action] >= max(values) - 1e-6


@given(
    st.lists(st.floats(-30, 30), min_size=2, max_size=6),
    st.floats(0, 1, exclude_max=True),
    st.integers(1, 8),
)
def test_only_the_kept_actions_are_chosen(values: list[float], uniform: float, kept: int) -> None:
    logits = torch.tensor([values], dtype=torch.float64)
    (action,) = ActionRule(keep_best=kept).choose(logits, np.array([uniform]), NEVER)
    assert values[action] >= sorted(values)[-min(kept, len(values))]


@given(
    st.lists(st.floats(-30, 30), min_size=2, max_size=6),
    st.floats(0, 1, exclude_max=True),
    st.floats(0.01, 1),
)
def test_a_nucleus_leaves_out_what_is_too_unlikely(
    values: list[float], uniform: float, share: float
) -> None:
    logits = torch.tensor([values], dtype=torch.float64)
    (action,) = ActionRule(nucleus=share).choose(logits, np.array([uniform]), NEVER)
    chance = torch.softmax(logits[0], 0)
    likelier = float(chance[chance > chance[action]].sum())
    assert likelier <= share + 1e-9


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_are_the_softmax(temperature: float, rng: np.random.Generator) -> None:
    logits = torch.tensor([0.3, -1.0, 2.0, 0.0])
    count = 40_000
    actions = ActionRule(temperature).choose(
        logits.expand(count, 4), rng.random(count), np.zeros(count, bool)
    )
    expected = torch.softmax(logits.double() / temperature, 0).numpy()
    np.testing.assert_allclose(np.bincount(actions, minlength=4) / count, expected, atol=0.01)


def test_explores_until_the_first_reward_of_a_task() -> None:
    rule = ActionRule(temperature=0.0, explore_temperature=1e6)
    agent = agent_for("dt", rule=rule)
    agent.actor.decide = lambda trials, slots: torch.tensor([[0.0, 0.0, 9.0]])  # type: ignore[method-assign]

    def lives(reward: float) -> set[int]:
        actions = set()
        for step in range(40):
            actions.add(agent.act(np.zeros(2, int)))
            agent.observe(reward if step == 39 else 0.0, step % 5 == 4, False)
        return actions

    assert lives(0.0) == {0, 1, 2}
    assert lives(1.0) == {0, 1, 2}
    assert lives(0.0) == {2}
    agent.start_task()
    assert lives(0.0) == {0, 1, 2}


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": -1.0},
        {"explore_temperature": float("nan")},
        {"keep_best": 0},
        {"nucleus": 0.0},
    ],
)
def test_rules_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        ActionRule(**options)
