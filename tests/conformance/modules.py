"""torch's ModuleInfo database: every module on the device as on the CPU, forward, gradients of inputs and
parameters."""

from __future__ import annotations

import copy
import re

import compare
import torch
from forkpool import Case
from torch.nn.modules.lazy import LazyModuleMixin
from torch.testing._internal.common_modules import module_db

KNOWN = compare.read_known("modules")
# Training draws random numbers: shapes and dtypes are compared.
RANDOM = re.compile(r"Dropout|RReLU|FractionalMaxPool")


def on(module: torch.nn.Module, inputs: tuple, device: str) -> list[torch.Tensor | None]:
    torch.manual_seed(0)
    there = copy.deepcopy(module).to(device)
    arguments, keywords = compare.to_device(inputs, device)
    outputs = compare.tensors_of(there(*arguments, **keywords))
    wanted = (arguments, keywords, list(there.parameters()))
    return [*outputs, *compare.differentiate(outputs, wanted), *there.buffers()]


def judge_input(info, sample, dtype: torch.dtype, training: bool, values: bool) -> None:
    torch.manual_seed(1)
    constructor, forward = sample.constructor_input, sample.forward_input
    module = info.module_cls(*constructor.args, **constructor.kwargs).to(dtype).train(training)
    inputs = (tuple(forward.args), dict(forward.kwargs)) if forward else ((), {})
    try:
        if isinstance(module, LazyModuleMixin):
            module(*inputs[0], **inputs[1])  # gives it its parameters
        want = [compare.on_host(t) for t in on(module, inputs, "cpu")]
    except Exception as error:
        raise compare.NothingToCompare from error
    got = compare.on_device(lambda: on(module, inputs, "npu"))
    wide = lambda: on(copy.deepcopy(module).to(compare.WIDER[dtype]), compare.widen(inputs), "cpu")  # noqa: E731
    compare.compare(got, want, dtype, values, wide)


def judge(info, dtype_name: str) -> tuple[str, str]:
    dtype = getattr(torch, dtype_name)
    tally = compare.Tally(info.name, dtype, KNOWN)
    for training in (True, False) if info.train_and_eval_differ else (True,):
        torch.manual_seed(1)
        try:
            samples = info.module_inputs_func(
                info, device="cpu", dtype=dtype, requires_grad=True, training=training
            )
        except Exception as error:
            return "skip", compare.one_line(error)
        values = not (training and RANDOM.search(info.name))
        for i, sample in enumerate(samples):
            failure = tally.sample(lambda s=sample: judge_input(info, s, dtype, training, values))
            if failure:
                mode = "training" if training else "evaluation"
                return "fail", f"{mode}, input {i} of {len(samples)} ({sample.desc}): {failure}"
    return tally.verdict()


def cases(dtypes: list[str], pattern: str) -> list[Case]:
    return [
        Case(info.name, wanted, lambda dtype, info=info: judge(info, dtype))
        for info in module_db
        if (wanted := [d for d in dtypes if getattr(torch, d) in info.dtypes]) and re.search(pattern, info.name)
    ]
