"""Let pages of the site show files of the checkout that lie outside docs/.

In a page such as docs/results.md, `../results/tuning.jsonl` is a link that works wherever the
repository is read. A site has no folder above it, so such files become part of it, and the links
to them are written anew. Names such as `radt.memory.reweight.reweight` become links to their line,
and the page of all options is made from the dataclasses, so that neither can be out of date. MkDocs
calls `on_files` and `on_page_markdown`, see mkdocs.yml.
"""

from __future__ import annotations

import html
import inspect
import pkgutil
import posixpath
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from radt.runs.options import Option, all_options

ROOT = Path(__file__).parents[1]
ABOVE = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")  # pages that everybody looks for there
LINK = re.compile(r"(?<=\]\()[^)\s#:]+")  # of a page, but none to another site

NAME = re.compile(r"(?<!\[)`(radt(?:\.\w+)+)`(?!\])")  # in a page's text, but no link already
OPTIONS = "options.md"
INTRODUCTION = """# Options

Every value of a run's config, made from the comments beside them in the source.
`--set NAME=VALUE` changes one. `radt config explain NAME` also tells what budgets, rows and
environments make of it, and the paper's value. `radt config show ENV` prints the values of a run.
"""
SOURCE_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{path}</title><link rel="stylesheet" href="{css}">
<style>:root {{ color-scheme: light dark }} :target {{ outline: 2px solid }}</style></head>
<body><p>{path}</p>{code}</body></html>
"""


def on_files(files: Files, config: Any) -> Files:
    """Add what pages link to outside docs/, and what the pages among that link to."""
    waiting = [f"docs/{page.src_uri}" for page in files.documentation_pages()] + list(ABOVE)
    while waiting:
        path = waiting.pop()
        if in_site(path) not in files.src_uris:
            files.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))
        waiting += [link for link in links(path) if in_site(link) not in files.src_uris]
    files.append(File.generated(config, OPTIONS, content=options_page()))
    for path in {path for page in files.documentation_pages() for path in cited(page)}:
        files.append(File.generated(config, f"{path}.html", content=source_page(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **given: Any) -> str:
    """Let links lead to where files are in the site."""
    name = page.file.src_uri
    here = posixpath.dirname(name if (ROOT / name).is_file() else f"docs/{name}")

    def moved(found: re.Match[str]) -> str:
        target = in_site(posixpath.normpath(posixpath.join(here, found[0])))
        return posixpath.relpath(target, posixpath.dirname(name) or ".")

    def located(found: re.Match[str]) -> str:
        place = place_of(found[1])
        if place is None:
            return found[0]
        path = posixpath.relpath(f"{place[0]}.html", posixpath.dirname(name) or ".")
        return f"[{found[0]}]({path}#L-{place[1]})"

    return NAME.sub(located, LINK.sub(moved, markdown))


def in_site(path: str) -> str:
    """Name a file of the checkout as it is called in the site."""
    return path.removeprefix("docs/")


def links(path: str) -> Iterator[str]:
    """Name the files that a page of the checkout links to; what is no page links to nothing."""
    if path.endswith(".md"):
        for link in LINK.findall((ROOT / path).read_text(encoding="utf-8")):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
            if (ROOT / target).is_file():
                yield target


@cache
def place_of(name: str) -> tuple[str, int] | None:
    """Return the file and the line where a module, class or function stands."""
    try:
        found = pkgutil.resolve_name(name)
        found = inspect.unwrap(found.fget if isinstance(found, property) else found)
        lines, first = inspect.getsourcelines(found)
    except (ImportError, AttributeError, TypeError):
        return None
    path = Path(inspect.getsourcefile(found) or "").relative_to(ROOT)
    skipped = next(
        n for n, line in enumerate([*lines, "class"]) if not line.lstrip().startswith("@")
    )
    return path.as_posix(), max(1, first + (skipped if first else 0))


def cited(page: File) -> Iterator[str]:
    """Name the files of the source whose lines a page leads to."""
    places = map(place_of, NAME.findall(page.content_string))
    return (place[0] for place in places if place is not None)


def source_page(path: str) -> str:
    """Show a file of the source with a place to link to at each line."""
    look = HtmlFormatter(cssclass="codehilite", lineanchors="L")
    code = highlight((ROOT / path).read_text(encoding="utf-8"), PythonLexer(), look)
    css = posixpath.relpath("site.css", posixpath.dirname(path))
    return SOURCE_PAGE.format(path=html.escape(path), css=css, code=code)


def options_page() -> str:
    """List all options, group by group."""
    groups: dict[str, list[tuple[Option, list[str]]]] = {}
    for one, of in all_options().items():
        groups.setdefault(one.path.rpartition(".")[0] or "run", []).append((one, of))
    return INTRODUCTION + "".join(map(options_table, groups, groups.values()))


def options_table(group: str, found: list[tuple[Option, list[str]]]) -> str:
    """Write the table of a group."""
    head = ("option", "type", "default", "of", "meaning")
    rows = [head, ("---",) * len(head)]
    for one, of in found:
        name, kind = one.path.rpartition(".")[2], one.kind.replace("|", "\\|")
        rows.append((f"`{name}`", f"`{kind}`", f"`{one.default}`", ", ".join(of), one.meaning))
    return f"\n## `{group}`\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)
