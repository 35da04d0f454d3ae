"""Language models of a few thousand weights, made on the spot, for tests that need one."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from radt.memory.language import LanguageEmbedder, LanguageOptions
from radt.spaces import TaskSpaces

WIDTH = 16
SHARED = TemporaryDirectory(prefix="radt-tiny-")  # removed when the process ends


def configs() -> dict[str, Any]:
    """Return the shape of an encoder, a decoder, and a model that has both."""
    from transformers import BertConfig, GPT2Config, T5Config

    few: dict[str, Any] = {"vocab_size": 40, "bos_token_id": 0, "eos_token_id": 0}
    return {
        "encoder": BertConfig(
            **few,
            hidden_size=WIDTH,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=64,
        ),
        "decoder": GPT2Config(**few, n_embd=WIDTH, n_layer=2, n_head=2, n_positions=64),
        "both": T5Config(
            **few, d_model=WIDTH, d_kv=8, d_ff=32, num_layers=1, num_heads=2, pad_token_id=0
        ),
    }


@cache
def tiny_folder(kind: str = "encoder", seed: int = 0) -> Path:
    """Save a random model once and return its folder."""
    from transformers import AutoModel

    folder = Path(SHARED.name) / f"{kind}-{seed}"
    torch.manual_seed(seed)
    model = AutoModel.from_config(configs()[kind])
    for parameter in model.parameters():  # large enough that every leak would show
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    return folder


def tiny_embedder(spaces: TaskSpaces, kind: str = "encoder", **options: Any) -> LanguageEmbedder:
    """Embed with a tiny random model; nothing is kept unless `cache_most` says so."""
    given = {"model": str(tiny_folder(kind)), "cache_most": 0, **options}
    return LanguageEmbedder(spaces, LanguageOptions(**given), seed=0)
