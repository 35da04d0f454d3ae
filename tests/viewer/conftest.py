"""A browser for the tests that need one: the system's, never one that is downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from radt.envs.suite import SUITES
from tests.viewer.serving import SCRIPTED, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
HOW = "install chromium (as root, `make setup` does), or set RADT_CHROMIUM to a browser"


def find_chromium() -> str | None:
    """Return the browser that RADT_CHROMIUM names, or the first one of the system."""
    for name in (os.environ.get("RADT_CHROMIUM", ""), *NAMES):
        if name and (found := shutil.which(name)):
            return found
    return None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: needs a Chromium")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    asking = [item for item in items if item.get_closest_marker("browser")]
    if not asking or find_chromium() or os.environ.get("RADT_NEED_CHROMIUM"):
        return
    for item in asking:  # the summary tells how many, and why
        item.add_marker(pytest.mark.skip(reason=f"no Chromium found; {HOW}"))


@pytest.fixture(scope="session")
def chromium() -> str:
    found = find_chromium()
    assert found is not None, f"no Chromium found; {HOW}"
    return found


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browser(playwright: Playwright, chromium: str) -> Iterator[Browser]:
    from tests.viewer.browsing import FLAGS

    launched = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
    yield launched
    launched.close()


@pytest.fixture(scope="session")
def scripted() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SUITES._items, SCRIPTED.name, SCRIPTED)
        yield


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, scripted: None) -> Path:
    """A folder of runs, one of them with a dangerous name."""
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "plain")
    write_run(folder / "<b onclick=alert(1)>bold")
    return folder
