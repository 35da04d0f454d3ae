"""The verbs that look inside: attention, visits, delusions, retrieval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from radt.commands.flags import ComputingVerb, styled

if TYPE_CHECKING:
    from radt.analyses.shared import Finding
    from radt.loading import Loaded
    from radt.runs.evaluate import Trials
    from radt.track import Tracker


@dataclass(frozen=True, kw_only=True)
class Analysis(ComputingVerb):
    """Words of every analysis."""

    trials: int = 15  # how many trials of each unseen task are rolled out again
    out: Annotated[Path | None, arg(metavar="FILE.png", help_behavior_hint="")] = None
    """The picture; its numbers go beside it as .json (default: in the run's folder)."""

    @property
    def tracker(self) -> Tracker:
        from radt.track import Tracker

        return Tracker(quiet=self.common.quiet or self.common.json)

    def load(self, source: Path | None) -> tuple[Loaded, Trials]:
        """Load a run, a checkpoint or the shipped weights, and say what is rolled out again."""
        from radt.experiments.weights import usual_trials
        from radt.loading import load, shipped
        from radt.runs.run import RunError

        if self.trials < 1:
            raise RunError(f"--trials must be at least 1, not {self.trials}")
        loaded = load(source or shipped(), self.common.device)
        usual = usual_trials(source or loaded.path, loaded.card, loaded.rule)
        return loaded, replace(usual, count=self.trials)

    def place(self, name: str, source: Path | None) -> Path:
        from radt.runs.run import RunError

        folder = source if source is not None and source.is_dir() else Path()
        path = self.out or folder / f"{name}.png"
        if path.suffix != ".png":
            raise RunError(f"--out {path} must end in .png; the numbers go beside it as .json")
        return path

    def tell(self, finding: Finding) -> None:
        """Write the numbers, and say what was found and where it is."""
        numbers = finding.write()
        values = {"out": str(finding.picture), **finding.to_json()}
        where = styled("[dim]{}, {}[/]", finding.picture, numbers.name)
        self.common.answer(values, finding.verdict, where)


@dataclass(frozen=True, kw_only=True)
class OneRun(Analysis):
    """Words of an analysis of one run."""

    source: Annotated[Positional[Path | None], arg(metavar="RUN", help_behavior_hint="")] = None
    """A run or a checkpoint (default: the weights that come with radt)."""


@dataclass(frozen=True, kw_only=True)
class AttentionVerb(OneRun):
    """Show what an agent looks at in what it retrieved, and whether it imitates it.

    Its trials are rolled out again. Drawn are the attention maps at some steps, beside the
    retrieved chunk and the agent, for a good and a bad chunk; measured is, over all tasks, whether
    a good chunk is imitated and a bad one avoided.

    Try:
      radt analyse attention runs/x
      radt analyse attention runs/x --steps 1,5,10,20 --trials 40
    """

    steps: Annotated[str, arg(metavar="N,N,...")] = "1,5,10"  # whose maps are drawn

    def execute(self) -> None:
        from radt.analyses.attention import analyse_attention

        loaded, trials = self.load(self.source)
        steps = self._steps(trials.suite.spaces.horizon)
        path = self.place("attention", self.source)
        self.tell(analyse_attention(loaded.method, trials, path, steps, self.tracker))

    def _steps(self, horizon: int) -> tuple[int, ...]:
        from radt.runs.run import RunError

        words = [word.strip() for word in self.steps.split(",") if word.strip()]
        known = [int(word) for word in words if word.isdecimal() and 1 <= int(word) <= horizon]
        if not words or len(known) != len(words) or len(words) > 6:
            raise RunError(
                f"--steps takes up to 6 steps of a trial, each in 1..{horizon}, such as 1,5,10; "
                f"not {self.steps!r}"
            )
        return tuple(sorted(set(known)))


@dataclass(frozen=True, kw_only=True)
class VisitsVerb(OneRun):
    """Show where an agent goes: maps by trial, and the share of cells that it visits.

    Try:
      radt analyse visits runs/x --trials 40
    """

    def execute(self) -> None:
        from radt.analyses.shared import drawable, record_trials
        from radt.analyses.visits import analyse_visits

        loaded, trials = self.load(self.source)
        path = self.place("visits", self.source)
        drawable(trials)  # an error before the work, not after it
        self.tell(analyse_visits(record_trials(loaded.method, trials, self.tracker), path))


@dataclass(frozen=True, kw_only=True)
class DelusionsVerb(Analysis):
    """Count the trials that end in a few states which they never leave, by method and trial.

    Several runs, of one method or of many, are counted side by side; they share their tasks.

    Try:
      radt analyse delusions runs/x
      radt analyse delusions runs/dark-room-10x10/* --trials 40 --out delusions.png
    """

    sources: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN ...")] = ()
    """Runs or checkpoints (default: the weights that come with radt)."""

    def execute(self) -> None:
        from radt.analyses.delusions import analyse_delusions
        from radt.analyses.shared import drawable, record_trials

        path = self.place("delusions", self.sources[0] if len(self.sources) == 1 else None)
        loaded = [self.load(source) for source in self.sources or (None,)]
        for _, trials in loaded:
            drawable(trials)
        runs = [record_trials(one.method, trials, self.tracker) for one, trials in loaded]
        self.tell(analyse_delusions(runs, path))


@dataclass(frozen=True, kw_only=True)
class RetrievalVerb(OneRun):
    """Show what is retrieved: from whom, how similar, how good, and how that changes with trials.

    Try:
      radt analyse retrieval runs/x --trials 40
    """

    def execute(self) -> None:
        from radt.analyses.retrieval import analyse_retrieval

        loaded, trials = self.load(self.source)
        path = self.place("retrieval", self.source)
        self.tell(analyse_retrieval(loaded.method, trials, path, self.tracker))
