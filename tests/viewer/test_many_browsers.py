"""Many pages at once, for long: no error, and no memory that grows without bound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psutil
import pytest
from playwright.sync_api import Page, Playwright

from radt.viewer.server import Rooms
from tests.viewer.browsing import DESK, FLAGS, PATIENCE, fact, full_speed, opened
from tests.viewer.serving import serving

pytestmark = pytest.mark.browser


@pytest.mark.long
def test_eight_browsers_live_for_a_minute(
    playwright: Playwright, chromium: str, runs: Path
) -> None:
    """None of them complains, and neither they nor the server grow without bound."""
    rooms, wrong = Rooms(), []
    with serving(runs, rooms) as key:
        flags = [*FLAGS, "--enable-precise-memory-info", "--js-flags=--expose-gc"]
        launched = [
            playwright.chromium.launch(executable_path=chromium, args=flags) for _ in range(8)
        ]
        pages = [browser.new_page(viewport=DESK) for browser in launched]
        for number, page in enumerate(pages):
            page.set_default_timeout(PATIENCE)
            page.on("pageerror", lambda error: wrong.append(str(error)))
            page.on(
                "console", lambda said: wrong.append(said.text) if said.type == "error" else None
            )
            opened(page, f"{key.address}#seed={number}")
            full_speed(page)
            page.keyboard.press("n")
        sizes = [measured(pages) for _ in range(4) if pages[0].wait_for_timeout(15_000) is None]
        for page in pages:
            assert page.locator("#banner").is_hidden()
            assert fact(page, "trial") >= 1
        assert rooms.open == 8
        for browser in launched:
            browser.close()
        assert wrong == []
    assert rooms.open == 0
    server, *heaps = np.array(sizes).T / 2**20  # [measurements] megabytes
    assert server[-1] - server[1] < 200
    assert max(heap.max() for heap in heaps) < 150


def measured(pages: list[Page]) -> list[float]:
    """Return the bytes of this process, which serves, and of the heap of each page."""
    heap = "() => { window.gc?.(); return performance.memory.usedJSHeapSize; }"
    own = psutil.Process().memory_info().rss
    return [float(own), *(float(page.evaluate(heap)) for page in pages)]
