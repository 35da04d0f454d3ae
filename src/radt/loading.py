"""From a finished run, a checkpoint file or shipped weights to an agent that acts.

agent = radt.load("runs/x").agent()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gymnasium.vector import AutoresetMode

from radt.agent import ActionRule, Agent, checked_tasks
from radt.checkpoint import Card, CheckpointError, load_checkpoint
from radt.decode import decode
from radt.envs.suite import SUITES
from radt.memory.identity import MemoryMismatchError
from radt.memory.memory import Memory
from radt.methods import METHODS, Method
from radt.methods.method import check_size
from radt.runs.compare import read_config
from radt.runs.run import CHECKPOINT, Run, build_for, carried_target, describe, to_device
from radt.trajectory import Trajectory

WEIGHTS = Path(__file__).parent / "weights"


@dataclass(frozen=True)
class Loaded:
    """A method ready to act, and what its checkpoint says of itself."""

    method: Method
    card: Card
    path: Path

    @property
    def label(self) -> str:
        """The name of its row in tables."""
        return self.method.name

    @property
    def rule(self) -> ActionRule:
        """How actions are chosen, as they were when the method was evaluated."""
        return decode(ActionRule, self.card.action_rule, f"{self.path}: action_rule")

    def agent(
        self,
        slots: int | None = None,
        seed: int = 0,
        autoreset_mode: AutoresetMode = AutoresetMode.DISABLED,
        tasks: Sequence[int] | None = None,
        memory: Memory | str | Path | None = None,
        demonstrations: Sequence[Trajectory] = (),
    ) -> Agent:
        """Put the method to work in one environment, or in `slots` of them side by side.

        Memories are empty, or the one that is given: it stays when the agent goes (see `Agent`).
        `demonstrations` are written to it first, each for the slot of its `task`.
        """
        if demonstrations:
            self._refuse_unseen(demonstrations, checked_tasks(tasks, slots or 1))
            memory = memory if isinstance(memory, Memory) else self.memory(memory or "ram:")
            if not memory.write([self.read(shown) for shown in demonstrations]):
                memory.warn_empty(f"keeps none of {len(demonstrations)} demonstrations")
        target = carried_target(self.card)
        return Agent(self.method, target, self.rule, seed, slots, autoreset_mode, tasks, memory)

    def read(self, shown: Trajectory) -> Trajectory:
        """Return an episode as the networks read it: encoded, where there is an encoder."""
        encoder = self.method.networks.get("encoder")
        return shown if encoder is None else replace(shown, states=encoder(shown.states))

    def _refuse_unseen(self, demonstrations: Sequence[Trajectory], tasks: list[int]) -> None:
        """Refuse demonstrations that no slot would find."""
        if unseen := sorted({shown.task for shown in demonstrations} - set(tasks)):
            raise MemoryMismatchError(
                f"there are demonstrations of task {unseen[0]}, but the slots of this agent have "
                f"the tasks {tasks} and would not find them; give tasks=[{unseen[0]}], or put the "
                f"demonstrations into task {tasks[0]} with radt.memory.demonstrations.as_task"
            )

    def memory(self, place: str | Path = "ram:", writing: bool = True) -> Memory:
        """Open a memory of this method's kind, in RAM or at a place such as a folder."""
        check_size(self.method, 1)
        own = self.method.actor(1).memory
        if own is None:
            raise MemoryMismatchError(
                f"{self.path} is trained with {self.label}, which has no memory; give a run "
                "of ra-dt or ra-dt+"
            )
        return own.at(place, writing)


def load(path: str | Path, device: str = "cpu") -> Loaded:
    """Load a run's folder or a checkpoint file, with its networks on a device."""
    path = Path(path)
    file = path / CHECKPOINT if path.is_dir() else path
    if file.is_file() and file.suffix != ".safetensors":
        raise CheckpointError(
            f"{path} is no checkpoint; give a run's folder, e.g. {path.parent}, or a .safetensors "
            "file"
        )
    if file.exists():
        method, card = load_checkpoint(file)
        to_device(method, device)
        return Loaded(method, card, file)
    if (path / "config.json").is_file():
        return _from_config(path)
    raise CheckpointError(
        f"there is neither a run nor a checkpoint at {path}; "
        "make one with `radt run ENV --out DIR`, or give the path of a .safetensors file"
    )


def method_at(path: str | Path, device: str = "cpu") -> Method:
    """Load a method alone, as a worker does that is only told where it lies."""
    return load(path, device).method


def shipped(env: str = "dark-room-10x10") -> Path:
    """Return the weights that come with the package for an environment or one with its spaces."""
    exact = WEIGHTS / f"{env}.safetensors"
    if exact.exists():
        return exact
    suite = SUITES[env]
    ready = sorted(WEIGHTS.glob("*.safetensors"))
    for file in ready:
        if file.stem in SUITES.names() and SUITES[file.stem].spaces == suite.spaces:
            return file
    known = ", ".join(file.stem for file in ready) or "none"
    raise CheckpointError(
        f"no weights for {env} come with radt (there are: {known}); train some with "
        f"`radt run {env} --out runs/{env}`"
    )


def _from_config(folder: Path) -> Loaded:
    """Build a method that learns nothing from its run's config."""
    config = read_config(folder)
    if METHODS[config.method].learns:
        raise CheckpointError(
            f"the run in {folder} is not trained yet (no {CHECKPOINT}); give its `radt run` "
            "command again to finish it"
        )
    run = Run(config, folder)
    return Loaded(build_for(run), describe(run), folder)
