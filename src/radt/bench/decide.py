"""`radt bench decide`: what a decision costs beside the policy's forward pass.

Several agents live through the same trial, with full memories behind them: the paper's RA-DT with
windowed and with incremental embedding, retrieving at every step and every 25; windows that move on
by half of themselves at once and are kept in between; methods with two episodes of context, with
and without what they cache; and a Decision Transformer of the same size without memory. What all is
measured against is its forward pass over every token of the window; itself it decides sooner, as
its last layer is computed for one token only. Decisions count once the window is full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy, deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from radt.api import preset
from radt.bench.agreement import measure_agreement, variant
from radt.bench.clock import Clock
from radt.bench.histories import episodes_of, random_walks, untrained
from radt.bench.report import publish, with_provenance
from radt.config import Budget
from radt.costs import warm_actor
from radt.envs.suite import SUITES, TaskSuite
from radt.experiments.run import RunError
from radt.loading import Loaded, load, shipped
from radt.methods import METHODS, Actor, Method
from radt.methods.decision_cache import MovingWindow
from radt.methods.dt import DT, DTActor, DTOptions
from radt.methods.trials import RunningTrials, last_real
from radt.track import Tracker
from radt.trajectory import Trajectory

OUT = Path("runs/bench/decide.json")
ALONE = "forward alone"  # the policy without a memory, over every token
PLAIN = "dt"  # the same, as it decides
WHOLE = "ra-dt, incremental"  # whose whole decision the ratio is about
MOVES = ", moves by "  # and by how many steps, in the names of those whose windows stay in between
SELDOM = 25
REMEMBERED = 10  # finished trials in every memory
Scene = tuple[Budget, int]  # whose model, how many slots
SCENES: tuple[Scene, ...] = (
    ("laptop", 20),
    ("laptop", 1),
    ("paper", 1),
)  # the first's ratio counts
ATTENTION = ("fused", "math")


@dataclass(frozen=True)
class Timing:
    """The seconds of one decision of all slots together, by part; the parts add up to `whole`."""

    model: str
    slots: int
    attention: str
    who: str
    embed: float
    search: float  # retrieve, reweight, read the chunks
    policy: float  # the forward pass, cross-attention included
    rest: float
    whole: float
    decisions_per_second: float
    ratio: float  # whole / the forward pass alone
    ratio_to_dt: float  # whole / the whole decision of such a policy without a memory
    memory_ratio: float | None  # search, reweight and cross-attention / the forward pass alone


def bench_decide(
    env: str = "dark-room-10x10",
    scenes: Sequence[Scene] = SCENES,
    steps: int = 25,
    agreement_tasks: int = 20,
    agreement_trials: int = 10,
    device: str = "cpu",
    quiet: bool = True,
    weights: Path | None = None,
) -> dict[str, Any]:
    """Measure decisions, and how well embedding step by step agrees with windows.

    Args:
        env: The suite whose spaces and context lengths are taken.
        scenes: Pairs of a budget, whose models decide, and a number of slots.
        steps: Decisions that are timed, behind step C of a trial.
        agreement_tasks: Unseen tasks on which trained weights compare both embeddings.
        agreement_trials: Trials of each.
        device: Where networks compute.
        quiet: Draw no bars.
        weights: A run whose weights these are; None: those that ship, of `ra-dt+`.
    """
    loaded = load(weights or shipped(env), device)
    check_askable(loaded, env)
    tracker, timings = Tracker(quiet=quiet), list[Timing]()
    tracker.start("decide", total=len(scenes) * len(ATTENTION) + 1)
    done = 0
    for budget, slots in scenes:
        for attention in ATTENTION:
            with attend(attention):
                timings += time_scene(env, budget, slots, attention, steps, device)
            done += 1
            tracker.advance(done, f"{budget}, {slots} slots, {attention}")
    suite = SUITES[env]
    tasks = suite.eval_tasks[:agreement_tasks]
    agreement = measure_agreement(loaded, suite, tasks, agreement_trials)
    tracker.finish()
    measured = {
        "env": env,
        "threads": torch.get_num_threads(),
        "timed_decisions": steps,
        "remembered_trials": REMEMBERED,
        "timings": [asdict(timing) for timing in timings],
        "agreement": {
            "method": loaded.card.method,
            "weights": "shipped" if weights is None else weights.name,
            "tasks": len(tasks),
            **asdict(agreement),
        },
    }
    headline = next(t for t in timings if (t.attention, t.who) == (ATTENTION[0], WHOLE))
    return with_provenance("decide", measured, headline.ratio)


def check_askable(loaded: Loaded, env: str) -> None:
    """Refuse weights that cannot be asked at every step, before anything is timed."""
    card = loaded.card
    try:
        if card.env != env or not METHODS[card.method].trains_embedder:
            raise ValueError("only a trained embedder reads step by step, in its own environment")
        variant(loaded.method, 1, incremental=True)
    except ValueError as error:
        raise RunError(
            f"{loaded.path} holds {card.method} for {card.env} ({error}); give a run of ra-dt in "
            f"{env}, or of a method that embeds step by step and may ask at every step"
        ) from error


def attend(attention: str) -> AbstractContextManager[Any]:
    """Compute attention fused, as PyTorch does by itself, or as separate products."""
    return nullcontext() if attention == "fused" else sdpa_kernel(SDPBackend.MATH)


@dataclass(frozen=True)
class Decider:
    """An actor behind its past trials, and the clock that watches it."""

    who: str
    actor: Actor
    clock: Clock


def time_scene(
    env: str, budget: Budget, slots: int, attention: str, steps: int, device: str
) -> list[Timing]:
    """Let everyone decide at every step of one trial, one after the other."""
    methods, spaces = contestants(env, budget, device), SUITES[env].spaces
    full = methods[ALONE].context.input_steps  # steps of a full window
    if full + steps > spaces.horizon:
        left = spaces.horizon - full
        raise RunError(f"--steps {steps} go beyond a trial of {env}; at most {left} are possible")
    *past, now = lived(SUITES[env], slots)
    deciders = [watched(who, method, slots, past) for who, method in methods.items()]
    everyone, (_, trials) = np.arange(slots), warm_actor(methods[ALONE], slots)
    for step in range(full + steps):
        trials.see(everyone, np.stack([trial.states[step] for trial in now]))
        for decider in deciders:
            if step == full:
                decider.clock.seconds.clear()
            with decider.clock.part("rest"):
                decider.actor.decide(trials, everyone)
        actions = np.stack([trial.actions[step] for trial in now])
        trials.record(everyone, actions, np.stack([trial.rewards[step] for trial in now]))
    means = {d.who: {part: s / steps for part, s in d.clock.seconds.items()} for d in deciders}
    place = (budget, slots, attention)
    forward = means[ALONE]["policy"]
    return [
        _timing(place, who, parts, forward, means[plain_for(who)]) for who, parts in means.items()
    ]


def plain_for(who: str) -> str:
    """Name the Decision Transformer without a memory whose window moves as that of `who` does."""
    _, moves, by = who.partition(MOVES)
    return PLAIN + moves + by


class ForwardAlone(DT):
    """A Decision Transformer that goes over every token of its window for a decision."""

    def actor(self, slots: int) -> ForwardActor:
        """Put it to work."""
        return ForwardActor(MovingWindow(self.policy, slots, self.options.context_len, 1))


class ForwardActor(DTActor):
    """Decides as the policy is trained: with the actions of all steps, of which it takes one."""

    @torch.no_grad()
    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        """Predict the next action of each slot, [B, action_size]."""
        recent = self.window.recent(trials, slots)
        return last_real(recent, self.policy(recent).cpu())


def contestants(env: str, budget: Budget, device: str) -> dict[str, Method]:
    """Build everyone who is timed, all with the model of one budget, untrained."""
    config, spaces = preset(env, "ra-dt", budget), SUITES[env].spaces
    context_len = config.options.memory.context_len
    half = context_len // 2
    options = DTOptions(config.options.model, context_len)
    method = untrained(config, device)
    alone, plain = (kind(spaces, options, seed=0) for kind in (ForwardAlone, DT))
    moving = DT(spaces, replace(options, window_step=half), seed=0)
    for without in (alone, plain, moving):
        without.policy.to(device)
    found: dict[str, Method] = {
        ALONE: alone,
        PLAIN: plain,
        f"{PLAIN}{MOVES}{half}": moving,
        WHOLE: variant(method, 1, incremental=True),
        "ra-dt, windowed": variant(method, 1, incremental=False),
        f"ra-dt, every {SELDOM}": variant(method, SELDOM, incremental=False),
        f"ra-dt, every {SELDOM}{MOVES}{half}": variant(
            method, SELDOM, incremental=False, window_step=half
        ),
    }
    for name in ("ad", "dt-2ep", "dpt"):
        for cache in (True, False):
            longer = preset(env, name, budget, f"options.cache={str(cache).lower()}")
            found[f"{name}, {'cache' if cache else 'no cache'}"] = untrained(longer, device)
    return found


def lived(suite: TaskSuite, slots: int) -> list[tuple[Trajectory, ...]]:
    """Walk at random through some past trials and one more, in each slot through its own task."""
    walks = random_walks(suite, (REMEMBERED + 1) * suite.spaces.horizon, seed=0)
    return list(zip(*(episodes_of(walks[slot], slot) for slot in range(slots)), strict=True))


def watched(who: str, method: Method, slots: int, past: Sequence[Sequence[Trajectory]]) -> Decider:
    """Put a copy of a method to work behind past trials, and watch its parts."""
    own: Any = copy(method)
    own.policy = deepcopy(own.policy)  # the clocks of others must not hear this one
    clock = getattr(getattr(own, "embedder", None), "clock", Clock())
    policy, trunk = own.policy, own.policy.trunk
    for owner, function in (
        *((policy, "forward"), (policy, "decide"), (trunk, "step")),  # a step with a cache
        *((policy, "context"), (trunk, "read")),  # chunks are read when they are put to use
    ):
        if hasattr(owner, function):  # DPT's policy reads sets
            clock.watch(owner, function, "policy")
    actor, _ = warm_actor(own, slots, past)
    if actor.memory is not None:
        clock.watch(actor.memory, "retrieve", "search")
        clock.watch(actor.memory, "chunks", "search")
    return Decider(who, actor, clock)


def _timing(
    place: tuple[str, int, str],
    who: str,
    parts: Mapping[str, float],
    forward: float,
    plain: Mapping[str, float],
) -> Timing:
    """Put the parts of a decision into relation to the forward pass and to DT's decision."""
    embed, search, policy, rest = (parts.get(name, 0.0) for name in PARTS[:-1])
    whole = embed + search + policy + rest
    model, slots, attention = place
    return Timing(
        model=model,
        slots=slots,
        attention=attention,
        who=who,
        embed=embed,
        search=search,
        policy=policy,
        rest=rest,
        whole=whole,
        decisions_per_second=slots / whole,
        ratio=whole / forward,
        ratio_to_dt=whole / sum(plain.values()),
        memory_ratio=(search + policy - plain["policy"]) / forward if search else None,
    )


PARTS = ("embed", "search", "policy", "rest", "whole")
RATES = ("decisions/s", "/ forward", "/ dt", "memory / forward")
COLUMNS = ("who", "model", "slots", "attention", *PARTS, *RATES)


def _table(record: Mapping[str, Any]) -> list[tuple[str, ...]]:
    rows = []
    for timing in record["timings"]:
        place = (timing["who"], timing["model"], str(timing["slots"]), timing["attention"])
        parts = [f"{1e3 * timing[name]:.2f}" for name in PARTS]
        share = timing["memory_ratio"]
        rates = (
            f"{timing['decisions_per_second']:,.0f}",
            f"{timing['ratio']:.2f}",
            f"{timing['ratio_to_dt']:.2f}",
            "-" if share is None else f"{share:.2f}",
        )
        rows.append((*place, *parts, *rates))
    return rows


def main(
    out: Path | None = None,
    env: str = "dark-room-10x10",
    steps: int = 25,
    device: str = "cpu",
    json_only: bool = False,
    quiet: bool = False,
    weights: Path | None = None,
) -> int:
    """Run the benchmark, write its JSON and print the ratio last."""
    record = bench_decide(env, steps=steps, device=device, quiet=quiet, weights=weights)
    found = record["agreement"]
    title = (
        f"one decision of all slots in {env}, milliseconds\n"
        f"incremental against windowed embedding behind step C, {found['decisions']:,} decisions "
        f"of {found['method']}: "
        f"same chunk {found['same_chunk']:.1%}, same greedy action {found['same_action']:.1%}, "
        f"cosine {found['cosine']:.4f}"
    )
    publish(record, title, _table(record), out or OUT, json_only, COLUMNS)
    return 0
