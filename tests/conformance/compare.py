"""Compare what the device computed with what the CPU computed, and say why a sample was not compared."""

from __future__ import annotations

import os
import re
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Before the plugin is imported: what it would send to the CPU raises, by name, and an error belongs to the call that
# made it.
os.environ.setdefault("TORCH_NPU_FALLBACK_CPU_DISABLE", "1")
os.environ.setdefault("TASK_QUEUE_ENABLE", "0")

import torch
import torch_npu  # noqa: F401
from torch.utils import _pytree as pytree

# atol, rtol. f32 and complex64: what torch's own test_ops.py allows between a device and the CPU (test_compare_cpu);
# f16 and bf16: assert_close's relative tolerance with one rounding of the type (2^-10, 2^-7) for values below 1.
TOLERANCE = {
    torch.float32: (1e-3, 1e-3),
    torch.float16: (1e-3, 1e-3),
    torch.bfloat16: (8e-3, 1.6e-2),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1e-3, 1e-3),
    torch.complex128: (1e-7, 1e-7),
}
WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}
REFUSAL = re.compile(
    r"not implemented for DT_|is not supported, expected|DT_DOUBLE|DT_COMPLEX|cannot be larger than 8 dimensions"
    r"|Only contiguous_format or preserve_format|only supported contiguous memory format"
    r"|_npu only supported \w+, but get"
)
FALLBACK = re.compile(r"CPU fallback is disabled|fall ?back to run on the CPU")


@dataclass
class Known:
    """A line of known.tsv: a difference from CPU torch that a public source explains."""

    judge: str
    name: re.Pattern
    message: re.Pattern
    verdict: str  # documented: the device's document says so; plugin: the plugin's own host code does it
    source: str


def read_known(judge: str) -> list[Known]:
    rows = []
    for line in Path(__file__).with_name("known.tsv").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        of, name, message, verdict, source = line.split("\t")
        if of == judge:
            rows.append(Known(of, re.compile(name), re.compile(message), verdict, source))
    return rows


class Refused(Exception):
    """The device, or the plugin for it, says that it does not take the dtype, the rank or the memory format."""


class Fallback(Exception):
    """The plugin itself sends the operator to the CPU."""


class Difference(AssertionError):
    """Results that differ from the CPU's, one text each."""

    def __init__(self, texts: list[str]) -> None:
        super().__init__("; ".join(texts))
        self.texts = texts


class NothingToCompare(Exception):
    """The CPU does not take the sample."""


def move(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """A copy of tensor on device: the whole storage, and the same view of it."""
    plain = tensor.layout == torch.strided and not tensor.is_conj() and not tensor.is_neg()
    if not plain or tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes:
        moved = tensor.detach().to(device, copy=True)
    else:
        storage = tensor.untyped_storage()
        whole = torch.empty(0, dtype=tensor.dtype).set_(storage, 0, (storage.nbytes() // tensor.itemsize,), (1,))
        view = whole.to(device, copy=True).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        moved = view.detach()
    return moved.requires_grad_(tensor.requires_grad)


def to_device(tree: object, device: str) -> object:
    """tree with every tensor copied to device; what shares memory there does not share it here."""

    def leaf(value: object) -> object:
        if isinstance(value, torch.Tensor):
            return move(value, device)
        return torch.device(device) if isinstance(value, torch.device) else value

    return pytree.tree_map(leaf, tree)


def widen(tree: object) -> object:
    """tree with every tensor in the next wider floating type."""

    def move(value: object) -> object:
        if isinstance(value, torch.Tensor) and value.dtype in WIDER:
            return value.detach().to(WIDER[value.dtype]).requires_grad_(value.requires_grad)
        return WIDER.get(value, value) if isinstance(value, torch.dtype) else value

    return pytree.tree_map(move, tree)


def tensors_of(tree: object) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def differentiate(outputs: list[torch.Tensor], inputs: object) -> list[torch.Tensor | None]:
    """Gradients of all outputs, seeded with ones, by every leaf that wants one."""
    leaves = [t for t in tensors_of(inputs) if t.requires_grad]
    roots = [t for t in outputs if t.requires_grad]
    if not leaves or not roots:
        return []
    seeds = [torch.ones(t.shape, dtype=t.dtype).to(t.device) for t in roots]  # a device may lack ones in the type
    return list(torch.autograd.grad(roots, leaves, seeds, allow_unused=True))


def on_host(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return None if tensor is None else tensor.detach().cpu()


def on_device(work: Callable[[], list]) -> list:
    """work()'s tensors on the host. Raises Refused or Fallback instead of what the plugin raises for them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            got = [on_host(t) for t in work()]
            torch.npu.synchronize()
        except Exception as error:
            text = str(error)
            if FALLBACK.search(text):
                raise Fallback(text) from error
            if REFUSAL.search(text):
                raise Refused(text) from error
            raise
    for warning in caught:
        if FALLBACK.search(str(warning.message)):
            raise Fallback(str(warning.message))
    return got


def allowed(b: torch.Tensor, dtype: torch.dtype, own: tuple[float, float] | None) -> tuple[float, float]:
    """atol and rtol for a result b of inputs of a dtype; own: what the database says."""
    if b.dtype not in TOLERANCE:
        return 0, 0
    general = TOLERANCE.get(dtype, TOLERANCE[b.dtype])
    return general if own is None else (max(own[0], general[0]), max(own[1], general[1]))


def close(a: torch.Tensor, b: torch.Tensor, tolerance: tuple[float, float]) -> str | None:
    """None, or how a differs from b."""
    atol, rtol = tolerance
    a, b = (t if t.layout == torch.strided else t.to_dense() for t in (a, b))
    try:
        torch.testing.assert_close(a, b, atol=atol, rtol=rtol, equal_nan=True, check_stride=False)
    except AssertionError as error:
        return " ".join(str(error).split())
    return None


def compare(
    got: list,
    want: list,
    dtype: torch.dtype,
    values: bool,
    wide: Callable[[], list] | None = None,
    own: tuple[float, float] | None = None,
) -> None:
    """got as want in number, shape, dtype, and where `values` in value. A floating result may instead agree with the
    CPU's result in the wider type (wide): then the CPU is the one that is off. Every result that differs is named."""
    if len(got) != len(want):
        raise AssertionError(f"{len(got)} results, CPU has {len(want)}")
    wider: list | None = None
    differences = []
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        difference = unlike(a, b)
        if values and not difference and b is not None:
            difference = close(a, b, allowed(b, dtype, own))
        if difference and wide and values and b is not None and b.dtype in WIDER and not unlike(a, b):
            wider = wide() if wider is None else wider
            if i < len(wider) and wider[i] is not None and wider[i].shape == b.shape:
                near = near_one(a, b, wider[i].to(b.dtype), allowed(b, dtype, own)) or no_worse(a, b, wider[i])
                difference = None if near else difference
        if difference:
            differences.append(f"result {i}: {difference}")
    if differences:
        raise Difference(differences)


def unlike(a: torch.Tensor | None, b: torch.Tensor | None) -> str | None:
    """What tells a and b apart besides their values."""
    if a is None or b is None:
        return None if a is b else f"None on {'the device' if a is None else 'the CPU'} only"
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype} {tuple(a.shape)}, CPU has {b.dtype} {tuple(b.shape)}"
    return None


def no_worse(a: torch.Tensor, b: torch.Tensor, exact: torch.Tensor) -> bool:
    """16-bit results of several rounded steps: a is no further from the exact values than twice what b is."""
    if b.dtype not in (torch.float16, torch.bfloat16) or a.layout != torch.strided or not a.numel():
        return False
    ours, theirs = ((t.double() - exact.double()).abs().max() for t in (a, b))
    return bool(ours <= 2 * theirs)


def near_one(a: torch.Tensor, b: torch.Tensor, exact: torch.Tensor, tolerance: tuple[float, float]) -> bool:
    """Every element of a is near the same element of b or of exact."""
    a, b, exact = (t if t.layout == torch.strided else t.to_dense() for t in (a, b, exact))
    atol, rtol = tolerance
    near = torch.isclose(a, b, rtol, atol, equal_nan=True) | torch.isclose(a, exact, rtol, atol, equal_nan=True)
    return bool(near.all())


def one_line(error: BaseException) -> str:
    """The error's kind and text; of a device error the part that the device wrote."""
    text = " ".join(str(error).split())
    head, found, device = text.partition("EZ9999: ")
    if found:
        device = re.split(r" (?:\[PID|TraceBack|Exception raised from)", device)[0]
        return f"{type(error).__name__}: {device[:240]} (in {head.split(':')[0]})"
    return f"{type(error).__name__}: {text[:300]}"


class Tally:
    """The verdict of one pair from those of its samples: fail if one fails, else pass if one passes, else what the
    others say."""

    def __init__(self, name: str, dtype: torch.dtype, known: list[Known]) -> None:
        self.dtype = str(dtype)[6:]
        self.known = [k for k in known if k.name.fullmatch(name)]
        self.passed = 0
        self.other: dict[str, str] = {}
        self.counts: dict[str, int] = {}

    def explain(self, error: Exception) -> Known | None:
        """The known difference that explains all of the error."""
        texts = error.texts if isinstance(error, Difference) else [one_line(error)]
        rows = [next((k for k in self.known if k.message.search(f"[{self.dtype}] {text}")), None) for text in texts]
        return rows[0] if all(rows) else None

    def set_aside(self, verdict: str, detail: str) -> None:
        self.other.setdefault(verdict, detail)
        self.counts[verdict] = self.counts.get(verdict, 0) + 1

    def sample(self, judge: Callable[[], None]) -> str | None:
        """Why the sample fails, or None to go on."""
        try:
            judge()
            self.passed += 1
        except NothingToCompare:
            pass
        except (Refused, Fallback) as error:
            self.set_aside(type(error).__name__.lower(), one_line(error))
        except Exception as error:
            known = self.explain(error)
            if not known:
                if os.environ.get("CONFORMANCE_SHOW"):
                    traceback.print_exc()
                return one_line(error)
            self.set_aside(known.verdict, f"{known.source}: {one_line(error)}")
        return None

    def verdict(self) -> tuple[str, str]:
        if self.passed:
            rest = "".join(f", {n} {verdict}" for verdict, n in self.counts.items())
            return "pass", f"{self.passed} samples{rest}"
        for verdict, detail in self.other.items():
            return verdict, detail
        return "skip", "no sample that the CPU takes"
