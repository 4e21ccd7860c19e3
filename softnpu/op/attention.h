/* attention.h - what the fused attention operators share: layouts, views of heads, the forward pass. */
#ifndef SOFTNPU_OP_ATTENTION_H
#define SOFTNPU_OP_ATTENTION_H

#include "softnpu/op/op.h"

enum attend_sparse { DEFAULT_MASK, ALL_MASK, LEFT_UP, RIGHT_DOWN, BAND, PREFIX, PREFIX_COMPRESSED };
enum { COMPRESSED_MASK = 2048 }; /* side of the mask that stands for a triangle */

/* Position of batch, head, sequence and depth in a layout; head -1: part of the last dimension. */
struct attend_layout {
    const char *name;
    int8_t b, n, s, d;
};
/* The layout whose name is the first n bytes of name; NULL if there is none. */
const struct attend_layout *attend_layout(const char *name, size_t n);
/* t as batch, head, sequence, depth. Without a head dimension the last one holds heads of depth d each. */
bool attend_heads(const aclTensor *t, const struct attend_layout *l, int64_t heads, aclTensor *v);

struct attend_views {
    aclTensor q, k, v, out;
    int64_t b, heads, kv_heads, sq, skv, d, dv;
};
/* Fills the sizes from the four views; false if they do not fit each other. */
bool attend_fit(struct attend_views *w);

struct attend {
    struct attend_views w;
    const float *q, *k, *v;
    float scale;
    const float *pse;
    const uint8_t *mask, *keep;
    int64_t pse_at[4], mask_at[4]; /* strides, 0 where broadcast */
    bool scale_bias;
    float keep_scale;
    int64_t mode, pre, next;
    const aclIntArray *prefix;
    const int64_t *q_len, *kv_len; /* of each batch; NULL: sq and skv */
    float *max, *sum;
    float *out;      /* forward */
    const float *dy; /* backward */
    float *dq, *dk, *dv, *ds;
    int64_t blocks;
};
/* Contiguous copy (or the bytes) of t with strides for broadcasting to batch, head, query, key. */
void *attend_broadcast(op_call *c, const aclTensor *t, aclDataType as, int64_t keys, int64_t at[4]);
/* Fills out, max and sum (eight values a row); a row that sees no key is zero, its max -infinity. */
void attend_forward(struct attend *a);

#endif
