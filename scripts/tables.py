"""Fill the tables of README.md and docs/ from `results/`.

    python scripts/tables.py [--check]

A table stands between `<!-- table ENV -->` and `<!-- end -->` and is made from
`results/ENV/compare.json`, so that no number on a page is typed by hand. `<!-- table ENV on X -->`
asks for a variant X such as `training-tasks`. `--check` only says whether a page is out of date.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from radt.old_names import translated
from radt.plots.style import dashes_of

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"(<!-- table (\S+)(?: on (\S+))? -->\n).*?(<!-- end -->)", re.DOTALL)


def table(place: str, variant: str | None) -> str:
    """Write a comparison as Markdown, on the environment's own tasks or on a variant of them."""
    record = json.loads((ROOT / "results" / place / "compare.json").read_text())
    trials = record["trials"]
    shown = record if variant is None else record["variants"][variant]
    methods, decimals = shown["methods"], 1 if shown["optimum"] > 10 else 2
    order = sorted(methods, key=lambda name: (bool(dashes_of(name)), name))
    head = (
        *("method", "seeds", f"trials {trials - 9}-{trials}", "trial 1", "trial 10"),
        f"solved by trial 1 / 5 / 10 / {trials}",
        *("return after success", "improves over trials"),
    )
    lines = [head, ("---",) + ("---:",) * (len(head) - 1)]
    lines += [row(name, methods[name], trials, decimals) for name in order]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def row(name: str, method: dict[str, Any], trials: int, decimals: int) -> tuple[str, ...]:
    """Write one method's line."""
    method = translated(method, ("solved_by", "return_after_success"))
    found = " / ".join(whole(method["solved_by"][trial]) for trial in ("1", "5", "10", str(trials)))
    after, late = method["return_after_success"], method[f"mean_{trials - 9}_{trials}"]
    bounds = method["improves_ci95"]
    alone = bounds[0] > 0 and not method["improves"]  # by seeds, and not by tasks and seeds
    improves = interval(bounds, decimals) + (" but not over tasks" if alone else "")
    return (
        f"`{name}`",
        str(method["seeds"]),
        f"**{late:.{decimals}f}** {interval(method['ci95'], decimals)}",
        *(f"{method['at_trial'][trial]:.{decimals}f}" for trial in ("1", "10")),
        found,
        "-" if after is None else f"{after:.{decimals}f}",
        f"{method['improvement']:+.{decimals}f} {improves}",
    )


def interval(bounds: list[float], decimals: int) -> str:
    """Write an interval."""
    return f"[{bounds[0]:.{decimals}f}, {bounds[1]:.{decimals}f}]"


def whole(number: float) -> str:
    """Write a mean of counts, without the decimal where it is a whole number."""
    return f"{number:.1f}".removesuffix(".0")


def filled(text: str) -> str:
    """Put the present numbers into a page's blocks."""
    return BLOCK.sub(lambda found: f"{found[1]}{table(found[2], found[3])}{found[4]}", text)


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
