"""Curves as inline SVG that follows the page from light to dark.

They are drawn by the same functions as the PNGs and written by Matplotlib's own SVG backend: a
second way of drawing would be a second place to be wrong. Text stays text, so a phone's own font
is used and names can be found and copied. Every colour becomes a CSS variable, whose dark twin
keeps the hue and turns the lightness. A panel is as narrow as a phone and stands beside the next
where there is room. A curve takes 6 to 20 KB.
"""

from __future__ import annotations

import colorsys
import hashlib
import io
import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import matplotlib
from matplotlib.axes import Axes

from radt.plots.curves import draw_found, draw_returns, icl_note, icl_title
from radt.plots.learning import draw_learning, learning_note, learning_of, learning_title
from radt.plots.records import Record, digits_of, outcomes
from radt.plots.source import NOTE, TITLE, SourceCurve, draw_curves
from radt.plots.style import canvas

PANEL = (5.4, 3.6)  # inches; a phone shows it at about its natural size
FONT = "system-ui, sans-serif"
GREY, BRIGHT, VERY_LIGHT = 0.2, 0.6, 0.8  # saturation; lightness in the dark, and of faint lines
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "radt",
    "text.parse_math": False,
}

Draw = Callable[[Axes], None]


def icl_picture(records: Sequence[Record], variant: str | None = None) -> str:
    """Show returns by trial and, of several methods, goals found by trial."""
    shown = outcomes(records, variant)
    panels: list[Draw] = [lambda axes: draw_returns(axes, shown)]
    if len(shown) > 1:
        panels.append(lambda axes: draw_found(axes, shown))
    return framed(panels, icl_title(shown, records), icl_note(shown))


def learning_picture(records: Sequence[Record]) -> str:
    """Show what validation tasks return during training."""
    shown, digits = learning_of(records), digits_of(records)
    panels: list[Draw] = [lambda axes: draw_learning(axes, shown, digits)]
    return framed(panels, learning_title(records), learning_note(records))


def source_picture(curves: Sequence[SourceCurve]) -> str:
    """Show what the data source earned while it was recorded."""
    return framed([lambda axes: draw_curves(axes, curves)], TITLE, NOTE)


def framed(panels: Sequence[Draw], title: str, note: str) -> str:
    """Put panels beside each other where there is room, with a note below."""
    drawn = "".join(svg(draw, title) for draw in panels)
    return f'<span class="pictures">{drawn}<small>{escape(title)}; {escape(note)}</small></span>'


def svg(draw: Draw, title: str) -> str:
    """Draw one panel as an SVG element without a colour of its own."""
    written = io.StringIO()
    with matplotlib.rc_context(SETTINGS):
        figure = canvas(*PANEL)
        draw(figure.subplots())
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    return inline(written.getvalue(), title)


def inline(text: str, title: str) -> str:
    """Make an element for a page of a whole SVG file: small, named, and in the page's colours."""
    body = text[text.index("<svg") :].rstrip()
    body = re.sub(r"<(metadata|style)\b.*?</\1>", "", body, flags=re.DOTALL)
    body = re.sub(r"<[^>]*>", lambda tag: _plain(tag[0]), _own_names(body))
    body = re.sub(r"<g/>|(?<=>)\s+(?=<)", "", body)
    opening, rest = body.split(">", maxsplit=1)
    box = re.search(r'viewBox="[^"]*"', opening)
    return f'<svg {box[0] if box else ""} role="img" aria-label="{escape(title)}">{rest}'


def _plain(tag: str) -> str:
    """Shorten the numbers of a tag, name its colours and leave the font to the page."""
    tag = re.sub(r"(?<=: )#([0-9a-f]{6})\b", r"var(--c\1)", tag)
    tag = re.sub(r"'DejaVu Sans'[^;\"]*", FONT, tag)
    tag = re.sub(r"-?\d+\.\d{2,}", lambda number: f"{float(number[0]):.4g}", tag)
    return re.sub(r"\s+", " ", tag)


def _own_names(body: str) -> str:
    """Keep only the names that a picture refers to, and make them its own in the whole page."""
    own = f"p{hashlib.sha256(body.encode()).hexdigest()[:8]}-"
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', body))
    body = re.sub(
        r' id="([^"]*)"', lambda name: f' id="{own}{name[1]}"' if name[1] in used else "", body
    )
    return re.sub(r'(url\(|href=")#', rf"\g<1>#{own}", body)


def colour_rules(page: str) -> str:
    """Write what each colour of a page's pictures is, in light and in dark."""
    used = sorted(set(re.findall(r"var\(--c([0-9a-f]{6})\)", page)))
    if not used:
        return ""
    light = " ".join(f"--c{colour}: #{colour};" for colour in used)
    dark = " ".join(f"--c{colour}: #{in_the_dark(colour)};" for colour in used)
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"


def in_the_dark(colour: str) -> str:
    """Return the twin of a colour, `rrggbb`, that is as easy to see on a dark page."""
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (0, 2, 4))
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    if saturation > GREY:
        twin = colorsys.hls_to_rgb(hue, max(lightness, BRIGHT), saturation)
    else:
        kept = 1 - VERY_LIGHT < 1 - lightness <= 0.5  # neither text nor the lines of a grid
        twin = colorsys.hls_to_rgb(hue, lightness if kept else 1.08 - lightness, saturation)
    return "".join(f"{round(255 * min(part, 1.0)):02x}" for part in twin)
