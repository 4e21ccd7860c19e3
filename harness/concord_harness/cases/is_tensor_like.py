"""torch.overrides.is_tensor_like: what counts as a tensor when the tensor lives on the device."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import is_tensor_like

from concord_harness.case import Observations, Run, cases_of

case = cases_of("torch.overrides.is_tensor_like")


class Sub(torch.Tensor):
    """A subclass that keeps the default __torch_function__."""


class Plain(torch.Tensor):
    """A subclass that opts out of __torch_function__ handling."""

    __torch_function__ = torch._C._disabled_torch_function_impl


class Duck:
    """Not a tensor, but takes part in the protocol and holds a tensor of the device."""

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> str:
        return f"duck {func.__name__}"


class Holder:
    """Holds a tensor of the device without taking part in the protocol."""

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner


@case
def device_tensor(run: Run) -> Observations:
    x = run.draw(4, 3)
    made = {
        "float": x * 2,
        "zeros": run.keep(torch.zeros(2, 2, device=run.device)),
        "integer": run.keep(torch.arange(5, device=run.device)) + 1,
        "bool": x > 0,
        "half": x.to(torch.float16),
        "zero_dim": x.sum(),
        "no_elements": run.keep(torch.empty(0, 3, device=run.device)),
        "grad": run.draw(3, grad=True) * 1.5,
    }
    return {"answers": {name: is_tensor_like(t) for name, t in made.items()}, **made}


@case
def parameter(run: Run) -> Observations:
    p = torch.nn.Parameter(run.draw(3, 2))
    frozen = torch.nn.Parameter(run.draw(3), requires_grad=False)
    linear = run.module(lambda: torch.nn.Linear(3, 2))
    answers = [is_tensor_like(q) for q in (p, frozen, *linear.parameters())]
    return {
        "answers": answers,
        "module": is_tensor_like(linear),
        "types": [type(q).__name__ for q in (p, frozen, linear.weight)],
        "forward": linear(p.t() + frozen),
    }


@case
def view(run: Run) -> Observations:
    x = run.draw(4, 6)
    views = {
        "slice": x[1:3, ::2],
        "transposed": x.t(),
        "reshaped": x.view(2, 12),
        "expanded": x[:, :1].expand(4, 5),
        "detached": x.detach(),
        "index": x[2],
        "unsqueezed": x.unsqueeze(0),
    }
    answers = {name: is_tensor_like(v) for name, v in views.items()}
    shared = {name: v.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for name, v in views.items()}
    return {"answers": answers, "shared": shared, **{name: v + 1 for name, v in views.items()}}


@case
def subclass(run: Run) -> Observations:
    x = run.draw(3, 3)
    sub, plain = x.as_subclass(Sub), x.as_subclass(Plain)
    total, other = sub + x, plain + 1
    return {
        "answers": [is_tensor_like(t) for t in (sub, plain, total, other)],
        "types": [type(t).__name__ for t in (sub, plain, total, other)],
        "total": total.as_subclass(torch.Tensor),
        "other": other.as_subclass(torch.Tensor),
    }


@case
def duck_type(run: Run) -> Observations:
    x = run.draw(5)
    duck, holder = Duck(x), Holder(x)
    return {
        "duck": is_tensor_like(duck),
        "holder": is_tensor_like(holder),
        "duck_class": is_tensor_like(Duck),
        "holder_class": is_tensor_like(Holder),
        "dispatched": torch.add(duck, x),
        "inner": is_tensor_like(duck.inner),
        "inner_value": duck.inner + holder.inner,
    }


@case
def tensor_lists(run: Run) -> Observations:
    a, b = run.draw(2, 2), run.draw(2, 2)
    containers = {
        "list": [a, b],
        "tuple": (a, b),
        "dict": {"a": a},
        "set": {a},
        "generator": (t for t in (a, b)),
        "parameter_list": torch.nn.ParameterList([torch.nn.Parameter(a)]),
        "chunks": a.chunk(2),
        "named_tuple": torch.sort(a, dim=0),
    }
    return {
        "answers": {name: is_tensor_like(c) for name, c in containers.items()},
        "elements": [
            is_tensor_like(t) for t in (*containers["list"], *containers["chunks"], *containers["parameter_list"])
        ],
        "stacked": torch.stack([a, b]) * 3,
    }


@case
def non_tensors(run: Run) -> Observations:
    x = run.draw(3, 2) * 2
    values = {
        "int": 6,
        "float": 1.5,
        "none": None,
        "string": "tensor",
        "type": torch.Tensor,
        "subclass_type": Sub,
        "size": x.shape,
        "device": x.device,
        "dtype": x.dtype,
        "storage": x.untyped_storage(),
        "module": torch.nn.ReLU(),
        "function": torch.add,
        "method": x.add,
        "object": object(),
    }
    return {"answers": {name: is_tensor_like(v) for name, v in values.items()}, "tensor": is_tensor_like(x), "value": x}
