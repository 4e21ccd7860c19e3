/* map_ops.h - building and running separable index maps (kernel/map.h) from tensors. All for use inside
 * `run`. */
#ifndef SOFTNPU_OP_MAP_OPS_H
#define SOFTNPU_OP_MAP_OPS_H

#include "softnpu/kernel/map.h"
#include "softnpu/op/op.h"

/* A job whose dense side is the view `dense`, dimension by dimension, one element a block; maps are still
 * unset. A tensor without dimensions counts as one of a single element. */
void map_dense(struct map_job *job, const aclTensor *dense);
/* Map of n places: start, start + step, ... */
const int64_t *map_range(op_call *c, int64_t n, int64_t start, int64_t step);
/* Map from index values (any integer type), each in [-size, size), times step. An index outside fails the
 * call with an AICORE exception that names it. `index` may have any shape and layout; places are its elements
 * in row-major order. */
int map_index(op_call *c, const aclTensor *index, int64_t size, int64_t step, const int64_t **map);
/* Flattened index values, negative ones wrapped, all checked against size. */
int map_values(op_call *c, const aclTensor *index, int64_t size, int64_t **values);
/* Sets map[d] to the mapped tensor's own stride for every dimension d whose map is not set. */
void map_follow(op_call *c, struct map_job *job, const aclTensor *mapped);
/* dense = mapped, in parallel. Both sides must not overlap. */
void map_gather(op_call *c, struct map_job *job);
/* mapped = mapped op dense, each mapped element in row-major order of the places. split: a dimension whose
 * map is injective (the pool splits it), or -1 if only the block may be split. */
void map_scatter(op_call *c, struct map_job *job, enum map_op op, aclDataType type, int split);
/* The kernels' number of an element type; -1 if they have no arithmetic for it (16-bit floats, for one). */
int map_type(aclDataType type);

/* t, or a copy of it in kernel memory where it may overlap `other`. *hold is the place for the copy's
 * descriptor. */
const aclTensor *map_apart(op_call *c, const aclTensor *t, const aclTensor *other, aclTensor *hold);
/* The same tensor with dtype `as`: t itself, or a converted contiguous copy described by *hold. */
const aclTensor *map_as(op_call *c, const aclTensor *t, aclDataType as, aclTensor *hold);
/* Like map_as for a tensor that is about to be changed; map_store writes the change back if it was a copy. */
void map_store(op_call *c, const aclTensor *t, const aclTensor *changed);
/* A view of t with at least one dimension. */
aclTensor map_at_least_1d(const aclTensor *t);
/* Scalar as one element of type t, 16 bytes. */
void map_fill_value(struct map_job *job, const aclScalar *value, aclDataType t);

#endif
