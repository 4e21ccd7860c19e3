/* execute.c - running an operator of the older path by its type name: the row of that name, its tensors in
 * order, its attributes by name. A type without a row fails with that name. */
#include "softnpu/aclop/objects.h"
#include "softnpu/op/op.h"
#include "softnpu/tensor/format.h"

#include <stdio.h>
#include <string.h>

enum { MOST_ARGS = 48 };

static const struct attr *find_attr(const aclopAttr *attrs, const char *name)
{
    for (const struct attr *a = attrs ? attrs->first : NULL; a; a = a->next)
        if (!strcmp(a->name, name)) return a;
    return NULL;
}

/* An attribute that was not set counts as 0, false or "". */
static int attr_arg(const op_row *row, int i, const aclopAttr *attrs, op_arg *out)
{
    const struct attr *a = find_attr(attrs, row->param[i].name);
    static const char kind_of[] = {
        [OPK_I64] = 'i', [OPK_B] = 'b', [OPK_F] = 'f', [OPK_STR] = 's', [OPK_IA] = 'I'};
    uint8_t kind = row->param[i].kind;
    memset(out, 0, sizeof *out);
    if (kind == OPK_STR) out->str = a ? a->value : "";
    if (!a) return 0;
    if (kind >= sizeof kind_of || kind_of[kind] != a->type)
        return rt_fail(ACL_ERROR_INVALID_PARAM, "%s: attribute %s has another type than expected", row->name,
                       a->name);
    if (kind == OPK_I64) out->i = *(const int64_t *)a->value;
    if (kind == OPK_B) out->i = *(const uint8_t *)a->value;
    if (kind == OPK_F) out->d = (double)*(const float *)a->value;
    if (kind == OPK_IA) out->ia = aclCreateIntArray(a->value, a->size / sizeof(int64_t));
    return 0;
}

/* The tensor that a descriptor and a buffer stand for; *out NULL for a place left empty. */
static int tensor_of(const char *type, const aclTensorDesc *d, const aclDataBuffer *b, aclTensor **out)
{
    *out = NULL;
    if (!d || d->dtype == ACL_DT_UNDEFINED) return 0;
    int64_t elements = b && sn_size(d->dtype) ? (int64_t)(b->size / sn_size(d->dtype)) : 0;
    aclFormat format = sn_is_private(d->storage_format) ? d->storage_format : ACL_FORMAT_ND;
    *out = aclCreateTensor(d->shape.dim, (uint64_t)d->shape.n, d->dtype, NULL, 0, format, &elements, 1,
                           b ? b->data : NULL);
    return *out ? 0 : rt_fail(ACL_ERROR_INVALID_PARAM, "%s: a tensor descriptor is not valid", type);
}

/* The list of integers that an input holds. Such inputs are host constants: the plugin builds them on the
 * host and either gives them as the descriptor's constant or says that the buffer is host memory. */
static int list_of(const char *type, const char *name, const aclTensorDesc *d, const aclDataBuffer *b,
                   aclIntArray **out)
{
    const void *data = d->constant ? d->constant : b ? b->data : NULL;
    size_t bytes = d->constant ? d->constant_size : b ? b->size : 0, n = 1;
    for (int i = 0; i < d->shape.n; i++) n *= (size_t)d->shape.dim[i];
    if (!d->constant && d->placement == 0)
        return rt_fail(ACL_ERROR_INVALID_PARAM, "%s: %s must be a host constant", type, name);
    if ((d->dtype != ACL_INT32 && d->dtype != ACL_INT64) || n > SN_MAX_DIMS || bytes < n * sn_size(d->dtype))
        return rt_fail(ACL_ERROR_INVALID_PARAM, "%s: %s is not a list of integers", type, name);
    int64_t v[SN_MAX_DIMS];
    sn_convert(v, ACL_INT64, data, d->dtype, (int64_t)n);
    *out = aclCreateIntArray(v, n);
    return *out ? 0 : rt_fail(ACL_ERROR_BAD_ALLOC, "%s: no memory", type);
}

struct side {
    int n;
    const aclTensorDesc *const *desc;
    const aclDataBuffer *const *buffer;
};

static int side_of(uint8_t kind)
{
    if (kind == OPK_T || kind == OPK_TQ || kind == OPK_IAQ) return 0;
    return kind == OPK_O || kind == OPK_OQ ? 1 : -1;
}

/* Arguments of a row: inputs, outputs, attributes, as the row has them in this order. Trailing inputs may be
 * left out. IAQ is an input that holds a list of integers, IA an attribute that is one. */
static int collect(const op_row *row, const struct side *in, const struct side *out, const aclopAttr *attrs,
                   op_arg *args, aclTensor **made)
{
    int taken[2] = {0, 0}, r = 0;
    const struct side *side[2] = {in, out};
    for (int i = 0; !r && i < row->nparam; i++) {
        uint8_t kind = row->param[i].kind;
        int s = side_of(kind);
        if (s < 0) {
            r = attr_arg(row, i, attrs, &args[i]);
            continue;
        }
        int k = taken[s]++;
        if (k >= side[s]->n) continue;
        const aclTensorDesc *d = side[s]->desc[k];
        if (kind == OPK_IAQ) {
            aclIntArray *list = NULL;
            if (d) r = list_of(row->name, row->param[i].name, d, side[s]->buffer[k], &list);
            args[i].ia = list;
            continue;
        }
        r = tensor_of(row->name, d, side[s]->buffer[k], &made[i]);
        args[i].t = made[i];
    }
    for (int s = 0; !r && s < 2; s++)
        if (side[s]->n > taken[s])
            r = rt_fail(ACL_ERROR_INVALID_PARAM, "%s: %d %s, expected at most %d", row->name, side[s]->n,
                        s ? "outputs" : "inputs", taken[s]);
    return r;
}

static int execute(const char *type, const struct side *in, const struct side *out, const aclopAttr *attrs,
                   aclrtStream stream)
{
    const op_row *row = type ? op_find(type) : NULL;
    if (!row || !(row->flags & OPF_INTERNAL))
        return rt_fail(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "operator type %s (aclopCompileAndExecute) is not supported by the software device (softnpu)",
            type ? type : "(null)");
    op_arg args[MOST_ARGS];
    aclTensor *made[MOST_ARGS] = {NULL};
    memset(args, 0, sizeof args);
    uint64_t workspace;
    aclOpExecutor *executor;
    int r = collect(row, in, out, attrs, args, made);
    if (!r) r = op_prepare(row, args, &workspace, &executor);
    for (int i = 0; i < row->nparam; i++) {
        if (made[i]) aclDestroyTensor(made[i]);
        bool list = row->param[i].kind == OPK_IA || row->param[i].kind == OPK_IAQ;
        if (list && args[i].ia) aclDestroyIntArray(args[i].ia);
    }
    return r ? r : op_launch(row, NULL, workspace, executor, stream);
}

/* The three entry points, with the arguments of the public AscendCL reference. */
#define TENSOR_ARGS                                                                                          \
    int inputs, const aclTensorDesc *const in_desc[], const aclDataBuffer *const in[], int outputs,          \
        const aclTensorDesc *const out_desc[], const aclDataBuffer *const out[], const aclopAttr *attrs
#define COMPILED(function)                                                                                   \
    ACL_EXPORT aclError function(const char *type, TENSOR_ARGS, int engine, int compile, const char *path,   \
                                 aclrtStream stream);                                                        \
    aclError function(const char *type, TENSOR_ARGS, int engine, int compile, const char *path,              \
                      aclrtStream stream)                                                                    \
    {                                                                                                        \
        (void)engine, (void)compile, (void)path;                                                             \
        return execute(type, &(struct side){inputs, in_desc, in}, &(struct side){outputs, out_desc, out},    \
                       attrs, stream);                                                                       \
    }
COMPILED(aclopCompileAndExecute)
COMPILED(aclopCompileAndExecuteV2)

ACL_EXPORT aclError aclopExecuteV2(const char *type, TENSOR_ARGS, aclrtStream stream);
aclError aclopExecuteV2(const char *type, TENSOR_ARGS, aclrtStream stream)
{
    return execute(type, &(struct side){inputs, in_desc, in}, &(struct side){outputs, out_desc, out}, attrs,
                   stream);
}
