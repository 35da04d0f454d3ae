"""What every test starts from: one thread, and the same random numbers each time."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import settings

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
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
