"""Cases and the run they are given: the same code for the CPU and for the device."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

SEED = 20261201

Observations = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """One case of an API: a function that returns what is to be compared between the CPU and the device."""

    api: str
    name: str
    function: Callable[[Run], Observations]

    @property
    def id(self) -> str:
        return f"{self.api}::{self.name}"


CASES: dict[str, Case] = {}


def cases_of(api: str) -> Callable[[Callable[[Run], Observations]], Callable[[Run], Observations]]:
    """A decorator that registers functions as cases of the API, under their own names."""

    def register(function: Callable[[Run], Observations]) -> Callable[[Run], Observations]:
        case = Case(api, function.__name__, function)
        CASES[case.id] = case
        return function

    return register


class Skip(Exception):
    """Raised by a case that cannot apply to this release; the text says why."""


@dataclass
class Run:
    """One execution of a case on one device.

    Inputs have the same values on every device: they are drawn on the CPU and moved. What a case claims about itself
    (`claim`, `same`) is evaluated after the proof window is closed, so that reading results back is not counted.
    A case that computes in a lower precision than its results' dtypes sets `precision`.
    """

    device: torch.device
    made: list[torch.Tensor] = field(default_factory=list)
    claims: list[tuple[str, Callable[[], bool]]] = field(default_factory=list)
    precision: torch.dtype | None = None
    _drawn: int = 0

    def draw(self, *shape: int, scale: float = 1.0, grad: bool = False) -> torch.Tensor:
        """A leaf tensor on the device of values drawn from a normal distribution, times scale."""
        self._drawn += 1
        generator = torch.Generator().manual_seed(SEED + self._drawn)
        tensor = (torch.randn(*shape, generator=generator) * scale).to(self.device)
        return self.keep(tensor.requires_grad_(grad))

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        """Records a tensor made on the device; part of the proof."""
        self.made.append(tensor)
        return tensor

    def module(self, build: Callable[[], torch.nn.Module]) -> torch.nn.Module:
        """The module with the same parameters on every device."""
        torch.manual_seed(SEED)
        return build().to(self.device)

    def seed(self) -> None:
        torch.manual_seed(SEED)

    def claim(self, text: str, holds: Callable[[], bool]) -> None:
        """A property that must hold on this device by itself."""
        self.claims.append((text, holds))

    def same(self, text: str, left: torch.Tensor | None, right: torch.Tensor | None) -> None:
        """Claims that two tensors are equal, bit for bit."""

        def equal() -> bool:
            if left is None or right is None:
                return left is right
            return torch.equal(left.detach().cpu(), right.detach().cpu())

        self.claim(text, equal)


def neutral(text: str, limit: int = 400) -> str:
    """The message without what legitimately differs between devices: their names, addresses, error codes' trailers."""
    text = re.sub(r"device\(type='\w+'(, index=\d+)?\)", "DEVICE", text)
    text = re.sub(r"\b(npu|cuda|privateuseone|cpu)(:\d+)?\b", "DEVICE", text)
    text = re.sub(r"0x[0-9a-f]+", "ADDRESS", text)
    return text.split("\n[ERROR]")[0].strip()[:limit]


def raised(function: Callable[[], Any]) -> dict[str, str]:
    """What the call raises, comparable between devices: the type and the neutral message; type "" when nothing."""
    try:
        function()
    except Exception as error:  # noqa: BLE001 - whatever it raises is the observation
        return {"type": f"{type(error).__module__}.{type(error).__qualname__}", "message": neutral(str(error))}
    return {"type": "", "message": ""}


def warned(function: Callable[[], Any]) -> tuple[Any, list[str]]:
    """The call's result and the neutral texts of the warnings it gave, each with its category."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function()
    return result, [f"{w.category.__name__}: {neutral(str(w.message))}" for w in caught]
