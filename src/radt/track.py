"""What a run says while it works: a JSONL log always, a progress bar, adapters for dashboards."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from radt.errors import MissingError
from radt.files import naming, open_own


class Sink(Protocol):
    """Takes numbers as they come."""

    def write(self, phase: str, step: int, values: dict[str, float]) -> None:
        """Take the values of one step."""
        ...

    def close(self) -> None:
        """Finish writing."""
        ...


class JsonLines:
    """One JSON object a line, appended and flushed, so that a crash loses nothing."""

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, open_own(path)
        size = self._file.seek(0, os.SEEK_END)
        if size and os.pread(self._file.fileno(), 1, size - 1) != b"\n":
            self._file.write(b"\n")  # a killed writer left half a line

    def write(self, phase: str, step: int, values: dict[str, float]) -> None:
        line = {"time": round(time.time(), 3), "phase": phase, "step": step, **values}
        with naming(self._path):
            self._file.write(f"{json.dumps(line)}\n".encode())
            self._file.flush()

    def close(self) -> None:
        with naming(self._path):
            self._file.close()


class TensorBoard:
    """Event files for TensorBoard (extra `radt[tensorboard]`)."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingError("TensorBoard is missing: pip install 'radt[tensorboard]'") from error
        self._writer = SummaryWriter(str(folder))

    def write(self, phase: str, step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(f"{phase}/{name}", value, step)

    def close(self) -> None:
        self._writer.close()


class WandB:
    """A run on Weights & Biases (extra `radt[wandb]`)."""

    def __init__(self, project: str, name: str, config: dict[str, Any]) -> None:
        try:
            import wandb
        except ImportError as error:
            raise MissingError("W&B is missing: pip install 'radt[wandb]'") from error
        self._run = wandb.init(project=project, name=name, config=config)

    def write(self, phase: str, step: int, values: dict[str, float]) -> None:
        self._run.log({f"{phase}/{name}": value for name, value in values.items()} | {"step": step})

    def close(self) -> None:
        self._run.finish()


def number(value: float) -> str:
    """Write a count in full and a measure in a few digits."""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.4g}"


class Tracker:
    """Hands numbers to every sink and draws one progress bar for the phase at work."""

    def __init__(self, sinks: Sequence[Sink] = (), quiet: bool = True) -> None:
        self.sinks, self.quiet = sinks, quiet
        self._progress: Progress | None = None
        self._phase = ""

    def start(self, phase: str, total: int, done: int = 0) -> None:
        self._phase = phase
        if not self.quiet:
            whole = Column(no_wrap=True)
            rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")  # what the others leave
            self._progress = Progress(
                TextColumn("[bold]{task.description:<9}", table_column=whole),
                BarColumn(bar_width=20),
                MofNCompleteColumn(table_column=whole),
                TimeRemainingColumn(compact=True, table_column=whole),
                TextColumn("[dim]{task.fields[note]}", table_column=rest),
                console=Console(stderr=True),
                expand=True,
            )
            self._progress.start()
            note = "done" if done >= total else ""
            self._progress.add_task(phase, total=total, completed=done, note=note)

    def advance(self, step: float, note: str = "") -> None:
        """Move the bar without logging anything."""
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], completed=step, note=note)

    def log(self, step: int, **values: float) -> None:
        """Hand values to every sink and show them beside the bar."""
        for sink in self.sinks:
            sink.write(self._phase, step, values)
        self.advance(step, "  ".join(f"{name} {number(value)}" for name, value in values.items()))

    def tell(self, line: str) -> None:
        """Print a line above the bar, where there is one."""
        if self._progress is not None:
            self._progress.console.print(line, highlight=False, markup=False)

    def finish(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def close(self) -> None:
        for sink in self.sinks:
            sink.close()
