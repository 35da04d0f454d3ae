"""The handwritten LSTMs equal torch.nn.LSTM, forwards and backwards, whatever the layout."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from radt.collect import lstm
from radt.collect.lstm import LSTMState, make_tape
from radt.collect.ppo_lstm import cut_sequences

NETS, INPUTS, UNITS = 3, 2, 5
FIRST = slice(None, INPUTS)


def twin(weights: torch.Tensor) -> torch.nn.LSTM:
    """Build PyTorch's LSTM with the weights of one network; its gates stand in another order."""
    network = torch.nn.LSTM(INPUTS, UNITS, dtype=torch.float64)
    exit_, entry, forget, candidate = weights.chunk(4, dim=1)
    columns = torch.cat([entry, forget, candidate, exit_], dim=1)  # [inputs + 2 + units, 4 * units]
    with torch.no_grad():
        network.weight_ih_l0.copy_(columns[:INPUTS].mT)
        network.bias_ih_l0.copy_(columns[INPUTS])
        network.bias_hh_l0.copy_(columns[INPUTS + 1])
        network.weight_hh_l0.copy_(columns[INPUTS + 2 :].mT)
    return network


def gradients_as_ours(network: torch.nn.LSTM) -> torch.Tensor:
    rows = [network.weight_ih_l0.grad.mT, network.bias_ih_l0.grad[None]]
    rows += [network.bias_hh_l0.grad[None], network.weight_hh_l0.grad.mT]
    entry, forget, candidate, exit_ = torch.cat(rows).chunk(4, dim=1)
    return torch.cat([exit_, entry, forget, candidate], dim=1)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64)


def by_torch(
    network: torch.nn.LSTM, states: torch.Tensor, keep: torch.Tensor, carry: LSTMState
) -> torch.Tensor:
    """Run one sequence [T, inputs]; where `keep` is 0 it starts anew from nothing."""
    carried = (carry.hidden[None, None], carry.cells[None, None])
    outputs = []
    for state, kept in zip(states, keep, strict=True):
        carried = (carried[0] * kept, carried[1] * kept)
        output, carried = network(state[None, None], carried)
        outputs.append(output[0, 0])
    return torch.stack(outputs)


@pytest.mark.parametrize("starts", [(0,), (0, 4), (0, 1, 5)])
@pytest.mark.parametrize("lanes", [1, 3])
def test_outputs_and_gradients_equal_torch(lanes: int, starts: tuple[int, ...]) -> None:
    steps = 6
    weights = random(NETS, INPUTS + 2 + UNITS, 4 * UNITS)
    carries = {start: LSTMState(*random(2, NETS, lanes, UNITS)) for start in starts}
    tape = make_tape(NETS, steps, lanes, INPUTS, UNITS, torch.float64)
    rows = tape.rows
    rows.inputs[..., FIRST] = random(NETS, steps * lanes, INPUTS)
    rows.keep[:] = torch.rand(rows.keep.shape) > 0.3
    lstm.forward_steps(weights, tape.steps, carries)
    rows.arriving[:] = random(*rows.arriving.shape)
    mine = torch.empty_like(weights)
    lstm.backward_steps(weights, tape, carries, mine)
    for net in range(NETS):
        network, loss = twin(weights[net]), torch.zeros((), dtype=torch.float64)
        for (start, stop), lane in product(pairwise((*starts, steps)), range(lanes)):
            own = torch.arange(start, stop) * lanes + lane
            first = LSTMState(*(part[net, lane] for part in carries[start]))
            states, keep = rows.inputs[net, own, FIRST], rows.keep[net, own, 0]
            expected = by_torch(network, states, keep, first)
            torch.testing.assert_close(rows.outputs[net, own], expected)
            loss = loss + (expected * rows.arriving[net, own]).sum()
        loss.backward()
        torch.testing.assert_close(mine[net], gradients_as_ours(network))


@given(st.data())
def test_an_epoch_has_every_sample_once_and_sequences_run_forwards(data: st.DataObject) -> None:
    steps, each = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 3))
    envs = each * data.draw(st.integers(1, 3))
    place = data.draw(st.integers(0, steps * envs - 1))
    line = np.roll(np.arange(steps * envs), -place)  # env * steps + step, as sb3-contrib cuts it
    pieces = line.reshape(-1, each * steps)
    batches = list(cut_sequences(steps, envs, each * steps, place))
    assert len(batches) == len(pieces)
    for batch, piece in zip(batches, pieces, strict=True):
        wanted = sorted((at % steps) * envs + at // steps for at in piece)
        assert sorted(batch.rows) == wanted
        lived = batch.rows.reshape(steps, each)  # [steps, lanes]
        for begun, stop in pairwise((*batch.starts, steps)):
            start = batch.starts[begun]
            assert (lived[begun:stop] % envs == start.envs).all()
            times = np.arange(start.step, start.step + stop - begun)
            assert (lived[begun:stop] // envs == times[:, None]).all()
