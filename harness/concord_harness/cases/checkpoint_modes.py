"""torch.utils.checkpoint.checkpoint: autocast, context functions, early stop, determinism checks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    create_selective_checkpoint_contexts,
    set_checkpoint_early_stop,
)

from concord_harness.case import Observations, Run, cases_of, neutral, raised
from concord_harness.cases.checkpoint import API, MODES, Counted, gradients, network

case = cases_of(API)


def _autocast(run: Run, dtype: torch.dtype) -> Observations:
    """The recomputation runs under the autocast state of the forward, though the backward is outside of it."""
    run.precision = dtype
    seen: dict[str, Any] = {}
    for mode, use_reentrant in MODES.items():
        net, inside = network(run), []

        def function(v: torch.Tensor, n: Any = net, log: list[Any] = inside) -> torch.Tensor:
            hidden = n[1](n[0](v))
            log.append(str(hidden.dtype))
            return n[2](hidden)

        x = run.draw(8, 16, grad=True)
        with torch.autocast(device_type=run.device.type, dtype=dtype):
            out = checkpoint(function, x, use_reentrant=use_reentrant)
        out.float().sum().backward()
        run.claim(
            f"{mode}: forward and recomputation both computed in {dtype}",
            lambda log=inside: log == [str(dtype), str(dtype)],
        )
        seen |= {f"{mode}.out": out, f"{mode}.grad.x": x.grad, f"{mode}.inside": inside}
        seen |= {f"{mode}.{name}": grad for name, grad in gradients(net).items() if grad is not None}
    return seen


@case
def autocast_float16(run: Run) -> Observations:
    return _autocast(run, torch.float16)


@case
def autocast_bfloat16(run: Run) -> Observations:
    return _autocast(run, torch.bfloat16)


@case
def context_fn(run: Run) -> Observations:
    """The first context surrounds the forward, the second the recomputation, each once."""
    events: list[str] = []

    @contextlib.contextmanager
    def logged(name: str) -> Iterator[None]:
        events.append(f"enter {name}")
        try:
            yield
        finally:
            events.append(f"leave {name}")

    def function(v: torch.Tensor) -> torch.Tensor:
        events.append("run")
        return (v * v).tanh()

    x = run.draw(5, 5, grad=True)
    out = checkpoint(function, x, use_reentrant=False, context_fn=lambda: (logged("forward"), logged("recompute")))
    out.sum().backward()
    expected = [step for name in ("forward", "recompute") for step in (f"enter {name}", "run", f"leave {name}")]
    run.claim("the contexts surround forward and recomputation", lambda: events == expected)
    refused = raised(lambda: checkpoint(function, x, use_reentrant=True, context_fn=lambda: (logged("a"), logged("b"))))
    return {"out": out, "grad.x": x.grad, "events": events[:6], "reentrant_refuses": refused}


@case
def context_fn_selective(run: Run) -> Observations:
    """A selective context keeps the outputs of matrix products and recomputes the rest."""
    w, x = run.draw(8, 8, scale=0.35, grad=True), run.draw(4, 8, grad=True)
    plain_w, plain_x = (run.keep(t.detach().clone().requires_grad_()) for t in (w, x))

    def function(v: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (v @ weight).tanh() @ weight

    out = checkpoint(
        function,
        x,
        w,
        use_reentrant=False,
        context_fn=lambda: create_selective_checkpoint_contexts([torch.ops.aten.mm.default]),
    )
    out.sum().backward()
    function(plain_x, plain_w).sum().backward()
    run.same("the input's gradient equals that without checkpoint", x.grad, plain_x.grad)
    run.same("the weight's gradient equals that without checkpoint", w.grad, plain_w.grad)
    return {"out": out, "grad.x": x.grad, "grad.w": w.grad}


def _early_stop(run: Run, enabled: bool) -> Observations:
    function = Counted(lambda v: (v * v).tanh() + 1)
    x = run.draw(6, 6, grad=True)
    with set_checkpoint_early_stop(enabled):
        out = checkpoint(function, x, use_reentrant=False)
    out.sum().backward()
    finished = 1 if enabled else 2
    run.claim(f"entered twice, finished {finished} time(s)", lambda: function.counts == [2, finished])
    return {"out": out, "grad.x": x.grad, "counts": function.counts}


@case
def early_stop_on(run: Run) -> Observations:
    return _early_stop(run, True)


@case
def early_stop_off(run: Run) -> Observations:
    return _early_stop(run, False)


def _changing(run: Run, steps: list[Any], **options: Any) -> dict[str, str]:
    """What the backward raises when the n-th execution of the function is steps[n]."""
    pending = iter(steps)
    x = run.draw(4, 4, grad=True)
    out = checkpoint(lambda v: next(pending)(v), x, use_reentrant=False, **options)
    return raised(lambda: out.sum().backward())


@case
def determinism_check_raises(run: Run) -> Observations:
    """A recomputation that saves tensors of another number, shape or dtype raises CheckpointError."""
    errors = {
        "number": _changing(run, [lambda v: (v * v).tanh(), lambda v: v + 0]),
        "shape": _changing(run, [lambda v: (v * v).tanh(), lambda v: (v[:2] * v[:2]).tanh()]),
        "dtype": _changing(run, [lambda v: (v * v).tanh(), lambda v: (v.half() * v.half()).tanh()]),
    }
    expected = f"{CheckpointError.__module__}.{CheckpointError.__qualname__}"
    for name, error in errors.items():
        run.claim(f"a changed {name} raises CheckpointError", lambda e=error: e["type"] == expected)
    x = run.draw(3, 3)
    return {"types": {n: e["type"] for n, e in errors.items()}, "first_lines": _first_lines(errors), "value": x * 2}


def _first_lines(errors: dict[str, dict[str, str]]) -> dict[str, str]:
    return {name: neutral(error["message"].split("\n")[0]) for name, error in errors.items()}


@case
def determinism_check_none(run: Run) -> Observations:
    """With the check off, a recomputation of another value is taken as it is."""
    x = run.draw(4, 4, grad=True)
    factors = iter((2.0, 3.0))
    out = checkpoint(lambda v: (v * next(factors)).square(), x, use_reentrant=False, determinism_check="none")
    out.sum().backward()
    quiet = _changing(run, [lambda v: (v * v).tanh(), lambda v: (v * v).tanh().relu()], determinism_check="none")
    return {"out": out, "grad.x": x.grad, "longer_recomputation": quiet}
