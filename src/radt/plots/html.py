"""One HTML file that needs nothing else, made of the same Markdown as `summary.md`.

The words and tables of a report are written once, as Markdown, and rendered here by markdown-it,
the parser that comes with rich: a page cannot say another number than the summary beside it. What
a run is called never becomes a tag, a link or a picture: raw HTML is text, a link keeps only its
words, and a picture is shown only if it is one of ours. The page's own policy forbids scripts and
the network besides.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from markdown_it import MarkdownIt

from radt.files import atomic_write
from radt.plots.html_figures import colour_rules
from radt.plots.records import RecordError
from radt.version import released

REPORT = "report.html"
MOST_BYTES = 1_000_000
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
STYLE = Path(__file__).with_name("report.css")

Pictures = Mapping[str, str]  # by the name of the file that Markdown shows: what stands in the page


def render(parts: Sequence[str], pictures: Pictures | None = None) -> str:
    """Turn the paragraphs of a Markdown page into HTML, with pictures where they are named."""
    text = "\n\n".join(parts)
    return str(_renderer().render(text, {"pictures": pictures or {}}))


def _renderer() -> MarkdownIt:
    renderer = MarkdownIt("commonmark", {"html": False}).enable("table")
    for name in ("link_open", "link_close"):
        renderer.add_render_rule(name, lambda *_: "")
    renderer.add_render_rule("image", _picture)
    renderer.add_render_rule("table_open", lambda *_: '<div class="table"><table>\n')
    renderer.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return renderer


def _picture(_: Any, tokens: Sequence[Any], place: int, __: Any, env: Mapping[str, Any]) -> str:
    """Show a picture of ours; of any other only what it is said to show."""
    known: str | None = env["pictures"].get(unquote(str(tokens[place].attrs["src"])))
    return escape(tokens[place].content) if known is None else known


def film_element(path: Path) -> str:
    """Put a GIF into the page itself."""
    content = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="the first and the last trial" src="data:image/gif;base64,{content}">'


def folded(title: str, body: str) -> str:
    """Hide what only some readers want behind its title."""
    return f"<details><summary>{escape(title)}</summary><div>{body}</div></details>\n"


def joined(sections: Sequence[tuple[str, str]]) -> str:
    """Put titled sections below each other, with a list of them on top where there are several."""
    links = [
        f'<li><a href="#part-{number}">{escape(title)}</a></li>'
        for number, (title, _) in enumerate(sections)
    ]
    contents = f"<nav><ul>{''.join(links)}</ul></nav>\n" if len(sections) > 1 else ""
    bodies = [
        f'<section id="part-{number}">\n{body}</section>\n'
        for number, (_, body) in enumerate(sections)
    ]
    return contents + "".join(bodies)


def page(title: str, body: str) -> str:
    """Write a whole page around a body."""
    style = STYLE.read_text(encoding="utf-8") + colour_rules(body)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}<footer>Written by radt {escape(released())}.</footer>\n"
        "</main>\n</body>\n</html>\n"
    )


def write_html(path: Path, title: str, bodies: Iterable[str]) -> Path:
    """Write the first of several bodies, the fullest first, whose page is not too large."""
    size = 0
    for body in bodies:
        content = page(title, body).encode()
        if (size := len(content)) <= MOST_BYTES:
            atomic_write(path, content)
            return path
    raise RecordError(
        f"{path} would have {size:,} bytes, more than the {MOST_BYTES:,} of a page that is easily "
        "passed on; report fewer runs at once"
    )
