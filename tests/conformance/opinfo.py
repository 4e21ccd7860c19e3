"""Judge the device by torch's own databases of operators, modules and optimizers, forward and backward, against the
CPU.

    softnpu run -- python tests/conformance/opinfo.py [--judge opinfo] [--dtype float32 ...] [--op REGEX] [--out FILE]

A line for each name and dtype: pass, fail, crash, timeout, or why it is not judged: refused (every sample: the device
or the plugin does not take the dtype, the rank or the memory format), fallback (the plugin itself sends every sample to
the CPU), documented and plugin (every sample: see known.tsv), skip (no sample that the CPU takes). The share is
pass / (pass + fail + crash + timeout).
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
from pathlib import Path

import compare
import forkpool
import modules
import optimizers
import torch
from forkpool import Case
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.common_methods_invocations import op_db

# Values are random (the streams of two devices differ) or undefined: only shape and dtype are compared.
RANDOM = re.compile(
    r"rand|bernoulli|normal(?!_|ize)|dropout|uniform|cauchy|exponential|geometric|multinomial|poisson|empty|rrelu|fractional"
    r"|svd_lowrank|pca_lowrank"
)
KNOWN = compare.read_known("opinfo")
# The order of equal values is free: an index is right when it leads to the value (result 0, or the input's own).
TIES = re.compile(r"sort|argsort|msort|topk|kthvalue|mode|median|nanmedian|aminmax|(max|min)\.reduction_with_dim")
# Tensors that stay on the CPU in torch's own tests on a device.
HOST_ARGUMENTS = ("tensor_split",)
DTYPES = ["float32", "float16", "bfloat16", "int64", "bool", "complex64"]


def run(op, sample, arguments: tuple, keywords: dict) -> list[torch.Tensor | None]:
    output = op(*arguments, **keywords)
    if sample.output_process_fn_grad is not None:
        output = sample.output_process_fn_grad(output)
    outputs = compare.tensors_of(output)
    return [*outputs, *compare.differentiate(outputs, (arguments, keywords))]


def tolerance(op, dtype: torch.dtype) -> tuple[float, float] | None:
    """The widest tolerance that the database itself gives the operator for a device, if it gives one."""
    found = []
    for decorator in op.decorators:
        if getattr(decorator, "device_type", None) not in (None, "cuda"):
            continue
        for inner in getattr(decorator, "decorators", []):
            if isinstance(inner, toleranceOverride) and dtype in inner.d:
                found.append(tuple(inner.d[dtype]))
    return (max(t[0] for t in found), max(t[1] for t in found)) if found else None


def untie(op, sample, results: list) -> list:
    """results with indices replaced by the input's elements at them, so that equal values compare as equal."""
    dim = sample.kwargs.get("dim", next((a for a in sample.args if isinstance(a, int)), -1))
    if op.name in ("topk", "kthvalue"):
        dim = sample.kwargs.get("dim", sample.args[1] if len(sample.args) > 1 else -1)
    keep = sample.kwargs.get("keepdim", False) or op.name not in ("kthvalue", "mode", "median", "nanmedian")
    out = []
    for t in results:
        if t is None or t.dtype != torch.int64 or not sample.input.dim() or not isinstance(dim, int):
            out.append(t)
            continue
        at = t if keep or t.dim() == sample.input.dim() else t.unsqueeze(dim)
        out.append(torch.take_along_dim(sample.input.detach(), at, dim))
    return out


def draws(op, sample) -> bool:
    """The sample's values are random numbers."""
    dropout = sample.kwargs.get("dropout_p", 0)
    if op.name == "nn.functional.multi_head_attention_forward":
        dropout = sample.kwargs["training"] and sample.args[9]
    return bool(RANDOM.search(op.name) or dropout)


def judge_sample(op, sample, dtype: torch.dtype) -> None:
    inputs = ((sample.input, *sample.args), sample.kwargs)

    def on(device: str) -> list:
        random.seed(0)
        torch.manual_seed(0)
        arguments, keywords = compare.to_device(inputs, device)
        if op.name in HOST_ARGUMENTS:
            arguments = (arguments[0], *sample.args)
        return run(op, sample, arguments, keywords)

    try:
        want = [compare.on_host(t) for t in on("cpu")]
    except Exception as error:
        raise compare.NothingToCompare from error
    got = compare.on_device(lambda: on("npu"))
    if TIES.fullmatch(case_name(op)) and not sample.kwargs.get("stable"):
        got, want = untie(op, sample, got), untie(op, sample, want)
    exact = lambda: run(op, sample, *compare.widen(inputs))  # noqa: E731
    compare.compare(got, want, dtype, not draws(op, sample), exact, tolerance(op, dtype))


def case_name(op) -> str:
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def judge_operator(op, dtype_name: str) -> tuple[str, str]:
    dtype = getattr(torch, dtype_name)
    grad = (
        op.supports_autograd
        and (dtype.is_floating_point or dtype.is_complex)
        and dtype in op.supported_backward_dtypes("cpu")
    )
    try:
        torch.manual_seed(1)
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
    except Exception as error:
        return "skip", compare.one_line(error)
    tally = compare.Tally(case_name(op), dtype, KNOWN)
    for i, sample in enumerate(samples):
        failure = tally.sample(lambda sample=sample: judge_sample(op, sample, dtype))
        if failure:
            return "fail", f"sample {i} of {len(samples)}: {failure}"
    return tally.verdict()


def operators(dtypes: list[str], pattern: str) -> list[Case]:
    cases = []
    for op in op_db:
        name = case_name(op)
        supported = [d for d in dtypes if getattr(torch, d) in op.supported_dtypes("cpu")]
        if supported and re.search(pattern, name):
            cases.append(Case(name, supported, lambda dtype, op=op: judge_operator(op, dtype)))
    return cases


JUDGES = {"opinfo": operators, "modules": modules.cases, "optimizers": optimizers.cases}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--judge", choices=JUDGES, default="opinfo")
    parser.add_argument("--dtype", nargs="*", default=DTYPES)
    parser.add_argument("--op", default="", help="only those whose name this regular expression finds")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=120, help="seconds for an operator and dtype")
    parser.add_argument("--out", type=Path, help="replace these pairs' lines in this table")
    parser.add_argument("--again", action="store_true", help="only pairs that the table has and that were not fine")
    options = parser.parse_args()
    torch.set_num_threads(1)
    cases = JUDGES[options.judge](options.dtype, options.op)
    if options.again:
        bad = {row[:2] for row in forkpool.read_table(options.out) if row[2] not in ("pass", "skip", "fallback")}
        for case in cases:
            case.dtypes = [d for d in case.dtypes if (case.name, d) in bad]
        cases = [case for case in cases if case.dtypes]
    progress = options.out.with_suffix(".log") if options.out else Path(os.devnull)
    with progress.open("w", encoding="utf-8") as log:
        rows = forkpool.run_all(cases, options.jobs, options.limit, log)
    if options.out:
        forkpool.write_table(options.out, rows)
    else:
        print("".join("\t".join(row) + "\n" for row in sorted(rows)), end="")
    text, clean = forkpool.summary(rows)
    print(text)
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
