"""The comparison of what a case observed on the CPU and on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class Comparison:
    """Collects the differences by name; empty means that the device did what the CPU did."""

    def __init__(self, device: torch.device, tolerances: Mapping[str, Sequence[float]]) -> None:
        """tolerances: [relative, absolute] by dtype name; a dtype that is not there must be equal."""
        self.device = device
        self.tolerances = tolerances
        self.precision: torch.dtype | None = None
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

    def _tolerance(self, expected: torch.Tensor) -> tuple[float, float]:
        """What was computed in a lower precision than its dtype is off by that precision of its largest element."""
        relative, absolute = self.tolerances.get(dtype_name(expected.dtype), (0.0, 0.0))
        if self.precision is not None and expected.is_floating_point() and expected.numel():
            relative = max(relative, self.tolerances.get(dtype_name(self.precision), (0.0, 0.0))[0])
            absolute = max(absolute, 2 * relative * float(expected.abs().max()))
        return relative, absolute

    def _numbers(self, expected: torch.Tensor, got: torch.Tensor) -> str:
        relative, absolute = self._tolerance(expected)
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
