"""What a reader sees of an experiment: its page, made from `result.json` alone, and pictures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from radt.experiments.experiment import Row
from radt.metrics import decimals
from radt.plots.style import FAINT, INK, PALE, SPARE_COLOURS, Picture, plain_axes
from radt.plots.tables import plain_table

Point = tuple[float, float, float]  # mean, and how far its interval goes below and above

IMPROVES = (
    "*Improves* is the score minus that of the same weights with memories erased before each trial."
)
DASH = (
    "A dash means that this was not measured: the weights are older than the measurement and were "
    "not kept."
)
BESIDE = "Beside it stands the older difference, late minus early trials."


def page(result: Mapping[str, Any]) -> str:
    """Write a result in Markdown."""
    parts = [
        f"# {result['entry']}",
        result["paper"],
        claims_list(result["claims"]),
        result["note"],
        *(f"**{name}**: {told}" for name, told in result["findings"].items()),
        *(f"`{label}` is left out: {why}" for label, why in result.get("skipped", {}).items()),
        *measured(result),
        *(f"![{name}]({name})" for name in result["pictures"]),
        f"Made by `radt reproduce {result['entry']}` at {result['budget']} budget; the same for "
        "programs: [result.json](result.json).",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def measured(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tables of a result: its summary, or its rows by what they were measured on."""
    if summary := result.get("summary"):
        yield plain_table(list(summary[0]), [list(map(_told, row.values())) for row in summary])
        return
    groups: dict[str, list[Row]] = {}  # by what they were measured on
    for row in result["rows"]:
        wall = row.get("wall_minutes")
        time = "" if wall is None else f", {wall:g} minutes of training"
        groups.setdefault(f"{row['env']}, {row['tasks']} tasks{time}", []).append(row)
    for title, same in groups.items():
        yield f"## {title}\n\n{rows_table(same)}"
    if result["rows"] and result["kind"] != "bench":
        missing = any(row.get("improves") is None for row in result["rows"])
        yield " ".join([IMPROVES, *([DASH] if missing else []), BESIDE])


def _told(value: Any) -> str:
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def claims_list(claims: Mapping[str, Mapping[str, str]]) -> str:
    """Say what came of each claim, of those with one answer together."""
    told: dict[tuple[str, str], list[str]] = {}
    for claim, verdict in claims.items():
        told.setdefault((verdict["word"], verdict["why"]), []).append(claim)
    return "\n".join(
        f"- {', '.join(names)}: **{word}**. {why[:1].upper()}{why[1:]}."
        for (word, why), names in told.items()
    )


def rows_table(rows: Sequence[Row]) -> str:
    """Write rows as a table; columns that say nothing of any row are left out."""
    head = ["row", "rule", "seeds", "score", "improves", "late - early", "of the optimum", "tries"]
    lines = [_line(row) for row in rows]
    said = [n for n, _ in enumerate(head) if any(line[n] != "-" for line in lines)]
    return plain_table([head[n] for n in said], [[line[n] for n in said] for line in lines])


def _line(row: Row) -> list[str]:
    n = decimals(row.get("optimum"))
    condition = f", {row['condition']}" if row.get("condition") else ""
    share = row.get("normalised")
    return [
        f"`{row['label']}`{condition}",
        str(row.get("rule") or "-"),
        str(row.get("seeds", 1)),
        f"{row['score']:.{n}f} {_interval(row['ci95'], n)}",
        _signed(row.get("improves"), row.get("improves_ci95"), n),
        _signed(row["gain"], row.get("gain_ci95"), n),
        "-" if share is None else f"{share:.0%}",
        "-" if row.get("tries") is None else str(row["tries"]),
    ]


def _signed(mean: float | None, bounds: Sequence[float] | None, n: int) -> str:
    if mean is None:
        return "-"
    return f"{mean:+.{n}f}" + ("" if bounds is None else f" {_interval(bounds, n)}")


def _interval(bounds: Sequence[float], n: int) -> str:
    return f"[{bounds[0]:.{n}f}, {bounds[1]:.{n}f}]"


def arms_picture(rows: Sequence[Row], file: Path) -> Path:
    """Draw each row's score with its interval by the rules that all acted by; the first changed."""
    labels = list(dict.fromkeys(row["label"] for row in rows))
    by_rule: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_rule[row["rule"]].append(row)
    shown = {rule: own for rule, own in by_rule.items() if len(own) == len(labels)} or by_rule
    rules = list(shown)

    def panel(rule: str) -> Callable[[Axes], None]:
        def draw(axes: Axes) -> None:
            for row in shown[rule]:
                place, first = -labels.index(row["label"]), row["label"] == labels[0]
                low, high = row["ci95"]
                axes.plot([low, high], [place, place], color=INK if first else PALE, linewidth=1.4)
                axes.plot(row["score"], place, "o", color=INK if first else SPARE_COLOURS[4])
                if first:
                    axes.axvline(row["score"], color=FAINT, linewidth=1.2, zorder=0)
            plain_axes(axes, f"rule {rule}" if rule else "no rule", "score")
            axes.set_yticks([-n for n, _ in enumerate(labels)], labels)
            axes.set_ylim(-len(labels) + 0.4, 0.6)
            axes.grid(axis="x", color=FAINT, linewidth=0.7)

        return draw

    env, tasks = rows[0]["env"], rows[0]["tasks"]
    note = "mean return of late trials; lines: 95 % over seeds within tasks, or over tasks"
    size = (3.6 * len(rules) + 1.0, 1.4 + 0.28 * len(labels))
    panels = [panel(rule) for rule in rules]
    title = f"{env}, {tasks} tasks"
    return Picture(panels, title, note, size, (1.0,) * len(panels)).save(file)


def draw_series(
    axes: Axes, ticks: Sequence[str], series: Mapping[str, Sequence[Point | None]]
) -> None:
    """Draw lines over named places, with intervals; a point that is not measured is left out."""
    for (name, points), colour in zip(series.items(), SPARE_COLOURS, strict=False):
        known = [(place, *point) for place, point in enumerate(points) if point is not None]
        if not known:
            continue
        at, mean, below, above = zip(*known, strict=True)
        axes.errorbar(
            at,
            mean,
            [below, above],
            color=colour,
            marker="o",
            markersize=4,
            linewidth=1.6,
            elinewidth=1.0,
            label=name,
        )
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set_xlim(-0.4, len(ticks) - 0.6)
    if len(series) > 1:
        axes.legend(fontsize=8, frameon=False, labelcolor=INK)
