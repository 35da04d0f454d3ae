"""Outputs of seeded models, kept in golden.json so that a changed computation is noticed.

After a change that is meant, write them anew and say why in the changelog:

    python -m tests.model.golden
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from radt.model.policy import DecisionTransformer, ModelConfig
from tests.model.batches import SPACES, random_batch

FILE = Path(__file__).with_name("golden.json")
CASES = [(kind, tokens) for kind in SPACES for tokens in ("fused", "interleaved")]


@torch.no_grad()
def outputs(kind: str, tokens: str) -> dict[str, Any]:
    """Run a freshly initialised model on fixed steps, with and without a retrieved chunk."""
    spaces, rng = SPACES[kind], np.random.default_rng(0)
    config = ModelConfig(layers=2, width=16, heads=2, tokens=tokens)  # type: ignore[arg-type]
    model = DecisionTransformer(spaces, config, seed=0, retrieves=True).eval()
    model.head.weight *= 20  # fresh weights are small; so that 1e-5 means something
    recent = random_batch(spaces, rng, 2, 4, torch.tensor([3, 4]))
    retrieved = random_batch(spaces, rng, 2, 5, torch.tensor([5, 2]))
    rounded = {
        "actions": model(recent, retrieved),
        "actions_without_context": model(recent),
        "state_tokens": model.embed.at_states(model.hidden(recent)),
    }
    return {name: np.round(value.numpy(), 6).tolist() for name, value in rounded.items()}


def main() -> None:
    """Write the file."""
    content = {f"{kind}-{tokens}": outputs(kind, tokens) for kind, tokens in CASES}
    FILE.write_text(json.dumps(content) + "\n")


if __name__ == "__main__":
    main()
