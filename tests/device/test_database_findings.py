"""What torch's operator and module databases found on the device, one small case each, against CPU torch.

Run inside an environment: softnpu run -- python -m pytest tests/device/test_database_findings.py
"""

import math

import pytest
import torch
import torch.nn.functional as F
import torch_npu  # noqa: F401


def make(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def same(fn, *args: torch.Tensor, atol: float = 1e-4) -> None:
    """fn's results and the gradients by its floating arguments, device and CPU."""
    results = []
    for device in ("cpu", "npu"):
        there = [a.to(device).requires_grad_(a.is_floating_point()) for a in args]
        out = fn(*there)
        found = [out]
        if out.requires_grad:
            seed = torch.ones(out.shape, dtype=out.dtype).to(device)
            found += torch.autograd.grad(out, [t for t in there if t.requires_grad], seed, allow_unused=True)
        results.append([None if t is None else t.detach().cpu() for t in found])
    for cpu, npu in zip(*results, strict=True):
        torch.testing.assert_close(npu, cpu, atol=atol, rtol=1e-4)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf])
def test_cdist_gradient(p: float) -> None:
    """The plugin takes the older path's CdistGrad for p up to 2 and infinity."""
    mode = "donot_use_mm_for_euclid_dist"
    same(lambda a, b: torch.cdist(a, b, p=p, compute_mode=mode), make(2, 4, 3), make(2, 5, 3, seed=1))


def test_cdist_gradient_of_a_repeated_batch() -> None:
    mode = "donot_use_mm_for_euclid_dist"
    for batch in ((4,), (0,), (2, 1)):
        same(lambda a, b: torch.cdist(a, b, p=1.5, compute_mode=mode), make(4, 3), make(*batch, 5, 3, seed=1))


@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("window", [None, 6, 10])
def test_stft(window: int | None, normalized: bool, onesided: bool) -> None:
    x = make(3, 50)
    options = {"n_fft": 10, "hop_length": 4, "normalized": normalized, "onesided": onesided, "return_complex": True}
    w = None if window is None else torch.hann_window(window)
    cpu = torch.stft(x, win_length=window, window=w, **options)
    there = None if w is None else w.npu()
    npu = torch.stft(x.npu(), win_length=window, window=there, **options)
    torch.testing.assert_close(npu.cpu(), cpu, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("fn", [torch.addmm, torch.addmv, torch.addbmm, torch.baddbmm], ids=lambda f: f.__name__)
def test_scalar_added_to_a_product(fn) -> None:
    shapes = {"addmm": ((3, 4), (4, 2)), "addmv": ((3, 4), (4,))}.get(fn.__name__, ((2, 3, 4), (2, 4, 2)))
    same(fn, make(), make(*shapes[0], seed=1), make(*shapes[1], seed=2))


def test_index_add_bool() -> None:
    x, source, index = torch.tensor([True, False, False]), torch.tensor([True, True]), torch.tensor([1, 0])
    want = x.clone().index_add_(0, index, source)
    assert torch.equal(x.npu().index_add_(0, index.npu(), source.npu()).cpu(), want)


def test_max_pool2d_without_a_batch() -> None:
    same(lambda x: F.max_pool2d(x, 2), make(3, 6, 6))


def test_multilabel_margin_loss_of_a_number() -> None:
    same(lambda x: F.multilabel_margin_loss(x.detach(), torch.zeros((), dtype=torch.int64, device=x.device)), make())
