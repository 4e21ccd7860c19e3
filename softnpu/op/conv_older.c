/* conv_older.c - two-dimensional convolutions of the older operator path and their gradients, over the engine
 * of the aclnn operators. Sizes of results come as host constants beside the results themselves; both must
 * agree. */
#include "softnpu/op/conv_problem.h"

#include <string.h>

/* Arguments by index: what fills each role of the problem; size and the argument whose shape it states; the
 * first of strides, pads, dilations, groups, data_format (and output_padding of a transposed one). -1: not
 * there. */
struct older_args {
    int8_t input, weight, output, bias, size, sized, attrs;
    bool transposed;
};
static const struct older_args older_forward = {0, 1, 4, 2, -1, -1, 5, false},
                               older_transposed = {1, 2, 5, 3, 0, 5, 6, true},
                               older_grad_input = {3, 1, 2, -1, 0, 3, 4, false},
                               older_grad_filter = {0, 3, 2, -1, 1, 3, 4, false};

ACL_EXPORT aclError aclGetCompileopt(int opt, char *value, size_t length);

/* Whether the process allowed HF32 in convolutions: the first digit of compile option ACL_ALLOW_HF32. */
static int cube_math_of_option(void)
{
    enum { OPT_ALLOW_HF32 = 14, KEEP_TYPE = 0, USE_HF32 = 3 };
    char value[8] = "";
    return aclGetCompileopt(OPT_ALLOW_HF32, value, sizeof value) == ACL_SUCCESS && value[0] == '1'
               ? USE_HF32
               : KEEP_TYPE;
}

/* n values of which the last two are height and width; those before them must be `first`. */
static int read_four(const op_call *c, int arg, int64_t first, int64_t least, int64_t *out)
{
    const aclIntArray *a = c->arg[arg].ia;
    const char *name = c->row->param[arg].name;
    if (a->n != 4)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %llu values, expected 4", name,
                       (unsigned long long)a->n);
    if (a->v[0] != first || a->v[1] != first)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s along N and C must be %lld", name, (long long)first);
    if (a->v[2] < least || a->v[3] < least)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has a value less than %lld", name, (long long)least);
    out[1] = a->v[2], out[2] = a->v[3];
    return 0;
}

static int read_pads(const op_call *c, int arg, struct conv_problem *p)
{
    const aclIntArray *a = c->arg[arg].ia;
    if (a->n != 4)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "pads has %llu values, expected top, bottom, left, right",
                       (unsigned long long)a->n);
    for (int i = 0; i < 4; i++)
        if (a->v[i] < 0) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "pads has a negative value");
    p->pad[1] = a->v[0], p->pad_end[1] = a->v[1], p->pad[2] = a->v[2], p->pad_end[2] = a->v[3];
    return 0;
}

static int read_older(const op_call *c, struct conv_problem *p)
{
    const struct older_args *a = c->row->aux;
    *p = conv_blank();
    p->input = *c->arg[a->input].t, p->weight = *c->arg[a->weight].t, p->output = *c->arg[a->output].t;
    p->groups = c->arg[a->attrs + 3].i, p->transposed = a->transposed, p->cube_math = (int)c->plan[1];
    if (p->input.rank != 4 || p->weight.rank != 4 || p->output.rank != 4)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "tensors of %d, %d and %d dimensions, expected 4",
                       p->input.rank, p->weight.rank, p->output.rank);
    int r = read_four(c, a->attrs, 1, 1, p->stride);
    if (!r) r = read_pads(c, a->attrs + 1, p);
    if (!r) r = read_four(c, a->attrs + 2, 1, 1, p->dilation);
    return r || !a->transposed ? r : read_four(c, a->attrs + 5, 0, 0, p->out_pad);
}

static int check_size(const op_call *c, const struct older_args *a)
{
    if (a->size < 0) return 0;
    const aclIntArray *size = c->arg[a->size].ia;
    if (!size) return op_fail(c, ACLNN_ERR_PARAM_NULLPTR, "%s is missing", c->row->param[a->size].name);
    if (size->n != 4)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s needs 4 values", c->row->param[a->size].name);
    return op_need_shape(c, a->sized, size->v, 4);
}

static int check_older(op_call *c)
{
    const struct older_args *a = c->row->aux;
    struct conv_problem p;
    c->plan[1] = cube_math_of_option();
    if (strcmp(c->arg[a->attrs + 4].str, "NCHW") != 0)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "data_format \"%s\" is not supported, only NCHW",
                       c->arg[a->attrs + 4].str);
    if (a->bias >= 0 && c->arg[a->bias + 1].t)
        return op_fail(c, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "offset_w is not supported");
    int r = read_older(c, &p);
    if (!r) r = check_size(c, a);
    if (!r) r = conv_check(c, &p);
    return r || a->bias < 0 ? r : conv_check_bias(c, &p, c->arg[a->bias].t);
}

static int run_older_forward(op_call *c)
{
    const struct older_args *a = c->row->aux;
    struct conv_problem p;
    read_older(c, &p);
    conv_forward(c, &p, c->arg[a->bias].t);
    return 0;
}

static int run_older_grad_input(op_call *c)
{
    struct conv_problem p;
    read_older(c, &p);
    conv_backward(c, &p, &p.input, NULL, NULL);
    return 0;
}

static int run_older_grad_filter(op_call *c)
{
    struct conv_problem p;
    read_older(c, &p);
    conv_backward(c, &p, NULL, &p.weight, NULL);
    return 0;
}

#define OP_INTERNAL
#define OP_FILE "softnpu/op/conv_older.inc"
#define OP_TABLE op_rows_conv_older
#include "softnpu/op/rows.h"
