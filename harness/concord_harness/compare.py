"""The comparison of what a case observed on the CPU and on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

# Relative and absolute tolerance by dtype; what is not listed must be equal. A campaign may override them.
TOLERANCES: dict[str, tuple[float, float]] = {
    "float64": (1e-7, 1e-7),
    "float32": (1e-4, 1e-5),
    "float16": (1e-2, 1e-3),
    "bfloat16": (3e-2, 1e-2),
    "complex64": (1e-4, 1e-5),
}


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class Comparison:
    """Collects the differences by name; empty means that the device did what the CPU did."""

    def __init__(self, device: torch.device, tolerances: Mapping[str, Sequence[float]] | None = None) -> None:
        self.device = device
        self.tolerances = {**TOLERANCES, **{k: (v[0], v[1]) for k, v in (tolerances or {}).items()}}
        self.differences: list[str] = []
        self.compared = 0
        self.on_device = 0
        self.elsewhere: list[str] = []

    def observe(self, cpu: Mapping[str, Any], device: Mapping[str, Any]) -> None:
        for name in cpu.keys() - device.keys():
            self.differences.append(f"{name}: missing on the device")
        for name in device.keys() - cpu.keys():
            self.differences.append(f"{name}: missing on the CPU")
        for name in cpu:
            if name in device:
                self._value(name, cpu[name], device[name])

    def _value(self, name: str, expected: Any, got: Any) -> None:
        self.compared += 1
        if isinstance(expected, torch.Tensor) and isinstance(got, torch.Tensor):
            self._tensor(name, expected, got)
        elif isinstance(expected, torch.Tensor) or isinstance(got, torch.Tensor) or expected != got:
            self.differences.append(f"{name}: CPU {_short(expected)}, device {_short(got)}")

    def _tensor(self, name: str, expected: torch.Tensor, got: torch.Tensor) -> None:
        if got.device.type == self.device.type:
            self.on_device += 1
        else:
            self.elsewhere.append(f"{name} is on {got.device}, not on {self.device}")
        for what in ("dtype", "shape", "requires_grad"):
            left, right = getattr(expected, what), getattr(got, what)
            if left != right:
                self.differences.append(f"{name}: {what} {left} on the CPU, {right} on the device")
                return
        difference = self._numbers(expected.detach(), got.detach().cpu())
        if difference:
            self.differences.append(f"{name}: {difference}")

    def _numbers(self, expected: torch.Tensor, got: torch.Tensor) -> str:
        relative, absolute = self.tolerances.get(dtype_name(expected.dtype), (0.0, 0.0))
        if not (expected.is_floating_point() or expected.is_complex()):
            bad = expected != got
        else:
            wide = torch.complex128 if expected.is_complex() else torch.float64
            expected, got = expected.to(wide), got.to(wide)
            bad = ~torch.isclose(got, expected, rtol=relative, atol=absolute, equal_nan=True)
        count = int(bad.sum())
        if not count:
            return ""
        where = tuple(bad.nonzero()[0].tolist())
        return (
            f"{count} of {bad.numel()} elements differ beyond rtol {relative:g}, atol {absolute:g}; "
            f"first at {list(where)}: CPU {expected[where].item():.9g}, device {got[where].item():.9g}"
        )


def _short(value: Any) -> str:
    text = f"tensor {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
    return text if len(text) <= 200 else text[:197] + "..."
