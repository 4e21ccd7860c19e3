/* private.c - rows of the older path whose tensors come in private formats: the row sees row-major copies,
 * and what it wrote is packed afterwards. */
#include "softnpu/op/executor.h"
#include "softnpu/tensor/format.h"

#include <string.h>

static bool is_tensor(uint8_t kind)
{
    return kind == OPK_T || kind == OPK_TQ || kind == OPK_O || kind == OPK_OQ;
}

/* A row-major copy of t in scratch. Outputs are unpacked too: a row may leave parts of them as they were. */
static const aclTensor *plain_copy(op_call *c, const aclTensor *t)
{
    void *p = op_scratch(c, (size_t)sn_numel(t) * sn_size(t->dtype) + 1);
    aclTensor *plain = op_scratch(c, sizeof *plain);
    sn_wrap(plain, t->dtype, t->rank, t->dim, p);
    if (sn_numel(t)) sn_unpack(t, sn_data(t), p);
    return plain;
}

int op_run_private(op_call *c)
{
    const aclTensor *own[sizeof c->arg / sizeof *c->arg] = {NULL};
    for (int i = 0; i < c->row->nparam; i++) {
        const aclTensor *t = c->arg[i].t;
        if (!is_tensor(c->row->param[i].kind) || !t || !sn_is_private(t->format)) continue;
        own[i] = t;
        c->arg[i].t = plain_copy(c, t);
    }
    int e = c->row->run(c);
    for (int i = 0; i < c->row->nparam; i++) {
        if (!own[i]) continue;
        bool output = c->row->param[i].kind == OPK_O || c->row->param[i].kind == OPK_OQ;
        if (output && !e && sn_numel(own[i])) sn_pack(own[i], c->arg[i].t->data, sn_data(own[i]));
        c->arg[i].t = own[i];
    }
    return e;
}
