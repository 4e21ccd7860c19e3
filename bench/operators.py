"""Kernel times of the device against CPU torch, in one run: the table of issue "as fast as CPU torch".

    softnpu run -- python bench/operators.py [GROUP...]

For every row and size both sides run interleaved, and the shortest time counts. The CPU side is the whole call with
a prepared output where the operator takes one; the device's side is what its stream spent in kernels, read from
SOFTNPU_TRACE (one line a launch). Ratio = CPU / device: above 1.0 the device is faster. A row's figure is the
median over its sizes; the last column says what the project asks for.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

trace = tempfile.NamedTemporaryFile(prefix="softnpu-bench-", suffix=".jsonl")
os.environ["SOFTNPU_TRACE"] = trace.name

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import torch_npu  # noqa: E402, F401

SECONDS = float(os.environ.get("BENCH_SECONDS", "0.15"))
SIZES = tuple(int(float(n)) for n in os.environ.get("BENCH_SIZES", "1e3,1e4,1e5,1e6,1e7").split(","))
f32, bf16, f16 = torch.float32, torch.bfloat16, torch.float16
SHORT = {f32: "f32", bf16: "bf16", f16: "f16"}

Call = Callable[[], object]
# Makes the calls of one row for one size and dtype: on the CPU and on the device.
Make = Callable[[int, torch.dtype], tuple[Call, Call]]
rows: list[tuple[str, str, tuple, tuple, float, Make]] = []


def row(group: str, name: str, target: float, make: Make, dtypes=(f32, bf16, f16), sizes=SIZES) -> None:
    rows.append((group, name, dtypes, sizes, target, make))


def both(function: Callable, *inputs: torch.Tensor, out: bool = False) -> tuple[Call, Call]:
    device = [t.npu() for t in inputs]
    if not out:
        return lambda: function(*inputs), lambda: function(*device)
    into = function(*inputs)
    return lambda: function(*inputs, out=into), lambda: function(*device)


def plain(function: Callable, operands: int, out: bool = True, positive: bool = False) -> Make:
    def make(n: int, dtype: torch.dtype) -> tuple[Call, Call]:
        values = [torch.rand(n) + 0.1 if positive else torch.randn(n) for _ in range(operands)]
        return both(function, *(v.to(dtype) for v in values), out=out)

    return make


def matrix(function: Callable, columns: int, out: bool = False) -> Make:
    def make(n: int, dtype: torch.dtype) -> tuple[Call, Call]:
        return both(function, torch.randn(max(n // columns, 1), min(columns, n)).to(dtype), out=out)

    return make


# ---- elementwise ----------------------------------------------------------------------------------------------


def scalar(function: Callable, *values: float) -> Callable:
    return lambda x, out=None: function(x, *values, out=out)


for name, function, operands in (
    ("add", torch.add, 2),
    ("mul", torch.mul, 2),
    ("div", torch.div, 2),
    ("maximum", torch.maximum, 2),
    ("gt", torch.gt, 2),
    ("exp", torch.exp, 1),
    ("tanh", torch.tanh, 1),
    ("sigmoid", torch.sigmoid, 1),
    ("erf", torch.erf, 1),
    ("sin", torch.sin, 1),
    ("neg", torch.neg, 1),
    ("abs", torch.abs, 1),
    ("addcmul", torch.addcmul, 3),
):
    row("elementwise", name, 1.0, plain(function, operands))
for name, function in (
    ("sqrt", torch.sqrt),
    ("rsqrt", torch.rsqrt),
    ("log", torch.log),
    ("reciprocal", torch.reciprocal),
):
    row("elementwise", name, 1.0, plain(function, 1, positive=True))
row("elementwise", "add scalar", 1.0, plain(lambda x, out=None: torch.add(x, 1.5, out=out), 1))
row("elementwise", "pow 3", 1.0, plain(scalar(torch.pow, 3.0), 1))
row("elementwise", "clamp", 1.0, plain(scalar(torch.clamp, -0.5, 0.5), 1))
row("elementwise", "relu", 1.0, plain(torch.relu, 1, out=False))
row("elementwise", "gelu", 1.0, plain(F.gelu, 1, out=False))
row("elementwise", "silu", 1.0, plain(F.silu, 1, out=False))
row("elementwise", "where", 1.0, plain(lambda x, y: torch.where(x > 0, x, y), 2, out=False))
row("elementwise", "to f32/bf16", 1.0, plain(lambda x: x.to(bf16 if x.dtype == f32 else f32), 1, out=False))
row("elementwise", "add row", 1.0, matrix(lambda x: x + x[0], 1000))
row("elementwise", "transposed add", 1.0, matrix(lambda x: x.t() + x.flatten().view(x.t().shape), 100))

# ---- reductions -----------------------------------------------------------------------------------------------

for name, function in (
    ("sum", torch.sum),
    ("mean", torch.mean),
    ("amax", torch.amax),
    ("var", torch.var),
    ("norm", torch.norm),
):
    row("reduction", f"{name} all", 1.0, plain(function, 1, out=False))
for dim in (-1, 0):
    for name, function in (
        ("sum", torch.sum),
        ("mean", torch.mean),
        ("amax", torch.amax),
        ("max", torch.max),
        ("argmax", torch.argmax),
        ("var", torch.var),
        ("cumsum", torch.cumsum),
    ):
        row("reduction", f"{name} dim {dim}", 1.0, matrix(lambda x, f=function, d=dim: f(x, d), 1000))
row("reduction", "any", 1.0, plain(lambda x: torch.any(x), 1, out=False), dtypes=(f32,))

# ---- softmax, normalisation -----------------------------------------------------------------------------------

row("softmax", "softmax", 0.9, matrix(lambda x: torch.softmax(x, -1), 1000))
row("softmax", "log_softmax", 0.9, matrix(lambda x: torch.log_softmax(x, -1), 1000))
row("softmax", "softmax dim 0", 0.9, matrix(lambda x: torch.softmax(x, 0), 1000))
row("layer norm", "layer_norm", 0.9, matrix(lambda x: F.layer_norm(x, x.shape[-1:]), 1000))

# ---- matrix products, convolution -----------------------------------------------------------------------------


def square(n: int, dtype: torch.dtype) -> tuple[Call, Call]:
    return both(torch.mm, torch.randn(n, n).to(dtype), torch.randn(n, n).to(dtype), out=True)


def linear(n: int, dtype: torch.dtype) -> tuple[Call, Call]:
    return both(F.linear, torch.randn(n, 768).to(dtype), torch.randn(768, 768).to(dtype))


def batched(n: int, dtype: torch.dtype) -> tuple[Call, Call]:
    return both(torch.bmm, torch.randn(32, n, 64).to(dtype), torch.randn(32, 64, n).to(dtype), out=True)


SIDES = (32, 64, 128, 256, 512, 1024)
row("matmul f32", "mm n x n", 0.95, square, (f32,), SIDES)
row("matmul f32", "linear n x 768", 0.95, linear, (f32,), SIDES)
row("matmul f32", "bmm 32 n x 64", 0.95, batched, (f32,), SIDES[:-1])
row("matmul half", "mm n x n", 1.0, square, (bf16, f16), SIDES)
row("matmul half", "linear n x 768", 1.0, linear, (bf16, f16), SIDES)
row("matmul half", "bmm 32 n x 64", 1.0, batched, (bf16, f16), SIDES[:-1])


def convolution(channels: int, kernel: int) -> Make:
    def make(n: int, dtype: torch.dtype) -> tuple[Call, Call]:
        x, w = torch.randn(4, channels, n, n).to(dtype), torch.randn(channels, channels, kernel, kernel).to(dtype)
        return both(lambda x, w: F.conv2d(x, w, padding=kernel // 2), x, w)

    return make


row("conv2d", "3x3 32 channels", 0.8, convolution(32, 3), (f32, bf16), (8, 16, 32, 64))
row("conv2d", "1x1 64 channels", 0.8, convolution(64, 1), (f32, bf16), (8, 16, 32, 64))
row("conv2d", "7x7 8 channels", 0.8, convolution(8, 7), (f32, bf16), (16, 32, 64, 128))

# ---- index, sort ----------------------------------------------------------------------------------------------


def embedding(n: int, dtype: torch.dtype) -> tuple[Call, Call]:
    rows_ = max(n // 256, 1)
    return both(lambda w, i: F.embedding(i, w), torch.randn(5000, 256).to(dtype), torch.randint(5000, (rows_,)))


def gathered(function: Callable) -> Make:
    def make(n: int, dtype: torch.dtype) -> tuple[Call, Call]:
        return both(function, torch.randn(n).to(dtype), torch.randint(n, (n,)))

    return make


row("index", "embedding", 0.9, embedding)
row("index", "index x[i]", 0.9, gathered(lambda x, i: x[i]))
row("index", "index_select", 0.9, gathered(lambda x, i: torch.index_select(x, 0, i)))
row("index", "gather", 0.9, gathered(lambda x, i: torch.gather(x, 0, i)))
row("index", "index_add", 0.9, gathered(lambda x, i: torch.index_add(x, 0, i, x)), (f32,))
row("sort", "sort 1-D", 0.7, plain(lambda x: torch.sort(x), 1, out=False), (f32, bf16), SIZES[:-1])
row("sort", "sort rows", 0.7, matrix(lambda x: torch.sort(x, -1), 1000), (f32, bf16), SIZES[:-1])
row("sort", "topk 10", 0.7, matrix(lambda x: torch.topk(x, min(10, x.shape[-1])), 1000), (f32,), SIZES[:-1])


# ---- measuring ------------------------------------------------------------------------------------------------


class Trace:
    """Kernel time of the launches since the last look."""

    def __init__(self, path: str) -> None:
        self.file = open(path, "rb")

    def seconds(self) -> float:
        return sum(json.loads(line)["ns"] for line in self.file) * 1e-9


def measure(cpu: Call, device: Call, launches: Trace) -> tuple[float, float]:
    cpu()
    device()
    cpu_best, device_best = 1e9, 1e9
    for _ in range(3):
        until = time.perf_counter() + SECONDS / 3
        while True:
            start = time.perf_counter()
            cpu()
            end = time.perf_counter()
            cpu_best = min(cpu_best, end - start)
            if end > until:
                break
        torch.npu.synchronize()
        launches.seconds()
        until = time.perf_counter() + SECONDS / 3
        while True:
            device()
            torch.npu.synchronize()
            device_best = min(device_best, launches.seconds())
            if time.perf_counter() > until:
                break
    return cpu_best, device_best


def bandwidth(launches: Trace) -> None:
    """Bytes a second of a large add (12 bytes an element) against a large copy (8 bytes an element)."""
    n = 30_000_000
    a, b = torch.randn(n), torch.empty(n)
    x, y = a.npu(), a.npu()
    cpu, device = measure(lambda: b.copy_(a), lambda: torch.add(x, y), launches)
    copy, add = 8 * n / cpu / 1e9, 12 * n / device / 1e9
    print(f"large add {add:.1f} GB/s, CPU torch's copy {copy:.1f} GB/s: {add / copy:.2f} (target 0.85)")


def main() -> None:
    torch.set_num_threads(int(os.environ.get("SOFTNPU_THREADS", torch.get_num_threads())))
    launches = Trace(trace.name)
    wanted = sys.argv[1:]
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; ratio CPU / device by size")
    totals: dict[tuple[str, str], list[float]] = {}
    targets: dict[tuple[str, str], float] = {}
    for group, name, dtypes, sizes, target, make in rows:
        if wanted and group not in wanted and name not in wanted:
            continue
        for dtype in dtypes:
            ratios = []
            for n in sizes:
                cpu, device = measure(*make(n, dtype), launches)
                ratios.append(cpu / device)
            median = statistics.median(ratios)
            key = group, SHORT[dtype]
            totals.setdefault(key, []).extend(ratios)
            targets[key] = target
            figures = " ".join(f"{r:7.2f}" for r in ratios)
            mark = "" if median >= target else "  below"
            print(f"{group:12} {name:16} {SHORT[dtype]:4} {figures}  median {median:6.2f}{mark}", flush=True)
    print()
    for key, ratios in totals.items():
        median = statistics.median(ratios)
        print(
            f"{key[0]:12} {key[1]:4} median {median:6.2f}  target {targets[key]:.2f}"
            f"{'' if median >= targets[key] else '  below'}"
        )
    if not wanted or "bandwidth" in wanted:
        bandwidth(launches)


main()
