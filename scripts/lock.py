"""Write constraints.txt: the exact versions that the environment of this Python holds.

Only what radt and its extras need is listed, found by walking the installed packages' own
requirements. Local tags such as `+cpu` are left out, so that the same file serves every build of a
version, and so are folders, options and hosts: where packages come from is pip's affair.
"""

from __future__ import annotations

import argparse
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

HEADER = """\
# Written by `make lock`; do not edit by hand. Use it with every install:
#   pip install -c constraints.txt -e ".[{extras}]"
"""


def needed(root: str, extras: set[str]) -> set[str]:
    """Return the normalised names of all packages that `root[extras]` needs, without `root`."""
    done: set[tuple[str, str]] = set()
    todo = [(canonicalize_name(root), extra) for extra in ("", *sorted(extras))]
    while todo:
        name, extra = todo.pop()
        if (name, extra) in done:
            continue
        done.add((name, extra))
        for line in metadata.requires(name) or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                wanted = canonicalize_name(requirement.name)
                todo += [(wanted, inner) for inner in ("", *requirement.extras)]
    return {name for name, _ in done} - {canonicalize_name(root)}


def pin(name: str) -> str:
    """Return `name==version`, without a local tag."""
    return f"{name}=={Version(metadata.version(name)).public}"


def constraints(root: str, extras: list[str]) -> str:
    """Return the text of constraints.txt."""
    pins = sorted(pin(name) for name in needed(root, set(extras)))
    return HEADER.format(extras=",".join(extras)) + "\n".join(pins) + "\n"


def main() -> None:
    """Read the command line and write the file."""
    parser = argparse.ArgumentParser(description="Write the versions in use as constraints.")
    parser.add_argument("--extras", default="", help="extras of radt, separated by commas")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    options = parser.parse_args()
    text = constraints("radt", [extra for extra in options.extras.split(",") if extra])
    options.out.write_text(text, encoding="utf-8")
    print(f"{options.out}: {text.count('==')} versions")


if __name__ == "__main__":
    main()
