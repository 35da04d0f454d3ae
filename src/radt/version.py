"""Which code this is."""

from __future__ import annotations

import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def released() -> str:
    """Return the package's version."""
    try:
        return version("radt")
    except PackageNotFoundError:
        return "unknown"


def code_version() -> str:
    """Return the package's version and, in a checkout, the commit it runs from.

    `-dirty` says that the package's own files differ from that commit; results may come and go.
    """
    if not (CHECKOUT / ".git").exists():  # the commit of whatever surrounds us would mislead
        return released()
    try:
        commit = _git("describe", "--always", "--abbrev=12")
        changed = _git("status", "--porcelain", "--", "src", "pyproject.toml")
    except (OSError, subprocess.SubprocessError):
        return released()
    return f"{released()}+{commit}{'-dirty' if changed else ''}"


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=CHECKOUT, capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout.strip()
