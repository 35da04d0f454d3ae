"""The page in a real Chromium: live and recorded, by mouse and by keyboard, wide and narrow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from radt.memory.loop_erasure import loop_erased_trial
from radt.trajectory import Trajectory
from radt.viewer.security import Key
from tests.viewer.browsing import (
    DESK,
    PATIENCE,
    PHONE,
    click_cell,
    fact,
    full_speed,
    is_drawn,
    opened,
    show,
    wait_for_trial,
)
from tests.viewer.serving import IMAGE, SCRIPT, serving

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def key(runs: Path) -> Iterator[Key]:
    with serving(runs) as opened:
        yield opened


@pytest.fixture
def page(browser: Browser, key: Key) -> Iterator[Page]:
    """A page that must not complain, nor talk to anybody else."""
    context = browser.new_context(viewport=DESK)
    context.set_default_timeout(PATIENCE)
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    opened.on(
        "request", lambda asked: wrong.append(asked.url) if is_foreign(asked.url, key) else None
    )
    yield opened
    context.close()
    assert wrong == []


def is_foreign(url: str, key: Key) -> bool:
    return not url.startswith((f"http://127.0.0.1:{key.port}/", "file:"))


def test_a_goal_is_hidden_found_remembered_and_found_again(page: Page, key: Key) -> None:
    opened(page, f"{key.address}#seed=0")
    assert key.token not in page.url
    assert page.url.endswith("/#seed=0")
    expect(page.locator("#invite")).to_be_visible()
    full_speed(page)
    click_cell(page, 0, 3)
    expect(page.locator("#says")).to_have_text(re.compile("row 0, column 3"))
    expect(page.locator("#invite")).to_be_hidden()
    expect(page.locator("tr.chosen")).to_have_count(1)
    page.keyboard.press(" ")
    expect(page.locator("#play")).to_have_attribute("aria-label", "Play")
    page.keyboard.press("Home")
    expect(page.locator("tr.chosen")).to_have_count(1)
    expect(page.locator("tr.chosen .reason")).to_have_text("kept: best score")
    for canvas in ("#grid", "#trials", "#attention", "#map"):
        assert is_drawn(page, canvas)
    assert page.locator("#probabilities .taken").count() == 1
    expect(page.locator("#attention-says")).to_have_text(
        re.compile(r"most at step \d+ of trial \d+")
    )


def test_a_link_from_elsewhere_opens_the_page(page: Page, key: Key, tmp_path: Path) -> None:
    link = tmp_path / "link.html"
    link.write_text(f'<meta http-equiv="refresh" content="0; url={key.address}">')
    opened(page, link.as_uri())
    expect(page).to_have_url(re.compile(rf"http://127\.0\.0\.1:{key.port}/[\w-]+/"))


def test_who_only_presses_play_gets_a_goal_that_was_never_trained_on(page: Page, key: Key) -> None:
    opened(page, key.address)
    page.keyboard.press(" ")
    expect(page.locator("#play")).to_have_attribute("aria-label", "Pause")
    expect(page.locator("#invite")).to_be_hidden()
    expect(page.locator("#who")).to_contain_text("never seen in training")
    expect(page.locator("#fact-trial")).to_have_text("1")


def test_the_memory_can_be_taken_away_and_given_back(page: Page, key: Key) -> None:
    opened(page, key.address)
    show(page, "live", "plain")
    full_speed(page)
    expect(page.locator("#invite")).to_be_visible()
    click_cell(page, 2, 3, rows=3, columns=4)
    wait_for_trial(page, 3)
    page.keyboard.press("m")
    expect(page.locator("#neighbours-says")).to_have_text("Its memory is taken away.")
    expect(page.locator("#memory")).not_to_be_checked()
    page.locator("#memory").click()
    expect(page.locator("tr.chosen")).to_have_count(1)


def test_sliders_change_the_search(page: Page, key: Key) -> None:
    opened(page, key.address)
    show(page, "live", "plain")
    full_speed(page)
    click_cell(page, 2, 3, rows=3, columns=4)
    wait_for_trial(page, 5)
    for name, value in (("top_l", 2), ("alpha", 0), ("retrieve_every", 4)):
        slider = page.locator(f"#knob-{name}")
        slider.fill(str(value))
    slider.evaluate("slider => slider.blur()")  # or it would take the keys
    wait_for_trial(page, int(fact(page, "trial")) + 9)  # what was asked before comes first
    page.keyboard.press(" ")
    page.keyboard.press("End")
    expect(page.locator("#neighbours-says")).to_have_text(re.compile("^2 found at step [048]$"))
    assert page.locator("#neighbours tbody tr").count() == 2


def test_the_keyboard_is_enough(page: Page, key: Key) -> None:
    opened(page, key.address)
    show(page, "live", "plain")
    full_speed(page)
    expect(page.locator("#invite")).to_be_visible()
    for pressed in ("g", "ArrowRight", "ArrowRight", "ArrowUp", "Enter"):
        page.keyboard.press(pressed)
    page.locator("#grid").evaluate("grid => grid.blur()")
    wait_for_trial(page, 2)
    page.keyboard.press(" ")
    page.keyboard.press("Home")
    expect(page.locator("#fact-step")).to_have_text("0")
    for pressed, step in (
        ("ArrowRight", 1),
        ("Shift+ArrowRight", 11),
        ("ArrowLeft", 10),
        ("End", 11),
    ):
        page.keyboard.press(pressed)
        expect(page.locator("#fact-step")).to_have_text(str(step))
    paused = int(page.locator("#fact-trial").inner_text())  # 2, or later on a fast machine
    assert paused >= 2
    page.keyboard.press("ArrowUp")
    expect(page.locator("#fact-trial")).to_have_text(str(paused - 1))
    page.keyboard.press("ArrowDown")
    expect(page.locator("#fact-trial")).to_have_text(str(paused))
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    page.keyboard.press("?")
    page.locator("#keys button").click()
    expect(page.locator("#keys")).to_be_hidden()
    page.evaluate("document.getElementById('speed').value = 0")
    page.keyboard.press("n")
    expect(page.locator("#fact-trial")).to_have_text("1")


def test_a_recording_is_played_scrubbed_and_never_run_as_markup(page: Page, key: Key) -> None:
    opened(page, key.address)
    show(page, "trace", "<b onclick=alert(1)>bold")
    says = page.locator("#says")
    expect(says).to_have_text(f"{SCRIPT} {IMAGE} 4")
    page.select_option("#task", "5")
    expect(says).to_have_text(f"{SCRIPT} {IMAGE} 5")
    assert page.title() == "radt view"
    assert page.locator("main script, main img, b[onclick]").count() == 0
    page.locator("#scrub").fill("7")
    expect(page.locator("#fact-step")).to_have_text("7")
    expect(page.locator("#neighbours-says")).to_have_text("The memory is still empty.")
    full_speed(page)
    page.locator("#play").click()
    expect(page.locator("#fact-trial")).to_have_text("3")
    expect(page.locator("#play")).to_have_attribute("aria-label", "Play")  # it ends by itself
    expect(page.locator("tr.chosen")).to_have_count(1)
    page.locator("tr.chosen").hover()
    page.locator("tr.chosen").click()
    expect(page.locator("#fact-trial")).not_to_have_text("3")  # what is shown there has to load
    expect(page.locator("#knobs")).to_be_hidden()


def test_the_page_leaves_out_the_loops_that_a_memory_does(page: Page, key: Key) -> None:
    opened(page, key.address)
    rng = np.random.default_rng(0)
    for rare in (0.0, 0.1, 0.5):
        cells = rng.integers(3, size=(60, 2))
        rewards = (rng.random(60) < rare).astype(np.float32)
        trial = Trajectory(cells, np.arange(60), rewards, 0, 0)
        way = page.evaluate(
            """async ([cells, rewards]) => {
              const { Trial } = await import("./static/history.js");
              const trial = new Trial(0);
              const none = { probabilities: [], attention: [], searches: [], marks: [] };
              trial.append({ cells, rewards, actions: cells.map(() => 0), ...none });
              return trial.path();
            }""",
            [cells.tolist(), rewards.tolist()],
        )
        assert way == loop_erased_trial(trial).actions.tolist()


def test_an_empty_folder_says_what_to_do(page: Page, key: Key) -> None:
    page.route("**/api/sources", lambda route: route.fulfill(json=[]))
    opened(page, key.address)
    expect(page.locator("#banner")).to_have_text(re.compile("nothing to show"))
    expect(page.locator("#about")).to_have_text(re.compile("radt evaluate DIR --trace"))


def test_a_lost_server_is_explained(browser: Browser, runs: Path) -> None:
    context = browser.new_context(viewport=DESK)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    with serving(runs) as key:
        opened(page, key.address)
        expect(page.locator("#invite")).to_be_visible()
    expect(page.locator("#banner")).to_have_text(re.compile("The server is gone"))
    expect(page.locator("#banner button")).to_be_visible()
    context.close()


def test_who_has_no_key_is_told_where_it_is(browser: Browser, key: Key) -> None:
    context = browser.new_context()
    page = context.new_page()
    answer = page.goto(f"http://127.0.0.1:{key.port}/")
    assert answer is not None
    assert answer.status == 401
    assert "radt view" in page.inner_text("body")
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE])
def test_it_fits_every_screen_in_both_colours(page: Page, key: Key, scheme: Any, size: Any) -> None:
    page.set_viewport_size(size)
    page.emulate_media(color_scheme=scheme)
    opened(page, key.address)
    show(page, "trace", "plain")
    expect(page.locator("#fact-trial")).to_have_text("1")
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    bright = sum(map(int, re.findall(r"\d+", paper)[:3])) > 3 * 128
    assert bright == (scheme == "light")
    page.locator("#theme").click()
    page.locator("#theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 20, 27)"
