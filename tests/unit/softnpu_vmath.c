/* softnpu_vmath.c - vector mathematics against the C library in higher precision. */
#include "softnpu_testing.h"
#include "softnpu/kernel/vmath.h"

#include <math.h>

extern const struct vmath_kernels vmath_kernels_base;

static int tables(const struct vmath_kernels *out[2])
{
    out[0] = &vmath_kernels_base;
    out[1] = vmath_kernels();
    return out[0] == out[1] ? 1 : 2;
}

#define WIDE_F32(id, fn, ulp) [VM_##id] = fn,
#define WIDE_F64(id, fn, ulp) [VM_##id] = fn##l,
static double (*const wide_f32[])(double) = {VMATH1(WIDE_F32)};
static long double (*const wide_f64[])(long double) = {VMATH1(WIDE_F64)};
static double (*const wide2_f32[])(double, double) = {VMATH2(WIDE_F32)};
static long double (*const wide2_f64[])(long double, long double) = {VMATH2(WIDE_F64)};

/* got is want, rounded, within `ulps` units in the last place of a format with `digits` bits. */
static bool close_to(long double got, long double want, int digits, long double ulps, long double biggest)
{
    if (isnan(want)) return isnan(got);
    if (isinf(want) || fabsl(want) > biggest) return got == want || (isinf(got) && got * want > 0);
    int exponent;
    frexpl(want, &exponent);
    long double ulp = ldexpl(1, exponent - digits);
    return fabsl(got - want) <= ulps * ulp ||
           (digits == 24 ? fabsl(got - want) < 0x1p-148L : fabsl(got - want) < 0x1p-1073L);
}

enum { N = 4099 };
static float in32[N], other32[N], out32[N];
static double in64[N], other64[N], out64[N];

/* Values of all magnitudes that the tests' functions take, then the special ones. */
static void fill(void)
{
    static const double special[] = {0,   -0.0,  1,  -1,  0.5, INFINITY, -INFINITY,
                                     NAN, 1e-30, 88, -87, 2,   709,      10};
    uint64_t s = 12345;
    for (int i = 0; i < N; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        double unit = (double)(s >> 11) * 0x1p-53;
        double v = (i & 1 ? 1 : -1) * ldexp(1 + unit, (int)(s >> 3 & 15) - 10);
        if (i < (int)(sizeof special / sizeof *special)) v = special[i];
        in32[i] = (float)v;
        in64[i] = v;
        other32[i] = (float)(unit * 8 - 4);
        other64[i] = unit * 8 - 4;
    }
}

static void one_argument(void **state)
{
    (void)state;
    const struct vmath_kernels *k[2];
    const long double ulps = vmath_symbol("Sleef_exp_u10") ? 1.6L : 4; /* the C library's own bound */
    fill();
    for (int t = tables(k); t-- > 0;)
        for (int f = 0; f < VM_COUNT1; f++) {
            if (f == VM_LGAMMA) continue; /* near its zeros only the absolute error is bounded */
            k[t]->f32((enum vmath1)f, N, in32, out32);
            k[t]->f64((enum vmath1)f, N, in64, out64);
            for (int i = 0; i < N; i++) {
                if (!close_to(out32[i], wide_f32[f](in32[i]), 24, ulps, 3.4e38L))
                    fail_msg("function %d of %a: %a", f, in32[i], out32[i]);
                if (!close_to(out64[i], wide_f64[f](in64[i]), 53, ulps, 1.79e308L))
                    fail_msg("function %d of %a: %a", f, in64[i], out64[i]);
            }
        }
}

static void two_arguments(void **state)
{
    (void)state;
    const struct vmath_kernels *k[2];
    fill();
    for (int t = tables(k); t-- > 0;)
        for (int f = 0; f < VM_COUNT2; f++) {
            k[t]->f32_2((enum vmath2)f, N, in32, other32, out32);
            k[t]->f64_2((enum vmath2)f, N, in64, other64, out64);
            for (int i = 0; i < N; i++) {
                assert_true(close_to(out32[i], wide2_f32[f](in32[i], other32[i]), 24, 1.2L, 3.4e38L));
                assert_true(close_to(out64[i], wide2_f64[f](in64[i], other64[i]), 53, 1.2L, 1.79e308L));
            }
        }
}

/* In place, and every length up to three vectors: nothing outside the array is touched. */
static void short_arrays_in_place(void **state)
{
    (void)state;
    for (int n = 0; n < 50; n++) {
        float a[52];
        for (int i = 0; i < 52; i++) a[i] = 1;
        vmath_f32(VM_EXP, n, a, a);
        for (int i = 0; i < 52; i++) assert_true(a[i] == (i < n ? expf(1) : 1));
    }
    float x[] = {0, 100, -100, INFINITY, -INFINITY};
    vmath_sigmoid_f32(5, x, x);
    assert_true(x[0] == 0.5f && x[1] == 1 && x[2] == 0 && x[3] == 1 && x[4] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_argument),
        cmocka_unit_test(two_arguments),
        cmocka_unit_test(short_arrays_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
