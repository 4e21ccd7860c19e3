"""Matrix products, convolutions, pools and attention on the device against CPU torch: values, gradients, layouts."""

import itertools

import pytest
import torch
import torch.nn.functional as F
import torch_npu  # noqa: F401

FLOATS = [torch.float32, torch.float16, torch.bfloat16]
TOL = {torch.float32: (1e-5, 2e-5), torch.float16: (2e-3, 2e-3), torch.bfloat16: (1.6e-2, 1.6e-2)}


def make(*shape, dtype=torch.float32, seed=0):
    g = torch.Generator().manual_seed(seed + sum(s * (i + 3) for i, s in enumerate(shape)))
    return torch.randn(*shape, generator=g).to(dtype)


def close(device, cpu, dtype=None, scale=1.0):
    """The device's result against the CPU's, which is computed in float32 (or better)."""
    assert device.device.type == "npu"
    got = device.cpu()
    assert got.shape == cpu.shape
    rtol, atol = TOL.get(dtype or got.dtype, (1e-9, 1e-9))
    torch.testing.assert_close(got.to(cpu.dtype), cpu, rtol=rtol * scale, atol=atol * scale, equal_nan=True)


def same(fn, *inputs, grad=True, scale=1.0, dtype=None):
    """fn's value and the gradients of its inputs, on both devices. The CPU computes in float32."""
    dtype = dtype or next(t.dtype for t in inputs if t.is_floating_point())
    cpu = [t.float().clone().requires_grad_(grad) if t.dtype in FLOATS else t for t in inputs]
    npu = [t.npu().detach().requires_grad_(grad) if t.dtype in FLOATS else t.npu() for t in inputs]
    want, got = fn(*cpu), fn(*npu)
    assert got.dtype == dtype
    close(got, want.detach(), dtype, scale)
    if grad:
        seed = make(*want.shape, seed=7) if want.dim() else torch.tensor(0.5)
        want.backward(seed)
        got.backward(seed.to(dtype).npu())
        for c, n in zip(cpu, npu, strict=True):
            if c.requires_grad:
                # Gradients sum over many terms: allow for their size.
                close(n.grad, c.grad, dtype, scale * max(1.0, float(c.grad.abs().max()) if c.grad.numel() else 1.0))


# ---- matrix products


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "m,k,n", [(1, 1, 1), (3, 5, 7), (64, 32, 16), (1, 300, 9), (130, 257, 65), (5, 1, 4), (200, 9000, 3)]
)
def test_mm(dtype, m, k, n):
    same(lambda a, b: a @ b, make(m, k, dtype=dtype), make(k, n, dtype=dtype), scale=max(1, k / 100))


@pytest.mark.parametrize("ta,tb,tc", list(itertools.product([False, True], repeat=3)))
def test_mm_transposed_views(ta, tb, tc):
    a = make(70, 40) if not ta else make(40, 70).t()
    b = make(40, 90) if not tb else make(90, 40).t()
    out = torch.empty(70, 90).npu() if not tc else torch.empty(90, 70).npu().t()
    na = a.npu() if not ta else a.t().contiguous().npu().t()
    nb = b.npu() if not tb else b.t().contiguous().npu().t()
    torch.mm(na, nb, out=out)
    close(out, a @ b)


def test_mm_strided_views():
    a, b = make(30, 80), make(40, 64)
    close(a.npu()[::2, ::2] @ b.npu()[:, 3:20], a[::2, ::2] @ b[:, 3:20])
    close(a.npu()[:, 10:50] @ b.npu(), a[:, 10:50] @ b)
    e, ne = make(1, 40).expand(8, 40), make(1, 40).npu().expand(8, 40)
    close(ne @ b.npu(), e @ b)


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_mm_empty(shape):
    m, k, n = shape
    a, b = make(m, k), make(k, n)
    close(a.npu() @ b.npu(), a @ b)
    c = make(m, n)
    close(torch.addmm(c.npu(), a.npu(), b.npu(), beta=0.5), torch.addmm(c, a, b, beta=0.5))


@pytest.mark.parametrize("dtype", FLOATS)
def test_addmm(dtype):
    for bias in [make(9, dtype=dtype), make(1, dtype=dtype), make(6, 9, dtype=dtype), make(6, 1, dtype=dtype)]:
        a, b = make(6, 20, dtype=dtype), make(20, 9, dtype=dtype)
        want = torch.addmm(bias.float(), a.float(), b.float(), beta=0.5, alpha=2)
        close(torch.addmm(bias.npu(), a.npu(), b.npu(), beta=0.5, alpha=2), want, dtype, 10)
    c = make(6, 9, dtype=dtype)
    n = c.npu()
    n.addmm_(make(6, 20, dtype=dtype).npu(), make(20, 9, dtype=dtype).npu(), beta=0.25)
    close(
        n,
        torch.addmm(c.float(), make(6, 20, dtype=dtype).float(), make(20, 9, dtype=dtype).float(), beta=0.25),
        dtype,
        10,
    )


def test_beta_zero_ignores_nan():
    c = torch.full((3, 4), float("nan"))
    a, b = make(3, 5), make(5, 4)
    close(torch.addmm(c.npu(), a.npu(), b.npu(), beta=0), a @ b)


def test_in_place_and_overlap():
    a = make(32, 32)
    n = a.npu()
    torch.mm(n, n, out=n)
    close(n, a @ a, scale=4)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "shapes", [((4, 5, 6), (4, 6, 3)), ((1, 5, 6), (1, 6, 3)), ((70, 8, 8), (70, 8, 8)), ((2, 200, 300), (2, 300, 100))]
)
def test_bmm(dtype, shapes):
    same(torch.bmm, make(*shapes[0], dtype=dtype), make(*shapes[1], dtype=dtype), scale=4)
    same(
        torch.baddbmm,
        make(shapes[0][1], shapes[1][2], dtype=dtype),
        make(*shapes[0], dtype=dtype),
        make(*shapes[1], dtype=dtype),
        scale=4,
    )


def test_bmm_transposed():
    a, b = make(5, 7, 9), make(5, 11, 9)
    close(torch.bmm(a.npu(), b.npu().transpose(1, 2)), torch.bmm(a, b.transpose(1, 2)))
    close(torch.bmm(a.npu().transpose(1, 2), a.npu()), torch.bmm(a.transpose(1, 2), a))


def test_bmm_broadcasts_a_batch_of_one():
    """aclnnBatchMatMul.md: one side's batch may be 1. The plugin hands expanded views over unexpanded."""
    one, many = make(1, 8, 16), make(4, 16, 12)
    close(torch.bmm(one.npu().expand(4, 8, 16), many.npu()), torch.bmm(one.expand(4, 8, 16), many))
    close(
        torch.bmm(many.npu(), make(1, 12, 3).npu().expand(4, 12, 3)), torch.bmm(many, make(1, 12, 3).expand(4, 12, 3))
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_addbmm(dtype):
    same(torch.addbmm, make(5, 3, dtype=dtype), make(4, 5, 6, dtype=dtype), make(4, 6, 3, dtype=dtype), scale=10)


@pytest.mark.parametrize(
    "a,b",
    [
        ((5,), (5,)),
        ((5,), (5, 3)),
        ((3, 5), (5,)),
        ((2, 3, 5), (5,)),
        ((5,), (2, 5, 3)),
        ((2, 3, 5), (5, 4)),
        ((2, 3, 5), (2, 5, 4)),
        ((2, 1, 3, 5), (4, 5, 2)),
        ((3, 1, 4, 5), (1, 6, 5, 2)),
        ((1, 1), (1, 1)),
        ((2, 0, 5), (5, 4)),
    ],
)
def test_matmul_shapes(a, b):
    same(torch.matmul, make(*a), make(*b))


@pytest.mark.parametrize("dtype", FLOATS)
def test_vectors(dtype):
    m, v, w = make(60, 50, dtype=dtype), make(50, dtype=dtype), make(60, dtype=dtype)
    same(torch.mv, m, v, scale=4)
    same(torch.dot, v, make(50, dtype=dtype, seed=3), scale=4)
    same(torch.addmv, w, m, v, scale=4)
    close(torch.mv(m.t().contiguous().npu().t(), v.npu()), torch.mv(m.float(), v.float()), dtype, 4)
    close(
        torch.addr(m.npu(), w.npu(), v.npu(), beta=2, alpha=0.5),
        torch.addr(m.float(), w.float(), v.float(), beta=2, alpha=0.5),
        dtype,
        4,
    )


def test_integers():
    a, b = torch.arange(5, dtype=torch.int32), torch.arange(5, dtype=torch.int32) + 100
    assert torch.dot(a.npu(), b.npu()).cpu() == torch.dot(a, b)
    m = torch.randint(-9, 9, (4, 5), dtype=torch.int32)
    c = torch.randint(-9, 9, (4,), dtype=torch.int32)
    assert torch.equal(
        torch.addmv(c.npu(), m.npu(), a.npu(), alpha=3, beta=2).cpu(), torch.addmv(c, m, a, alpha=3, beta=2)
    )
    r = torch.addr(torch.zeros(4, 5, dtype=torch.int64).npu(), c.long().npu(), a.long().npu(), alpha=-2)
    assert torch.equal(r.cpu(), torch.addr(torch.zeros(4, 5, dtype=torch.int64), c.long(), a.long(), alpha=-2))


def test_refusals():
    a = torch.ones(2, 2, dtype=torch.float64).npu()
    with pytest.raises(RuntimeError, match="161002"):
        torch.mm(a, a)
        torch.npu.synchronize()


@pytest.mark.parametrize("dtype", FLOATS)
def test_linear(dtype):
    for x in [make(7, 20, dtype=dtype), make(3, 4, 20, dtype=dtype), make(20, dtype=dtype)]:
        same(F.linear, x, make(11, 20, dtype=dtype), make(11, dtype=dtype), scale=4)
        same(F.linear, x, make(11, 20, dtype=dtype), scale=4)


# ---- convolutions

CONVS = [
    # fn, input, weight, options
    (F.conv1d, (2, 3, 20), (5, 3, 3), {}),
    (F.conv1d, (2, 4, 21), (6, 2, 5), {"stride": 2, "padding": 2, "groups": 2}),
    (F.conv2d, (2, 3, 9, 11), (4, 3, 3, 3), {"padding": 1}),
    (F.conv2d, (3, 4, 10, 8), (8, 4, 1, 1), {}),
    (F.conv2d, (1, 4, 40, 40), (8, 4, 1, 1), {}),
    (F.conv2d, (2, 4, 13, 14), (6, 2, 3, 5), {"stride": (2, 3), "padding": (1, 2), "dilation": (2, 1), "groups": 2}),
    (F.conv2d, (2, 6, 12, 12), (6, 1, 3, 3), {"padding": 1, "groups": 6}),
    (F.conv2d, (2, 6, 12, 12), (12, 1, 5, 3), {"stride": 2, "padding": (2, 0), "groups": 6}),
    (F.conv2d, (1, 32, 30, 30), (130, 32, 3, 3), {"padding": 2, "dilation": 2}),
    (F.conv2d, (40, 8, 5, 5), (9, 8, 2, 2), {}),
    (F.conv3d, (2, 2, 5, 6, 7), (3, 2, 2, 3, 3), {"padding": (0, 1, 1), "stride": (1, 2, 1)}),
    (F.conv_transpose1d, (2, 4, 9), (4, 3, 4), {"stride": 2, "padding": 1, "output_padding": 1}),
    (F.conv_transpose2d, (2, 4, 5, 6), (4, 3, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    (F.conv_transpose2d, (2, 4, 5, 6), (4, 2, 3, 2), {"groups": 2, "dilation": 2, "stride": (1, 2)}),
    (F.conv_transpose2d, (2, 6, 7, 7), (6, 1, 4, 4), {"groups": 6, "stride": 2, "padding": 1}),
    (F.conv_transpose3d, (1, 3, 3, 4, 4), (3, 2, 2, 2, 3), {"stride": 2}),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", range(len(CONVS)))
@pytest.mark.parametrize("bias", [False, True])
def test_convolution(dtype, case, bias):
    fn, x, w, options = CONVS[case]
    channels = w[1] * options.get("groups", 1) if "transpose" in fn.__name__ else w[0]
    tensors = [make(*x, dtype=dtype), make(*w, dtype=dtype)] + ([make(channels, dtype=dtype)] if bias else [])
    same(lambda *t: fn(*t, **options), *tensors, scale=8)


def test_convolution_views():
    x, w = make(2, 9, 10, 4), make(6, 4, 3, 3)
    close(F.conv2d(x.npu().permute(0, 3, 1, 2), w.npu()), F.conv2d(x.permute(0, 3, 1, 2), w), scale=4)
    close(
        F.conv2d(x.npu().permute(0, 3, 1, 2)[:, :, ::2], w.npu().flip(0) if False else w.npu()[::1]),
        F.conv2d(x.permute(0, 3, 1, 2)[:, :, ::2], w),
        scale=4,
    )
    assert F.conv2d(torch.zeros(0, 4, 5, 5).npu(), w.npu()).shape == (0, 6, 3, 3)


# ---- pools

POOLS = [
    (F.max_pool2d, (2, 3, 9, 11), (3,), {"stride": 2, "padding": 1}),
    (F.max_pool2d, (2, 3, 8, 8), (2,), {}),
    (F.max_pool2d, (2, 3, 12, 13), ((3, 2),), {"stride": (2, 1), "padding": (1, 1)}),
    (F.max_pool2d, (2, 3, 9, 9), (1,), {"stride": 2}),
    (F.max_pool2d, (1, 2, 10, 10), (3,), {"stride": 2, "ceil_mode": True}),
    (F.avg_pool2d, (2, 3, 9, 11), (3,), {"stride": 2, "padding": 1}),
    (F.avg_pool2d, (2, 3, 9, 11), (3,), {"stride": 2, "padding": 1, "count_include_pad": False, "ceil_mode": True}),
    (F.avg_pool2d, (2, 3, 9, 20), ((3, 12),), {"divisor_override": 5}),
    (F.avg_pool1d, (2, 3, 17), (4,), {"stride": 3, "padding": 1}),
    (F.avg_pool3d, (2, 3, 5, 6, 7), (2,), {"stride": (1, 2, 2), "padding": 1}),
    (F.max_pool3d, (2, 3, 6, 7, 8), (2,), {"stride": (2, 2, 3)}),
    (F.adaptive_avg_pool2d, (2, 3, 9, 11), ((4, 5),), {}),
    (F.adaptive_avg_pool2d, (2, 3, 9, 11), (1,), {}),
    (F.adaptive_avg_pool1d, (2, 3, 9), (4,), {}),
    (F.adaptive_avg_pool3d, (2, 3, 5, 6, 7), ((2, 3, 4),), {}),
    (F.adaptive_max_pool2d, (2, 3, 9, 11), ((4, 5),), {}),
    (F.adaptive_max_pool3d, (2, 3, 5, 6, 7), ((2, 3, 4),), {}),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", range(len(POOLS)))
def test_pool(dtype, case):
    fn, shape, args, options = POOLS[case]
    # Distinct values: equal ones would leave the maximum's place open.
    n = torch.Size(shape).numel()
    g = torch.Generator().manual_seed(case)
    x = ((torch.randperm(n, generator=g) % 251).float() / 16 - 5).reshape(shape).to(dtype)
    same(lambda t: fn(t, *args, **options), x)


def test_pool_special_values():
    x = make(1, 1, 6, 6)
    x[0, 0, 1, 1], x[0, 0, 4, 4] = float("nan"), float("-inf")
    x[0, 0, 0, 4:] = x[0, 0, 1, 4:] = float("-inf")
    close(F.max_pool2d(x.npu(), 2), F.max_pool2d(x, 2))
    close(F.max_pool2d(make(3, 8, 8).npu(), 2), F.max_pool2d(make(3, 8, 8), 2))


def test_pool_refuses_dilation():
    with pytest.raises(RuntimeError, match="161002"):
        F.max_pool2d(make(1, 1, 8, 8).npu(), 2, dilation=2)
        torch.npu.synchronize()


def test_max_unpool():
    x = make(2, 3, 8, 8)
    y, index = F.max_pool2d(x, 2, return_indices=True)
    close(F.max_unpool2d(y.npu(), index.npu(), 2), F.max_unpool2d(y, index, 2))


# ---- attention


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sq,skv", [(16, 16), (70, 70), (5, 33)])
def test_attention(dtype, causal, sq, skv):
    q, k, v = (
        make(2, 4, sq, 16, dtype=dtype),
        make(2, 4, skv, 16, dtype=dtype, seed=1),
        make(2, 4, skv, 16, dtype=dtype, seed=2),
    )
    same(lambda *t: F.scaled_dot_product_attention(*t, is_causal=causal), q, k, v, scale=4)


@pytest.mark.parametrize("shape", [(2, 4, 12, 20), (2, 1, 12, 20), (1, 1, 12, 20), (12, 20), (2, 1, 1, 20)])
def test_attention_mask(shape):
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(3)) > 0.4
    mask[..., 0] = True
    q, k, v = make(2, 4, 12, 8), make(2, 4, 20, 8), make(2, 4, 20, 8, seed=4)
    same(lambda a, b, c, m: F.scaled_dot_product_attention(a, b, c, attn_mask=m), q, k, v, mask, scale=4)


def test_attention_grouped_heads():
    q, k, v = make(2, 6, 9, 8), make(2, 2, 9, 8), make(2, 2, 9, 8, seed=4)
    same(lambda a, b, c: F.scaled_dot_product_attention(a, b, c, enable_gqa=True), q, k, v, scale=4)


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
def test_fusion_attention_layouts(layout):
    b, n, s, d = 2, 3, 10, 16
    q, k, v = (make(b, n, s, d, seed=i) for i in range(3))
    want = F.scaled_dot_product_attention(q, k, v)

    def to(t):
        if layout == "BSND":
            t = t.transpose(1, 2)
        elif layout == "BSH":
            t = t.transpose(1, 2).reshape(b, s, n * d)
        elif layout == "SBH":
            t = t.permute(2, 0, 1, 3).reshape(s, b, n * d)
        return t.contiguous()

    out = torch_npu.npu_fusion_attention(to(q).npu(), to(k).npu(), to(v).npu(), n, layout, scale=d**-0.5)[0]
    close(out, to(want), scale=4)


# ---- attention of inference


def infer_reference(q, k, v, scale, visible):
    """The result and the log-sum-exp; a row that sees nothing is zero and infinite."""
    group = q.shape[1] // k.shape[1]
    k, v = (t.float().repeat_interleave(group, 1) for t in (k, v))
    score = ((q.float() @ k.transpose(-1, -2)) * scale).masked_fill(~visible, -torch.inf)
    lse = torch.logsumexp(score, -1, keepdim=True)
    return torch.nan_to_num(score.softmax(-1)) @ v, torch.where(lse == -torch.inf, torch.inf, lse)


def infer_close(got, want):
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a.cpu().float(), b, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "BNSD_BSND"])
def test_infer_attention_lengths(layout):
    q, k, v = (make(2, n, s, 16, dtype=torch.float16, seed=i) for i, (n, s) in enumerate([(4, 5), (2, 9), (2, 9)]))
    lengths, kv_lengths = [3, 5], [9, 6]
    visible = torch.zeros(2, 1, 5, 9, dtype=torch.bool)
    for b in range(2):
        visible[b, :, : lengths[b], : kv_lengths[b]] = True
    want, lse = infer_reference(q, k, v, 0.25, visible)

    def to(t, name):
        t = t if name == "BNSD" else t.transpose(1, 2)
        return t.flatten(2).contiguous() if name == "BSH" else t.contiguous()

    first, last = layout.split("_")[0], layout.split("_")[-1]
    got = torch_npu.npu_fused_infer_attention_score(
        *(to(t, first).npu() for t in (q, k, v)),
        num_heads=4,
        num_key_value_heads=2,
        input_layout=layout,
        scale=0.25,
        actual_seq_lengths=lengths,
        actual_seq_lengths_kv=kv_lengths,
        softmax_lse_flag=True,
    )
    infer_close(got, (to(want, last), lse))


@pytest.mark.parametrize("mode", ["own", "right-down"])
def test_infer_attention_masks(mode):
    q, k, v = (make(2, 3, s, 16, dtype=torch.float16, seed=s + i) for i, s in enumerate((6, 8, 8)))
    if mode == "own":
        mask = torch.rand(2, 6, 8, generator=torch.Generator().manual_seed(1)) > 0.6
        hidden, options = mask[:, None], {"sparse_mode": 1}
    else:
        mask = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
        hidden, options = torch.ones(6, 8, dtype=torch.bool).triu(3), {"sparse_mode": 3}
    got = torch_npu.npu_fused_infer_attention_score(
        q.npu(), k.npu(), v.npu(), atten_mask=mask.npu(), num_heads=3, input_layout="BNSD", scale=0.3,
        softmax_lse_flag=True, **options,
    )  # fmt: skip
    infer_close(got, infer_reference(q, k, v, 0.3, ~hidden))


def test_infer_attention_refuses():
    q, k = make(1, 2, 4, 16, dtype=torch.float16).npu(), make(1, 2, 8, 16, dtype=torch.float16).npu()
    call = torch_npu.npu_fused_infer_attention_score
    with pytest.raises(RuntimeError, match=r"actualSeqLengthsKv\[0\] is 9, expected 0 to 8"):
        call(q, k, k, num_heads=2, input_layout="BNSD", actual_seq_lengths_kv=[9])
        torch.npu.synchronize()
    with pytest.raises(RuntimeError, match="queryRope is not supported by softnpu"):
        call(q, k, k, num_heads=2, input_layout="BNSD", query_rope=q, key_rope=k)
        torch.npu.synchronize()
