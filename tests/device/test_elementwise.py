"""Elementwise operators on the device against CPU torch: dtypes, layouts, special values, broadcast, in place, scalars.

Run inside an environment with torch and torch_npu: softnpu run -- python -m pytest tests/device/test_elementwise.py
A dtype that the device refuses (as its documents say) is skipped with the device's own message; every case that the CPU
refuses too counts as agreement.
"""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
import torch_npu  # noqa: F401

f32, f16, bf16, f64 = torch.float32, torch.float16, torch.bfloat16, torch.float64
FLOATS = [f32, f16, bf16, f64]
INTS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
COMPLEX = [torch.complex64, torch.complex128]
REAL = FLOATS + INTS
ALL = REAL + [torch.bool] + COMPLEX
# CPU torch evaluates f32 functions to a few ulp and rounds 16-bit results more than once.
TOLERANCE = {
    f32: (3e-6, 1e-6),
    f64: (1e-12, 1e-13),
    f16: (2e-3, 1e-3),
    bf16: (1.6e-2, 1e-2),
    torch.complex64: (1e-5, 1e-5),
    torch.complex128: (1e-11, 1e-11),
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 100.0, -100.0, math.inf, -math.inf, math.nan, 1e-7]
LAYOUTS = ["plain", "transposed", "sliced", "expanded", "reversed rows", "scalar", "empty"]


def make(shape, dtype, seed=0, special=False, low=-9, high=9):
    g = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=g).bool()
    if dtype.is_complex:
        parts = [make(shape, f64, seed + k, False, low, high) for k in (0, 1)]
        return torch.complex(*parts).to(dtype)
    if dtype.is_floating_point:
        x = (torch.rand(shape, generator=g, dtype=f64) * (high - low) + low).to(dtype)
        if special and x.numel() >= len(SPECIAL):
            order = torch.randperm(len(SPECIAL), generator=g)
            x.view(-1)[: len(SPECIAL)] = torch.tensor(SPECIAL)[order].to(dtype)
        return x
    low = max(low, 0) if dtype == torch.uint8 else low
    return torch.randint(math.floor(low), math.ceil(high) + 1, shape, generator=g).to(dtype)


def arrange(layout, dtype, seed=0, special=False, low=-9, high=9):
    """A tensor of shape [6, 50] (or [] or [0, 5]) with the given layout."""
    if layout == "scalar":
        return make([], dtype, seed, False, low, high)
    if layout == "empty":
        return make([0, 5], dtype, seed)
    if layout == "transposed":
        return make([50, 6], dtype, seed, special, low, high).t()
    if layout == "sliced":
        return make([6, 150], dtype, seed, special, low, high)[:, 1::3]
    if layout == "expanded":
        return make([1, 50], dtype, seed, special, low, high).expand(6, 50)
    if layout == "reversed rows":
        return make([50, 12], dtype, seed, special, low, high)[:, 3:9].t()
    return make([6, 50], dtype, seed, special, low, high)


def npu(x):
    """x on the device, with x's layout."""
    if isinstance(x, (list, tuple)):
        return type(x)(npu(v) for v in x)
    if not isinstance(x, torch.Tensor):
        return x
    if x.numel() and not x.is_contiguous():
        base = torch.as_strided(x, (x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
        return base.npu().as_strided(x.size(), x.stride(), x.storage_offset())
    return x.npu()


def refused(error):
    """The device does not take this dtype, by its documents."""
    text = str(error)
    return "not implemented for DT_" in text or "not implemented for" in text and "161002" in text


def same(got, want, what, tolerance=None):
    assert got.dtype == want.dtype, f"{what}: dtype {got.dtype}, expected {want.dtype}"
    assert got.shape == want.shape, f"{what}: shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    rtol, atol = tolerance or TOLERANCE.get(want.dtype, (0, 0))
    got = got.detach().cpu()
    wide = torch.complex128 if want.dtype.is_complex else f64 if want.dtype.is_floating_point else want.dtype
    torch.testing.assert_close(
        got.to(wide), want.detach().to(wide), rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{what}: {m}"
    )


def compare(fn, args, what, tolerance=None):
    """fn(*args) on both; both raise, or both give the same. Returns False where the device refuses the dtype."""
    try:
        want = fn(*args)
    except (RuntimeError, TypeError, ValueError):
        return False
    try:
        got = fn(*npu(args))
    except RuntimeError as error:
        if refused(error):
            return False
        raise AssertionError(f"{what}: {error}") from error
    same(got, want, what, tolerance)
    return True


def over_layouts(fn, dtypes, n, tolerance=None, special=True, layouts=LAYOUTS, **domain):
    ran = 0
    for layout in layouts:
        args = tuple(arrange(layout, t, seed, special, **domain) for seed, t in enumerate(dtypes[:n]))
        ran += compare(fn, args, f"{layout} {dtypes}", tolerance)
    if not ran:
        pytest.skip(f"not taken by the device or the CPU: {dtypes}")


def ids(value):
    return str(value).replace("torch.", "") if isinstance(value, torch.dtype) else None


# ---- one input ---------------------------------------------------------------------------------------------

POSITIVE = dict(low=0.1, high=9)
UNIT = dict(low=-1, high=1)
UNARY = {
    "abs": (torch.abs, ALL, {}),
    "neg": (torch.neg, ALL, {}),
    "sign": (torch.sign, REAL + [torch.bool], {}),
    "exp": (torch.exp, ALL, UNIT),
    "exp2": (torch.exp2, ALL, UNIT),
    "expm1": (torch.expm1, ALL, UNIT),
    "log": (torch.log, ALL, POSITIVE),
    "log2": (torch.log2, ALL, POSITIVE),
    "log10": (torch.log10, ALL, POSITIVE),
    "log1p": (torch.log1p, ALL, POSITIVE),
    "sqrt": (torch.sqrt, ALL, POSITIVE),
    "rsqrt": (torch.rsqrt, ALL, POSITIVE),
    "reciprocal": (torch.reciprocal, ALL, POSITIVE),
    "sin": (torch.sin, ALL, {}),
    "cos": (torch.cos, ALL, {}),
    "tan": (torch.tan, ALL, UNIT),
    "asin": (torch.asin, ALL, UNIT),
    "acos": (torch.acos, ALL, UNIT),
    "atan": (torch.atan, ALL, {}),
    "sinh": (torch.sinh, ALL, UNIT),
    "cosh": (torch.cosh, ALL, UNIT),
    "tanh": (torch.tanh, ALL, {}),
    "asinh": (torch.asinh, ALL, {}),
    "acosh": (torch.acosh, ALL, dict(low=1.5, high=9)),
    "atanh": (torch.atanh, ALL, dict(low=-0.9, high=0.9)),
    "erf": (torch.erf, REAL, {}),
    "erfc": (torch.erfc, REAL, dict(low=-3, high=3)),
    "erfinv": (torch.erfinv, REAL, dict(low=-0.99, high=0.99)),
    "sinc": (torch.sinc, ALL, dict(low=-2, high=2)),
    "sigmoid": (torch.sigmoid, ALL, {}),
    "ceil": (torch.ceil, REAL, {}),
    "floor": (torch.floor, REAL, {}),
    "round": (torch.round, REAL, {}),
    "round_decimals": (lambda x: torch.round(x, decimals=2), FLOATS, {}),
    "round_tens": (lambda x: torch.round(x, decimals=-1), FLOATS, {}),
    "trunc": (torch.trunc, REAL, {}),
    "frac": (torch.frac, FLOATS, {}),
    "bitwise_not": (torch.bitwise_not, INTS + [torch.bool], {}),
    "logical_not": (torch.logical_not, ALL, {}),
    "isfinite": (torch.isfinite, ALL, {}),
    "isinf": (torch.isinf, ALL, {}),
    "isnan": (torch.isnan, ALL, {}),
    "isposinf": (torch.isposinf, REAL, {}),
    "isneginf": (torch.isneginf, REAL, {}),
    "signbit": (torch.signbit, REAL + [torch.bool], {}),
    "angle": (torch.angle, FLOATS, {}),
    "nan_to_num": (torch.nan_to_num, REAL, {}),
    "nan_to_num_values": (lambda x: torch.nan_to_num(x, 1.5, 2.5, -3.5), FLOATS, {}),
    "logit": (torch.logit, FLOATS, dict(low=0.1, high=0.9)),
    "logit_eps": (lambda x: torch.logit(x, 0.2), FLOATS, UNIT),
    "square": (torch.square, ALL, {}),
    "positive": (torch.positive, REAL, {}),
    "contiguous": (lambda x: x.contiguous(), ALL, {}),
    "clone": (torch.clone, ALL, {}),
    "zero": (torch.zeros_like, ALL, {}),
    "ones": (torch.ones_like, ALL, {}),
}
# Wider where CPU torch itself is off by more than the usual: gelu's f32 approximation, tangents near their poles.
WIDE = {"tan": 4, "sinc": 4, "erfinv": 8, "logit": 8, "logit_eps": 8, "round_decimals": 8}


def widened(name, dtype):
    rtol, atol = TOLERANCE.get(dtype, TOLERANCE[f32])
    return (rtol * WIDE[name], atol * WIDE[name]) if name in WIDE and (dtype in TOLERANCE) else None


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ALL, ids=ids)
def test_unary(name, dtype):
    fn, dtypes, domain = UNARY[name]
    if dtype not in dtypes:
        pytest.skip("not defined for the dtype")
    over_layouts(fn, [dtype], 1, widened(name, dtype), **domain)


INPLACE = (
    "abs_ neg_ exp_ exp2_ expm1_ log_ log2_ log10_ log1p_ sqrt_ rsqrt_ reciprocal_ sin_ cos_ tan_ asin_ acos_ atan_ "
    "sinh_ cosh_ tanh_ asinh_ acosh_ atanh_ erf_ erfc_ erfinv_ sinc_ sigmoid_ ceil_ floor_ round_ trunc_ frac_ "
    "logical_not_ bitwise_not_ nan_to_num_ zero_ relu_"
).split()


@pytest.mark.parametrize("name", INPLACE)
def test_unary_in_place(name):
    dtype = torch.int32 if name == "bitwise_not_" else f32
    for layout in ("plain", "transposed", "sliced"):
        low, high = (0.1, 0.9) if name != "acosh_" else (1.5, 9)
        x = arrange(layout, dtype, 3, False, low, high)
        y = npu(x)
        if name == "sinc_" and not hasattr(x, name):
            pytest.skip("not in this release")
        getattr(x, name)()
        address = y.data_ptr()
        assert getattr(y, name)() is y and y.data_ptr() == address
        same(y, x, f"{name} {layout}", (1e-5, 1e-6) if dtype == f32 else None)


# ---- two inputs --------------------------------------------------------------------------------------------

BINARY = {
    "add": (torch.add, ALL, {}),
    "add_alpha": (lambda a, b: torch.add(a, b, alpha=3), ALL, dict(low=1, high=9)),
    "sub": (torch.sub, ALL, {}),
    "sub_alpha": (lambda a, b: torch.sub(a, b, alpha=-2), ALL, dict(low=1, high=9)),
    "rsub": (lambda a, b: torch.rsub(a, b, alpha=2), ALL, {}),
    "mul": (torch.mul, ALL, {}),
    "div": (torch.div, ALL, {}),
    "div_trunc": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), REAL, dict(low=1, high=9)),
    "div_floor": (lambda a, b: torch.div(a, b, rounding_mode="floor"), REAL, dict(low=1, high=9)),
    "floor_divide": (torch.floor_divide, REAL, dict(low=1, high=9)),
    "remainder": (torch.remainder, REAL, dict(low=1, high=9)),
    "fmod": (torch.fmod, REAL, dict(low=1, high=9)),
    "pow": (torch.pow, REAL + COMPLEX, dict(low=0.5, high=3)),
    "maximum": (torch.maximum, REAL + [torch.bool], {}),
    "minimum": (torch.minimum, REAL + [torch.bool], {}),
    "atan2": (torch.atan2, REAL, {}),
    "gcd": (torch.gcd, INTS, {}),
    "bitwise_and": (torch.bitwise_and, INTS + [torch.bool], {}),
    "bitwise_or": (torch.bitwise_or, INTS + [torch.bool], {}),
    "bitwise_xor": (torch.bitwise_xor, INTS + [torch.bool], {}),
    "lshift": (lambda a, b: a << b, INTS, dict(low=0, high=12)),
    "rshift": (lambda a, b: a >> b, INTS, dict(low=-9, high=12)),
    "logical_and": (torch.logical_and, ALL, {}),
    "logical_or": (torch.logical_or, ALL, {}),
    "logical_xor": (torch.logical_xor, ALL, {}),
    "eq": (torch.eq, ALL, {}),
    "ne": (torch.ne, ALL, {}),
    "lt": (torch.lt, REAL + [torch.bool], {}),
    "le": (torch.le, REAL + [torch.bool], {}),
    "gt": (torch.gt, REAL + [torch.bool], {}),
    "ge": (torch.ge, REAL + [torch.bool], {}),
    "isclose": (torch.isclose, REAL, {}),
    "isclose_nan": (lambda a, b: torch.isclose(a, b, rtol=0.1, atol=0.5, equal_nan=True), REAL, {}),
    "logaddexp": (torch.logaddexp, FLOATS, {}),
    "logaddexp2": (torch.logaddexp2, FLOATS, {}),
    "xlogy": (torch.xlogy, REAL + [torch.bool], dict(low=0.1, high=9)),
    "where": (lambda a, b: torch.where(a > b, a, b), REAL, {}),
    "masked_fill": (lambda a, b: a.masked_fill(b > 1, 2), REAL, {}),
    "masked_fill_tensor": (
        lambda a, b: a.masked_fill(b > 1, torch.tensor(3, dtype=a.dtype, device=a.device)),
        REAL,
        {},
    ),
    "clamp_min_tensor": (torch.clamp_min, REAL, {}),
    "clamp_max_tensor": (torch.clamp_max, REAL, {}),
    "lerp_scalar": (lambda a, b: torch.lerp(a, b, 0.75), FLOATS, {}),
}
# Remainders jump where a quotient is near a whole number; 16-bit CPU results differ there by a whole divisor.
NO_SPECIAL = {
    "pow",
    "div_floor",
    "floor_divide",
    "remainder",
    "fmod",
    "logaddexp",
    "logaddexp2",
    "add_alpha",
    "sub_alpha",
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", ALL, ids=ids)
def test_binary(name, dtype):
    fn, dtypes, domain = BINARY[name]
    if dtype not in dtypes:
        pytest.skip("not defined for the dtype")
    over_layouts(fn, [dtype, dtype], 2, None, name not in NO_SPECIAL, **domain)


MIXED = ["add", "sub", "mul", "div", "maximum", "eq", "lt", "logical_and", "remainder", "pow", "where", "bitwise_and"]


@pytest.mark.parametrize("name", MIXED)
def test_mixed_dtypes_and_broadcast(name):
    fn, dtypes, domain = BINARY[name]
    shapes = [([6, 50], [50]), ([6, 1], [1, 50]), ([6, 50], []), ([], [6, 50]), ([3, 1, 4], [2, 1])]
    shapes.append(([7, 5], [5, 7, 5]))
    loose = {f16: (2e-3, 8e-3), bf16: (1.6e-2, 6e-2)}  # CPU torch rounds a single value to 16 bits in some of these
    ran = 0
    for (a, b), (s, t) in itertools.product(itertools.product(dtypes, dtypes), shapes):
        args = (make(s, a, 1, False, **domain), make(t, b, 2, False, **domain))
        out = torch.result_type(*args)
        ran += compare(fn, args, f"{a} {s} with {b} {t}", loose.get(out))
    assert ran > 30


SCALARS = {
    "add": lambda x, s: x + s,
    "radd": lambda x, s: s + x,
    "sub": lambda x, s: x - s,
    "rsub": lambda x, s: s - x,
    "mul": lambda x, s: x * s,
    "div": lambda x, s: x / s,
    "rdiv": lambda x, s: s / (x + 20),
    "floordiv": lambda x, s: x // s,
    "mod": lambda x, s: x % s,
    "rmod": lambda x, s: torch.remainder(s, x + 20),
    "fmod": torch.fmod,
    "pow": lambda x, s: x**s,
    "rpow": lambda x, s: s**x,
    "eq": lambda x, s: x == s,
    "ne": lambda x, s: x != s,
    "lt": lambda x, s: x < s,
    "le": lambda x, s: x <= s,
    "gt": lambda x, s: x > s,
    "ge": lambda x, s: x >= s,
    "and": lambda x, s: x & s,
    "or": lambda x, s: x | s,
    "xor": lambda x, s: x ^ s,
    "lshift": lambda x, s: x << s,
    "rshift": lambda x, s: x >> s,
    "clamp_min": lambda x, s: x.clamp(min=s),
    "clamp_max": lambda x, s: x.clamp(max=s),
    "clamp": lambda x, s: x.clamp(-1, s),
    "xlogy": torch.xlogy,
    "xlogy_self": lambda x, s: torch.xlogy(s, x.abs() + 1),
    "where": lambda x, s: torch.where(x > 1, x, s),
}


@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize("dtype", ALL, ids=ids)
def test_with_a_scalar(name, dtype):
    fn, ran = SCALARS[name], 0
    low, high = (-3, 3) if name in ("pow", "rpow") else (-9, 9)
    for scalar, layout in itertools.product((2, 3.5, True, 0.5, 2 + 1j), ("plain", "transposed", "scalar", "empty")):
        x = arrange(layout, dtype, 5, False, low, high)
        ran += compare(lambda t: fn(t, scalar), (x,), f"{name} {dtype} {layout} {scalar}")  # noqa: B023
    if not ran:
        pytest.skip(f"not taken by the device or the CPU: {dtype}")


INPLACE2 = {
    "add_": [], "sub_": [], "mul_": [], "div_": [], "floor_divide_": [], "remainder_": [], "fmod_": [], "pow_": [],
    "atan2_": [], "bitwise_and_": [torch.int32], "bitwise_or_": [torch.int32], "bitwise_xor_": [torch.int32],
    "logical_and_": [], "logical_or_": [], "eq_": [], "ne_": [], "lt_": [], "le_": [], "gt_": [], "ge_": [],
    "copy_": [], "xlogy_": [],
}  # fmt: skip


@pytest.mark.parametrize("name", INPLACE2)
def test_binary_in_place(name):
    dtype = (INPLACE2[name] or [f32])[0]
    for layout, other in itertools.product(("plain", "transposed", "sliced"), ("tensor", "row", "itself", "scalar")):
        x = arrange(layout, dtype, 1, False, 1, 9)
        b = make([6, 50] if other == "tensor" else [50], dtype, 2, False, 1, 3)
        y = npu(x)
        if other == "scalar" and name in ("atan2_", "copy_", "logical_and_", "logical_or_"):
            continue
        pair = {"itself": (x, y), "scalar": (3, 3)}.get(other, (b, npu(b)))
        getattr(x, name)(pair[0])
        getattr(y, name)(pair[1])
        same(y, x, f"{name} {layout} {other}")


def test_in_place_results_must_fit():
    x = torch.ones(4, dtype=torch.int32, device="npu")
    with pytest.raises(RuntimeError):
        x.add_(1.5)
    with pytest.raises(RuntimeError):
        x.div_(2)


# ---- three inputs ------------------------------------------------------------------------------------------

TERNARY = {
    "lerp": (torch.lerp, FLOATS),
    "addcmul": (torch.addcmul, REAL + COMPLEX),
    "addcmul_value": (lambda a, b, c: torch.addcmul(a, b, c, value=2), REAL + COMPLEX),
    "addcdiv": (torch.addcdiv, FLOATS + COMPLEX),
    "addcdiv_value": (lambda a, b, c: torch.addcdiv(a, b, c, value=0.5), FLOATS + COMPLEX),
    "clamp_tensor": (lambda a, b, c: torch.clamp(a, b, b + c.abs()), REAL),
    "where_tensor": (lambda a, b, c: torch.where(a > 0, b, c), ALL),
}


@pytest.mark.parametrize("name", TERNARY)
@pytest.mark.parametrize("dtype", ALL, ids=ids)
def test_ternary(name, dtype):
    fn, dtypes = TERNARY[name]
    if dtype not in dtypes:
        pytest.skip("not defined for the dtype")
    tolerance = {f32: (2e-5, 2e-5), f16: (5e-3, 2e-2), bf16: (5e-2, 2e-1)}.get(dtype)
    over_layouts(fn, [dtype] * 3, 3, tolerance, False, low=1, high=5)


# ---- casts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ALL, ids=ids)
def test_casts(source):
    for target, layout in itertools.product(ALL, ("plain", "transposed", "sliced", "empty")):
        x = arrange(layout, source, 7, False, 0, 100)
        if source.is_complex and not target.is_complex:
            x.imag.zero_()
        y = npu(x).to(target)
        # the plugin casts to float32 where float64 is asked for
        same(y, x.to(f32 if target == f64 and source != f64 else target), f"{source} to {target}, {layout}")


def test_casts_round_to_even():
    bits = torch.arange(0, 1 << 16, dtype=torch.int32)
    for half in (f16, bf16):
        exact = (bits.to(torch.uint16) if hasattr(torch, "uint16") else bits.to(torch.int16)).view(half).float()
        exact = exact[torch.isfinite(exact)]
        for x in (exact, torch.nextafter(exact, torch.tensor(math.inf)), exact * 1.0001220703125, exact * 1.00390625):
            assert torch.equal(x.npu().to(half).cpu().view(torch.int16), x.to(half).view(torch.int16))


def test_floats_to_integers():
    x = torch.tensor(SPECIAL + [300.7, -300.7, 3e9, -3e9, 1e20, -1.5, 70000.0])
    for target in INTS + [torch.bool]:
        assert torch.equal(x.npu().to(target).cpu(), x.to(target)), target


# ---- activations -------------------------------------------------------------------------------------------

ACTIVATIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "gelu": F.gelu,
    "silu": F.silu,
    "elu": lambda x: F.elu(x, 1.5),
    "celu": lambda x: F.celu(x, 1.5),
    "selu": F.selu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "softplus": lambda x: F.softplus(x, 2, 5),
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": lambda x: F.hardtanh(x, -2, 3),
    "hardshrink": lambda x: F.hardshrink(x, 0.7),
    "softshrink": lambda x: F.softshrink(x, 0.7),
    "threshold": lambda x: F.threshold(x, 0.5, 2.0),
    "mish": F.mish,
    "logsigmoid": F.logsigmoid,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "glu": lambda x: F.glu(x, 1),
    "glu0": lambda x: F.glu(x, 0),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.25], dtype=x.dtype, device=x.device)),
    "prelu_channels": lambda x: F.prelu(x, torch.linspace(0, 1, 50, device=x.device).to(x.dtype)),
    "tanhshrink": F.tanhshrink,
    "softsign": F.softsign,
    "logit": lambda x: torch.logit(x, 0.1),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", FLOATS, ids=ids)
def test_activation_and_gradient(name, dtype):
    fn, ran = ACTIVATIONS[name], 0
    for layout in ("plain", "transposed", "sliced"):
        x = arrange(layout, dtype, 4, False, -6, 6)
        # away from the kinks, where the gradient depends on the last bit
        a, b = x.detach().clone().requires_grad_(), npu(x).detach().requires_grad_()
        want = fn(a)
        grad = torch.linspace(-1, 2, want.numel(), dtype=f64).reshape(want.shape).to(dtype)
        want.backward(grad)
        try:
            got = fn(b)
            got.backward(grad.npu())
        except RuntimeError as error:
            assert refused(error) or dtype == f64 and "Double" in str(error), error  # no double weight can be made
            continue
        ran += 1
        tolerance = {f32: (2e-5, 2e-6), f16: (4e-3, 4e-3), bf16: (3e-2, 3e-2)}.get(dtype)
        same(got, want, f"{name} {layout}", tolerance)
        same(b.grad, a.grad, f"gradient of {name} {layout}", tolerance)
    if not ran:
        pytest.skip(f"not taken by the device: {dtype}")


def test_activation_special_values():
    x = torch.tensor([0.0, -0.0, 25.0, -25.0, 100.0, -100.0, 3.0, -3.0, math.nan])
    for name in ("relu", "elu", "softplus", "hardswish", "hardsigmoid", "hardtanh", "hardshrink", "softshrink",
                 "threshold", "mish", "logsigmoid", "sigmoid", "tanh", "leaky_relu"):  # fmt: skip
        same(ACTIVATIONS[name](x.npu()), ACTIVATIONS[name](x), name)


# ---- fills -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL, ids=ids)
def test_fills(dtype):
    for layout in ("plain", "transposed", "sliced", "scalar", "empty"):
        for value in (0, 1, 2.5, True, torch.tensor(3)):
            x = arrange(layout, dtype, 1)
            y = npu(x)
            x.fill_(value)
            try:
                y.fill_(value.npu() if isinstance(value, torch.Tensor) else value)
            except RuntimeError as error:
                assert refused(error) and isinstance(value, torch.Tensor), error
                continue
            same(y, x, f"fill {layout} {value}")


# ---- refusals ----------------------------------------------------------------------------------------------


def test_nine_dimensions_are_refused():
    x = torch.ones([2], device="npu").reshape([1] * 8 + [2])
    with pytest.raises(RuntimeError, match="cannot be larger than 8 dimensions"):
        torch.sin(x)


def test_an_unsupported_dtype_is_named():
    x = torch.ones(3, dtype=torch.complex64).npu()
    with pytest.raises(RuntimeError, match="DT_COMPLEX64"):
        torch.nn.functional.relu(x)


# ---- distances, membership, random slopes ------------------------------------------------------------------


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3.5, math.inf])
@pytest.mark.parametrize("dtype", [f32, f16], ids=ids)
def test_cdist(p, dtype):
    tolerance = {f32: (2e-4, 2e-4), f16: (5e-3, 2e-2)}[dtype]
    for a, b in (
        ((5, 7), (4, 7)),
        ((2, 5, 30), (2, 3, 30)),
        ((3, 1, 5, 7), (2, 4, 7)),
        ((0, 7), (4, 7)),
        ((5, 0), (4, 0)),
    ):
        args = (make(a, dtype, 1, low=-2, high=2), make(b, dtype, 2, low=-2, high=2))
        try:
            got = torch.cdist(*npu(args), p=p)
        except RuntimeError as error:
            assert refused(error), error
            continue
        same(got, torch.cdist(*(t.double() for t in args), p=p).to(dtype), f"cdist {p} {a} {b}", tolerance)


def test_cdist_gradient_of_a_large_power():
    a, b = make((3, 5, 7), f32, 1), make((3, 4, 7), f32, 2)
    x, y = a.clone().requires_grad_(), a.npu().requires_grad_()
    torch.cdist(x, b, p=3.5).square().sum().backward()
    torch.cdist(y, b.npu(), p=3.5).square().sum().backward()
    same(y.grad, x.grad, "cdist backward", (1e-4, 1e-3))


@pytest.mark.parametrize("p", [0, 1, 2, 3.5, math.inf])
def test_pdist(p):
    for shape in ((6, 9), (1, 4), (2, 33)):
        x = make(shape, f32, 3)
        same(torch.pdist(x.npu(), p=p), torch.pdist(x, p=p), f"pdist {p} {shape}", (1e-5, 1e-5))


def test_isin():
    x = make([6, 50], torch.int64, 1)
    for invert in (False, True):
        same(torch.isin(x.npu(), 3, invert=invert), torch.isin(x, 3, invert=invert), "tensor in scalar")
        for value in (3, 1000):
            got = torch.isin(value, x.npu(), invert=invert)
            same(got, torch.isin(value, x, invert=invert), "scalar in tensor")


def test_rrelu():
    x = make([200, 50], f32, 1)
    same(F.rrelu(x.npu(), 0.1, 0.3), F.rrelu(x, 0.1, 0.3), "rrelu without training")
    y = x.npu().requires_grad_()
    torch.manual_seed(3)
    out = F.rrelu(y, 0.1, 0.3, training=True)
    out.sum().backward()
    slope = (out.detach().cpu() / x)[x < 0]
    assert slope.min() >= 0.0999 and slope.max() <= 0.3001 and abs(slope.mean() - 0.2) < 0.01
    assert torch.equal(out.detach().cpu()[x > 0], x[x > 0])
    torch.testing.assert_close(y.grad.cpu()[x < 0], slope, rtol=1e-4, atol=1e-6)
    torch.manual_seed(3)
    assert torch.equal(F.rrelu(x.npu(), 0.1, 0.3, training=True).cpu(), out.detach().cpu())


@pytest.mark.parametrize("name", ["remainder", "fmod", "floor_divide"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_infinite_divisor(name: str, dtype: torch.dtype) -> None:
    x = torch.tensor([3.5, -3.5, 0.0, float("inf"), float("nan")], dtype=dtype).repeat(9)
    y = torch.tensor([float("inf"), -float("inf"), 2.0], dtype=dtype).repeat_interleave(15)
    function = getattr(torch, name)
    torch.testing.assert_close(function(x.npu(), y.npu()).cpu(), function(x, y), equal_nan=True)
