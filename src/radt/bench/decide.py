"""`radt bench decide`: what a decision costs beside the policy's forward pass.

Several agents go through the same trial, with full memories behind them: the paper's RA-DT with
windowed and with incremental embedding, retrieving at every step and every 25; windows that move on
by half of themselves at once and are kept in between; methods with two episodes of context, with
and without what they cache; and a Decision Transformer of the same size without memory. What all is
measured against is its forward pass over every token of the window; itself it decides sooner, as
its last layer is computed for one token only. Decisions count once the window is full.

Does embedding step by step find what embedding the window finds? Up to step C both are the same.
Behind it a hidden state that was kept still knows what has left the window, so the decisions of
trained weights there are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from rich.table import Table
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cosine_similarity

from radt.agent import Agent, Target
from radt.api import preset
from radt.bench import USUAL, DecideArguments, Resources
from radt.bench.common import Clock, make_table, random_walks, untrained_method, with_provenance
from radt.config import Budget
from radt.costs import warm_actor
from radt.data import History
from radt.envs.suite import SUITES, TaskSuite
from radt.experiments.controls import altered
from radt.experiments.run import RunError
from radt.icl import in_context_learning
from radt.loading import Loaded, load, shipped
from radt.memory.embed import Embedder, IncrementalEmbedder
from radt.methods import METHODS, Actor, Method
from radt.methods.decision_cache import MovingWindow
from radt.methods.dt import DT, DTActor, DTOptions
from radt.methods.trials import RunningTrials, last_real
from radt.track import Tracker
from radt.trajectory import Batch, Trajectory

FORWARD = "forward alone"  # the policy without a memory, over every token
PLAIN = "dt"  # the same, as it decides
WHOLE = "ra-dt, incremental"  # whose whole decision the ratio is about
MOVES = ", moves by "  # and by how many steps, in the names of those whose windows stay in between
SELDOM = 25
REMEMBERED = 10  # finished trials in every memory
Scene = tuple[Budget, int]  # whose model, how many slots
# The ratio is that of the first one.
SCENES: tuple[Scene, ...] = (("laptop", 20), ("laptop", 1), ("paper", 1))
ATTENTION = ("fused", "math")
PARTS = ("embed", "search", "policy", "rest", "whole")


Timing = dict[str, Any]  # see `_timing`


def bench_decide(
    arguments: DecideArguments,
    resources: Resources = USUAL,
    scenes: Sequence[Scene] = SCENES,
    agreement_tasks: int = 20,
    agreement_trials: int = 10,
) -> dict[str, Any]:
    """Measure decisions, and how well embedding step by step agrees with windows.

    `scenes` are pairs of a budget, whose models decide, and a number of slots; trained weights
    compare both embeddings on unseen tasks.
    """
    env, weights, device = arguments.env, arguments.weights, resources.device
    loaded = load(weights or shipped(env), device)
    check_step_embedder(loaded, env)
    tracker, timings, done = Tracker(quiet=resources.quiet), list[Timing](), 0
    tracker.start("decide", total=len(scenes) * len(ATTENTION) + 1)
    for budget, slots in scenes:
        for attention in ATTENTION:
            with _attention_by(attention):
                timings += time_scene(env, budget, slots, attention, arguments.steps, device)
            done += 1
            tracker.advance(done, f"{budget}, {slots} slots, {attention}")
    suite = SUITES[env]
    tasks = suite.eval_tasks[:agreement_tasks]
    agreement = measure_agreement(loaded, suite, tasks, agreement_trials)
    tracker.finish()
    measured = {
        "env": env,
        "threads": torch.get_num_threads(),
        "timed_decisions": arguments.steps,
        "remembered_trials": REMEMBERED,
        "timings": timings,
        "agreement": {
            "method": loaded.card.method,
            "weights": "shipped" if weights is None else weights.name,
            "tasks": len(tasks),
            **agreement,
        },
    }
    headline = next(t for t in timings if (t["attention"], t["who"]) == (ATTENTION[0], WHOLE))
    return with_provenance("decide", measured, headline["ratio"])


def check_step_embedder(loaded: Loaded, env: str) -> None:
    """Refuse weights that cannot retrieve at every step, before anything is timed."""
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


def _attention_by(attention: str) -> AbstractContextManager[Any]:
    """Compute attention fused, as PyTorch does by itself, or as separate products."""
    return nullcontext() if attention == "fused" else sdpa_kernel(SDPBackend.MATH)


def time_scene(
    env: str, budget: Budget, slots: int, attention: str, steps: int, device: str
) -> list[Timing]:
    """Let everyone decide at every step of one trial, one after the other."""
    methods, spaces = contestants(env, budget, device), SUITES[env].spaces
    full = methods[FORWARD].context.input_steps  # steps of a full window
    if full + steps > spaces.horizon:
        left = spaces.horizon - full
        raise RunError(f"--steps {steps} go beyond a trial of {env}; at most {left} are possible")
    *past, now = random_trials(SUITES[env], slots)
    deciders = {who: watched(method, slots, past) for who, method in methods.items()}
    everyone, (_, trials) = np.arange(slots), warm_actor(methods[FORWARD], slots)
    for step in range(full + steps):
        trials.see(everyone, np.stack([trial.states[step] for trial in now]))
        for actor, clock in deciders.values():
            if step == full:
                clock.seconds.clear()
            with clock.part("rest"):
                actor.decide(trials, everyone)
        actions = np.stack([trial.actions[step] for trial in now])
        trials.record(everyone, actions, np.stack([trial.rewards[step] for trial in now]))
    means = {
        who: {part: seconds / steps for part, seconds in clock.seconds.items()}
        for who, (_, clock) in deciders.items()
    }
    place, forward = (budget, slots, attention), means[FORWARD]["policy"]
    return [
        _timing(place, who, parts, forward, means[without_memory(who)])
        for who, parts in means.items()
    ]


def without_memory(who: str) -> str:
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
    method = untrained_method(config, device)
    alone, plain = (kind(spaces, options, seed=0) for kind in (ForwardAlone, DT))
    moving = DT(spaces, replace(options, window_step=half), seed=0)
    for without in (alone, plain, moving):
        without.policy.to(device)
    found: dict[str, Method] = {
        FORWARD: alone,
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
            found[f"{name}, {'cache' if cache else 'no cache'}"] = untrained_method(longer, device)
    return found


def variant(method: Method, retrieve_every: int, incremental: bool, window_step: int = 1) -> Method:
    """Copy a method with a memory, its embedder watched, to ask and move as often as is said."""
    changed: Any = altered(method, {"retrieve_every": retrieve_every}, {"window_step": window_step})
    changed.embedder = WatchedEmbedder(changed.embedder, Clock(), incremental)
    return cast(Method, changed)


class WatchedEmbedder:
    """An embedder, its steps included, of which time and last vectors are known.

    `incremental=False` takes its steps away, so that every query is embedded from its window.
    """

    def __init__(self, embedder: Embedder, clock: Clock, incremental: bool) -> None:
        self.embedder, self.clock, self.incremental = embedder, clock, incremental
        self.vectors = torch.zeros(0, embedder.width)  # [B, width] the last ones

    def __getattr__(self, name: str) -> Any:
        return getattr(self.embedder, name)

    def __call__(self, prefixes: Batch, dropped: Tensor | None = None) -> Tensor:
        """Embed whole windows."""
        with self.clock.part("embed"):
            self.vectors = self.embedder(prefixes, dropped)
        return self.vectors

    def stepper(self, rows: int, context_len: int) -> IncrementalEmbedder | None:
        """Return itself as what embeds step by step, where that is offered and wanted."""
        offered = self.embedder.stepper(rows, context_len) if self.incremental else None
        if offered is None:
            return None
        self._stepper = offered
        return self

    def reset(self, rows: Tensor) -> None:
        """Start new trajectories in some rows."""
        self._stepper.reset(rows)

    def step(self, latest: Batch, rows: Tensor) -> Tensor:
        """Embed one more step."""
        with self.clock.part("embed"):
            self.vectors = self._stepper.step(latest, rows)
        return self.vectors


def random_trials(suite: TaskSuite, slots: int) -> list[tuple[Trajectory, ...]]:
    """Walk at random through some past trials and one more, in each slot through its own task."""
    walks = random_walks(suite, (REMEMBERED + 1) * suite.spaces.horizon)
    return list(zip(*(_episodes(walks[slot], slot) for slot in range(slots)), strict=True))


def _episodes(history: History, slot: int) -> list[Trajectory]:
    """Cut a history into its episodes, as an agent meets them in a slot."""
    ends = np.cumsum(history.lengths)[:-1]
    states, actions, rewards = (
        np.split(part, ends) for part in (history.states, history.actions, history.rewards)
    )
    return [Trajectory(states[at], actions[at], rewards[at], slot, at) for at in range(len(states))]


def watched(
    method: Method, slots: int, past: Sequence[Sequence[Trajectory]]
) -> tuple[Actor, Clock]:
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
    return actor, clock


def _timing(
    place: tuple[str, int, str],
    who: str,
    parts: Mapping[str, float],
    forward: float,
    plain: Mapping[str, float],
) -> Timing:
    """Put the seconds of one decision of all slots, by part, into relation to others."""
    model, slots, attention = place
    embed, search, policy, rest = (parts.get(name, 0.0) for name in PARTS[:-1])
    whole = embed + search + policy + rest
    return {
        "model": model,
        "slots": slots,
        "attention": attention,
        "who": who,
        "embed": embed,
        "search": search,  # retrieve, reweight, read the chunks
        "policy": policy,  # the forward pass, cross-attention included
        "rest": rest,
        "whole": whole,
        "decisions_per_second": slots / whole,
        "ratio": whole / forward,  # to the forward pass alone
        "ratio_to_dt": whole / sum(plain.values()),  # to such a policy without a memory
        # search, reweight and cross-attention over the forward pass alone
        "memory_ratio": (search + policy - plain["policy"]) / forward if search else None,
    }


class ShadowedActor:
    """An actor at its usual work, and another that decides the same without being listened to."""

    def __init__(self, actor: Actor, shadow: Actor, context_len: int) -> None:
        self.actor, self.shadow, self.context_len = actor, shadow, context_len
        self.alike: list[Tensor] = []  # of [n, 3]: same chunk, same action, cosine

    def __getattr__(self, name: str) -> Any:
        """Let both do what is asked of the actor: forget, begin trials, remember."""
        ours, theirs = getattr(self.actor, name), getattr(self.shadow, name)

        def both(*args: Any) -> None:
            ours(*args)
            theirs(*args)

        return both if name in ("forget", "begin_trials", "remember") else ours

    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        """Let both decide, note how alike they are, and pass on what the actor decides."""
        both = self.actor, self.shadow
        ours, theirs = (actor.decide(trials, slots) for actor in both)
        late = torch.from_numpy(trials.step[slots] >= self.context_len)
        if self.actor.retrieval is not None and self.shadow.retrieval is not None:
            chosen = [actor.retrieval.chosen for actor in both if actor.retrieval is not None]
            vectors = [cast(Any, actor.memory).embedder.vectors for actor in both]
            columns = [
                (chosen[0] == chosen[1]).all(1),
                ours.argmax(1) == theirs.argmax(1),
                cosine_similarity(*vectors),
            ]
            found = late & (chosen[1] >= 0).any(1)
            self.alike.append(torch.stack([column.double() for column in columns], dim=1)[found])
        return ours


def measure_agreement(
    loaded: Loaded, suite: TaskSuite, tasks: Sequence[int], trials: int, seed: int = 0
) -> dict[str, Any]:
    """Evaluate with a query at every step, embedded step by step, and compare with windows.

    Decisions count behind step C, where there is something to retrieve.
    """
    method, shadow = (variant(loaded.method, 1, incremental) for incremental in (True, False))
    env = suite.make_vec(tasks)
    mode = env.metadata["autoreset_mode"]
    target = Target(*loaded.card.target)
    agent = Agent(method, target, loaded.rule, seed, len(tasks), mode, tasks)
    context_len = cast(Any, method).options.memory.context_len
    both = ShadowedActor(agent.actor, shadow.actor(len(tasks)), context_len)
    agent.actor = cast(Actor, both)
    in_context_learning(agent, env, trials, seed)
    env.close()
    alike = torch.cat([torch.zeros(0, 3), *both.alike])  # [decisions, 3]
    if not len(alike):
        raise RunError(f"in {trials} trials nothing was retrieved behind step C; give more")
    shares = zip(("same_chunk", "same_action", "cosine"), alike.mean(0).tolist(), strict=True)
    return {"decisions": len(alike), **dict(shares)}  # shares of decisions, and a mean


def decide_table(record: Mapping[str, Any]) -> Table:
    """Show a line per scene and contestant, and above it how well embeddings agree."""
    rows = []
    for timing in record["timings"]:
        place = (timing["who"], timing["model"], str(timing["slots"]), timing["attention"])
        share = timing["memory_ratio"]
        rates = (
            f"{timing['decisions_per_second']:,.0f}",
            f"{timing['ratio']:.2f}",
            f"{timing['ratio_to_dt']:.2f}",
            "-" if share is None else f"{share:.2f}",
        )
        rows.append((*place, *(f"{1e3 * timing[name]:.2f}" for name in PARTS), *rates))
    found = record["agreement"]
    title = (
        f"one decision of all slots in {record['env']}, milliseconds\n"
        f"incremental against windowed embedding behind step C, {found['decisions']:,} decisions "
        f"of {found['method']}: "
        f"same chunk {found['same_chunk']:.1%}, same greedy action {found['same_action']:.1%}, "
        f"cosine {found['cosine']:.4f}"
    )
    rates = ("decisions/s", "/ forward", "/ dt", "memory / forward")
    return make_table(title, rows, ("who", "model", "slots", "attention", *PARTS, *rates))
