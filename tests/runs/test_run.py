from __future__ import annotations

import copy
import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from radt import api
from radt.checkpoint import read_card
from radt.collect import CollectError
from radt.data import Dataset, Manifest
from radt.errors import RadtWarning
from radt.experiments.experiment import Weights
from radt.experiments.weights import opened
from radt.memory.language import flush_embeddings
from radt.methods import Method
from radt.model.encoders import EncoderCard
from radt.runs import evaluate as evaluation
from radt.runs.belonging import check_checkpoint
from radt.runs.evaluate import evaluate_run
from radt.runs.provenance import Stopwatch, measured
from radt.runs.run import Run, RunError, claim, collect, dataset_path, keep_threads
from radt.runs.trace import tracing
from radt.runs.train import train_run
from radt.spaces import TaskSpaces
from radt.variants import variant_names
from tests.runs.small import assert_same_tensors, small_config, snapshot, use_toys
from tests.toys import TOY_GRID


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        use_toys(patch, home)
        collect(small_config("dt"), workers=1)
    return home


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, dict[str, object]]:
    """A whole run of `ra-dt` and its result, for tests that only read it."""
    with pytest.MonkeyPatch.context() as patch:
        use_toys(patch, data)
        run = Run(small_config("ra-dt"), tmp_path_factory.mktemp("finished"), threads=1)
        return run, run_whole(run)


@pytest.fixture(autouse=True)
def toys(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_toys(monkeypatch, data)


def run_whole(run: Run) -> dict[str, object]:
    folder = collect(run.config, workers=1)
    train_run(run, Dataset.open(folder), Stopwatch())
    return dict(json.loads(evaluate_run(run, Stopwatch()).read_text()))


@pytest.mark.parametrize("method", variant_names())
def test_a_run_from_data_to_result_and_again_without_a_change(
    method: str, data: Path, tmp_path: Path
) -> None:
    run = Run(small_config(method), tmp_path / "out", threads=1)
    result = run_whole(run)
    assert result["config"] == run.config.to_json()
    assert (result["env"], result["label"], result["seed"]) == ("toy-grid", method, 0)
    assert result["tasks"] == list(TOY_GRID.eval_tasks)
    assert np.shape(result["returns"]) == np.shape(result["first_reward"]) == (2, 2)
    assert result["optimum"] == [TOY_GRID.optimal_return(task) for task in TOY_GRID.eval_tasks]
    assert str(tmp_path) not in json.dumps(result)
    before = (
        snapshot(tmp_path),
        {path: content for path, content in snapshot(data).items() if not path.endswith(".lock")},
    )
    assert run_whole(run) == result
    assert snapshot(tmp_path) == before[0]
    after = {p: c for p, c in snapshot(data).items() if not p.endswith(".lock")}
    assert after == before[1]


def test_embeddings_are_those_of_the_trials_and_not_of_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[dict[str, float]] = []

    def watched(run: Run, method: Method) -> dict[str, object]:
        counts.append(flush_embeddings(getattr(method, "embedder", None)))
        return measured(run, method)

    monkeypatch.setattr(evaluation, "measured", watched)
    result = run_whole(Run(small_config("ra-dt-lm", "evaluate.controls=[]"), tmp_path, threads=1))
    assert [result["embeddings"]] == counts
    trained = result["embeddings_of_training"]
    assert isinstance(trained, dict)
    assert trained.keys() == counts[0].keys()


def test_the_log_tells_of_every_phase(finished: tuple[Run, dict[str, object]]) -> None:
    log = finished[0].out / "log.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    phases = {"embedder", "prepare", "train", "evaluate", "evaluate erased"}
    assert {line["phase"] for line in lines} == phases
    assert [line["step"] for line in lines if "trial_1" in line] == [3, 6]
    assert any("mean_return" in line for line in lines)


def test_another_config_is_refused_even_when_all_is_finished(tmp_path: Path) -> None:
    config = small_config("dt")
    run_whole(Run(config, tmp_path, threads=1))
    other = Run(replace(config, seed=1), tmp_path)
    dataset = Dataset.open(collect(config, workers=1))
    with pytest.raises(RunError, match="belongs to another run"):
        train_run(other, dataset, Stopwatch())
    with pytest.raises(RunError, match="seed: 0 there, 1 now"):
        evaluate_run(other, Stopwatch())


def test_a_run_goes_on_with_the_threads_it_began_with(tmp_path: Path) -> None:
    assert keep_threads(Run(small_config("dt"), tmp_path, threads=1)) == 1
    with pytest.warns(RadtWarning, match=r"begun with threads=1 .* not with 2.* another --out"):
        assert keep_threads(Run(small_config("dt"), tmp_path, threads=2)) == 1
    assert keep_threads(Run(small_config("dt"), tmp_path)) == torch.get_num_threads() == 1


def test_two_runs_are_equal(finished: tuple[Run, dict[str, object]], tmp_path: Path) -> None:
    run, result = finished
    assert run_whole(replace(run, out=tmp_path))["returns"] == result["returns"]
    assert_same_tensors(*(folder / "model.safetensors" for folder in (run.out, tmp_path)))
    left = {path.name for path in tmp_path.glob("*.safetensors")}
    assert left == {"model.safetensors"}, "what training went on from has done its work"


def test_tuning_holds_the_last_fifth_of_the_training_tasks_back(tmp_path: Path) -> None:
    run = Run(small_config("dt", "split=tune"), tmp_path)
    trained, tested = run.tasks
    assert not set(trained) & set(tested)
    assert trained + tested == TOY_GRID.train_tasks
    assert not set(tested) & set(TOY_GRID.eval_tasks)


def test_a_look_on_the_way_is_at_few_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []

    def look(method: object, trials: evaluation.Trials, tracker: object) -> SimpleNamespace:
        seen.append(trials.tasks)
        return SimpleNamespace(returns=np.zeros((len(trials.tasks), trials.count)))

    run = Run(small_config("dt"), tmp_path)
    monkeypatch.setattr(evaluation, "roll_out", look)
    for known, tasks in ((80, range(64, 80)), (1000, range(980, 1000))):
        monkeypatch.setattr(evaluation, "known_tasks", lambda config, n=known: tuple(range(n)))
        evaluation.validate(run, None)  # type: ignore[arg-type]
        assert seen.pop() == tuple(tasks)


def test_a_trace_beside_the_result(finished: tuple[Run, dict[str, object]], tmp_path: Path) -> None:
    run = replace(finished[0], out=tmp_path)
    shutil.copytree(finished[0].out, tmp_path, dirs_exist_ok=True)
    (tmp_path / "icl.json").unlink()
    with tracing(tmp_path / "trace.jsonl") as trace:
        evaluate_run(run, Stopwatch(), trace)
    lines = (tmp_path / "trace.jsonl").read_text().splitlines()
    assert 0 < len(lines) <= 2 * TOY_GRID.spaces.horizon


def test_evaluating_before_training_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no checkpoint"):
        evaluate_run(Run(small_config("dt"), tmp_path), Stopwatch())


def test_a_run_only_uses_its_own_checkpoint(
    finished: tuple[Run, dict[str, object]], tmp_path: Path
) -> None:
    run, _ = finished
    others = {
        "method": (small_config("dt"), "method"),
        "seed": (small_config("ra-dt", "seed=1"), "seed"),
        "options": (small_config("ra-dt", "options.memory.top_l=7"), "options.memory.top_l"),
        "embedder": (small_config("ra-dt", "embedder.updates=5"), "embedder.options.updates"),
    }
    for name, (config, said) in others.items():
        other = Run(config, tmp_path / name, threads=1)
        other.out.mkdir()
        shutil.copyfile(run.out / "model.safetensors", other.out / "model.safetensors")
        with pytest.raises(RunError, match=f"not trained by the run in its folder.*{said}"):
            evaluate_run(other, Stopwatch())


def test_weights_are_not_tested_on_what_they_were_trained_on(
    finished: tuple[Run, dict[str, object]],
) -> None:
    run, _ = finished
    card = read_card(run.out / "model.safetensors")
    check_checkpoint(run, card)
    with pytest.raises(RunError, match=r"trained on \d+ of the tasks that the run is tested on"):
        check_checkpoint(run, replace(card, tasks=(*card.tasks, *run.tasks[1])))


def test_weights_behind_another_encoder_are_refused(
    finished: tuple[Run, dict[str, object]],
) -> None:
    run, _ = finished
    card = replace(read_card(run.out / "model.safetensors"), encoder=EncoderCard("impala", 8))
    with pytest.raises(RunError, match=r"not trained by the run in its folder .*encoder"):
        check_checkpoint(run, card)


def test_weights_are_asked_only_as_those_of_their_run(
    finished: tuple[Run, dict[str, object]], tmp_path: Path
) -> None:
    run, _ = finished
    opened(Weights("toy-grid", "ra-dt", run.out))
    other = Run(small_config("ra-dt+"), tmp_path / "other", threads=1)
    claim(other)
    shutil.copy(run.out / "model.safetensors", other.out)
    with pytest.raises(RunError, match="not trained by the run in its folder"):
        opened(Weights("toy-grid", "ra-dt+", other.out))


def test_data_of_another_source_are_not_trained_on(tmp_path: Path) -> None:
    config = small_config("dt", "collect.seed=7")
    other = collect(small_config("dt", "collect.gamma=0.5"), workers=1)
    shutil.copytree(other, dataset_path(config))
    with pytest.raises(CollectError, match=r"another configuration \(config.gamma: 0.5 there"):
        api.train(config, tmp_path / "out", threads=1)
    assert not (tmp_path / "out" / "model.safetensors").exists()


ODD = ("[]", "{", "NaN", "[" * 9999, *(f'{{"threads": {n}}}' for n in ("true", "0", "1e30")))


@pytest.mark.parametrize("content", ODD, ids=range(len(ODD)))
def test_a_damaged_count_of_threads_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "choices.json").write_text(content)
    with pytest.raises(RunError, match=r"choices\.json is damaged .*; delete it, and the run"):
        keep_threads(Run(small_config("dt"), tmp_path))


def test_data_of_other_spaces_are_not_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(small_config("dt"), tmp_path, threads=1)
    dataset = Dataset.open(collect(run.config, workers=1))
    state = replace(TOY_GRID.spaces.state, bins=(4, 3))
    spaces = replace(TOY_GRID.spaces, state=state, horizon=TOY_GRID.spaces.horizon + 1)
    other = replace(dataset, manifest=replace_spaces(dataset.manifest, spaces))
    with pytest.raises(RunError, match=r"horizon: .* in the data.*state.bins"):
        train_run(run, other, Stopwatch())


def replace_spaces(manifest: Manifest, spaces: TaskSpaces) -> Manifest:
    """Say that data are of other spaces; only what a run compares is changed."""
    changed = copy.copy(manifest)
    object.__setattr__(changed, "spaces", spaces)
    return changed


def test_data_may_be_deleted_as_their_recipe_makes_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = api.preset("dark-room-10x10", "dt", "smoke")
    assert config.source == "ppo"
    hashes = []
    for home in ("one", "other"):
        monkeypatch.setenv("RADT_HOME", str(tmp_path / home))
        hashes.append(Dataset.open(collect(config, workers=1)).sha256)
    assert hashes[0] == hashes[1]
