"""torch.utils.checkpoint.checkpoint: what goes in and comes out, in both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from concord_harness.case import Observations, Run, cases_of, raised, warned

API = "torch.utils.checkpoint.checkpoint"
case = cases_of(API)

MODES = {"reentrant": True, "non_reentrant": False}


class Counted:
    """A function that counts how often it was entered and how often it ran to its end."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.entered = self.finished = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.entered += 1
        out = self.function(*args, **kwargs)
        self.finished += 1
        return out

    @property
    def counts(self) -> list[int]:
        return [self.entered, self.finished]


def network(run: Run, width: int = 16) -> torch.nn.Module:
    nn = torch.nn
    return run.module(
        lambda: nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width), nn.Tanh())
    )


def gradients(module: torch.nn.Module) -> dict[str, torch.Tensor | None]:
    return {f"grad.{name}": p.grad for name, p in module.named_parameters()}


def _against_plain(run: Run, use_reentrant: bool) -> Observations:
    """Output, input gradient and parameter gradients, equal to those of the same network without checkpoint."""
    plain_net, net = network(run), network(run)
    x = run.draw(8, 16, grad=True)
    plain_x = run.keep(x.detach().clone().requires_grad_())
    plain_out = plain_net(plain_x)
    plain_out.square().sum().backward()
    function = Counted(net)
    out = checkpoint(function, x, use_reentrant=use_reentrant)
    after_forward = function.entered
    out.square().sum().backward()
    run.same("the output equals that without checkpoint", out, plain_out)
    run.same("the input's gradient equals that without checkpoint", x.grad, plain_x.grad)
    for (name, p), q in zip(net.named_parameters(), plain_net.parameters(), strict=True):
        run.same(f"the gradient of {name} equals that without checkpoint", p.grad, q.grad)
    return {
        "out": out,
        "grad.x": x.grad,
        **gradients(net),
        "runs": [after_forward, function.entered],
        "leaf": [x.is_leaf, out.requires_grad],
    }


@case
def reentrant(run: Run) -> Observations:
    return _against_plain(run, True)


@case
def non_reentrant(run: Run) -> Observations:
    return _against_plain(run, False)


@case
def several_inputs_and_outputs(run: Run) -> Observations:
    def function(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return a @ b, (b * c).tanh(), a + 2 * c

    seen: dict[str, Any] = {}
    for mode, use_reentrant in MODES.items():
        a, b, c = (run.draw(6, 6, grad=grad) for grad in (True, True, False))
        outs = checkpoint(function, a, b, c, use_reentrant=use_reentrant)
        (outs[0].sum() + (outs[1] * outs[2]).sum()).backward()
        seen |= {f"{mode}.out{i}": out for i, out in enumerate(outs)}
        seen |= {
            f"{mode}.grad.a": a.grad,
            f"{mode}.grad.b": b.grad,
            f"{mode}.grad.c": c.grad,
            f"{mode}.type": type(outs).__name__,
        }
    return seen


@case
def keyword_arguments(run: Run) -> Observations:
    def function(x: torch.Tensor, *, weight: torch.Tensor, scale: float = 1.0, invert: bool = False) -> torch.Tensor:
        y = (x @ weight).tanh() * scale
        return -y if invert else y

    x, weight = run.draw(4, 8, grad=True), run.draw(8, 8, scale=0.35, grad=True)
    out = checkpoint(function, x, use_reentrant=False, weight=weight, scale=2.5, invert=True)
    out.sum().backward()
    refused = raised(lambda: checkpoint(function, x, use_reentrant=True, weight=weight))
    return {"out": out, "grad.x": x.grad, "grad.weight": weight.grad, "reentrant_refuses": refused}


@case
def non_tensor_arguments(run: Run) -> Observations:
    def function(
        x: torch.Tensor, power: int, name: str, nothing: None, extra: dict[str, torch.Tensor]
    ) -> tuple[Any, ...]:
        return x**power * extra["factor"], name, nothing, power + 1

    seen: dict[str, Any] = {}
    for mode, use_reentrant in MODES.items():
        x, factor = run.draw(5, 4, grad=True), run.draw(4)
        out, *rest = checkpoint(function, x, 3, "name", None, {"factor": factor}, use_reentrant=use_reentrant)
        out.sum().backward()
        seen |= {f"{mode}.out": out, f"{mode}.rest": rest, f"{mode}.grad.x": x.grad}
    return seen


@case
def nested_structures(run: Run) -> Observations:
    """Tensors inside lists and dictionaries take part in autograd only without reentrant autograd."""

    def function(items: dict[str, list[torch.Tensor]]) -> dict[str, torch.Tensor]:
        first, second = items["pair"]
        return {"product": first * second, "sum": first + second}

    a, b = run.draw(3, 3, grad=True), run.draw(3, 3, grad=True)
    out = checkpoint(function, {"pair": [a, b]}, use_reentrant=False)
    (out["product"] * out["sum"]).sum().backward()
    return {"product": out["product"], "sum": out["sum"], "grad.a": a.grad, "grad.b": b.grad}


@case
def nested(run: Run) -> Observations:
    seen: dict[str, Any] = {}
    for mode, use_reentrant in MODES.items():
        weights = [run.draw(8, 8, scale=0.35, grad=True) for _ in range(3)]
        inner = Counted(lambda y, w: (y @ w).tanh())
        middle = Counted(
            lambda y, m=use_reentrant, w=weights, f=inner: checkpoint(f, y @ w[1], w[2], use_reentrant=m).relu()
        )
        outer = Counted(lambda y, m=use_reentrant, w=weights, f=middle: checkpoint(f, y @ w[0], use_reentrant=m) * 2)
        x = run.draw(4, 8, grad=True)
        out = checkpoint(outer, x, use_reentrant=use_reentrant)
        plain = ((x @ weights[0] @ weights[1] @ weights[2]).tanh().relu() * 2).detach()
        out.sum().backward()
        run.same(f"{mode}: the nested output equals the plain one", out, plain)
        seen |= {
            f"{mode}.out": out,
            f"{mode}.grad.x": x.grad,
            f"{mode}.entered": [f.entered for f in (outer, middle, inner)],
        }
        seen |= {f"{mode}.grad.w{i}": w.grad for i, w in enumerate(weights)}
    return seen


@case
def inputs_without_grad(run: Run) -> Observations:
    """Reentrant warns and cuts the graph; non-reentrant still gives the parameters their gradients."""
    seen: dict[str, Any] = {}
    for mode, use_reentrant in MODES.items():
        net, x = network(run), run.draw(4, 16)
        out, warnings = warned(lambda n=net, v=x, m=use_reentrant: checkpoint(n, v, use_reentrant=m))
        if out.requires_grad:
            out.sum().backward()
        run.claim(
            f"{mode}: the output {'requires no' if use_reentrant else 'requires'} gradient",
            lambda o=out, m=use_reentrant: o.requires_grad is not m,
        )
        none_warned = any("None of the inputs have requires_grad=True" in w for w in warnings)
        seen |= {f"{mode}.out": out, f"{mode}.warned": none_warned, f"{mode}.grad.x": x.grad}
        seen |= {f"{mode}.{name}": grad for name, grad in gradients(net).items()}
    return seen


@case
def forward_count(run: Run) -> Observations:
    """Once forward, once more per backward; once only where no gradient is asked for."""
    seen: dict[str, Any] = {}
    for mode, use_reentrant in MODES.items():
        function = Counted(lambda v: (v * v).tanh())
        x, counts = run.draw(6, grad=True), []
        out = checkpoint(function, x, use_reentrant=use_reentrant)
        counts.append(function.entered)
        out.sum().backward(retain_graph=True)
        counts.append(function.entered)
        out.sum().backward()
        counts.append(function.entered)
        with torch.no_grad():
            quiet = checkpoint(function, x, use_reentrant=use_reentrant)
        counts.append(function.entered)
        run.claim(f"{mode}: the function ran 1, 2, 3 and 4 times", lambda c=counts: c == [1, 2, 3, 4])
        seen |= {f"{mode}.counts": counts, f"{mode}.grad.x": x.grad, f"{mode}.quiet": quiet}
    return seen


@case
def use_reentrant_not_passed(run: Run) -> Observations:
    """A warning, and the reentrant mode."""
    x = run.draw(4, 4, grad=True)
    out, warnings = warned(lambda: checkpoint(torch.tanh, x))
    out.sum().backward()
    passed = any("use_reentrant parameter should be passed explicitly" in w for w in warnings)
    run.claim("the missing use_reentrant is warned of", lambda: passed)
    return {"out": out, "grad.x": x.grad, "warned": passed, "node": type(out.grad_fn).__name__}


@case
def wrong_arguments(run: Run) -> Observations:
    x = run.draw(3, 3, grad=True)

    def bad(_: torch.Tensor) -> torch.Tensor:
        raise KeyError("raised inside the function")

    def shapes(v: torch.Tensor) -> torch.Tensor:
        return v @ run.draw(4, 2)

    errors = {
        "reentrant_context_fn": raised(lambda: checkpoint(torch.tanh, x, use_reentrant=True, context_fn=lambda: None)),
        "reentrant_debug": raised(lambda: checkpoint(torch.tanh, x, use_reentrant=True, debug=True)),
        "reentrant_keyword": raised(lambda: checkpoint(torch.tanh, x, use_reentrant=True, other=1)),
        "determinism_check": raised(lambda: checkpoint(torch.tanh, x, use_reentrant=False, determinism_check="x")),
        "not_callable": raised(lambda: checkpoint(None, x, use_reentrant=False)),
        "inside_reentrant": raised(lambda: checkpoint(bad, x, use_reentrant=True)),
        "inside": raised(lambda: checkpoint(bad, x, use_reentrant=False)),
        "shapes": raised(lambda: checkpoint(shapes, x, use_reentrant=False))["type"],
    }
    out = checkpoint(torch.tanh, x, use_reentrant=False)
    return {"errors": errors, "afterwards": out}


@case
def autograd_grad(run: Run) -> Observations:
    """torch.autograd.grad works without reentrant autograd and is refused with it."""
    w = run.draw(5, 5, scale=0.4)
    x = run.draw(3, 5, grad=True)
    out = checkpoint(lambda v: (v @ w).tanh(), x, use_reentrant=False)
    (grad,) = torch.autograd.grad(out.sum(), x)
    refused_out = checkpoint(lambda v: (v @ w).tanh(), x, use_reentrant=True)
    refused = raised(lambda: torch.autograd.grad(refused_out.sum(), x))
    run.claim("reentrant refuses torch.autograd.grad", lambda: refused["type"] == "builtins.RuntimeError")
    return {"out": out, "grad": grad, "refused": refused["type"]}
