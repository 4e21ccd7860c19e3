/* attention.c - one row of attention scores. */
#include "softnpu/kernel/attention.h"
#include <math.h>
#include <string.h>

/* e^x for x <= 0 within 2 ulp, vectorisable: 2^n e^r with |r| <= ln2/2, e^r as a polynomial. Below -87 it is
 * 0. */
static inline float exp_negative(float x)
{
    float y = x < -87.0f ? -87.0f : x;
    float n = y <= 0.0f ? __builtin_rintf(y * 1.44269504f) : 0.0f; /* a NaN has no exponent, but stays */
    float r = (y - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    union {
        uint32_t bits;
        float f;
    } two = {.bits = (uint32_t)((int32_t)n + 127) << 23};
    return x < -87.0f ? 0.0f : p * two.f;
}

enum { LANES = 16 };
static float max_of(const float *x, int64_t n)
{
    float lane[LANES], most = -INFINITY;
    int64_t i = 0;
    for (int j = 0; j < LANES; j++) lane[j] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    for (; i < n; i++) most = x[i] > most ? x[i] : most;
    for (int j = 0; j < LANES; j++) most = lane[j] > most ? lane[j] : most;
    return most;
}

static float sum_of(const float *x, int64_t n)
{
    float lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] += x[i + j];
    for (; i < n; i++) sum += x[i];
    for (int j = 0; j < LANES; j++) sum += lane[j];
    return sum;
}

static float dot_of(const float *x, const float *y, int64_t n)
{
    float lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] += x[i + j] * y[i + j];
    for (; i < n; i++) sum += x[i] * y[i];
    for (int j = 0; j < LANES; j++) sum += lane[j];
    return sum;
}

static void hide(float *s, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) s[i] = -INFINITY;
}

/* Scores to softmax inputs; hidden ones become -infinity. */
static void scale_and_mask(const struct score_row *r, float *s)
{
    if (!r->bias)
        for (int64_t i = 0; i < r->n; i++) s[i] *= r->scale;
    else if (r->scale_bias)
        for (int64_t i = 0; i < r->n; i++) s[i] = (s[i] + r->bias[i]) * r->scale;
    else
        for (int64_t i = 0; i < r->n; i++) s[i] = s[i] * r->scale + r->bias[i];
    if (r->mask)
        for (int64_t i = 0; i < r->n; i++) s[i] = r->mask[i] ? -INFINITY : s[i];
    int64_t hi = r->hi > r->prefix ? r->hi : r->prefix;
    if (r->lo > r->prefix) hide(s, r->prefix, r->lo < r->n ? r->lo : r->n);
    hide(s, hi > 0 ? hi : 0, r->n);
}

static bool kept(const struct score_row *r, int64_t i)
{
    int64_t bit = r->keep_bit + i;
    return r->keep[bit >> 3] >> (bit & 7) & 1;
}

static void drop(const struct score_row *r, float *x)
{
    if (!r->keep) return;
    for (int64_t i = 0; i < r->n; i++) x[i] = kept(r, i) ? x[i] * r->keep_scale : 0;
}

static void forward(const struct score_row *r, float *s, float *max, float *sum)
{
    scale_and_mask(r, s);
    float most = max_of(s, r->n), total = 0;
    if (most == -INFINITY && r->n) {
        bool nan = false;
        for (int64_t i = 0; i < r->n; i++) nan |= s[i] != s[i];
        if (nan) most = NAN;
    }
    *max = most;
    *sum = 0;
    if (most == -INFINITY) {
        memset(s, 0, (size_t)r->n * sizeof *s);
        return;
    }
    for (int64_t i = 0; i < r->n; i++) s[i] = s[i] != s[i] ? s[i] : exp_negative(s[i] - most);
    *sum = total = sum_of(s, r->n);
    float part = 1 / total;
    for (int64_t i = 0; i < r->n; i++) s[i] *= part;
    drop(r, s);
}

static void backward(const struct score_row *r, float *s, float *g, float max, float sum)
{
    if (sum == 0) {
        memset(s, 0, (size_t)r->n * sizeof *s);
        memset(g, 0, (size_t)r->n * sizeof *g);
        return;
    }
    scale_and_mask(r, s);
    float part = 1 / sum;
    for (int64_t i = 0; i < r->n; i++) s[i] = s[i] != s[i] ? s[i] : exp_negative(s[i] - max) * part;
    drop(r, g);
    float mean = dot_of(s, g, r->n);
    for (int64_t i = 0; i < r->n; i++) g[i] = s[i] * (g[i] - mean) * r->scale;
    drop(r, s);
}

static void masked(int64_t n, const float *x, const uint8_t *mask, float scale, float *y)
{
    for (int64_t i = 0; i < n; i++) y[i] = mask && mask[i] ? -10000.0f : x[i] * scale;
    float most = max_of(y, n);
    for (int64_t i = 0; i < n; i++) y[i] = y[i] != y[i] ? y[i] : exp_negative(y[i] - most);
    float part = 1 / sum_of(y, n);
    for (int64_t i = 0; i < n; i++) y[i] *= part;
}

static void masked_back(int64_t n, const float *grad, const float *y, const uint8_t *mask, float scale,
                        float *out)
{
    float mean = dot_of(grad, y, n);
    for (int64_t i = 0; i < n; i++) out[i] = mask && mask[i] ? 0 : (grad[i] - mean) * y[i] * scale;
}

const struct attention_kernels KV(attention_kernels) = {
    .forward = forward, .backward = backward, .masked = masked, .masked_back = masked_back};
