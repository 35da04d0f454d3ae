"""The verbs that only look: which environments there are, what a run's config says and means."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from radt.commands.flags import RunWords, Verb, plain_columns, styled
from radt.errors import RunError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from radt.envs.suite import TaskSuite
    from radt.runs.options import Option

EVERY = "every run"


@dataclass(frozen=True, kw_only=True)
class EnvsVerb(Verb):
    """List the environments: tasks, horizon, states, actions, best possible return.

    Try:
      radt envs check NAME    to see whether one of your own keeps the contract
    """

    def execute(self) -> None:
        from radt.envs import SUITES

        rows = [describe_suite(SUITES[name]) for name in SUITES.names()]
        table = plain_columns(["name", "tasks", "horizon", "states", "actions", "optimum"])
        for row in rows:
            tasks = f"{row['train_tasks']} + {row['eval_tasks']}"
            best = "" if row["optimum"] is None else f"{row['optimum']:.2f}"
            words = row["name"], tasks, str(row["horizon"]), row["states"], row["actions"], best
            table.add_row(*words)
        meaning = styled("[dim]tasks: to train on + unseen; optimum: mean over the unseen ones[/]")
        self.common.answer({"envs": rows}, table, meaning)


def describe_suite(suite: TaskSuite) -> dict[str, Any]:
    """Describe a suite in a few values; the optimum is the mean over its unseen tasks."""
    state, action = suite.spaces.state, suite.spaces.action
    size = "x".join(map(str, state.bins or state.shape))
    best = [suite.optimal_return(task) for task in suite.eval_tasks]
    known = [value for value in best if value is not None]
    return {
        "name": suite.name,
        "train_tasks": len(suite.train_tasks),
        "eval_tasks": len(suite.eval_tasks),
        "trials": suite.trials,
        "horizon": suite.spaces.horizon,
        "states": f"{state.kind} {size}",
        "actions": f"{action.size} {action.kind}".removesuffix(" discrete"),
        "optimum": sum(known) / len(known) if known else None,
    }


@dataclass(frozen=True, kw_only=True)
class CheckVerb(Verb):
    """Check that an environment is what it declares: spaces, horizon, rewards, splits, seeds.

    A few episodes are played with random actions. Exit code 2: something is not kept.

    Try:
      RADT_PLUGINS=mine.py radt envs check mine
    """

    name: Annotated[Positional[str], arg(metavar="NAME")]  # of the environment

    def execute(self) -> None:
        from radt.envs import SUITES
        from radt.envs.check import check_suite, run_check
        from radt.runs.presets import unknown_in_recipes

        suite = SUITES[self.name]
        found = check_suite(suite)
        found.append(run_check("recipes name options", unknown_in_recipes, suite, is_warning=True))
        table = plain_columns(["check", ""], where="what to do")
        for one in found:
            style = {"failed": "bold red", "warning": "yellow"}.get(one.verdict, "")
            table.add_row(one.check, one.verdict, "\n".join(one.problems), style=style)
        failed = [one for one in found if one.verdict == "failed"]
        rows = [
            {"check": one.check, "verdict": one.verdict, "problems": list(one.problems)}
            for one in found
        ]
        self.common.answer({"env": self.name, "ok": not failed, "checks": rows}, table)
        if failed:
            raise RunError(
                f"{self.name} fails {len(failed)} of {len(found)} checks; do what is said above, "
                "then check it again"
            )


@dataclass(frozen=True, kw_only=True)
class ShowVerb(RunWords):
    """Print every value of a run's config and where it comes from.

    Values that a file, --set or a flag has changed are marked with *.

    Try:
      radt config show dark-room-10x10 --method ra-dt --budget paper
      radt config show dark-room-10x10 --set learn.updates=100
      radt config show --config runs/x/config.json
    """

    def execute(self) -> None:
        from rich.table import Table

        from radt.decode import leaves

        config, sources = self.compose()
        values = leaves(config.to_json())
        table = Table("", box=None, pad_edge=False)
        for name in ("name", "value", "from"):
            table.add_column(name, overflow="fold")
        for path in values:
            changed = sources[path].startswith(("--set", "command line", "file "))
            style = "bold yellow" if changed else ""
            text = json.dumps(values[path])
            table.add_row("*" if changed else "", path, text, sources[path], style=style)
        self.common.answer({"config": config.to_json(), "sources": sources}, table)


@dataclass(frozen=True, kw_only=True)
class DiffVerb(Verb):
    """Print the values in which the configs of two runs differ.

    Try:
      radt config diff runs/x runs/y
    """

    first: Annotated[Positional[Path], arg(metavar="RUN")]  # a run's folder or a config file
    second: Annotated[Positional[Path], arg(metavar="RUN")]  # another one

    def execute(self) -> None:
        from radt.decode import differences
        from radt.runs.compare import config_file, read_config

        first, second = (read_config(path).to_json() for path in (self.first, self.second))
        changes = differences(first, second, (f"in {self.first}", f"in {self.second}"))
        files = [str(config_file(path)) for path in (self.first, self.second)]
        values = {"files": files, "differences": changes}
        self.common.answer(values, "\n".join(changes) or "no difference")


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
