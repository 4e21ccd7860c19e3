"""Every injected fault reaches a torch program as a board's error does, and hurts only the process that asked."""

import os
import subprocess
import sys

import pytest

# What the program does, what its error says, and what works afterwards.
PRELUDE = """
import sys, torch, torch_npu
x = torch.ones(1000, device="npu"); torch.npu.synchronize()
def attempt(work):
    try:
        work(); torch.npu.synchronize()
    except RuntimeError as e:
        return str(e)
    return ""
"""
# SOFTNPU_FAULT, Python after the prelude; N is large enough for start-up to be over.
CASES = {
    "alloc": (
        "alloc:2,alloc:3",  # torch frees its cache and tries again
        "e = attempt(lambda: torch.empty(64 << 20, device='npu'))\n"
        "assert 'out of memory' in e, e\n"
        "assert torch.empty(64 << 20, device='npu').numel() == 64 << 20",  # the process goes on
    ),
    "fail": ("fail:aclnnMul", "e = attempt(lambda: x * x)\nassert '561000' in e or 'aclnnMul' in e, e"),
    "hang": (
        "hang:aclnnMul",
        "import ctypes; ctypes.CDLL('libascendcl.so').aclrtSetOpExecuteTimeOutWithMs(200)\n"
        "e = attempt(lambda: x * x)\nassert '507014' in e, e",
    ),
    "wrong": ("wrong:aclnnMul", "y = (x * x).cpu()\nassert not torch.equal(y, torch.ones(1000)), y"),
    "slow": (
        "slow:aclnnMul:300",
        "import time; t = time.monotonic(); (x * x).cpu()\nassert time.monotonic() - t > 0.29",
    ),
}
# Faults of the Nth task: the error that a board's code gives in torch.
TASK_FAULTS = {
    "stream": "507015",
    "memory": "UCE ERROR",
    "ecc": "HBM MULTI BIT ECC ERROR",
    "link": "507056",
    "lost": "507010",
}


def run(fault: str, code: str) -> subprocess.CompletedProcess:
    env = {**os.environ, "SOFTNPU_FAULT": fault, "TASK_QUEUE_ENABLE": "0"}
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + code], env=env, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("kind", CASES)
def test_fault(kind: str):
    fault, code = CASES[kind]
    done = run(fault, code + "\nprint('as expected')")
    assert "as expected" in done.stdout, done.stderr[-3000:]


@pytest.mark.parametrize("kind", TASK_FAULTS)
def test_task_fault(kind: str):
    code = f"""
for i in range(200):
    e = attempt(lambda: x.mul_(1))
    if e: break
assert {TASK_FAULTS[kind]!r} in e or {TASK_FAULTS[kind]!r}.replace(' ', '') in e.replace(' ', ''), e
assert attempt(lambda: x.mul_(1)), 'later work of a context that stopped must be refused'
print('as expected')
"""
    done = run(f"{kind}:60", code)
    assert "as expected" in done.stdout, done.stderr[-3000:]


def test_crash_kills_only_its_own_process():
    other = subprocess.Popen(
        [
            sys.executable,
            "-c",
            PRELUDE + "import time; time.sleep(5); assert (x + 1).cpu().sum() == 2000; print('alive')",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    done = run("crash:aclnnMul", "attempt(lambda: x * x)")
    assert done.returncode == -11
    assert "alive" in other.communicate(timeout=300)[0] and other.returncode == 0
