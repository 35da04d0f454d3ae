"""The verbs that show an agent at work: in the terminal with `demo`, in the browser with `view`."""

from __future__ import annotations

import contextlib
import socket
import sys
import tempfile
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from radt.commands.flags import ComputingVerb, at_least, styled
from radt.errors import RunError

if TYPE_CHECKING:
    from radt.demo import Demo

PORT = 8765


@dataclass(frozen=True, kw_only=True)
class DemoVerb(ComputingVerb):
    """Watch an agent learn goals that it has never seen, without training, in under a minute.

    It starts with an empty memory; what it experiences is all that it learns from.

    Try:
      radt demo
      radt demo dark-key-door-10x10
      radt demo --checkpoint runs/x --trials 30
    """

    env: Annotated[Positional[str], arg(metavar="ENV")] = "dark-room-10x10"
    """A grid: a dark room, with or without a key and a door, or a maze."""
    checkpoint: Annotated[Path | None, arg(help_behavior_hint="(default: shipped weights)")] = None
    """A run or checkpoint of your own."""
    trials: int = 15  # how many trials each goal gets
    goals: int = 8  # how many are learned at once; the first three are drawn
    seed: int = 0  # of the agent's noise

    def execute(self) -> None:
        from rich.console import Console

        from radt.demo import play, show_returns

        demo = self._demo()
        console = Console(stderr=self.common.json)
        drawn = console.is_terminal and not self.common.quiet
        result = play(demo, console if drawn else None)
        values = {
            "env": self.env,
            "weights": str(demo.loaded.path),
            "tasks": list(demo.tasks),
            "returns": result.returns.tolist(),  # [task][trial]
        }
        self.common.answer(values, *show_returns(demo, result))

    def _demo(self) -> Demo:
        from radt.demo import Demo
        from radt.envs.suite import SUITES, DrawnSuite
        from radt.loading import load, shipped

        suite = SUITES[self.env]
        if not isinstance(suite, DrawnSuite):
            raise RunError(f"the demo draws grids, which {self.env} is not; see `radt envs`")
        at_least(1, trials=self.trials, goals=self.goals)
        at_least(0, seed=self.seed)
        if self.goals > (most := len(suite.eval_tasks)):
            raise RunError(
                f"--goals {self.goals} is too many: {self.env} has {most} goals never seen"
            )
        loaded = load(self.checkpoint or shipped(self.env), self.common.device)
        if loaded.card.spaces != suite.spaces:
            raise RunError(
                f"{loaded.path} was trained on {loaded.card.env}, whose spaces differ from those "
                f"of {self.env}; name the environment: radt demo {loaded.card.env}"
            )
        return Demo(loaded, suite, self.goals, self.trials, self.seed)


@dataclass(frozen=True, kw_only=True)
class ViewVerb(ComputingVerb):
    """See an agent at work in the browser: what it does, what it retrieved, and why.

    Live, you hide a goal and watch an agent find it, remember it and come straight back. Runs that
    were evaluated with --trace can be played and scrubbed step by step. The page is served on this
    machine only, to whoever has the address that is printed.

    Try:
      radt view
      radt view runs
      radt view runs/x --open
    """

    folder: Annotated[Positional[Path | None], arg(metavar="DIR", help_behavior_hint="")] = None
    """A folder of runs, or one run (default: the shipped weights alone)."""
    port: int = PORT  # where the page is served; 0 takes a free port
    open: bool = False  # open the page in the browser

    def execute(self) -> None:
        import torch

        if self.folder is not None and not self.folder.is_dir():
            raise RunError(f"{self.folder} is no folder; give the folder of a run, or of several")
        try:
            from radt.viewer.library import Library
            from radt.viewer.server import serve
        except ModuleNotFoundError as error:
            raise RunError(f"the viewer needs {error.name}: pip install 'radt[view]'") from error
        if self.common.threads is None:
            torch.set_num_threads(1)  # one agent at a time is too little work to share
        with contextlib.suppress(KeyboardInterrupt):  # the usual end
            library = Library(self.folder, self.common.device)
            serve(library, self._listener(), self._announce)

    def _listener(self) -> socket.socket:
        from radt.viewer.server import listen

        if not 0 <= self.port <= 65535:
            raise RunError(f"--port must lie in 0..65535, not {self.port}")
        try:
            return listen(self.port)
        except OSError as error:
            raise RunError(
                f"port {self.port} cannot be used ({error.strerror}); choose another --port, or 0 "
                "for a free one"
            ) from error

    def _announce(self, address: str) -> None:
        """Say where the page is, also to a file or a pipe before the server ends."""
        shown = styled("[bold]{}[/]\nserved on this machine only; Ctrl-C ends it", address)
        self.common.answer({"address": address}, shown)
        sys.stdout.flush()
        if self.open:
            open_privately(address)


def open_privately(address: str) -> None:
    """Open an address through a file that only this user can read.

    Other users of the machine see the command line of a browser, and so the secret in it.
    """
    content = f'<meta http-equiv="refresh" content="0; url={address}">\n'
    with tempfile.NamedTemporaryFile("w", suffix=".html", delete=False) as file:
        file.write(content)
    webbrowser.open(Path(file.name).as_uri())
