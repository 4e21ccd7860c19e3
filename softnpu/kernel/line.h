/* line.h - gather and scatter along one dimension with an index for every element.
 *
 * A line is all places of the index tensor that differ in the indexed dimension only. Lines touch disjoint
 * elements of the indexed tensor, so they may run in any order; within a line, places are taken in order. */
#ifndef SOFTNPU_KERNEL_LINE_H
#define SOFTNPU_KERNEL_LINE_H

#include "softnpu/kernel/map.h"

struct line {
    int64_t n;         /* places */
    const int64_t *at; /* index values, all within the indexed tensor */
    int64_t at_step;
    char *table; /* indexed tensor: element i at table + i * table_step bytes */
    int64_t table_step;
    char *dense;        /* gathered values, or the source of a scatter */
    int64_t dense_step; /* bytes; 0: one value for all */
};
typedef void (*line_fn)(const struct line *line);
struct line_kernels {
    line_fn gather[5];                 /* dense = table[at], by log2 of the element size */
    line_fn scatter[5];                /* table[at] = dense */
    line_fn join[MAP_OPS][MAP_NTYPES]; /* table[at] = table[at] op dense; NULL as in map_kernels.joins */
};
KERNEL_PICK(line_kernels)

#endif
