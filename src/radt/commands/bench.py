"""The verbs that measure speed; what they do and their arguments are in `radt.bench`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from radt import bench
from radt.commands.flags import ComputingVerb

if TYPE_CHECKING:
    from rich.table import Table

UNSHOWN = ("hyper_parameters", "machine", "ratio")  # the ratio is the last line


class BenchVerb(ComputingVerb):
    """A verb that measures."""

    benchmark: ClassVar[str]

    def execute(self) -> None:
        from rich.text import Text

        from radt.files import atomic_write

        name, common, out = self.benchmark, self.common, vars(self)["out"]
        module = import_module(f"radt.bench.{name}")
        resources = bench.Resources(common.device, common.workers, common.quiet)
        record = getattr(module, f"bench_{name}")(self, resources)
        content = json.dumps(record, allow_nan=False, indent=1)
        atomic_write(out, f"{content}\n".encode())
        written = Text(f"written to {out}", style="dim", no_wrap=True, overflow="ignore")
        common.answer(record, *shown(record, *module.TABLE), written)
        if not common.json and record["ratio"] is not None:
            print(f"ratio {record['ratio']:.2f}")


def shown(record: Mapping[str, Any], rows: str, columns: Sequence[str]) -> Iterator[Table]:
    """Show some columns of one list of a record, and every number beside it."""
    from rich.table import Table

    from radt.decode import leaves

    if rows:
        table = Table(title=rows)
        for place, name in enumerate(columns):
            table.add_column(name.replace("_", " "), justify="right" if place else "left")
        for row in record[rows]:
            table.add_row(*(_short(row[name]) for name in columns))
        yield table
    facts = Table(show_header=False)
    for path, value in leaves({n: v for n, v in record.items() if n not in UNSHOWN}).items():
        if not isinstance(value, list):
            facts.add_row(path, _short(value))
    yield facts


def _short(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _verb(benchmark: str, arguments: type) -> type[BenchVerb]:
    inside = {"benchmark": benchmark, "__doc__": arguments.__doc__}
    made = type(f"Bench{benchmark.title()}Verb", (BenchVerb, arguments), inside)
    verb: type[BenchVerb] = dataclass(frozen=True, kw_only=True)(made)
    return verb


VERBS = {
    "collect": _verb("collect", bench.CollectArguments),
    "train": _verb("train", bench.TrainArguments),
    "decide": _verb("decide", bench.DecideArguments),
    "envs": _verb("envs", bench.EnvsArguments),
    "memory": _verb("memory", bench.MemoryArguments),
}
