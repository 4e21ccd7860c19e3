/* conv_tile.h - convolutions of stride 1 without unfolding: the input, padded once, is read where it lies. */
#ifndef SOFTNPU_CONV_TILE_H
#define SOFTNPU_CONV_TILE_H

#include "softnpu/op/convolve.h"

/* True when v is one that these serve: FLOAT, or BF16 on a machine that multiplies it, and stride 1. For BF16
 * the buffers of v hold BF16, the bias floats. */
bool conv_tile_suits(const struct conv *v);
/* small = weight unfold(big) + bias */
void conv_tile_to_small(op_call *c, const struct conv *v);
/* big = fold(weight^T small) + bias, as the convolution of small with the mirrored weight; false when the
 * padding is too wide for that. */
bool conv_tile_to_big(op_call *c, const struct conv *v);

#endif
