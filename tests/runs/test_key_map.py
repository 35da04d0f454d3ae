"""The map of a memory: what is far apart lies far apart, and it does not jump about."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from radt.runs.step_recorder import fit_map


def clusters(seed: int = 0) -> torch.Tensor:
    """Three groups of directions in eight dimensions, [30, 8]."""
    rng = torch.Generator().manual_seed(seed)
    middles = torch.eye(8)[:3].repeat_interleave(10, dim=0)
    return middles * 5 + 0.1 * torch.randn(30, 8, generator=rng)


def test_groups_are_told_apart() -> None:
    places = fit_map(clusters()).places(clusters()).reshape(3, 10, 2)
    inside = np.ptp(places, axis=1).max()
    middles = places.mean(axis=1)
    between = min(np.linalg.norm(middles[a] - middles[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
    assert between > 5 * inside


def test_only_the_direction_counts() -> None:
    keys = clusters()
    np.testing.assert_allclose(fit_map(keys).places(keys), fit_map(7 * keys).places(3 * keys))


def test_the_two_axes_hold_the_most_that_two_axes_can() -> None:
    keys = clusters()
    directions = keys.double().numpy() / np.linalg.norm(keys.double().numpy(), axis=1)[:, None]
    spread = np.linalg.svd(directions - directions.mean(axis=0), compute_uv=False)
    places = fit_map(keys).places(keys)
    np.testing.assert_allclose((places**2).sum(), (spread[:2] ** 2).sum())


def test_a_new_map_stays_near_the_one_before() -> None:
    keys = clusters()
    before = fit_map(keys[:25])
    plain, turned = fit_map(keys), fit_map(keys).turned_to(before, keys)
    moved = np.abs(turned.places(keys) - before.places(keys)).max()
    assert moved < 0.2
    np.testing.assert_allclose(  # only turned: distances are the same
        np.linalg.norm(turned.places(keys), axis=1), np.linalg.norm(plain.places(keys), axis=1)
    )


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_keys_have_a_map_too(count: int) -> None:
    keys = clusters()[:count]
    key_map = fit_map(keys)
    assert key_map.places(keys).shape == (count, 2)
    assert np.isfinite(key_map.places(clusters())).all()
    again = fit_map(clusters()).turned_to(key_map, clusters())
    assert np.isfinite(again.places(clusters())).all()
