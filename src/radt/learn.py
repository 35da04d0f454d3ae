"""Algorithm 2 as one loop for every method: draw, predict, update, and now and then look.

Everything random in update `i` comes from `(seed, i)` alone, so a run that is killed and started
again goes on exactly as if nothing had happened.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from radt.checkpoint import CheckpointError, read_tensors, write_tensors
from radt.decode import differences, named
from radt.distributed import SINGLE_PROCESS, ProcessGroup
from radt.methods.method import Method, TrainedBeside
from radt.track import Tracker

INTERVALS = ("evaluate_every", "log_every", "save_every")  # which decide nothing
MOST_WARMUP = 5  # the warm-up takes at most one update in so many


@dataclass(frozen=True)
class LearnConfig:
    """How a policy is trained; the defaults are the paper's for grid-worlds."""

    updates: int = 100_000  # gradient steps
    batch_size: int = 128  # windows, or sequences, of an update
    learning_rate: float = 1e-4  # after the warm-up
    final_learning_rate: float = 1e-6  # at the end of the cosine
    warmup: int = 4000  # updates of linear warm-up before the cosine; at most a fifth of all
    weight_decay: float = 0.01  # on the weights of linear layers only
    clip: float = 0.25  # longer gradients are shortened to this norm
    precision: Literal["float32", "bfloat16"] = "float32"  # of the loss; weights stay in float32
    compile: bool = False  # the loss, by torch.compile
    evaluate_every: int = 25_000  # updates between evaluations on validation tasks; 0: none
    log_every: int = 50  # updates between lines of the log
    save_every: int = 500  # updates between states that a killed run goes on from

    def __post_init__(self) -> None:
        counts = dict.fromkeys(("updates", "batch_size", "log_every", "save_every"), 1)
        counts |= dict.fromkeys(("warmup", "evaluate_every"), 0)
        for name, least in counts.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")
        for name in ("learning_rate", "final_learning_rate", "weight_decay"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, as {getattr(self, name)} is")
        if self.clip <= 0:
            raise ValueError(f"clip must be above 0, not {self.clip}")


def learning_rate(config: LearnConfig, update: int) -> float:
    """Rise linearly during the warm-up, then fall along a cosine to the final rate."""
    warmup = min(config.warmup, config.updates // MOST_WARMUP)
    if update < warmup:
        return config.learning_rate * (update + 1) / warmup
    progress = (update - warmup) / max(1, config.updates - warmup)
    above = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return config.final_learning_rate + above * (config.learning_rate - config.final_learning_rate)


def optimiser(trained: nn.Module, config: LearnConfig) -> torch.optim.AdamW:
    """Build AdamW with weight decay on linear weights and on nothing else."""
    decayed = [m.weight for m in trained.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    marked = {id(weight) for weight in decayed}
    others = [weight for weight in trained.parameters() if id(weight) not in marked]
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, fused=True)


def loss_of(method: Method, config: LearnConfig) -> Callable[[Any], Tensor]:
    """Return the method's loss, compiled and in the precision that the config asks for."""
    compute: Callable[[Any], Tensor] = torch.compile(method.loss) if config.compile else method.loss
    if config.precision == "float32":
        return compute
    device = next(method.networks["policy"].parameters()).device.type

    def rounded(examples: Any) -> Tensor:
        with torch.autocast(device, torch.bfloat16):
            return compute(examples)

    return rounded


def learn(
    method: Method,
    config: LearnConfig,
    seed: int,
    state_file: Path,
    tracker: Tracker,
    evaluate: Callable[[int], Mapping[str, float]] | None = None,
    phase: str = "train",
    group: ProcessGroup = SINGLE_PROCESS,
) -> None:
    """Train a method's policy on the data it was prepared with (Algorithm 2, lines 5-15).

    What it has `beside` its policy is trained and saved with it. In a process `group`, every
    process calls this with the same data.
    """
    beside = getattr(method, "beside", None) or TrainedBeside()
    policy = method.networks["policy"]
    trained = nn.ModuleDict({"policy": policy, "beside": beside})
    adam = optimiser(trained, config)
    group.check_batch(config.batch_size)
    training = _training(method, config, seed)
    done = _resume(trained, adam, state_file, training)
    group.agree("finished updates", done)
    compute = group.shared(trained, loss_of(method, config))
    tracker.start(phase, total=config.updates, done=done)
    started, since = time.monotonic(), done
    for update in range(done, config.updates):
        _log(tracker, update, beside.between_updates(update, config.updates))
        value, norm = _update(method, compute, adam, config, seed, update, group)
        finished = update + 1
        if finished % config.log_every == 0 or finished == config.updates:
            speed = (finished - since) / (time.monotonic() - started)
            rate = learning_rate(config, update)
            value = group.mean(value)
            tracker.log(finished, loss=float(value), grad=float(norm), lr=rate, per_second=speed)
        due = config.evaluate_every and finished % config.evaluate_every == 0
        if evaluate is not None and due and group.is_rank_zero:
            tracker.log(finished, **evaluate(finished))
        if group.is_rank_zero and (finished % config.save_every == 0 or finished == config.updates):
            # Last, so that nothing above is skipped.
            _save(trained, adam, finished, state_file, training)
    _log(tracker, config.updates, beside.between_updates(config.updates, config.updates))
    policy.eval()
    tracker.finish()


def _log(tracker: Tracker, done: int, facts: Mapping[str, float]) -> None:
    if facts:
        tracker.log(done, **facts)


def _update(
    method: Method,
    compute: Callable[[Any], Tensor],
    adam: torch.optim.AdamW,
    config: LearnConfig,
    seed: int,
    update: int,
    group: ProcessGroup,
) -> tuple[Tensor, Tensor]:
    """Make one gradient step; all its randomness comes from (seed, update)."""
    policy = method.networks["policy"].train()
    rng = np.random.default_rng([seed, update])
    examples = method.draw(config.batch_size, rng)
    # Dropout has no generator of its own; each process has its own mask.
    torch.manual_seed(int(rng.integers(1 << 62)) + group.rank)
    loss = compute(examples)
    group.backward(loss)
    norm = nn.utils.clip_grad_norm_(policy.parameters(), config.clip)
    for param_group in adam.param_groups:
        param_group["lr"] = learning_rate(config, update)
    adam.step()
    adam.zero_grad(set_to_none=True)
    return loss.detach(), norm


def _training(method: Method, config: LearnConfig, seed: int) -> dict[str, Any]:
    """Say what the weights after some updates depend on, beside the data."""
    learn = {name: value for name, value in asdict(config).items() if name not in INTERVALS}
    return {"method": method.name, "seed": seed, "learn": learn}


def _save(
    trained: nn.Module,
    adam: torch.optim.AdamW,
    done: int,
    path: Path,
    training: Mapping[str, Any],
) -> None:
    """Write what training resumes from; the checkpoint is written by runs/train.py."""
    tensors = dict(trained.state_dict())
    for name, weight in _named(trained):
        state = adam.state.get(weight, {})
        tensors |= {f"adam.{key}.{name}": torch.as_tensor(value) for key, value in state.items()}
    write_tensors(path, tensors, {"updates": str(done), "training": json.dumps(training)})


def _named(trained: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Name the weights as moments are saved; those of a policy go without its name."""
    for name, weight in trained.named_parameters():
        yield name.removeprefix("policy."), weight


def _refuse_other(path: Path, header: Mapping[str, str], training: Mapping[str, Any]) -> None:
    """Refuse the state of another training; one from before states told theirs is believed."""
    begun = json.loads(header["training"]) if "training" in header else training
    if unlike := differences(begun, training):
        raise CheckpointError(
            f"{path} is the state of another training ({named(unlike)}); delete it, and the same "
            "command trains again"
        )


def _resume(
    trained: nn.Module, adam: torch.optim.AdamW, path: Path, training: Mapping[str, Any]
) -> int:
    """Load a saved state, if there is one, and return how many updates it has seen."""
    if not path.exists():
        return 0
    tensors, header = read_tensors(path)
    _refuse_other(path, header, training)
    try:
        done = int(header["updates"])
        trained.load_state_dict({n: t for n, t in tensors.items() if not n.startswith("adam.")})
    except (KeyError, ValueError, RuntimeError) as error:
        raise CheckpointError(
            f"{path} is not how far this run had come ({type(error).__name__}); delete it, and the "
            "same command trains again"
        ) from error
    for name, weight in _named(trained):
        state = {
            key: tensors[f"adam.{key}.{name}"].to(weight.device)
            for key in ("step", "exp_avg", "exp_avg_sq")
            if f"adam.{key}.{name}" in tensors
        }
        if state:
            adam.state[weight] = state
    return done
