"""The device against CPU torch, in one run: a small operator's cost, matmul, softmax. Prints ratios CPU / device.

    softnpu run -- python bench/device.py BUILD/bin/bench_launch

For the small operator the device's share alone is taken (bench_launch, C); the rest compare whole calls with a
synchronisation, both sides with the same number of threads. Above 1.0 the device is faster.
"""

import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch_npu  # noqa: F401


def best(function: Callable[[], object], seconds: float = 1.0) -> float:
    """Shortest time of one call in seconds; runs of both sides are interleaved by the caller."""
    function()
    shortest, until = 1e9, time.perf_counter() + seconds
    while time.perf_counter() < until:
        start = time.perf_counter()
        function()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


def small_add() -> float:
    a, b = torch.ones(8), torch.ones(8)

    def thousand() -> None:
        for _ in range(1000):
            torch.add(a, b)

    return best(thousand) / 1000


def versus(name: str, cpu: Callable[[], object], device: Callable[[], object]) -> None:
    def synchronised() -> None:
        device()
        torch.npu.synchronize()

    cpu_time, device_time = 1e9, 1e9
    for _ in range(3):
        cpu_time = min(cpu_time, best(cpu, 0.7))
        time.sleep(0.3)  # CPU torch's threads spin for a while after a parallel region
        device_time = min(device_time, best(synchronised, 0.7))
    ratio = cpu_time / device_time
    print(f"{name:32} CPU torch {cpu_time * 1e6:10.1f} us   device {device_time * 1e6:10.1f} us   ratio {ratio:5.2f}")


def main() -> None:
    share = float(subprocess.run([sys.argv[1]], capture_output=True, text=True, check=True).stdout)
    whole = small_add() * 1e9
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    figures = f"CPU torch {whole / 1e3:10.3f} us   device's share {share / 1e3:6.3f} us   ratio {whole / share:5.2f}"
    print(f"{'add of 8 floats':32} {figures}")
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    a_npu, b_npu = a.npu(), b.npu()
    versus("matmul f32 1024", lambda: torch.mm(a, b), lambda: torch.mm(a_npu, b_npu))
    x = torch.randn(4096, 1024)
    x_npu = x.npu()
    versus("softmax f32 4096x1024", lambda: torch.softmax(x, -1), lambda: torch.softmax(x_npu, -1))


main()
