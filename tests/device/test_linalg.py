"""Factorisations and solvers on the device against CPU torch."""

import itertools

import pytest
import torch
from test_matmul_conv import close, make


def on_npu(fn, *tensors):
    return fn(*[t.npu() for t in tensors])


@pytest.mark.parametrize("upper,left,unit", list(itertools.product([False, True], repeat=3)))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
def test_solve_triangular(dtype, upper, left, unit):
    a = make(2, 5, 5).to(dtype) + 3 * torch.eye(5, dtype=dtype)
    b = make(2, 5, 3).to(dtype) if left else make(2, 3, 5).to(dtype)
    want = torch.linalg.solve_triangular(a.triu() if upper else a.tril(), b, upper=upper, left=left, unitriangular=unit)
    got = torch.linalg.solve_triangular(a.npu(), b.npu(), upper=upper, left=left, unitriangular=unit)
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (3, 6, 6), (2, 2, 5, 5), (0, 3, 3)])
def test_inverse(shape):
    a = make(*shape) + 4 * torch.eye(shape[-1])
    close(on_npu(torch.inverse, a), torch.inverse(a), scale=10)


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(upper):
    a = make(3, 6, 6)
    spd = a @ a.mT + 6 * torch.eye(6)
    close(torch.linalg.cholesky(spd.npu(), upper=upper), torch.linalg.cholesky(spd, upper=upper), scale=10)


@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (2, 70, 66), (2, 0, 3)])
def test_qr(mode, shape):
    a = make(*shape)
    want_q, want_r = torch.linalg.qr(a, mode=mode)
    q, r = torch.linalg.qr(a.npu(), mode=mode)
    close(r, want_r, scale=40)
    if mode != "r":
        close(q, want_q, scale=40)


@pytest.mark.parametrize("shape", [(4, 4), (3, 5, 5), (2, 2, 1, 1)])
def test_slogdet(shape):
    a = make(*shape)
    for got, want in zip(torch.slogdet(a.npu()), torch.slogdet(a), strict=True):
        close(got, want, scale=20)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4), (60, 70)])
def test_svd(full, shape):
    a = make(*shape)
    u, s, vh = torch.linalg.svd(a.npu(), full_matrices=full)
    wu, ws, wvh = torch.linalg.svd(a, full_matrices=full)
    assert u.shape == wu.shape and vh.shape == wvh.shape
    close(s, ws, scale=10)
    u, s, vh, k = u.cpu(), s.cpu(), vh.cpu(), min(shape[-2:])
    torch.testing.assert_close(u[..., :k] @ torch.diag_embed(s) @ vh[..., :k, :], a, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(
        u.mT @ u, torch.eye(u.shape[-1]).expand(u.mT.shape[:-2] + (u.shape[-1],) * 2), rtol=1e-4, atol=1e-4
    )
    torch.testing.assert_close(torch.linalg.svdvals(a.npu()).cpu(), ws, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.int64])
def test_cross(dtype):
    a, b = (make(4, 3, 5, seed=i).mul(8).to(dtype) for i in (0, 1))
    torch.testing.assert_close(
        torch.linalg.cross(a.npu(), b.npu(), dim=1).cpu(),
        torch.linalg.cross(a, b, dim=1),
        rtol=3e-3,
        atol=6e-2 if dtype == torch.float16 else 1e-4,
    )
    a, b = make(1, 3).to(dtype), make(4, 3).to(dtype)
    torch.testing.assert_close(
        torch.linalg.cross(a.npu(), b.npu()).cpu(), torch.linalg.cross(a, b), rtol=3e-3, atol=1e-2
    )
