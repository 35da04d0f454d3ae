"""Long short-term memory (Hochreiter and Schmidhuber 1997) as a layer of a trunk."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from radt.model.recurrent import log_spans


class LSTM(nn.Module):
    """PyTorch's LSTM: gates know the hidden state, so that steps are computed one by one."""

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
