"""Resizing, sampling, unfolding and padding of images on the device against CPU torch: values, gradients, dtypes."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from test_matmul_conv import FLOATS, close, make, same

SIZES = {
    1: [(7, 13), (13, 5), (6, 6), (5, 1)],
    2: [((5, 7), (11, 4)), ((9, 8), (3, 16)), ((4, 4), (4, 4))],
    3: [((3, 4, 5), (5, 3, 8))],
}
MODES = [
    (1, "nearest"),
    (2, "nearest"),
    (3, "nearest"),
    (1, "nearest-exact"),
    (2, "nearest-exact"),
    (3, "nearest-exact"),
    (1, "linear"),
    (2, "bilinear"),
    (3, "trilinear"),
    (2, "bicubic"),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("spatial,mode", MODES)
def test_resize(dtype, spatial, mode):
    aligns = [None] if "nearest" in mode else [False, True]
    for (before, after), align in itertools.product(SIZES[spatial], aligns):
        before, after = (before, after) if spatial > 1 else ((before,), (after,))
        x = make(2, 3, *before, dtype=dtype)
        same(lambda t: F.interpolate(t, size=after, mode=mode, align_corners=align), x, scale=4)


@pytest.mark.parametrize("spatial,mode", MODES)
def test_resize_scale_factor(spatial, mode):
    for factor, again in itertools.product([1.7, 0.6, 2.0], [None, True]):
        x = make(1, 2, *(9, 8, 7)[:spatial])
        same(lambda t: F.interpolate(t, scale_factor=factor, mode=mode, recompute_scale_factor=again), x, scale=8)


def test_resize_integers():
    x = torch.arange(2 * 3 * 5 * 4, dtype=torch.uint8).reshape(2, 3, 5, 4)
    assert torch.equal(F.interpolate(x.npu(), size=(7, 9)).cpu(), F.interpolate(x, size=(7, 9)))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align", [False, True])
def test_resize_antialias(mode, align):
    for size in [(3, 4), (20, 5), (9, 30)]:
        x = make(2, 3, 9, 14)
        same(lambda t: F.interpolate(t, size=size, mode=mode, align_corners=align, antialias=True), x, scale=8)


@pytest.mark.parametrize("dtype", [torch.float32])
@pytest.mark.parametrize(
    "mode,padding,align",
    list(itertools.product(["bilinear", "nearest", "bicubic"], ["zeros", "border", "reflection"], [False, True])),
)
def test_grid_sample(dtype, mode, padding, align):
    x = make(2, 3, 5, 6, dtype=dtype)
    grid = (make(2, 4, 7, 2, seed=5) * 1.1).to(dtype)
    same(lambda a, g: F.grid_sample(a, g, mode=mode, padding_mode=padding, align_corners=align), x, grid, scale=10)


@pytest.mark.parametrize(
    "mode,padding,align",
    list(itertools.product(["bilinear", "nearest"], ["zeros", "border", "reflection"], [False, True])),
)
def test_grid_sample_3d(mode, padding, align):
    x, grid = make(2, 3, 4, 5, 6), make(2, 3, 4, 5, 3, seed=5) * 1.1
    same(lambda a, g: F.grid_sample(a, g, mode=mode, padding_mode=padding, align_corners=align), x, grid, scale=10)


@pytest.mark.parametrize("align", [False, True])
def test_affine_grid(align):
    for n, size in [(2, (2, 3, 5, 4)), (3, (2, 3, 4, 5, 6)), (2, (2, 3, 1, 4))]:
        theta = make(2, n, n + 1)
        close(
            F.affine_grid(theta.npu(), size, align_corners=align),
            F.affine_grid(theta, size, align_corners=align),
            scale=4,
        )


@pytest.mark.parametrize("dtype", FLOATS)
def test_unfold_fold(dtype):
    options = {"kernel_size": (3, 2), "dilation": (2, 1), "padding": (1, 2), "stride": (2, 1)}
    same(lambda t: F.unfold(t, **options), make(2, 3, 9, 7, dtype=dtype), scale=4)
    columns = F.unfold(make(2, 3, 9, 7), **options).to(dtype)
    same(lambda t: F.fold(t, (9, 7), **options), columns, scale=4)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_pad(dtype, mode):
    same(lambda t: F.pad(t, (2, 3), mode=mode), make(2, 3, 6, dtype=dtype), scale=4)
    same(lambda t: F.pad(t, (2, 3, 1, 4), mode=mode), make(2, 3, 6, 5, dtype=dtype), scale=4)
    same(lambda t: F.pad(t, (2, 3, 1, 2, 1, 1), mode=mode), make(2, 3, 4, 6, 5, dtype=dtype), scale=4)


def test_pixel_shuffle():
    same(lambda t: F.pixel_shuffle(t, 2), make(2, 8, 3, 5))
    same(lambda t: F.pixel_unshuffle(t, 2), make(2, 3, 4, 6))
