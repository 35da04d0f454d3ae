"""Attention and imitation: numbers that are known for policies made up for it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.agent import Agent
from radt.analyses.attention import (
    analyse_attention,
    attention_shares,
    follow,
    kinds_of,
    on_the_way,
    respond,
    say_response,
)
from radt.analyses.attention_maps import MomentKeeper, Moments, draw_decision
from radt.analyses.shared import record_trials, retrieving
from radt.envs.suite import SUITES, TaskSuite
from radt.methods.ra_dt import RADT
from radt.model.attention import CrossAttention
from radt.model.heads import action_head
from radt.plots import style
from radt.runs.run import RunError
from radt.trajectory import Batch
from tests.analyses.made_up import GOALS, TASKS, maze_trials, toy_trials
from tests.contracts.method import OPTIONS, build_method
from tests.toys import TOY_GRID, TOY_REACH

RIGHT, DOWN = 1, 2


def batch(cells: list[tuple[int, int]], actions: list[int], rewards: list[float]) -> Batch:
    """One row of steps."""
    steps = len(cells)
    return Batch(
        states=torch.tensor([cells]),
        actions=torch.tensor([actions]),
        rewards=torch.tensor([rewards]),
        returns_to_go=torch.zeros(1, steps),
        timesteps=torch.arange(steps)[None],
        mask=torch.ones(1, steps, dtype=torch.bool),
    )


def moment(action: int, earned: float, task: int = TASKS[0], paid: float = 0.0) -> Moments:
    """Stand in (0, 1), where the chunk went right twice and down once."""
    chunk = batch([(0, 1), (0, 2), (0, 1), (0, 1)], [RIGHT, DOWN, DOWN, RIGHT], [0, 0, 0, earned])
    facts = (np.array([value]) for value in (task, 1, 2, paid))
    here = batch([(0, 0), (0, 1)], [RIGHT, 0], [0.0, 0.0])
    return Moments(here, chunk, torch.tensor([action]), *facts, np.array([earned]))


class Copying:
    """Gives the right the probability 0.6 with a chunk and 0.2 without, and the rest to down."""

    spaces = TOY_GRID.spaces

    def decide(self, recent: Batch, chunk: Batch | None) -> Tensor:
        chance = torch.full((len(recent), 5), 1e-12)
        chance[:, RIGHT] = 0.2 if chunk is None else 0.6
        chance[:, DOWN] = 1.0 - chance[:, RIGHT]
        return chance.log()


def test_agreement_is_the_share_of_the_chunks_actions_in_the_same_state() -> None:
    kept = [moment(RIGHT, 9.0), moment(DOWN, 9.0), moment(4, 0.0)]
    followed = follow(Copying(), kept)  # type: ignore[arg-type]
    _, _, agrees, with_chunk, without_chunk = followed.T
    np.testing.assert_allclose(agrees, [2 / 3, 1 / 3, 0.0])
    np.testing.assert_allclose(with_chunk, 2 / 3 * 0.6 + 1 / 3 * 0.4, rtol=1e-6)
    np.testing.assert_allclose(without_chunk, 2 / 3 * 0.2 + 1 / 3 * 0.8, rtol=1e-6)


def test_a_state_that_the_chunk_does_not_show_does_not_count() -> None:
    elsewhere = moment(RIGHT, 9.0)
    elsewhere.recent.states[0, 1] = torch.tensor([2, 2])
    assert len(follow(Copying(), [elsewhere])) == 0  # type: ignore[arg-type]
    assert len(follow(Copying(), [])) == 0  # type: ignore[arg-type]


def test_who_has_arrived_is_no_longer_on_the_way() -> None:
    kept = [moment(RIGHT, 9.0), moment(RIGHT, 9.0, paid=1.0)]
    assert [len(moments) for moments in on_the_way(kept)] == [1]
    assert attention_shares(Copying(), []) == {}  # type: ignore[arg-type]


def test_good_chunks_are_imitated_and_bad_ones_are_told_apart() -> None:
    kept = [moment(RIGHT, 12.0), moment(DOWN, 0.0), moment(RIGHT, 12.0, TASKS[1])]
    followed = follow(Copying(), kept)  # type: ignore[arg-type]
    good = respond(followed, kinds_of(toy_trials(1), {})["good"])
    assert good.decisions == 2
    assert good.word == "imitated"
    assert good.agrees is not None
    assert good.agrees.mean == pytest.approx(2 / 3)
    assert "A good chunk is imitated" in say_response("good", good)
    bad = respond(followed, kinds_of(toy_trials(1), {})["bad"])
    assert bad.decisions == 1
    never = respond(followed, lambda *_: False)
    assert never.word == "never retrieved"
    assert "never at hand" in say_response("bad", never)
    assert json.dumps(never.to_json())


def test_a_good_trial_earns_most_of_what_is_possible() -> None:
    optimum = TOY_GRID.optimal_return(TASKS[0])
    good = kinds_of(toy_trials(1), {})["good"]
    assert good(TASKS[0], optimum)
    assert not good(TASKS[0], 0.7 * optimum)
    unknown = kinds_of(replace(toy_trials(1), suite=TOY_REACH), {4: np.array([0.0, 5.0])})["good"]
    assert unknown(4, 4.0)
    assert not unknown(4, 3.9)
    assert not unknown(5, 0.0)
    assert kinds_of(toy_trials(1), {})["bad"](TASKS[0], 0.0)


def test_a_maze_with_few_goals_has_good_trials_too() -> None:
    """An agent is never told how many goals there are; an analysis knows."""
    trials = maze_trials(1)
    good, bad = kinds_of(trials, {}).values()
    for task, goals in zip(trials.tasks, GOALS, strict=True):
        assert good(task, goals)
        assert not bad(task, goals)
        assert bad(task, 0.0)
    assert not good(trials.tasks[2], 1.0)  # one of three: neither
    assert not bad(trials.tasks[2], 1.0)


def test_without_success_trials_count_from_the_worst_one() -> None:
    good, bad = kinds_of(
        replace(toy_trials(1), suite=TOY_REACH), {4: np.array([10.0, 20.0])}
    ).values()
    assert good(4, 18.0)
    assert not good(4, 17.0)
    assert bad(4, 12.0)
    assert not bad(4, 13.0)


class Reaching:
    """Does what the chunk did in the first dimension with a chunk, and its opposite without."""

    spaces = TOY_REACH.spaces
    action_head = action_head(TOY_REACH.spaces.action)

    def decide(self, recent: Batch, chunk: Batch | None) -> Tensor:
        aimed = torch.zeros(len(recent), self.spaces.action.size)
        aimed[:, 0] = -1.0 if chunk is None else 1.0
        return aimed


def reaching(task: int) -> Moments:
    """Stand near to the second step of the chunk, where it went to the end of each dimension."""
    size, width = TOY_REACH.spaces.action.size, TOY_REACH.spaces.state.shape[0]
    chunk = replace(
        batch([(0, 0)] * 3, [0] * 3, [0.0] * 3),
        states=torch.tensor([0.0, 0.5, 0.9])[None, :, None].expand(1, 3, width),
        actions=torch.tensor([-1.0, 1.0, -1.0])[None, :, None].expand(1, 3, size),
    )
    here = replace(batch([(0, 0)], [0], [0.0]), states=torch.full((1, 1, width), 0.55))
    facts = (np.array([value]) for value in (task, 1, 0, 0.0, 3.0))
    return Moments(here, chunk, torch.full((1, size), 0.5), *facts)


def test_continuous_actions_are_alike_in_the_dimensions_that_a_task_has() -> None:
    for task in TOY_REACH.eval_tasks:
        moments = reaching(task)
        assert moments.same_state.tolist() == [[False, True, False]]
        ((_, _, taken, with_chunk, without),) = follow(Reaching(), [moments])  # type: ignore[arg-type]
        dims = TOY_REACH.spaces.valid_action_dims(task)
        assert taken == pytest.approx(0.75)
        assert with_chunk == pytest.approx((1.0 + 0.5 * (dims - 1)) / dims)
        assert without == pytest.approx((0.0 + 0.5 * (dims - 1)) / dims)


@pytest.mark.parametrize("suite", [TOY_REACH, SUITES["point-robot"]])
def test_attention_is_analysed_without_a_grid(suite: TaskSuite, tmp_path: Path) -> None:
    trials = replace(toy_trials(2), suite=suite, tasks=suite.eval_tasks[:1])
    method = build_method("ra-dt", suite.spaces)
    finding = analyse_attention(method, trials, tmp_path / "attention.png", steps=(1, 3))
    assert finding.picture.stat().st_size > 0
    assert json.loads(finding.write().read_text())["attention"]["end"]["steps"] > 0


class Twin:
    """Compares what is kept with what the agent holds, at every step."""

    def __init__(self, keeper: MomentKeeper) -> None:
        self.keeper, self.compared = keeper, 0
        self.shown: set[int] = set()  # steps of chunks

    def after_step(self, step: int, agent: Agent, obs: NDArray[Any], rewards: NDArray[Any]) -> None:
        before = len(self.keeper.kept)
        self.keeper.after_step(step, agent, obs, rewards)
        for moments in self.keeper.kept[before:]:
            slots = torch.tensor([agent.tasks.index(task) for task in moments.task.tolist()])
            held = agent.actor.held.chunks.rows(slots)  # type: ignore[attr-defined]
            self.shown |= set(held.mask.sum(1).tolist())
            assert torch.equal(held.mask, moments.chunk.mask)
            assert torch.equal(held.states * held.mask[..., None], shown_states(moments.chunk))
            assert moments.action.tolist() == agent.actions[slots.numpy()].tolist()
            self.compared += len(moments)


def shown_states(chunk: Batch) -> Tensor:
    return chunk.states * chunk.mask[..., None]


@pytest.mark.parametrize("every", [0, 1, 5])
def test_what_is_kept_is_what_the_policy_reads(every: int) -> None:
    options = {**OPTIONS["ra-dt"], "memory": {"context_len": 3, "retrieve_every": every}}
    method = build_method("ra-dt", TOY_GRID.spaces, options)
    twin = Twin(MomentKeeper(range(12)))
    rolled = record_trials(method, toy_trials(3), None, twin)
    assert twin.compared == 2 * 2 * 12  # two tasks, the second and the third trial
    last = twin.keeper.kept[-1].rows(np.array([1]))
    trial = rolled.episodes[1][int(last.trial[0])]
    assert trial.states[int(last.step[0])].tolist() == last.state[0].tolist()
    earlier = {rolled.episodes[1][at].total_return for at in range(2)}
    assert float(last.chunk_return[0]) in earlier


def test_legs_are_kept_as_they_are_shown() -> None:
    memory = {"context_len": 12, "retrieve_every": 0}
    options = {**OPTIONS["ra-dt"], "memory": memory, "legs": True, "training": {"from_start": True}}
    twin = Twin(MomentKeeper(range(12)))
    record_trials(build_method("ra-dt", TOY_GRID.spaces, options), toy_trials(8), None, twin)
    assert twin.compared > 0
    assert len(twin.shown) > 1  # not one whole chunk


def test_even_attention_has_a_lift_of_one() -> None:
    method = build_method("ra-dt", TOY_GRID.spaces)
    assert isinstance(method, RADT)
    for layer in method.policy.modules():
        if isinstance(layer, CrossAttention):
            torch.nn.init.zeros_(layer.query.weight)
            torch.nn.init.zeros_(layer.query.bias)
    shares = attention_shares(method.policy.eval(), [moment(RIGHT, 9.0), moment(DOWN, 0.0)])
    steps = {name: share["steps"] for name, share in shares.items()}
    assert steps == pytest.approx({"own_state": 3 / 4, "rewarded": 1 / 4, "end": 1 / 4})
    for share in shares.values():
        assert share["attention"] == pytest.approx(share["steps"])
        assert share["lift"].mean == pytest.approx(1.0)


def test_who_retrieves_nothing_is_refused() -> None:
    with pytest.raises(RunError, match="dt retrieves nothing"):
        retrieving(build_method("dt", TOY_GRID.spaces))
    method = build_method("ra-dt", TOY_GRID.spaces)
    with pytest.raises(RunError, match=r"nothing was retrieved in 1 trials.*--trials"):
        analyse_attention(method, toy_trials(1), Path("never.png"))


def test_nothing_is_kept_without_a_memory() -> None:
    keeper = MomentKeeper([0])
    agent: Any = SimpleNamespace(memory=None, actor=None)
    keeper.after_step(0, agent, np.zeros(0), np.zeros(0))
    assert keeper.kept == []


@pytest.mark.parametrize("shown", [[True] * 4, [False, True, True, False]])
def test_a_decision_is_drawn_with_the_steps_of_the_chunk_that_are_read(shown: list[bool]) -> None:
    method = build_method("ra-dt", TOY_GRID.spaces)
    assert isinstance(method, RADT)
    rolled = record_trials(method, toy_trials(2), None)
    one = moment(RIGHT, 1.0)
    one = replace(one, chunk=replace(one.chunk, mask=torch.tensor([shown])))
    panels = np.array(style.canvas(3, 7).subplots(3))
    draw_decision(panels, method.policy, rolled, "good", one)
    (drawn,) = panels[1].images
    assert drawn.get_array().shape == (2, sum(shown))  # input steps, steps of the chunk
