"""Judge the device by torch's own operator database: every OpInfo, forward and backward, against the CPU.

    softnpu run -- python tests/conformance/opinfo.py [--dtype float32 ...] [--op REGEX] [--jobs 2] [--out FILE.tsv]

One forked process an operator (after the imports, before the device starts), so a crash or a hang costs that operator
only. A line per operator and dtype: pass, fail, refused (the device says that its documents do not accept the dtype,
161002), fallback (the plugin itself sends the operator to the CPU), skip (the operator has no sample for the dtype),
crash, timeout. The share is pass / (pass + fail + crash + timeout).
"""

import argparse
import os
import random
import re
import selectors
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

os.environ.setdefault("TASK_QUEUE_ENABLE", "0")  # an operator's error belongs to the call that made it

import torch
import torch_npu  # noqa: F401
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

TOLERANCE = {  # atol, rtol: torch's own device comparisons for these types, f16 and bf16 with one rounding more
    torch.float32: (1e-4, 1.3e-5),
    torch.float16: (4e-3, 4e-3),
    torch.bfloat16: (2e-2, 2e-2),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1e-4, 1.3e-5),
    torch.complex128: (1e-7, 1e-7),
}
# Values are random (the streams of two devices differ) or undefined: only shape and dtype are compared.
RANDOM = re.compile(
    r"rand|bernoulli|normal|dropout|uniform|cauchy|exponential|geometric|multinomial|poisson|empty|rrelu|fractional|svd_lowrank|pca_lowrank"
)
MAX_SAMPLES = 24


class Refused(Exception):
    pass


class Fallback(Exception):
    pass


def to_device(tree: object, device: str) -> object:
    def move(value: object) -> object:
        if isinstance(value, torch.Tensor):
            moved = value.detach().to(device)
            return moved.requires_grad_(value.requires_grad)
        if isinstance(value, torch.device):
            return torch.device(device)
        return value

    return pytree.tree_map(move, tree)


def tensors_of(tree: object) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def run(op, sample, device: str) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
    arguments, keywords = to_device((sample.input, *sample.args), device), to_device(sample.kwargs, device)
    if "device" in keywords:
        keywords["device"] = device
    output = op(*arguments, **keywords)
    if sample.output_process_fn_grad is not None:
        output = sample.output_process_fn_grad(output)
    outputs = tensors_of(output)
    leaves = [t for t in tensors_of((arguments, keywords)) if t.requires_grad]
    roots = [t for t in outputs if t.requires_grad]
    gradients: list[torch.Tensor | None] = []
    if leaves and roots:
        seeds = [torch.ones(t.shape, dtype=t.dtype, device=t.device) for t in roots]
        gradients = list(torch.autograd.grad(roots, leaves, seeds, allow_unused=True))
    return outputs, gradients


def compare(got: list, want: list, dtype: torch.dtype, what: str, values: bool) -> None:
    if len(got) != len(want):
        raise AssertionError(f"{what}: {len(got)} results, CPU has {len(want)}")
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        if (a is None) != (b is None):
            raise AssertionError(f"{what} {i}: None on one side")
        if a is None:
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            raise AssertionError(f"{what} {i}: {a.dtype} {tuple(a.shape)}, CPU has {b.dtype} {tuple(b.shape)}")
        if not values:
            continue
        atol, rtol = TOLERANCE.get(dtype, TOLERANCE.get(b.dtype, (0, 0)))
        if b.is_sparse:
            a, b = a.to_dense(), b.to_dense()
        torch.testing.assert_close(a.cpu(), b, atol=atol, rtol=rtol, equal_nan=True)


def judge_sample(op, sample, dtype: torch.dtype) -> None:
    random.seed(0)
    torch.manual_seed(0)
    try:
        want = run(op, sample, "cpu")
    except Exception:
        return  # the CPU refuses this sample: nothing to compare with
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            got = run(op, sample, "npu")
            torch.npu.synchronize()
            got = (
                [t.cpu() if t.layout == torch.strided else t for t in got[0]],
                [None if g is None else g.cpu() for g in got[1]],
            )
        except RuntimeError as error:
            if "161002" in str(error):
                raise Refused(str(error)) from error
            raise
    if any("fall back to run on the CPU" in str(w.message) for w in caught):
        raise Fallback(str(caught[0].message))
    values = not RANDOM.search(op.name)
    compare(got[0], want[0], dtype, "output", values)
    compare(got[1], want[1], dtype, "gradient", values)


def one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    names = re.findall(r"aclnn\w+|operator type \w+|not supported[^.]*", text)
    head = f"{type(error).__name__}: {text}"
    return (f"[{' '.join(dict.fromkeys(names))[:80]}] " if names else "") + head[:300]


def judge(op, dtype: torch.dtype) -> tuple[str, str]:
    grad = (
        dtype in op.supported_backward_dtypes("cpu")
        and op.supports_autograd
        and dtype.is_floating_point | dtype.is_complex
    )
    try:
        torch.manual_seed(1)
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=grad))[:MAX_SAMPLES]
    except Exception as error:
        return "skip", one_line(error)
    if not samples:
        return "skip", "no samples"
    for i, sample in enumerate(samples):
        try:
            judge_sample(op, sample, dtype)
        except Refused as error:
            return "refused", one_line(error)
        except Fallback as error:
            return "fallback", one_line(error)
        except Exception as error:
            if os.environ.get("OPINFO_TRACE"):
                traceback.print_exc()
            return "fail", f"sample {i} of {len(samples)}: {one_line(error)}"
    return "pass", f"{len(samples)} samples"


def child(op, dtypes: list[torch.dtype], pipe: int) -> None:
    os.setpgid(0, 0)
    if not os.environ.get("OPINFO_TRACE"):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
    for dtype in dtypes:
        verdict, detail = judge(op, dtype)
        os.write(pipe, f"{str(dtype)[6:]}\t{verdict}\t{detail}\n".encode()[:4000])
    os._exit(0)


class Job:
    def __init__(self, op, dtypes: list[torch.dtype], limit: float) -> None:
        self.op, self.dtypes, self.text = op, dtypes, b""
        read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(read)
            child(op, dtypes, write)
        os.close(write)
        self.pipe, self.until = read, time.monotonic() + limit

    def finish(self, timed_out: bool) -> list[tuple[str, str, str, str]]:
        if timed_out:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pipe)
        name = self.op.name + (f".{self.op.variant_test_name}" if self.op.variant_test_name else "")
        rows = [(name, *line.split("\t", 2)) for line in self.text.decode(errors="replace").splitlines()]
        missing = self.dtypes[len(rows):]
        if missing and status:
            killed = os.WIFSIGNALED(status)
            signal_name = signal.Signals(status).name if killed else f"exit {os.waitstatus_to_exitcode(status)}"
            rows.append((name, str(missing[0])[6:], "timeout" if timed_out else "crash", signal_name))
            rows += [(name, str(d)[6:], "lost", f"after {missing[0]}") for d in missing[1:]]
        return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", nargs="*", default=["float32", "float16", "bfloat16", "int64", "bool", "complex64"])
    parser.add_argument("--op", default="", help="only operators whose name this regular expression finds")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=120, help="seconds an operator")
    parser.add_argument("--out", type=Path, help="write the table here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    wanted = [getattr(torch, d) for d in options.dtype]
    queue = [
        (op, dtypes)
        for op in op_db
        if re.search(options.op, op.name) and (dtypes := [d for d in wanted if d in op.supported_dtypes("cpu")])
    ][::-1]
    rows: list[tuple[str, str, str, str]] = []
    running: list[Job] = []
    selector = selectors.DefaultSelector()
    while queue or running:
        while queue and len(running) < options.jobs:
            job = Job(*queue.pop(), options.limit)
            running.append(job)
            selector.register(job.pipe, selectors.EVENT_READ, job)
        for key, _ in selector.select(timeout=1):
            job = key.data
            data = os.read(job.pipe, 65536)
            job.text += data
            if not data:
                selector.unregister(job.pipe)
                running.remove(job)
                rows += job.finish(False)
        for job in [j for j in running if time.monotonic() > j.until]:
            selector.unregister(job.pipe)
            running.remove(job)
            rows += job.finish(True)
    table = "".join("\t".join(row) + "\n" for row in sorted(rows))
    if options.out:
        options.out.write_text(table, encoding="utf-8")
    total = Counter(row[2] for row in rows)
    for dtype in options.dtype:
        counts = Counter(row[2] for row in rows if row[1] == dtype)
        print(f"{dtype:10} {dict(counts)}")
    judged = sum(total[v] for v in ("pass", "fail", "crash", "timeout", "lost"))
    print(f"{total['pass']} of {judged} judged pairs pass ({100 * total['pass'] / max(judged, 1):.1f}%), {dict(total)}")
    return 0 if judged == total["pass"] else 1


if __name__ == "__main__":
    sys.exit(main())
