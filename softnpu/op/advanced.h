/* advanced.h - the layout of tensor indexing with a list of index tensors, as torch and NumPy define it. */
#ifndef SOFTNPU_OP_ADVANCED_H
#define SOFTNPU_OP_ADVANCED_H

#include "softnpu/op/map_ops.h"

/* Index i of the list applies to dimension i of self. A placeholder (a one-dimensional tensor without
 * elements and of self's dtype) leaves its dimension whole. All others broadcast to one shape, which stands
 * where the first of them stood when they are adjacent, and first otherwise. */
struct advanced {
    const aclTensorList *list;
    bool indexed[SN_MAX_DIMS]; /* by dimension of self */
    bool ambiguous; /* a placeholder could also be a real, empty index (self's dtype is an index type) */
    bool empty;     /* the result has no elements */
    int32_t self_rank;
    int32_t index_rank; /* dimensions of the broadcast indices */
    int64_t index_dim[SN_MAX_DIMS];
    int32_t at;   /* where they stand in the result */
    int32_t rank; /* of the result */
    int64_t dim[SN_MAX_DIMS];
    int injective; /* a dimension of the job that is not indexed, -1 if there is none before the indices */
};

/* 161002 if the list does not fit self or does not broadcast. */
int advanced_layout(const op_call *c, const aclTensor *self, const aclTensorList *list, struct advanced *a);
/* The job between self and `dense`, a view of the result's shape. */
int advanced_job(op_call *c, struct advanced const *a, const aclTensor *self, const aclTensor *dense,
                 struct map_job *job);
/* True if the index dimensions of the view can be walked with one stride, as advanced_job needs. */
bool advanced_mergeable(const struct advanced *a, const aclTensor *view);

#endif
