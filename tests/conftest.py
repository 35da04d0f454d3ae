"""What every test starts from: one thread, and the same random numbers each time."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import settings

import radt.api  # registers all that is built in before a test copies it  # noqa: F401
from radt.registry import REGISTRIES

torch.set_num_threads(1)  # for what is built before the first test
# A slow or busy machine must not fail a property test, nor may chance.
settings.register_profile("radt", deadline=None, derandomize=True)
settings.load_profile("radt")


@pytest.fixture(autouse=True)
def same_start() -> None:
    torch.set_num_threads(1)  # a run that measured what is fastest may have left more
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture
def plug_ins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget in the end what plug-ins have registered, and that they were loaded."""
    for each in REGISTRIES:
        monkeypatch.setattr(each, "_items", dict(each._items))
    yield
    for module in list(sys.modules):
        if f"{module}.".startswith("radt.plugins."):
            del sys.modules[module]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
