"""torch.utils.checkpoint.checkpoint_sequential: every number of segments, both modes, errors as on the CPU."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint_sequential

from concord_harness.case import Observations, Run, cases_of, raised, warned
from concord_harness.cases.checkpoint import MODES, Counted, gradients

case = cases_of("torch.utils.checkpoint.checkpoint_sequential")


def stack(run: Run, dropout: float = 0.0) -> torch.nn.Sequential:
    nn = torch.nn

    def build() -> torch.nn.Sequential:
        return nn.Sequential(
            nn.Linear(12, 24), nn.ReLU(), nn.Dropout(dropout), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 6)
        )

    return run.module(build)


def _segments(run: Run, use_reentrant: bool) -> Observations:
    """From one segment to one per layer, all equal to the plain stack on the same device."""
    plain, plain_x = stack(run), run.draw(5, 12, grad=True)
    plain_out = plain(plain_x)
    plain_out.square().sum().backward()
    seen: dict[str, Any] = {}
    for segments in range(1, len(plain) + 1):
        model = stack(run)
        x = run.keep(plain_x.detach().clone().requires_grad_())
        out = checkpoint_sequential(model, segments, x, use_reentrant=use_reentrant)
        out.square().sum().backward()
        run.same(f"{segments} segment(s): the output equals the plain one", out, plain_out)
        run.same(f"{segments} segment(s): the input's gradient equals the plain one", x.grad, plain_x.grad)
        for (name, p), q in zip(model.named_parameters(), plain.parameters(), strict=True):
            run.same(f"{segments} segment(s): the gradient of {name} equals the plain one", p.grad, q.grad)
        seen |= {f"{segments}.out": out, f"{segments}.grad.x": x.grad}
        seen |= {f"{segments}.{name}": grad for name, grad in gradients(model).items()}
    return seen


@case
def segments_reentrant(run: Run) -> Observations:
    return _segments(run, True)


@case
def segments_non_reentrant(run: Run) -> Observations:
    return _segments(run, False)


def _dropout(run: Run, use_reentrant: bool) -> Observations:
    """With the random state kept, dropout gives the plain stack's output and gradients from the same seed."""
    plain, plain_x = stack(run, 0.5), run.draw(32, 12, grad=True)
    run.seed()
    plain_out = plain(plain_x)
    plain_out.sum().backward()
    run.claim("dropout changes the output", lambda: not torch.equal(plain_out.cpu(), plain.eval()(plain_x).cpu()))
    for segments in (2, 3, 6):
        model = stack(run, 0.5)
        x = run.keep(plain_x.detach().clone().requires_grad_())
        run.seed()
        out = checkpoint_sequential(model, segments, x, use_reentrant=use_reentrant, preserve_rng_state=True)
        out.sum().backward()
        run.same(f"{segments} segments: the output equals the plain one", out, plain_out)
        run.same(f"{segments} segments: the input's gradient equals the plain one", x.grad, plain_x.grad)
        for (name, p), q in zip(model.named_parameters(), plain.parameters(), strict=True):
            run.same(f"{segments} segments: the gradient of {name} equals the plain one", p.grad, q.grad)
    return {"shape": list(plain_out.shape), "dtype": str(plain_out.dtype), "x": plain_x}


@case
def dropout_reentrant(run: Run) -> Observations:
    return _dropout(run, True)


@case
def dropout_non_reentrant(run: Run) -> Observations:
    return _dropout(run, False)


@case
def list_of_functions(run: Run) -> Observations:
    weight = run.draw(12, 12, scale=0.3, grad=True)
    functions = [lambda v: v @ weight, torch.tanh, lambda v: v * 2, torch.nn.functional.relu]
    seen: dict[str, Any] = {}
    for mode, use_reentrant in MODES.items():
        x = run.draw(4, 12, grad=True)
        weight.grad = None
        out = checkpoint_sequential(functions, 2, x, use_reentrant=use_reentrant)
        out.sum().backward()
        seen |= {f"{mode}.out": out, f"{mode}.grad.x": x.grad, f"{mode}.grad.weight": weight.grad}
    return seen


@case
def forward_count(run: Run) -> Observations:
    """Every segment but the last runs again in the backward."""
    seen: dict[str, Any] = {}
    for mode, use_reentrant in MODES.items():
        functions = [Counted(lambda v: (v * v).tanh()) for _ in range(4)]
        x = run.draw(3, 4, grad=True)
        out = checkpoint_sequential(functions, 2, x, use_reentrant=use_reentrant)
        forward = [f.entered for f in functions]
        out.sum().backward()
        total = [f.entered for f in functions]
        run.claim(f"{mode}: the first segment ran twice, the last once", lambda t=total: t == [2, 2, 1, 1])
        seen |= {f"{mode}.forward": forward, f"{mode}.total": total, f"{mode}.out": out, f"{mode}.grad.x": x.grad}
    return seen


@case
def use_reentrant_not_passed(run: Run) -> Observations:
    """The warning, and the reentrant mode."""
    model, x = stack(run), run.draw(4, 12, grad=True)
    out, given = warned(lambda: checkpoint_sequential(model, 2, x))
    out.sum().backward()
    named = any("use_reentrant parameter should be passed explicitly" in text for text in given)
    run.claim("the missing use_reentrant is warned of", lambda: named)
    return {"out": out, "grad.x": x.grad, "warned": named, **gradients(model)}


@case
def input_without_grad(run: Run) -> Observations:
    """Without reentrant autograd every parameter still gets its gradient."""
    model, x = stack(run), run.draw(4, 12)
    out = checkpoint_sequential(model, 3, x, use_reentrant=False)
    out.sum().backward()
    cut, given = warned(lambda: checkpoint_sequential(stack(run), 3, x, use_reentrant=True))
    cut_warned = any("None of the inputs have requires_grad=True" in text for text in given)
    return {"out": out, "grad.x": x.grad, **gradients(model), "reentrant": cut, "reentrant_warned": cut_warned}


@case
def wrong_arguments(run: Run) -> Observations:
    model, x = stack(run), run.draw(4, 12, grad=True)
    with contextlib.ExitStack() as quiet:
        quiet.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        errors = {
            "keyword": raised(lambda: checkpoint_sequential(model, 2, x, use_reentrant=False, other=1)),
            "no_segments": raised(lambda: checkpoint_sequential(model, 0, x, use_reentrant=False)),
            "more_segments_than_layers": raised(lambda: checkpoint_sequential(model, 7, x, use_reentrant=False)),
            "segments_type": raised(lambda: checkpoint_sequential(model, "2", x, use_reentrant=False)),
            "not_a_sequence": raised(lambda: checkpoint_sequential(torch.nn.Linear(2, 2), 1, x, use_reentrant=False)),
            "no_input": raised(lambda: checkpoint_sequential(model, 2, use_reentrant=False)),
            "wrong_width": raised(lambda: checkpoint_sequential(model, 2, run.draw(4, 5), use_reentrant=False))["type"],
        }
    return {"errors": errors, "afterwards": checkpoint_sequential(model, 2, x, use_reentrant=False)}
