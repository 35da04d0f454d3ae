"""The page: one small file, no network, the numbers of the summary, and nobody's tags."""

from __future__ import annotations

import re
from base64 import b64encode
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markupsafe import Markup
from matplotlib.colors import to_rgb

from radt.plots import html
from radt.plots.comparison import write_comparison
from radt.plots.html import Section, inline, page, to_html, write_html
from radt.plots.records import DATA, RecordError
from radt.plots.report import config_parts, data_text, write_report
from radt.plots.source import DataFacts, data_facts, keep_data_facts
from radt.plots.style import SPARE_COLOURS, Picture
from radt.runs.run import Run
from radt.variants import BUILT_IN
from tests.contracts.method import toy_dataset
from tests.plots.synthetic import MEASURED, VARIANT, save, synthetic_record
from tests.runs.small import small_config, use_toys
from tests.toys import TOY_GRID

EVIL = "<script>alert(1)</script>"
TRICKS = (EVIL, '"><img src=x onerror=y>', "![x](http://a.example/b.png)", "[x](javascript:y)")


def text_of(path: Path) -> str:
    """Return what a reader sees of a page."""
    return unescape(re.sub(r"<style>.*?</style>|<[^>]*>", "", path.read_text(), flags=re.DOTALL))


def check_self_contained(path: Path) -> None:
    content = path.read_text()
    assert path.stat().st_size < html.MOST_BYTES
    assert "<script" not in content
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", content)
    assert not re.search(r"url\((?!#)|@import|<[^>]*https?://(?!www\.w3\.org/)", content)
    assert "default-src 'none'" in content
    names = re.findall(r' id="([^"]*)"', content)
    assert len(names) == len(set(names))
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', content))
    assert used <= set(names)


def check_same_numbers(markdown: Path, page_file: Path) -> None:
    """Find every cell of every table of a Markdown page in the HTML page."""
    shown = text_of(page_file)
    cells = [
        cell.strip().replace("`", "").replace("**", "")
        for line in markdown.read_text().splitlines()
        if line.startswith("|") and not line.startswith("| ---")
        for cell in line.strip("|").split("|")
    ]
    assert len(cells) > 20
    assert [cell for cell in cells if cell not in shown] == []


def test_a_run_leaves_one_page_with_the_numbers_of_its_summary(tmp_path: Path) -> None:
    save(tmp_path / "x", synthetic_record("replay", trials=2, tasks=3, variant=True))
    summary = write_report(tmp_path / "x")
    report = tmp_path / "x" / "report.html"
    check_self_contained(report)
    check_same_numbers(summary, report)
    content = report.read_text()
    assert content.count("<svg") == 2  # the curve, and that of the variant
    assert "data:image/gif;base64," in content
    assert "radt run dark-room-10x10 --method replay --budget smoke" in text_of(report)
    assert "evaluate.rule.temperature" in text_of(report)
    assert str(tmp_path) not in content


def test_a_comparison_leaves_one_page_with_the_numbers_of_its_table(tmp_path: Path) -> None:
    names = ("dt", "ra-dt", "replay")
    records = {name: synthetic_record(name, trials=6, tasks=5, variant=True) for name in names}
    records["dt"] |= MEASURED
    paths = [save(tmp_path / f"{name}-seed0", record) for name, record in records.items()]
    compared = write_comparison(paths, tmp_path)
    report = tmp_path / "report.html"
    check_self_contained(report)
    check_same_numbers(compared, report)
    assert report.read_text().count("<svg") == 5  # two panels, here and on the variant; learning
    assert f"{VARIANT} (a variant" in text_of(report)
    for name in names:
        assert f"{name} on dark-room-10x10, seed 0" in text_of(report)
        assert f"radt run dark-room-10x10 --method {name} " in text_of(report)
    assert "radt collect dark-room-10x10 --budget smoke" in text_of(report)


def test_what_a_run_is_called_stays_text(tmp_path: Path) -> None:
    evil = synthetic_record("dt", trials=3, tasks=3) | {
        "budget": TRICKS[2],
        "code_version": TRICKS[3],
        "machine": {EVIL: EVIL, TRICKS[1]: "a\n# b | c", "\x1b[2J": "\u202e", "\ud800": "\udcff"},
        "plugins": {EVIL: TRICKS[1]},
    }
    write_comparison([save(tmp_path / "evil", evil)], tmp_path / "out")
    write_report(tmp_path / "evil")
    for report in (tmp_path / "out" / "report.html", tmp_path / "evil" / "report.html"):
        check_self_contained(report)
        assert "<img src=x" not in report.read_text()
    assert EVIL in text_of(tmp_path / "evil" / "report.html")
    summary = (tmp_path / "evil" / "summary.md").read_text()
    assert not any(trick in summary for trick in TRICKS)
    assert "\n# b" not in summary
    assert not {"\x1b", "\u202e"} & {*summary}


def test_a_report_shows_only_what_lies_in_the_run(tmp_path: Path) -> None:
    folder = save(tmp_path / "run", synthetic_record("dt", trials=3, tasks=3)).parent
    secret = tmp_path / "secret"
    secret.write_bytes(b"GIF89a of somebody else")
    (folder / "trials.gif").symlink_to(secret)
    write_report(folder)
    assert b64encode(secret.read_bytes()).decode()[:20] not in (folder / "report.html").read_text()
    assert secret.read_bytes() == b"GIF89a of somebody else"
    (folder / "trials.gif").unlink()
    with (folder / "trials.gif").open("wb") as film:
        film.truncate(1 << 40)  # no byte of it is on the disk
    write_report(folder)
    assert "data:image/gif" not in (folder / "report.html").read_text()


def test_markdown_keeps_words_and_shows_only_our_pictures() -> None:
    parts = [
        "# A *b*",
        "![ours](a%20b.png) ![theirs](c.png)",
        "[word](d.md) <b>x</b>",
        "| a |\n| - |",
    ]
    ours = Picture([lambda axes: None] * 2, "a <title>", "a & note", (1.0, 1.0))
    shown = to_html("\n\n".join(parts), {"a b.png": ours})
    assert "<h1>A <em>b</em></h1>" in shown
    assert shown.count("<svg") == 2
    assert "a &lt;title&gt;; a &amp; note</small></span> theirs</p>" in shown
    assert "<p>word &lt;b&gt;x&lt;/b&gt;</p>" in shown
    assert "<table>" in shown


def test_titles_of_sections_are_text() -> None:
    shown = page([Section(EVIL, Markup("<b>x</b>"), {EVIL: Markup("<b>y</b>")})] * 2)
    assert "<script>" not in shown
    assert shown.count("<b>x</b>") == shown.count("<b>y</b>") == 2
    assert "<nav>" in shown


def test_a_picture_keeps_its_words_and_gets_names_of_its_own() -> None:
    drawn = inline(
        '<?xml version="1.0"?><svg width="9pt" viewBox="0 0 9.87654 9"><metadata>x</metadata>'
        '<style>*{}</style><g id="a"/><clipPath id="clip"/><path clip-path="url(#clip)" '
        'd="M 1.23456 2" style="fill: #30343f; font-family: \'DejaVu Sans\', Arial"/>'
        "<text>0.12345 #30343f</text></svg>\n",
    )
    assert drawn.startswith('<svg width="9pt" viewBox="0 0 9.87 9">')
    assert "metadata" not in drawn
    assert "<style" not in drawn
    assert 'd="M 1.23 2"' in drawn
    assert "<text>0.12345 #30343f</text>" in drawn
    name = re.search(r'<clipPath id="([^"]+)"', drawn)
    assert name
    assert f"url(#{name[1]})" in drawn


@pytest.mark.parametrize("colour", [*(look.colour for look in BUILT_IN), *SPARE_COLOURS])
def test_lines_can_be_seen_in_the_dark(colour: str) -> None:
    css = Path(html.__file__).with_name("templates") / "report.css"
    assert "filter: invert(0.9) hue-rotate(180deg) brightness(1.2)" in css.read_text()
    grey = np.array([0.213, 0.715, 0.072])
    inverted = 0.9 - 0.8 * np.array(to_rgb(colour))
    turned = np.clip(1.2 * np.clip(2 * grey @ inverted - inverted, 0, 1), 0, 1)  # by 180 degrees
    assert (luminance(turned) + 0.05) / (luminance(np.array(to_rgb("#14161c"))) + 0.05) > 3.5


def luminance(rgb: np.ndarray) -> float:  # type: ignore[type-arg]
    linear = np.where(rgb <= 0.04, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_a_page_that_is_too_large_loses_its_details_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "MOST_BYTES", 20_000)
    large, small = ([Section("t", Markup(text))] for text in ("x" * 20_000, "small"))
    path = write_html(tmp_path / "a.html", [large, small])
    assert "small" in path.read_text()
    with pytest.raises(RecordError, match=r"would have 2.,... bytes.*report fewer runs"):
        write_html(tmp_path / "b.html", [large])
    assert not (tmp_path / "b.html").exists()


def test_a_run_remembers_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_toys(monkeypatch, tmp_path / "home")
    config = small_config("dt")
    source, out = tmp_path / "home" / "data", tmp_path / "out"
    monkeypatch.setattr("radt.plots.source.dataset_path", lambda _: source)
    assert data_facts(config, out) is None
    assert "radt collect toy-grid" in data_text(config, None)
    toy_dataset(TOY_GRID, source, episodes=60)
    for _ in range(2):  # the second time it is there
        keep_data_facts(config, out)
    facts = data_facts(config, out)
    assert isinstance(facts, DataFacts)
    assert facts.curve is not None
    assert facts.card.episodes == 240
    assert f"![what the source earned]({facts.picture})" in data_text(config, facts)
    (source / "manifest.json").unlink()
    assert data_facts(config, out) == facts
    (out / DATA).write_text("{}")
    with pytest.raises(ValueError, match=r"dataset.json .*missing card.*delete it"):
        data_facts(config, out)


def test_short_histories_have_a_card_but_no_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_toys(monkeypatch, tmp_path)
    toy_dataset(TOY_GRID, tmp_path / "data", episodes=1)
    monkeypatch.setattr("radt.plots.source.dataset_path", lambda _: tmp_path / "data")
    facts = data_facts(small_config("dt"), tmp_path)
    assert facts is not None
    assert facts.curve is None
    assert data_facts(small_config("replay"), tmp_path) is None
    assert data_text(small_config("replay"), None) == ""


def test_values_of_ones_own_are_bold() -> None:
    run = Run(small_config_of_room("learn.updates=77"), Path())
    table = config_parts(run.config)[1]
    assert "| `learn.updates` | **`77`** |" in table
    assert "| `learn.batch_size` | `8` |" in table


def small_config_of_room(*sets: str) -> Any:
    from radt import preset

    return preset("dark-room-10x10", "dt", "smoke", *sets)
