"""Linear layers by oneDNN on a CPU: torch's own products reach half its speed on AMD's cores."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LARGE = 1 << 18  # multiplications from which on it pays


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W^T + b, as `torch.nn.functional.linear` does but for the last bits."""
    if not _pays(x, weight):
        return nn.functional.linear(x, weight, bias)
    product: Tensor = _OneDNN.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return product


class Linear(nn.Linear):
    """A linear layer that is fast on every kind of CPU."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def _pays(x: Tensor, weight: Tensor) -> bool:
    plain = x.is_cpu and x.dtype == weight.dtype == torch.float32
    if not plain or x.numel() * len(weight) < LARGE or not torch.backends.mkldnn.is_available():
        return False
    return not torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling()


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.as_tensor(torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], ""))


class _OneDNN(torch.autograd.Function):
    """The product and its gradients; torch itself has it for inference only."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        x, weight = x.contiguous(), weight.contiguous()  # oneDNN knows no other strides
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        grad = grad.contiguous()
        flat = grad.flatten(0, -2)  # [N, out]
        wanted = ctx.needs_input_grad
        of_x = _product(grad, weight.T.contiguous()) if wanted[0] else None
        of_weight = _product(flat.T, x.flatten(0, -2).T) if wanted[1] else None
        return of_x, of_weight, flat.sum(0) if wanted[2] else None
