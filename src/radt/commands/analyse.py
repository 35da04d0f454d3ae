"""The verbs that look inside: attention, visits, delusions, retrieval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from tyro.conf import Positional, arg

from radt.commands.flags import ComputingVerb, split_names, styled

if TYPE_CHECKING:
    from radt.methods import Method
    from radt.runs.roll_out import Trials


@dataclass(frozen=True, kw_only=True)
class Analysis(ComputingVerb):
    """Words of every analysis."""

    trials: int = 15  # how many trials of each unseen task are rolled out again
    out: Annotated[Path | None, arg(metavar="FILE.png", help_behavior_hint="")] = None
    """The picture; its numbers go beside it as .json (default: in the run's folder)."""

    analysis: ClassVar[str]

    def load(self, source: Path | None) -> tuple[Method, Trials]:
        """Load a run, a checkpoint or the shipped weights, and say what is rolled out again."""
        from radt.experiments.weights import usual_trials
        from radt.loading import load, shipped
        from radt.runs.run import RunError

        if self.trials < 1:
            raise RunError(f"--trials must be at least 1, not {self.trials}")
        loaded = load(source or shipped(), self.common.device)
        usual = usual_trials(source or loaded.path, loaded.card, loaded.rule)
        return loaded.method, replace(usual, count=self.trials)

    def look(self, sources: Sequence[Path | None]) -> None:
        """Roll out trials again, write the numbers, and say what was found and where it is."""
        from radt.analyses import look
        from radt.track import Tracker

        path = self._place(sources[0] if len(sources) == 1 else None)
        agents = [self.load(source) for source in sources]
        tracker = Tracker(quiet=self.common.quiet or self.common.json)
        finding = look(self.analysis, agents, path, tracker, **self.chosen(agents[0][1]))
        numbers = finding.write()
        values = {"out": str(finding.picture), **finding.to_json()}
        where = styled("[dim]{}, {}[/]", finding.picture, numbers.name)
        self.common.answer(values, finding.verdict, where)

    def chosen(self, trials: Trials) -> dict[str, Any]:
        """Say what is looked at in particular."""
        return {}

    def _place(self, source: Path | None) -> Path:
        from radt.runs.run import RunError

        folder = source if source is not None and source.is_dir() else Path()
        path = self.out or folder / f"{self.analysis}.png"
        if path.suffix != ".png":
            raise RunError(f"--out {path} must end in .png; the numbers go beside it as .json")
        return path


@dataclass(frozen=True, kw_only=True)
class OneRun(Analysis):
    """Words of an analysis of one run."""

    source: Annotated[Positional[Path | None], arg(metavar="RUN", help_behavior_hint="")] = None
    """A run or a checkpoint (default: the weights that come with radt)."""

    def execute(self) -> None:
        self.look([self.source])


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

    analysis = "attention"
    steps: Annotated[str, arg(metavar="N,N,...")] = "1,5,10"  # whose maps are drawn

    def chosen(self, trials: Trials) -> dict[str, Any]:
        from radt.runs.run import RunError

        horizon = trials.suite.spaces.horizon
        words = split_names(self.steps)
        known = [int(word) for word in words if word.isdecimal() and 1 <= int(word) <= horizon]
        if not words or len(known) != len(words) or len(words) > 6:
            raise RunError(
                f"--steps takes up to 6 steps of a trial, each in 1..{horizon}, such as 1,5,10; "
                f"not {self.steps!r}"
            )
        return {"steps": tuple(sorted(set(known)))}


@dataclass(frozen=True, kw_only=True)
class VisitsVerb(OneRun):
    """Show where an agent goes: maps by trial, and the share of cells that it visits.

    Try:
      radt analyse visits runs/x --trials 40
    """

    analysis = "visits"


@dataclass(frozen=True, kw_only=True)
class DelusionsVerb(Analysis):
    """Count the trials that end in a few states which they never leave, by method and trial.

    Several runs, of one method or of many, are counted side by side; they share their tasks.

    Try:
      radt analyse delusions runs/x
      radt analyse delusions runs/dark-room-10x10/* --trials 40 --out delusions.png
    """

    analysis = "delusions"
    sources: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN ...")] = ()
    """Runs or checkpoints (default: the weights that come with radt)."""

    def execute(self) -> None:
        self.look(self.sources or (None,))


@dataclass(frozen=True, kw_only=True)
class RetrievalVerb(OneRun):
    """Show what is retrieved: from whom, how similar, how good, and how that changes with trials.

    Try:
      radt analyse retrieval runs/x --trials 40
    """

    analysis = "retrieval"
