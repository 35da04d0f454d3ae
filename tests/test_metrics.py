from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from radt.metrics import (
    Estimate,
    Interval,
    area_under_curve,
    crossed_interval,
    cumulative_regret,
    decimals,
    early_trials,
    estimate,
    improvement,
    interquartile_mean,
    late_score,
    late_trials,
    normalised_score,
    return_after_success,
    score_difference,
    solved_by,
    stratified_interval,
    success_rate,
    trials_to_solve,
    wins,
)

SIDES = st.integers(1, 4)
WHOLE = st.integers(-20, 20).map(float)  # sums of whole numbers are exact
RETURNS = st.tuples(SIDES, SIDES, st.integers(1, 9)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=WHOLE)
)
SCORES = st.tuples(SIDES, SIDES).flatmap(lambda shape: arrays(np.float64, shape, elements=WHOLE))
FEW = settings(max_examples=50, deadline=None)


def test_the_score_is_the_mean_of_the_last_ten_trials() -> None:
    returns = np.arange(80.0).reshape(2, 40)
    assert late_score(returns).tolist() == [34.5, 74.5]
    assert late_score(returns[:, :4]).tolist() == [3.0, 43.0]


def test_improvement_is_late_minus_early() -> None:
    returns = np.zeros((1, 40))
    returns[0, :5], returns[0, 30:] = [1, 2, 3, 4, 5], 7
    assert improvement(returns).tolist() == [4.0]


def test_found_by_counts_tasks_that_were_ever_rewarded() -> None:
    returns = np.array([[0, 1, 0, 0], [0, 0, 0, 2], [0, 0, 0, 0], [3, 0, 0, 0.0]])
    assert solved_by(returns).tolist() == [1, 2, 2, 3]


def test_after_finding_leaves_out_the_finding_itself() -> None:
    returns = np.array([[0, 1, 5, 3], [0, 0, 0, 2], [0, 0, 0, 0], [3, 0, 1, 1.0]])
    assert return_after_success(returns) == pytest.approx((5 + 3 + 0 + 1 + 1) / 5)
    assert math.isnan(return_after_success(np.zeros((2, 3))))
    assert math.isnan(return_after_success(np.array([[0, 0, 1.0]])))


def test_intervals_of_equal_scores_have_no_width() -> None:
    scores = np.full((3, 20), 4.0)
    for interval in (stratified_interval, crossed_interval):
        assert interval(scores, np.random.default_rng(0)) == Interval(4.0, 4.0, 4.0)


def test_an_interval_reads_as_in_a_table() -> None:
    assert str(Interval(80.04, 78.0, 82.149)) == "80.0 [78.0, 82.1]"


def test_stratified_intervals_do_not_see_how_tasks_differ() -> None:
    scores = np.tile(np.linspace(0, 100, 20), (3, 1))
    stratified = stratified_interval(scores, np.random.default_rng(0))
    crossed = crossed_interval(scores, np.random.default_rng(0))
    assert stratified.high - stratified.low == pytest.approx(0, abs=1e-9)
    assert crossed.high - crossed.low > 10


def test_crossed_intervals_draw_runs_as_a_whole() -> None:
    scores = np.tile([[40.0], [50.0], [60.0]], 20)  # a seed is as good on every task
    stratified = stratified_interval(scores, np.random.default_rng(0))
    crossed = crossed_interval(scores, np.random.default_rng(0))
    assert stratified.high - stratified.low < 6
    assert (crossed.low, crossed.high) == pytest.approx((40.0, 60.0))


def test_one_seed_leaves_only_the_tasks_to_resample() -> None:
    scores = np.random.default_rng(0).normal(size=(1, 20))
    stratified = stratified_interval(scores, np.random.default_rng(0))
    assert stratified.low == pytest.approx(stratified.high)
    assert crossed_interval(scores, np.random.default_rng(0)).high > stratified.high


def coverage(
    interval, between_tasks: float, between_seeds: float = 0.0, repetitions: int = 200
) -> float:
    """Return how often an interval holds the true mean, 0."""
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(repetitions):
        tasks = rng.normal(0, between_tasks, 25)
        scores = tasks + rng.normal(0, between_seeds, (8, 1)) + rng.normal(0, 1, (8, 25))
        found = interval(scores, rng, resamples=400)
        assert found.low <= found.mean <= found.high
        held += found.low <= 0 <= found.high
    return held / repetitions


def test_stratified_intervals_hold_the_mean_of_given_tasks() -> None:
    assert 0.85 <= coverage(stratified_interval, between_tasks=0.0) <= 0.99


def test_crossed_intervals_hold_the_mean_of_all_tasks() -> None:
    assert 0.88 <= coverage(crossed_interval, between_tasks=2.0) <= 1.0
    assert 0.85 <= coverage(crossed_interval, between_tasks=2.0, between_seeds=2.0) <= 1.0
    assert coverage(stratified_interval, between_tasks=2.0) < 0.6


def test_the_same_generator_gives_the_same_interval() -> None:
    scores = np.random.default_rng(0).normal(size=(3, 20))
    one, other = (stratified_interval(scores, np.random.default_rng(5)) for _ in range(2))
    assert one == other


def test_an_estimate_has_both_intervals_and_one_seed_only_the_one_over_tasks() -> None:
    scores = np.random.default_rng(0).normal(size=(3, 20))
    found = estimate(scores, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    assert found.known == (stratified_interval(scores, rng), crossed_interval(scores, rng))
    assert (found.mean, found.seeds) == (pytest.approx(scores.mean()), 3)
    alone = estimate(scores[:1], np.random.default_rng(5))
    assert alone.over_seeds is None
    assert alone.known == (alone.over_tasks,)


@pytest.mark.filterwarnings("ignore:random_state is deprecated:FutureWarning")
@pytest.mark.parametrize("seeds", [2, 3, 10])
def test_stratified_intervals_agree_with_rliable(seeds: int) -> None:
    library = pytest.importorskip("rliable.library", reason="install radt[dev] to compare with it")
    rng = np.random.default_rng(seeds)
    scores = rng.normal(rng.uniform(0, 90, 20), rng.uniform(1, 25, 20), (seeds, 20))
    ours = stratified_interval(scores, np.random.default_rng(1), resamples=20_000)
    points, bounds = library.get_interval_estimates(
        {"a": scores},
        lambda drawn: np.array([drawn.mean()]),
        method="percentile",
        reps=2000,
        random_state=np.random.RandomState(2),
    )
    assert ours.mean == pytest.approx(points["a"][0])
    noise = 0.06 * (ours.high - ours.low)  # four standard errors of a 2.5 % percentile of 2000
    assert [ours.low, ours.high] == pytest.approx(bounds["a"][:, 0], abs=noise)


def test_late_is_the_last_quarter_and_early_the_first_eighth() -> None:
    assert [late_trials(n) for n in (1, 3, 4, 20, 40, 80)] == [1, 1, 1, 5, 10, 20]
    assert [early_trials(n) for n in (1, 3, 8, 20, 40, 80)] == [1, 1, 1, 2, 5, 10]


def test_thirty_trials_are_scored_as_they_were_published() -> None:
    assert (late_trials(30), early_trials(30)) == (10, 5)


@FEW
@given(RETURNS)
def test_a_constant_added_to_all_returns_is_added_to_scores_and_leaves_differences(
    returns: np.ndarray,  # type: ignore[type-arg]
) -> None:
    for score in (late_score, area_under_curve):
        assert score(returns + 4.0) == pytest.approx(score(returns) + 4.0)
    assert improvement(returns + 4.0) == pytest.approx(improvement(returns))
    assert score_difference(returns + 4.0, returns) == pytest.approx(np.full(returns.shape[:2], 4))


@FEW
@given(RETURNS)
def test_regret_and_area_say_the_same_where_the_optimum_is_known(
    returns: np.ndarray,  # type: ignore[type-arg]
) -> None:
    tasks, trials = returns.shape[1:]
    optimum = np.arange(20.0, 20.0 + tasks)
    regret = cumulative_regret(returns, optimum)
    assert (regret >= 0).all()
    assert regret == pytest.approx(trials * (optimum - area_under_curve(returns)))


def test_regret_by_hand() -> None:
    returns = np.array([[[1.0, 2.0, 5.0], [0.0, 0.0, 1.0]]])
    assert cumulative_regret(returns, np.array([5.0, 2.0])).tolist() == [[7.0, 5.0]]


def test_normalised_scores_are_0_at_low_and_1_at_high() -> None:
    returns = np.array([[[-900.0], [-200.0], [-50.0]]])
    low, high = np.array([-900.0, -600.0, -100.0]), np.array([-100.0, -200.0, -80.0])
    assert normalised_score(returns, low, high).tolist() == [[0.0, 1.0, 2.5]]


@FEW
@given(RETURNS, WHOLE)
def test_the_first_success_is_where_solving_begins(
    returns: np.ndarray,  # type: ignore[type-arg]
    above: float,
) -> None:
    trials = returns.shape[2]
    for seed, first in zip(returns, trials_to_solve(returns, above), strict=True):
        counted = [(first <= trial).sum() for trial in range(1, trials + 1)]
        assert solved_by(seed, above).tolist() == counted
    rate = success_rate(returns, above)
    assert ((rate >= 0) & (rate <= 1)).all()
    assert (rate[trials_to_solve(returns, above) == trials + 1] == 0).all()


@FEW
@given(SCORES)
def test_the_interquartile_mean_is_scipys_trimmed_mean(
    scores: np.ndarray,  # type: ignore[type-arg]
) -> None:
    found = crossed_interval(scores, np.random.default_rng(0), 50, interquartile_mean)
    assert found.mean == pytest.approx(stats.trim_mean(scores, 0.25, axis=None))


@FEW
@given(st.data())
def test_the_probability_of_improvement_is_that_of_mann_and_whitney(data: st.DataObject) -> None:
    tasks = data.draw(SIDES)
    one, other = (
        data.draw(arrays(np.float64, (data.draw(SIDES), tasks), elements=WHOLE)) for _ in range(2)
    )
    by_task = [
        stats.mannwhitneyu(one[:, task], other[:, task]).statistic / (len(one) * len(other))
        for task in range(tasks)
    ]
    found = wins(one, other)
    assert found.mean() == pytest.approx(np.mean(by_task))
    assert found.mean() + wins(other, one).mean() == pytest.approx(1.0)


@FEW
@given(SCORES)
def test_an_interval_lies_inside_what_was_measured(
    scores: np.ndarray,  # type: ignore[type-arg]
) -> None:
    for found in (
        crossed_interval(scores, np.random.default_rng(0), 50),
        crossed_interval(scores, np.random.default_rng(0), 50, interquartile_mean),
        crossed_interval(wins(scores, scores), np.random.default_rng(0), 50),
    ):
        assert found.low <= found.high
    mean = crossed_interval(scores, np.random.default_rng(0), 50)
    slack = 1e-9
    assert scores.min() - slack <= mean.low <= mean.high <= scores.max() + slack


def test_three_axes_are_resampled_each_by_itself() -> None:
    by_seed = np.broadcast_to(np.array([0.0, 1.0])[:, None, None], (2, 3, 4))
    found = crossed_interval(by_seed, np.random.default_rng(0))
    assert (found.low, found.mean, found.high) == (0.0, 0.5, 1.0)  # both draws the same seed
    flat = crossed_interval(by_seed.transpose(1, 2, 0)[:, :, :1], np.random.default_rng(0))
    assert (flat.low, flat.high) == (0.0, 0.0)


def test_an_estimate_is_positive_or_negative_only_by_all_its_intervals() -> None:
    above, around = Interval(1.0, 0.5, 1.5), Interval(1.0, -0.5, 2.5)
    assert Estimate(1.0, above, above, 3).positive
    assert not Estimate(1.0, above, around, 3).positive
    assert Estimate(1.0, None, above, 1).positive
    below = Interval(-1.0, -1.5, -0.5)
    assert Estimate(-1.0, below, below, 3).negative
    assert not Estimate(-1.0, below, around, 3).negative


def test_small_returns_are_told_with_two_decimals() -> None:
    assert [decimals(best) for best in (None, 91.05, 10.0, 2.0, -200.0)] == [1, 1, 1, 2, 1]
    assert [decimals(None, 2.0), decimals(2.0, -200.0)] == [2, 1]
