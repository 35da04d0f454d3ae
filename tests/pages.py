"""The pages that people read, taken apart as tests need them: code, commands, names."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from radt.registry import REGISTRIES

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`([^`]+)`")
SHELL = ("", "sh", "bash")


def name_of(page: Path) -> str:
    """Name a page in the list of tests."""
    return page.stem


def blocks(page: Path, *languages: str) -> list[str]:
    """Return the fenced blocks that are marked as one of some languages."""
    found = FENCED.findall(page.read_text(encoding="utf-8"))
    return [text for language, text in found if language in languages]


def code_of(page: Path) -> str:
    """Join the page's Python as a reader who copies it into one file would."""
    return "\n\n".join(blocks(page, "python"))


def spans_of(page: Path) -> list[str]:
    """Return what the page's running text sets as code."""
    return INLINE.findall(FENCED.sub("", page.read_text(encoding="utf-8")))


def commands_of(page: Path) -> list[list[str]]:
    """Return the words behind `radt` of each command that the page tells to give."""
    lines = [
        line for text in blocks(page, *SHELL) for line in text.replace("\\\n", " ").split("\n")
    ]
    commands = [shlex.split(line, comments=True) for line in lines if "radt" in line]
    return [words for command in commands if (words := _behind_radt(command)) is not None]


def _behind_radt(command: list[str]) -> list[str] | None:
    """Leave out assignments before a command, and torchrun; None: it is not radt's."""
    while command and re.match(r"[A-Z_]+=", command[0]):
        command = command[1:]
    if command[:1] == ["radt"]:
        return command[1:]
    return command[command.index("radt.cli") + 1 :] if "radt.cli" in command else None


def run_page(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the page's Python as one module in a folder; what it registers is forgotten."""
    monkeypatch.chdir(folder)
    for registry in REGISTRIES:
        monkeypatch.setattr(registry, "_items", dict(registry._items))
    torch.set_num_threads(1)
    name = f"page_{page.stem.replace('-', '_')}"
    file = folder / f"{name}.py"
    file.write_text(code_of(page), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # where its dataclasses look for their types
    spec.loader.exec_module(module)
    return module
