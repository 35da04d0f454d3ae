"""The verb that explains options: type, default, meaning, presets and the paper's value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from radt.commands.flags import Verb, plain_columns, styled

if TYPE_CHECKING:
    from rich.console import RenderableType

    from radt.runs.options import Option

EVERY = "every run"


@dataclass(frozen=True, kw_only=True)
class ExplainVerb(Verb):
    """Explain an option: its type, default and meaning, what presets make of it, and the paper.

    The last word of a name is enough. The beginning of one lists what is below it, and no name all
    groups.

    Try:
      radt config explain
      radt config explain options.memory
      radt config explain options.memory.alpha
      radt config explain alpha --env maze-runner-15x15
    """

    name: Annotated[Positional[str | None], arg(metavar="NAME", help_behavior_hint="")] = None
    """An option as `--set` has it, or a group of them."""
    env: str = "dark-room-10x10"  # whose presets are shown

    def execute(self) -> None:
        from radt.runs.options import all_options, meant

        found = all_options() if self.name is None else meant(self.name)
        listed = [{**asdict(one), "of": of} for one, of in found.items()]
        paths = {one.path for one in found}
        if self.name is None:
            self.common.answer({"options": listed}, *show_groups(found))
        elif len(paths) > 1:
            self.common.answer({"options": listed}, show_options(found))
        else:
            presets = described(paths.pop(), self.env)
            self.common.answer({"options": listed, **presets}, *show_option(found, presets))


def described(path: str, env: str) -> dict[str, Any]:
    """Say what presets and the paper make of an option."""
    from radt.runs.options import by_environment, by_paper, by_row

    rows, others = by_row(path, env), by_environment(path, env)
    return {
        "env": env,
        "values": [{"budgets": values, "for": names} for values, names in rows.items()],
        "elsewhere": [{"budgets": values, "for": names} for values, names in others.items()],
        "paper": by_paper(path),
    }


def show_groups(found: Mapping[Option, list[str]]) -> Iterator[RenderableType]:
    """Name the options of each group."""
    table = plain_columns(["group"], where="options")
    groups: dict[str, dict[str, None]] = {}
    for one in found:
        group, _, name = one.path.rpartition(".")
        groups.setdefault(group or "-", {})[name] = None
    for group, names in groups.items():
        table.add_row(group, ", ".join(names))
    yield table
    yield styled("[dim]radt config explain GROUP lists its options, and NAME explains one[/]")


def show_options(found: Mapping[Option, list[str]]) -> RenderableType:
    """List options."""
    table = plain_columns(["option", "type", "default", "of"], where="meaning")
    for one, of in found.items():
        table.add_row(one.path, one.kind, one.default, ", ".join(of) or EVERY, one.meaning)
    return table


def show_option(
    found: Mapping[Option, list[str]], presets: Mapping[str, Any]
) -> Iterator[RenderableType]:
    """Explain one option; methods, embedders or sources may have different ones of a name."""
    for one, of in found.items():
        yield styled("[bold]{}[/]  {}, default {}", one.path, one.kind, one.default)
        yield styled("  {} [dim](of {})[/]", one.meaning, ", ".join(of) or EVERY)
    yield values_table(f"on {presets['env']}", presets["values"])
    if presets["elsewhere"]:
        yield values_table("elsewhere", presets["elsewhere"])
    for one in presets["paper"]:
        yield styled("the paper: [bold]{}[/] for {}", one["value"], ", ".join(one["rows"]))
        yield styled("  [dim]{}: {}[/]", one["where"], ", ".join(one["envs"]))
    yield styled("[dim]to change it: --set {}=VALUE[/]", next(iter(found)).path)


def values_table(title: str, lines: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Show values budget by budget, and for what they are."""
    from radt.runs.options import BUDGETS

    table = plain_columns([title], BUDGETS)
    table.columns[0].no_wrap = False
    for line in lines:
        table.add_row(", ".join(line["for"]), *line["budgets"])
    return table
