"""Training in several processes that `torchrun` has started, on one machine or on many.

    torchrun --nproc-per-node 2 -m radt.cli run dark-room-10x10 --out runs/x

Every process draws the same batch from `(seed, update)`, keeps its rows of it, and weighs the loss
of its rows by their share of all target steps; DistributedDataParallel averages the gradients. So
the loss is a sum over target steps divided by their count in the whole batch, however many
processes share it. Rank 0 alone writes files and speaks.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from radt.costs import target_steps
from radt.engine import cores
from radt.errors import RadtError
from radt.model.losses import counted_errors

# The others wait while rank 0 collects or evaluates. A process that ends is noticed at once.
PATIENCE = timedelta(hours=12)


class ProcessGroupError(RadtError, RuntimeError):
    """Processes that cannot go on together; the message says what to do."""


@dataclass(frozen=True)
class ProcessGroup:
    """The processes that train one policy together, as one of them sees it."""

    rank: int = 0
    size: int = 1
    threads: int | None = None  # that each computes with unless told otherwise; None: to be chosen

    @property
    def is_rank_zero(self) -> bool:
        """Whether this process is the one that writes and speaks."""
        return self.rank == 0

    def shared(self, policy: nn.Module, loss: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
        """Return the loss of this process' rows, whose gradients become those of the whole batch.

        It is `size` times as large as its part of the whole, because gradients are averaged.
        """
        if self.size == 1:
            return loss
        averaged = DistributedDataParallel(_LossOf(policy, loss))

        def weighed(examples: Any) -> Tensor:
            own = take_rows(examples, slice(self.rank, None, self.size))
            share: Tensor = averaged(own) * (
                self.size * count_loss_terms(own) / count_loss_terms(examples)
            )
            return share

        return weighed

    def check_batch(self, size: int) -> None:
        """Refuse a batch that leaves a process without a row."""
        if size < self.size:
            raise ProcessGroupError(
                f"a batch of {size} cannot be shared by {self.size} processes; set "
                f"learn.batch_size to at least {self.size}, or start fewer"
            )

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients of the whole batch."""
        with self._together():
            loss.backward()

    def mean(self, value: Tensor) -> Tensor:
        """Average a number over the processes; of shares of a loss that is the loss."""
        if self.size == 1:
            return value
        total = value.clone()
        with self._together():
            dist.all_reduce(total)
        return total / self.size

    def wait(self) -> None:
        """Wait until every process has come here."""
        if self.size > 1:
            with self._together():
                dist.barrier()

    @contextmanager
    def rank_zero_first(self) -> Iterator[None]:
        """Let rank 0 do first what the others then find done."""
        if not self.is_rank_zero:
            self.wait()
        yield
        if self.is_rank_zero:
            self.wait()

    def agree(self, what: str, value: int) -> None:
        """Refuse to go on if a process has another number than rank 0."""
        if self.size == 1:
            return
        expected = torch.tensor(value, device=_device())
        with self._together():
            dist.broadcast(expected, src=0)
        if int(expected) != value:
            raise ProcessGroupError(
                f"process {self.rank} finds {value} {what} and rank 0 {int(expected)}: give an "
                "--out and a $RADT_HOME on storage that all machines share"
            )

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Say what it means when the others cannot be reached any more."""
        try:
            yield
        except RuntimeError as error:
            if self.size == 1:
                raise
            first = str(error).strip().splitlines()[0]
            raise ProcessGroupError(
                f"process {self.rank} of {self.size} cannot go on with the others ({first}); if "
                "another one has failed, it says why. The same command goes on from what is saved"
            ) from error


SINGLE_PROCESS = ProcessGroup()


class _LossOf(nn.Module):
    """A loss as a module, which is what gradients are averaged for."""

    def __init__(self, policy: nn.Module, loss: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.policy, self.loss = policy, loss

    def forward(self, examples: Any) -> Tensor:
        return self.loss(examples)


def count_loss_terms(examples: Any) -> int:
    """Count what the loss of examples averages over: target steps, or their valid dimensions."""
    valid = getattr(examples, "valid", None)
    return int(counted_errors(target_steps(examples), valid).sum())


def take_rows(examples: Any, chosen: slice) -> Any:
    """Cut rows from a batch of examples, whatever arrays they are made of."""
    if isinstance(examples, Tensor | np.ndarray):
        return examples[chosen]
    if not dataclasses.is_dataclass(examples):
        return examples
    names = [field.name for field in dataclasses.fields(examples)]
    cut = {name: take_rows(getattr(examples, name), chosen) for name in names}
    return dataclasses.replace(cast(Any, examples), **cut)


def current_group() -> ProcessGroup:
    """Return the place that `torchrun` has given this process; alone without it."""
    if not dist.is_torchelastic_launched():
        return SINGLE_PROCESS
    size, here = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    threads = None if size == 1 else max(1, cores() // here)
    return ProcessGroup(int(os.environ["RANK"]), size, threads)


@contextmanager
def joined_group(device: str = "cpu") -> Iterator[ProcessGroup]:
    """Work with the other processes that `torchrun` has started, if it has."""
    group = current_group()
    if group.size == 1 or dist.is_initialized():
        yield group
        return
    if os.environ["MASTER_ADDR"] in ("127.0.0.1", "localhost"):  # then nothing leaves the machine
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    on_gpus = torch.device(device).type == "cuda"
    if on_gpus:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))  # so that `cuda` is one's own
    # DistributedDataParallel imports it. Its functions have the group of that moment as a default:
    importlib.import_module("torch.distributed.nn")  # so there must be none yet, to be kept alive
    dist.init_process_group("nccl" if on_gpus else "gloo", timeout=PATIENCE)
    try:
        yield group
    finally:
        dist.destroy_process_group()
        # Gloo's threads end with the last reference to the group, which may be in a cycle. One that
        # lives on and lets go of a tensor while the interpreter ends aborts the process.
        gc.collect()


def _device() -> torch.device:
    """Return where the processes exchange numbers."""
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
