"""The verb that writes a first file for somebody's own suite, method or dataset."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from radt.commands.flags import Verb, styled
from radt.errors import RunError

TEMPLATES = Path(__file__).with_name("templates")
ROOM = "dark-room-10x10"
NEXT = {
    "suite": (
        "radt envs check {name}",
        "radt run {name} --budget smoke --out runs/{name}-smoke",
        "radt run {name} --method ra-dt --out runs/{name}",
    ),
    "method": (
        f"radt run {ROOM} --method {{name}} --budget smoke --out runs/{{name}}-smoke",
        f"radt config show {ROOM} --method {{name}}",
        f"radt compare {ROOM} --methods {{name}},ra-dt --dry-run",
    ),
    "dataset": (
        f"radt collect {ROOM} --set source={{name}}",
        f"radt run {ROOM} --budget smoke --set source={{name}} --out runs/{{name}}-smoke",
        f"radt run {ROOM} --set source={{name}} --out runs/{{name}}",
    ),
}


@dataclass(frozen=True, kw_only=True)
class NewVerb(Verb):
    """Write a first file of one's own that works at once: a suite, a method or a dataset.

    A suite is CartPole with hidden pushes, a method behaviour cloning, a dataset the record of an
    oracle. What to change is numbered in the file.

    Try:
      radt new suite my-poles
      radt new method my-method --out methods/mine.py
    """

    kind: Positional[Literal["suite", "method", "dataset"]]  # what it is
    name: Annotated[Positional[str], arg(metavar="NAME")]  # what commands call it
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """The file (default: NAME.py)."""

    def execute(self) -> None:
        self._check()
        out = self.out or Path(re.sub(r"\W", "_", self.name) + ".py")
        text = (TEMPLATES / f"{self.kind}.py").read_text(encoding="utf-8")
        try:
            with out.open("x", encoding="utf-8") as file:
                file.write(text.replace('NAME = "template"', f'NAME = "{self.name}"', 1))
        except FileExistsError:
            raise RunError(f"{out} is there already; choose another with --out FILE") from None
        commands = [f"RADT_PLUGINS={out} {line.format(name=self.name)}" for line in NEXT[self.kind]]
        shown = styled("[bold]{}[/] is written; what to change is numbered in it. Next:", out)
        self.common.answer({"file": str(out), "next": commands}, shown, *commands)

    def _check(self) -> None:
        """Refuse a name that is taken, or that cannot name a folder."""
        from radt.collect import SOURCES
        from radt.data.manifest import is_plain_name
        from radt.envs import SUITES
        from radt.variants import variant_names

        taken = {"suite": SUITES.names, "method": variant_names, "dataset": SOURCES.names}
        if not is_plain_name(self.name):
            raise RunError(f"{self.name!r} names folders, so use letters, digits and . _ -")
        if self.name in taken[self.kind]():
            raise RunError(f"there is a {self.kind} {self.name!r} already; choose another name")
