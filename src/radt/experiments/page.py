"""The page of an experiment, made from its `result.json` alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from radt.experiments.experiment import Row
from radt.metrics import decimals
from radt.plots.tables import plain_table

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
