"""Files that carry a hash over all they say, so that damage is noticed wherever it is.

Tensors lie in safetensors files with a header, plain values in JSON. Whoever reads one decides what
to do where the seal is broken, and whether files from before there were seals will do.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from radt.files import atomic_write, open_plain

if TYPE_CHECKING:
    from torch import Tensor

SEAL = "sha256"
EDITED = "was damaged or edited after it was written (its sha256 does not fit)"


class BrokenSealError(ValueError):
    """A file that is damaged, or was edited after it was written."""


class Sealed(NamedTuple):
    """What a file of tensors says."""

    tensors: dict[str, Tensor]
    header: dict[str, str]
    has_seal: bool  # files of older versions may have none


def seal(tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> str:
    """Hash all that a file of tensors says."""
    import torch

    digest = hashlib.sha256(json.dumps(dict(header), sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def write_sealed(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> None:
    """Write named tensors and a header at once."""
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = {**header, SEAL: seal(plain, header)}
    atomic_write(path, save(plain, metadata=metadata))


def read_sealed(path: Path) -> Sealed:
    """Read all tensors and the header, if they are as they were written."""
    from safetensors import SafetensorError, safe_open

    open_plain(path).close()  # one that may not be read is not damaged
    try:
        with safe_open(path, framework="pt") as file:
            header = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise BrokenSealError(f"is damaged or no safetensors file ({error})") from error
    said = header.pop(SEAL, None)
    if said is not None and said != seal(tensors, header):
        raise BrokenSealError(EDITED)
    return Sealed(tensors, header, said is not None)


def json_seal(values: Mapping[str, Any]) -> str:
    """Hash plain values, but for their own seal."""
    unsealed = {name: value for name, value in values.items() if name != SEAL}
    return hashlib.sha256(json.dumps(unsealed, sort_keys=True).encode()).hexdigest()
