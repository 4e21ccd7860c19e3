"""Recurrent networks through torch_npu, forward and backward, against CPU torch.

softnpu run -- python -m pytest tests/device/test_rnn.py
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_npu")

if not torch.npu.is_available():
    pytest.skip("no device", allow_module_level=True)


def compare(network: torch.nn.Module, x: torch.Tensor, state: Any) -> None:
    twin = copy.deepcopy(network).npu()
    results = []
    for net, place in ((network, "cpu"), (twin, "npu")):
        inputs = x.detach().to(place).requires_grad_()
        states = [s.detach().to(place).requires_grad_() for s in state]
        hx = tuple(states) if len(states) == 2 else states[0]
        y, end = net(inputs, hx)
        ends = end if isinstance(end, tuple) else (end,)
        loss = (y * torch.linspace(-1, 1, y.numel()).reshape(y.shape).to(place)).sum()
        for i, e in enumerate(ends):
            loss = loss + (i + 1) * e.square().sum()
        loss.backward()
        everything = [y, *ends, inputs.grad, *(s.grad for s in states), *(p.grad for p in net.parameters())]
        assert all(t.device.type == place for t in everything)
        results.append([t.detach().cpu() for t in everything])
    for host, device in zip(*results, strict=True):
        torch.testing.assert_close(device, host, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch_first", [False, True])
def test_lstm(batch_first: bool) -> None:
    torch.manual_seed(0)
    network = torch.nn.LSTM(5, 7, batch_first=batch_first)
    x = torch.randn((3, 4, 5) if batch_first else (4, 3, 5))
    compare(network, x, [torch.randn(1, 3, 7), torch.randn(1, 3, 7)])


@pytest.mark.parametrize(
    "layers,bidirectional,bias", [(1, False, True), (2, False, True), (2, True, True), (1, True, False)]
)
def test_gru(layers: int, bidirectional: bool, bias: bool) -> None:
    torch.manual_seed(0)
    network = torch.nn.GRU(5, 7, layers, bidirectional=bidirectional, bias=bias)
    passes = layers * (2 if bidirectional else 1)
    compare(network, torch.randn(4, 3, 5), [torch.randn(passes, 3, 7)])


@pytest.mark.parametrize(
    "layers,bidirectional,bias", [(2, False, True), (3, True, True), (1, True, True), (2, False, False)]
)
def test_lstm_older_path(layers: int, bidirectional: bool, bias: bool) -> None:
    """Several layers or directions: the plugin takes DynamicRNN for them."""
    torch.manual_seed(0)
    network = torch.nn.LSTM(5, 7, layers, bidirectional=bidirectional, bias=bias)
    passes = layers * (2 if bidirectional else 1)
    compare(network, torch.randn(4, 3, 5), [torch.randn(passes, 3, 7), torch.randn(passes, 3, 7)])


def test_lstm_cell() -> None:
    torch.manual_seed(0)
    host = torch.nn.LSTMCell(5, 7)
    device = copy.deepcopy(host).npu()
    results = []
    for cell, place in ((host, "cpu"), (device, "npu")):
        x = torch.randn(3, 5, generator=torch.Generator().manual_seed(1)).to(place).requires_grad_()
        state = tuple(torch.full((3, 7), 0.1 * (i + 1), device=place, requires_grad=True) for i in range(2))
        h, c = cell(x, cell(x, state))
        (h.sum() + c.square().sum()).backward()
        everything = (h, c, x.grad, *(s.grad for s in state), *(p.grad for p in cell.parameters()))
        results.append([t.detach().cpu() for t in everything])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)


def test_gru_bf16() -> None:
    torch.manual_seed(0)
    network, x, h = torch.nn.GRU(5, 7), torch.randn(4, 3, 5), torch.randn(1, 3, 7)
    host = network(x, h)
    device = copy.deepcopy(network).bfloat16().npu()(x.bfloat16().npu(), h.bfloat16().npu())
    for a, b in zip(host, device, strict=True):
        torch.testing.assert_close(b.float().cpu(), a, rtol=5e-2, atol=5e-2)


def test_single_step() -> None:
    torch.manual_seed(0)
    compare(torch.nn.LSTM(5, 7), torch.randn(1, 3, 5), [torch.randn(1, 3, 7), torch.randn(1, 3, 7)])


def test_lstm_evaluation() -> None:
    torch.manual_seed(0)
    network = torch.nn.LSTM(5, 7).eval()
    x = torch.randn(4, 3, 5)
    with torch.no_grad():
        host, device = network(x), copy.deepcopy(network).npu()(x.npu())
    torch.testing.assert_close(device[0].cpu(), host[0], rtol=1e-4, atol=1e-5)


def test_fused_lstm_cell() -> None:
    """The cell behind the gates' products: values, and gradients by the fused backward operator."""
    torch.manual_seed(0)
    i_gates, h_gates = torch.randn(3, 28), torch.randn(3, 28)
    c, bias, dh, dc = torch.randn(3, 7), torch.randn(28), torch.randn(3, 7), torch.randn(3, 7)
    leaves = [t.clone().requires_grad_() for t in (i_gates, c, bias)]
    i, f, g, o = (leaves[0] + h_gates + leaves[2] + 1).chunk(4, 1)
    cell = f.sigmoid() * leaves[1] + i.sigmoid() * g.tanh()
    h = o.sigmoid() * cell.tanh()
    torch.autograd.backward([h, cell], [dh, dc])
    device = [t.npu() for t in (i_gates, h_gates, c, bias, torch.ones(28))]
    h2, cell2, storage = torch.ops.aten._thnn_fused_lstm_cell(*device)
    torch.testing.assert_close((h2.cpu(), cell2.cpu()), (h.detach(), cell.detach()), rtol=1e-4, atol=1e-5)
    grads = torch.ops.aten._thnn_fused_lstm_cell_backward_impl(dh.npu(), dc.npu(), device[2], cell2, storage, True)
    for leaf, grad in zip(leaves, grads, strict=True):
        torch.testing.assert_close(grad.cpu(), leaf.grad, rtol=1e-4, atol=1e-5)
