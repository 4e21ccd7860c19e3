/* reduce_kernels.c - the folds that reductions are made of. */
#include "softnpu/kernel/reduce_kernels.h"
#include "softnpu/kernel/vexp.h"

#include <complex.h>
#include <stdbool.h>

/* ---- folds with one plane: a = step(a, x), merged with the same or another associative step --------------
 */

#define IDENTITY(x) (x)
#define F32_VECTOR(p) VD_FROM_F32(p)
#define F64_VECTOR(p) VD_LOAD(p)
#define U64_VECTOR(p) (*(const vul_at *)(p))

/* Steps, in vectors (V_) and on one element (S_). */
#define V_SUM(a, x) ((a) + (x))
#define S_SUM(a, x) ((a) + (x))
#define V_PROD(a, x) ((a) * (x))
#define S_PROD(a, x) ((a) * (x))
#define V_MAX(a, x) VD_SELECT(((x) > (a)) | ((x) != (x)), x, a)
#define S_MAX(a, x) ((x) > (a) || (x) != (x) ? (x) : (a))
#define V_MIN(a, x) VD_SELECT(((x) < (a)) | ((x) != (x)), x, a)
#define S_MIN(a, x) ((x) < (a) || (x) != (x) ? (x) : (a))
#define V_NANSUM(a, x) ((a) + VD_SELECT((x) == (x), x, (vd){0}))
#define S_NANSUM(a, x) ((a) + ((x) == (x) ? (x) : 0))
#define V_NONZERO(a, x) ((a) - __builtin_convertvector((x) != 0, vd))
#define S_NONZERO(a, x) ((a) + ((x) != 0))
#define V_FABS(x) ((vd)((vl)(x)&INT64_MAX))
#define V_ABS(a, x) ((a) + V_FABS(x))
#define S_ABS(a, x) ((a) + fabs(x))
#define V_SQUARE(a, x) ((a) + (x) * (x))
#define S_SQUARE(a, x) ((a) + (x) * (x))
#define V_ABSMAX(a, x) V_MAX(a, V_FABS(x))
#define S_ABSMAX(a, x) S_MAX(a, fabs(x))
#define V_ABSMIN(a, x) V_MIN(a, V_FABS(x))
#define S_ABSMIN(a, x) S_MIN(a, fabs(x))
/* 64-bit integers: sums and products wrap, so they are done unsigned; the rest compares signed. */
#define V_IMAX(a, x) (((x) & (vul)((vl)(x) > (vl)(a))) | ((a) & (vul)((vl)(x) <= (vl)(a))))
#define S_IMAX(a, x) ((int64_t)(x) > (int64_t)(a) ? (x) : (a))
#define V_IMIN(a, x) (((x) & (vul)((vl)(x) < (vl)(a))) | ((a) & (vul)((vl)(x) >= (vl)(a))))
#define S_IMIN(a, x) ((int64_t)(x) < (int64_t)(a) ? (x) : (a))
#define V_INONZERO(a, x) ((a) - (vul)((x) != 0))
#define S_INONZERO(a, x) ((a) + ((x) != 0))

#define FOLD_REST(name, T, A, first, S_STEP, S_MERGE)                                                        \
    static void name##_init(void *acc, int64_t ld, int64_t n)                                                \
    {                                                                                                        \
        (void)ld;                                                                                            \
        for (int64_t i = 0; i < n; i++) ((A *)acc)[i] = first;                                               \
    }                                                                                                        \
    static void name##_col(void *acc, int64_t ld, const void *from, int64_t n, int64_t index, double p)      \
    {                                                                                                        \
        (void)ld, (void)index, (void)p;                                                                      \
        A *a = acc;                                                                                          \
        const T *x = from;                                                                                   \
        for (int64_t i = 0; i < n; i++) a[i] = S_STEP(a[i], (A)x[i]);                                        \
    }                                                                                                        \
    static void name##_merge(void *acc, int64_t ld, const void *from, int64_t from_ld, int64_t n)            \
    {                                                                                                        \
        (void)ld, (void)from_ld;                                                                             \
        A *a = acc;                                                                                          \
        const A *b = from;                                                                                   \
        for (int64_t i = 0; i < n; i++) a[i] = S_MERGE(a[i], b[i]);                                          \
    }

#define FOLD(name, T, A, VA, LOAD, first, V_STEP, S_STEP, S_MERGE)                                           \
    static void name##_row(void *acc, int64_t ld, const void *from, int64_t n, int64_t index, double p)      \
    {                                                                                                        \
        (void)ld, (void)index, (void)p;                                                                      \
        const T *x = from;                                                                                   \
        A total = *(A *)acc;                                                                                 \
        int64_t i = 0;                                                                                       \
        if (n >= V_LANES) {                                                                                  \
            VA lane[V_CHAINS];                                                                               \
            for (int j = 0; j < V_CHAINS; j++) lane[j] = (VA){0} + (first);                                  \
            for (; i + V_LANES <= n; i += V_LANES) {                                                         \
                for (int j = 0; j < V_CHAINS; j++) {                                                         \
                    VA v = LOAD(x + i + j * VD_N);                                                           \
                    lane[j] = V_STEP(lane[j], v);                                                            \
                }                                                                                            \
            }                                                                                                \
            for (int j = 0; j < V_CHAINS; j++)                                                               \
                for (int k = 0; k < VD_N; k++) total = S_MERGE(total, lane[j][k]);                           \
        }                                                                                                    \
        for (; i < n; i++) total = S_STEP(total, (A)x[i]);                                                   \
        *(A *)acc = total;                                                                                   \
    }                                                                                                        \
    FOLD_REST(name, T, A, first, S_STEP, S_MERGE)

/* Float sums: four floats are added in float, their sums in double, which halves the rounding of a float tree
 * and spares three conversions in four. The groups do not depend on the vector width. */
enum { TREE = 16, TREE_CHAINS = TREE / VF_N };

static void f32_sum_row(void *acc, int64_t ld, const void *from, int64_t n, int64_t index, double p)
{
    (void)ld, (void)index, (void)p;
    const float *x = from;
    double total = *(double *)acc;
    vd lane[TREE / VD_N] = {{0}};
    int64_t i = 0;
    for (; i + 4 * TREE <= n; i += 4 * TREE) {
        float part[TREE];
        for (int j = 0; j < TREE_CHAINS; j++) {
            const float *v = x + i + j * VF_N;
            VF_STORE(part + j * VF_N,
                     (VF_LOAD(v) + VF_LOAD(v + TREE)) + (VF_LOAD(v + 2 * TREE) + VF_LOAD(v + 3 * TREE)));
        }
        for (int j = 0; j < TREE / VD_N; j++) lane[j] += VD_FROM_F32(part + j * VD_N);
    }
    for (int j = 0; j < TREE / VD_N; j++)
        for (int k = 0; k < VD_N; k++) total += lane[j][k];
    for (; i < n; i++) total += (double)x[i];
    *(double *)acc = total;
}
FOLD_REST(f32_sum, float, double, 0.0, S_SUM, S_SUM)

/* Float extremes, without conversion; NaN wins. */
#define F32_EXTREME(name, first, COMPARE, S_STEP)                                                            \
    static float name##_of(const float *x, int64_t n)                                                        \
    {                                                                                                        \
        float total = first;                                                                                 \
        int64_t i = 0;                                                                                       \
        vf lane[V_CHAINS];                                                                                   \
        for (int j = 0; j < V_CHAINS; j++) lane[j] = (vf){0} + (first);                                      \
        for (; i + V_CHAINS * VF_N <= n; i += V_CHAINS * VF_N) {                                             \
            for (int j = 0; j < V_CHAINS; j++) {                                                             \
                vf v = VF_LOAD(x + i + j * VF_N);                                                            \
                lane[j] = VF_SELECT((v COMPARE lane[j]) | (v != v), v, lane[j]);                             \
            }                                                                                                \
        }                                                                                                    \
        for (int j = 0; j < V_CHAINS; j++)                                                                   \
            for (int k = 0; k < VF_N; k++) total = S_STEP(total, lane[j][k]);                                \
        for (; i < n; i++) total = S_STEP(total, x[i]);                                                      \
        return total;                                                                                        \
    }                                                                                                        \
    static void name##_row(void *acc, int64_t ld, const void *from, int64_t n, int64_t index, double p)      \
    {                                                                                                        \
        (void)ld, (void)index, (void)p;                                                                      \
        double *total = acc, here = (double)name##_of(from, n);                                              \
        *total = S_STEP(*total, here);                                                                       \
    }                                                                                                        \
    FOLD_REST(name, float, double, first, S_STEP, S_STEP)
F32_EXTREME(f32_max, -INFINITY, >, S_MAX)
F32_EXTREME(f32_min, INFINITY, <, S_MIN)

#define FLOAT_FOLDS(F)                                                                                       \
    F(prod, 1.0, PROD, PROD)                                                                                 \
    F(nansum, 0.0, NANSUM, SUM)                                                                              \
    F(nonzero, 0.0, NONZERO, SUM)                                                                            \
    F(abs, 0.0, ABS, SUM)                                                                                    \
    F(square, 0.0, SQUARE, SUM)                                                                              \
    F(absmax, 0.0, ABSMAX, MAX)                                                                              \
    F(absmin, INFINITY, ABSMIN, MIN)
#define F32_FOLD(name, first, STEP, MERGE)                                                                   \
    FOLD(f32_##name, float, double, vd, F32_VECTOR, first, V_##STEP, S_##STEP, S_##MERGE)
#define F64_FOLD(name, first, STEP, MERGE)                                                                   \
    FOLD(f64_##name, double, double, vd, F64_VECTOR, first, V_##STEP, S_##STEP, S_##MERGE)
FLOAT_FOLDS(F32_FOLD)
FLOAT_FOLDS(F64_FOLD)
F64_FOLD(sum, 0.0, SUM, SUM)
F64_FOLD(max, -INFINITY, MAX, MAX)
F64_FOLD(min, INFINITY, MIN, MIN)
FOLD(i64_sum, uint64_t, uint64_t, vul, U64_VECTOR, (uint64_t)0, V_SUM, S_SUM, S_SUM)
FOLD(i64_prod, uint64_t, uint64_t, vul, U64_VECTOR, (uint64_t)1, V_PROD, S_PROD, S_PROD)
FOLD(i64_max, uint64_t, uint64_t, vul, U64_VECTOR, (uint64_t)INT64_MIN, V_IMAX, S_IMAX, S_IMAX)
FOLD(i64_min, uint64_t, uint64_t, vul, U64_VECTOR, (uint64_t)INT64_MAX, V_IMIN, S_IMIN, S_IMIN)
FOLD(i64_nonzero, uint64_t, uint64_t, vul, U64_VECTOR, (uint64_t)0, V_INONZERO, S_INONZERO, S_SUM)

/* Complex, boolean and general powers: one element after the other. */
#define SCALAR_FOLD(name, T, A, first, S_STEP, S_MERGE)                                                      \
    static void name##_row(void *acc, int64_t ld, const void *from, int64_t n, int64_t index, double p)      \
    {                                                                                                        \
        (void)ld, (void)index, (void)p;                                                                      \
        const T *x = from;                                                                                   \
        A total = *(A *)acc;                                                                                 \
        for (int64_t i = 0; i < n; i++) total = S_STEP(total, (A)x[i]);                                      \
        *(A *)acc = total;                                                                                   \
    }                                                                                                        \
    FOLD_REST(name, T, A, first, S_STEP, S_MERGE)
#define S_ANY(a, x) ((a) | (x))
#define S_ALL(a, x) ((a) & (x))
#define S_POW(a, x) ((a) + pow(fabs(x), p))
SCALAR_FOLD(c128_sum, double _Complex, double _Complex, 0.0, S_SUM, S_SUM)
SCALAR_FOLD(c128_prod, double _Complex, double _Complex, 1.0, S_PROD, S_PROD)
SCALAR_FOLD(bool_any, uint8_t, int64_t, 0, S_ANY, S_ANY)
SCALAR_FOLD(bool_all, uint8_t, int64_t, 1, S_ALL, S_ALL)
SCALAR_FOLD(f32_pow, float, double, 0.0, S_POW, S_SUM)
SCALAR_FOLD(f64_pow, double, double, 0.0, S_POW, S_SUM)

/* ---- argmax, argmin: value and index ---------------------------------------------------------------------
 */

/* x takes the place of the value so far: it is better, or it is the first NaN. */
#define GREATER(x, a) ((x) > (a) || ((x) != (x) && (a) == (a)))
#define LESS(x, a) ((x) < (a) || ((x) != (x) && (a) == (a)))

/* The extreme of n > 0 elements and the place of the first such one (of the first NaN). */
#define FIRST_EXTREME(name, T, BETTER)                                                                       \
    static T name(const T *x, int64_t n, int64_t *place)                                                     \
    {                                                                                                        \
        T value = x[0];                                                                                      \
        *place = 0;                                                                                          \
        for (int64_t i = 1; i < n; i++) {                                                                    \
            if (BETTER(x[i], value)) value = x[i], *place = i;                                               \
        }                                                                                                    \
        return value;                                                                                        \
    }
FIRST_EXTREME(f64_first_max, double, GREATER)
FIRST_EXTREME(f64_first_min, double, LESS)
FIRST_EXTREME(i64_first_max, int64_t, GREATER)
FIRST_EXTREME(i64_first_min, int64_t, LESS)

static int64_t f32_find(const float *x, int64_t n, float value)
{
    bool nan = value != value;
    int64_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES) {
        int found = 0;
        for (int k = 0; k < V_LANES; k++) found |= nan ? x[i + k] != x[i + k] : x[i + k] == value;
        if (found) break;
    }
    while (i < n && !(nan ? x[i] != x[i] : x[i] == value)) i++;
    return i;
}

static float f32_first_max(const float *x, int64_t n, int64_t *place)
{
    float value = f32_max_of(x, n);
    *place = f32_find(x, n, value);
    return value;
}

static float f32_first_min(const float *x, int64_t n, int64_t *place)
{
    float value = f32_min_of(x, n);
    *place = f32_find(x, n, value);
    return value;
}

/* An index of -1 says that nothing has been folded yet. */
#define ARG_FOLD(name, T, A, BETTER, EXTREME)                                                                \
    static void name##_init(void *acc, int64_t ld, int64_t n)                                                \
    {                                                                                                        \
        memset(acc, 0, (size_t)n * sizeof(A));                                                               \
        memset((int64_t *)acc + ld, 0xff, (size_t)n * sizeof(int64_t));                                      \
    }                                                                                                        \
    static void name##_row(void *acc, int64_t ld, const void *from, int64_t n, int64_t index, double p)      \
    {                                                                                                        \
        (void)p;                                                                                             \
        const T *x = from;                                                                                   \
        int64_t *where = (int64_t *)acc + ld, best = 0;                                                      \
        if (!n) return;                                                                                      \
        T value = EXTREME(x, n, &best);                                                                      \
        if (*where < 0 || BETTER((A)value, *(A *)acc)) *(A *)acc = (A)value, *where = index + best;          \
    }                                                                                                        \
    static void name##_col(void *acc, int64_t ld, const void *from, int64_t n, int64_t index, double p)      \
    {                                                                                                        \
        (void)p;                                                                                             \
        A *a = acc;                                                                                          \
        int64_t *where = (int64_t *)acc + ld;                                                                \
        const T *x = from;                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            A value = (A)x[i];                                                                               \
            bool take = where[i] < 0 || BETTER(value, a[i]);                                                 \
            a[i] = take ? value : a[i];                                                                      \
            where[i] = take ? index : where[i];                                                              \
        }                                                                                                    \
    }                                                                                                        \
    static void name##_merge(void *acc, int64_t ld, const void *from, int64_t from_ld, int64_t n)            \
    {                                                                                                        \
        A *a = acc;                                                                                          \
        const A *b = from;                                                                                   \
        int64_t *where = (int64_t *)acc + ld;                                                                \
        const int64_t *at = (const int64_t *)from + from_ld;                                                 \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            if (at[i] >= 0 && (where[i] < 0 || BETTER(b[i], a[i]))) a[i] = b[i], where[i] = at[i];           \
        }                                                                                                    \
    }
ARG_FOLD(f32_argmax, float, double, GREATER, f32_first_max)
ARG_FOLD(f64_argmax, double, double, GREATER, f64_first_max)
ARG_FOLD(i64_argmax, int64_t, int64_t, GREATER, i64_first_max)
ARG_FOLD(f32_argmin, float, double, LESS, f32_first_min)
ARG_FOLD(f64_argmin, double, double, LESS, f64_first_min)
ARG_FOLD(i64_argmin, int64_t, int64_t, LESS, i64_first_min)

/* ---- count, mean, squared distances (Chan's merge, Welford's step) ---------------------------------------
 */

static void zero_init(void *acc, int64_t ld, int64_t n)
{
    for (int plane = 0; plane < 3; plane++) memset((double *)acc + plane * ld, 0, (size_t)n * sizeof(double));
}

static void moments_merge(void *acc, int64_t ld, const void *from, int64_t from_ld, int64_t n)
{
    double *count = acc, *mean = count + ld, *square = mean + ld;
    const double *c2 = from, *m2 = c2 + from_ld, *s2 = m2 + from_ld;
    for (int64_t i = 0; i < n; i++) {
        if (c2[i] == 0) continue;
        double all = count[i] + c2[i], d = m2[i] - mean[i];
        square[i] += s2[i] + d * d * (count[i] * c2[i] / all);
        mean[i] += d * (c2[i] / all);
        count[i] = all;
    }
}

static inline double lanes_sum(const vd lane[V_CHAINS])
{
    double sum = 0;
    for (int j = 0; j < V_CHAINS; j++)
        for (int k = 0; k < VD_N; k++) sum += lane[j][k];
    return sum;
}

#define MOMENTS(name, T, LOAD)                                                                               \
    static void name##_row(void *acc, int64_t ld, const void *from, int64_t n, int64_t index, double p)      \
    {                                                                                                        \
        (void)index, (void)p;                                                                                \
        const T *x = from;                                                                                   \
        if (!n) return;                                                                                      \
        vd lane[V_CHAINS] = {{0}};                                                                           \
        int64_t i = 0;                                                                                       \
        for (; i + V_LANES <= n; i += V_LANES)                                                               \
            for (int j = 0; j < V_CHAINS; j++) lane[j] += LOAD(x + i + j * VD_N);                            \
        double sum = lanes_sum(lane), square;                                                                \
        for (; i < n; i++) sum += (double)x[i];                                                              \
        double mean = sum / (double)n;                                                                       \
        for (int j = 0; j < V_CHAINS; j++) lane[j] = (vd){0};                                                \
        for (i = 0; i + V_LANES <= n; i += V_LANES) {                                                        \
            for (int j = 0; j < V_CHAINS; j++) {                                                             \
                vd d = LOAD(x + i + j * VD_N) - mean;                                                        \
                lane[j] += d * d;                                                                            \
            }                                                                                                \
        }                                                                                                    \
        square = lanes_sum(lane);                                                                            \
        for (; i < n; i++) square += ((double)x[i] - mean) * ((double)x[i] - mean);                          \
        double part[3] = {(double)n, mean, square};                                                          \
        moments_merge(acc, ld, part, 1, 1);                                                                  \
    }                                                                                                        \
    static void name##_col(void *acc, int64_t ld, const void *from, int64_t n, int64_t index, double p)      \
    {                                                                                                        \
        (void)index, (void)p;                                                                                \
        double *count = acc, *mean = count + ld, *square = mean + ld;                                        \
        const T *x = from;                                                                                   \
        if (!n) return;                                                                                      \
        double all = count[0] + 1, share = 1 / all;                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            double v = (double)x[i], d = v - mean[i];                                                        \
            count[i] = all;                                                                                  \
            mean[i] += d * share;                                                                            \
            square[i] += d * (v - mean[i]);                                                                  \
        }                                                                                                    \
    }
MOMENTS(f32_moments, float, F32_VECTOR)
MOMENTS(f64_moments, double, F64_VECTOR)

/* ---- log of the sum of exponentials ----------------------------------------------------------------------
 */

static void logsum_init(void *acc, int64_t ld, int64_t n)
{
    double *top = acc, *sum = top + ld;
    for (int64_t i = 0; i < n; i++) top[i] = -INFINITY, sum[i] = 0;
}

static void logsum_merge(void *acc, int64_t ld, const void *from, int64_t from_ld, int64_t n)
{
    double *top = acc, *sum = top + ld;
    const double *t2 = from, *s2 = t2 + from_ld;
    for (int64_t i = 0; i < n; i++) {
        double high = S_MAX(top[i], t2[i]);
        if (isinf(high)) { /* exp(inf - inf) has no value: what counts is that there are terms */
            sum[i] = (top[i] == high ? sum[i] : 0) + (t2[i] == high ? s2[i] : 0);
        } else {
            sum[i] = sum[i] * exp(top[i] - high) + s2[i] * exp(t2[i] - high);
        }
        top[i] = high;
    }
}

static double f32_expsum(const float *x, int64_t n, double top)
{
    double lane[TREE] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + TREE <= n; i += TREE) {
        float part[TREE];
        for (int j = 0; j < TREE; j += VF_N) {
            vf v = VF_LOAD(x + i + j) - (float)top;
            vf_exp_low(&v);
            VF_STORE(part + j, v);
        }
        for (int j = 0; j < TREE; j += VD_N) *(vd_at *)(lane + j) += VD_FROM_F32(part + j);
    }
    for (int j = 0; j < TREE; j++) sum += lane[j];
    for (; i < n; i++) sum += exp((double)x[i] - top);
    return sum;
}

static double f64_expsum(const double *x, int64_t n, double top)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += exp(x[i] - top);
    return sum;
}

#define LOGSUM(type, T)                                                                                      \
    static void type##_logsum_row(void *acc, int64_t ld, const void *from, int64_t n, int64_t index,         \
                                  double p)                                                                  \
    {                                                                                                        \
        double part[2];                                                                                      \
        type##_max_init(part, 1, 1);                                                                         \
        type##_max_row(part, 1, from, n, index, p);                                                          \
        part[1] = isinf(part[0]) ? (double)(n > 0) : type##_expsum((const T *)from, n, part[0]);             \
        logsum_merge(acc, ld, part, 1, 1);                                                                   \
    }
LOGSUM(f32, float)
LOGSUM(f64, double)

/* ---- the table -------------------------------------------------------------------------------------------
 */

#define ROW(name, planes)                                                                                    \
    {                                                                                                        \
        planes, name##_init, name##_row, name##_col, name##_merge                                            \
    }
#define FLOATS(op, name) [op] = {[RED_F32] = ROW(f32_##name, 1), [RED_F64] = ROW(f64_##name, 1)}
#define NUMBERS(op, name)                                                                                    \
    [op] = {[RED_F32] = ROW(f32_##name, 1), [RED_F64] = ROW(f64_##name, 1), [RED_I64] = ROW(i64_##name, 1)}
#define ALL_TYPES(op, name)                                                                                  \
    [op] = {[RED_F32] = ROW(f32_##name, 1),                                                                  \
            [RED_F64] = ROW(f64_##name, 1),                                                                  \
            [RED_I64] = ROW(i64_##name, 1),                                                                  \
            [RED_C128] = ROW(c128_##name, 1)}
#define ARGS(op, name)                                                                                       \
    [op] = {[RED_F32] = ROW(f32_##name, 2), [RED_F64] = ROW(f64_##name, 2), [RED_I64] = ROW(i64_##name, 2)}

const struct reduce_kernels KV(reduce_kernels) = {{
    ALL_TYPES(RED_SUM, sum),
    ALL_TYPES(RED_PROD, prod),
    NUMBERS(RED_MAX, max),
    NUMBERS(RED_MIN, min),
    ARGS(RED_ARGMAX, argmax),
    ARGS(RED_ARGMIN, argmin),
    [RED_NANSUM] =
        {[RED_F32] = ROW(f32_nansum, 1), [RED_F64] = ROW(f64_nansum, 1), [RED_I64] = ROW(i64_sum, 1)},
    NUMBERS(RED_NONZERO, nonzero),
    FLOATS(RED_ABS, abs),
    FLOATS(RED_SQUARE, square),
    FLOATS(RED_ABSMAX, absmax),
    FLOATS(RED_ABSMIN, absmin),
    FLOATS(RED_POW, pow),
    [RED_MOMENTS] = {[RED_F32] = {3, zero_init, f32_moments_row, f32_moments_col, moments_merge},
                     [RED_F64] = {3, zero_init, f64_moments_row, f64_moments_col, moments_merge}},
    [RED_LOGSUM] = {[RED_F32] = {2, logsum_init, f32_logsum_row, NULL, logsum_merge},
                    [RED_F64] = {2, logsum_init, f64_logsum_row, NULL, logsum_merge}},
    [RED_ANY] = {[RED_BOOL] = ROW(bool_any, 1)},
    [RED_ALL] = {[RED_BOOL] = ROW(bool_all, 1)},
}};
