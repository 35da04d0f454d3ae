"""Count what a reader of the project has to hold in their head.

    python scripts/count.py            # as a table
    python scripts/count.py --json     # as one line of JSON
    python scripts/count.py --names    # every public name that is defined twice, and where

"Files entered" are the files of `radt` in which a function is called, imports apart: what somebody
opens who follows a run, or one decision of an agent, with a debugger.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import json
import os
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "radt"


def lines_of(folder: Path) -> int:
    """Count the lines of all Python files below a folder."""
    return sum(len(path.read_text().splitlines()) for path in folder.rglob("*.py"))


def defined_twice() -> dict[str, list[str]]:
    """Return public classes and functions of modules that have more than one definition."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            named = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            if named and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(SOURCE)))
    return {name: where for name, where in sorted(homes.items()) if len(where) > 1}


def files_entered(work: Callable[[], object]) -> set[str]:
    """Return the files of `radt` in which a function was called while something ran."""
    entered: set[str] = set()
    inside = str(SOURCE) + os.sep

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        function = frame.f_code.co_flags & inspect.CO_OPTIMIZED  # not a module or a class
        if event == "call" and function and frame.f_code.co_filename.endswith(".py"):
            entered.add(frame.f_code.co_filename)

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return {name.removeprefix(inside) for name in entered if name.startswith(inside)}


def smoke_run() -> None:
    """Collect, train, evaluate and report once, in this process."""
    from radt.cli import main

    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            words = ["run", "dark-room-10x10", "--method", "ra-dt", "--budget", "smoke"]
            with redirect_stdout(io.StringIO()):
                failed = main([*words, "--workers", "1", "--out", "run", "--quiet"])
            if failed:
                raise SystemExit("the smoke run failed")
        finally:
            os.chdir(here)


def one_run() -> set[str]:
    """Return the files that a smoke run enters; one before it imports what is needed."""
    smoke_run()
    return files_entered(smoke_run)


def one_decision() -> set[str]:
    """Return the files that one `agent.act` enters, with something in the memory."""
    import gymnasium

    import radt

    agent = radt.load(radt.shipped("dark-room-10x10")).agent()
    env = gymnasium.make("radt/DarkRoom-10x10-v0", task=85)
    agent.start_task()
    while not agent.memory:
        obs, _ = env.reset()
        done = False
        while not done:
            obs, reward, terminated, truncated, _ = env.step(agent.act(obs))
            agent.observe(reward, terminated, truncated)
            done = terminated or truncated
    obs, _ = env.reset()
    return files_entered(lambda: agent.act(obs))


def count() -> dict[str, int]:
    """Return all counts by name."""
    return {
        "lines of src": lines_of(ROOT / "src"),
        "lines of tests": lines_of(ROOT / "tests"),
        "files of src": len(list(SOURCE.rglob("*.py"))),
        "files entered by radt run (smoke)": len(one_run()),
        "files entered by one agent.act": len(one_decision()),
        "public names defined twice": len(defined_twice()),
    }


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description="Count what a reader has to hold in their head.")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("--names", action="store_true", help="list names that are defined twice")
    chosen = parser.parse_args()
    if chosen.names:
        for name, homes in defined_twice().items():
            print(f"{name:28} {', '.join(homes)}")
        return
    counts = count()
    if chosen.json:
        print(json.dumps(counts))
        return
    for name, number in counts.items():
        print(f"{number:>7,}  {name}")


if __name__ == "__main__":
    main()
