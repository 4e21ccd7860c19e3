/* softnpu_lists.c - operators over lists of tensors, fused optimizer steps, loss scaling, coalescing, shapes.
 */
#include "softnpu_testing.h"
#include "softnpu_keep.h"

#include <math.h>

TEST_OP(aclnnForeachAddListV2, const aclTensorList *, const aclTensorList *, const aclScalar *,
        const aclTensorList *)
TEST_OP(aclnnForeachAddcdivScalar, const aclTensorList *, const aclTensorList *, const aclTensorList *,
        const aclTensor *, const aclTensorList *)
TEST_OP(aclnnForeachAddcmulScalarList, const aclTensorList *, const aclTensorList *, const aclTensorList *,
        const aclTensor *, const aclTensorList *)
TEST_OP(aclnnForeachMulScalarList, const aclTensorList *, const aclScalarList *, const aclTensorList *)
TEST_OP(aclnnForeachSqrt, const aclTensorList *, const aclTensorList *)
TEST_OP(aclnnForeachNorm, const aclTensorList *, const aclScalar *, const aclTensorList *)
TEST_OP(aclnnForeachRoundOffNumberV2, const aclTensorList *, const aclScalar *, const aclTensorList *)
TEST_OP(aclnnForeachMaximumScalarV2, const aclTensorList *, const aclScalar *, const aclTensorList *)
TEST_OP(aclnnForeachZeroInplace, const aclTensorList *)
TEST_OP(aclnnForeachNonFiniteCheckAndUnscale, const aclTensorList *, const aclTensor *, const aclTensor *)
TEST_OP(aclnnAmpUpdateScale, const aclTensor *, const aclTensor *, const aclTensor *, double, double, int64_t,
        aclTensor *, aclTensor *)
TEST_OP(aclnnApplyAdamWV2, aclTensor *, aclTensor *, aclTensor *, const aclTensor *, const aclTensor *,
        const aclTensor *, float, float, float, float, float, bool, bool)
TEST_OP(aclnnCoalesceSparse, const aclTensor *, const aclTensor *, const aclTensor *, const aclTensor *,
        aclTensor *, aclTensor *)
TEST_OP(aclnnCat, const aclTensorList *, int64_t, aclTensor *)
TEST_OP(aclnnRoll, const aclTensor *, const aclIntArray *, const aclIntArray *, aclTensor *)
TEST_OP(aclnnConstantPadNd, const aclTensor *, const aclIntArray *, const aclScalar *, aclTensor *)
TEST_OP(aclnnReflectionPad1dBackward, const aclTensor *, const aclTensor *, const aclIntArray *, aclTensor *)
TEST_OP(aclnnTril, const aclTensor *, int64_t, aclTensor *)
TEST_OP(aclnnArange, const aclScalar *, const aclScalar *, const aclScalar *, aclTensor *)
TEST_OP(aclnnRepeatInterleaveGrad, const aclTensor *, const aclTensor *, int64_t, aclTensor *)

#define VALUES(t, ...)                                                                                       \
    test_values(t, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (const double[]){__VA_ARGS__})

static void assert_values(const aclTensor *t, const double *want)
{
    for (int64_t i = 0; i < sn_numel(t); i++)
        if (!(fabs(test_at(t, i) - want[i]) <= 1e-6 * fabs(want[i])))
            fail_msg("element %lld is %.9g, expected %.9g", (long long)i, test_at(t, i), want[i]);
}
#define ASSERT_VALUES(t, ...) assert_values(t, (const double[]){__VA_ARGS__})

static aclTensorList *pair(aclTensor *a, aclTensor *b)
{
    const aclTensor *all[] = {a, b};
    return aclCreateTensorList(all, b ? 2 : 1);
}
static aclScalar *number(double x)
{
    return aclCreateScalar(&x, ACL_DOUBLE);
}
static aclIntArray *numbers(int64_t a, int64_t b)
{
    return aclCreateIntArray((int64_t[]){a, b}, 2);
}

/* ---- lists ------------------------------------------------------------------------------------------- */

static void lists_with_one_scalar(void **state)
{
    (void)state;
    aclTensor *a = VALUES(ACL_FLOAT, 1, 2), *b = VALUES(ACL_FLOAT, 3);
    aclTensorList *x = pair(a, b), *y = pair(VALUES(ACL_FLOAT, 10, 20), VALUES(ACL_FLOAT, 30));
    assert_int_equal(TEST_CALL(aclnnForeachAddListV2, x, y, number(0.5), x), 0);
    ASSERT_VALUES(a, 6, 12);
    ASSERT_VALUES(b, 18);
    assert_int_equal(TEST_CALL(aclnnForeachAddcdivScalar, x, y, y, VALUES(ACL_FLOAT, 2), x), 0);
    ASSERT_VALUES(a, 8, 14);
    assert_int_equal(TEST_CALL(aclnnForeachZeroInplace, x), 0);
    ASSERT_VALUES(b, 0);
}

static void lists_with_a_scalar_each(void **state)
{
    (void)state;
    aclTensor *a = VALUES(ACL_FLOAT, 1, 2), *b = VALUES(ACL_FLOAT, 3);
    aclTensorList *x = pair(a, b);
    const aclScalar *factors[] = {number(2), number(3)};
    assert_int_equal(TEST_CALL(aclnnForeachMulScalarList, x, aclCreateScalarList(factors, 2), x), 0);
    ASSERT_VALUES(a, 2, 4);
    ASSERT_VALUES(b, 9);
    assert_int_equal(TEST_CALL(aclnnForeachAddcmulScalarList, x, x, x, VALUES(ACL_FLOAT, 1, 2), x), 0);
    ASSERT_VALUES(a, 6, 20);
    ASSERT_VALUES(b, 171);
    assert_int_equal(TEST_CALL(aclnnForeachMulScalarList, x, aclCreateScalarList(factors, 1), x),
                     ACLNN_ERR_PARAM_INVALID);
}

static void lists_of_integers_stay_integers(void **state)
{
    (void)state;
    aclTensor *a = VALUES(ACL_INT32, 2147483647, -5);
    int64_t one = 1;
    aclTensorList *x = pair(a, NULL), *y = pair(VALUES(ACL_INT32, 1, 0), NULL);
    assert_int_equal(TEST_CALL(aclnnForeachAddListV2, x, y, aclCreateScalar(&one, ACL_INT64), x), 0);
    ASSERT_VALUES(a, -2147483648.0, -5);
}

static void lists_round_and_bound(void **state)
{
    (void)state;
    static const double want[][5] = {{-2, 0, 2, 2, 3},           {-3, 0, 1, 2, 2}, {-2, 1, 2, 3, 3},
                                     {-3, 1, 2, 3, 3},           {-2, 0, 1, 2, 2}, {-3, 1, 1, 3, 3},
                                     {-0.5, 0.5, 0.5, 0.5, 0.75}};
    for (int mode = 1; mode <= 7; mode++) {
        aclTensor *a = VALUES(ACL_FLOAT, -2.5, 0.5, 1.5, 2.5, 2.75);
        int64_t code = mode;
        aclTensorList *x = pair(a, NULL);
        assert_int_equal(TEST_CALL(aclnnForeachRoundOffNumberV2, x, aclCreateScalar(&code, ACL_INT64), x), 0);
        assert_values(a, want[mode - 1]);
    }
    aclTensor *a = VALUES(ACL_BF16, -1, 5, NAN);
    aclTensorList *x = pair(a, NULL);
    assert_int_equal(TEST_CALL(aclnnForeachMaximumScalarV2, x, number(2), x), 0);
    assert_true(test_at(a, 0) == 2 && test_at(a, 1) == 5 && isnan(test_at(a, 2)));
}

static void lists_norms(void **state)
{
    (void)state;
    aclTensor *two = VALUES(ACL_FLOAT, 0), *most = VALUES(ACL_FLOAT, 0), *a = VALUES(ACL_FLOAT, 3, -4);
    assert_int_equal(TEST_CALL(aclnnForeachNorm, pair(a, NULL), number(2), pair(two, NULL)), 0);
    assert_int_equal(TEST_CALL(aclnnForeachNorm, pair(a, NULL), number(INFINITY), pair(most, NULL)), 0);
    ASSERT_VALUES(two, 5);
    ASSERT_VALUES(most, 4);
}

static void lists_that_do_not_match_are_refused(void **state)
{
    (void)state;
    aclTensorList *x = pair(VALUES(ACL_FLOAT, 1, 2), NULL);
    assert_int_equal(TEST_CALL(aclnnForeachSqrt, x, pair(VALUES(ACL_FLOAT, 1), NULL)),
                     ACLNN_ERR_PARAM_INVALID);
    assert_int_equal(TEST_CALL(aclnnForeachSqrt, x, pair(VALUES(ACL_FLOAT16, 1, 2), NULL)),
                     ACLNN_ERR_PARAM_INVALID);
    assert_int_equal(
        TEST_CALL(aclnnForeachSqrt, pair(VALUES(ACL_INT32, 1), NULL), pair(VALUES(ACL_INT32, 1), NULL)),
        ACLNN_ERR_PARAM_INVALID);
}

/* ---- optimizers, loss scale -------------------------------------------------------------------------- */

static void adamw_step(void **state)
{
    (void)state;
    aclTensor *var = VALUES(ACL_FLOAT, 1), *m = VALUES(ACL_FLOAT, 0.5), *v = VALUES(ACL_FLOAT, 0.25);
    aclTensor *most = VALUES(ACL_FLOAT, 9), *grad = VALUES(ACL_FLOAT, 2), *step = VALUES(ACL_FLOAT, 1);
    assert_int_equal(TEST_CALL(aclnnApplyAdamWV2, var, m, v, most, grad, step, 0.1f, 0.9f, 0.99f, 0.01f,
                               1e-8f, true, false),
                     0);
    double m2 = 0.9 * 0.5 + 0.1 * 2, v2 = 0.99 * 0.25 + 0.01 * 4, correct1 = 1 - 0.9 * 0.9,
           correct2 = 1 - 0.99 * 0.99;
    double want = 1 - 0.1 * 0.01 - 0.1 * (m2 / correct1) / (sqrt(9 / correct2) + 1e-8);
    assert_true(fabs(test_at(m, 0) - m2) < 1e-6 && fabs(test_at(v, 0) - v2) < 1e-6 && test_at(most, 0) == 9);
    assert_true(fabs(test_at(var, 0) - want) < 1e-6);
}

static void loss_scale(void **state)
{
    (void)state;
    aclTensor *a = VALUES(ACL_FLOAT16, 2, 4), *found = VALUES(ACL_FLOAT, 0),
              *inverse = VALUES(ACL_FLOAT, 0.5);
    assert_int_equal(TEST_CALL(aclnnForeachNonFiniteCheckAndUnscale, pair(a, NULL), found, inverse), 0);
    ASSERT_VALUES(a, 1, 2);
    ASSERT_VALUES(found, 0);
    aclTensor *bad = VALUES(ACL_FLOAT, 1, -INFINITY);
    assert_int_equal(TEST_CALL(aclnnForeachNonFiniteCheckAndUnscale, pair(a, bad), found, inverse), 0);
    ASSERT_VALUES(found, 1);
    aclTensor *scale = VALUES(ACL_FLOAT, 8), *tracker = VALUES(ACL_INT32, 1);
    assert_int_equal(TEST_CALL(aclnnAmpUpdateScale, scale, tracker, found, 2, 0.5, 2, scale, tracker), 0);
    ASSERT_VALUES(scale, 4);
    ASSERT_VALUES(tracker, 0);
    aclTensor *fine = VALUES(ACL_FLOAT, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(TEST_CALL(aclnnAmpUpdateScale, scale, tracker, fine, 2, 0.5, 2, scale, tracker), 0);
    ASSERT_VALUES(scale, 8);
}

/* ---- others ------------------------------------------------------------------------------------------ */

static void coalesce(void **state)
{
    (void)state;
    aclTensor *to = VALUES(ACL_INT32, 1, 0, 1), *indices = test_tensor(ACL_INT32, 2, (int64_t[]){3, 2});
    int32_t *at = sn_data(indices);
    memcpy(at, (int32_t[]){5, 6, 1, 2, 5, 6}, 6 * sizeof *at);
    aclTensor *values = VALUES(ACL_FLOAT, 10, 20, 30), *sums = VALUES(ACL_FLOAT, 0, 0);
    aclTensor *out = test_tensor(ACL_INT32, 2, (int64_t[]){2, 2});
    assert_int_equal(TEST_CALL(aclnnCoalesceSparse, VALUES(ACL_INT32, 0, 1), to, indices, values, out, sums),
                     0);
    ASSERT_VALUES(out, 1, 2, 5, 6);
    ASSERT_VALUES(sums, 20, 40);
}

static void shapes(void **state)
{
    (void)state;
    aclTensor *a = VALUES(ACL_FLOAT, 1, 2, 3, 4), *joined = VALUES(ACL_FLOAT, 0, 0, 0, 0, 0, 0),
              *out = VALUES(ACL_FLOAT, 0, 0, 0, 0);
    assert_int_equal(TEST_CALL(aclnnCat, pair(a, VALUES(ACL_INT32, 8, 9)), 0, joined), 0);
    ASSERT_VALUES(joined, 1, 2, 3, 4, 8, 9);
    int64_t shift = -1, zero = 0;
    assert_int_equal(TEST_CALL(aclnnRoll, a, aclCreateIntArray(&shift, 1), aclCreateIntArray(&zero, 1), out),
                     0);
    ASSERT_VALUES(out, 2, 3, 4, 1);
    assert_int_equal(TEST_CALL(aclnnConstantPadNd, a, numbers(-1, 3), number(7), joined), 0);
    ASSERT_VALUES(joined, 2, 3, 4, 7, 7, 7);
    aclTensor *grad = test_tensor(ACL_FLOAT, 2, (int64_t[]){1, 5}),
              *self = test_tensor(ACL_FLOAT, 2, (int64_t[]){1, 3});
    for (int i = 0; i < 5; i++) ((float *)sn_data(grad))[i] = 1;
    assert_int_equal(TEST_CALL(aclnnReflectionPad1dBackward, grad, self, numbers(1, 1), self), 0);
    ASSERT_VALUES(self, 1, 3, 1); /* the document's own example */
    aclTensor *square = test_tensor(ACL_FLOAT, 2, (int64_t[]){2, 2});
    for (int i = 0; i < 4; i++) ((float *)sn_data(square))[i] = (float)(i + 1);
    assert_int_equal(TEST_CALL(aclnnTril, square, 0, square), 0);
    ASSERT_VALUES(square, 1, 0, 3, 4);
    assert_int_equal(TEST_CALL(aclnnArange, number(1), number(2), number(0.25), out), 0);
    ASSERT_VALUES(out, 1, 1.25, 1.5, 1.75);
    aclTensor *sums = VALUES(ACL_FLOAT, 0, 0);
    assert_int_equal(TEST_CALL(aclnnRepeatInterleaveGrad, a, VALUES(ACL_INT64, 1, 3), 0, sums), 0);
    ASSERT_VALUES(sums, 1, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_with_one_scalar),
        cmocka_unit_test(lists_with_a_scalar_each),
        cmocka_unit_test(lists_of_integers_stay_integers),
        cmocka_unit_test(lists_round_and_bound),
        cmocka_unit_test(lists_norms),
        cmocka_unit_test(lists_that_do_not_match_are_refused),
        cmocka_unit_test(adamw_step),
        cmocka_unit_test(loss_scale),
        cmocka_unit_test(coalesce),
        cmocka_unit_test(shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
