/* row_kernels.c - softmax and normalisations, one row at a time. */
#include "softnpu/kernel/row_kernels.h"
#include "softnpu/kernel/vexp.h"

#include <stddef.h>

/* Float sums go to double after this many elements. */
enum { FLUSH = 4096, F_LANES = 64, F_CHAINS = F_LANES / VF_N };

/* The last, incomplete vector of a row, filled up with `fill`. */
V_INLINE void vf_tail(vf *v, const float *x, int64_t n, float fill)
{
    float part[VF_N];
    for (int k = 0; k < VF_N; k++) part[k] = k < n ? x[k] : fill;
    memcpy(v, part, sizeof *v);
}

static inline double lanes_total(const vf *lane)
{
    double sum = 0;
    for (int j = 0; j < F_CHAINS; j++)
        for (int k = 0; k < VF_N; k++) sum += (double)lane[j][k];
    return sum;
}

/* ---- softmax ---------------------------------------------------------------------------------------------
 */

#define LARGER(x, m) ((x) > (m) || (x) != (x) ? (x) : (m))

/* The largest number; NaNs are left out, they spoil the sum of the exponentials anyway. */
static float f32_top(const float *x, int64_t n)
{
    float top = -INFINITY;
    int64_t i = 0;
    vf lane[F_CHAINS];
    for (int j = 0; j < F_CHAINS; j++) lane[j] = (vf){0} - INFINITY;
    for (; i + F_LANES <= n; i += F_LANES) {
        for (int j = 0; j < F_CHAINS; j++) {
            vf v = VF_LOAD(x + i + j * VF_N);
            lane[j] = VF_SELECT(v > lane[j], v, lane[j]);
        }
    }
    for (int j = 0; j < F_CHAINS; j++)
        for (int k = 0; k < VF_N; k++) top = lane[j][k] > top ? lane[j][k] : top;
    for (; i < n; i++) top = x[i] > top ? x[i] : top;
    return top;
}

/* Sum of exp(x - top); the exponentials themselves go to y unless it is NULL. */
V_INLINE double f32_exp_block(float *y, const float *x, int64_t n, float top)
{
    vf lane[F_CHAINS] = {{0}};
    int64_t i = 0;
    for (; i + F_LANES <= n; i += F_LANES) {
        for (int j = 0; j < F_CHAINS; j++) {
            vf v = VF_LOAD(x + i + j * VF_N) - top;
            vf_exp_low(&v);
            if (y) VF_STORE(y + i + j * VF_N, v);
            lane[j] += v;
        }
    }
    for (int j = 0; i < n; i += VF_N, j++) {
        int64_t rest = n - i < VF_N ? n - i : VF_N;
        vf v;
        vf_tail(&v, x + i, rest, -INFINITY);
        v = v - top;
        vf_exp_low(&v);
        if (y) memcpy(y + i, &v, (size_t)rest * sizeof *y);
        for (int k = 0; k < VF_N; k++) lane[j][k] += k < rest ? v[k] : 0;
    }
    return lanes_total(lane);
}

static double f32_exp_sum(float *y, const float *x, int64_t n, float top)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i += FLUSH) {
        int64_t m = n - i < FLUSH ? n - i : FLUSH;
        sum += y ? f32_exp_block(y + i, x + i, m, top) : f32_exp_block(NULL, x + i, m, top);
    }
    return sum;
}

static void f32_softmax(void *out, const void *in, int64_t n)
{
    float *y = out;
    float scale = (float)(1 / f32_exp_sum(y, in, n, f32_top(in, n)));
    for (int64_t i = 0; i < n; i++) y[i] *= scale;
}

static void f32_log_softmax(void *out, const void *in, int64_t n)
{
    float *y = out, top = f32_top(in, n);
    const float *x = in;
    float rest = (float)log(f32_exp_sum(NULL, x, n, top));
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - top) - rest;
}

/* Sum of a*b, or of a alone where b is NULL. */
V_INLINE double f32_dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t from = 0; from < n; from += FLUSH) {
        vf lane[F_CHAINS] = {{0}};
        int64_t end = n - from < FLUSH ? n : from + FLUSH, i = from;
        for (; i + F_LANES <= end; i += F_LANES) {
            for (int j = 0; j < F_CHAINS; j++) {
                vf v = VF_LOAD(a + i + j * VF_N);
                lane[j] += b ? v * VF_LOAD(b + i + j * VF_N) : v;
            }
        }
        sum += lanes_total(lane);
        for (; i < end; i++) sum += b ? (double)a[i] * (double)b[i] : (double)a[i];
    }
    return sum;
}

static void f32_softmax_grad(void *out, const void *grad, const void *result, int64_t n)
{
    float *dx = out;
    const float *dy = grad, *y = result;
    float sum = (float)f32_dot(dy, y, n);
    for (int64_t i = 0; i < n; i++) dx[i] = (dy[i] - sum) * y[i];
}

static void f32_log_softmax_grad(void *out, const void *grad, const void *result, int64_t n)
{
    float *dx = out;
    const float *dy = grad, *y = result;
    float sum = (float)f32_dot(dy, NULL, n);
    int64_t i = 0;
    for (; i + VF_N <= n; i += VF_N) {
        vf e = VF_LOAD(y + i);
        vf_exp(&e);
        VF_STORE(dx + i, VF_LOAD(dy + i) - e * sum);
    }
    if (i == n) return;
    vf e;
    vf_tail(&e, y + i, n - i, 0);
    vf_exp(&e);
    for (int k = 0; i + k < n; k++) dx[i + k] = dy[i + k] - e[k] * sum;
}

static double f64_exp_sum(double *y, const double *x, int64_t n, double *top)
{
    double sum = 0, m = -INFINITY;
    for (int64_t i = 0; i < n; i++) m = LARGER(x[i], m);
    for (int64_t i = 0; i < n; i++) {
        double e = exp(x[i] - m);
        if (y) y[i] = e;
        sum += e;
    }
    *top = m;
    return sum;
}

static void f64_softmax(void *out, const void *in, int64_t n)
{
    double *y = out, top, sum = f64_exp_sum(y, in, n, &top);
    for (int64_t i = 0; i < n; i++) y[i] /= sum;
}

static void f64_log_softmax(void *out, const void *in, int64_t n)
{
    double *y = out, top, rest = log(f64_exp_sum(NULL, in, n, &top));
    const double *x = in;
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - top) - rest;
}

static void f64_softmax_grad(void *out, const void *grad, const void *result, int64_t n)
{
    double *dx = out, sum = 0;
    const double *dy = grad, *y = result;
    for (int64_t i = 0; i < n; i++) sum += dy[i] * y[i];
    for (int64_t i = 0; i < n; i++) dx[i] = (dy[i] - sum) * y[i];
}

static void f64_log_softmax_grad(void *out, const void *grad, const void *result, int64_t n)
{
    double *dx = out, sum = 0;
    const double *dy = grad, *y = result;
    for (int64_t i = 0; i < n; i++) sum += dy[i];
    for (int64_t i = 0; i < n; i++) dx[i] = dy[i] - exp(y[i]) * sum;
}

/* ---- normalisations --------------------------------------------------------------------------------------
 */

static inline double vd_total(const vd *lane)
{
    double sum = 0;
    for (int j = 0; j < V_CHAINS; j++)
        for (int k = 0; k < VD_N; k++) sum += lane[j][k];
    return sum;
}

/* Sum of (x - shift)^power, power 1 or 2. The float version adds four neighbours' values in float first,
 * which spares conversions; groups do not depend on the vector width. */
V_INLINE double f32_power_sum(const float *x, int64_t n, double shift, int power)
{
    enum { TREE = 16 };
    const float s = (float)shift;
    double lane[TREE] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 4 * TREE <= n; i += 4 * TREE) {
        float part[TREE];
        for (int j = 0; j < TREE; j += VF_N) {
            vf v[4];
            for (int k = 0; k < 4; k++) {
                v[k] = VF_LOAD(x + i + j + k * TREE) - s;
                if (power == 2) v[k] *= v[k];
            }
            VF_STORE(part + j, (v[0] + v[1]) + (v[2] + v[3]));
        }
        for (int j = 0; j < TREE; j += VD_N) *(vd_at *)(lane + j) += VD_FROM_F32(part + j);
    }
    for (int j = 0; j < TREE; j++) sum += lane[j];
    for (; i < n; i++) {
        double v = (double)(x[i] - s);
        sum += power == 2 ? v * v : v;
    }
    return sum;
}

V_INLINE double f64_power_sum(const double *x, int64_t n, double shift, int power)
{
    vd lane[V_CHAINS] = {{0}};
    int64_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES) {
        for (int j = 0; j < V_CHAINS; j++) {
            vd v = VD_LOAD(x + i + j * VD_N) - shift;
            lane[j] += power == 2 ? v * v : v;
        }
    }
    double sum = vd_total(lane);
    for (; i < n; i++) {
        double v = x[i] - shift;
        sum += power == 2 ? v * v : v;
    }
    return sum;
}

#define NORMS(type, T)                                                                                       \
    static void type##_add(void *out, const void *left, const void *right, double scale, int64_t n)          \
    {                                                                                                        \
        T *y = out, w = (T)scale;                                                                            \
        const T *a = left, *b = right;                                                                       \
        for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i] * w;                                              \
    }                                                                                                        \
    static struct row_stats type##_stats(const void *x, int64_t n, double eps)                               \
    {                                                                                                        \
        double mean = type##_power_sum(x, n, 0, 1) / (double)n;                                              \
        return (struct row_stats){mean, 1 / sqrt(type##_power_sum(x, n, mean, 2) / (double)n + eps)};        \
    }                                                                                                        \
    static struct row_stats type##_rms(const void *x, int64_t n, double eps)                                 \
    {                                                                                                        \
        return (struct row_stats){0, 1 / sqrt(type##_power_sum(x, n, 0, 2) / (double)n + eps)};              \
    }                                                                                                        \
    static void type##_normalise(void *out, const void *in, int64_t n, struct row_stats s,                   \
                                 const void *gamma, const void *beta)                                        \
    {                                                                                                        \
        T *y = out;                                                                                          \
        const T *x = in, *g = gamma, *b = beta, mean = (T)s.mean, rstd = (T)s.rstd;                          \
        if (g && b) {                                                                                        \
            for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd * g[i] + b[i];                       \
        } else if (g) {                                                                                      \
            for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd * g[i];                              \
        } else {                                                                                             \
            for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd + (b ? b[i] : 0);                    \
        }                                                                                                    \
    }                                                                                                        \
    static void type##_affine(void *out, const void *in, int64_t n, struct row_stats s, double gamma,        \
                              double beta)                                                                   \
    {                                                                                                        \
        T *y = out;                                                                                          \
        const T *x = in, mean = (T)s.mean, scale = (T)(s.rstd * gamma), b = (T)beta;                         \
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale + b;                                    \
    }                                                                                                        \
    static struct row_sums type##_grad_sums(const void *grad, const void *in, int64_t n, struct row_stats s, \
                                            const void *gamma)                                               \
    {                                                                                                        \
        const T *dy = grad, *x = in, *w = gamma;                                                             \
        double g[V_LANES] = {0}, gx[V_LANES] = {0};                                                          \
        int64_t i = 0;                                                                                       \
        for (; i + V_LANES <= n; i += V_LANES) {                                                             \
            for (int k = 0; k < V_LANES; k++) {                                                              \
                double v = (double)(w ? dy[i + k] * w[i + k] : dy[i + k]);                                   \
                g[k] += v;                                                                                   \
                gx[k] += v * (((double)x[i + k] - s.mean) * s.rstd);                                         \
            }                                                                                                \
        }                                                                                                    \
        for (int k = 0; i < n; i++, k++) {                                                                   \
            double v = (double)(w ? dy[i] * w[i] : dy[i]);                                                   \
            g[k] += v;                                                                                       \
            gx[k] += v * (((double)x[i] - s.mean) * s.rstd);                                                 \
        }                                                                                                    \
        struct row_sums sums = {0, 0};                                                                       \
        for (int k = 0; k < V_LANES; k++) sums.g += g[k], sums.gx += gx[k];                                  \
        return sums;                                                                                         \
    }                                                                                                        \
    static void type##_grad_input(void *out, const void *grad, const void *in, int64_t n,                    \
                                  struct row_stats s, const void *gamma, double scale, double a, double b)   \
    {                                                                                                        \
        T *dx = out;                                                                                         \
        const T *dy = grad, *x = in, *w = gamma, mean = (T)s.mean, rstd = (T)s.rstd, g = (T)scale,           \
                a1 = (T)a, b1 = (T)b;                                                                        \
        if (w) {                                                                                             \
            for (int64_t i = 0; i < n; i++) dx[i] = rstd * (dy[i] * w[i] - a1 - (x[i] - mean) * rstd * b1);  \
        } else {                                                                                             \
            for (int64_t i = 0; i < n; i++) dx[i] = rstd * (dy[i] * g - a1 - (x[i] - mean) * rstd * b1);     \
        }                                                                                                    \
    }                                                                                                        \
    static void type##_grad_affine(double *dgamma, double *dbeta, const void *grad, const void *in,          \
                                   int64_t n, struct row_stats s)                                            \
    {                                                                                                        \
        const T *dy = grad, *x = in;                                                                         \
        for (int64_t i = 0; i < n && dgamma; i++)                                                            \
            dgamma[i] += (double)dy[i] * (((double)x[i] - s.mean) * s.rstd);                                 \
        for (int64_t i = 0; i < n && dbeta; i++) dbeta[i] += (double)dy[i];                                  \
    }

NORMS(f32, float)
NORMS(f64, double)

#define BOTH(name) .name = {f32_##name, f64_##name}
const struct row_kernels KV(row_kernels) = {
    BOTH(add),        BOTH(softmax),     BOTH(log_softmax), BOTH(softmax_grad), BOTH(log_softmax_grad),
    BOTH(stats),      BOTH(rms),         BOTH(normalise),   BOTH(affine),       BOTH(grad_sums),
    BOTH(grad_input), BOTH(grad_affine),
};
