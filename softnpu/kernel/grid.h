/* grid.h - sampling an image (depth, height, width) at given positions. */
#ifndef SOFTNPU_GRID_H
#define SOFTNPU_GRID_H

#include "softnpu/kernel/variant.h"
#include <stdbool.h>
#include <stdint.h>

enum grid_mode { GRID_LINEAR, GRID_NEAREST, GRID_CUBIC }; /* cubic: two dimensions only */
enum grid_padding { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION };
struct grid {
    int32_t dims;  /* 2 or 3; a grid point has as many coordinates: width first */
    int64_t in[3]; /* depth 1 for two dimensions */
    int64_t channels, points;
    int mode, padding;
    bool align;
};
struct grid_kernels {
    /* One image: in is channels planes, points p0..p1 of the grid, out is channels by points. [0] float, [1]
     * double. */
    void (*forward[2])(const struct grid *g, const void *in, const void *at, int64_t p0, int64_t p1,
                       void *out);
    /* grad_in and grad_at may be NULL; grad_in is zeroed by the caller. */
    void (*backward[2])(const struct grid *g, const void *in, const void *at, const void *grad_out,
                        void *grad_in, void *grad_at);
};
KERNEL_PICK(grid_kernels)

#endif
