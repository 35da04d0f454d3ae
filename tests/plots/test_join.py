"""Many folders in one page: what belongs together stands in one table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup

from radt import cli
from radt.plots import html
from radt.plots.join import group_runs, write_joined
from radt.plots.records import RecordError
from tests.plots.synthetic import save, synthetic_record
from tests.plots.test_html import check_self_contained, text_of


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "svg", lambda draw: Markup("<svg></svg>"))


def small(method: str, trials: int = 3) -> dict[str, Any]:
    return synthetic_record(method, trials=trials, tasks=4)


def test_runs_on_the_same_tasks_are_compared_and_others_stand_apart(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b", "c", "again")]
    records = [
        small("dt"),
        small("replay"),
        small("replay", trials=2),
        small("dt"),
    ]
    for folder, record in zip(folders, records, strict=True):
        save(folder, record)
    groups = group_runs([*folders, folders[0]])
    assert [[run.name for run in group.runs] for group in groups] == [["a", "b"], ["c"], ["again"]]
    page = write_joined(folders, tmp_path / "all.html")
    check_self_contained(page)
    content = page.read_text()
    assert content.count("<section") == 3
    assert 'href="#part-2"' in content
    assert "In-context learning on dark-room-10x10, equal updates" in text_of(page)


def test_a_comparison_stays_one_and_keeps_its_minutes(tmp_path: Path) -> None:
    folder = tmp_path / "wall-5min"
    for name in ("dt", "replay"):
        save(folder / f"{name}-seed0", small(name))
    (folder / "compare.json").write_text('{"wall_minutes": 5.0}')
    alone = save(tmp_path / "alone", small("sweep")).parent
    first, second = group_runs([folder, alone])
    assert first.wall_minutes == 5.0
    assert [run.name for run in second.runs] == ["alone"]
    page = write_joined([folder], tmp_path / "one.html")
    assert page.read_text().count("<section") == 1
    assert "<nav>" not in page.read_text()
    assert "Every method is given 5 minutes" in text_of(page)


def test_details_give_way_to_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [save(tmp_path / n, small(n)).parent for n in ("dt", "ra-dt", "replay")]
    whole = write_joined(folders, tmp_path / "a.html").stat().st_size
    monkeypatch.setattr(html, "MOST_BYTES", whole - 1)
    less = write_joined(folders, tmp_path / "b.html")
    assert less.stat().st_size < whole
    assert "Every run" not in text_of(less)


def test_a_record_from_elsewhere_is_shown_as_far_as_it_is_known(tmp_path: Path) -> None:
    strange = small("dt") | {"method": "theirs"}
    strange["config"] = strange["config"] | {"method": "theirs"}
    folders = [save(tmp_path / "a", strange).parent]
    folders.append(save(tmp_path / "b", small("dt")).parent)
    assert "theirs on dark-room-10x10, seed 0" in text_of(
        write_joined(folders, tmp_path / "a.html")
    )


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"holds no icl.json.*e.g. runs/x or results/"):
        group_runs([tmp_path])


def test_the_verb_joins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = save(tmp_path / "a", small("dt")).parent
    assert cli.main(["report", str(folder)]) == 0
    assert (folder / "report.html").exists()
    assert "report.html" in capsys.readouterr().out
    assert cli.main(["report", str(tmp_path / "b")]) == 2
    assert "neither the folder of a finished run" in capsys.readouterr().err
    assert cli.main(["report"]) == 2
