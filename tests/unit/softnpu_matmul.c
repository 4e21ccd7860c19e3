/* softnpu_matmul.c - matrix products against plain loops, in every type and layout; BLAS from many threads.
 */
#include "softnpu_testing.h"
#include "softnpu/kernel/igemm.h"
#include "softnpu/op/gemm.h"

#include <math.h>
#include <pthread.h>

TEST_OP(aclnnMm, const aclTensor *, const aclTensor *, aclTensor *, int8_t)
TEST_OP(aclnnBatchMatMul, const aclTensor *, const aclTensor *, aclTensor *, int8_t)
TEST_OP(aclnnAddmm, const aclTensor *, const aclTensor *, const aclTensor *, const aclScalar *,
        const aclScalar *, aclTensor *, int8_t)
TEST_OP(aclnnAddbmm, const aclTensor *, const aclTensor *, const aclTensor *, const aclScalar *,
        const aclScalar *, aclTensor *, int8_t)
TEST_OP(aclnnDot, const aclTensor *, const aclTensor *, aclTensor *)

/* Small integers: exact in every type. */
static double value(int64_t i)
{
    return (double)((i * 7 + 3) % 11 - 5);
}

/* A rows by cols matrix with the given strides, element (i, j) = value(i*cols + j + seed). */
static aclTensor *matrix(aclDataType t, int64_t rows, int64_t cols, int64_t rs, int64_t cs, int64_t seed)
{
    const int64_t dim[] = {rows, cols}, stride[] = {rs, cs};
    size_t room = (size_t)(rows * (rs ? rs : 1) + cols * (cs ? cs : 1) + 1) * sn_size(t);
    aclTensor *m = test_view(test_alloc(room), t, 2, dim, stride, 0);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            double x = value(i * cols + j + seed);
            if (sn_dtype(t)->kind == SN_UINT) x = fabs(x);
            sn_convert((char *)sn_data(m) + (i * rs + j * cs) * (int64_t)sn_size(t), t, &x, ACL_DOUBLE, 1);
        }
    return m;
}

static double at(const aclTensor *m, int64_t i, int64_t j)
{
    return test_at(m, i * m->stride[0] + j * m->stride[1]);
}

static void expect_product(const aclTensor *a, const aclTensor *b, const aclTensor *c)
{
    for (int64_t i = 0; i < c->dim[0]; i++)
        for (int64_t j = 0; j < c->dim[1]; j++) {
            double sum = 0;
            for (int64_t p = 0; p < a->dim[1]; p++) sum += at(a, i, p) * at(b, p, j);
            assert_true(at(c, i, j) == sum);
        }
}

static void check_mm(int64_t m, int64_t k, int64_t n, int layout)
{
    bool ta = layout & 1, tb = layout & 2, tc = layout & 4, gaps = layout & 8;
    int64_t g = gaps ? 3 : 0;
    aclTensor *a = ta ? matrix(ACL_FLOAT, m, k, 1, m + g, 1) : matrix(ACL_FLOAT, m, k, k + g, 1, 1);
    aclTensor *b = tb ? matrix(ACL_FLOAT, k, n, 1, k + g, 2) : matrix(ACL_FLOAT, k, n, n + g, 1, 2);
    aclTensor *c = tc ? matrix(ACL_FLOAT, m, n, 1, m + g, 3) : matrix(ACL_FLOAT, m, n, n + g, 1, 3);
    assert_int_equal(TEST_CALL(aclnnMm, a, b, c, 0), 0);
    expect_product(a, b, c);
    test_drop(a);
    test_drop(b);
    test_drop(c);
}

static void mm_any_layout(void **state)
{
    (void)state;
    const int64_t sizes[][3] = {{1, 1, 1},   {1, 9, 5},     {7, 9, 1},   {5, 1, 6},
                                {17, 33, 9}, {70, 20, 300}, {3, 9000, 4}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int layout = 0; layout < 16; layout++) check_mm(sizes[s][0], sizes[s][1], sizes[s][2], layout);
    check_mm(600, 70, 520, 0);
}

static void mm_strides_that_blas_cannot_read(void **state)
{
    (void)state;
    aclTensor *a = matrix(ACL_FLOAT, 6, 5, 20, 2, 0), *b = matrix(ACL_FLOAT, 5, 4, 3, 30, 1);
    aclTensor *c = matrix(ACL_FLOAT, 6, 4, 40, 5, 2);
    assert_int_equal(TEST_CALL(aclnnMm, a, b, c, 0), 0);
    expect_product(a, b, c);
    a->stride[0] = 0; /* one row for all */
    assert_int_equal(TEST_CALL(aclnnMm, a, b, c, 0), 0);
    expect_product(a, b, c);
    test_drop(a);
    test_drop(b);
    test_drop(c);
}

static void every_float_type(void **state)
{
    (void)state;
    const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
    for (int i = 0; i < 3; i++) {
        aclTensor *a = matrix(types[i], 5, 7, 7, 1, 0), *b = matrix(types[i], 7, 3, 3, 1, 1);
        aclTensor *c = matrix(types[i], 5, 3, 3, 1, 2), *wide = matrix(ACL_FLOAT, 5, 3, 3, 1, 2);
        assert_int_equal(TEST_CALL(aclnnMm, a, b, c, 0), 0);
        expect_product(a, b, c);
        assert_int_equal(TEST_CALL(aclnnMm, a, b, wide, 0), 0);
        expect_product(a, b, wide);
        test_drop(a), test_drop(b), test_drop(c), test_drop(wide);
    }
}

/* gemm_run computes every type, also those that the device's matrix operators refuse. */
static void every_type(void **state)
{
    (void)state;
    const aclDataType types[] = {ACL_DOUBLE, ACL_COMPLEX64, ACL_COMPLEX128, ACL_INT8,   ACL_UINT8,
                                 ACL_INT16,  ACL_INT32,     ACL_INT64,      ACL_UINT16, ACL_UINT32};
    op_call c = {0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int tb = 0; tb < 2; tb++) {
            aclTensor *a = matrix(types[i], 4, 6, 6, 1, 0),
                      *b = matrix(types[i], 6, 5, tb ? 1 : 5, tb ? 6 : 1, 1);
            aclTensor *y = matrix(types[i], 4, 5, 5, 1, 2), *old = matrix(types[i], 4, 5, 5, 1, 2);
            struct gemm g;
            assert_true(gemm_has(types[i]));
            gemm_init(&g, types[i], 4, 5, 6);
            g.a = (struct mat){.p = sn_data(a), .rs = 6, .cs = 1};
            g.b = (struct mat){.p = sn_data(b), .rs = tb ? 1 : 5, .cs = tb ? 6 : 1};
            g.c = (struct mat){.p = sn_data(y), .rs = 5, .cs = 1};
            g.alpha = 2, g.ialpha = 2, g.beta = 3, g.ibeta = 3;
            gemm_run(&c, &g);
            for (int64_t r = 0; r < 20; r++) {
                double sum = 0, want;
                for (int64_t p = 0; p < 6; p++) sum += at(a, r / 5, p) * at(b, p, r % 5);
                sum = 2 * sum + 3 * test_at(old, r);
                if (types[i] == ACL_COMPLEX64 || types[i] == ACL_COMPLEX128 || types[i] == ACL_DOUBLE)
                    want = sum;
                else {
                    int64_t whole = (int64_t)sum;
                    int64_t narrow = 0;
                    sn_convert(&narrow, types[i], &whole, ACL_INT64, 1);
                    sn_convert(&want, ACL_DOUBLE, &narrow, types[i], 1);
                }
                assert_true(test_at(y, r) == want);
            }
            test_drop(a), test_drop(b), test_drop(y), test_drop(old);
        }
    assert_false(gemm_has(ACL_STRING));
    assert_false(gemm_has((aclDataType)-1));
}

static void booleans_are_or_of_and(void **state)
{
    (void)state;
    op_call c = {0};
    uint8_t a[] = {1, 0, 0, 0, 1, 1}, b[] = {1, 0, 0, 0, 0, 1}, y[4] = {0, 1, 0, 0};
    struct gemm g;
    gemm_init(&g, ACL_BOOL, 2, 2, 3);
    g.a = (struct mat){.p = a, .rs = 3, .cs = 1}, g.b = (struct mat){.p = b, .rs = 2, .cs = 1};
    g.c = (struct mat){.p = y, .rs = 2, .cs = 1};
    g.ibeta = 1;
    gemm_run(&c, &g);
    assert_int_equal(y[0], 1);
    assert_int_equal(y[1], 1);
    assert_int_equal(y[2], 0);
    assert_int_equal(y[3], 1);
}

static void empty_sums(void **state)
{
    (void)state;
    aclTensor *a = matrix(ACL_FLOAT, 3, 0, 1, 1, 0), *b = matrix(ACL_FLOAT, 0, 4, 4, 1, 0);
    aclTensor *c = matrix(ACL_FLOAT, 3, 4, 4, 1, 5), *self = matrix(ACL_FLOAT, 3, 4, 4, 1, 1);
    double one = 1, half = 0.5;
    aclScalar *alpha = aclCreateScalar(&one, ACL_DOUBLE), *beta = aclCreateScalar(&half, ACL_DOUBLE);
    assert_int_equal(TEST_CALL(aclnnMm, a, b, c, 0), 0);
    for (int i = 0; i < 12; i++) assert_true(test_at(c, i) == 0);
    assert_int_equal(TEST_CALL(aclnnAddmm, self, a, b, beta, alpha, c, 0), 0);
    for (int i = 0; i < 12; i++) assert_true(test_at(c, i) == 0.5 * test_at(self, i));
    aclDestroyScalar(alpha), aclDestroyScalar(beta);
    test_drop(a), test_drop(b), test_drop(c), test_drop(self);
}

static void batches(void **state)
{
    (void)state;
    const int64_t ad[] = {40, 5, 6}, bd[] = {40, 6, 3}, cd[] = {40, 5, 3}, sd[] = {5, 3};
    aclTensor *a = test_tensor(ACL_FLOAT, 3, ad), *b = test_tensor(ACL_FLOAT, 3, bd),
              *c = test_tensor(ACL_FLOAT, 3, cd);
    aclTensor *self = test_tensor(ACL_FLOAT, 2, sd), *sum = test_tensor(ACL_FLOAT, 2, sd);
    double one = 1;
    aclScalar *s = aclCreateScalar(&one, ACL_DOUBLE);
    for (int64_t i = 0; i < 1200; i++) ((float *)sn_data(a))[i] = (float)value(i);
    for (int64_t i = 0; i < 720; i++) ((float *)sn_data(b))[i] = (float)value(i + 4);
    for (int64_t i = 0; i < 15; i++) ((float *)sn_data(self))[i] = (float)value(i);
    assert_int_equal(TEST_CALL(aclnnBatchMatMul, a, b, c, 0), 0);
    assert_int_equal(TEST_CALL(aclnnAddbmm, self, a, b, s, s, sum, 0), 0);
    for (int64_t x = 0; x < 15; x++) {
        double all = test_at(self, x);
        for (int64_t n = 0; n < 40; n++) {
            double want = 0;
            for (int64_t p = 0; p < 6; p++)
                want += test_at(a, (n * 5 + x / 3) * 6 + p) * test_at(b, (n * 6 + p) * 3 + x % 3);
            assert_true(test_at(c, n * 15 + x) == want);
            all += want;
        }
        assert_true(test_at(sum, x) == all);
    }
    aclDestroyScalar(s);
    test_drop(a), test_drop(b), test_drop(c), test_drop(self), test_drop(sum);
}

static void refusals(void **state)
{
    (void)state;
    aclTensor *a = matrix(ACL_FLOAT, 3, 4, 4, 1, 0), *b = matrix(ACL_FLOAT, 3, 4, 4, 1, 0);
    aclTensor *c = matrix(ACL_FLOAT, 3, 4, 4, 1, 0), *d = matrix(ACL_DOUBLE, 4, 4, 4, 1, 0);
    uint64_t ws;
    aclOpExecutor *ex;
    assert_int_equal(aclnnMmGetWorkspaceSize(a, b, c, 0, &ws, &ex), ACLNN_ERR_PARAM_INVALID);
    assert_non_null(strstr(aclGetRecentErrMsg(), "cannot be multiplied"));
    assert_int_equal(aclnnMmGetWorkspaceSize(a, d, c, 0, &ws, &ex), ACLNN_ERR_PARAM_INVALID);
    assert_int_equal(aclnnMmGetWorkspaceSize(a, NULL, c, 0, &ws, &ex), ACLNN_ERR_PARAM_NULLPTR);
    test_drop(a), test_drop(b), test_drop(c), test_drop(d);
}

/* ---- BLAS from many threads -------------------------------------------------------------------------- */

enum { SIDE = 96, THREADS = 40, ROUNDS = 60 };
static float left[SIDE * SIDE], right[SIDE * SIDE], expected[SIDE * SIDE];

static void multiply(float *y)
{
    struct gemm g;
    gemm_init(&g, ACL_FLOAT, SIDE, SIDE, SIDE);
    g.a = (struct mat){.p = left, .rs = SIDE, .cs = 1}, g.b = (struct mat){.p = right, .rs = 1, .cs = SIDE};
    g.c = (struct mat){.p = y, .rs = SIDE, .cs = 1};
    gemm_serial(&g);
}

static void *caller(void *wrong)
{
    float *y = malloc(sizeof expected);
    for (int i = 0; i < ROUNDS; i++) {
        multiply(y);
        if (memcmp(y, expected, sizeof expected)) __atomic_add_fetch((int *)wrong, 1, __ATOMIC_RELAXED);
    }
    free(y);
    return NULL;
}

static void many_callers(void **state)
{
    (void)state;
    pthread_t t[THREADS];
    int wrong = 0;
    for (int i = 0; i < SIDE * SIDE; i++) left[i] = (float)value(i), right[i] = (float)value(i * 3);
    multiply(expected);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&t[i], NULL, caller, &wrong), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    assert_int_equal(wrong, 0);
}

static void rounding_of_the_cube_unit(void **state)
{
    (void)state;
    float x[] = {1.0f + 0x1p-11f, 1.0f + 0x1p-10f, INFINITY, -1.0f - 0x1p-11f, 1.0f + 0x1p-12f};
    cube_round(x, 5, 3);
    assert_true(x[0] == 1.0f + 0x1p-10f && x[1] == 1.0f + 0x1p-10f && isinf(x[2]));
    assert_true(x[3] == -1.0f - 0x1p-10f && x[4] == 1.0f);
    float h[] = {1.0f + 0x1p-12f, 70000.0f};
    cube_round(h, 2, 2);
    assert_true(h[0] == 1.0f && isinf(h[1]));
    assert_false(cube_rounds(3)); /* not unless asked */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mm_any_layout),
        cmocka_unit_test(mm_strides_that_blas_cannot_read),
        cmocka_unit_test(every_float_type),
        cmocka_unit_test(every_type),
        cmocka_unit_test(booleans_are_or_of_and),
        cmocka_unit_test(empty_sums),
        cmocka_unit_test(batches),
        cmocka_unit_test(refusals),
        cmocka_unit_test(many_callers),
        cmocka_unit_test(rounding_of_the_cube_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
