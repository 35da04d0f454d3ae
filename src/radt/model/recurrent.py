"""A recurrent trunk: the Transformer's layers with a recurrence in the place of self-attention.

What was read is in a state of fixed size, so that a step costs the same however many came before.
Training reads all tokens of a window at once (`forward`), acting a few new ones (`step`); both come
to the same. Cross-attention sees the chunks of the present: others change the steps from then on,
while the state keeps what earlier steps made of theirs. In training a window has one set of chunks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from radt.model.transformer import Context, Layer, crossed, read_by

LONGEST = 1000.0  # steps that the slowest units remember before anything is learned


def log_spans(width: int) -> Tensor:
    """Spread what units remember at first: logarithms of steps, [width].

    Gates of 0 would forget within two steps what is asked for hundreds of steps later (Tallec and
    Ollivier 2018).
    """
    return torch.linspace(0.0, math.log(LONGEST), width)


class LSTM(nn.Module):
    """Hochreiter and Schmidhuber (1997): gates know the hidden state, so steps come one by one."""

    vectors = 2  # hidden state and cells

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, width, batch_first=True)

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Read x [B, L, width] from a state [B, 2, width]."""
        hidden, cells = state.transpose(0, 1)[:, None].contiguous()  # [1, B, width] each
        outputs, after = self.lstm(x, (hidden, cells))
        return outputs, torch.cat(after).transpose(0, 1)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw PyTorch's uniform weights; gates keep cells for spread spans and fill as slowly."""
        *weights, of_inputs, of_hidden = self.lstm.parameters()
        bound = self.lstm.hidden_size**-0.5
        for weight in weights:
            nn.init.uniform_(weight, -bound, bound, generator=generator)
        spans = log_spans(self.lstm.hidden_size)
        with torch.no_grad():  # biases of the gates: entry, forget, candidate, exit
            of_inputs.copy_(torch.cat([-spans, spans, spans.new_zeros(2 * len(spans))]))
            of_hidden.zero_()


class MinGRU(nn.Module):
    """Feng et al. (2024): h_t = (1 - z_t) h_{t-1} + z_t h~_t, where z_t and h~_t know x_t alone."""

    vectors = 1  # h

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.candidate = nn.Linear(width, width)

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Read x [B, L, width] from a state [B, 1, width]."""
        z = self.gate(x).float().sigmoid()
        keep, new = 1 - z, z * self.candidate(x)
        first = torch.addcmul(new[:, :1], keep[:, :1], state)
        h = scan(keep, torch.cat([first, new[:, 1:]], dim=1))
        return h, h[:, -1:]

    def initialise(self, generator: torch.Generator) -> None:
        """Let gates open for spread spans."""
        with torch.no_grad():
            self.gate.bias.copy_(-log_spans(len(self.gate.bias)))


def scan(keep: Tensor, new: Tensor) -> Tensor:
    """Return h_t = keep_t h_{t-1} + new_t of every step from h = 0, [B, L, width].

    Two steps are one step of a sequence of half the length. Nothing but products with numbers in
    [0, 1] and sums are taken, so that nothing overflows as cumulative products and quotients do,
    and new steps may have any sign, which in log-space they may not.
    """
    length = keep.shape[1]
    if length == 1:
        return new
    if length % 2:  # one more, that nobody reads
        return scan(pad(keep, (0, 0, 0, 1)), pad(new, (0, 0, 0, 1)))[:, :-1]
    first, second = keep[:, ::2], keep[:, 1::2]
    h_second = scan(first * second, torch.addcmul(new[:, 1::2], second, new[:, ::2]))
    h_first = torch.addcmul(new[:, ::2], first, pad(h_second[:, :-1], (0, 0, 1, 0)))
    return torch.stack([h_first, h_second], dim=2).flatten(1, 2)


Recurrence = LSTM | MinGRU  # what mixes each token with those before it, from a state
RECURRENCES: dict[str, type[Recurrence]] = {"lstm": LSTM, "mingru": MinGRU}


class RecurrentBlock(Layer):
    """A recurrence, then cross-attention where there is one, then the feed-forward layer."""

    recurrence: Recurrence

    def __init__(
        self, recurrence: nn.Module, width: int, heads: int, dropout: float, cross: bool
    ) -> None:
        super().__init__(width, heads, dropout, cross, recurrence=recurrence)

    def forward(self, x: Tensor, context: Context | None) -> Tensor:
        blank = torch.zeros(len(x), self.recurrence.vectors, x.shape[-1], device=x.device)
        mixed, _ = self.recurrence(self.norm_self(x), blank)
        return self.after_mixing(x + self.drop(mixed), context)

    def step(
        self, x: Tensor, state: Tensor, real: Tensor, context: Context | None
    ) -> tuple[Tensor, Tensor]:
        """Transform new tokens, x [B, n, width]; those that are not real [B, n] leave no trace."""
        mixed = []
        for token, counts in zip(self.norm_self(x).split(1, dim=1), real.T, strict=True):
            output, after = self.recurrence(token, state)
            state = torch.where(counts[:, None, None], after, state)
            mixed.append(output)
        return self.after_mixing(x + torch.cat(mixed, dim=1), context), state


class RecurrentTrunk(nn.Module):
    """A stack of recurrent blocks and a last layer norm."""

    def __init__(
        self,
        recurrence: Callable[[int], nn.Module],
        layers: int,
        width: int,
        heads: int,
        dropout: float,
        cross_layers: Sequence[int] = (),
    ) -> None:
        super().__init__()
        blocks = [
            RecurrentBlock(recurrence(width), width, heads, dropout, cross)
            for cross in crossed(layers, cross_layers)
        ]
        self.state_shape = (layers, blocks[0].recurrence.vectors, width)
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw what the recurrences need other than GPT-2's weights."""
        for block in self.blocks:
            assert isinstance(block, RecurrentBlock)  # what a ModuleList holds is not known
            block.recurrence.initialise(generator)

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Transform token embeddings, x [B, L, width], each by those up to it."""
        for block in self.blocks:
            x = block(x, context)
        return torch.as_tensor(self.norm(x))

    def only(self, x: Tensor, at: Tensor, context: Context | None = None) -> Tensor:
        """Return what `forward` makes of one token of each row, at [B] -> [B, width]."""
        return self.forward(x, context)[torch.arange(len(x), device=x.device), at]

    read = read_by

    def blank(self, rows: int) -> Tensor:
        """Return the states of rows that have read nothing, [rows, layers, vectors, width]."""
        return torch.zeros(rows, *self.state_shape, device=self.norm.weight.device)

    def step(
        self, x: Tensor, state: Tensor, real: Tensor, context: Context | None = None
    ) -> tuple[Tensor, Tensor]:
        """Transform new tokens, x [B, n, width]; return them and the states after the real ones."""
        after = torch.empty_like(state)
        for layer, block in enumerate(self.blocks):
            assert isinstance(block, RecurrentBlock)  # as above
            x, after[:, layer] = block.step(x, state[:, layer], real, context)
        return torch.as_tensor(self.norm(x)), after
