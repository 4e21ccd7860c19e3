/* softnpu_reduce.c - the reduction driver and the row engine: layouts, dimension sets, pieces, special
 * values, every compiled variant against a plain loop. */
#include "softnpu_testing.h"

#include "softnpu/kernel/row_kernels.h"
#include "softnpu/op/executor.h"
#include "softnpu/op/order.h"
#include "softnpu/op/reduce.h"
#include "softnpu/op/rowwise.h"

#include <math.h>

TEST_OP(aclnnReduceSum, const aclTensor *, const aclIntArray *, bool, aclDataType, aclTensor *)
TEST_OP(aclnnAmax, const aclTensor *, const aclIntArray *, bool, aclTensor *)
TEST_OP(aclnnMaxDim, const aclTensor *, int64_t, bool, aclTensor *, aclTensor *)
TEST_OP(aclnnMean, const aclTensor *, const aclIntArray *, bool, aclDataType, aclTensor *)
TEST_OP(aclnnNLLLoss, const aclTensor *, const aclTensor *, const aclTensor *, int64_t, int64_t, aclTensor *,
        aclTensor *)
TEST_OP(aclnnUnique2, const aclTensor *, bool, bool, bool, aclTensor *, aclTensor *, aclTensor *)

static const op_row row = {.name = "test"};
static op_call call = {.row = &row};

/* A fixed sequence of multiples of 1/256 in [-2, 2): differences are exact in every type, so are most sums.
 */
static double noise(int64_t i)
{
    return (double)((uint64_t)(i * 2654435761u + 12345) % 1024) / 256.0 - 2.0;
}

static void fill(const aclTensor *t, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double v = noise(i);
        sn_convert((char *)rt_kernel_ptr(t->data) + i * (int64_t)sn_size(t->dtype), t->dtype, &v, ACL_DOUBLE,
                   1);
    }
}

static double element(const aclTensor *t, const int64_t *at)
{
    int64_t offset = t->offset;
    for (int32_t d = 0; d < t->rank; d++) offset += at[d] * t->stride[d];
    double v;
    sn_convert(&v, ACL_DOUBLE, (char *)rt_kernel_ptr(t->data) + offset * (int64_t)sn_size(t->dtype), t->dtype,
               1);
    return v;
}

/* Plain sum, maximum and its place for every result, in row-major order of the kept dimensions. */
struct plain {
    double sum, top, square;
    int64_t where, count;
};

static int64_t plain_reduce(const aclTensor *t, uint32_t dims, struct plain *out)
{
    int64_t at[SN_MAX_DIMS] = {0}, kept = 1, n = sn_numel(t);
    for (int32_t d = 0; d < t->rank; d++) kept *= dims >> d & 1 ? 1 : t->dim[d];
    for (int64_t i = 0; i < kept; i++) out[i] = (struct plain){0, -INFINITY, 0, -1, 0};
    for (int64_t i = 0; i < n; i++) {
        int64_t result = 0;
        for (int32_t d = 0; d < t->rank; d++)
            if (!(dims >> d & 1)) result = result * t->dim[d] + at[d];
        struct plain *p = &out[result];
        double v = element(t, at);
        p->sum += v;
        p->square += v * v;
        if (v > p->top) p->top = v, p->where = p->count;
        p->count++;
        for (int32_t d = t->rank; d-- > 0 && ++at[d] == t->dim[d];) at[d] = 0;
    }
    return kept;
}

static struct reduced reduce(const aclTensor *t, uint32_t dims, enum red_op op)
{
    struct reduction what = {.self = t, .dims = dims, .as = t->dtype, .op = op};
    struct reduced r;
    assert_int_equal(reduce_run(&call, &what, &r), 0);
    return r;
}

static void check_all_dims(const aclTensor *t)
{
    struct plain *want = malloc(sizeof *want * (size_t)(sn_numel(t) + 1));
    for (uint32_t dims = 0; dims < 1u << t->rank; dims++) {
        int64_t kept = plain_reduce(t, dims, want);
        const double *sum = reduce(t, dims, RED_SUM).acc, *square = reduce(t, dims, RED_SQUARE).acc,
                     *top = reduce(t, dims, RED_MAX).acc;
        struct reduced arg = reduce(t, dims, RED_ARGMAX), moments = reduce(t, dims, RED_MOMENTS);
        assert_int_equal(arg.kept, kept);
        for (int64_t i = 0; i < kept; i++) {
            double n = (double)want[i].count, mean = want[i].sum / n;
            assert_true(fabs(sum[i] - want[i].sum) <= 1e-7 * n);
            assert_true(fabs(square[i] - want[i].square) <= 1e-12 * want[i].square);
            assert_true(top[i] == want[i].top && ((double *)arg.acc)[i] == want[i].top);
            assert_int_equal(((int64_t *)arg.acc)[kept + i], want[i].where);
            assert_true(((double *)moments.acc)[i] == n);
            assert_true(fabs(((double *)moments.acc)[kept + i] - mean) <= 1e-12);
            double spread = want[i].square - n * mean * mean;
            assert_true(fabs(((double *)moments.acc)[2 * kept + i] - spread) <= 1e-9 * (want[i].square + 1));
        }
        scratch_reset();
    }
    free(want);
}

static void test_layouts(void **state)
{
    (void)state;
    static const struct {
        int64_t dim[3], stride[3], offset;
    } cases[] = {
        {{3, 5, 70}, {350, 70, 1}, 0},  {{3, 5, 70}, {1, 3, 15}, 0},    {{3, 5, 70}, {1000, 150, 2}, 7},
        {{40, 3, 40}, {120, 40, 1}, 0}, {{300, 2, 20}, {40, 20, 1}, 0}, {{2, 1, 40}, {40, 99, 1}, 0},
        {{4, 6, 5}, {0, 5, 1}, 3},      {{2, 3, 4}, {-12, 4, 1}, 12},   {{1, 1, 1}, {1, 1, 1}, 0},
        {{700, 1, 17}, {17, 17, 1}, 0},
    };
    static const aclDataType types[] = {ACL_FLOAT, ACL_DOUBLE};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        void *storage = test_alloc(40000 * sizeof(double));
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            aclTensor *t = test_view(storage, types[k], 3, cases[i].dim, cases[i].stride, cases[i].offset);
            fill(t, 40000);
            check_all_dims(t);
            aclDestroyTensor(t);
        }
        aclrtFree(storage);
    }
}

/* Long enough for several pieces by rows and by columns. */
static void test_pieces(void **state)
{
    (void)state;
    int64_t long_row[] = {2, 150001}, long_column[] = {3001, 33};
    aclTensor *a = test_tensor(ACL_FLOAT, 2, long_row), *b = test_tensor(ACL_FLOAT, 2, long_column);
    fill(a, sn_numel(a));
    fill(b, sn_numel(b));
    check_all_dims(a);
    check_all_dims(b);
    test_drop(a);
    test_drop(b);
}

static void test_narrow_types(void **state)
{
    (void)state;
    static const aclDataType types[] = {ACL_FLOAT16, ACL_BF16,  ACL_INT8, ACL_UINT8,
                                        ACL_INT16,   ACL_INT32, ACL_INT64};
    int64_t dim[] = {6, 700};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        aclTensor *t = test_tensor(types[k], 2, dim);
        fill(t, sn_numel(t));
        for (uint32_t dims = 1; dims < 4; dims++) {
            struct plain want[700];
            int64_t kept = plain_reduce(t, dims, want);
            struct reduced r = reduce(t, dims, RED_SUM), top = reduce(t, dims, RED_MAX);
            for (int64_t i = 0; i < kept; i++) {
                if (r.dtype == ACL_INT64)
                    assert_int_equal(((int64_t *)r.acc)[i], (int64_t)want[i].sum);
                else
                    assert_true(fabs(((double *)r.acc)[i] - want[i].sum) < 1e-4);
                if (r.dtype == ACL_INT64)
                    assert_int_equal(((int64_t *)top.acc)[i], (int64_t)want[i].top);
                else
                    assert_true(((double *)top.acc)[i] == want[i].top);
            }
            scratch_reset();
        }
        test_drop(t);
    }
}

static void test_special_values(void **state)
{
    (void)state;
    double v[200];
    for (int i = 0; i < 200; i++) v[i] = noise(i);
    v[77] = v[150] = NAN;
    aclTensor *t = test_values(ACL_FLOAT, 200, v);
    assert_true(isnan(*(double *)reduce(t, 1, RED_MAX).acc) && isnan(*(double *)reduce(t, 1, RED_MIN).acc));
    assert_int_equal(((int64_t *)reduce(t, 1, RED_ARGMAX).acc)[1], 77);
    assert_int_equal(((int64_t *)reduce(t, 1, RED_ARGMIN).acc)[1], 77);
    assert_false(isnan(*(double *)reduce(t, 1, RED_NANSUM).acc));
    test_drop(t);
    for (int i = 0; i < 200; i++) v[i] = i == 3 ? INFINITY : -INFINITY;
    t = test_values(ACL_FLOAT, 200, v);
    const double *log_sum = reduce(t, 1, RED_LOGSUM).acc;
    assert_true(log_sum[0] == INFINITY && log_sum[1] == 1);
    test_drop(t);
    scratch_reset();
}

static void test_errors(void **state)
{
    (void)state;
    int64_t dim[] = {3, 4}, kept[] = {3}, wrong[] = {4}, none[] = {0, 4};
    aclTensor *t = test_tensor(ACL_FLOAT, 2, dim), *out = test_tensor(ACL_FLOAT, 1, kept),
              *bad = test_tensor(ACL_FLOAT, 1, wrong), *empty = test_tensor(ACL_FLOAT, 2, none);
    int64_t last[] = {-1}, outside[] = {2}, twice[] = {1, -1}, first[] = {0};
    aclIntArray *by_last = aclCreateIntArray(last, 1), *by_outside = aclCreateIntArray(outside, 1),
                *by_twice = aclCreateIntArray(twice, 2), *by_first = aclCreateIntArray(first, 1);
    assert_int_equal(TEST_CALL(aclnnReduceSum, t, by_last, false, ACL_FLOAT, out), 0);
    assert_int_equal(TEST_CALL(aclnnReduceSum, t, by_last, false, ACL_FLOAT, bad), ACLNN_ERR_PARAM_INVALID);
    assert_int_equal(TEST_CALL(aclnnReduceSum, t, by_outside, false, ACL_FLOAT, out),
                     ACLNN_ERR_PARAM_INVALID);
    assert_int_equal(TEST_CALL(aclnnReduceSum, t, by_twice, false, ACL_FLOAT, out), ACLNN_ERR_PARAM_INVALID);
    assert_int_equal(TEST_CALL(aclnnReduceSum, t, NULL, false, ACL_FLOAT, out), ACLNN_ERR_PARAM_NULLPTR);
    assert_int_equal(TEST_CALL(aclnnAmax, empty, by_first, false, bad), ACLNN_ERR_PARAM_INVALID);
    assert_int_equal(TEST_CALL(aclnnReduceSum, empty, by_first, false, ACL_FLOAT, bad), 0);
    assert_true(test_at(bad, 0) == 0 && test_at(bad, 3) == 0);
    assert_int_equal(TEST_CALL(aclnnMean, empty, by_first, false, ACL_FLOAT, bad), 0);
    assert_true(isnan(test_at(bad, 2)));
    aclDestroyIntArray(by_last);
    aclDestroyIntArray(by_outside);
    aclDestroyIntArray(by_twice);
    aclDestroyIntArray(by_first);
    test_drop(t);
    test_drop(out);
    test_drop(bad);
    test_drop(empty);
}

/* ---- the row engine ---------------------------------------------------------------------------------- */

/* out[i] = in[i] - in[0], which needs all of a row. */
static void less_first(const struct row_call *r)
{
    float *y = r->p[0], first = ((const float *)r->p[1])[0];
    const float *x = r->p[1];
    assert_int_equal(r->n[0], r->n[1]);
    for (int64_t i = 0; i < r->n[0]; i++) y[i] = x[i] - first;
}

static void check_rows(const aclTensor *out, const aclTensor *in, int32_t first, int32_t count)
{
    int64_t n = sn_numel(in), at[SN_MAX_DIMS] = {0};
    double *want = malloc(sizeof *want * (size_t)(n + 1));
    for (int pass = 0; pass < 2; pass++) {
        memset(at, 0, sizeof at);
        for (int64_t i = 0; i < n; i++) {
            int64_t origin[SN_MAX_DIMS];
            memcpy(origin, at, sizeof origin);
            for (int32_t d = first; d < first + count; d++) origin[d] = 0;
            if (!pass)
                want[i] = element(in, at) - element(in, origin);
            else
                assert_true(element(out, at) == want[i]);
            for (int32_t d = in->rank; d-- > 0 && ++at[d] == in->dim[d];) at[d] = 0;
        }
        struct row_operand operand[] = {{out, ACL_FLOAT}, {in, ACL_FLOAT}};
        struct row_space space = {.first = first, .count = count};
        if (!pass) assert_int_equal(row_run(&call, &space, operand, 1, 1, less_first, NULL), 0);
        scratch_reset();
    }
    free(want);
}

static void test_rows(void **state)
{
    (void)state;
    static const int64_t dim[] = {7, 5, 37};
    static const struct {
        int64_t stride[3], offset;
    } views[] = {
        {{185, 37, 1}, 0}, {{1, 7, 35}, 0}, {{37, 259, 1}, 0}, {{800, 100, 2}, 5}, {{-185, -37, -1}, 1294}};
    static const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16, ACL_DOUBLE, ACL_INT32, ACL_INT8};
    enum { VIEWS = sizeof views / sizeof *views, TYPES = sizeof types / sizeof *types };
    void *from = test_alloc(6000 * 8), *to = test_alloc(6000 * 8);
    for (int k = 0; k < TYPES * VIEWS * VIEWS; k++) {
        aclDataType type = types[k % TYPES];
        int i = k / TYPES % VIEWS, o = k / TYPES / VIEWS;
        aclTensor *in = test_view(from, type, 3, dim, views[i].stride, views[i].offset);
        aclTensor *out = test_view(to, type, 3, dim, views[o].stride, views[o].offset);
        for (int32_t first = 0; first < 3; first++)
            for (int32_t count = 1; first + count <= 3; count++) {
                fill(in, 6000);
                check_rows(out, in, first, count);
                check_rows(in, in, first, count); /* in place */
            }
        aclDestroyTensor(in);
        aclDestroyTensor(out);
    }
    /* overlapping but not the same view */
    int64_t flat[] = {50, 20}, stride[] = {20, 1};
    aclTensor *in = test_view(from, ACL_FLOAT, 2, flat, stride, 0),
              *out = test_view(from, ACL_FLOAT, 2, flat, stride, 3);
    fill(in, 6000);
    check_rows(out, in, 1, 1);
    aclDestroyTensor(in);
    aclDestroyTensor(out);
    aclrtFree(from);
    aclrtFree(to);
}

/* ---- kernels ----------------------------------------------------------------------------------------- */

static void test_softmax_rows(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 10000; n = n * 5 / 3 + 1) {
        float *x = malloc(sizeof *x * (size_t)n), *y = malloc(sizeof *y * (size_t)n);
        double top = -INFINITY, sum = 0;
        for (int64_t i = 0; i < n; i++) {
            x[i] = (float)noise(i) * 20;
            if ((double)x[i] > top) top = (double)x[i];
        }
        for (int64_t i = 0; i < n; i++) sum += exp((double)x[i] - top);
        row_kernels()->softmax[0](y, x, n);
        for (int64_t i = 0; i < n; i++) {
            double want = exp((double)x[i] - top) / sum;
            assert_true(fabs((double)y[i] - want) <= 4e-7 * want + 1e-38);
        }
        row_kernels()->log_softmax[0](y, x, n);
        for (int64_t i = 0; i < n; i++)
            assert_true(fabs((double)y[i] - ((double)x[i] - top - log(sum))) <= 1e-5);
        free(x);
        free(y);
    }
}

static void test_order(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 5000; n = n * 3 + 1) {
        struct order_item *item = malloc(2 * (size_t)n * sizeof *item);
        double *v = malloc((size_t)n * sizeof *v);
        for (int64_t i = 0; i < n; i++) v[i] = i % 17 == 5 ? NAN : i % 11 == 3 ? -0.0 : floor(noise(i) * 8);
        for (int descending = 0; descending < 2; descending++) {
            order_keys(item, v, ACL_DOUBLE, n, descending);
            order_sort(item, item + n, n);
            for (int64_t i = 1; i < n; i++) {
                double a = v[item[descending ? i : i - 1].index], b = v[item[descending ? i - 1 : i].index];
                assert_true(a <= b || isnan(b));
                if (a == b || (isnan(a) && isnan(b))) assert_true(item[i - 1].index < item[i].index);
            }
        }
        free(item);
        free(v);
    }
}

/* ---- operators end to end ---------------------------------------------------------------------------- */

static void test_target_outside(void **state)
{
    (void)state;
    int64_t dim[] = {2, 3}, one = 1;
    double classes[] = {1, 7}, weights[] = {1, 1, 1};
    aclTensor *x = test_tensor(ACL_FLOAT, 2, dim), *t = test_values(ACL_INT64, 2, classes),
              *w = test_values(ACL_FLOAT, 3, weights), *out = test_tensor(ACL_FLOAT, 0, &one),
              *total = test_tensor(ACL_FLOAT, 0, &one);
    assert_int_equal(TEST_CALL(aclnnNLLLoss, x, t, w, 1, 7, out, total), 0); /* 7 is ignored */
    assert_true(test_at(total, 0) == 1);
    test_drop(x);
    test_drop(t);
    test_drop(w);
    test_drop(out);
    test_drop(total);
}

static void test_unique_shapes(void **state)
{
    (void)state;
    double v[] = {3, 1, 3, 2, 1, 3};
    int64_t n = 6;
    aclTensor *x = test_values(ACL_INT32, n, v), *y = test_tensor(ACL_INT32, 1, &n),
              *inverse = test_tensor(ACL_INT64, 1, &n), *counts = test_tensor(ACL_INT64, 1, &n);
    assert_int_equal(TEST_CALL(aclnnUnique2, x, true, true, true, y, inverse, counts), 0);
    int64_t *dims;
    uint64_t rank;
    assert_int_equal(aclGetViewShape(y, &dims, &rank), 0);
    assert_true(rank == 1 && dims[0] == 3);
    free(dims);
    static const int64_t want_inverse[] = {2, 0, 2, 1, 0, 2}, want_counts[] = {2, 1, 3};
    for (int i = 0; i < 6; i++) assert_true(test_at(inverse, i) == (double)want_inverse[i]);
    for (int i = 0; i < 3; i++)
        assert_true(test_at(counts, i) == (double)want_counts[i] && test_at(y, i) == i + 1);
    test_drop(x);
    test_drop(y);
    test_drop(inverse);
    test_drop(counts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_narrow_types),   cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_errors),         cmocka_unit_test(test_rows),
        cmocka_unit_test(test_softmax_rows),   cmocka_unit_test(test_order),
        cmocka_unit_test(test_target_outside), cmocka_unit_test(test_unique_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
