"""In-context learning live in a terminal: goals never seen, an empty memory, no training."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from radt.agent import Agent
from radt.envs.render import GridView, print_grid
from radt.envs.suite import DrawnSuite
from radt.icl import ICLResult, in_context_learning
from radt.loading import Loaded

SECONDS_PER_FRAME = 0.07
BARS = "▁▂▃▄▅▆▇█"
HIDDEN = "◆ goal and ◇ key or other goals, which it cannot see"
LEGEND = f"● agent  {HIDDEN}  ○ start  • trail  ▁█ return of each trial"


@dataclass(frozen=True)
class Demo:
    """Which agent learns where, and for how long."""

    loaded: Loaded
    suite: DrawnSuite
    goals: int = 8  # lived through at once; the first few are drawn
    trials: int = 15
    seed: int = 0

    @property
    def tasks(self) -> tuple[int, ...]:
        """The unseen tasks that are played."""
        return self.suite.eval_tasks[: self.goals]


def play(demo: Demo, console: Console | None = None) -> ICLResult:
    """Let the agent live through its trials, drawn on a console if one is given."""
    env = demo.suite.make_vec(demo.tasks)
    mode = env.metadata["autoreset_mode"]
    agent = demo.loaded.agent(len(demo.tasks), demo.seed, mode, keys=demo.tasks)
    with contextlib.closing(env):
        if console is None:
            return in_context_learning(agent, env, demo.trials, demo.seed)
        with _stage(demo, console) as stage:
            return in_context_learning(
                agent, env, demo.trials, demo.seed, stage.after_step, stage.after_trial
            )


@contextlib.contextmanager
def _stage(demo: Demo, console: Console) -> Iterator[Stage]:
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield Stage(demo, live)


class Stage:
    """Draws some of the moments that it is shown."""

    def __init__(self, demo: Demo, live: Live) -> None:
        self.demo, self.live = demo, live
        self._finished = np.zeros((len(demo.tasks), 0))  # [task, trial] returns so far
        self._drawn = 0.0

    def after_trial(self, result: ICLResult, trial: int) -> None:
        """Remember the returns of the trials that are over."""
        self._finished = result.returns[:, :trial]

    def after_step(self, step: int, agent: Agent, obs: NDArray[Any], rewards: NDArray[Any]) -> None:
        """Draw, unless the last picture is too young."""
        now = time.monotonic()
        if now - self._drawn >= SECONDS_PER_FRAME:
            self._drawn = now
            self.live.update(self.picture(agent), refresh=True)

    def picture(self, agent: Agent) -> RenderableType:
        """Put grids side by side, each over the returns of its goal, and the mean below."""
        grids = Table.grid(padding=(0, 2))
        each = 2 * grid_view(self.demo, agent, 0).width + 5
        count = max(1, min(3, self.live.console.width // each, len(self.demo.tasks)))
        grids.add_row(*(self._goal(agent, slot) for slot in range(count)))
        trial = min(int(agent.trials.trial.min()) + 1, self.demo.trials)
        title = f"trial {trial} of {self.demo.trials}: goals never seen, no weight changes"
        means = self._finished.mean(axis=0) if self._finished.size else np.zeros(0)
        latest = f"{means[-1]:5.1f}" if means.size else "    -"
        best = float(np.mean([self.demo.suite.optimal_return(task) for task in self.demo.tasks]))
        mean = f"mean of {len(self.demo.tasks)} goals {latest} of {best:.1f}  "
        return Group(
            Text(title, style="bold"),
            grids,
            Text(LEGEND, style="dim"),
            Text.assemble((mean, "bold"), (bars(means, best), "green")),
        )

    def _goal(self, agent: Agent, slot: int) -> RenderableType:
        returns = self._finished[slot]
        grid = Text.from_ansi(print_grid(grid_view(self.demo, agent, slot)))
        top = self.demo.suite.optimal_return(self.demo.tasks[slot])
        return Group(grid, Text.assemble((bars(returns, top), "green")))


def grid_view(demo: Demo, agent: Agent, slot: int) -> GridView:
    """Describe the running trial of a slot for drawing."""
    trials, steps = agent.trials, int(agent.trials.step[slot])
    states, rewards = trials.states[slot, : steps + 1], trials.rewards[slot, :steps]
    return demo.suite.view(demo.tasks[slot], states, rewards)


def bars(values: NDArray[np.float64], top: float) -> str:
    """Draw each value as one bar from 0 to `top`."""
    levels = np.clip(values / max(top, 1e-9), 0.0, 1.0) * (len(BARS) - 1)
    return "".join(BARS[level] for level in levels.round().astype(int))
