"""What a first user tries, on every release: import, print, train, run out of memory, touch what must not be touched.

Each check runs in its own process, since several end it or look at its whole output.
"""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def run(code: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=timeout, check=False
    )


# What a board prints too: the plugin's allocator at its first allocation, and its conversion when torch's printer
# asks for float64, which it replaces on every board.
ON_A_BOARD = ("require processing for 32 padding size", "do not support double dtype now")


def test_readme_line_prints_without_warnings() -> None:
    result = run("import torch; import torch_npu; print(torch.randn(3, device='npu'))")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("tensor([") and "device='npu:0'" in result.stdout
    assert [line for line in result.stderr.splitlines() if not any(text in line for text in ON_A_BOARD)] == []


def test_launches_are_counted() -> None:
    result = run("""
        import ctypes, torch, torch_npu
        device = ctypes.CDLL("libsoftnpu.so")
        device.softnpu_launches.restype = ctypes.c_uint64
        x = torch.ones(8, device="npu")
        torch.npu.synchronize()
        before = device.softnpu_launches()
        y = x + x
        torch.npu.synchronize()
        assert device.softnpu_launches() == before + 1, (before, device.softnpu_launches())
        assert y.cpu().tolist() == [2.0] * 8
    """)
    assert result.returncode == 0, result.stderr


def test_host_read_of_a_device_pointer_faults() -> None:
    result = run("""
        import ctypes, torch, torch_npu
        x = torch.ones(8, device="npu")
        torch.npu.synchronize()
        print("alive", flush=True)
        ctypes.cast(x.data_ptr(), ctypes.POINTER(ctypes.c_float))[0]
    """)
    assert result.stdout == "alive\n"
    assert result.returncode == -signal.SIGSEGV


def test_more_than_the_capacity_is_out_of_memory() -> None:
    result = run("""
        import torch, torch_npu
        try:
            torch.empty(33 << 30, dtype=torch.uint8, device="npu")
        except RuntimeError as error:  # torch.OutOfMemoryError, which torch_npu raises from 2.10 on, is one
            assert "NPU out of memory. Tried to allocate 33.00 GiB" in str(error), error
            newer = tuple(map(int, torch_npu.__version__.split(".")[:2])) >= (2, 10)
            assert isinstance(error, torch.OutOfMemoryError) or not newer, type(error)
        else:
            raise SystemExit("33 GiB were allocated")
        assert torch.ones(3, device="npu").sum().item() == 3
    """)
    assert result.returncode == 0, result.stderr


def test_freed_memory_returns_to_the_system() -> None:
    result = run("""
        import torch, torch_npu
        def resident():  # shared memory pages in MiB: device memory is one shared object
            for line in open("/proc/self/status"):
                if line.startswith("RssShmem"):
                    return int(line.split()[1]) >> 10
        base = resident()
        x = torch.ones(512 << 20, dtype=torch.uint8, device="npu")
        torch.npu.synchronize()
        full = resident()
        assert full - base >= 500, (base, full)
        del x
        torch.npu.empty_cache()
        assert resident() - base < 64, (base, resident())
    """)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_training_agrees_with_the_cpu(dtype: str) -> None:
    result = subprocess.run(
        [sys.executable, str(HERE / "parity.py"), "--dtype", dtype],
        capture_output=True, text=True, timeout=600, check=False,
    )
    print(result.stdout)
    assert result.returncode == 0, result.stdout + result.stderr
