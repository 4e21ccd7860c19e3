"""torch's optimizer database: a small model's parameters after some steps on the device as on the CPU."""

from __future__ import annotations

import copy
import re

import compare
import torch
from forkpool import Case
from torch.testing._internal.common_optimizers import optim_db

KNOWN = compare.read_known("optimizers")
STEPS = 6
FLOATS = ("float32", "float16", "bfloat16")


def train(info, keywords: dict, dtype: torch.dtype, device: str) -> list[torch.Tensor]:
    """Parameters and state after STEPS steps from the same start and with the same gradients."""
    g = torch.Generator().manual_seed(3)
    shapes = [(5, 4), (7,), (3, 1, 2), ()]
    values = [torch.randn(s, generator=g).to(dtype) for s in shapes]
    gradients = [[torch.randn(s, generator=g).to(dtype) for s in shapes] for _ in range(STEPS)]
    sparse = info.only_supports_sparse_grads
    if sparse or info.optim_cls is torch.optim.Muon:
        values, gradients = values[:1], [step[:1] for step in gradients]
    parameters = [v.to(device).requires_grad_() for v in values]
    optimizer = info.optim_cls(parameters, **copy.deepcopy(compare.to_device(keywords, device)))
    for step in gradients:
        for p, gradient in zip(parameters, step, strict=True):
            there = gradient.to(device)
            p.grad = there.to_sparse() if sparse else there
        if info.step_requires_closure:
            optimizer.step(lambda: sum((p * p).sum() for p in parameters).detach())
        else:
            optimizer.step()
    state = [v for p in parameters for _, v in sorted(optimizer.state[p].items()) if isinstance(v, torch.Tensor)]
    return [*parameters, *state]


def configurations(info) -> list[tuple[str, dict]]:
    """Every configuration of the database; with each implementation that the optimizer has on a device."""
    found = []
    for given in info.optim_inputs_func("cpu"):
        ways = [{}] + [{way: True} for way in ("foreach", "fused") if way in info.supported_impls]
        found += [(f"{given.desc} {''.join(way)}".strip(), {**given.kwargs, **way}) for way in ways]
    return found


def judge(info, dtype_name: str) -> tuple[str, str]:
    dtype = getattr(torch, dtype_name)
    tally = compare.Tally(info.optim_cls.__name__, dtype, KNOWN)

    def one(keywords: dict) -> None:
        try:
            want = [compare.on_host(t) for t in train(info, keywords, dtype, "cpu")]
        except Exception as error:
            raise compare.NothingToCompare from error
        got = compare.on_device(lambda: train(info, keywords, dtype, "npu"))
        compare.compare(got, want, dtype, True)

    for what, keywords in configurations(info):
        failure = tally.sample(lambda keywords=keywords: one(keywords))
        if failure:
            return "fail", f"{what}: {failure}"
    return tally.verdict()


def cases(dtypes: list[str], pattern: str) -> list[Case]:
    return [
        Case(info.optim_cls.__name__, wanted, lambda dtype, info=info: judge(info, dtype))
        for info in optim_db
        if (wanted := [d for d in dtypes if d in FLOATS]) and re.search(pattern, info.optim_cls.__name__)
    ]
