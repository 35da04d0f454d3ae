"""The convolutional network of IMPALA (Espeholt et al., 2018), which Procgen is usually seen by."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d

CHANNELS = (16, 32, 32)


class Residual(nn.Module):
    """Two convolutions beside an identity."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        one, other = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.inner = nn.Sequential(nn.ReLU(), one, nn.ReLU(), other)

    def forward(self, images: Tensor) -> Tensor:
        return torch.as_tensor(images + self.inner(images))


class Impala(nn.Module):
    """From images of bytes [N, channels, height, width] to vectors [N, size] of numbers from 0 on.

    Two options cost less: `shrink` averages squares of so many pixels first, and `strided`
    convolves at every second pixel instead of taking the maximum afterwards.
    """

    def __init__(
        self,
        shape: Sequence[int],
        size: int,
        channels: Sequence[int] = CHANNELS,
        residuals: int = 2,
        shrink: int = 1,
        strided: bool = False,
    ) -> None:
        super().__init__()
        self.shrink = shrink
        layers: list[nn.Module] = []
        before = shape[0]
        for count in channels:
            layers.append(nn.Conv2d(before, count, 3, stride=2 if strided else 1, padding=1))
            layers.append(nn.ReLU() if strided else nn.MaxPool2d(3, 2, padding=1))
            layers += [Residual(count) for _ in range(residuals)]
            before = count
        self.blocks = nn.Sequential(*layers, nn.ReLU(), nn.Flatten())
        with torch.no_grad():
            flat = self.blocks(self._seen(torch.zeros(1, *shape))).shape[1]
        self.linear = nn.Sequential(nn.Linear(flat, size), nn.ReLU())

    def forward(self, images: Tensor) -> Tensor:
        return torch.as_tensor(self.linear(self.blocks(self._seen(images.float() / 255))))

    def _seen(self, images: Tensor) -> Tensor:
        return avg_pool2d(images, self.shrink) if self.shrink > 1 else images
