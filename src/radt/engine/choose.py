"""Engines by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from radt.engine.address import AddressError
from radt.engine.engine import Engine
from radt.engine.local import LocalEngine

EngineName = Literal["local", "ray"]


@contextmanager
def open_engine(
    name: EngineName = "local",
    address: str | None = None,
    workers: int | None = None,
    cpus: float = 1.0,
    gpus: float = 0.0,
) -> Iterator[Engine]:
    """Open an engine for as long as the context lasts.

    Args:
        name: `local` for processes of this machine, `ray` for a Ray cluster.
        address: HOST:PORT of a Ray cluster's head; None: one of our own on this machine.
        workers: Jobs that are done at once; None: one here, as many as fit on a cluster.
        cpus: Processors that a job takes on a cluster.
        gpus: Graphics processors that a job takes on a cluster.
    """
    if name == "ray":
        from radt.engine.on_ray import ray_engine

        with ray_engine(address, workers, cpus, gpus) as engine:
            yield engine
        return
    if address is not None:
        raise AddressError(f"--address {address} is for --engine ray; local processes need none")
    yield LocalEngine(1 if workers is None else workers)
