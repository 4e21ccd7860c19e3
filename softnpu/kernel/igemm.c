/* igemm.c - integer matrix products. */
#include "softnpu/kernel/igemm.h"
#include <string.h>

/* dtype, element, unsigned type that sums are taken in (wide enough that products do not become signed) */
#define IGEMM_LIST(X)                                                                                        \
    X(ACL_INT8, uint8_t, uint32_t)                                                                           \
    X(ACL_UINT8, uint8_t, uint32_t)                                                                          \
    X(ACL_INT16, uint16_t, uint32_t)                                                                         \
    X(ACL_UINT16, uint16_t, uint32_t)                                                                        \
    X(ACL_INT32, uint32_t, uint32_t)                                                                         \
    X(ACL_UINT32, uint32_t, uint32_t)                                                                        \
    X(ACL_INT64, uint64_t, uint64_t)                                                                         \
    X(ACL_UINT64, uint64_t, uint64_t)

#define IGEMM(id, type, wide)                                                                                \
    static void run_##id(const struct igemm_args *g)                                                         \
    {                                                                                                        \
        const type *a = g->a, *b = g->b;                                                                     \
        wide alpha = (wide)g->alpha, beta = (wide)g->beta;                                                   \
        for (int64_t i = 0; i < g->m; i++) {                                                                 \
            type *c = (type *)g->c + i * g->crs;                                                             \
            if (g->beta == 0)                                                                                \
                memset(c, 0, (size_t)g->n * sizeof *c);                                                      \
            else                                                                                             \
                for (int64_t j = 0; j < g->n; j++) c[j] = (type)(beta * c[j]);                               \
            if (g->bcs == 1) {                                                                               \
                for (int64_t p = 0; p < g->k; p++) {                                                         \
                    wide x = alpha * a[i * g->ars + p * g->acs];                                             \
                    const type *row = b + p * g->brs;                                                        \
                    for (int64_t j = 0; j < g->n; j++) c[j] = (type)(c[j] + x * row[j]);                     \
                }                                                                                            \
            } else {                                                                                         \
                for (int64_t j = 0; j < g->n; j++) {                                                         \
                    wide sum = 0;                                                                            \
                    const type *col = b + j * g->bcs, *row = a + i * g->ars;                                 \
                    for (int64_t p = 0; p < g->k; p++) sum += (wide)row[p * g->acs] * col[p * g->brs];       \
                    c[j] = (type)(c[j] + alpha * sum);                                                       \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }
IGEMM_LIST(IGEMM)

static void run_bool(const struct igemm_args *g)
{
    const uint8_t *a = g->a, *b = g->b;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            uint8_t *c = (uint8_t *)g->c + i * g->crs + j, any = 0;
            for (int64_t p = 0; p < g->k && !any; p++)
                any = a[i * g->ars + p * g->acs] && b[p * g->brs + j * g->bcs];
            *c = (uint8_t)((g->beta && *c) || (g->alpha && any));
        }
}

#define IGEMM_ROW(id, type, wide) [id] = run_##id,
const struct igemm_kernels KV(igemm_kernels) = {.run = {IGEMM_LIST(IGEMM_ROW)[ACL_BOOL] = run_bool}};
