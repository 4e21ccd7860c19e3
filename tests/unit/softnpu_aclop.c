/* softnpu_aclop.c - the older operator path: private formats, and convolutions asked for by type name. */
#include "softnpu_testing.h"
#include "softnpu/aclop/objects.h"
#include "softnpu/tensor/format.h"

aclTensorDesc *aclCreateTensorDesc(aclDataType dtype, int n, const int64_t *dims, aclFormat format);
void aclDestroyTensorDesc(const aclTensorDesc *d);
aclError aclSetTensorFormat(aclTensorDesc *d, aclFormat format);
aclError aclSetTensorPlaceMent(aclTensorDesc *d, int placement);
aclopAttr *aclopCreateAttr(void);
void aclopDestroyAttr(const aclopAttr *a);
aclError aclopSetAttrListInt(aclopAttr *a, const char *name, int n, const int64_t *values);
aclError aclopSetAttrInt(aclopAttr *a, const char *name, int64_t value);
aclError aclopSetAttrString(aclopAttr *a, const char *name, const char *value);
aclError aclopCompileAndExecuteV2(const char *type, int inputs, const aclTensorDesc *const in_desc[],
                                  const aclDataBuffer *const in[], int outputs,
                                  const aclTensorDesc *const out_desc[], const aclDataBuffer *const out[],
                                  const aclopAttr *attrs, int engine, int compile, const char *path,
                                  aclrtStream stream);

/* ---- formats ------------------------------------------------------------------------------------- */

enum { MOST = 16384 };

static aclTensor shaped(aclFormat f, aclDataType t, int32_t rank, const int64_t *dim)
{
    aclTensor x;
    sn_wrap(&x, t, rank, dim, NULL);
    x.format = f;
    return x;
}

/* Element i of the shape holds i + 1; tells where each lies, -1 where there is padding. */
static void places(const aclTensor *t, int32_t *packed)
{
    static int32_t plain[MOST], back[MOST];
    int64_t n = sn_numel(t), total = sn_packed_elements(t);
    assert_in_range(total, n, MOST);
    for (int64_t i = 0; i < n; i++) plain[i] = (int32_t)i + 1;
    sn_pack(t, plain, packed);
    sn_unpack(t, packed, back);
    assert_memory_equal(plain, back, (size_t)n * sizeof *back);
    int64_t filled = 0;
    for (int64_t i = 0; i < total; i++) filled += packed[i] != 0;
    assert_int_equal(filled, n);
}

static void test_nc1hwc0(void **state)
{
    (void)state;
    static int32_t packed[MOST];
    const int64_t dim[] = {2, 20, 3, 5};
    aclTensor t = shaped(ACL_FORMAT_NC1HWC0, ACL_INT32, 4, dim);
    assert_int_equal(sn_packed_elements(&t), 2 * 2 * 3 * 5 * 16);
    places(&t, packed);
    for (int64_t n = 0, i = 0; n < 2; n++)
        for (int64_t c = 0; c < 20; c++)
            for (int64_t h = 0; h < 3; h++)
                for (int64_t w = 0; w < 5; w++)
                    assert_int_equal(packed[(((n * 2 + c / 16) * 3 + h) * 5 + w) * 16 + c % 16], ++i);
    aclTensor vector = shaped(ACL_FORMAT_NC1HWC0, ACL_INT32, 1, (int64_t[]){33});
    assert_int_equal(sn_packed_elements(&vector), 48);
    places(&vector, packed);
    assert_int_equal(packed[32], 33);
}

static void test_fractal_z(void **state)
{
    (void)state;
    static int32_t packed[MOST];
    const int64_t dim[] = {18, 17, 2, 3};
    aclTensor t = shaped(ACL_FORMAT_FRACTAL_Z, ACL_INT32, 4, dim);
    assert_int_equal(sn_packed_elements(&t), (2 * 2 * 3) * 2 * 16 * 16);
    places(&t, packed);
    for (int64_t n = 0, i = 0; n < 18; n++)
        for (int64_t c = 0; c < 17; c++)
            for (int64_t h = 0; h < 2; h++)
                for (int64_t w = 0; w < 3; w++) {
                    int64_t tap = (c / 16 * 2 + h) * 3 + w;
                    assert_int_equal(packed[((tap * 2 + n / 16) * 16 + n % 16) * 16 + c % 16], ++i);
                }
}

static void test_fractal_nz(void **state)
{
    (void)state;
    static int32_t packed[MOST];
    const int64_t dim[] = {3, 17, 35};
    aclTensor t = shaped(ACL_FORMAT_FRACTAL_NZ, ACL_INT32, 3, dim);
    assert_int_equal(sn_packed_elements(&t), 3 * 3 * 2 * 16 * 16);
    places(&t, packed);
    for (int64_t b = 0, i = 0; b < 3; b++)
        for (int64_t r = 0; r < 17; r++)
            for (int64_t k = 0; k < 35; k++)
                assert_int_equal(packed[(((b * 3 + k / 16) * 2 + r / 16) * 16 + r % 16) * 16 + k % 16], ++i);
    aclTensor bytes = shaped(ACL_FORMAT_FRACTAL_NZ, ACL_INT8, 2, dim + 1);
    assert_int_equal(sn_packed_elements(&bytes), 2 * 2 * 16 * 32);
}

static void test_no_such_layout(void **state)
{
    (void)state;
    aclTensor t = shaped(ACL_FORMAT_NC1HWC0, ACL_INT32, 5, (int64_t[]){1, 2, 3, 4, 5});
    assert_int_equal(sn_packed_elements(&t), -1);
    t.format = ACL_FORMAT_ND;
    assert_int_equal(sn_packed_elements(&t), -1);
}

/* ---- calls by type name ---------------------------------------------------------------------------- */

/* An argument: a tensor in device memory in a format, or (f == UNDEFINED) a list of integers on the host. */
struct argument {
    aclTensorDesc *desc;
    aclDataBuffer buffer;
    aclTensor layout;
};

static struct argument on_device(aclFormat f, int32_t rank, const int64_t *dim, float first, float step)
{
    struct argument a = {aclCreateTensorDesc(ACL_FLOAT, rank, dim, ACL_FORMAT_NCHW), {0}, {0}};
    static float plain[MOST];
    a.layout = shaped(f, ACL_FLOAT, rank, dim);
    int64_t n = sn_numel(&a.layout), total = sn_is_private(f) ? sn_packed_elements(&a.layout) : n;
    for (int64_t i = 0; i < n; i++) plain[i] = first + step * (float)(i % 13);
    aclSetTensorFormat(a.desc, f);
    a.buffer = (aclDataBuffer){test_alloc((size_t)total * sizeof(float)), (size_t)total * sizeof(float)};
    if (sn_is_private(f))
        sn_pack(&a.layout, plain, rt_kernel_ptr(a.buffer.data));
    else
        memcpy(rt_kernel_ptr(a.buffer.data), plain, a.buffer.size);
    return a;
}

static struct argument on_host(const int32_t *values, int64_t n)
{
    struct argument a = {aclCreateTensorDesc(ACL_INT32, 1, &n, ACL_FORMAT_ND),
                         {(void *)(uintptr_t)values, (size_t)n * sizeof *values},
                         {0}};
    aclSetTensorPlaceMent(a.desc, 1);
    return a;
}

static const float *values_of(const struct argument *a, float *out)
{
    if (!sn_is_private(a->layout.format)) return rt_kernel_ptr(a->buffer.data);
    sn_unpack(&a->layout, rt_kernel_ptr(a->buffer.data), out);
    return out;
}

static void drop(struct argument *a, int n)
{
    for (int i = 0; i < n; i++) {
        aclDestroyTensorDesc(a[i].desc);
        if (a[i].desc && a[i].layout.rank) aclrtFree(a[i].buffer.data);
    }
}

static int call(const char *type, const struct argument *in, int n, const struct argument *out,
                const char *data_format)
{
    const aclTensorDesc *desc[4];
    const aclDataBuffer *buffer[4];
    for (int i = 0; i < n; i++) desc[i] = in[i].desc, buffer[i] = &in[i].buffer;
    const aclTensorDesc *out_desc = out->desc;
    const aclDataBuffer *out_buffer = &out->buffer;
    const int64_t ones[] = {1, 1, 1, 1}, strides[] = {1, 1, 2, 1}, pads[] = {1, 1, 0, 0};
    aclopAttr *attrs = aclopCreateAttr();
    aclopSetAttrListInt(attrs, "strides", 4, strides);
    aclopSetAttrListInt(attrs, "pads", 4, pads);
    aclopSetAttrListInt(attrs, "dilations", 4, ones);
    aclopSetAttrInt(attrs, "groups", 1);
    aclopSetAttrString(attrs, "data_format", data_format);
    int e =
        aclopCompileAndExecuteV2(type, n, desc, buffer, 1, &out_desc, &out_buffer, attrs, 0, 0, NULL, NULL);
    aclopDestroyAttr(attrs);
    return e ? e : aclrtSynchronizeDevice();
}

/* x [1, 2, 5, 4], filter [3, 2, 3, 2], stride (2, 1), padding (1, 0): y [1, 3, 3, 3]. */
static const int64_t x_dim[] = {1, 2, 5, 4}, f_dim[] = {3, 2, 3, 2}, y_dim[] = {1, 3, 3, 3};

/* The sum of weight * input over every pair that a convolution joins: accumulated into x, f or y, whichever
 * is the target. */
static void reference(float *y, float *x, float *f, float *target)
{
    for (int o = 0; o < 3; o++)
        for (int p = 0; p < 9; p++)
            for (int c = 0; c < 2; c++)
                for (int k = 0; k < 6; k++) {
                    int h = p / 3 * 2 + k / 2 - 1, w = p % 3 + k % 2;
                    if (h < 0 || h >= 5) continue;
                    float *py = y + o * 9 + p, *px = x + (c * 5 + h) * 4 + w, *pf = f + (o * 2 + c) * 6 + k;
                    if (target == y) *py += *px * *pf;
                    if (target == x) *px += *py * *pf;
                    if (target == f) *pf += *py * *px;
                }
}

static void check_conv(aclFormat data, aclFormat weight, int target)
{
    static const int32_t sizes[2][4] = {{1, 2, 5, 4}, {3, 2, 3, 2}};
    static float plain[3][64], scratch[64];
    struct argument a[] = {on_device(data, 4, x_dim, target == 0 ? 0 : -2, target == 0 ? 0 : 0.5F),
                           on_device(weight, 4, f_dim, target == 1 ? 0 : 1, target == 1 ? 0 : -0.25F),
                           on_device(data, 4, y_dim, target == 2 ? 0 : 3, target == 2 ? 0 : -0.5F)};
    for (int i = 0; i < 3; i++)
        memcpy(plain[i], values_of(&a[i], scratch), (size_t)sn_numel(&a[i].layout) * sizeof(float));
    reference(plain[2], plain[0], plain[1], plain[target]);
    struct argument size = on_host(sizes[target == 1], 4);
    const struct argument forward[] = {a[0], a[1]}, to_input[] = {size, a[1], a[2]},
                          to_filter[] = {a[0], size, a[2]};
    const char *type[] = {"Conv2DBackpropInput", "Conv2DBackpropFilter", "Conv2D"};
    const struct argument *in[] = {to_input, to_filter, forward};
    assert_int_equal(call(type[target], in[target], target == 2 ? 2 : 3, &a[target], "NCHW"), 0);
    const float *got = values_of(&a[target], scratch);
    for (int64_t i = 0; i < sn_numel(&a[target].layout); i++)
        assert_float_equal(got[i], plain[target][i], 1e-4);
    drop(a, 3);
    drop(&size, 1);
}

static void test_convolutions(void **state)
{
    (void)state;
    for (int target = 0; target < 3; target++) {
        check_conv(ACL_FORMAT_NCHW, ACL_FORMAT_NCHW, target);
        check_conv(ACL_FORMAT_NC1HWC0, ACL_FORMAT_FRACTAL_Z, target);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    static const int32_t wrong[] = {1, 2, 5, 5};
    struct argument a[] = {on_device(ACL_FORMAT_NCHW, 4, x_dim, 1, 0),
                           on_device(ACL_FORMAT_NCHW, 4, f_dim, 1, 0),
                           on_device(ACL_FORMAT_NC1HWC0, 4, y_dim, 0, 0)};
    struct argument size = on_host(wrong, 4);
    assert_int_not_equal(call("Conv2D", a, 2, &a[2], "NHWC"), 0);
    assert_int_not_equal(call("Conv2DBackpropInput", (struct argument[]){size, a[1], a[2]}, 3, &a[0], "NCHW"),
                         0);
    assert_int_not_equal(call("Conv2DWithoutARow", a, 2, &a[2], "NCHW"), 0);
    a[2].buffer.size -= sizeof(float);
    assert_int_not_equal(call("Conv2D", a, 2, &a[2], "NCHW"), 0);
    a[2].buffer.size += sizeof(float);
    assert_int_equal(call("Conv2D", a, 2, &a[2], "NCHW"), 0);
    drop(a, 3);
    drop(&size, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nc1hwc0),      cmocka_unit_test(test_fractal_z),
        cmocka_unit_test(test_fractal_nz),   cmocka_unit_test(test_no_such_layout),
        cmocka_unit_test(test_convolutions), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
