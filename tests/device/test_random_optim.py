"""Random numbers, dropout, optimizers and foreach operators through torch_npu.

softnpu run -- python -m pytest tests/device/test_random_optim.py
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_npu")
F = torch.nn.functional

if not torch.npu.is_available():
    pytest.skip("no device", allow_module_level=True)

N = 1 << 16
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


def moments(x: torch.Tensor) -> tuple[float, float]:
    host = x.cpu().double()
    return host.mean().item(), host.std().item()


# ---- random ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_distributions(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.rand(N, dtype=dtype, device="npu")
    assert x.min() >= 0 and x.max() < 1 and moments(x) == pytest.approx((0.5, 0.2887), abs=0.01)
    assert moments(torch.randn(N, dtype=dtype, device="npu")) == pytest.approx((0, 1), abs=0.03)
    assert moments(x.normal_(2, 3)) == pytest.approx((2, 3), abs=0.1)
    assert moments(x.bernoulli_(0.25)) == pytest.approx((0.25, 0.433), abs=0.02)
    assert moments(x.exponential_(2)) == pytest.approx((0.5, 0.5), abs=0.03)
    assert moments(torch.bernoulli(torch.full((N,), 0.75, device="npu")))[0] == pytest.approx(0.75, abs=0.02)


def test_integers() -> None:
    torch.manual_seed(0)
    for dtype in [torch.int64, torch.int32, torch.uint8, torch.float32]:
        x = torch.randint(3, 13, (N,), device="npu", dtype=dtype).cpu()
        assert x.min() == 3 and x.max() == 12
        counts = torch.bincount(x.long())[3:].double()
        assert (counts - N / 10).abs().max() < 6 * (N / 10) ** 0.5
    assert torch.zeros(N, dtype=torch.int64, device="npu").random_().cpu().min() >= 0


def test_generator_state() -> None:
    torch.npu.manual_seed(5)
    state = torch.npu.get_rng_state()
    first, second = torch.randn(100, device="npu"), torch.randn(100, device="npu")
    assert not torch.equal(first, second)
    torch.npu.set_rng_state(state)
    assert torch.equal(torch.randn(100, device="npu"), first)
    torch.npu.manual_seed(5)
    assert torch.equal(torch.randn(100, device="npu"), first)
    torch.npu.manual_seed(6)
    assert not torch.equal(torch.randn(100, device="npu"), first)


def test_permutation_and_samples() -> None:
    x = torch.randperm(1000, device="npu")
    assert torch.equal(x.sort().values.cpu(), torch.arange(1000)) and not torch.equal(x.cpu(), torch.arange(1000))
    weights = torch.tensor([[1.0, 0, 3], [0, 5, 5]], device="npu")
    drawn = torch.multinomial(weights, 20000, replacement=True).cpu()
    assert (drawn[0] == 2).double().mean().item() == pytest.approx(0.75, abs=0.03)
    assert (drawn[1] == 0).sum() == 0
    assert torch.equal(torch.multinomial(weights, 2).sort(1).values.cpu(), torch.tensor([[0, 2], [1, 2]]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_dropout(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    x = torch.ones(100, 129, dtype=dtype, device="npu", requires_grad=True)
    y = F.dropout(x, 0.3)
    kept = y != 0
    assert kept.cpu().double().mean().item() == pytest.approx(0.7, abs=0.02)
    assert torch.allclose(y[kept].float(), torch.tensor(1 / 0.7, device="npu"), rtol=1e-2)
    y.sum().backward()
    assert torch.equal(x.grad != 0, kept)
    assert torch.equal(F.dropout(x, 0.3, training=False), x)
    assert F.dropout(x, 1.0).abs().sum().item() == 0


# ---- foreach -----------------------------------------------------------------------------------------------

LISTS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b, c: torch._foreach_add(a, b, alpha=2),
    "add scalar": lambda a, b, c: torch._foreach_add(a, 1.5),
    "add scalars": lambda a, b, c: torch._foreach_add(a, [1.5, 2.5, 3.5]),
    "sub": lambda a, b, c: torch._foreach_sub(a, b),
    "sub scalar": lambda a, b, c: torch._foreach_sub(a, 2.0),
    "mul": lambda a, b, c: torch._foreach_mul(a, b),
    "mul scalar": lambda a, b, c: torch._foreach_mul(a, 3.0),
    "mul scalars": lambda a, b, c: torch._foreach_mul(a, [1.5, 2.5, 3.5]),
    "div": lambda a, b, c: torch._foreach_div(a, b),
    "div scalar": lambda a, b, c: torch._foreach_div(a, 3.0),
    "div scalars": lambda a, b, c: torch._foreach_div(a, [1.5, 2.5, 3.5]),
    "maximum": lambda a, b, c: torch._foreach_maximum(a, b),
    "minimum scalar": lambda a, b, c: torch._foreach_minimum(a, 1.0),
    "addcmul": lambda a, b, c: torch._foreach_addcmul(a, b, c, 0.5),
    "addcmul scalars": lambda a, b, c: torch._foreach_addcmul(a, b, c, [0.5, 1.5, 2.5]),
    "addcdiv": lambda a, b, c: torch._foreach_addcdiv(a, b, c, 0.5),
    "addcdiv scalars": lambda a, b, c: torch._foreach_addcdiv(a, b, c, [0.5, 1.5, 2.5]),
    "lerp": lambda a, b, c: torch._foreach_lerp(a, b, c),
    "lerp scalar": lambda a, b, c: torch._foreach_lerp(a, b, 0.3),
    "pow": lambda a, b, c: torch._foreach_pow(a, b),
    "pow scalar": lambda a, b, c: torch._foreach_pow(a, 2.0),
    "scalar pow": lambda a, b, c: torch._foreach_pow(2.0, a),
    "norm": lambda a, b, c: torch._foreach_norm(a, 2),
    "norm 1": lambda a, b, c: torch._foreach_norm(a, 1),
    **{
        name: lambda a, b, c, name=name: getattr(torch, f"_foreach_{name}")(a)
        for name in (
            "abs cos cosh erf erfc exp expm1 log log10 log1p log2 neg reciprocal sigmoid sign sin sinh sqrt tan tanh "
            "ceil floor round trunc atan frac"
        ).split()
    },
    "acos": lambda a, b, c: torch._foreach_acos(torch._foreach_div(a, 10.0)),
    "asin": lambda a, b, c: torch._foreach_asin(torch._foreach_div(a, 10.0)),
}
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", list(LISTS))
def test_foreach(name: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    lists = [
        [torch.rand(s, generator=generator).mul(3).add(0.1).to(dtype) for s in [(3, 4), (5,), (2, 3, 7)]]
        for _ in range(3)
    ]
    host = LISTS[name](*lists)
    device = LISTS[name](*[[t.npu() for t in each] for each in lists])
    for h, d in zip(host, device, strict=True):
        assert d.device.type == "npu" and d.dtype == h.dtype
        torch.testing.assert_close(d.cpu(), h, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_foreach_in_place() -> None:
    host = [torch.arange(4.0), torch.arange(6.0).reshape(2, 3)]
    device = [t.npu() for t in host]
    for tensors in (host, device):
        torch._foreach_add_(tensors, 1)
        torch._foreach_mul_(tensors, tensors)
        torch._foreach_addcdiv_(tensors, tensors, tensors, 2)
        torch._foreach_sqrt_(tensors)
    for h, d in zip(host, device, strict=True):
        torch.testing.assert_close(d.cpu(), h)
    torch._foreach_zero_(device)
    assert all(t.abs().sum().item() == 0 for t in device)
    torch._foreach_copy_(device, host)
    assert all(torch.equal(d.cpu(), h) for d, h in zip(device, host, strict=True))


# ---- optimizers --------------------------------------------------------------------------------------------

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-2),
    "sgd loop": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=False),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "adam amsgrad": lambda p: torch.optim.Adam(p, lr=1e-2, amsgrad=True, weight_decay=1e-2),
    "adam loop": lambda p: torch.optim.Adam(p, lr=1e-2, foreach=False),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "adamw maximize": lambda p: torch.optim.AdamW(p, lr=1e-2, maximize=True),
    "adamw fused": lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
    "adamax": lambda p: torch.optim.Adamax(p, lr=1e-2),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-2),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-2, momentum=0.5, centered=True),
    "nadam": lambda p: torch.optim.NAdam(p, lr=1e-2),
    "radam": lambda p: torch.optim.RAdam(p, lr=1e-2),
    "adadelta": lambda p: torch.optim.Adadelta(p),
    "rprop": lambda p: torch.optim.Rprop(p, lr=1e-2),
    "asgd": lambda p: torch.optim.ASGD(p, lr=1e-2),
}


class Sine(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin()


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_optimizer(name: str) -> None:
    torch.manual_seed(2)
    host = torch.nn.Sequential(torch.nn.Linear(5, 7), Sine(), torch.nn.Linear(7, 3))
    device = copy.deepcopy(host).npu()
    data = torch.randn(6, 5)
    for model, x in ((host, data), (device, data.npu())):
        optimizer = OPTIMIZERS[name](model.parameters())
        for _ in range(5):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    for h, d in zip(host.parameters(), device.parameters(), strict=True):
        torch.testing.assert_close(d.detach().cpu(), h.detach(), rtol=1e-4, atol=1e-5)


def test_clip_grad_norm() -> None:
    grads = [torch.randn(3, 4), torch.randn(5)]
    norms = []
    for place in ("cpu", "npu"):
        parameters = [torch.nn.Parameter(torch.zeros_like(g, device=place)) for g in grads]
        for p, g in zip(parameters, grads, strict=True):
            p.grad = g.to(place).clone()
        norms.append((torch.nn.utils.clip_grad_norm_(parameters, 1.0).cpu(), [p.grad.cpu() for p in parameters]))
    torch.testing.assert_close(norms[1], norms[0])


def test_gradient_scaling() -> None:
    from torch_npu.npu.amp import GradScaler

    weight = torch.nn.Parameter(torch.ones(3, device="npu"))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = GradScaler(init_scale=8.0, growth_interval=2)
    for factor in (1.0, float("inf"), 1.0, 1.0):
        optimizer.zero_grad()
        scaler.scale((weight * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.testing.assert_close(weight.detach().cpu(), torch.full((3,), 1 - 0.3))
    assert scaler.get_scale() == 8.0  # halved once, doubled once
