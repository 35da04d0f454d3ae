"""One encoder per kind of state space: states [..., *state_shape] become vectors [..., width].

| kind     | encoder                                                                 |
|----------|-------------------------------------------------------------------------|
| discrete | one-hot per coordinate, then linear (an embedding table per coordinate) |
| vector   | linear; `standardised` scales each number by the data first             |
| image    | three strided convolutions, then linear; `impala` and `impala-small`    |
| encoded  | the stored outputs of a frozen encoder, projected only if widths differ |

A model can be told to read its states with another one that is registered: `model.encoder`. One
that was trained before and stays as it is, is a `FrozenEncoder` beside the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radt.data.reader import Dataset
from radt.impala import CHANNELS, Impala
from radt.registry import Registry
from radt.spaces import StateSpace

SEEN = 10_000  # states of the data that encoders are shown
CONSTANT = 1e-6  # the deviation of a number that never changes, or less


class OneHotEncoder(nn.Module):
    """A linear layer on the one-hot of each coordinate, computed as a sum of table rows."""

    offsets: Tensor

    def __init__(self, space: StateSpace, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(sum(space.bins), width)
        starts = torch.tensor((0, *space.bins[:-1])).cumsum(0)
        self.register_buffer("offsets", starts, persistent=False)
        self.axes = len(space.shape)

    def forward(self, states: Tensor) -> Tensor:
        """Look each coordinate up and add the rows."""
        leading = states.shape[: states.ndim - self.axes]
        coordinates = states.long().reshape(*leading, len(self.offsets))
        rows: Tensor = self.table(coordinates + self.offsets)  # [..., coordinates, width]
        return rows.sum(dim=-2)


class LinearEncoder(nn.Module):
    """A linear layer on a vector of numbers."""

    def __init__(self, space: StateSpace, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(space.shape[0], width)

    def forward(self, states: Tensor) -> Tensor:
        return torch.as_tensor(self.linear(states.float()))


class StandardisedEncoder(LinearEncoder):
    """A linear layer on numbers that have mean 0 and deviation 1 in the data."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, space: StateSpace, width: int) -> None:
        super().__init__(space, width)
        self.register_buffer("mean", torch.zeros(space.shape))
        self.register_buffer("deviation", torch.ones(space.shape))

    def fit(self, states: Tensor) -> None:
        """Measure states of the data, [N, size]; a number that never changes is not scaled."""
        deviation = states.float().std(0)
        self.mean.copy_(states.float().mean(0))
        self.deviation.copy_(deviation.where(deviation > CONSTANT, 1.0))

    def forward(self, states: Tensor) -> Tensor:
        return super().forward((states.float() - self.mean) / self.deviation)


class ConvolutionalEncoder(nn.Module):
    """Three strided convolutions on images of bytes."""

    def __init__(self, space: StateSpace, width: int) -> None:
        super().__init__()
        channels, height, breadth = space.shape
        self.convolutions = nn.Sequential(
            *(nn.Conv2d(channels, 16, 4, stride=4), nn.ReLU()),
            *(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten()),
        )
        with torch.no_grad():
            flat = self.convolutions(torch.zeros(1, channels, height, breadth)).shape[1]
        self.linear = nn.Linear(flat, width)

    def forward(self, states: Tensor) -> Tensor:
        """Encode each image on its own, whatever the leading axes."""
        images = states.flatten(0, -4).float() / 255  # [N, channels, height, width]
        vectors = self.linear(self.convolutions(images))
        return torch.as_tensor(vectors.unflatten(0, states.shape[:-3]))


class ImpalaEncoder(nn.Module):
    """The network that the paper reads Procgen with."""

    def __init__(
        self,
        space: StateSpace,
        width: int,
        channels: tuple[int, ...] = CHANNELS,
        **settings: Any,
    ) -> None:
        super().__init__()
        self.network = Impala(space.shape, width, channels, **settings)

    def forward(self, states: Tensor) -> Tensor:
        """Encode each image on its own, whatever the leading axes."""
        vectors = self.network(states.flatten(0, -4))
        return torch.as_tensor(vectors.unflatten(0, states.shape[:-3]))


class PrecomputedEncoder(nn.Module):
    """States that were encoded before they were stored."""

    def __init__(self, space: StateSpace, width: int) -> None:
        super().__init__()
        same = space.shape[0] == width
        self.project = nn.Identity() if same else nn.Linear(space.shape[0], width)

    def forward(self, states: Tensor) -> Tensor:
        return torch.as_tensor(self.project(states.float()))


ENCODERS: Registry[Callable[[StateSpace, int], nn.Module]] = Registry("encoders", "encoder")
ENCODERS.register("discrete", OneHotEncoder)
ENCODERS.register("vector", LinearEncoder)
ENCODERS.register("standardised", StandardisedEncoder)
ENCODERS.register("image", ConvolutionalEncoder)
ENCODERS.register("encoded", PrecomputedEncoder)
ENCODERS.register("impala", ImpalaEncoder)
ENCODERS.register(
    "impala-small", partial(ImpalaEncoder, residuals=1, shrink=2, strided=True)
)  # a twelfth of the time


def state_encoder(space: StateSpace, width: int, name: str | None = None) -> nn.Module:
    """Build the encoder of a name; None: the one that reads this kind of state."""
    return ENCODERS[name or space.kind](space, width)


@runtime_checkable
class FitsStates(Protocol):
    """An encoder that wants to see states of the data before it is trained."""

    def fit(self, states: Tensor) -> None:
        """Measure what has to be known of states, [N, *state_shape]."""


def fit_encoders(network: nn.Module, dataset: Dataset) -> None:
    """Show states of the data to all encoders of a network that want to see some."""
    wanting = [module for module in network.modules() if isinstance(module, FitsStates)]
    if not wanting:
        return
    rng = np.random.default_rng(0)  # every run looks at the same ones
    episodes = rng.integers(len(dataset), size=SEEN)
    steps = rng.integers(dataset.episodes.length[episodes])
    states = dataset.windows(episodes, steps, 1).states[:, 0]  # [N, *state_shape]
    for encoder in wanting:
        encoder.fit(states)


@dataclass(frozen=True)
class EncoderCard:
    """Which frozen encoder turns what environments show into the states that networks read."""

    name: str  # in ENCODERS
    width: int  # of its outputs


class FrozenEncoder(nn.Module):
    """An encoder that was trained before, and learns no more."""

    def __init__(self, space: StateSpace, card: EncoderCard) -> None:
        super().__init__()
        self.space = space  # what environments show
        self.network = state_encoder(space, card.width, card.name)
        self.requires_grad_(False)

    @torch.no_grad()
    def forward(self, states: NDArray[Any]) -> NDArray[np.float32]:
        device = next(self.parameters()).device
        encoded: Tensor = self.network(torch.from_numpy(states).to(device))
        return encoded.float().cpu().numpy()
