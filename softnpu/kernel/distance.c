/* distance.c - p-norm distances between rows of a matrix, and their gradient. */
#include "softnpu/kernel/distance.h"

#include <math.h>

/* Partial sums, so that the compiler may vectorise and the order of additions is the same everywhere. */
enum { LANES = 8 };
#define SUM(name, term)                                                                                      \
    static double name(const float *a, const float *b, int64_t n, double p)                                  \
    {                                                                                                        \
        double part[LANES] = {0}, sum = 0;                                                                   \
        int64_t i = 0;                                                                                       \
        (void)p;                                                                                             \
        for (; i + LANES <= n; i += LANES)                                                                   \
            for (int k = 0; k < LANES; k++) {                                                                \
                double d = fabs((double)a[i + k] - (double)b[i + k]);                                        \
                part[k] += term;                                                                             \
            }                                                                                                \
        for (; i < n; i++) {                                                                                 \
            double d = fabs((double)a[i] - (double)b[i]);                                                    \
            sum += term;                                                                                     \
        }                                                                                                    \
        for (int k = 0; k < LANES; k++) sum += part[k];                                                      \
        return sum;                                                                                          \
    }
SUM(sum_different, d != 0)
SUM(sum_absolute, d)
SUM(sum_squares, d *d)
SUM(sum_powers, pow(d, p))

static double largest(const float *a, const float *b, int64_t n)
{
    double top = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        top = d > top || d != d ? d : top;
    }
    return top;
}

static double norm(const float *a, const float *b, int64_t n, double p)
{
    if (p == 0) return sum_different(a, b, n, p);
    if (p == 1) return sum_absolute(a, b, n, p);
    if (p == 2) return sqrt(sum_squares(a, b, n, p));
    if (isinf(p)) return largest(a, b, n);
    return pow(sum_powers(a, b, n, p), 1 / p);
}

static double slope(double d, double p, double distance)
{
    double size = fabs(d), sign = (d > 0) - (d < 0);
    if (p == 1) return sign;
    if (isinf(p)) return (float)size == (float)distance ? sign : 0; /* distances are stored as float */
    if (distance == 0 || (p < 1 && size == 0)) return 0;
    return p == 2 ? d / distance : sign * pow(size / distance, p - 1);
}

static void gradient(double *to, const float *a, const float *b, int64_t n, double p, double distance,
                     double grad)
{
    if (p == 0) return;
    for (int64_t i = 0; i < n; i++) to[i] += grad * slope((double)a[i] - (double)b[i], p, distance);
}

const struct distance_kernels KV(distance_kernels) = {.norm = norm, .gradient = gradient};
