"""DPT's policy knows no order, and a kept set answers as a set that is read anew."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from radt.model.policy import ModelConfig
from radt.model.set_policy import HeldSets, SetPolicy, Transitions, who_sees_whom
from radt.spaces import TaskSpaces
from tests.model.batches import SPACES, random_actions, random_states

ROWS, SIZE, QUERIES = 4, 9, 5
COUNTS = torch.tensor([9, 0, 4, 1])  # real transitions of each row
KINDS = ("discrete", "vector")


def random_set_policy(spaces: TaskSpaces) -> SetPolicy:
    policy = SetPolicy(spaces, ModelConfig(layers=2, width=16, heads=2), seed=0)
    generator = torch.Generator().manual_seed(1)
    for parameter in policy.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return policy.eval()


def random_sets(spaces: TaskSpaces, rng: np.random.Generator) -> tuple[Tensor, Transitions]:
    shape = (ROWS, SIZE)
    known = Transitions(
        states=random_states(spaces, rng, shape),
        actions=random_actions(spaces, rng, shape),
        next_states=random_states(spaces, rng, shape),
        rewards=torch.from_numpy(rng.normal(size=shape).astype(np.float32)),
        ends=torch.from_numpy(rng.random(shape) < 0.3),
        mask=torch.arange(SIZE) < COUNTS[:, None],
    )
    return random_states(spaces, rng, (ROWS, QUERIES)), known


def permuted(known: Transitions, order: Tensor) -> Transitions:
    return Transitions(*(getattr(known, field.name)[:, order] for field in fields(known)))


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_the_set_changes_nothing(kind: str, rng: np.random.Generator) -> None:
    policy = random_set_policy(SPACES[kind])
    queries, known = random_sets(SPACES[kind], rng)
    before = policy(queries, known)
    assert before.shape == (ROWS, QUERIES, SPACES[kind].action.size)
    for _ in range(3):
        order = torch.from_numpy(rng.permutation(SIZE))
        after = policy(queries, permuted(known, order))
        torch.testing.assert_close(after, before, rtol=0, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_every_part_of_a_transition_is_read(kind: str, rng: np.random.Generator) -> None:
    policy = random_set_policy(SPACES[kind])
    queries, known = random_sets(SPACES[kind], rng)
    known = replace(known, ends=torch.zeros_like(known.ends))
    before = policy(queries, known)
    _, other = random_sets(SPACES[kind], rng)
    for name in ("states", "actions", "next_states", "rewards"):
        values = getattr(known, name).clone()
        values[:, 0] = getattr(other, name)[:, 1]
        if torch.equal(values[0, 0], getattr(known, name)[0, 0]):
            continue
        changed = (policy(queries, replace(known, **{name: values})) - before).abs()
        assert changed[0].max() > 1e-4, name
        assert not changed[1].any()  # whose set is empty


@torch.no_grad()
def test_queries_do_not_know_of_each_other(rng: np.random.Generator) -> None:
    policy = random_set_policy(SPACES["vector"])
    queries, known = random_sets(SPACES["vector"], rng)
    together = policy(queries, known)
    for query in range(QUERIES):
        alone = policy(queries[:, query : query + 1], known)
        torch.testing.assert_close(alone[:, 0], together[:, query], rtol=0, atol=1e-5)


def test_everyone_sees_the_set_and_itself_only() -> None:
    seen = who_sees_whom(torch.tensor([[True, False]]), queries=2)[0].int()
    assert seen.tolist() == [
        [1, 1, 0, 0, 0],  # the token every set holds
        [1, 1, 0, 0, 0],  # a transition
        [1, 1, 1, 0, 0],  # padding, which nobody sees
        [1, 1, 0, 1, 0],  # a query
        [1, 1, 0, 0, 1],
    ]


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_a_kept_set_answers_as_one_that_is_read_anew(kind: str, rng: np.random.Generator) -> None:
    policy = random_set_policy(SPACES[kind])
    queries, known = random_sets(SPACES[kind], rng)
    full = policy(queries, known)
    held, slots = HeldSets(policy, rows=6, set_size=SIZE + 2), torch.tensor([4, 0, 5, 1])
    held.hold(permuted(known, torch.arange(SIZE)), slots)
    for query in range(QUERIES):
        decided = held.decide(queries[:, query], slots)
        torch.testing.assert_close(decided, full[:, query], rtol=0, atol=1e-5)
        some = torch.tensor([2, 1])
        decided = held.decide(queries[some, query], slots[some])
        torch.testing.assert_close(decided, full[some, query], rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_new_set_leaves_nothing_of_the_old_one(rng: np.random.Generator) -> None:
    policy = random_set_policy(SPACES["vector"])
    queries, known = random_sets(SPACES["vector"], rng)
    held, row = HeldSets(policy, 1, SIZE), torch.tensor([0])
    for source in (0, 2, 1):  # fewer transitions each time
        one = Transitions(*(getattr(known, f.name)[source : source + 1] for f in fields(known)))
        held.hold(one, row)
        decided = held.decide(queries[source : source + 1, 0], row)
        expected = policy(queries[source : source + 1, :1], one)[:, 0]
        torch.testing.assert_close(decided, expected, rtol=0, atol=1e-5)
