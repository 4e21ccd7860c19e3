/* softnpu_index.c - index, scatter and selection operators against their definitions, on odd layouts too. */
#include "softnpu_testing.h"
#include "softnpu_keep.h"

TEST_OP(aclnnIndex, const aclTensor *, const aclTensorList *, aclTensor *)
TEST_OP(aclnnIndexPutImpl, aclTensor *, const aclTensorList *, const aclTensor *, bool, bool)
TEST_OP(aclnnIndexSelect, const aclTensor *, int64_t, const aclTensor *, aclTensor *)
TEST_OP(aclnnIndexAdd, const aclTensor *, int64_t, const aclTensor *, const aclTensor *, const aclScalar *,
        aclTensor *)
TEST_OP(aclnnInplaceIndexFillTensor, aclTensor *, int64_t, const aclIntArray *, const aclScalar *)
TEST_OP(aclnnTake, const aclTensor *, const aclTensor *, aclTensor *)
TEST_OP(aclnnGather, const aclTensor *, int64_t, const aclTensor *, aclTensor *)
TEST_OP(aclnnScatter, const aclTensor *, int64_t, const aclTensor *, const aclTensor *, int64_t, aclTensor *)
TEST_OP(aclnnInplaceScatterValue, aclTensor *, int64_t, const aclTensor *, const aclScalar *, int64_t)
TEST_OP(aclnnScatterAdd, const aclTensor *, int64_t, const aclTensor *, const aclTensor *, aclTensor *)
TEST_OP(aclnnInplaceScatterReduce, aclTensor *, int64_t, const aclTensor *, const aclTensor *, int64_t, bool)
TEST_OP(aclnnNonzero, const aclTensor *, aclTensor *)
TEST_OP(aclnnNonzeroV2, const aclTensor *, aclTensor *)
TEST_OP(aclnnMaskedSelect, const aclTensor *, const aclTensor *, aclTensor *)
TEST_OP(aclnnInplaceMaskedScatter, aclTensor *, const aclTensor *, const aclTensor *)
TEST_OP(aclnnEmbedding, const aclTensor *, const aclTensor *, aclTensor *)
TEST_OP(aclnnEmbeddingDenseBackward, const aclTensor *, const aclTensor *, uint64_t, uint64_t, bool,
        aclTensor *)
TEST_OP(aclnnScatterNdUpdate, aclTensor *, const aclTensor *, const aclTensor *)

#define DIM(...)                                                                                             \
    (sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                                  \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }

/* A tensor of the shape that holds 0, 1, 2, ... in row-major order. */
static aclTensor *count_up(aclDataType t, int32_t rank, const int64_t *dim)
{
    aclTensor *v = test_tensor(t, rank, dim);
    for (int64_t i = 0; i < sn_numel(v); i++) {
        double x = (double)i;
        sn_convert((char *)sn_data(v) + i * (int64_t)sn_size(t), t, &x, ACL_DOUBLE, 1);
    }
    return v;
}

/* A tensor of the shape with the given values. */
static aclTensor *filled(aclDataType t, int32_t rank, const int64_t *dim, const double *x)
{
    aclTensor *v = test_tensor(t, rank, dim);
    sn_convert(sn_data(v), t, x, ACL_DOUBLE, sn_numel(v));
    return v;
}
#define VALUES(t, ...)                                                                                       \
    test_values(t, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (const double[]){__VA_ARGS__})

static aclTensorList *list(aclTensor *a, aclTensor *b, aclTensor *c)
{
    const aclTensor *all[] = {a, b, c};
    return aclCreateTensorList(all, c ? 3 : b ? 2 : 1);
}

static void assert_values(const aclTensor *t, const double *want)
{
    for (int64_t i = 0; i < sn_numel(t); i++)
        if (test_at(t, i) != want[i])
            fail_msg("element %lld is %g, expected %g", (long long)i, test_at(t, i), want[i]);
}
#define ASSERT_VALUES(t, ...) assert_values(t, (const double[]){__VA_ARGS__})

static aclScalar *number(double x)
{
    return aclCreateScalar(&x, ACL_DOUBLE);
}

/* ---- index ------------------------------------------------------------------------------------------- */

static void index_adjacent(void **state)
{
    (void)state;
    aclTensor *self = count_up(ACL_FLOAT, DIM(2, 3, 4)), *out = test_tensor(ACL_FLOAT, DIM(2, 2, 4));
    aclTensor *none = test_tensor(ACL_FLOAT, DIM(0)), *at = VALUES(ACL_INT64, 2, -3);
    assert_int_equal(TEST_CALL(aclnnIndex, self, list(none, at, NULL), out), 0);
    ASSERT_VALUES(out, 8, 9, 10, 11, 0, 1, 2, 3, 20, 21, 22, 23, 12, 13, 14, 15);
}

static void index_apart_goes_first(void **state)
{
    (void)state;
    aclTensor *self = count_up(ACL_INT64, DIM(2, 3, 4)), *out = test_tensor(ACL_INT64, DIM(2, 3));
    /* self is int64: a placeholder is told from an empty index by having no storage */
    aclTensor *none = test_view(NULL, ACL_INT64, DIM(0), NULL, 0);
    aclTensor *a = VALUES(ACL_INT64, 0, 1), *b = VALUES(ACL_INT64, 3, 0);
    assert_int_equal(TEST_CALL(aclnnIndex, self, list(a, none, b), out), 0);
    ASSERT_VALUES(out, 3, 7, 11, 12, 16, 20);
}

static void index_broadcasts_and_takes_views(void **state)
{
    (void)state;
    void *storage = test_alloc(24 * 4);
    aclTensor *plain = test_view(storage, ACL_FLOAT, DIM(4, 6), NULL, 0);
    for (int i = 0; i < 24; i++) ((float *)sn_data(plain))[i] = (float)i;
    aclTensor *turned = test_view(storage, ACL_FLOAT, DIM(6, 4), (int64_t[]){1, 6}, 0);
    aclTensor *rows = filled(ACL_INT64, DIM(2, 1), (double[]){5, 0}), *columns = VALUES(ACL_INT64, 0, 3, 1);
    aclTensor *out = test_tensor(ACL_FLOAT, DIM(2, 3));
    assert_int_equal(TEST_CALL(aclnnIndex, turned, list(rows, columns, NULL), out), 0);
    ASSERT_VALUES(out, 5, 23, 11, 0, 18, 6);
}

static void index_empty(void **state)
{
    (void)state;
    aclTensor *self = count_up(ACL_INT64, DIM(3, 2)), *out = test_tensor(ACL_INT64, DIM(0, 2));
    assert_int_equal(TEST_CALL(aclnnIndex, self, list(test_tensor(ACL_INT64, DIM(0)), NULL, NULL), out), 0);
}

static void index_outside_names_itself(void **state)
{
    (void)state;
    aclTensor *self = count_up(ACL_FLOAT, DIM(3)), *out = test_tensor(ACL_FLOAT, DIM(1));
    uint64_t size;
    aclOpExecutor *ex;
    aclTensorList *at = list(VALUES(ACL_INT64, 3), NULL, NULL);
    assert_int_equal(aclnnIndexGetWorkspaceSize(self, at, out, &size, &ex), 0);
    int launched = aclnnIndex(NULL, 0, ex, NULL), waited = aclrtSynchronizeDevice();
    assert_int_equal(launched ? launched : waited, ACL_ERROR_RT_AICORE_EXCEPTION);
    aclrtResetDeviceForce(0);
    assert_int_equal(aclrtSetDevice(0), 0);
}

static void index_wrong_shape_is_refused(void **state)
{
    (void)state;
    aclTensor *self = count_up(ACL_FLOAT, DIM(3, 2)), *out = test_tensor(ACL_FLOAT, DIM(1, 3));
    aclTensorList *at = list(VALUES(ACL_INT64, 1), NULL, NULL);
    assert_int_equal(TEST_CALL(aclnnIndex, self, at, out), ACLNN_ERR_PARAM_INVALID);
    assert_non_null(strstr(aclGetRecentErrMsg(), "aclnnIndex"));
}

/* An index that came of an empty mask has a placeholder's looks when self is of the index type. */
static void put_nowhere(void **state)
{
    (void)state;
    aclTensor *self = count_up(ACL_INT64, DIM(2, 3)), *value = VALUES(ACL_INT64, 9);
    aclTensor *empty = test_view(test_alloc(8), ACL_INT64, DIM(0), NULL, 0);
    aclTensor *none = test_view(NULL, ACL_INT64, DIM(0), NULL, 0);
    assert_int_equal(TEST_CALL(aclnnIndexPutImpl, self, list(empty, empty, NULL), value, false, false), 0);
    assert_int_equal(TEST_CALL(aclnnIndexPutImpl, self, list(none, empty, NULL), value, false, false), 0);
    assert_int_equal(TEST_CALL(aclnnIndexPutImpl, self, list(none, none, NULL), value, false, false), 0);
    ASSERT_VALUES(self, 0, 1, 2, 3, 4, 5);
    assert_int_equal(
        TEST_CALL(aclnnIndexPutImpl, self, list(none, VALUES(ACL_INT64, 1), NULL), value, false, false), 0);
    ASSERT_VALUES(self, 0, 9, 2, 3, 9, 5);
}

static void put_sets_and_adds(void **state)
{
    (void)state;
    aclTensor *at = VALUES(ACL_INT64, 0, 2, 0);
    aclTensor *self = count_up(ACL_FLOAT16, DIM(3, 2)), *one = VALUES(ACL_FLOAT16, 10);
    assert_int_equal(TEST_CALL(aclnnIndexPutImpl, self, list(at, NULL, NULL), one, true, false), 0);
    ASSERT_VALUES(self, 20, 21, 2, 3, 14, 15);
    assert_int_equal(TEST_CALL(aclnnIndexPutImpl, self, list(at, NULL, NULL), one, false, false), 0);
    ASSERT_VALUES(self, 10, 10, 2, 3, 10, 10);
}

/* The last of several writes to one place wins, and 2049 sums of f16 ones do not stop at 2048. */
static void put_accumulates_in_f32(void **state)
{
    (void)state;
    enum { N = 3000 };
    aclTensor *at = test_tensor(ACL_INT64, DIM(N)), *ones = test_tensor(ACL_FLOAT16, DIM(N));
    for (int i = 0; i < N; i++) {
        double one = 1;
        sn_convert((uint16_t *)sn_data(ones) + i, ACL_FLOAT16, &one, ACL_DOUBLE, 1);
    }
    aclTensor *self = VALUES(ACL_FLOAT16, 0, 5);
    assert_int_equal(TEST_CALL(aclnnIndexPutImpl, self, list(at, NULL, NULL), ones, true, false), 0);
    ASSERT_VALUES(self, 3000, 5);
}

static void put_writes_into_views(void **state)
{
    (void)state;
    void *storage = test_alloc(6 * 4);
    aclTensor *turned = test_view(storage, ACL_FLOAT, DIM(2, 3), (int64_t[]){1, 2}, 0);
    aclTensor *plain = test_view(storage, ACL_FLOAT, DIM(6), NULL, 0);
    aclTensor *none = test_tensor(ACL_FLOAT, DIM(0)), *at = VALUES(ACL_INT32, 2, 0);
    aclTensor *values = filled(ACL_FLOAT, DIM(2, 1), (double[]){7, 8});
    assert_int_equal(TEST_CALL(aclnnIndexPutImpl, turned, list(none, at, NULL), values, false, false), 0);
    ASSERT_VALUES(plain, 7, 8, 0, 0, 7, 8);
}

/* ---- rows -------------------------------------------------------------------------------------------- */

static void select_every_size(void **state)
{
    (void)state;
    static const aclDataType types[] = {ACL_UINT8, ACL_BF16, ACL_INT32, ACL_DOUBLE, ACL_COMPLEX128};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        aclTensor *self = count_up(types[k], DIM(3, 4)), *out = test_tensor(types[k], DIM(3, 2));
        assert_int_equal(TEST_CALL(aclnnIndexSelect, self, -1, VALUES(ACL_INT64, 3, 1), out), 0);
        ASSERT_VALUES(out, 3, 1, 7, 5, 11, 9);
    }
}

static void add_rows(void **state)
{
    (void)state;
    aclTensor *self = count_up(ACL_INT32, DIM(2, 3)), *out = test_tensor(ACL_INT32, DIM(2, 3));
    aclTensor *source = count_up(ACL_INT32, DIM(2, 2));
    assert_int_equal(TEST_CALL(aclnnIndexAdd, self, 1, VALUES(ACL_INT64, 2, 2), source, number(2), out),
                     ACLNN_ERR_PARAM_INVALID); /* a floating alpha for integers */
    int64_t two = 2;
    aclScalar *alpha = aclCreateScalar(&two, ACL_INT64);
    assert_int_equal(TEST_CALL(aclnnIndexAdd, self, 1, VALUES(ACL_INT64, 2, 2), source, alpha, out), 0);
    ASSERT_VALUES(out, 0, 1, 4, 3, 4, 15);
    ASSERT_VALUES(self, 0, 1, 2, 3, 4, 5);
}

static void fill_columns(void **state)
{
    (void)state;
    aclTensor *self = count_up(ACL_FLOAT, DIM(2, 3));
    aclIntArray *at = aclCreateIntArray((int64_t[]){0, -1}, 2);
    assert_int_equal(TEST_CALL(aclnnInplaceIndexFillTensor, self, 1, at, number(9)), 0);
    ASSERT_VALUES(self, 9, 1, 9, 9, 4, 9);
}

static void take_flat(void **state)
{
    (void)state;
    void *storage = test_alloc(6 * 4);
    aclTensor *plain = test_view(storage, ACL_FLOAT, DIM(6), NULL, 0);
    for (int i = 0; i < 6; i++) ((float *)sn_data(plain))[i] = (float)i;
    aclTensor *turned = test_view(storage, ACL_FLOAT, DIM(3, 2), (int64_t[]){1, 3}, 0);
    aclTensor *out = test_tensor(ACL_FLOAT, DIM(3));
    assert_int_equal(TEST_CALL(aclnnTake, turned, VALUES(ACL_INT64, 1, -1, 2), out), 0);
    ASSERT_VALUES(out, 3, 5, 1);
}

static void nd_update(void **state)
{
    (void)state;
    aclTensor *self = count_up(ACL_FLOAT, DIM(2, 2, 2));
    aclTensor *at = filled(ACL_INT64, DIM(2, 2), (double[]){1, 0, 0, 1});
    aclTensor *updates = filled(ACL_FLOAT, DIM(2, 2), (double[]){-1, -2, -3, -4});
    assert_int_equal(TEST_CALL(aclnnScatterNdUpdate, self, at, updates), 0);
    ASSERT_VALUES(self, 0, 1, -3, -4, -1, -2, 6, 7);
}

/* ---- gather and scatter ------------------------------------------------------------------------------ */

static void gather_along(void **state)
{
    (void)state;
    aclTensor *self = count_up(ACL_FLOAT, DIM(3, 4)), *out = test_tensor(ACL_FLOAT, DIM(2, 3));
    aclTensor *at = filled(ACL_INT64, DIM(2, 3), (double[]){0, 1, 2, 2, -1, 0});
    assert_int_equal(TEST_CALL(aclnnGather, self, 0, at, out), 0);
    ASSERT_VALUES(out, 0, 5, 10, 8, 9, 2);
    aclTensor *wide = filled(ACL_INT64, DIM(4, 3), (double[12]){0});
    assert_int_equal(TEST_CALL(aclnnGather, self, 1, wide, test_tensor(ACL_FLOAT, DIM(4, 3))),
                     ACLNN_ERR_PARAM_INVALID);
}

static void scatter_modes(void **state)
{
    (void)state;
    static const double want[3][6] = {{30, 1, 20, 3, 4, 5}, {40, 1, 22, 3, 4, 5}, {0, 1, 40, 3, 4, 5}};
    aclTensor *at = filled(ACL_INT64, DIM(1, 3), (double[]){0, 2, 0});
    aclTensor *src = filled(ACL_FLOAT, DIM(1, 3), (double[]){10, 20, 30});
    for (int mode = 0; mode < 3; mode++) {
        aclTensor *self = count_up(ACL_FLOAT, DIM(2, 3)), *out = test_tensor(ACL_FLOAT, DIM(2, 3));
        assert_int_equal(TEST_CALL(aclnnScatter, self, 1, at, src, mode, out), 0);
        assert_values(out, want[mode]);
    }
    aclTensor *self = count_up(ACL_FLOAT, DIM(2, 3));
    assert_int_equal(TEST_CALL(aclnnScatter, self, 1, at, src, 3, self), ACLNN_ERR_PARAM_INVALID);
    assert_int_equal(TEST_CALL(aclnnInplaceScatterValue, self, 1, at, number(-1), 1), 0);
    ASSERT_VALUES(self, -2, 1, 1, 3, 4, 5);
}

static void scatter_add_bf16_rounds_once(void **state)
{
    (void)state;
    enum { N = 1000 };
    aclTensor *at = test_tensor(ACL_INT64, DIM(N)), *src = test_tensor(ACL_BF16, DIM(N));
    for (int i = 0; i < N; i++) {
        double one = 1;
        sn_convert((uint16_t *)sn_data(src) + i, ACL_BF16, &one, ACL_DOUBLE, 1);
    }
    aclTensor *self = VALUES(ACL_BF16, 0, 0);
    assert_int_equal(TEST_CALL(aclnnScatterAdd, self, 0, at, src, self), 0);
    ASSERT_VALUES(self, 1000, 0); /* summed in bf16, it would stop at 256 */
}

static void scatter_reduce_takes_sums_only(void **state)
{
    (void)state;
    aclTensor *self = VALUES(ACL_FLOAT, 1, 2), *at = VALUES(ACL_INT64, 1, 1), *src = VALUES(ACL_FLOAT, 5, 6);
    assert_int_equal(TEST_CALL(aclnnInplaceScatterReduce, self, 0, at, src, 1, true), 0);
    ASSERT_VALUES(self, 1, 13);
    assert_int_equal(TEST_CALL(aclnnInplaceScatterReduce, self, 0, at, src, 3, true),
                     ACLNN_ERR_PARAM_INVALID);
    assert_int_equal(TEST_CALL(aclnnInplaceScatterReduce, self, 0, at, src, 1, false),
                     ACLNN_ERR_PARAM_INVALID);
}

/* ---- selection --------------------------------------------------------------------------------------- */

static void nonzero_both_ways(void **state)
{
    (void)state;
    aclTensor *self = filled(ACL_FLOAT, DIM(2, 3), (double[]){0, 1, 0, 2, 0, -3});
    aclTensor *rows = test_tensor(ACL_INT64, DIM(6, 2)), *columns = test_tensor(ACL_INT64, DIM(2, 6));
    assert_int_equal(TEST_CALL(aclnnNonzero, self, rows), 0);
    assert_int_equal(rows->dim[0], 3);
    assert_int_equal(rows->dim[1], 2);
    ASSERT_VALUES(rows, 0, 1, 1, 0, 1, 2);
    assert_int_equal(TEST_CALL(aclnnNonzeroV2, self, columns), 0);
    assert_int_equal(columns->dim[1], 3);
    ASSERT_VALUES(columns, 0, 1, 1, 1, 0, 2);
}

static void nonzero_long(void **state)
{
    (void)state;
    enum { N = 100000 };
    aclTensor *self = test_tensor(ACL_BOOL, DIM(N)), *out = test_tensor(ACL_INT64, DIM(N, 1));
    uint8_t *x = sn_data(self);
    for (int i = 0; i < N; i++) x[i] = i % 7 == 3;
    assert_int_equal(TEST_CALL(aclnnNonzero, self, out), 0);
    assert_int_equal(out->dim[0], (N + 3) / 7);
    for (int i = 0; i < (N + 3) / 7; i++) assert_int_equal(((int64_t *)sn_data(out))[i], 7 * i + 3);
}

static void masked(void **state)
{
    (void)state;
    aclTensor *self = count_up(ACL_FLOAT, DIM(2, 3)), *mask = VALUES(ACL_BOOL, 1, 0, 1);
    aclTensor *out = test_tensor(ACL_FLOAT, DIM(6));
    assert_int_equal(TEST_CALL(aclnnMaskedSelect, self, mask, out), 0);
    assert_int_equal(out->dim[0], 4);
    ASSERT_VALUES(out, 0, 2, 3, 5);
    aclTensor *source = VALUES(ACL_FLOAT, 10, 20, 30, 40, 50);
    assert_int_equal(TEST_CALL(aclnnInplaceMaskedScatter, self, mask, source), 0);
    ASSERT_VALUES(self, 10, 1, 20, 30, 4, 40);
}

/* ---- embedding --------------------------------------------------------------------------------------- */

static void embed(void **state)
{
    (void)state;
    aclTensor *weight = count_up(ACL_FLOAT, DIM(3, 2)),
              *at = filled(ACL_INT32, DIM(2, 2), (double[]){2, 0, 1, 2});
    aclTensor *out = test_tensor(ACL_FLOAT, DIM(2, 2, 2));
    assert_int_equal(TEST_CALL(aclnnEmbedding, weight, at, out), 0);
    ASSERT_VALUES(out, 4, 5, 0, 1, 2, 3, 4, 5);
    aclTensor *grad = filled(ACL_FLOAT, DIM(2, 2, 2), (double[]){1, 1, 2, 2, 3, 3, 5, 5});
    aclTensor *sum = test_tensor(ACL_FLOAT, DIM(3, 2));
    assert_int_equal(TEST_CALL(aclnnEmbeddingDenseBackward, grad, at, 3, (uint64_t)-1, false, sum), 0);
    ASSERT_VALUES(sum, 2, 2, 3, 3, 6, 6);
    assert_int_equal(TEST_CALL(aclnnEmbeddingDenseBackward, grad, at, 3, 0, true, sum), 0);
    ASSERT_VALUES(sum, 0, 0, 3, 3, 3, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(index_adjacent),
        cmocka_unit_test(index_apart_goes_first),
        cmocka_unit_test(index_broadcasts_and_takes_views),
        cmocka_unit_test(index_empty),
        cmocka_unit_test(index_wrong_shape_is_refused),
        cmocka_unit_test(put_nowhere),
        cmocka_unit_test(put_sets_and_adds),
        cmocka_unit_test(put_accumulates_in_f32),
        cmocka_unit_test(put_writes_into_views),
        cmocka_unit_test(select_every_size),
        cmocka_unit_test(add_rows),
        cmocka_unit_test(fill_columns),
        cmocka_unit_test(take_flat),
        cmocka_unit_test(nd_update),
        cmocka_unit_test(gather_along),
        cmocka_unit_test(scatter_modes),
        cmocka_unit_test(scatter_add_bf16_rounds_once),
        cmocka_unit_test(scatter_reduce_takes_sums_only),
        cmocka_unit_test(nonzero_both_ways),
        cmocka_unit_test(nonzero_long),
        cmocka_unit_test(masked),
        cmocka_unit_test(embed),
        cmocka_unit_test(index_outside_names_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
