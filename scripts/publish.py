"""Copy what finished runs say into `results/` and compare them: python scripts/publish.py RUN ...

A run becomes `results/<env>/<method>-seed<k>/` with its record, config, curve and summary; weights
and logs stay behind. Then every record of that environment goes into one table and one plot.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from radt.plots.report import write_comparison

KEPT = ("icl.json", "config.json", "choices.json", "curve.png", "summary.md", "trials.gif")
RESULTS = Path("results")


def publish(run: Path) -> Path:
    """Copy one run and return its environment's folder."""
    record = json.loads((run / "icl.json").read_text())
    folder = RESULTS / record["env"] / f"{record['method']}-seed{record['seed']}"
    folder.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        if (run / name).exists():
            shutil.copyfile(run / name, folder / name)
    return folder.parent


def main(runs: list[str]) -> None:
    """Publish runs and compare all that is published of their environments."""
    for folder in sorted({publish(Path(run)) for run in runs}):
        records = sorted(folder.glob("*-seed*/icl.json"))
        print(write_comparison(records, folder))


if __name__ == "__main__":
    main(sys.argv[1:])
