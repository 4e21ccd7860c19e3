/* loss_kernels.c - the scalar expressions of elementwise losses, for float and double. */
#include "softnpu/kernel/loss_kernels.h"

#include <math.h>
#include <stddef.h>

/* Expressions in x (self), t (target), w (pos_weight), beta; M(name) is the maths function for T. */
#define SIGN(d) (T)(((d) > 0) - ((d) < 0))
#define SIGMOID(x) (1 / (1 + M(exp)(-(x))))
#define SOFTPLUS(v) (M(fmax)(v, 0) + M(log1p)(M(exp)(-M(fabs)(v))))
#define BELOW(d, beta) (M(fabs)(d) < (beta))
#define CLAMPED_LOG(v) M(fmax)(v, -100)
#define XLOGX(t) ((t) > 0 ? (t)*M(log)(t) : (t) == 0 ? 0 : (T)NAN)

#define LOSSES(X)                                                                                            \
    X(mse, (x - t) * (x - t))                                                                                \
    X(l1, M(fabs)(x - t))                                                                                    \
    X(smooth_l1, BELOW(x - t, beta) ? (x - t) * (x - t) / beta / 2 : M(fabs)(x - t) - beta / 2)              \
    X(soft_margin, SOFTPLUS(-t *x))                                                                          \
    X(kl, XLOGX(t) - t * x)                                                                                  \
    X(kl_log, M(exp)(t) * (t - x))                                                                           \
    X(bce, (t - 1) * CLAMPED_LOG(M(log1p)(-x)) - t * CLAMPED_LOG(M(log)(x)))                                 \
    X(bce_logits, (1 - t) * x + ((w - 1) * t + 1) * (M(log1p)(M(exp)(-M(fabs)(x))) + M(fmax)(-x, 0)))
#define GRADS(X)                                                                                             \
    X(mse, 2 * (x - t))                                                                                      \
    X(l1, SIGN(x - t))                                                                                       \
    X(smooth_l1, BELOW(x - t, beta) ? (x - t) / beta : SIGN(x - t))                                          \
    X(soft_margin, -t *SIGMOID(-t *x))                                                                       \
    X(kl, -t)                                                                                                \
    X(kl_log, -M(exp)(t))                                                                                    \
    X(bce, (x - t) / M(fmax)((1 - x) * x, (T)1e-12))                                                         \
    X(bce_logits, (w * t + 1 - t) * SIGMOID(x) - w * t)                                                      \
    X(kl_target, t == 0 ? 0 : M(log)(t) + 1 - x)                                                             \
    X(kl_log_target, M(exp)(t) * (t + 1 - x))

#define LOSS_FN(name, expression)                                                                            \
    static void LOSS_NAME(loss_##name)(int64_t n, void *const *p, int64_t index, const void *ctx)            \
    {                                                                                                        \
        (void)index;                                                                                         \
        const T beta = (T)((const struct loss_params *)ctx)->beta, *self = p[1], *target = p[2],             \
                *weight = p[3], *pos_weight = p[4];                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            const T x = self[i], t = target[i], w = pos_weight[i];                                           \
            (void)x, (void)t, (void)w, (void)beta;                                                           \
            ((T *)p[0])[i] = (expression)*weight[i];                                                         \
        }                                                                                                    \
    }
#define GRAD_FN(name, expression)                                                                            \
    static void LOSS_NAME(grad_##name)(int64_t n, void *const *p, int64_t index, const void *ctx)            \
    {                                                                                                        \
        (void)index;                                                                                         \
        const struct loss_params *params = ctx;                                                              \
        const T beta = (T)params->beta, scale = (T)params->scale, *grad = p[1], *self = p[2],                \
                *target = p[3], *weight = p[4], *pos_weight = p[5];                                          \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            const T x = self[i], t = target[i], w = pos_weight[i];                                           \
            (void)x, (void)t, (void)w, (void)beta;                                                           \
            ((T *)p[0])[i] = (expression)*scale * grad[i] * weight[i];                                       \
        }                                                                                                    \
    }

#define T float
#define M(name) name##f
#define LOSS_NAME(name) f32_##name
LOSSES(LOSS_FN)
GRADS(GRAD_FN)
#undef T
#undef M
#undef LOSS_NAME
#define T double
#define M(name) name
#define LOSS_NAME(name) f64_##name
LOSSES(LOSS_FN)
GRADS(GRAD_FN)

#define LOSS(id, name)                                                                                       \
    .loss[id] = {f32_loss_##name, f64_loss_##name}, .grad[id] = {f32_grad_##name, f64_grad_##name}
const struct loss_kernels KV(loss_kernels) = {
    LOSS(LOSS_MSE, mse),
    LOSS(LOSS_L1, l1),
    LOSS(LOSS_SMOOTH_L1, smooth_l1),
    LOSS(LOSS_SOFT_MARGIN, soft_margin),
    LOSS(LOSS_KL, kl),
    LOSS(LOSS_KL_LOG, kl_log),
    LOSS(LOSS_BCE, bce),
    LOSS(LOSS_BCE_LOGITS, bce_logits),
    .grad[LOSS_KL_TARGET] = {f32_grad_kl_target, f64_grad_kl_target},
    .grad[LOSS_KL_LOG_TARGET] = {f32_grad_kl_log_target, f64_grad_kl_log_target},
};
