"""Chunks that are held count as if they were read anew at each decision, but are read once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from radt.envs.suite import TaskSuite
from radt.methods.decision_cache import HeldChunks, differ
from radt.model.policy import DecisionTransformer
from radt.trajectory import Batch
from tests.model.batches import random_batch, small_model
from tests.toys import TOY_GRID, TOY_REACH

SLOTS, LENGTH = 5, 6


def chunks(suite: TaskSuite, rng: np.random.Generator, rows: int) -> Batch:
    """Draw chunks of any length, some of them empty."""
    lengths = torch.from_numpy(rng.integers(0, LENGTH + 1, rows))
    return random_batch(suite.spaces, rng, rows, LENGTH, lengths)


def hide(batch: Batch, rows: torch.Tensor) -> None:
    """Turn some rows into padding, in place."""
    batch.mask[rows] = False


def read_rows(policy: DecisionTransformer) -> list[int]:
    """Note from now on how many rows a policy is asked to read."""
    counts: list[int] = []
    assert policy.embed_retrieved is not None
    policy.embed_retrieved.register_forward_pre_hook(
        lambda module, args: counts.append(len(args[0]))
    )
    return counts


@pytest.mark.parametrize("tokens", ["fused", "interleaved"])
@pytest.mark.parametrize("suite", [TOY_GRID, TOY_REACH], ids=lambda suite: suite.name)
def test_decisions_are_those_of_the_chunks_themselves(
    suite: TaskSuite, tokens: str, rng: np.random.Generator
) -> None:
    policy = small_model(suite.spaces, retrieves=True, tokens=tokens)
    plain, mine = chunks(suite, rng, SLOTS), chunks(suite, rng, SLOTS)
    for batch in (plain, mine):
        hide(batch, torch.arange(SLOTS))
    held = HeldChunks(policy, mine)
    for step in range(12):
        slots = torch.from_numpy(rng.permutation(SLOTS)[: rng.integers(1, SLOTS + 1)])
        if step % 3 == 2:
            held.drop(slots)
            hide(plain, slots)
        else:
            new = chunks(suite, rng, len(slots))
            held.hold(new, slots)
            for name in Batch.__dataclass_fields__:
                getattr(plain, name)[slots] = getattr(new, name)
        asked = torch.from_numpy(rng.permutation(SLOTS)[:3])
        recent, known = random_batch(suite.spaces, rng, 3, 4, None), plain.rows(asked)
        context = held.of(asked)
        assert (context is None) == (not known.mask.any())
        with torch.no_grad():
            expected = policy(recent, known if known.mask.any() else None)
            torch.testing.assert_close(policy(recent, context), expected, rtol=0, atol=1e-5)


def test_only_what_is_new_is_read(rng: np.random.Generator) -> None:
    policy = small_model(TOY_REACH.spaces, retrieves=True)
    first = random_batch(TOY_REACH.spaces, rng, SLOTS, LENGTH, None)
    held = HeldChunks(policy, first.rows(torch.arange(SLOTS)))
    counts, everyone = read_rows(policy), torch.arange(SLOTS)
    held.hold(first, everyone)
    assert counts == []
    second = first.rows(everyone)
    second.rewards[1, 2] += 1
    second.mask[3, -1] = False
    held.hold(second, everyone)
    assert counts == [2]
    held.drop(torch.tensor([0]))
    held.hold(second, everyone)
    assert counts == [2, 1]
    assert differ(first, second).tolist() == [False, True, False, True, False]
