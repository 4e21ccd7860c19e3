/* format.h - private formats: how the elements of a logical shape lie in blocked storage.
 *
 * Public source of the layouts: CANN's format descriptions and torch_npu's storage shapes (FormatHelper).
 *     NC1HWC0      [N, C1, H, W, 16]; shapes of fewer than four dimensions are C, CH or CHW
 *     FRACTAL_Z    [C1*H*W, N1, 16 of N, 16 of C]; the same
 *     FRACTAL_NZ   [.., columns/L, rows/16, 16, L]; L is 16, 32 for elements of one byte; a vector is a
 * column Counts are rounded up; what pads the last block is zero. */
#ifndef SOFTNPU_FORMAT_H
#define SOFTNPU_FORMAT_H

#include "softnpu/tensor/tensor.h"

bool sn_is_private(aclFormat f);
/* Elements of storage that t's shape takes in its private format; -1 if the format has no such shape. */
int64_t sn_packed_elements(const aclTensor *t);
/* Between t's shape in row-major order and its format; `packed` holds sn_packed_elements(t) elements. */
void sn_unpack(const aclTensor *t, const void *packed, void *plain);
void sn_pack(const aclTensor *t, const void *plain, void *packed);

#endif
