/* softnpu_conv.c - convolution, pooling, resampling and attention kernels against plain loops. */
#include "softnpu_testing.h"
#include "softnpu/op/convolve.h"

#include <math.h>

TEST_OP(aclnnMaxPool2dWithMask, const aclTensor *, const aclIntArray *, const aclIntArray *,
        const aclIntArray *, const aclIntArray *, bool, aclTensor *, aclTensor *)
TEST_OP(aclnnMaxPool2dWithMaskBackward, const aclTensor *, const aclTensor *, const aclTensor *,
        const aclIntArray *, const aclIntArray *, const aclIntArray *, const aclIntArray *, bool, aclTensor *)
TEST_OP(aclnnConvolution, const aclTensor *, const aclTensor *, const aclTensor *, const aclIntArray *,
        const aclIntArray *, const aclIntArray *, bool, const aclIntArray *, int64_t, aclTensor *, int8_t)
TEST_OP(aclnnUpsampleBilinear2d, const aclTensor *, const aclIntArray *, bool, double, double, aclTensor *)
TEST_OP(aclnnLinalgQr, const aclTensor *, int64_t, aclTensor *, aclTensor *)
TEST_OP(aclnnInverse, const aclTensor *, aclTensor *)

static double value(int64_t i)
{
    return (double)((i * 7 + 3) % 11 - 5);
}

static void fill(aclTensor *t, int64_t seed)
{
    for (int64_t i = 0; i < sn_numel(t); i++) {
        double x = value(i + seed);
        sn_convert((char *)sn_data(t) + i * (int64_t)sn_size(t->dtype), t->dtype, &x, ACL_DOUBLE, 1);
    }
}

/* ---- the three products against their definition, on host memory ------------------------------------- */

struct shape {
    int64_t n, groups, cb, cs, big[3], kernel[3], stride[3], pad[3], dilation[3];
};
static const struct shape shapes[] = {
    {1, 1, 1, 1, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}},
    {2, 1, 3, 4, {1, 6, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
    {2, 2, 2, 3, {1, 9, 8}, {1, 2, 3}, {1, 2, 3}, {0, 1, 2}, {1, 2, 1}},
    {2, 6, 1, 2, {1, 7, 9}, {1, 3, 3}, {1, 2, 1}, {0, 1, 1}, {1, 1, 2}}, /* depthwise */
    {9, 1, 5, 7, {1, 4, 4}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}}, /* pointwise, several images a tile
                                                                          */
    {1, 1, 2, 130, {1, 40, 40}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}},
    {2, 1, 2, 2, {4, 5, 6}, {2, 3, 2}, {2, 1, 1}, {1, 0, 1}, {1, 2, 1}},
    {1, 1, 1, 2, {1, 1, 3000}, {1, 1, 5}, {1, 1, 1}, {0, 0, 2}, {1, 1, 1}}, /* many tiles of one image */
    {1, 1, 2, 2, {1, 3, 3}, {1, 3, 3}, {1, 4, 4}, {0, 2, 2}, {1, 1, 1}},
};

/* Calls body for every product: element of small, of big, of weight. */
static void for_products(const struct conv *v, void (*body)(void *ctx, int64_t s, int64_t b, int64_t w),
                         void *ctx)
{
    const struct conv_geom *g = &v->g;
    int64_t taps = conv_taps(g), P = conv_small(g), Q = conv_big(g);
    for (int64_t n = 0; n < v->n; n++)
        for (int64_t s = 0; s < v->groups * v->cs; s++)
            for (int64_t c = 0; c < v->cb; c++)
                for (int64_t k = 0; k < taps; k++)
                    for (int64_t p = 0; p < P; p++) {
                        int64_t at = 0, kk[] = {k / g->kernel[2] / g->kernel[1],
                                                k / g->kernel[2] % g->kernel[1], k % g->kernel[2]};
                        int64_t pp[] = {p / g->small[2] / g->small[1], p / g->small[2] % g->small[1],
                                        p % g->small[2]};
                        for (int d = 0; d < 3 && at >= 0; d++) {
                            int64_t x = pp[d] * g->stride[d] - g->pad[d] + kk[d] * g->dilation[d];
                            at = x < 0 || x >= g->big[d] ? -1 : at * g->big[d] + x;
                        }
                        int64_t channel = s / v->cs * v->cb + c;
                        if (at >= 0)
                            body(ctx, (n * v->groups * v->cs + s) * P + p,
                                 (n * v->groups * v->cb + channel) * Q + at, (s * v->cb + c) * taps + k);
                    }
}

struct reference {
    const float *big, *weight, *small;
    double *to_small, *to_big, *to_weight;
};
static void add_products(void *ctx, int64_t s, int64_t b, int64_t w)
{
    struct reference *r = ctx;
    r->to_small[s] += (double)r->big[b] * r->weight[w];
    r->to_big[b] += (double)r->small[s] * r->weight[w];
    r->to_weight[w] += (double)r->small[s] * r->big[b];
}

static float *numbers(int64_t n, int64_t seed)
{
    float *p = malloc((size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = (float)value(i + seed);
    return p;
}

static void expect(const float *got, const double *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++) assert_true(got[i] == want[i]); /* small integers: exact */
}

static void check_shape(const struct shape *s)
{
    struct conv v = {.type = ACL_FLOAT, .n = s->n, .groups = s->groups, .cb = s->cb, .cs = s->cs};
    for (int d = 0; d < 3; d++) {
        v.g.big[d] = s->big[d], v.g.kernel[d] = s->kernel[d], v.g.stride[d] = s->stride[d],
        v.g.pad[d] = s->pad[d];
        v.g.dilation[d] = s->dilation[d];
        v.g.small[d] =
            (s->big[d] + 2 * s->pad[d] - s->dilation[d] * (s->kernel[d] - 1) - 1) / s->stride[d] + 1;
    }
    int64_t nb = s->n * s->groups * s->cb * conv_big(&v.g), ns = s->n * s->groups * s->cs * conv_small(&v.g);
    int64_t nw = s->groups * s->cs * s->cb * conv_taps(&v.g);
    float *big = numbers(nb, 0), *weight = numbers(nw, 1), *small = numbers(ns, 2), *y;
    struct reference r = {
        big, weight, small, calloc((size_t)ns, 8), calloc((size_t)nb, 8), calloc((size_t)nw, 8)};
    for_products(&v, add_products, &r);
    v.big = (char *)big, v.weight = (char *)weight, v.small = (char *)(y = numbers(ns, 5));
    conv_to_small(NULL, &v);
    expect(y, r.to_small, ns);
    free(y);
    v.small = (char *)small, v.big = (char *)(y = numbers(nb, 5));
    conv_to_big(NULL, &v);
    expect(y, r.to_big, nb);
    free(y);
    v.big = (char *)big, v.weight = (char *)(y = numbers(nw, 5));
    conv_to_weight(&v);
    expect(y, r.to_weight, nw);
    free(y);
    free(big), free(weight), free(small), free(r.to_small), free(r.to_big), free(r.to_weight);
}

static void the_three_products(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) check_shape(&shapes[i]);
}

/* ---- operators --------------------------------------------------------------------------------------- */

static aclIntArray *ints(int64_t a, int64_t b)
{
    const int64_t v[] = {a, b};
    return aclCreateIntArray(v, 2);
}

static void check_pool(int64_t k, int64_t stride, int64_t pad, int64_t dilation, int64_t out)
{
    const int64_t id[] = {2, 3, 6, 6}, od[] = {2, 3, out, out},
                  md[] = {2, 3, k * k, ((out * out + 15) / 16 + 1) * 32};
    aclTensor *x = test_tensor(ACL_FLOAT, 4, id), *y = test_tensor(ACL_FLOAT, 4, od),
              *mask = test_tensor(ACL_INT8, 4, md);
    aclTensor *gx = test_tensor(ACL_FLOAT, 4, id);
    aclIntArray *ka = ints(k, k), *sa = ints(stride, stride), *pa = ints(pad, pad),
                *da = ints(dilation, dilation);
    for (int64_t i = 0; i < sn_numel(x); i++) ((float *)sn_data(x))[i] = (float)(i * 37 % 211);
    assert_int_equal(TEST_CALL(aclnnMaxPool2dWithMask, x, ka, sa, pa, da, false, y, mask), 0);
    assert_int_equal(TEST_CALL(aclnnMaxPool2dWithMaskBackward, y, x, mask, ka, sa, pa, da, false, gx), 0);
    double *want = calloc((size_t)sn_numel(x), sizeof *want);
    for (int64_t o = 0; o < sn_numel(y); o++) {
        int64_t plane = o / (out * out), best = -1;
        for (int64_t i = 0; i < k * k; i++) {
            int64_t h = o / out % out * stride - pad + i / k * dilation,
                    w = o % out * stride - pad + i % k * dilation;
            int64_t at = plane * 36 + h * 6 + w;
            if (h < 0 || w < 0 || h > 5 || w > 5) continue;
            if (best < 0 || test_at(x, at) > test_at(x, best)) best = at;
        }
        assert_true(test_at(y, o) == test_at(x, best));
        want[best] += test_at(y, o);
    }
    for (int64_t i = 0; i < sn_numel(x); i++) assert_true(test_at(gx, i) == want[i]);
    free(want);
    aclDestroyIntArray(ka), aclDestroyIntArray(sa), aclDestroyIntArray(pa), aclDestroyIntArray(da);
    test_drop(x), test_drop(y), test_drop(mask), test_drop(gx);
}

static void max_pool_and_its_mask(void **state)
{
    (void)state;
    check_pool(2, 2, 0, 1, 3);
    check_pool(3, 2, 1, 1, 3);
    check_pool(1, 2, 0, 1, 3); /* the mask has no room for indices */
}

static void convolution_refuses(void **state)
{
    (void)state;
    const int64_t xd[] = {1, 2, 5, 5}, wd[] = {3, 2, 3, 3}, yd[] = {1, 3, 3, 3}, bad[] = {1, 3, 4, 3},
                  vd[] = {3, 1, 3, 3};
    aclTensor *x = test_tensor(ACL_FLOAT, 4, xd), *w = test_tensor(ACL_FLOAT, 4, wd),
              *y = test_tensor(ACL_FLOAT, 4, yd);
    aclTensor *z = test_tensor(ACL_FLOAT, 4, bad), *v = test_tensor(ACL_FLOAT, 4, vd);
    aclIntArray *one = ints(1, 1), *none = ints(0, 0), *minus = ints(-1, 0);
    uint64_t ws;
    aclOpExecutor *ex;
    assert_int_equal(TEST_CALL(aclnnConvolution, x, w, NULL, one, none, one, false, none, 1, y, 0), 0);
    assert_int_equal(
        aclnnConvolutionGetWorkspaceSize(x, w, NULL, one, none, one, false, none, 1, z, 0, &ws, &ex),
        ACLNN_ERR_PARAM_INVALID);
    assert_int_equal(
        aclnnConvolutionGetWorkspaceSize(x, w, NULL, one, minus, one, false, none, 1, y, 0, &ws, &ex),
        ACLNN_ERR_PARAM_INVALID);
    assert_int_equal(
        aclnnConvolutionGetWorkspaceSize(x, w, NULL, none, none, one, false, none, 1, y, 0, &ws, &ex),
        ACLNN_ERR_PARAM_INVALID);
    assert_int_equal(
        aclnnConvolutionGetWorkspaceSize(x, v, NULL, one, none, one, false, none, 1, y, 0, &ws, &ex),
        ACLNN_ERR_PARAM_INVALID);
    aclDestroyIntArray(one), aclDestroyIntArray(none), aclDestroyIntArray(minus);
    test_drop(x), test_drop(w), test_drop(y), test_drop(z), test_drop(v);
}

static void bilinear_halfway(void **state)
{
    (void)state;
    const int64_t xd[] = {1, 1, 2, 2}, yd[] = {1, 1, 3, 3}, size[] = {3, 3};
    aclTensor *x = test_tensor(ACL_FLOAT, 4, xd), *y = test_tensor(ACL_FLOAT, 4, yd);
    aclIntArray *s = aclCreateIntArray(size, 2);
    const float in[] = {0, 2, 4, 6};
    memcpy(sn_data(x), in, sizeof in);
    assert_int_equal(TEST_CALL(aclnnUpsampleBilinear2d, x, s, true, 0.0, 0.0, y), 0);
    for (int i = 0; i < 9; i++) assert_true(test_at(y, i) == i % 3 + i / 3 * 2);
    aclDestroyIntArray(s);
    test_drop(x), test_drop(y);
}

static void factorisations(void **state)
{
    (void)state;
    const int64_t ad[] = {3, 3}, n = 9;
    aclTensor *a = test_tensor(ACL_FLOAT, 2, ad), *q = test_tensor(ACL_FLOAT, 2, ad),
              *r = test_tensor(ACL_FLOAT, 2, ad);
    fill(a, 2);
    ((float *)sn_data(a))[0] = 9;
    assert_int_equal(TEST_CALL(aclnnLinalgQr, a, 0, q, r), 0);
    for (int64_t i = 0; i < n; i++) {
        double sum = 0, unit = 0;
        for (int p = 0; p < 3; p++) sum += test_at(q, i / 3 * 3 + p) * test_at(r, p * 3 + i % 3);
        for (int p = 0; p < 3; p++) unit += test_at(q, p * 3 + i / 3) * test_at(q, p * 3 + i % 3);
        assert_true(fabs(sum - test_at(a, i)) < 1e-5 && fabs(unit - (i / 3 == i % 3)) < 1e-5);
    }
    assert_int_equal(TEST_CALL(aclnnInverse, a, q), 0);
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int p = 0; p < 3; p++) sum += test_at(a, i / 3 * 3 + p) * test_at(q, p * 3 + i % 3);
        assert_true(fabs(sum - (i / 3 == i % 3)) < 1e-4);
    }
    test_drop(a), test_drop(q), test_drop(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_three_products),  cmocka_unit_test(max_pool_and_its_mask),
        cmocka_unit_test(convolution_refuses), cmocka_unit_test(bilinear_halfway),
        cmocka_unit_test(factorisations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
