"""Fill the tables of README.md and docs/ from `results/`.

    python scripts/tables.py [--check]

A table stands between `<!-- table ENV -->` and `<!-- end -->`, or `ENV/wall-5min`, and is made from
the `result.json` of the experiment that has its rows, so that no number on a page is typed by hand.
`<!-- table ENV on train -->` asks for other tasks, `<!-- claims -->` for what came of each claim of
the paper and `<!-- verdicts -->` for the same in a line. `--check` only says whether a page is out
of date.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from claims import claims_summary, claims_table

from radt.plots.style import dashes_of

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCK = re.compile(
    r"(<!-- (table|claims|verdicts)(?: (\S+))?(?: on (\S+))? -->\n).*?(<!-- end -->)", re.DOTALL
)


def rows_of(place: str, tasks: str) -> list[dict[str, Any]]:
    """Find the rows of an environment, or of one at equal time, in the results of experiments."""
    env, _, wall = place.partition("/")
    minutes = float(wall.removeprefix("wall-").removesuffix("min")) if wall else None
    results = [json.loads(file.read_text()) for file in sorted(RESULTS.glob("*/result.json"))]
    found: dict[str, dict[str, Any]] = {}
    for row in (row for one in results if one["kind"] == "compare" for row in one["rows"]):
        if (row["env"], row["wall_minutes"], row["tasks"]) == (env, minutes, tasks):
            found.setdefault(row["label"], row)  # its first rule
    return sorted(found.values(), key=lambda row: (bool(dashes_of(row["label"])), row["label"]))


def table(place: str, tasks: str) -> str:
    """Write a comparison as Markdown, on unseen tasks or on others."""
    rows = rows_of(place, tasks)
    trials, decimals = rows[0]["trials"], 1 if rows[0]["optimum"] > 10 else 2
    head = (
        *("method", "seeds", f"trials {trials - 9}-{trials}", "trial 1", "trial 10"),
        f"solved by trial 1 / 5 / 10 / {trials}",
        *("return after success", "improves over trials"),
    )
    lines = [head, ("---",) + ("---:",) * (len(head) - 1)]
    lines += [line(row, trials, decimals) for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n" + conditions(rows)


def conditions(rows: list[dict[str, Any]]) -> str:
    """Say under a table which rows act by which rule, and which have older values."""
    groups: dict[str, list[str]] = {}
    for row in (row for row in rows if row["rule"] is not None):
        said = ", ".join(filter(None, (f"rule `{row['rule']}`", row["condition"])))
        groups.setdefault(said, []).append(row["label"])
    told = [f"{said}: {', '.join(f'`{name}`' for name in own)}" for said, own in groups.items()]
    return f"\n*By the {'; by the '.join(groups if len(groups) == 1 else told)}.*\n" if told else ""


def line(row: dict[str, Any], trials: int, decimals: int) -> tuple[str, ...]:
    """Write one row's line."""
    found = " / ".join(whole(row["solved_by"][trial]) for trial in ("1", "5", "10", str(trials)))
    after, bounds = row["return_after_success"], row["gain_ci95"]
    alone = bounds[0] > 0 and row["gain_ci95_tasks"][0] <= 0  # by seeds, not by tasks and seeds
    improves = interval(bounds, decimals) + (" but not over tasks" if alone else "")
    return (
        f"`{row['label']}`",
        str(row["seeds"]),
        f"**{row['score']:.{decimals}f}** {interval(row['ci95'], decimals)}",
        *(f"{row['at_trial'][trial]:.{decimals}f}" for trial in ("1", "10")),
        found,
        "-" if after is None else f"{after:.{decimals}f}",
        f"{row['gain']:+.{decimals}f} {improves}",
    )


def interval(bounds: list[float], decimals: int) -> str:
    """Write an interval."""
    return f"[{bounds[0]:.{decimals}f}, {bounds[1]:.{decimals}f}]"


def whole(number: float) -> str:
    """Write a mean of counts, without the decimal where it is a whole number."""
    return f"{number:.1f}".removesuffix(".0")


def content(block: re.Match[str]) -> str:
    """Write what belongs into a block."""
    _, kind, place, tasks, _ = block.groups()
    if kind == "table":
        return table(place, tasks or "eval")
    return claims_table(RESULTS) if kind == "claims" else claims_summary(RESULTS)


def filled(text: str) -> str:
    """Put the present numbers into a page's blocks."""
    return BLOCK.sub(lambda block: block[1] + content(block) + block[5], text)


def main(arguments: list[str]) -> int:
    """Fill the pages, or say which are out of date."""
    stale = [page for page in PAGES if filled(page.read_text()) != page.read_text()]
    for page in stale:
        if "--check" in arguments:
            print(f"{page.relative_to(ROOT)} is out of date; run python scripts/tables.py")
        else:
            page.write_text(filled(page.read_text()))
            print(f"{page.relative_to(ROOT)} written")
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
