"""Where the steps of sequences lie in a layout of blocks."""

from __future__ import annotations

import numpy as np

from radt.collect.lstm import Block


def positions(block: Block) -> np.ndarray:
    """List the rows of a block by step and lane, [steps, lanes]."""
    count = block.steps * block.lanes
    return np.arange(block.start, block.start + count).reshape(block.steps, block.lanes)
