"""`radt bench decide`: what a decision costs beside the policy's forward pass.

Several agents go through the same trial, with full memories behind them: RA-DT with windowed and
with incremental embedding, retrieving at every step and every 25; windows that move on by half of
themselves at once and are kept in between; methods with two episodes of context, with and without
what they cache; recurrent backbones, which read each step once; and a Decision Transformer of the
same size without memory. All are measured against its forward pass over every token of the window;
itself it decides sooner, as its last layer is computed for one token only. Decisions count once the
window is full.

Up to step C embedding step by step equals embedding the window. Behind it a hidden state that was
kept still knows what has left the window: how alike both are there is one number of the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from radt.agent import Agent
from radt.api import preset
from radt.bench import USUAL, DecideArguments, Resources
from radt.bench.common import Clock, tracked, untrained_method, with_provenance
from radt.config import Budget
from radt.costs import random_trial, warm_actor
from radt.envs.suite import SUITES
from radt.icl import in_context_learning
from radt.loading import Loaded, load, shipped
from radt.memory.embed import Embedder, IncrementalEmbedder
from radt.methods import Actor, Method
from radt.model.recurrent import RECURRENCES
from radt.runs.run import RunError
from radt.trajectory import Batch, Trajectory

FORWARD = "forward alone"  # the policy without a memory, over every token
WHOLE = "ra-dt, incremental"  # whose whole decision the ratio is about
SELDOM = 25
REMEMBERED = 10  # finished trials in every memory
Scene = tuple[Budget, int]  # whose model, how many slots
# The ratio is that of the first one.
SCENES: tuple[Scene, ...] = (("laptop", 20), ("laptop", 1), ("paper", 1))
PARTS = ("embed", "search", "policy", "rest")
Timing = dict[str, Any]  # of one contestant in one scene, see `time_scene`
TABLE = (
    "timings",
    ("who", "model", "slots", *PARTS, "whole", "decisions_per_second", "ratio"),
)


def bench_decide(
    arguments: DecideArguments,
    resources: Resources = USUAL,
    scenes: Sequence[Scene] = SCENES,
    trials: int = 2,
) -> dict[str, Any]:
    """Measure decisions, and how alike both embeddings are in some trials of trained weights."""
    env, weights, device = arguments.env, arguments.weights, resources.device
    loaded = load(weights or shipped(env), device)
    alike = embedding_cosine(loaded, env, trials)
    timings = list[Timing]()
    for budget, slots in tracked("decide", scenes, resources.quiet):
        timings += time_scene(env, budget, slots, arguments.steps, device)
    measured = {
        "env": env,
        "threads": torch.get_num_threads(),
        "timed_decisions": arguments.steps,
        "remembered_trials": REMEMBERED,
        "timings": timings,
        "weights": "shipped" if weights is None else weights.name,
        "incremental_cosine": alike,
    }
    headline = next(timing for timing in timings if timing["who"] == WHOLE)
    return with_provenance("decide", measured, headline["ratio"])


def time_scene(env: str, budget: Budget, slots: int, steps: int, device: str) -> list[Timing]:
    """Let everyone decide at every step of one trial, one after the other."""
    methods, spaces = contestants(env, budget, device), SUITES[env].spaces
    alone = untrained_method(preset(env, "dt", budget), device)
    full = alone.context.input_steps  # steps of a full window
    if full + steps > spaces.horizon:
        left = spaces.horizon - full
        raise RunError(f"--steps {steps} go beyond a trial of {env}; at most {left} are possible")
    rng, everyone = np.random.default_rng(0), np.arange(slots)
    *past, now = [
        [random_trial(spaces, slot, episode, rng) for slot in range(slots)]
        for episode in range(REMEMBERED + 1)
    ]
    deciders = {who: watched(method, slots, past) for who, method in methods.items()}
    forward, (_, trials) = Clock(), warm_actor(alone, slots)
    clocks = {FORWARD: forward} | {who: clock for who, (_, clock) in deciders.items()}
    for step in range(full + steps):
        trials.see(everyone, np.stack([trial.states[step] for trial in now]))
        if step == full:
            for clock in clocks.values():
                clock.seconds.clear()
        window = trials.recent(everyone, full)
        with forward.part("policy"), torch.no_grad():
            alone.networks["policy"](window).cpu()
        for actor, clock in deciders.values():
            with clock.part("rest"):
                actor.decide(trials, everyone)
        actions = np.stack([trial.actions[step] for trial in now])
        trials.record(everyone, actions, np.stack([trial.rewards[step] for trial in now]))
    base = forward.seconds["policy"]
    return [
        {
            "model": budget,
            "slots": slots,
            "attention": "fused",  # as PyTorch computes it by itself
            "who": who,
            # search: retrieve, reweight, read the chunks; policy: with its cross-attention
            **{part: clock.seconds[part] / steps for part in PARTS},
            "whole": (whole := sum(clock.seconds.values())) / steps,
            "decisions_per_second": slots * steps / whole,
            "ratio": whole / base,  # to the forward pass alone
        }
        for who, clock in clocks.items()
    ]


def contestants(env: str, budget: Budget, device: str) -> dict[str, Method]:
    """Build everyone who is timed, all with the model of one budget, untrained."""

    def build(name: str, *sets: str, incremental: bool = True) -> Method:
        method: Any = untrained_method(preset(env, name, budget, *sets), device)
        if hasattr(method, "embedder"):
            method.embedder = WatchedEmbedder(method.embedder, incremental)
        return cast(Method, method)

    half = preset(env, "dt", budget).options.context_len // 2
    moves, seldom = f"options.window_step={half}", f"options.memory.retrieve_every={SELDOM}"
    found = {
        "dt": build("dt"),
        f"dt, moves by {half}": build("dt", moves),
        WHOLE: build("ra-dt", "options.memory.retrieve_every=1"),
        "ra-dt, windowed": build("ra-dt", "options.memory.retrieve_every=1", incremental=False),
        f"ra-dt, every {SELDOM}": build("ra-dt", seldom),
        f"ra-dt, every {SELDOM}, moves by {half}": build("ra-dt", seldom, moves),
    }
    for name in ("ad", "dt-2ep", "dpt"):
        found[f"{name}, cache"] = build(name, "options.cache=true")
        found[f"{name}, no cache"] = build(name, "options.cache=false")
    for backbone in RECURRENCES:
        own = f"options.model.backbone={backbone}"
        found |= {f"{name}, {backbone}": build(name, own) for name in ("dt", "ad")}
        found[f"ra-dt, every {SELDOM}, {backbone}"] = build("ra-dt", seldom, own)
    return found


class WatchedEmbedder:
    """An embedder whose time is known; one that is not `incremental` reads windows only."""

    def __init__(self, embedder: Embedder, incremental: bool) -> None:
        self.embedder, self.incremental, self.clock = embedder, incremental, Clock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.embedder, name)

    def __call__(self, prefixes: Batch, dropped: Tensor | None = None) -> Tensor:
        with self.clock.part("embed"):
            return self.embedder(prefixes, dropped)

    def stepper(self, rows: int, context_len: int) -> IncrementalEmbedder | None:
        """Return what embeds step by step, where that is offered and wanted."""
        stepper = self.embedder.stepper(rows, context_len) if self.incremental else None
        if stepper is not None:
            self.clock.watch(stepper, "step", "embed")
        return stepper


def watched(
    method: Method, slots: int, past: Sequence[Sequence[Trajectory]]
) -> tuple[Actor, Clock]:
    """Put a method to work behind past trials, and watch its parts."""
    clock = getattr(getattr(method, "embedder", None), "clock", Clock())
    policy: Any = method.networks["policy"]
    for owner, function in (
        *((policy, "forward"), (policy, "decide"), (policy.trunk, "step")),  # a step with a cache
        *((policy, "context"), (policy.trunk, "read")),  # chunks are read when they are put to use
    ):
        if hasattr(owner, function):  # DPT's policy reads sets
            clock.watch(owner, function, "policy")
    actor, _ = warm_actor(method, slots, past)
    if actor.memory is not None:
        clock.watch(actor.memory, "retrieve", "search")
        clock.watch(actor.memory, "chunks", "search")
    return actor, clock


def embedding_cosine(loaded: Loaded, env: str, trials: int, seed: int = 0) -> float:
    """Roll out trained weights; return the mean cosine of both embeddings behind step C."""
    card, suite, method = loaded.card, SUITES[env], cast(Any, loaded.method)
    tasks = suite.eval_tasks
    context_len = method.context.input_steps
    embedder: Any = getattr(method, "embedder", None)
    stepper = embedder and embedder.stepper(len(tasks), context_len)
    if card.env != env or stepper is None:
        raise RunError(
            f"{loaded.path} holds {loaded.label} for {card.env}; give a run of ra-dt in {env}, or "
            "of a method that embeds step by step"
        )
    cosines: list[Tensor] = []

    def after_step(step: int, agent: Agent, obs: Any, rewards: Any) -> None:
        slots, seen = np.flatnonzero(agent.is_acting), agent.trials
        stepper.reset(torch.from_numpy(slots[seen.step[slots] == 0]))
        latest = seen.latest(slots, embedder.network.embed.no_action)
        stepped = stepper.step(latest, torch.from_numpy(slots)).cpu()
        late = seen.step[slots] >= context_len
        if late.any():
            windows = embedder(seen.recent(slots[late], context_len))
            cosines.append(cosine_similarity(stepped[torch.from_numpy(late)], windows))

    vector = suite.make_vec(tasks)
    agent = loaded.agent(len(tasks), seed, vector.metadata["autoreset_mode"], tasks)
    in_context_learning(agent, vector, trials, seed, after_step)
    vector.close()
    return float(torch.cat(cosines).mean())
