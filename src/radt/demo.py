"""In-context learning live in a terminal: goals never seen, an empty memory, no training."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from radt.agent import Agent
from radt.data.stats import sparkline
from radt.envs.render import GridView, print_grid
from radt.envs.suite import DrawnSuite, success_threshold
from radt.icl import ICLResult, in_context_learning
from radt.loading import Loaded
from radt.metrics import solved_by

SECONDS_PER_FRAME = 0.07
HIDDEN = "◆ goal and ◇ key or other goals, which it cannot see"
LEGEND = f"● agent  {HIDDEN}  ○ start  • trail  ▁█ return of each trial"


@dataclass(frozen=True)
class Demo:
    """Which agent learns where, and for how long."""

    loaded: Loaded
    suite: DrawnSuite
    goals: int = 8  # rolled out at once; the first few are drawn
    trials: int = 15
    seed: int = 0

    @property
    def tasks(self) -> tuple[int, ...]:
        """The unseen tasks that are played."""
        return self.suite.eval_tasks[: self.goals]

    @property
    def optimum(self) -> float:
        """The mean return of whoever knew the goals."""
        return float(np.mean([self.suite.optimal_return(task) for task in self.tasks]))


def play(demo: Demo, console: Console | None = None) -> ICLResult:
    """Roll out the agent's trials, drawn on a console if one is given."""
    env = demo.suite.make_vec(demo.tasks)
    mode = env.metadata["autoreset_mode"]
    agent = demo.loaded.agent(len(demo.tasks), demo.seed, mode, tasks=demo.tasks)
    with contextlib.closing(env):
        if console is None:
            return in_context_learning(agent, env, demo.trials, demo.seed)
        with Live(console=console, auto_refresh=False, transient=True) as live:
            drawing = Drawing(demo, live)
            return in_context_learning(
                agent, env, demo.trials, demo.seed, drawing.after_step, drawing.after_trial
            )


class Drawing:
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
        best = self.demo.optimum
        mean = f"mean of {len(self.demo.tasks)} goals {latest} of {best:.1f}  "
        return Group(
            Text(title, style="bold"),
            grids,
            Text(LEGEND, style="dim"),
            Text.assemble((mean, "bold"), (sparkline(means, 0.0, best), "green")),
        )

    def _goal(self, agent: Agent, slot: int) -> RenderableType:
        returns = self._finished[slot]
        grid = Text.from_ansi(print_grid(grid_view(self.demo, agent, slot)))
        top = self.demo.suite.optimal_return(self.demo.tasks[slot])
        return Group(grid, Text.assemble((sparkline(returns, 0.0, top), "green")))


def grid_view(demo: Demo, agent: Agent, slot: int) -> GridView:
    """Describe the running trial of a slot for drawing."""
    trials, steps = agent.trials, int(agent.trials.step[slot])
    states, rewards = trials.states[slot, : steps + 1], trials.rewards[slot, :steps]
    return demo.suite.view(demo.tasks[slot], states, rewards)


def show_returns(demo: Demo, result: ICLResult) -> list[RenderableType]:
    """Show the mean return and the tasks solved, trial by trial, and what is possible."""
    table = Table("trial", "mean return", "solved", box=None, pad_edge=False)
    means, best = result.returns.mean(axis=0), demo.optimum
    found = solved_by(result.returns, success_threshold(demo.suite, demo.tasks) or 0.0)
    for trial, (mean, known) in enumerate(zip(means, found, strict=True), start=1):
        table.add_row(f"{trial:5d}", f"{mean:11.1f}", f"{known:5d} of {len(demo.tasks)}")
    line = (
        f"{sparkline(means, 0.0, best)}  the first trial earns {means[0]:.1f}, the last "
        f"{means[-1]:.1f}; the optimum is {best:.1f}"
    )
    return [table, line]
