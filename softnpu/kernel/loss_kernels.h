/* loss_kernels.h - elementwise losses and their gradients as functions of the block engine. Index 0: float,
 * 1: double.
 *
 * Operands. Losses: out, self, target, weight, pos_weight. Gradients: out, grad, self, target, weight,
 * pos_weight. ctx: struct loss_params. weight multiplies every result.
 */
#ifndef SOFTNPU_LOSS_KERNELS_H
#define SOFTNPU_LOSS_KERNELS_H

#include "softnpu/kernel/variant.h"
#include <stdint.h>

enum loss {
    LOSS_MSE,
    LOSS_L1,
    LOSS_SMOOTH_L1,
    LOSS_SOFT_MARGIN,
    LOSS_KL,
    LOSS_KL_LOG,
    LOSS_BCE,
    LOSS_BCE_LOGITS,
    LOSS_KL_TARGET,     /* gradients only: by the target of LOSS_KL */
    LOSS_KL_LOG_TARGET, /* and of LOSS_KL_LOG */
    LOSS_COUNT
};
struct loss_params {
    double beta;  /* where smooth L1 turns linear */
    double scale; /* gradients: what the reduction multiplies by */
};
typedef void (*loss_fn)(int64_t n, void *const *p, int64_t index, const void *ctx);
struct loss_kernels {
    loss_fn loss[LOSS_COUNT][2], grad[LOSS_COUNT][2]; /* NULL where there is none */
};
KERNEL_PICK(loss_kernels)

#endif
