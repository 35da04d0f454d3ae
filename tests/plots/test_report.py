from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from radt.config import compose, from_json, overrides
from radt.errors import RadtError
from radt.plots.comparison import write_comparison
from radt.plots.report import command, median_task, run_title, training_table, write_report
from radt.runs.presets import preset_layers
from radt.variants import arm
from tests.plots.synthetic import MEASURED, SHAPES, VARIANT, save, synthetic_record


def log_lines() -> list[dict[str, Any]]:
    losses = [
        {"time": 0, "phase": phase, "step": step, "loss": 1.0 / step}
        for phase in ("embedder", "train")
        for step in range(1, 21)
    ]
    looks = [
        {"time": 0, "phase": "train", "step": step, "trial_1": 4.25, "trial_10": float(step)}
        for step in (10, 20)
    ]
    return losses + looks


def linked(markdown: Path) -> list[Path]:
    links = re.findall(r"\]\(([^)]+)\)", markdown.read_text())
    return [markdown.parent / link for link in links]


def test_a_run_gets_a_curve_a_film_and_a_summary(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    save(folder, synthetic_record("replay", trials=3, variant=True))
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, log_lines())) + '\n{"cut')
    summary = write_report(folder)
    text = summary.read_text()
    names = {path.name for path in linked(summary)}
    assert {"curve.png", "trials.gif", f"curve-{VARIANT}.png"} <= names
    assert all(path.exists() for path in linked(summary))
    assert "Loss of the embedder" in text
    assert "radt run dark-room-10x10 --method replay --budget smoke" in text
    assert str(tmp_path) not in text
    film = (folder / "trials.gif").stat().st_mtime_ns
    write_report(folder)
    assert (folder / "trials.gif").stat().st_mtime_ns == film


@pytest.mark.parametrize("config", [None, {}, {"method": "x"}, {"method": [[1]]}])
def test_a_result_without_its_config_is_refused(tmp_path: Path, config: Any) -> None:
    record = synthetic_record("dt", trials=3) | {"config": config}
    save(tmp_path / "x", {name: value for name, value in record.items() if value is not None})
    with pytest.raises(RadtError, match=r"method"):
        write_report(tmp_path / "x")


def test_a_result_without_its_weights_has_no_film(tmp_path: Path) -> None:
    save(tmp_path / "x", synthetic_record("ra-dt+"))
    summary = write_report(tmp_path / "x")
    assert "trials.gif" not in summary.read_text()
    assert "## Training" not in summary.read_text()
    assert all(path.exists() for path in linked(summary))


def test_the_film_shows_the_task_with_the_median_score() -> None:
    record = synthetic_record("replay", tasks=3)
    record["returns"] = [[9.0] * 40, [1.0] * 40, [5.0] * 40]
    assert median_task(record) == record["tasks"][2]


def test_a_comparison_says_the_same_to_readers_and_programs(tmp_path: Path) -> None:
    paths = [
        save(tmp_path / f"{name}-{seed}", synthetic_record(name, seed, variant=True))
        for name in SHAPES
        for seed in (range(2) if name != "sweep" else range(1))
    ]
    page = write_comparison(paths, tmp_path / "out")
    content = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert list(content["methods"]) == list(SHAPES)
    plus = content["methods"]["ra-dt+"]
    assert plus["ci95"][0] < plus["mean_31_40"] < plus["ci95"][1]
    assert plus["improves_ci95"][0] > 0
    assert plus["seeds"] == 2
    assert plus["ci95_over"] == plus["improves_ci95_over"] == "seeds within tasks"
    alone = content["methods"]["sweep"]
    for name in ("ci95", "improves_ci95"):
        assert alone[name] == alone[f"{name}_tasks"]
        assert alone[name][0] < alone[name][1]
        assert alone[f"{name}_over"] == "tasks"
    assert alone["at_trial_ci95"] == alone["at_trial_ci95_tasks"]
    assert alone["minus"]["ra-dt"]["ci95_over"] == "tasks"
    assert (plus["source"], alone["source"], content["data"]) == ("ppo", None, None)
    assert "trained on ppo" not in page.read_text()
    assert content["variants"][VARIANT]["optimum"] == pytest.approx(88.0)
    assert plus["at_trial_ci95"]["10"][0] < plus["at_trial"]["10"]
    assert plus["minus"]["ra-dt"]["ci95"][0] > 0
    assert f"| 2 | {plus['mean_31_40']:.1f} [" in page.read_text()
    assert all(path.exists() for path in linked(page))
    retrievals = content["conditions"]["options.memory.retrieve_every"]
    assert retrievals == {"ra-dt": [1], "ra-dt+": [0]}
    assert not any(path.startswith(("collect.", "learn.")) for path in content["conditions"])
    assert not (tmp_path / "out" / "learning.png").exists()


def test_data_of_another_source_are_named_wherever_they_were_learned_from(tmp_path: Path) -> None:
    def records(*sources: str) -> list[Path]:
        folder = tmp_path / "-".join(sources)
        return [
            save(folder / method, synthetic_record(method, source=source) | MEASURED)
            for method, source in zip(("dt", "ra-dt", "replay"), sources, strict=True)
        ]

    paths = records("noisy-expert", "noisy-expert", "noisy-expert")
    page = write_comparison(paths, tmp_path)
    content = json.loads((tmp_path / "compare.json").read_text())
    text = page.read_text()
    assert text.startswith(
        "# In-context learning on dark-room-10x10, equal updates, trained on noisy-expert data\n"
    )
    assert "`dt`, trained on noisy-expert data, earns " in text
    assert "`replay` earns " in text
    assert content["data"] == "trained on noisy-expert data"
    sources = {name: row["source"] for name, row in content["methods"].items()}
    assert sources == {"dt": "noisy-expert", "ra-dt": "noisy-expert", "replay": None}
    curve = "dark-room-10x10: 20 unseen tasks, 1 seed, trained on noisy-expert data"
    assert curve in (tmp_path / "report.html").read_text()
    learning = "dark-room-10x10: learning over training, trained on noisy-expert data"
    assert learning in (tmp_path / "report.html").read_text()
    assert "trained on noisy-expert data" in write_report(paths[0].parent).read_text()
    replay = synthetic_record("replay", source="noisy-expert")
    assert run_title(replay) == "replay on dark-room-10x10, seed 0"

    mixed = write_comparison(records("ppo", "noisy-expert", "ppo"), tmp_path).read_text()
    assert "equal updates, ra-dt trained on noisy-expert data\n" in mixed
    assert "| `source` | ppo | noisy-expert |" in mixed


def test_cost_and_learning_go_into_a_comparison(tmp_path: Path) -> None:
    paths = [
        save(tmp_path / "a", synthetic_record("ra-dt") | MEASURED),
        save(tmp_path / "b", synthetic_record("replay")),
    ]
    page = write_comparison(paths, tmp_path)
    methods = json.loads((tmp_path / "compare.json").read_text())["methods"]
    assert methods["ra-dt"]["context_steps"] == 150
    assert methods["ra-dt"]["flops_per_decision"] == 2.5e6
    assert methods["replay"]["context_steps"] is None
    assert tmp_path / "learning.png" in linked(page)


def test_an_unfair_comparison_is_named(tmp_path: Path) -> None:
    other = synthetic_record("dt") | {"action_rule": {"temperature": 0.0}}
    longer = synthetic_record("ra-dt")
    longer["config"]["learn"]["updates"] = 12
    paths = [
        save(tmp_path / "a", other),
        save(tmp_path / "b", longer),
        save(tmp_path / "c", synthetic_record("replay")),
    ]
    text = write_comparison(paths, tmp_path).read_text()
    assert "| `evaluate.rule.temperature` | 0.0 | 0.5 | 0.5 |" in text
    assert "| `learn.updates` | 6 | 12 | - |" in text


def test_equal_time_is_the_second_table_of_the_first_page(tmp_path: Path) -> None:
    timed = tmp_path / "wall-5min"
    longer = synthetic_record("ra-dt")
    longer["config"]["learn"]["updates"] = 1250
    paths = [
        save(timed / "dt-seed0", synthetic_record("dt")),
        save(timed / "ra-dt-seed0", longer),
    ]
    text = write_comparison(paths, timed, wall_minutes=5.0).read_text()
    assert "Every method is given 5 minutes" in text
    assert "| `learn.updates` | 6 | 1250 |" in text
    assert json.loads((timed / "compare.json").read_text())["wall_minutes"] == 5.0
    page = write_comparison([save(tmp_path / "dt-seed0", synthetic_record("dt"))], tmp_path)
    assert "## Equal wall time: 5 minutes of training" in page.read_text()
    assert timed / "compare.md" in linked(page)


def test_the_command_makes_the_same_config_again() -> None:
    choices = ['evaluate.also_on=["dark-room-10x10-slip"]', "split=tune", "seed=3"]
    config, _ = compose([*preset_layers("dark-room-10x10", "ra-dt+", "smoke"), overrides(choices)])
    words = shlex.split(command(config, Path("runs/x y")).replace("\\\n", " "))
    assert words[words.index("--out") + 1] == "runs/x y"
    assert "--out mine/y " in command(config, Path.cwd() / "mine" / "y")
    given = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    layers = [*preset_layers("dark-room-10x10", "ra-dt+", "smoke"), overrides([*given, "seed=3"])]
    assert compose(layers)[0] == config == from_json(config.to_json())


def test_the_command_of_a_row_that_nobody_registered_says_its_label() -> None:
    layers = preset_layers(
        "dark-room-10x10", arm("mine", "ra-dt+", {"learn": {"updates": 5}}), "smoke"
    )
    config = compose(layers)[0]
    words = shlex.split(command(config, Path("runs/x")).replace("\\\n", " "))
    assert words[words.index("--method") + 1] == "ra-dt"
    given = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    again = preset_layers("dark-room-10x10", "ra-dt", "smoke", overrides(given))
    assert compose(again)[0] == config


def test_training_is_shown_at_the_validations() -> None:
    table = training_table(log_lines()).splitlines()
    assert table[0] == "| update | loss | validation, trial 1 | validation, trial 10 |"
    assert [row.split(" | ")[0] for row in table[2:]] == ["| 10", "| 20"]
    assert table[-1].endswith("| 4.2 | 20.0 |")


def test_a_step_logged_again_after_a_restart_counts_once() -> None:
    again = [
        {"phase": "train", "step": 20, "loss": 3.0},
        {"phase": "train", "step": 20, "loss": 5.0},
    ]
    assert training_table(again).splitlines()[-1] == "| 20 | 5.000 |"
    assert training_table([]) == ""
