"""One command, `radt`: reads the words, calls the verb, and ends with a clean line if it fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import tyro
from tyro.conf import (
    FlagCreatePairsOff,
    OmitArgPrefixes,
    OmitSubcommandPrefixes,
    subcommand,
)

from radt.commands.bench import BenchVerb
from radt.commands.data import DataVerb
from radt.commands.demo import DemoVerb
from radt.commands.doctor import DoctorVerb
from radt.commands.evaluate import EvaluateVerb
from radt.commands.flags import Flags
from radt.commands.look import ConfigVerb, EnvsVerb
from radt.commands.runs import CollectVerb, RunVerb, TrainVerb

DESCRIPTION = """Give a decision-making agent an external memory (RA-DT).

Start here:
  radt demo                                       watch an agent learn, no training, one minute
  radt run dark-room-10x10 --budget smoke         everything once, in seconds
  radt run dark-room-10x10 --out runs/x           the real thing, on two CPU cores
"""

Verb = (
    Annotated[RunVerb, subcommand("run")]
    | Annotated[CollectVerb, subcommand("collect")]
    | Annotated[TrainVerb, subcommand("train")]
    | Annotated[EvaluateVerb, subcommand("evaluate")]
    | Annotated[DataVerb, subcommand("data")]
    | Annotated[EnvsVerb, subcommand("envs")]
    | Annotated[ConfigVerb, subcommand("config")]
    | Annotated[DoctorVerb, subcommand("doctor")]
    | Annotated[BenchVerb, subcommand("bench")]
    | Annotated[DemoVerb, subcommand("demo")]
)


def parse(words: Sequence[str] | None = None) -> Flags:
    """Read a command line; `--help` and mistakes in it end the process."""
    form: Any = Verb
    parsed: Any = tyro.cli(
        form,
        prog="radt",
        description=DESCRIPTION,
        args=words,
        config=(FlagCreatePairsOff, OmitArgPrefixes, OmitSubcommandPrefixes),
    )
    verb: Flags = getattr(parsed, "verb", parsed)
    return verb


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code: 0, 2 for a mistake, 130 after Ctrl-C."""
    verb = parse(words)
    debugging = bool(os.environ.get("RADT_DEBUG"))
    try:
        verb.prepare()
        verb.execute()
    except KeyboardInterrupt:
        if debugging:
            raise
        say("stopped; what is finished is kept, the same command goes on from here", "yellow")
        return 130
    except BrokenPipeError:  # the reader, e.g. `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debugging or not is_ours(error):
            raise
        say(f"error: {error}", "bold red")
        return 2
    return 0


def is_ours(error: Exception) -> bool:
    """Tell whether an error's message is written for the user, so that no traceback is needed."""
    from radt.checkpoint import CheckpointError
    from radt.collect import CollectError
    from radt.data import DataError
    from radt.decode import DecodeError
    from radt.experiments.run import RunError
    from radt.memory.memory import MemoryMismatchError
    from radt.registry import UnknownNameError

    ours = (RunError, DataError, CollectError, CheckpointError, DecodeError)
    return isinstance(error, (*ours, UnknownNameError, MemoryMismatchError, OSError))


def say(text: str, style: str) -> None:
    """Print a line to stderr, coloured where that is a terminal."""
    from rich.console import Console

    Console(stderr=True, highlight=False, soft_wrap=True).print(text, style=style, markup=False)


if __name__ == "__main__":
    sys.exit(main())
