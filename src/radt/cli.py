"""One command, `radt`: reads the words, calls the verb, and ends with a clean line if it fails."""

from __future__ import annotations

import errno
import io
import os
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, TextIO, Union

import tyro
from tyro.conf import DisallowNone, FlagCreatePairsOff, OmitArgPrefixes, subcommand

from radt.commands import (
    analyse,
    bench,
    compare,
    data,
    demo_view,
    doctor,
    envs_config,
    evaluate,
    hub,
    memory,
    new,
    reproduce,
    runs,
)
from radt.commands.flags import Verb, say
from radt.errors import RadtError, RadtWarning, RunError
from radt.registry import PLUGINS, UnknownNameError
from radt.version import released


@dataclass(frozen=True)
class Menu:
    """Verbs to choose from, and what is said above them."""

    text: str
    verbs: Mapping[str, type[Verb] | Menu]
    usual: type[Verb] | None = None  # what no further word asks for; None: to see the menu


MENU = Menu(
    """Give a decision-making agent an external memory (RA-DT).

Start here:
  radt demo                                  watch an agent learn; one minute, no training
  radt run dark-room-10x10 --budget smoke    everything once, in seconds
  radt run dark-room-10x10 --out runs/x      the real thing, on two CPU cores
  radt compare dark-room-10x10 --dry-run     methods side by side: what it takes
  radt reproduce                             the paper's experiments, one by one
  radt run --help                            every verb explains itself
  radt --version                             which radt this is

An environment, method or dataset of your own, each in one file that registers it:
  radt new suite my-poles                    a file that works at once, to be changed
  RADT_PLUGINS=my_poles.py radt run my-poles --budget smoke
""",
    {
        "run": runs.RunVerb,
        "collect": runs.CollectVerb,
        "train": runs.TrainVerb,
        "evaluate": evaluate.EvaluateVerb,
        "compare": compare.CompareVerb,
        "reproduce": reproduce.ReproduceVerb,
        "report": runs.ReportVerb,
        "analyse": Menu(
            "Look inside a run: attention, visits, delusions, retrieval.",
            {
                "attention": analyse.AttentionVerb,
                "visits": analyse.VisitsVerb,
                "delusions": analyse.DelusionsVerb,
                "retrieval": analyse.RetrievalVerb,
            },
        ),
        "data": Menu(
            "Look at datasets: info, curves, encode, verify, list.",
            {
                "info": data.InfoVerb,
                "curves": data.CurvesVerb,
                "encode": data.EncodeVerb,
                "verify": data.VerifyVerb,
                "list": data.ListVerb,
            },
        ),
        "memory": Menu(
            "Look after memories: info, verify, repair, compact, export, import, re-embed.",
            {
                "info": memory.MemoryInfoVerb,
                "verify": memory.MemoryVerifyVerb,
                "repair": memory.MemoryRepairVerb,
                "compact": memory.MemoryCompactVerb,
                "export": memory.MemoryExportVerb,
                "import": memory.MemoryImportVerb,
                "re-embed": memory.MemoryReEmbedVerb,
            },
        ),
        "hub": Menu(
            "Share runs and datasets: push, pull.", {"push": hub.PushVerb, "pull": hub.PullVerb}
        ),
        "envs": Menu(
            "List the environments, or check one of your own.",
            {"check": envs_config.CheckVerb},
            usual=envs_config.EnvsVerb,
        ),
        "config": Menu(
            "Look at configs: show, diff, explain.",
            {
                "show": envs_config.ShowVerb,
                "diff": envs_config.DiffVerb,
                "explain": envs_config.ExplainVerb,
            },
        ),
        "new": new.NewVerb,
        "doctor": doctor.DoctorVerb,
        "bench": Menu(
            "Measure speed: collect, train, decide, envs, memory.",
            bench.VERBS,
        ),
        "demo": demo_view.DemoVerb,
        "view": demo_view.ViewVerb,
    },
)
NEXT = {  # what to do about an error of the system
    errno.ENOSPC: "free some space; the same command goes on from here",
    errno.EDQUOT: "free some space; the same command goes on from here",
    errno.EACCES: "it may be whole, but you may not use it: see who owns it",
    errno.EPERM: "it may be whole, but you may not use it: see who owns it",
    errno.EROFS: "choose a place that can be written to",
    errno.ENAMETOOLONG: "choose a shorter name",
}
STYLE = (FlagCreatePairsOff, OmitArgPrefixes, DisallowNone)


def parse(words: Sequence[str], menu: Menu = MENU, name: str = "radt") -> Verb:
    """Read a command line; `--help` and mistakes in it end the process."""
    chosen = menu.verbs.get(words[0]) if words else None
    if isinstance(chosen, Menu):
        return parse(words[1:], chosen, f"{name} {words[0]}")
    if chosen is None:
        if words and not words[0].startswith("-"):
            raise UnknownNameError("verb", words[0], list(menu.verbs))
        if menu.usual is not None:
            return tyro.cli(menu.usual, prog=name, args=words, config=STYLE)
        return show_menu(words or ["--help"], menu, name)
    return tyro.cli(chosen, prog=f"{name} {words[0]}", args=spread_sets(words[1:]), config=STYLE)


def show_menu(words: Sequence[str], menu: Menu, name: str) -> Verb:
    """Print the verbs and end the process."""
    choices = tuple(
        Annotated[
            Verb if isinstance(item, Menu) else item, subcommand(word, description=first_line(item))
        ]
        for word, item in menu.verbs.items()
    )
    form: Any = Union[choices]  # noqa: UP007
    verb: Verb = tyro.cli(form, prog=name, description=menu.text, args=words, config=STYLE)
    return verb


def first_line(item: type[Verb] | Menu) -> str:
    """Say in one line what a verb does."""
    text = item.text if isinstance(item, Menu) else item.__doc__ or ""
    return text.splitlines()[0]


def spread_sets(words: Sequence[str]) -> list[str]:
    """Let one `--set` take several values: `--set a=1 b=2` means `--set a=1 --set b=2`."""
    spread: list[str] = []
    setting = False
    for word in words:
        follows = setting and "=" in word and not word.startswith("-")
        if follows and spread[-1] != "--set":
            spread.append("--set")
        spread.append(word)
        setting = word == "--set" or follows
    return spread


def refuse_empty(words: Sequence[str]) -> None:
    """Refuse a word that says nothing: as a path it would mean the current folder."""
    for before, word in pairwise(["radt", *words]):
        flag, equals, value = word.partition("=")
        if not word or (flag.startswith("--") and equals and not value):
            raise RunError(f"what follows {flag or before} is empty; say what is meant there")


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show a warning that is written for the user as a line; others say where they come from."""
    if issubclass(category, RadtWarning):
        say(f"warning: {message}", "yellow")
    else:
        say(warnings.formatwarning(message, category, filename, lineno, line).rstrip())


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; return 0, 2 for a mistake, 130 after Ctrl-C or 143 after SIGTERM."""
    debugging = bool(os.environ.get("RADT_DEBUG"))
    words = sys.argv[1:] if words is None else words
    if list(words) == ["--version"]:
        print(f"radt {released()}")
        return 0
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files need not be UTF-8
    try:
        refuse_empty(words)
        verb = parse(words)
        verb.common.prepare()
        with warnings.catch_warnings(), stopping_in_order():
            warnings.showwarning = show_warning
            verb.execute()
    except KeyboardInterrupt as stop:
        if debugging:
            raise
        again = f"the same command goes on from here:\n{in_shell(words)}"
        say(f"stopped; what is finished is kept, {again}", "yellow")
        return 143 if isinstance(stop, Terminated) else 130
    except BrokenPipeError:  # the reader, e.g. `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (RadtError, OSError) as error:
        if debugging:
            raise
        say(f"error: {in_words(error)}", "bold red")
        return 2
    return 0


def in_shell(words: Sequence[str]) -> str:
    """Write the command as it was given."""
    plugins = os.environ.get(PLUGINS)
    before = [f"{PLUGINS}={shlex.quote(plugins)}"] if plugins else []
    return " ".join([*before, "radt", shlex.join(words)])


class Terminated(KeyboardInterrupt):
    """Somebody ended the process with SIGTERM, as clusters do: it stops as after Ctrl-C."""


@contextmanager
def stopping_in_order() -> Iterator[None]:
    """Stop at SIGTERM as at Ctrl-C; processes that were forked meanwhile just end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    owner = os.getpid()

    def stop(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)  # a second one ends at once
        if os.getpid() == owner:
            raise Terminated
        signal.raise_signal(number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def in_words(error: Exception) -> str:
    """Say what is wrong, and of an error of the system what to do next."""
    if isinstance(error, RadtError) or not isinstance(error, OSError) or not error.strerror:
        return str(error)
    place = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    return f"{place}{error.strerror}; {NEXT.get(error.errno or 0, 'mend that and try again')}"


if __name__ == "__main__":
    sys.exit(main())
