/* stream.h - the random stream that a call names: by two numbers, or by two device tensors and a number. */
#ifndef SOFTNPU_OP_STREAM_H
#define SOFTNPU_OP_STREAM_H

#include "softnpu/kernel/random.h"
#include "softnpu/op/op.h"

/* Reads the arguments from number `seed` on: (seed, offset), or (seed tensor, offset tensor, offset): the
 * offset of a captured graph is the tensor's plus the number. In run only. */
static inline struct random_stream stream_of(op_call *c, int seed)
{
    if (c->row->param[seed].kind != OPK_T1)
        return (struct random_stream){(uint64_t)c->arg[seed].i, (uint64_t)c->arg[seed + 1].i};
    const int64_t *s = op_in(c, c->arg[seed].t, ACL_INT64), *o = op_in(c, c->arg[seed + 1].t, ACL_INT64);
    return (struct random_stream){(uint64_t)s[0], (uint64_t)o[0] + (uint64_t)c->arg[seed + 2].i};
}

#endif
