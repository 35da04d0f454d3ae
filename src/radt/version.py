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
    """Return the package's version and, in a checkout, the commit it runs from."""
    if not (CHECKOUT / ".git").exists():  # the commit of whatever surrounds us would mislead
        return released()
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return released()
    return f"{released()}+{described}"
