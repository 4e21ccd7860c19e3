"""Index, scatter, selection and shape operators through torch_npu, each compared with CPU torch.

softnpu run -- python -m pytest tests/device/test_index_shape.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_npu")
F = torch.nn.functional

if not torch.npu.is_available():
    pytest.skip("no device", allow_module_level=True)

FLOATS = [torch.float32, torch.float16, torch.bfloat16]
COMMON = [*FLOATS, torch.int32, torch.int64, torch.uint8, torch.int8, torch.int16, torch.bool]


def make(shape: tuple[int, ...], dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator) * 10
    return x > 0 if dtype is torch.bool else x.abs().to(dtype) if dtype is torch.uint8 else x.to(dtype)


def move(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.npu()
    if isinstance(x, (list, tuple)):
        return type(x)(move(v) for v in x)
    return x


def close(device: Any, host: Any, rtol: float | None = None, atol: float | None = None) -> None:
    if isinstance(host, (list, tuple)):
        assert len(device) == len(host)
        for d, h in zip(device, host, strict=True):
            close(d, h, rtol, atol)
        return
    assert device.device.type == "npu" and device.dtype == host.dtype and device.shape == host.shape
    torch.testing.assert_close(device.cpu(), host, rtol=rtol, atol=atol, equal_nan=True)


def check(function: Callable[..., Any], *inputs: Any, **tolerance: float) -> None:
    close(function(*move(inputs)), function(*inputs), **tolerance)


def check_grad(function: Callable[..., torch.Tensor], x: torch.Tensor, *rest: Any) -> None:
    """Values and the gradient of x."""
    host, device = x.clone().requires_grad_(), x.npu().requires_grad_()
    a, b = function(host, *rest), function(device, *move(rest))
    close(b, a)
    weight = torch.arange(a.numel(), dtype=torch.float32).reshape(a.shape).to(a.dtype) / max(a.numel(), 1)
    (a * weight).sum().backward()
    (b * weight.npu()).sum().backward()
    close(device.grad, host.grad, rtol=1e-3, atol=1e-4)


# ---- indexing ----------------------------------------------------------------------------------------------

INDEX = [
    lambda x: x[torch.tensor([2, 0, -1], device=x.device)],
    lambda x: x[:, torch.tensor([[2, 0], [1, 1]], device=x.device)],
    lambda x: x[torch.tensor([0, 1], device=x.device), :, torch.tensor([3, 0], device=x.device)],
    lambda x: x[..., torch.tensor([3], device=x.device)],
    lambda x: x[torch.tensor([[0], [1]], device=x.device), torch.tensor([0, 2], device=x.device)],
    lambda x: x[x > 0],
    lambda x: x[:, x[0, :, 0] > 0],
    lambda x: x[torch.tensor([], dtype=torch.int64, device=x.device)],
    lambda x: x.transpose(0, 2)[torch.tensor([1, 3], device=x.device)],
    lambda x: x[1:, ::2][:, torch.tensor([1], device=x.device)],
]


@pytest.mark.parametrize("dtype", COMMON, ids=str)
@pytest.mark.parametrize("number", range(len(INDEX)))
def test_index(number: int, dtype: torch.dtype) -> None:
    check(INDEX[number], make((3, 4, 5), dtype))


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 8])
def test_index_gradient(number: int) -> None:
    check_grad(INDEX[number], make((3, 4, 5)))


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool], ids=str)
def test_index_put(dtype: torch.dtype, accumulate: bool) -> None:
    if dtype is torch.bool and accumulate:
        pytest.skip("sums of bool")
    rows = torch.tensor([0, 2, 1]) if not accumulate else torch.tensor([0, 2, 0])
    check(lambda x, i, v: x.index_put((i,), v, accumulate), make((3, 4), dtype), rows, make((3, 4), dtype, 1))
    check(lambda x, i, v: x.t().index_put((i,), v, accumulate), make((4, 3), dtype), rows, make((3, 1), dtype, 1))


def test_setitem() -> None:
    def change(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[0] = 1
        y[:, 1] = torch.arange(x.shape[2], device=x.device, dtype=x.dtype)
        y[y > 5] = 0
        y[torch.tensor([1, 2], device=x.device), torch.tensor([0, 3], device=x.device)] = -1
        y[..., -1] += 2
        return y

    check(change, make((3, 4, 5)))


@pytest.mark.parametrize("dtype", COMMON, ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_index_select(dim: int, dtype: torch.dtype) -> None:
    check(lambda x, i: x.index_select(dim, i), make((3, 4, 5), dtype), torch.tensor([2, 0, 2]))
    check(
        lambda x, i: x.t().index_select(dim if dim < 1 else 1, i),
        make((4, 6), dtype),
        torch.tensor([2, 0, 2], dtype=torch.int32),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("alpha", [1, 3])
def test_index_add(alpha: int, dtype: torch.dtype) -> None:
    loose = {"rtol": 4e-3, "atol": 1e-5} if dtype is torch.float16 else {}  # the CPU rounds after each step
    at, source = torch.tensor([3, 0, 0]), make((3, 3, 2), dtype, 1)
    check(lambda x, i, s: x.index_add(1, i, s, alpha=alpha), make((3, 4, 2), dtype), at, source, **loose)


def test_index_fill_copy() -> None:
    for dtype in [torch.float32, torch.int64, torch.bool]:
        check(lambda x, i: x.index_fill(1, i, 1), make((3, 4), dtype), torch.tensor([3, 0]))
        check(lambda x, i, s: x.index_copy(0, i, s), make((3, 4), dtype), torch.tensor([2, 0]), make((2, 4), dtype, 1))
    check(lambda x, i: x.clone().index_fill_(0, i, -2), make((3, 4)), torch.tensor([1]))


def test_take_put() -> None:
    check(lambda x, i: x.take(i), make((3, 4)), torch.tensor([[0, 11], [-1, 5]]))
    check(lambda x, i, s: x.clone().put_(i, s), make((3, 4)), torch.tensor([1, 5]), make((2,), seed=1))
    check(lambda x, i, s: x.clone().put_(i, s, accumulate=True), make((3, 4)), torch.tensor([1, 1]), make((2,), seed=1))


@pytest.mark.parametrize("dtype", COMMON, ids=str)
def test_gather(dtype: torch.dtype) -> None:
    x, i = make((3, 4, 5), dtype), torch.tensor([[[0, 2], [1, 1]]])
    check(lambda x, i: x.gather(1, i), x, i)
    check(lambda x, i: x.gather(2, i), x, i)
    check(lambda x, i: x.transpose(0, 2).gather(0, i), x, i)


def test_gather_gradient() -> None:
    check_grad(lambda x, i: x.gather(1, i), make((3, 4)), torch.tensor([[0, 0, 1], [3, 3, 3], [2, 1, 0]]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64], ids=str)
def test_scatter(dtype: torch.dtype) -> None:
    x, i, s = make((3, 4), dtype), torch.tensor([[0, 1, 2], [3, 2, 0]]), make((2, 3), dtype, 1)
    check(lambda x, i, s: x.scatter(1, i, s), x, i, s)
    check(lambda x, i, s: x.scatter(1, i, 2), x, i, s)
    check(lambda x, i, s: x.scatter_add(1, i, s), x, i, s)
    check(lambda x, i, s: x.scatter(1, i, s, reduce="add"), x, i, s)
    check(lambda x, i, s: x.scatter(1, i, s, reduce="multiply"), x, i, s)
    check(lambda x, i, s: x.clone().scatter_(0, i.clamp(max=2), s), x, torch.tensor([[0, 1, 2]]), s)
    check(lambda x, i, s: x.scatter_reduce(1, i, s, "sum"), x, i, s)


def test_masks() -> None:
    for dtype in COMMON:
        check(lambda x, m: x.masked_select(m), make((3, 4), dtype), make((3, 4), torch.bool, 1))
        check(lambda x, m: x.masked_select(m), make((3, 4), dtype), make((4,), torch.bool, 1))
        check(lambda x: x.nonzero(), make((3, 4), torch.bool, 1).to(dtype))
    check(lambda x: x.nonzero(as_tuple=True), make((3, 4), torch.bool))
    check(lambda x: torch.tensor(1.0, device=x.device).nonzero(), make((1,)))
    check(lambda x, m, s: x.masked_scatter(m, s), make((3, 4)), make((3, 4), torch.bool, 1), make((20,), seed=2))


# ---- embedding ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_embedding(dtype: torch.dtype) -> None:
    at = torch.tensor([[1, 0, 5], [5, 5, 2]])
    check_grad(lambda w, i: F.embedding(i, w), make((6, 4), dtype), at)
    check_grad(lambda w, i: F.embedding(i, w, padding_idx=5), make((6, 4), dtype), at)


def test_embedding_scaled_and_renormalised() -> None:
    at = torch.tensor([[1, 0, 5], [5, 5, 2]])
    check_grad(lambda w, i: F.embedding(i, w, scale_grad_by_freq=True), make((6, 4)), at)
    check(lambda w, i: F.embedding(i, w.clone(), max_norm=2.0), make((6, 4)), at)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode: str) -> None:
    at, offsets = torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 2, 2, 5])
    check(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode), make((6, 4)), at, offsets)


def test_one_hot() -> None:
    check(lambda x: F.one_hot(x, 5), torch.tensor([[0, 4], [2, 2]]))
    check(lambda x: F.one_hot(x), torch.tensor([0, 4, 2]))


# ---- joining and splitting ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", COMMON, ids=str)
def test_join(dtype: torch.dtype) -> None:
    a, b = make((2, 3, 4), dtype), make((2, 3, 4), dtype, 1)
    for dim in (0, 1, -1):
        check(lambda a, b: torch.cat([a, b, a], dim), a, b)
        check(lambda a, b: torch.stack([a, b], dim), a, b)
    check(lambda a, b: torch.cat([a.transpose(0, 1), b.transpose(0, 1)], 2), a, b)


def test_join_odd() -> None:
    check(lambda a: torch.cat([a, torch.empty(0, device=a.device), a]), make((3,)))
    check(lambda a: torch.stack([a.sum(), a.max()]), make((3,)))
    check(lambda a, b: torch.cat([a, b]), make((3,)), torch.arange(3))
    check(lambda a: torch.split_copy(a, 2, 1), make((3, 5)))
    check(lambda a: torch.split_with_sizes_copy(a, [1, 4], 1), make((3, 5)))
    check(lambda a: a.unbind(1), make((3, 5)))


# ---- rearranging -------------------------------------------------------------------------------------------

SHAPES: dict[str, Callable[[torch.Tensor], Any]] = {
    "flip": lambda x: x.flip(0, 2),
    "roll": lambda x: x.roll((1, -2), (0, 2)),
    "roll flat": lambda x: x.roll(7),
    "repeat": lambda x: x.repeat(2, 1, 3, 2),
    "repeat view": lambda x: x.transpose(0, 1).repeat(1, 2, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "repeat_interleave flat": lambda x: x.repeat_interleave(3),
    "repeat_interleave each": lambda x: x.repeat_interleave(torch.tensor([2, 0, 1], device=x.device), 1),
    "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(-1),
    "tril view": lambda x: x.transpose(1, 2).tril(1),
    "permute": lambda x: x.permute(2, 0, 1).contiguous(),
    "rot90": lambda x: x.rot90(),
    "tile": lambda x: x.tile(2),
    "diagonal": lambda x: x.diagonal(0, 1, 2).contiguous(),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1), value=3),
    "crop": lambda x: F.pad(x, (-1, 1)),
    "unfold": lambda x: x.unfold(2, 2, 1).contiguous(),
    "expand": lambda x: x[:, :1].expand(2, 4, 4).contiguous(),
    "channel_shuffle": lambda x: x,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("name", list(SHAPES))
def test_shape(name: str, dtype: torch.dtype) -> None:
    check(SHAPES[name], make((2, 3, 4), dtype))


@pytest.mark.parametrize(
    "name", ["flip", "roll", "repeat", "repeat_interleave", "tril", "triu", "pad", "unfold", "expand"]
)
def test_shape_gradient(name: str) -> None:
    check_grad(SHAPES[name], make((2, 3, 4)))


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_pad_edges(mode: str) -> None:
    check_grad(lambda x: F.pad(x, (2, 1), mode=mode), make((2, 3, 5)))
    check_grad(lambda x: F.pad(x, (2, 1, 0, 3), mode=mode), make((2, 3, 5, 4)))
    check_grad(lambda x: F.pad(x, (2, 1, 0, 1, 1, 1), mode=mode), make((1, 2, 3, 4, 5)))


def test_pad_circular() -> None:
    check(lambda x: F.pad(x, (2, 1), mode="circular"), make((2, 3, 5)))


# ---- creation ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64], ids=str)
def test_arange(dtype: torch.dtype) -> None:
    for arguments in [(10,), (3, 9), (9, -3, -4), (0, 7, 3)]:
        close(torch.arange(*arguments, dtype=dtype, device="npu"), torch.arange(*arguments, dtype=dtype))


def test_create() -> None:
    for make_one in [
        lambda d: torch.arange(0, 1, 0.1, device=d),
        lambda d: torch.arange(-2.5, 3, 0.7, device=d),
        lambda d: torch.linspace(-1, 1, 11, device=d),
        lambda d: torch.linspace(3, 3, 1, device=d),
        lambda d: torch.logspace(0, 2, 5, device=d),
        lambda d: torch.eye(3, device=d),
        lambda d: torch.eye(2, 4, dtype=torch.int64, device=d),
        lambda d: torch.zeros(3, 3, device=d).fill_diagonal_(2),
        lambda d: torch.zeros(7, 3, device=d).fill_diagonal_(2, wrap=True),
        lambda d: torch.diag(torch.arange(3.0, device=d)),
        lambda d: torch.diag(torch.arange(9.0, device=d).reshape(3, 3), 1),
        lambda d: torch.diag_embed(torch.arange(6.0, device=d).reshape(2, 3)),
        lambda d: torch.tril_indices(3, 4, device=d),
        lambda d: torch.meshgrid(torch.arange(3, device=d), torch.arange(2, device=d), indexing="ij"),
        lambda d: torch.cartesian_prod(torch.arange(3, device=d), torch.arange(2, device=d)),
        lambda d: torch.trace(torch.arange(9.0, device=d).reshape(3, 3)),
    ]:
        close(make_one("npu"), make_one("cpu"))


# ---- refusals ----------------------------------------------------------------------------------------------


def test_refused_dtype_names_operator() -> None:
    with pytest.raises(RuntimeError, match="aclnnIndexFill"):
        make((3, 4), torch.int16).npu().index_fill(0, torch.tensor([0]).npu(), 1)
        torch.npu.synchronize()
