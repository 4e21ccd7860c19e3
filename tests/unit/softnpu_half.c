/* softnpu_half.c - kernels that work on 16-bit numbers themselves give what widening, computing and rounding
 * give. */
#include "softnpu/kernel/column_kernels.h"
#include "softnpu/kernel/convert.h"
#include "softnpu/kernel/half_loops.h"
#include "softnpu/kernel/row_kernels.h"
#include "softnpu/kernel/tile.h"
#include "softnpu/op/order.h"
#include "tests/unit/softnpu_testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALL = 1 << 16, ODD = ALL - 3 }; /* not a whole number of vectors */
static uint16_t one[ALL], two[ALL], got[ALL], want[ALL];
static float wide_one[ALL], wide_two[ALL], wide[ALL];

static void widen(float *to, const uint16_t *from, enum half_type h)
{
    (h == HALF_F16 ? convert_kernels()->f16_to_f32 : convert_kernels()->bf16_to_f32)(to, from, ALL);
}

static bool is_nan(uint16_t v, enum half_type h)
{
    return (v & 0x7fff) > (h == HALF_F16 ? 0x7c00 : 0x7f80);
}

/* The float loop runs in blocks of at most 1024, as the engine runs it. */
static void compare(ew_loop half, ew_loop whole, enum half_type h, const void *ctx)
{
    if (!half) return;
    widen(wide_one, one, h);
    widen(wide_two, two, h);
    for (int64_t i = 0; i < ALL; i += 1024)
        whole(1024, (void *[]){wide + i, wide_one + i, wide_two + i}, i, ctx);
    (h == HALF_F16 ? convert_kernels()->f32_to_f16 : convert_kernels()->f32_to_bf16)(want, wide, ALL);
    memset(got, 0x55, sizeof got);
    half(ODD, (void *[]){got, one, two}, 0, ctx);
    for (int i = 0; i < ODD; i++)
        if (got[i] != want[i] && !(is_nan(got[i], h) && is_nan(want[i], h)))
            fail_msg("%#x and %#x give %#x, not %#x", one[i], two[i], got[i], want[i]);
    for (int i = ODD; i < ALL; i++) assert_int_equal(got[i], 0x5555); /* nothing past the end */
}

static void half_loops(void **state)
{
    (void)state;
    float alpha = 0.3f;
    for (int i = 0; i < ALL; i++) one[i] = (uint16_t)i, two[i] = (uint16_t)(i * 40503u >> 3);
    for (int h = 0; h < HALF_TYPES; h++) {
#define BINARY(id)                                                                                           \
    compare(half_kernels()->binary[EWB_##id][h], binary_kernels()->loop[EWB_##id][EWT_F32],                  \
            (enum half_type)h, &alpha);
#define UNARY(id)                                                                                            \
    compare(half_kernels()->unary[EWU_##id][h], unary_kernels()->loop[EWU_##id][EWT_F32], (enum half_type)h, \
            NULL);
#define ACTIVATION(id)                                                                                       \
    compare(half_kernels()->activation[EWA_##id][h], activation_kernels()->loop[EWA_##id][EWT_F32],          \
            (enum half_type)h, NULL);
        HALF_BINARY(BINARY)
        HALF_UNARY(UNARY)
        HALF_ACTIVATION(ACTIVATION)
    }
}

/* ---- panels ------------------------------------------------------------------------------------------ */

static float small_integer(int64_t i)
{
    return (float)(i * 7 % 11 - 5);
}

/* Small integers: sums are exact, whatever their order. */
static void placed_rows(void **state)
{
    (void)state;
    const struct tile_kernels *kernels = tile_kernels();
    enum { K = 13, ROOM = 64 };
    for (int64_t m = 1; m < 9; m++)
        for (int64_t n = 1; n <= kernels->columns; n += 5) {
            float a[8 * K], b[K * ROOM + ROOM], c[8 * ROOM];
            int64_t at[K];
            for (int i = 0; i < 8 * K; i++) a[i] = small_integer(i);
            for (int i = 0; i < K * ROOM + ROOM; i++) b[i] = small_integer(3 * i);
            for (int p = 0; p < K; p++) at[p] = (p * 5) % K * ROOM;
            struct tile t = {.m = m,
                             .n = n,
                             .k = K,
                             .a = a,
                             .ars = K,
                             .panel = b,
                             .at = at,
                             .c = c,
                             .crs = ROOM,
                             .ccs = 1,
                             .alpha = 1};
            kernels->run_at[TILE_F32](&t);
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < n; j++) {
                    float sum = 0;
                    for (int p = 0; p < K; p++) sum += a[i * K + p] * b[at[p] + j];
                    assert_true(c[i * ROOM + j] == sum);
                }
        }
}

static void bf16_panels(void **state)
{
    (void)state;
    const struct tile_kernels *kernels = tile_kernels();
    if (!tile_has_bf16()) skip();
    enum { K = 21, N = 64, M = 8 };
    for (int along = 0; along < 2; along++)
        for (int64_t k = 1; k <= K; k += 4)
            for (int64_t n = 1; n <= kernels->columns; n += 9) {
                uint16_t a[M * K], b[K * (N + 1)], c[M * N];
                uint32_t *panel = malloc(tile_panel_bytes(k));
                float wa[M * K], wb[K * (N + 1)];
                for (int i = 0; i < M * K; i++) wa[i] = small_integer(i);
                for (int i = 0; i < K * (N + 1); i++) wb[i] = small_integer(3 * i);
                convert_kernels()->f32_to_bf16(a, wa, M * K);
                convert_kernels()->f32_to_bf16(b, wb, K * (N + 1));
                int64_t rs = along ? 1 : N + 1, cs = along ? k : 1;
                kernels->pack(b, rs, cs, k, n, panel);
                struct tile t = {.m = M,
                                 .n = n,
                                 .k = k,
                                 .a = a,
                                 .ars = K,
                                 .panel = panel,
                                 .c = c,
                                 .crs = 1,
                                 .ccs = M,
                                 .alpha = 1};
                kernels->run(&t);
                for (int64_t i = 0; i < M; i++)
                    for (int64_t j = 0; j < n; j++) {
                        float sum = 0, result;
                        for (int64_t p = 0; p < k; p++) sum += wa[i * K + p] * wb[p * rs + j * cs];
                        convert_kernels()->bf16_to_f32(&result, &c[j * M + i], 1);
                        assert_true(fabsf(result - sum) <= fabsf(sum) / 256);
                    }
                free(panel);
            }
}

/* ---- rows across memory ------------------------------------------------------------------------------ */

static void columns_are_rows(void **state)
{
    (void)state;
    enum { N = 17, STEP = 70 };
    for (int64_t m = 1; m <= COLUMN_BLOCK; m += 21) {
        float x[N * STEP], y[N * STEP], row[N], result[N];
        for (int i = 0; i < N * STEP; i++) x[i] = sinf((float)i) * 9, y[i] = 77;
        column_kernels()->softmax(y, x, N, STEP, m);
        for (int64_t j = 0; j < STEP; j++) {
            for (int i = 0; i < N; i++) row[i] = x[i * STEP + j];
            row_kernels()->softmax[0](result, row, N);
            for (int i = 0; i < N; i++)
                assert_true(j < m ? fabsf(y[i * STEP + j] - result[i]) <= 1e-6f * result[i]
                                  : y[i * STEP + j] == 77);
        }
    }
}

/* ---- the first few ----------------------------------------------------------------------------------- */

static void first_few(void **state)
{
    (void)state;
    enum { N = 300 };
    float v[N];
    struct order_item all[N], some[N], spare[N];
    for (int i = 0; i < N; i++) v[i] = i % 37 ? (float)(i * 29 % 50) : NAN;
    for (int descending = 0; descending < 2; descending++) {
        order_keys(all, v, ACL_FLOAT, N, descending);
        order_sort(all, spare, N);
        for (int64_t k = 0; k <= N; k += 7) {
            order_top(some, spare, v, ACL_FLOAT, N, k, descending);
            for (int64_t i = 0; i < k; i++) assert_int_equal(some[i].index, all[i].index);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_loops),       cmocka_unit_test(placed_rows), cmocka_unit_test(bf16_panels),
        cmocka_unit_test(columns_are_rows), cmocka_unit_test(first_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
