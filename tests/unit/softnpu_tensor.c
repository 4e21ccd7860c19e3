/* softnpu_tensor.c - data types, promotion, conversion, shapes, objects. */
#include "softnpu_testing.h"
#include "softnpu/kernel/convert.h"

#include <math.h>

/* CMPLX, which clang's headers lack. */
static double _Complex complex_of(double re, double im)
{
    double part[2] = {re, im};
    double _Complex c;
    memcpy(&c, part, sizeof c);
    return c;
}

static const aclDataType common[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16,      ACL_DOUBLE,
                                     ACL_INT8,  ACL_INT16,   ACL_INT32,     ACL_INT64,
                                     ACL_UINT8, ACL_BOOL,    ACL_COMPLEX64, ACL_COMPLEX128};
enum { COMMON = sizeof common / sizeof *common };

static void traits_are_complete(void **state)
{
    (void)state;
    for (int i = 0; i < COMMON; i++) {
        const struct sn_dtype *d = sn_dtype(common[i]);
        assert_int_equal(d->common, i);
        assert_true(d->size > 0 && d->kind != SN_NONE);
    }
    for (int t = -1; t < SN_NDTYPES + 1; t++) assert_non_null(sn_dtype((aclDataType)t)->name);
    assert_string_equal(sn_dtype(ACL_DT_UNDEFINED)->name, "?");
    assert_string_equal(sn_dtype((aclDataType)5)->name, "?");
    assert_string_equal(sn_dtype((aclDataType)4000)->name, "?");
}

/* torch.promote_types, torch.result_type with True, 1, 1.0, 1j, and torch.can_cast of torch 2.13, in the
 * order of `common`. */
static const char *const promoted[COMMON] = {
    "f32 f32 f32 f64 f32 f32 f32 f32 f32 f32 c64 c128",
    "f32 f16 f32 f64 f16 f16 f16 f16 f16 f16 c64 c128",
    "f32 f32 bf16 f64 bf16 bf16 bf16 bf16 bf16 bf16 c64 c128",
    "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 c128 c128",
    "f32 f16 bf16 f64 i8 i16 i32 i64 i16 i8 c64 c128",
    "f32 f16 bf16 f64 i16 i16 i32 i64 i16 i16 c64 c128",
    "f32 f16 bf16 f64 i32 i32 i32 i64 i32 i32 c64 c128",
    "f32 f16 bf16 f64 i64 i64 i64 i64 i64 i64 c64 c128",
    "f32 f16 bf16 f64 i16 i16 i32 i64 u8 u8 c64 c128",
    "f32 f16 bf16 f64 i8 i16 i32 i64 u8 bool c64 c128",
    "c64 c64 c64 c128 c64 c64 c64 c64 c64 c64 c64 c128",
    "c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128",
};
static const char *const with_scalar[COMMON] = {
    "f32 f32 f32 c64", "f16 f16 f16 c32",  "bf16 bf16 bf16 c64", "f64 f64 f64 c128",
    "i8 i8 f32 c64",   "i16 i16 f32 c64",  "i32 i32 f32 c64",    "i64 i64 f32 c64",
    "u8 u8 f32 c64",   "bool i64 f32 c64", "c64 c64 c64 c64",    "c128 c128 c128 c128",
};
static const char *const castable[COMMON] = {
    "111100000011", "111100000011", "111100000011", "111100000011", "111111111011", "111111111011",
    "111111111011", "111111111011", "111111111011", "111111111111", "000000000011", "000000000011",
};

static void expect_words(const char *words, int i, aclDataType got)
{
    char copy[128], *save = NULL;
    snprintf(copy, sizeof copy, "%s", words);
    char *word = strtok_r(copy, " ", &save);
    while (i--) word = strtok_r(NULL, " ", &save);
    assert_string_equal(sn_dtype(got)->short_name, word);
}

static void promotion_is_torchs(void **state)
{
    (void)state;
    const aclScalar scalars[] = {
        {ACL_BOOL, {.b = true}}, {ACL_INT64, {.i = 1}}, {ACL_DOUBLE, {.d = 1}}, {ACL_COMPLEX128, {.c = 1}}};
    for (int a = 0; a < COMMON; a++) {
        for (int b = 0; b < COMMON; b++) {
            expect_words(promoted[a], b, sn_promote(common[a], common[b]));
            assert_int_equal(sn_can_cast(common[a], common[b]), castable[a][b] == '1');
        }
        for (int s = 0; s < 4; s++)
            expect_words(with_scalar[a], s, sn_promote_scalar(common[a], &scalars[s]));
    }
    assert_int_equal(sn_promote(ACL_UINT16, ACL_INT8), ACL_DT_UNDEFINED);
    assert_int_equal(sn_promote(ACL_UINT16, ACL_UINT16), ACL_UINT16);
}

/* ---- conversion ------------------------------------------------------------------------------ */

extern const struct convert_kernels convert_kernels_base;

/* Every table that this machine can run. */
static int tables(const struct convert_kernels *out[2])
{
    out[0] = &convert_kernels_base;
    out[1] = convert_kernels();
    return out[0] == out[1] ? 1 : 2;
}

static double half_value(uint32_t h, int mantissa_bits, int bias)
{
    uint32_t exponent = (h & 0x7fff) >> mantissa_bits, mantissa = h & ((1u << mantissa_bits) - 1);
    uint32_t top = 0x7fffu >> mantissa_bits;
    double sign = h & 0x8000 ? -1 : 1;
    if (exponent == top) return mantissa ? NAN : sign * INFINITY;
    if (!exponent) return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp((1u << mantissa_bits) + mantissa, (int)exponent - bias - mantissa_bits);
}

/* All 65,536 values widen to what the format says; between neighbours the middle rounds to the even one. */
static void check_half(conv_fn widen, conv_fn narrow, int mantissa_bits, int bias)
{
    enum { N = 1 << 16 };
    uint16_t *h = malloc(N * sizeof *h), *back = malloc(N * sizeof *back);
    float *f = malloc(N * sizeof *f);
    for (int i = 0; i < N; i++) h[i] = (uint16_t)i;
    widen(f, h, N);
    narrow(back, f, N);
    for (int i = 0; i < N; i++) {
        double want = half_value((uint32_t)i, mantissa_bits, bias);
        if (isnan(want))
            assert_true(isnan(f[i]) && isnan(half_value(back[i], mantissa_bits, bias)));
        else
            assert_true((double)f[i] == want && back[i] == i);
    }
    uint32_t infinity = 0x7fffu & ~((1u << mantissa_bits) - 1);
    for (uint32_t i = 0; i + 1 < infinity; i++) {
        double middle = (half_value(i, mantissa_bits, bias) + half_value(i + 1, mantissa_bits, bias)) / 2;
        float in[] = {(float)middle, nextafterf((float)middle, 0), nextafterf((float)middle, INFINITY),
                      -(float)middle};
        uint16_t out[4];
        uint32_t even = i & 1 ? i + 1 : i;
        if ((double)in[0] != middle) continue; /* below f32's own precision */
        narrow(out, in, 4);
        assert_int_equal(out[0], even);
        assert_int_equal(out[1], i);
        assert_int_equal(out[2], i + 1);
        assert_int_equal(out[3], even | 0x8000);
    }
    free(h);
    free(back);
    free(f);
}

static void halves_round_to_even(void **state)
{
    (void)state;
    const struct convert_kernels *k[2];
    for (int i = tables(k); i-- > 0;) {
        check_half(k[i]->f16_to_f32, k[i]->f32_to_f16, 10, 15);
        check_half(k[i]->bf16_to_f32, k[i]->f32_to_bf16, 7, 127);
        float big[] = {65519.996f, 65520.0f, 1e30f, -INFINITY, 2.9802322e-8f, 2.9802326e-8f, 0, -0.0f};
        const uint16_t want[] = {0x7bff, 0x7c00, 0x7c00, 0xfc00, 0, 1, 0, 0x8000};
        uint16_t out[8];
        k[i]->f32_to_f16(out, big, 8);
        assert_memory_equal(out, want, sizeof out);
    }
}

/* What torch's .to() gives on x86 for these, in every floating source type. */
static void floats_become_integers_as_in_torch(void **state)
{
    (void)state;
    const double in[] = {NAN, INFINITY, -INFINITY, 300.7, -300.7, 3e9, -3e9, 1e20, -1.5, 70000};
    enum { N = sizeof in / sizeof *in };
    static const struct {
        aclDataType to;
        double want[N];
    } rows[] = {
        {ACL_INT8, {0, 0, 0, 44, -44, 0, 0, 0, -1, 112}},
        {ACL_UINT8, {0, 0, 0, 44, 212, 0, 0, 0, 255, 112}},
        {ACL_INT16, {0, 0, 0, 300, -300, 0, 0, 0, -1, 4464}},
        {ACL_INT32, {-0x1p31, -0x1p31, -0x1p31, 300, -300, -0x1p31, -0x1p31, -0x1p31, -1, 70000}},
        {ACL_INT64, {-0x1p63, -0x1p63, -0x1p63, 300, -300, 3e9, -3e9, -0x1p63, -1, 70000}},
        {ACL_BOOL, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
    };
    float single[N];
    sn_convert(single, ACL_FLOAT, in, ACL_DOUBLE, N);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char out[N * 8];
        double back[N];
        for (int from = 0; from < 2; from++) {
            sn_convert(out, rows[r].to, from ? (void *)single : (void *)in, from ? ACL_FLOAT : ACL_DOUBLE, N);
            sn_convert(back, ACL_DOUBLE, out, rows[r].to, N);
            for (int i = 0; i < N; i++) assert_true(back[i] == rows[r].want[i]);
        }
    }
}

/* Small values survive the trip through any pair of types, in blocks longer than the converter's own. */
static void every_pair_converts(void **state)
{
    (void)state;
    enum { N = 1500 };
    static const aclDataType more[] = {ACL_UINT16, ACL_UINT32, ACL_UINT64, ACL_COMPLEX32};
    aclDataType all[COMMON + 4];
    memcpy(all, common, sizeof common);
    memcpy(all + COMMON, more, sizeof more);
    double in[N], back[N];
    for (int i = 0; i < N; i++) in[i] = i % 100;
    char *a = malloc(N * 16), *b = malloc(N * 16);
    for (int s = 0; s < COMMON + 4; s++)
        for (int d = 0; d < COMMON + 4; d++) {
            sn_convert(a, all[s], in, ACL_DOUBLE, N);
            sn_convert(b, all[d], a, all[s], N);
            sn_convert(back, ACL_DOUBLE, b, all[d], N);
            bool truth = all[s] == ACL_BOOL || all[d] == ACL_BOOL;
            for (int i = 0; i < N; i++) assert_true(back[i] == (truth ? in[i] != 0 : in[i]));
        }
    free(a);
    free(b);
}

static void complex_parts(void **state)
{
    (void)state;
    const double _Complex in[] = {complex_of(0, 2), complex_of(1, -1), complex_of(0, 0)};
    uint8_t truth[3];
    float real[3];
    sn_convert(truth, ACL_BOOL, in, ACL_COMPLEX128, 3);
    sn_convert(real, ACL_FLOAT, in, ACL_COMPLEX128, 3);
    assert_true(truth[0] == 1 && truth[1] == 1 && truth[2] == 0);
    assert_true(real[0] == 0 && real[1] == 1 && real[2] == 0);
}

/* ---- objects and shapes ---------------------------------------------------------------------- */

static void scalars_are_widened(void **state)
{
    (void)state;
    float f = 0.5f;
    int32_t i = -7;
    double _Complex c = complex_of(INFINITY, 2);
    aclScalar *s = aclCreateScalar(&f, ACL_FLOAT);
    assert_true(s->dtype == ACL_DOUBLE && sn_scalar_f64(s) == 0.5);
    aclDestroyScalar(s);
    s = aclCreateScalar(&i, ACL_INT32);
    uint8_t wrapped;
    sn_scalar_store(s, ACL_UINT8, &wrapped);
    assert_true(s->dtype == ACL_INT64 && sn_scalar_i64(s) == -7 && wrapped == 249);
    aclDestroyScalar(s);
    s = aclCreateScalar(&c, ACL_COMPLEX128);
    assert_true(isinf(creal(sn_scalar_c128(s))) && cimag(sn_scalar_c128(s)) == 2);
    aclDestroyScalar(s);
    assert_null(aclCreateScalar(&f, ACL_STRING));
    assert_null(aclCreateScalar(NULL, ACL_FLOAT));
}

static void view_shape_belongs_to_the_caller(void **state)
{
    (void)state;
    const int64_t dim[] = {2, 3, 4};
    aclTensor *t = aclCreateTensor(dim, 3, ACL_FLOAT, NULL, 5, ACL_FORMAT_ND, dim, 3, NULL);
    int64_t *got = NULL;
    uint64_t n = 0;
    assert_int_equal(aclGetViewShape(t, &got, &n), 0);
    assert_int_equal(n, 3);
    assert_memory_equal(got, dim, sizeof dim);
    free(got);
    assert_true(t->stride[0] == 12 && t->stride[2] == 1 && t->storage == 24 && t->offset == 5);
    assert_int_equal(aclGetViewShape(NULL, &got, &n), ACLNN_ERR_PARAM_NULLPTR);
    aclDestroyTensor(t);
}

static void broadcast_and_expand(void **state)
{
    (void)state;
    aclTensor a, b, v;
    int64_t dim[SN_MAX_DIMS];
    int32_t rank;
    sn_wrap(&a, ACL_FLOAT, 3, (int64_t[]){4, 1, 3}, &a);
    sn_wrap(&b, ACL_FLOAT, 2, (int64_t[]){5, 1}, &b);
    assert_true(sn_broadcast_shape(&a, &b, dim, &rank));
    assert_true(rank == 3 && dim[0] == 4 && dim[1] == 5 && dim[2] == 3);
    assert_true(sn_expand(&b, dim, rank, &v));
    assert_true(v.stride[0] == 0 && v.stride[1] == 1 && v.stride[2] == 0);
    sn_wrap(&b, ACL_FLOAT, 1, (int64_t[]){2}, &b);
    assert_false(sn_broadcast_shape(&a, &b, dim, &rank));
    assert_false(sn_expand(&a, (int64_t[]){4, 3}, 2, &v));
    sn_wrap(&b, ACL_FLOAT, 2, (int64_t[]){0, 1}, &b);
    assert_true(sn_broadcast_shape(&a, &b, dim, &rank) && dim[1] == 0);
}

static void overlap_is_seen(void **state)
{
    (void)state;
    float memory[16];
    aclTensor a, b;
    sn_wrap(&a, ACL_FLOAT, 1, (int64_t[]){8}, memory);
    sn_wrap(&b, ACL_FLOAT, 1, (int64_t[]){8}, memory + 7);
    assert_true(sn_overlap(&a, &b) && !sn_same_view(&a, &b));
    sn_wrap(&b, ACL_FLOAT, 1, (int64_t[]){8}, memory + 8);
    assert_false(sn_overlap(&a, &b));
    b.stride[0] = -1;
    b.offset = 7;
    assert_true(sn_overlap(&b, &b) && sn_same_view(&b, &b));
    assert_false(sn_is_contiguous(&b));
    sn_wrap(&b, ACL_INT32, 1, (int64_t[]){8}, memory);
    assert_true(sn_same_view(&a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traits_are_complete),  cmocka_unit_test(promotion_is_torchs),
        cmocka_unit_test(halves_round_to_even), cmocka_unit_test(floats_become_integers_as_in_torch),
        cmocka_unit_test(every_pair_converts),  cmocka_unit_test(complex_parts),
        cmocka_unit_test(scalars_are_widened),  cmocka_unit_test(view_shape_belongs_to_the_caller),
        cmocka_unit_test(broadcast_and_expand), cmocka_unit_test(overlap_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
