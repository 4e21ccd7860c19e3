/* softnpu_ew.c - the block engine: layouts, broadcast, conversion, aliasing, overlap, long arrays, several
 * outputs. */
#include "softnpu_testing.h"

#include "softnpu/op/executor.h"

/* A call as run sees one, without a launch around it. */
static const op_row row = {.name = "test"};
static op_call call = {.row = &row};

/* out = a + 2 * b, in f32. */
static void axpy(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)index;
    assert_ptr_equal(ctx, &row);
    float *out = p[0];
    const float *a = p[1], *b = p[2];
    for (int64_t i = 0; i < n; i++) out[i] = a[i] + 2 * b[i];
}

static int run3(const aclTensor *out, const aclTensor *a, const aclTensor *b)
{
    const struct ew_operand o[] = {{out, ACL_FLOAT, NULL}, {a, ACL_FLOAT, NULL}, {b, ACL_FLOAT, NULL}};
    int e = ew_run(&call, o, 1, 2, axpy, &row);
    scratch_reset();
    return e;
}

static double value(const aclTensor *t, const int64_t *at)
{
    aclTensor v = *t;
    for (int32_t d = 0; d < t->rank; d++) v.offset += at[d] * t->stride[d];
    double out;
    sn_convert(&out, ACL_DOUBLE, sn_data(&v), t->dtype, 1);
    return out;
}

/* Fills the storage (n elements) with 0, 1, 2, ... mod 64. */
static void count_up(void *storage, aclDataType t, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double v = (double)(i % 64);
        sn_convert((char *)rt_kernel_ptr(storage) + i * (int64_t)sn_size(t), t, &v, ACL_DOUBLE, 1);
    }
}

/* Element by element against the definition, for any three views. */
static void check3(const aclTensor *out, const aclTensor *a, const aclTensor *b)
{
    aclTensor ea, eb;
    assert_true(sn_expand(a, out->dim, out->rank, &ea) && sn_expand(b, out->dim, out->rank, &eb));
    int64_t n = sn_numel(out);
    double *want = malloc((size_t)(n ? n : 1) * sizeof *want);
    for (int pass = 0; pass < 2; pass++) {
        int64_t at[SN_MAX_DIMS] = {0};
        for (int64_t i = 0; i < n; i++) {
            if (pass == 0)
                want[i] = value(&ea, at) + 2 * value(&eb, at);
            else
                assert_true(value(out, at) == want[i]);
            for (int32_t d = out->rank; d-- > 0 && ++at[d] == out->dim[d];) at[d] = 0;
        }
        if (pass == 0) assert_int_equal(run3(out, a, b), 0);
    }
    free(want);
}

/* Views of a 3-dimensional shape: how its storage is laid out. */
static const struct layout {
    const char *name;
    int64_t stride[3]; /* as multiples chosen for dim {5, 7, 300} */
    int64_t offset;
} layouts[] = {
    {"contiguous", {2100, 300, 1}, 0}, {"transposed", {1, 5, 35}, 0},
    {"sliced", {8000, 1000, 2}, 11},   {"padded rows", {3000, 320, 1}, 3},
    {"permuted", {300, 1500, 1}, 0},   {"reversed", {-2100, -300, -1}, 10499},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };
static const int64_t shape3[] = {5, 7, 300};

static void all_layouts_and_types(void **state)
{
    (void)state;
    static const aclDataType types[] = {ACL_FLOAT,  ACL_FLOAT16, ACL_INT32,
                                        ACL_DOUBLE, ACL_INT8,    ACL_COMPLEX128};
    for (int t = 0; t < 6; t++)
        for (int l = 0; l < LAYOUTS * LAYOUTS; l++) {
            const struct layout *lo = &layouts[l % LAYOUTS], *la = &layouts[l / LAYOUTS];
            aclDataType ta = types[t], tb = types[(t + l) % 6];
            void *sa = test_alloc(40100 * sn_size(ta)), *sb = test_alloc(40100 * sn_size(tb)),
                 *so = test_alloc(40100 * 4);
            count_up(sa, ta, 40100);
            count_up(sb, tb, 40100);
            aclTensor *out = test_view(so, ACL_FLOAT, 3, shape3, lo->stride, lo->offset);
            aclTensor *a = test_view(sa, ta, 3, shape3, la->stride, la->offset);
            aclTensor *b = test_view(sb, tb, 3, shape3, layouts[0].stride, 0);
            check3(out, a, b);
            test_drop(out);
            test_drop(a);
            test_drop(b);
        }
}

static void broadcast_in_every_dimension(void **state)
{
    (void)state;
    for (int mask = 0; mask < 64; mask++) {
        int64_t da[3], db[3];
        for (int d = 0; d < 3; d++) {
            da[d] = mask >> d & 1 ? 1 : shape3[d];
            db[d] = mask >> (d + 3) & 1 ? 1 : shape3[d];
        }
        aclTensor *a = test_tensor(ACL_FLOAT, 3, da), *b = test_tensor(ACL_INT64, 3, db);
        count_up(a->data, ACL_FLOAT, sn_numel(a));
        count_up(b->data, ACL_INT64, sn_numel(b));
        aclTensor *out = test_tensor(ACL_FLOAT, 3, shape3);
        check3(out, a, b);
        test_drop(a);
        test_drop(b);
        test_drop(out);
    }
}

static void scalars_empty_and_zero_dimensional(void **state)
{
    (void)state;
    aclScalar s = {ACL_INT64, {.i = 21}};
    aclTensor *out = test_tensor(ACL_BF16, 0, NULL), *a = test_values(ACL_BOOL, 1, (double[]){1});
    const struct ew_operand o[] = {{out, ACL_FLOAT, NULL}, {a, ACL_FLOAT, NULL}, {NULL, ACL_FLOAT, &s}};
    assert_int_equal(ew_run(&call, o, 1, 2, axpy, &row),
                     ACLNN_ERR_PARAM_INVALID); /* [1] does not broadcast to [] */
    a->rank = 0;
    assert_int_equal(ew_run(&call, o, 1, 2, axpy, &row), 0);
    assert_true(test_at(out, 0) == 43);
    int64_t none[] = {3, 0};
    aclTensor *empty = test_view(NULL, ACL_FLOAT, 2, none, NULL, 0);
    assert_int_equal(run3(empty, empty, a), 0);
    aclDestroyTensor(empty);
    test_drop(out);
    test_drop(a);
}

static void the_same_view_in_place(void **state)
{
    (void)state;
    for (int l = 0; l < LAYOUTS; l++) {
        void *s = test_alloc(40100 * 2);
        count_up(s, ACL_FLOAT16, 40100);
        aclTensor *a = test_view(s, ACL_FLOAT16, 3, shape3, layouts[l].stride, layouts[l].offset);
        check3(a, a, a);
        test_drop(a);
    }
}

/* x[1:] = x[:-1] + 2 * x[:-1] must read every old value before it is overwritten; also through a broadcast
 * element. */
static void overlapping_views_are_copied(void **state)
{
    (void)state;
    const int64_t n = 100000, one = 1;
    void *s = test_alloc((size_t)(n + 1) * 4);
    count_up(s, ACL_FLOAT, n + 1);
    aclTensor *to = test_view(s, ACL_FLOAT, 1, &n, NULL, 1), *from = test_view(s, ACL_FLOAT, 1, &n, NULL, 0);
    aclTensor *element = test_view(s, ACL_FLOAT, 1, &one, NULL, n / 2);
    check3(to, from, from);
    count_up(s, ACL_FLOAT, n + 1);
    check3(from, element, to);
    test_drop(to);
    aclDestroyTensor(from);
    aclDestroyTensor(element);
}

/* Long enough that inputs lying across are transposed first: odd sizes, every element size, an outer
 * dimension. */
static void large_transposed_inputs(void **state)
{
    (void)state;
    static const aclDataType types[] = {ACL_INT8, ACL_FLOAT16, ACL_FLOAT, ACL_DOUBLE, ACL_COMPLEX128};
    const int64_t dim[] = {3, 131, 77},
                  stride[][3] = {{10087, 1, 131}, {1, 231, 3}, {1, 3, 393}, {77, 231, 1}};
    for (int t = 0; t < 5; t++)
        for (int s = 0; s < 4; s++) {
            aclTensor *a =
                test_view(test_alloc(3 * 131 * 77 * sn_size(types[t])), types[t], 3, dim, stride[s], 0);
            count_up(a->data, types[t], 3 * 131 * 77);
            aclTensor *b = test_tensor(ACL_FLOAT, 3, dim), *out = test_tensor(ACL_FLOAT, 3, dim);
            check3(out, a, b);
            test_drop(a);
            test_drop(b);
            test_drop(out);
        }
}

/* index counts through the whole output; two outputs of different types. */
static void number(int64_t n, void *const *p, int64_t index, const void *ctx)
{
    (void)ctx;
    assert_true(n > 0 && n <= EW_BLOCK);
    for (int64_t i = 0; i < n; i++) {
        ((int64_t *)p[0])[i] = index + i;
        ((double *)p[1])[i] = -(double)(index + i);
    }
}

static void long_arrays_with_two_outputs(void **state)
{
    (void)state;
    const int64_t dim[] = {3, 70001}, stride[] = {1, 3};
    aclTensor *a = test_tensor(ACL_INT64, 2, dim),
              *b = test_view(test_alloc(3 * 70001 * 4), ACL_FLOAT, 2, dim, stride, 0);
    const struct ew_operand o[] = {{a, ACL_INT64, NULL}, {b, ACL_DOUBLE, NULL}};
    assert_int_equal(ew_run(&call, o, 2, 0, number, NULL), 0);
    for (int64_t i = 0; i < 3 * 70001; i++) {
        assert_true(((int64_t *)sn_data(a))[i] == i);
        assert_true(value(b, (int64_t[]){i / 70001, i % 70001}) == -(double)i);
    }
    test_drop(a);
    test_drop(b);
}

static void copies_of_every_kind(void **state)
{
    (void)state;
    for (int l = 0; l < LAYOUTS * LAYOUTS; l++) {
        const struct layout *ld = &layouts[l % LAYOUTS], *ls = &layouts[l / LAYOUTS];
        for (int same = 0; same < 2; same++) {
            aclDataType td = same ? ACL_COMPLEX128 : ACL_BF16, ts = same ? ACL_COMPLEX128 : ACL_UINT8;
            void *d = test_alloc(40100 * sn_size(td)), *s = test_alloc(40100 * sn_size(ts));
            count_up(s, ts, 40100);
            aclTensor *dst = test_view(d, td, 3, shape3, ld->stride, ld->offset);
            aclTensor *src = test_view(s, ts, 3, shape3, ls->stride, ls->offset);
            op_copy(&call, dst, src);
            for (int64_t i = 0; i < 5 * 7 * 300; i += 13) {
                const int64_t at[] = {i / 2100, i / 300 % 7, i % 300};
                assert_true(value(dst, at) == value(src, at));
            }
            test_drop(dst);
            test_drop(src);
        }
    }
}

static void access_helpers(void **state)
{
    (void)state;
    const int64_t dim[] = {2, 3}, across[] = {1, 2};
    aclTensor *plain = test_tensor(ACL_FLOAT, 2, dim),
              *strided = test_view(test_alloc(12), ACL_FLOAT16, 2, dim, across, 0);
    count_up(strided->data, ACL_FLOAT16, 6);
    assert_ptr_equal(op_in(&call, plain, ACL_FLOAT), sn_data(plain));
    assert_ptr_equal(op_out(&call, plain, ACL_FLOAT), sn_data(plain));
    assert_ptr_not_equal(op_out_scratch(&call, plain, ACL_FLOAT), sn_data(plain));
    const float *in = op_in(&call, strided, ACL_FLOAT);
    for (int i = 0; i < 6; i++) assert_true(in[i] == (float)(i / 3 + i % 3 * 2));
    float *out = op_out(&call, strided, ACL_FLOAT);
    for (int i = 0; i < 6; i++) out[i] = (float)i;
    op_out_done(&call, strided, ACL_FLOAT, out);
    assert_true(value(strided, (int64_t[]){1, 2}) == 5 && value(strided, (int64_t[]){0, 1}) == 1);
    scratch_reset();
    test_drop(plain);
    test_drop(strided);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_layouts_and_types),
        cmocka_unit_test(broadcast_in_every_dimension),
        cmocka_unit_test(scalars_empty_and_zero_dimensional),
        cmocka_unit_test(the_same_view_in_place),
        cmocka_unit_test(overlapping_views_are_copied),
        cmocka_unit_test(large_transposed_inputs),
        cmocka_unit_test(long_arrays_with_two_outputs),
        cmocka_unit_test(copies_of_every_kind),
        cmocka_unit_test(access_helpers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
