from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pytest
from PIL import Image

from radt.config import TRAINING_TASKS
from radt.plots.curves import band, icl_picture, icl_title, last_trials, learning_picture
from radt.plots.records import RecordError, outcomes
from radt.plots.style import SPARE_COLOURS, colour_of, in_order, spread
from radt.variants import BUILT_IN, VARIANTS
from tests.plots.synthetic import ENV, MEASURED, VARIANT, synthetic_record


def width(path: Path) -> int:
    with Image.open(path) as picture:
        return picture.size[0]


def test_one_method_has_one_panel_and_several_have_two(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    one = icl_picture([synthetic_record("ra-dt")]).save(tmp_path / "one.png")
    both = [synthetic_record("ra-dt", variant=True), synthetic_record("dt", variant=True)]
    two = icl_picture(both).save(tmp_path / "two.png")
    varied = icl_picture(both, VARIANT).save(tmp_path / "varied.png")
    assert width(one) < width(two) == width(varied)
    assert two.read_bytes() != varied.read_bytes()
    assert dict(matplotlib.rcParams) == before


def test_the_same_records_give_the_same_picture(tmp_path: Path) -> None:
    records = [synthetic_record("dt", seed) for seed in (0, 1)]
    first, second = (icl_picture(records).save(tmp_path / f"{n}.png").read_bytes() for n in "ab")
    assert first == second


def test_short_runs_without_an_optimum_can_be_drawn(tmp_path: Path) -> None:
    record = synthetic_record("sweep", trials=1, tasks=2)
    record["optimum"] = [None, None]
    record["returns"] = [[-3.0], [2.0]]
    assert icl_picture([record]).save(tmp_path / "a.png").stat().st_size > 1000


def test_a_variant_that_nobody_tried_is_an_error() -> None:
    with pytest.raises(RecordError, match=r"evaluate\.also_on"):
        icl_picture([synthetic_record("dt")], VARIANT)


def test_tasks_that_were_learned_from_are_not_called_unseen() -> None:
    record = synthetic_record("dt", variant=True)
    record["variants"][TRAINING_TASKS] = record["variants"].pop(VARIANT)
    assert icl_title(outcomes([record]), [record]) == f"dt on {ENV}: 20 unseen tasks, 1 seed"
    learned = icl_title(outcomes([record], TRAINING_TASKS), [record])
    assert learned == f"dt on {ENV}: 20 tasks that were learned from, 1 seed"


def test_the_band_holds_the_mean_and_spans_tasks_with_one_seed(rng: np.random.Generator) -> None:
    (outcome,) = outcomes([synthetic_record("ra-dt")])
    mean, low, high = band(outcome, rng)
    assert mean == pytest.approx(outcome.returns.mean(axis=(0, 1)))
    assert (low <= mean).all()
    assert (mean <= high).all()
    assert (high - low)[-1] > 0


def test_labels_are_moved_apart_and_keep_their_order() -> None:
    placed = spread([10.0, 0.0, 10.0, 10.1], gap=1.0)
    assert placed[1] == 0.0
    assert placed[0] < placed[2] < placed[3]
    assert np.diff(sorted(placed)).min() >= 1.0 - 1e-6


def test_known_methods_keep_their_colour_and_others_get_a_spare_one() -> None:
    colours = [colour_of(name, ["dt", "new", "newer"]) for name in ("dt", "new", "newer")]
    own = {look.colour for look in BUILT_IN}
    assert colours[0] == VARIANTS["dt"].colour
    assert len({*colours, *own}) == len(BUILT_IN) + 2
    assert len(own) == len(BUILT_IN)


def test_ten_arms_of_an_ablation_have_ten_colours_that_nobody_else_has() -> None:
    arms = [f"arm-{n}" for n in range(10)]
    colours = {colour_of(arm, ["dt", *arms]) for arm in arms}
    assert len(colours) == len(SPARE_COLOURS) == 10
    assert not colours & {look.colour for look in BUILT_IN}


def test_rows_that_nobody_registered_stand_as_they_come_before_the_references() -> None:
    given = ["sweep", "z", "ra-dt", "a", "dt", "z"]
    assert in_order(given) == ["dt", "ra-dt", "z", "a", "sweep"]


def test_learning_is_drawn_from_the_last_validation_trial(tmp_path: Path) -> None:
    assert last_trials(MEASURED["learning"]) == {1000: 20.0, 2000: 40.0}
    records = [synthetic_record(name, seed) for name in ("dt", "replay") for seed in range(2)]
    looked = [r | MEASURED if r["method"] == "dt" else r for r in records]
    assert learning_picture(looked).save(tmp_path / "a.png").stat().st_size > 1000
