"""torch.utils.checkpoint.checkpoint: dropout and the random state, by properties: streams differ by device."""

from __future__ import annotations

import torch
from torch.utils.checkpoint import checkpoint

from concord_harness.case import Observations, Run, cases_of
from concord_harness.cases.checkpoint import API

case = cases_of(API)

ELEMENTS = 4096


class Dropped:
    """Dropout times weight; remembers the mask of every execution."""

    def __init__(self, run: Run) -> None:
        self.weight = run.keep(torch.ones(ELEMENTS, device=run.device).requires_grad_())
        self.masks: list[torch.Tensor] = []

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.dropout(x, 0.5, training=True)
        self.masks.append(y.detach() != 0)
        return y * self.weight


def _dropout(run: Run, use_reentrant: bool, keep: bool) -> Observations:
    """The recomputation's mask, and so the gradient's zero pattern, is the forward's exactly if the state is kept."""
    run.seed()
    function = Dropped(run)
    x = run.keep(torch.full((ELEMENTS,), 1.5, device=run.device).requires_grad_())
    out = checkpoint(function, x, use_reentrant=use_reentrant, preserve_rng_state=keep)
    out.sum().backward()
    run.claim("the function ran twice", lambda: len(function.masks) == 2)
    first, second = function.masks[0], function.masks[-1]
    relation = "equals" if keep else "differs from"
    run.claim(f"the recomputed mask {relation} the first", lambda: torch.equal(first.cpu(), second.cpu()) is keep)
    run.same("the output is zero where the first mask is", out.detach() != 0, first)
    run.same("the input's gradient is zero where the recomputed mask is", x.grad != 0, second)
    run.same("the weight's gradient is zero where the recomputed mask is", function.weight.grad != 0, second)
    run.claim("about half of the elements are dropped", lambda: 0.45 < first.float().mean().item() < 0.55)
    run.claim("what is kept is doubled", lambda: set(out.detach().cpu().unique().tolist()) == {0.0, 3.0})
    return {
        "runs": len(function.masks),
        "shape": list(out.shape),
        "dtype": str(out.dtype),
        "x": x,
        "weight": function.weight,
    }


@case
def dropout_rng_kept_reentrant(run: Run) -> Observations:
    return _dropout(run, True, True)


@case
def dropout_rng_kept_non_reentrant(run: Run) -> Observations:
    return _dropout(run, False, True)


@case
def dropout_rng_not_kept_reentrant(run: Run) -> Observations:
    return _dropout(run, True, False)


@case
def dropout_rng_not_kept_non_reentrant(run: Run) -> Observations:
    return _dropout(run, False, False)


@case
def rng_state_after_backward(run: Run) -> Observations:
    """The recomputation leaves the device's random stream where the forward left it."""
    drawn = {}
    for name, use_reentrant in (("plain", None), ("reentrant", True), ("non_reentrant", False)):
        run.seed()
        function = Dropped(run)
        x = run.keep(torch.ones(ELEMENTS, device=run.device).requires_grad_())
        out = function(x) if use_reentrant is None else checkpoint(function, x, use_reentrant=use_reentrant)
        out.sum().backward()
        drawn[name] = run.keep(torch.rand(64, device=run.device))
    run.same("the next numbers after a reentrant backward are the plain ones", drawn["reentrant"], drawn["plain"])
    run.same(
        "the next numbers after a non-reentrant backward are the plain ones", drawn["non_reentrant"], drawn["plain"]
    )
    return {"shape": list(drawn["plain"].shape), "dtype": str(drawn["plain"].dtype)}
