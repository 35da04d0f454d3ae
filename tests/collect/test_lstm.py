"""The handwritten LSTMs equal torch.nn.LSTM, forwards and backwards, whatever the layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from radt.collect import lstm
from radt.collect.lstm import Block, Memory, make_buffers
from radt.collect.sequences import cut_sequences
from tests.collect.positions import positions

NETS, INPUTS, UNITS = 3, 2, 5
FIRST = slice(None, INPUTS)


def twin(weights: torch.Tensor) -> torch.nn.LSTM:
    """Build PyTorch's LSTM with the weights of one network; its gates stand in another order."""
    network = torch.nn.LSTM(INPUTS, UNITS, dtype=torch.float64)
    entry, forget, exit_, candidate = weights.chunk(4, dim=1)
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
    return torch.cat([entry, forget, exit_, candidate], dim=1)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64)


def by_torch(
    network: torch.nn.LSTM, states: torch.Tensor, keep: torch.Tensor, memory: Memory
) -> torch.Tensor:
    """Run one sequence [T, inputs]; where `keep` is 0 it starts anew from nothing."""
    carried = (memory.hidden[None, None], memory.cells[None, None])
    outputs = []
    for state, kept in zip(states, keep, strict=True):
        carried = (carried[0] * kept, carried[1] * kept)
        output, carried = network(state[None, None], carried)
        outputs.append(output[0, 0])
    return torch.stack(outputs)


@pytest.mark.parametrize(
    "blocks",
    [
        (Block(0, 6, 2),),
        (Block(0, 1, 3),),
        (Block(0, 4, 3), Block(12, 5, 2)),
    ],
)
def test_outputs_and_gradients_equal_torch(blocks: tuple[Block, ...]) -> None:
    rows = sum(block.steps * block.lanes for block in blocks)
    weights = random(NETS, INPUTS + 2 + UNITS, 4 * UNITS)
    memories = [Memory(*random(2, NETS, block.lanes, UNITS)) for block in blocks]
    states, arriving = random(NETS, rows, INPUTS), random(NETS, rows, UNITS)
    keep = (torch.rand(NETS, rows, 1) > 0.3).double()
    buffers = make_buffers(NETS, rows, INPUTS, UNITS, torch.float64)
    buffers.inputs[..., FIRST] = states
    lstm.forward(weights, buffers, blocks, keep, memories)
    mine = torch.empty_like(weights)
    lstm.backward(weights, buffers, blocks, keep, arriving, mine)
    for net in range(NETS):
        network, loss = twin(weights[net]), torch.zeros((), dtype=torch.float64)
        for block, memory, lane in lanes_of(blocks, memories):
            own = positions(block)[:, lane]
            start = Memory(memory.hidden[net, lane], memory.cells[net, lane])
            expected = by_torch(network, states[net, own], keep[net, own, 0], start)
            torch.testing.assert_close(buffers.outputs[net, own, :-1], expected)
            loss = loss + (expected * arriving[net, own]).sum()
        loss.backward()
        torch.testing.assert_close(mine[net], gradients_as_ours(network))


def lanes_of(
    blocks: Sequence[Block], memories: Sequence[Memory]
) -> Iterator[tuple[Block, Memory, int]]:
    for block, memory in zip(blocks, memories, strict=True):
        yield from ((block, memory, lane) for lane in range(block.lanes))


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
        assert len(batch.pieces) <= 2
        for part in batch.pieces:
            lived = batch.rows[positions(part.block)]  # [steps, lanes]
            assert (lived % envs == part.envs).all()
            times = np.arange(part.first, part.first + part.block.steps)
            assert (lived // envs == times[:, None]).all()
