"""The verb that shows in-context learning live, with weights that come with the package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from radt.commands.flags import ComputingVerb, at_least
from radt.errors import RunError

if TYPE_CHECKING:
    from radt.demo import Demo


@dataclass(frozen=True, kw_only=True)
class DemoVerb(ComputingVerb):
    """Watch an agent learn goals that it has never seen, without training, in under a minute.

    It starts with an empty memory; what it lives through is all that it learns from.

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
        """Play, drawing if there is a terminal to draw on, and print the returns."""
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
