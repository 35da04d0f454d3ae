"""One HTML file that needs nothing else, made of the same Markdown as `summary.md`.

The words and tables of a report are written once, as Markdown, and rendered here by markdown-it,
the parser that comes with rich: a page cannot say another number than the summary beside it. What
a run is called never becomes a tag, a link or a picture: raw HTML is text, a link keeps only its
words, and a picture is shown only if it is one of ours. The frame is a template, which escapes what
it is given, and its policy forbids scripts and the network besides.

Curves are inline SVG by Matplotlib's own backend, drawn by the same functions as the PNGs. Text
stays text, so that a phone's own font is used and names can be found and copied; on a dark page a
CSS filter turns the lightness of a curve and keeps its hue.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import matplotlib
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markdown_it import MarkdownIt
from markupsafe import Markup
from matplotlib.axes import Axes

from radt.files import atomic_write
from radt.metrics import Estimate, Interval
from radt.plots.records import RecordError
from radt.plots.style import Picture, canvas
from radt.version import released

REPORT = "report.html"
MOST_BYTES = 1_000_000
PANEL = (5.4, 3.6)  # inches; a phone shows it at about its natural size
TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=select_autoescape(["html"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

Pictures = Mapping[str, Picture | Path]  # by the name that Markdown gives them; a path is a GIF's


def table_head(titles: Sequence[str]) -> str:
    """Write the first two lines of a Markdown table, whose first column is text."""
    rule = ["---"] + ["---:"] * (len(titles) - 1)
    return f"| {' | '.join(titles)} |\n| {' | '.join(rule)} |"


def as_text(value: object) -> str:
    """Write what somebody else has called something so that it means nothing in Markdown."""
    words = " ".join(str(value).split())
    shown = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in words)
    return re.sub(r"([\\`<>\[\]|!])", r"\\\1", shown)


def fixed(value: float | None, digits: int, sign: str = "") -> str:
    """Write a number with so many decimals."""
    return "-" if value is None else f"{value:{sign}.{digits}f}"


def span(interval: Interval, digits: int) -> str:
    """Write an interval."""
    return f"[{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def over_seeds(found: Estimate, digits: int, sign: str = "") -> str:
    """Write an estimate with its interval over seeds, where it has one."""
    interval = "" if found.over_seeds is None else f" {span(found.over_seeds, digits)}"
    return fixed(found.mean, digits, sign) + interval


def difference_head(title: str, one_seed: bool) -> list[str]:
    """Name the columns of a difference: with one seed one, else one for each of its intervals."""
    if one_seed:
        return [f"{title}, 95 % over tasks"]
    return [f"{title}, 95 % over seeds", f"{title}, 95 % over tasks and seeds"]


def difference(
    found: Estimate | None, digits: int, one_seed: bool, otherwise: str = "-", sign: str = "+"
) -> str:
    """Write the cells below `difference_head`."""
    if found is None:
        return otherwise if one_seed else f"{otherwise} | -"
    over_tasks = span(found.over_tasks, digits)
    between = " " if one_seed else " | "
    return over_seeds(found, digits, sign) + between + over_tasks


TEMPLATES.globals |= {"table_head": table_head, "difference_head": difference_head}
TEMPLATES.filters |= {
    "fixed": fixed,
    "span": span,
    "over_seeds": over_seeds,
    "difference": difference,
    "trials": lambda stretch: f"trial{'s' if '-' in stretch else ''} {stretch}",
    "commas": lambda value: "-" if value is None else f"{value:,.0f}",
    "millions": lambda value: "-" if value is None else f"{value / 1e6:,.2f}",
    "count_text": lambda mean: f"{mean:.1f}".removesuffix(".0"),
}


@dataclass(frozen=True)
class Section:
    """A part of a page; what only some readers want is folded behind its title."""

    title: str
    body: Markup
    details: Mapping[str, Markup] = field(default_factory=dict)


def fill_markdown(template: str, **values: Any) -> str:
    """Fill a template of Markdown."""
    return re.sub(r"\n{3,}", "\n\n", TEMPLATES.get_template(template).render(values)).strip()


def write_page(path: Path, text: str) -> Path:
    """Write Markdown to a file."""
    atomic_write(path, f"{text}\n".encode(errors="backslashreplace"))
    return path


def to_html(text: str, pictures: Pictures | None = None) -> Markup:
    """Turn Markdown into HTML, with pictures where they are named."""
    renderer = MarkdownIt("commonmark", {"html": False}).enable("table")
    for name in ("link_open", "link_close"):
        renderer.add_render_rule(name, lambda *_: "")
    renderer.add_render_rule("image", _show)
    return Markup(renderer.render(text, {"pictures": pictures or {}}))


def _show(_: Any, tokens: Sequence[Any], place: int, __: Any, env: Mapping[str, Any]) -> str:
    """Show a picture of ours; of any other only what it is said to show."""
    known = env["pictures"].get(unquote(str(tokens[place].attrs["src"])))
    return escape(tokens[place].content) if known is None else picture_html(known)


def picture_html(picture: Picture | Path) -> Markup:
    """Put a picture into the page itself: its panels beside each other, or a GIF."""
    if isinstance(picture, Path):
        content = base64.b64encode(picture.read_bytes()).decode()
        return Markup(TEMPLATES.get_template("film.html").render(content=content))
    panels = [svg(draw) for draw in picture.panels]
    frame = TEMPLATES.get_template("figure.html")
    return Markup(frame.render(panels=panels, title=picture.title, note=picture.note))


def svg(draw: Callable[[Axes], None]) -> Markup:
    """Draw one panel as an SVG element for a page."""
    written = io.StringIO()
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "radt"}
    with matplotlib.rc_context({**settings, "text.parse_math": False}):
        figure = canvas(*PANEL)
        draw(figure.subplots())
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    return inline(written.getvalue())


def inline(text: str) -> Markup:
    """Make an element for a page of a whole SVG file: small, and with names of its own."""
    body = text[text.index("<svg") :].rstrip()
    body = re.sub(r"<(metadata|style)\b.*?</\1>", "", body, flags=re.DOTALL)
    body = re.sub(r"(\.\d\d)\d+(?=[^<>]*>)", r"\1", body)  # numbers in tags, not in text
    body = re.sub(r"(?<=>)\s+(?=<)", "", body)
    own = f"p{hashlib.sha256(body.encode()).hexdigest()[:8]}-"
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', body))
    body = re.sub(r' id="([^"]*)"', lambda n: f' id="{own}{n[1]}"' if n[1] in used else "", body)
    return Markup(re.sub(r'(url\(|href=")#', rf"\g<1>#{own}", body))


def page(sections: Sequence[Section]) -> str:
    """Write a whole page, with a list of its sections on top where there are several."""
    frame, several = TEMPLATES.get_template("page.html"), len(sections) > 1
    title = f"{len(sections)} results of in-context learning" if several else sections[0].title
    return frame.render(title=title, sections=sections, version=released())


def write_html(path: Path, versions: Iterable[Sequence[Section]]) -> Path:
    """Write the first of several versions, the fullest first, that is not too large."""
    size = 0
    for sections in versions:
        content = page(sections).encode(errors="backslashreplace")  # names need not be UTF-8
        if (size := len(content)) <= MOST_BYTES:
            atomic_write(path, content)
            return path
    raise RecordError(
        f"{path} would have {size:,} bytes, more than the {MOST_BYTES:,} of a page that is easily "
        "passed on; report fewer runs at once"
    )
