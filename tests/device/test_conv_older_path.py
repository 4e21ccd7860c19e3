"""Convolutions through torch_npu against CPU torch, forward and backward, with the release's own choice of path.

Releases up to 2.7.1 allow private formats by default and then send one- and two-dimensional convolutions to the
older operator path (Conv2D, Conv2DTranspose and their gradients); later ones go to aclnnConvolution.

softnpu run -- python -m pytest tests/device/test_conv_older_path.py
"""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_npu")

if not torch.npu.is_available():
    pytest.skip("no device", allow_module_level=True)

TOLERANCE = {torch.float32: (1e-4, 1e-5), torch.bfloat16: (4e-2, 4e-2)}


def compare(layer: torch.nn.Module, x: torch.Tensor, dtype: torch.dtype) -> None:
    layer, x = layer.to(dtype), x.to(dtype)
    results = []
    for net, place in ((layer, "cpu"), (copy.deepcopy(layer).npu(), "npu")):
        inputs = x.detach().to(place).requires_grad_()
        y = net(inputs)
        y.backward(torch.linspace(-1, 1, y.numel()).reshape(y.shape).to(place, dtype))
        everything = [y, inputs.grad, *(p.grad for p in net.parameters())]
        assert all(t.device.type == place and t.dtype == dtype for t in everything)
        results.append([t.detach().cpu().float() for t in everything])
    rtol, atol = TOLERANCE[dtype]
    for host, device in zip(*results, strict=True):
        scale = max(1.0, host.abs().max().item())
        torch.testing.assert_close(device, host, rtol=rtol, atol=atol * scale)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3, "padding": 1},
        {"kernel_size": (3, 2), "stride": (2, 3), "padding": (1, 0), "bias": False},
        {"kernel_size": 3, "dilation": (2, 1), "padding": (0, 2)},
        {"kernel_size": 1, "groups": 2},
        {"kernel_size": 3, "groups": 4, "stride": 2},
    ],
)
def test_conv2d(options: dict, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    compare(torch.nn.Conv2d(4, 8, **options), torch.randn(3, 4, 9, 8), dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3},
        {"kernel_size": (3, 2), "stride": (2, 3), "padding": (1, 0), "output_padding": (1, 2)},
        {"kernel_size": 3, "groups": 2, "dilation": 2, "bias": False},
    ],
)
def test_conv_transpose2d(options: dict, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    compare(torch.nn.ConvTranspose2d(4, 6, **options), torch.randn(2, 4, 5, 6), dtype)


@pytest.mark.parametrize("stride,groups", [(1, 1), (2, 2)])
def test_conv1d(stride: int, groups: int) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Conv1d(4, 6, 3, stride=stride, padding=1, groups=groups)
    compare(layer, torch.randn(2, 4, 11), torch.float32)


def test_input_that_is_a_view() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(4, 5, 3)
    x = torch.randn(7, 9, 2, 6)
    host = layer(x.permute(2, 3, 0, 1)[:, 1:5])
    device = copy.deepcopy(layer).npu()(x.npu().permute(2, 3, 0, 1)[:, 1:5])
    torch.testing.assert_close(device.cpu(), host, rtol=1e-4, atol=1e-5)


def test_half_backward() -> None:
    """Half results come in NC1HWC0 where private formats are allowed."""
    torch.manual_seed(0)
    layer, x = torch.nn.Conv2d(20, 37, 3, padding=1).half(), torch.randn(2, 20, 8, 7).half()
    g = torch.randn(2, 37, 8, 7).half()
    results = []
    for net, place in ((layer, "cpu"), (copy.deepcopy(layer).npu(), "npu")):
        inputs = x.detach().to(place).requires_grad_()
        y = net(inputs)
        y.backward(g.to(place))
        results.append([t.detach().cpu().float() for t in (y, inputs.grad, *(p.grad for p in net.parameters()))])
    for host, device in zip(*results, strict=True):
        torch.testing.assert_close(device, host, rtol=1e-2, atol=1e-2 * max(1.0, host.abs().max().item()))


@pytest.mark.parametrize("acl_format", [3, 4, 29])
def test_private_formats_keep_their_elements(acl_format: int) -> None:
    import torch_npu

    weight = torch.randn(37, 20, 3, 3).half()
    cast = torch_npu.npu_format_cast(weight.npu(), acl_format)
    if torch_npu.get_npu_format(cast) != acl_format:
        pytest.skip("the release does not allow private formats")
    assert torch.equal(cast.cpu(), weight)
    x = torch.randn(2, 20, 8, 7).half()
    if acl_format == 4:
        y = torch.nn.functional.conv2d(x.npu(), cast)
        torch.testing.assert_close(
            y.cpu(), torch.nn.functional.conv2d(x, weight), rtol=1e-2, atol=1e-2
        )


def test_half_activation_after_convolution() -> None:
    torch.manual_seed(0)
    layer, x = torch.nn.Conv2d(3, 20, 3).half(), torch.randn(2, 3, 6, 6).half()
    host, y = layer(x), copy.deepcopy(layer).npu()(x.npu())
    for result, wanted in ((torch.relu(y), torch.relu(host)), (y * y, host * host), (y.float(), host.float())):
        torch.testing.assert_close(result.cpu(), wanted, rtol=1e-2, atol=1e-2)
