"""How the tests of the viewer use its page."""

from __future__ import annotations

from playwright.sync_api import Page, expect

PATIENCE = 60_000  # milliseconds: a busy machine must not fail a test
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage"]  # a container's root has no sandbox
DESK, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
expect.set_options(timeout=PATIENCE)


def opened(page: Page, address: str) -> Page:
    """Open an address and wait until the page can be used."""
    page.goto(address)
    page.wait_for_selector("html[data-ready]", state="attached")
    return page


def show(page: Page, kind: str, name: str) -> None:
    """Choose what is shown by the beginning of its value and a part of its name."""
    values = page.eval_on_selector_all(
        "#source option", "all => all.map(one => [one.value, one.textContent])"
    )
    value = next(value for value, text in values if value.startswith(kind) and name in text)
    page.select_option("#source", value)
    expect(page.locator("html")).to_have_attribute("data-shown", value)


def fact(page: Page, name: str) -> float:
    """Read a number from the line above the room, -1 where there is none yet."""
    text = page.locator(f"#fact-{name}").inner_text()
    return float(text) if text[0].isdigit() else -1.0


def full_speed(page: Page) -> None:
    page.evaluate("document.getElementById('speed').value = 8")


def wait_for_trial(page: Page, trial: int) -> None:
    while fact(page, "trial") < trial:  # the page's policy forbids functions made of text
        page.wait_for_timeout(30)
        assert page.locator("#banner").is_hidden()


def click_cell(page: Page, row: int, column: int, rows: int = 10, columns: int = 10) -> None:
    box = page.locator("#grid").bounding_box()
    assert box is not None
    x, y = (column + 0.5) * box["width"] / columns, (row + 0.5) * box["height"] / rows
    page.locator("#grid").click(position={"x": x, "y": y})


def is_drawn(page: Page, canvas: str) -> bool:
    """Whether a canvas shows more than one colour."""
    script = """canvas => {
      const pen = canvas.getContext("2d");
      const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
      const seen = new Set();
      for (let at = 0; at < data.length; at += 4 * 7) seen.add(data.slice(at, at + 4).join());
      return seen.size > 2;
    }"""
    return bool(page.locator(canvas).evaluate(script))
