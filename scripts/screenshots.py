"""Take the pictures of docs/images: viewer, reports, and what each tutorial ends in.

    make screenshots

Everything is run anew in a temporary folder, as the pages tell it, in a few minutes: the shipped
and published agents act, and the tutorials' small runs are trained. Nothing is drawn by hand.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[1]
DOCS, OUT = ROOT / "docs", ROOT / "docs/images"
BROWSERS = (os.environ.get("RADT_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-dev-shm-usage")  # a container's root has no sandbox
DESK, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
MOST_BYTES = 150_000  # of a picture
PATIENCE = 300_000  # milliseconds, on a busy machine


def radt(work: Path, command: str, plugins: Path | None = None) -> None:
    """Give a command as a page does."""
    print(f"radt {command}", flush=True)
    words = [sys.executable, "-m", "radt", *shlex.split(command), "--quiet"]
    subprocess.run(words, cwd=work, env=surroundings(work, plugins), check=True)


def surroundings(work: Path, plugins: Path | None = None) -> dict[str, str]:
    """Return the environment of a command: data of its own, and perhaps a plug-in."""
    own = {"RADT_HOME": str(work / "data"), "RADT_PLUGINS": str(plugins or "")}
    return {**os.environ, **own, "MPLBACKEND": "Agg"}


def code(work: Path, page: str, blocks: int | None = None) -> Path:
    """Run the first blocks of Python of a page, or all, as one file."""
    print(f"the code of {page}", flush=True)
    file = work / f"{Path(page).stem.replace('-', '_')}.py"
    file.write_text("\n".join(PYTHON.findall((DOCS / page).read_text())[:blocks]))
    subprocess.run([sys.executable, file], cwd=work, env=surroundings(work), check=True)
    return file


def keep(picture: Path, name: str) -> None:
    """Store a picture with a palette, which keeps it small."""
    file = OUT / f"{name}.png"
    Image.open(picture).convert("RGB").quantize(256).save(file, optimize=True)
    if (size := file.stat().st_size) > MOST_BYTES:
        raise SystemExit(f"{file} has {size:,} bytes, more than {MOST_BYTES:,}; show less")


def tutorials(work: Path) -> Path:
    """Do what the tutorials tell; return the report of the one about environments."""
    radt(work, "new suite my-poles")
    few = "--set learn.updates=300 --set embedder.updates=100"
    radt(work, f"run my-poles --method ra-dt {few} --out runs/my-poles", work / "my_poles.py")
    images = ROOT / "examples/suites/image_target.py"
    few = "--set learn.updates=600"
    radt(work, f"run image-target --method ra-dt-tuned {few} --out runs/images", images)
    keep(work / "runs/images/curve.png", "own-images")
    code(work, "own-dataset.md")
    radt(work, "data curves dark-room-10x10 --out curves.png")
    keep(work / "curves.png", "own-data")
    method = code(work, "own-method.md", blocks=1)
    radt(work, "run dark-room-10x10 --method best-return --out runs/best-return", method)
    keep(work / "runs/best-return/curve.png", "own-method")
    code(work, "memory.md")
    keep(work / "fleet.png", "fleet")
    return work / "runs/my-poles/report.html"


@contextmanager
def viewer(work: Path, *folder: Path) -> Iterator[str]:
    """Serve the page of `radt view` and hand over its address."""
    words = [sys.executable, "-m", "radt", "view", *map(str, folder), "--port", "0", "--quiet"]
    how = {"stdout": subprocess.PIPE, "text": True, "env": surroundings(work)}
    with subprocess.Popen(words, **how) as server:
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


@contextmanager
def page_of(browser: Browser, colours: str, size: dict[str, int]) -> Iterator[Page]:
    """Open an empty page in light or dark colours."""
    with closing(browser.new_context(viewport=size, color_scheme=colours)) as context:  # type: ignore[arg-type]
        context.set_default_timeout(PATIENCE)
        yield context.new_page()


def take(page: Page, work: Path, name: str, whole: bool = False) -> None:
    """Photograph a page, or what of it is on the screen."""
    page.wait_for_timeout(1000)  # for the slower panels
    page.screenshot(path=work / "page.png", full_page=whole)
    keep(work / "page.png", name)


def act(page: Page, trials: int, steps: int) -> None:
    """Let the agent act for some trials, and show a step of the last whole one."""
    page.locator("#speed").fill("8")
    page.evaluate("document.activeElement.blur()")  # or the slider would take the keys
    now = page.locator("#fact-trial")
    while not (now.inner_text().isdigit() and int(now.inner_text()) > trials):
        page.wait_for_timeout(100)
    for key in (" ", "ArrowUp", "Home", *["ArrowRight"] * steps):
        page.keyboard.press(key)


def photograph(work: Path, report: Path, browser: Browser) -> None:
    """Take the pictures of the viewer and of a report: light, dark and on a phone."""
    for name, colours, size in (("viewer", "light", DESK), ("viewer-phone", "light", PHONE)):
        with viewer(work) as address, page_of(browser, colours, size) as page:
            page.goto(f"{address}#seed=0")
            page.locator("#invite").wait_for()
            page.select_option("#task", "88")
            act(page, trials=6, steps=6)
            take(page, work, name, whole=name == "viewer")
    robots = ROOT / "results/point-robot"
    with viewer(work, robots) as address, page_of(browser, "dark", DESK) as page:
        page.goto(f"{address}#seed=0")
        page.wait_for_selector("html[data-ready]", state="attached")
        page.select_option("#source", label="point-robot/ra-dt-tuned-seed0")
        page.select_option("#task", "233")
        act(page, trials=5, steps=10)
        take(page, work, "viewer-dark", whole=True)
    for name, colours, size in (("report", "light", DESK), ("report-phone", "dark", PHONE)):
        with page_of(browser, colours, size) as page:
            page.goto(report.as_uri())
            take(page, work, name)


def main() -> None:
    """Take all pictures."""
    found = next((name for name in BROWSERS if name and shutil.which(name)), None)
    if found is None:
        raise SystemExit("no Chromium; run make browser as root, or set RADT_CHROMIUM to one")
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        work = Path(folder)
        report = tutorials(work)
        browser = started.chromium.launch(executable_path=shutil.which(found), args=[*FLAGS])
        photograph(work, report, browser)
        browser.close()


if __name__ == "__main__":
    main()
