"""Graph capture and replay through torch: NPUGraph, side streams, random numbers, make_graphed_callables."""

import copy

import torch
import torch_npu  # noqa: F401


def work(x, w):
    for _ in range(4):
        x = torch.relu(x @ w) * 0.5 + x
    return x


def test_replay_equals_eager_on_new_input():
    x, w = torch.randn(16, 16, device="npu"), torch.randn(16, 16, device="npu")
    work(x, w)
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        out = work(x, w)
    for _ in range(3):
        x.copy_(torch.randn(16, 16))
        graph.replay()
        assert torch.equal(out.cpu(), work(x, w).cpu())


def test_side_streams_join():
    x = torch.ones(8, device="npu")
    side = torch.npu.Stream()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            b = x * 3
        a = x * 2
        torch.npu.current_stream().wait_stream(side)
        out = a + b
    x.fill_(2)
    graph.replay()
    assert out.cpu().tolist() == [10.0] * 8


def test_random_numbers_go_on_with_every_replay():
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        r = torch.rand(64, device="npu")
    graph.replay()
    first = r.cpu()
    graph.replay()
    assert not torch.equal(first, r.cpu())


def test_graphed_module_trains_like_the_module():
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).npu()
    plain = copy.deepcopy(model)
    graphed = torch.npu.make_graphed_callables(model, (torch.randn(8, 8, device="npu", requires_grad=True),))
    steps = [(m, torch.optim.SGD(m.parameters(), 0.1)) for m in (graphed, plain)]
    for _ in range(5):
        x = torch.randn(8, 8, device="npu")
        for module, optimizer in steps:
            optimizer.zero_grad()
            module(x).square().mean().backward()
            optimizer.step()
    for a, b in zip(graphed.parameters(), plain.parameters(), strict=True):
        assert torch.equal(a.cpu(), b.cpu())
