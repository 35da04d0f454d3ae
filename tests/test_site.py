"""The site builds without a warning, needs no network and has no dead link; the notebook runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

from radt.runs.options import all_options
from tests.pages import ROOT

NOTEBOOK = ROOT / "examples" / "first_steps.ipynb"


class Page(HTMLParser):
    """What a page links to, what it loads, and which places in it can be linked to."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file, self.links, self.loads, self.places = file, set[str](), set[str](), set[str]()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        elif tag == "link" and "href" in given:
            self.loads.add(given["href"])
        elif tag in ("script", "img", "iframe", "source") and "src" in given:
            self.loads.add(given["src"])


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    folder = tmp_path_factory.mktemp("site").resolve()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    files = [file for file in folder.rglob("*.html") if file.name != "404.html"]
    written = [file for file in files if "results" not in file.relative_to(folder).parts[:1]]
    return {file: Page(file) for file in written}  # reports among the results are no pages


def test_every_page_is_in_the_site(pages: dict[Path, Page]) -> None:
    names = {file.stem for file in pages}
    assert names >= {page.stem for page in (ROOT / "docs").glob("*.md")}


def test_every_link_inside_the_site_leads_somewhere(pages: dict[Path, Page]) -> None:
    dead = [
        f"{page.file.name}: {link}"
        for page in pages.values()
        for link in sorted(page.links | page.loads)
        if not urlsplit(link).netloc and not leads_somewhere(page, link, pages)
    ]
    assert dead == []


def leads_somewhere(page: Page, link: str, pages: dict[Path, Page]) -> bool:
    """Tell whether a file is there, and in it the place that is meant."""
    path, place = urldefrag(link)
    file = (page.file.parent / unquote(path)).resolve() if path else page.file
    if not place or file not in pages:
        return file.is_file() or (file / "index.html").is_file()
    return unquote(place) in pages[file].places


def test_names_lead_to_the_line_where_they_stand(pages: dict[Path, Page]) -> None:
    (concepts,) = (file for file in pages if file.name == "concepts.html")
    text = concepts.read_text(encoding="utf-8")
    links = re.findall(r'<a href="(src/[^"#]+)\.html#L-(\d+)"><code>radt\.([\w.]+)</code>', text)
    assert len(links) > 50
    for path, line, name in links:
        stands = (ROOT / path).read_text(encoding="utf-8").splitlines()[int(line) - 1]
        last = name.rpartition(".")[2]
        assert re.search(rf"(def|class) {last}\b", stands) or int(line) == 1, (name, stands)


def test_all_options_are_on_a_page(pages: dict[Path, Page]) -> None:
    (options,) = (page for page in pages.values() if page.file.name == "options.html")
    groups = {one.path.rpartition(".")[0].replace(".", "") or "run" for one in all_options()}
    assert groups <= options.places
    assert "weight of utility against relevance" in options.file.read_text(encoding="utf-8")


def test_nothing_comes_from_another_server(pages: dict[Path, Page]) -> None:
    foreign = [link for page in pages.values() for link in page.loads if urlsplit(link).netloc]
    assert foreign == []


def cells(kind: str) -> list[str]:
    """Return the source of a notebook's cells of one kind."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


def test_the_notebook_is_stored_without_outputs() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not [cell for cell in code if cell["outputs"] or cell["execution_count"]]


def test_the_notebook_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    plt.close("all")  # what other tests have drawn
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for number, source in enumerate(cells("code")):
        exec(compile(source, f"{NOTEBOOK.name}[{number}]", "exec"), names)
    assert len(plt.get_fignums()) == 2
    plt.close("all")
    returns = names["returns"]
    assert isinstance(returns, list)
    assert returns[-1] > returns[0] + 20  # it has learned, without an update
    assert names["weights_before"] == names["weights_after"]
    assert names["forgotten"] == 0
