"""Let pages of the site show files of the checkout that lie outside docs/.

In a page such as docs/results.md, `../results/tuning.jsonl` is a link that works wherever the
repository is read. A site has no folder above it, so such files become part of it, and the links
to them are written anew. MkDocs calls `on_files` and `on_page_markdown`, see mkdocs.yml.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
ABOVE = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")  # pages that everybody looks for there
LINK = re.compile(r"(?<=\]\()[^)\s#:]+")  # of a page, but none to another site


def on_files(files: Files, config: Any) -> Files:
    """Add what pages link to outside docs/, and what the pages among that link to."""
    waiting = [f"docs/{page.src_uri}" for page in files.documentation_pages()] + list(ABOVE)
    while waiting:
        path = waiting.pop()
        if in_site(path) not in files.src_uris:
            files.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))
        waiting += [link for link in links(path) if in_site(link) not in files.src_uris]
    return files


def on_page_markdown(markdown: str, page: Page, **given: Any) -> str:
    """Let links lead to where files are in the site."""
    name = page.file.src_uri
    here = posixpath.dirname(name if (ROOT / name).is_file() else f"docs/{name}")

    def moved(found: re.Match[str]) -> str:
        target = in_site(posixpath.normpath(posixpath.join(here, found[0])))
        return posixpath.relpath(target, posixpath.dirname(name) or ".")

    return LINK.sub(moved, markdown)


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
