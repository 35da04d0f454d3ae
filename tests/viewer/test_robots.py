"""Robots on the page: bodies instead of cells, bars of actions, and what is remembered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Page, expect

from radt.envs.point_robot import PointRobotSuite
from radt.envs.suite import SUITES
from radt.viewer.security import Key
from tests.viewer.browsing import (
    DESK,
    PATIENCE,
    PHONE,
    full_speed,
    is_drawn,
    opened,
    show,
    wait_for_trial,
)
from tests.viewer.serving import serving, write_run

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Key]:
    folder, suite = tmp_path_factory.mktemp("runs"), SUITES["point-robot"]
    assert isinstance(suite, PointRobotSuite)
    write_run(folder / "robot", replace(suite, eval_tasks=(200,)))
    with serving(folder) as opened:
        yield opened


@pytest.fixture(params=[DESK, PHONE], ids=["desk", "phone"])
def page(browser: Browser, key: Key, request: pytest.FixtureRequest) -> Iterator[Page]:
    context = browser.new_context(viewport=request.param)
    context.set_default_timeout(PATIENCE)
    page, wrong = context.new_page(), list[str]()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    yield opened(page, key.address)
    context.close()
    assert wrong == []


def test_a_recorded_trial_is_played(page: Page) -> None:
    show(page, "trace", "robot")
    expect(page.locator("#fact-trial")).to_have_text("1")
    expect(page.locator("#probabilities li")).to_have_count(2)
    page.keyboard.press("ArrowDown")
    expect(page.locator("#fact-trial")).to_have_text("2")
    page.keyboard.press("End")
    expect(page.locator("#fact-step")).to_have_text("99")
    expect(page.locator("#fact-return")).to_have_text("0")
    expect(page.locator("tr.chosen")).not_to_have_count(0)
    for canvas in ("#grid", "#attention", "#map"):
        assert is_drawn(page, canvas)
    expect(page.locator("#probabilities .name")).to_have_text([" x", " y"])
    expect(page.locator(".legend .goal")).to_be_visible()
    expect(page.locator(".legend .object")).to_be_hidden()
    wide = page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert wide  # nothing sticks out


def test_a_live_robot_acts_and_remembers(page: Page) -> None:
    show(page, "live", "robot")
    full_speed(page)
    expect(page.locator("#invite")).to_be_hidden()
    wait_for_trial(page, 2)
    expect(page.locator("tr.chosen")).not_to_have_count(0)
    page.keyboard.press(" ")
    assert is_drawn(page, "#grid")
    expect(page.locator("#decision-says")).to_have_text(re.compile("^earns [01]$"))
