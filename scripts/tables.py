"""Fill the tables of README.md and docs/ from `results/`.

    python scripts/tables.py [--check]

A table stands between `<!-- table ENV -->` and `<!-- end -->` and is made from
`results/ENV/compare.json`, so that no number on a page is typed by hand. `--check` only says
whether a page is out of date.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"(<!-- table (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
HEAD = (
    *("method", "seeds", "trials 31-40", "trial 1", "trial 10"),
    *("goals found by trial 1 / 5 / 10 / 40", "return after finding", "improves over trials"),
)
REFERENCES = ("replay", "retrace", "sweep")  # they learn nothing and stand last


def table(env: str) -> str:
    """Write an environment's comparison as Markdown."""
    methods = json.loads((ROOT / "results" / env / "compare.json").read_text())["methods"]
    order = sorted(methods, key=lambda name: (name in REFERENCES, name))
    lines = [HEAD, ("---",) + ("---:",) * (len(HEAD) - 1)]
    lines += [row(name, methods[name]) for name in order]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def row(name: str, method: dict[str, Any]) -> tuple[str, ...]:
    """Write one method's line."""
    found = " / ".join(whole(method["found_by"][trial]) for trial in ("1", "5", "10", "40"))
    after = method["after_finding"]
    return (
        f"`{name}`",
        str(method["seeds"]),
        f"**{method['mean_31_40']:.1f}** {interval(method['ci95'] or method['ci95_tasks'])}",
        *(f"{method['at_trial'][trial]:.1f}" for trial in ("1", "10")),
        found,
        "-" if after is None else f"{after:.1f}",
        f"{method['improvement']:+.1f} "
        + interval(method["improves_ci95"] or method["improves_ci95_tasks"]),
    )


def interval(bounds: list[float]) -> str:
    """Write an interval."""
    return f"[{bounds[0]:.1f}, {bounds[1]:.1f}]"


def whole(number: float) -> str:
    """Write a mean of counts, without the decimal where it is a whole number."""
    return f"{number:.1f}".removesuffix(".0")


def filled(text: str) -> str:
    """Put the present numbers into a page's blocks."""
    return BLOCK.sub(lambda found: f"{found[1]}{table(found[2])}{found[3]}", text)


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
