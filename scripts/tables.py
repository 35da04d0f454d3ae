"""Fill the tables of README.md and docs/ from `results/`.

    python scripts/tables.py [--check]

A block stands between `<!-- KIND ... -->` and `<!-- end -->` and is made from the `result.json` of
experiments, so that no number in it is typed by hand. `--check` only says whether a page is out of
date.

    table ENV [on TASKS]   rows as they are measured now, by the rule of the main tables
    older ENV [on TASKS]   rows whose records have older values; ENV/wall-5min: at equal time
    domains                one line for each domain, one number for each method
    claim ENTRY            what the paper claims, what came of it, and the command
    claims, verdicts       what came of all claims, as a table and in a line
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from claims import claims_summary, claims_table, entry_claims

from radt.experiments.experiment import EXPERIMENTS, OLDER
from radt.metrics import decimals
from radt.plots.style import dashes_of
from radt.plots.tables import plain_table

Row = dict[str, Any]

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
KINDS = "table|older|domains|claim|claims|verdicts"
BLOCK = re.compile(rf"(<!-- ({KINDS})(?: (\S+))?(?: on (\S+))? -->\n).*?(<!-- end -->)", re.DOTALL)
DOMAINS = {  # of the README: environment and tasks, by what a reader calls them
    "Dark-Room 10x10": ("dark-room-10x10", "eval"),
    "Key-Door 10x10": ("dark-key-door-10x10", "eval"),
    "MazeRunner 15x15": ("maze-runner-15x15", "eval"),
    "hidden goal, control": ("point-robot", "eval"),
    "Meta-World ML5": ("meta-world", "eval"),
    "DMControl DMC5": ("dm-control", "eval"),
    "Procgen PG4": ("procgen", "eval"),
}
LEARNED = ("dt", "ad", "dpt", "ra-dt", "ra-dt-tuned")
SCRIPTED = ("random", "nearest", "replay")
NOTHING = "*Not measured by the fixed rule yet.*\n"


def rows_of(place: str, tasks: str, condition: str) -> list[Row]:
    """Find the rows of an environment, or of one at equal time, in the results of experiments."""
    env, _, wall = place.partition("/")
    minutes = float(wall.removeprefix("wall-").removesuffix("min")) if wall else None
    files = sorted(RESULTS.glob("*/result.json"))
    whole = [file for file in files if not EXPERIMENTS[file.parent.name].ablates]
    results = [json.loads(file.read_text()) for file in whole]
    found: dict[str, Row] = {}
    for row in (row for one in results if one["kind"] == "compare" for row in one["rows"]):
        where = (row["env"], row["wall_minutes"], row["tasks"], row["condition"])
        if where == (env, minutes, tasks, condition):
            found.setdefault(row["label"], row)  # its first rule
    return sorted(found.values(), key=lambda row: (bool(dashes_of(row["label"])), row["label"]))


def table(place: str, tasks: str, condition: str = "") -> str:
    """Write a comparison as Markdown; columns that say nothing of any row are left out."""
    rows = rows_of(place, tasks, condition)
    if not rows:
        return NOTHING
    trials = rows[0]["trials"]
    head = (
        *("method", "seeds", f"trials {trials - 9}-{trials}", "of the optimum"),
        *("its memory buys", "trial 1", "trial 10", f"solved by trial 1 / 5 / 10 / {trials}"),
        "late - early",
    )
    lines = [line(row, trials) for row in rows]
    said = [n for n in range(len(head)) if any(line[n] != "-" for line in lines)]
    cells = [[line[n] for n in said] for line in lines]
    return plain_table([head[n] for n in said], cells) + "\n" + rule_of(rows)


def rule_of(rows: list[Row]) -> str:
    """Say under a table which rule its rows act by."""
    rules = dict.fromkeys(row["rule"] for row in rows if row["rule"] is not None)
    return f"\n*By the rule `{'`, `'.join(rules)}`.*\n" if rules else ""


def line(row: Row, trials: int) -> list[str]:
    """Write one row's line."""
    n, solved = decimals(row["optimum"]), row["solved_by"]
    return [
        f"`{row['label']}`",
        str(row["seeds"]),
        f"**{row['score']:.{n}f}** {interval(row['ci95'], n)}",
        "-" if row["normalised"] is None else f"{row['normalised']:.0%}",
        signed(row["improves"], row["improves_ci95"], n),
        *(f"{row['at_trial'][trial]:.{n}f}" for trial in ("1", "10")),
        " / ".join(whole(solved[trial]) for trial in ("1", "5", "10", str(trials)))
        if solved
        else "-",
        signed(row["gain"], row["gain_ci95"], n),
    ]


def domains() -> str:
    """Write one line for each domain, with one number and its interval for each method."""
    lines = []
    for name, place in DOMAINS.items():
        rows = {row["label"]: row for row in rows_of(*place, "")}
        best = max((rows[label]["score"] for label in LEARNED if label in rows), default=None)
        lines.append([name, *(number(rows.get(label), best) for label in (*SCRIPTED, *LEARNED))])
    table = plain_table(["", *(f"`{label}`" for label in (*SCRIPTED, *LEARNED))], lines)
    return f"{table}\n\n\\* Fewer than three seeds.\n"


def number(row: Row | None, best: float | None) -> str:
    """Write a score with its interval, marked where there are fewer than three seeds."""
    if row is None:
        return "-"
    n, mark = decimals(row["optimum"]), "**" if row["score"] == best else ""
    few = "" if row["seeds"] > 2 or row["label"] in SCRIPTED else r"\*"
    return f"{mark}{row['score']:.{n}f}{mark}{few} {interval(row['ci95'], n)}"


def signed(mean: float | None, bounds: list[float] | None, decimals: int) -> str:
    """Write a difference with its interval."""
    if mean is None or bounds is None:
        return "-"
    return f"{mean:+.{decimals}f} {interval(bounds, decimals)}"


def interval(bounds: list[float], decimals: int) -> str:
    """Write an interval."""
    return f"[{bounds[0]:.{decimals}f}, {bounds[1]:.{decimals}f}]"


def whole(number: float) -> str:
    """Write a mean of counts, without the decimal where it is a whole number."""
    return f"{number:.1f}".removesuffix(".0")


def content(block: re.Match[str]) -> str:
    """Write what belongs into a block."""
    _, kind, place, tasks, _ = block.groups()
    made = {
        "table": lambda: table(place, tasks or "eval"),
        "older": lambda: table(place, tasks or "eval", OLDER),
        "domains": domains,
        "claim": lambda: entry_claims(place, RESULTS),
        "claims": lambda: claims_table(RESULTS),
        "verdicts": lambda: claims_summary(RESULTS),
    }
    return made[kind]()


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
