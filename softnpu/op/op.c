/* op.c - the two phases of an operator call: checks and copies of the arguments, then the launch. */
#include "softnpu/op/executor.h"
#include "softnpu/runtime/check.h"
#include "softnpu/runtime/fault.h"
#include "softnpu/tensor/format.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A call that touches no more than this is run on the launching thread when the stream is idle. */
enum { SMALL_WORK = 64 << 10 };

int op_fail(const op_call *c, int code, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return rt_fail(code, "%s: %s", c->row->name, text);
}

/* ---- acceptance ------------------------------------------------------------------------------ */

static void list_dtypes(uint64_t mask, char *out, size_t cap)
{
    size_t at = 0;
    for (int t = 0; t < SN_NDTYPES && at + 24 < cap; t++)
        if (mask >> t & 1)
            at += (size_t)snprintf(out + at, cap - at, "%sDT_%s", at ? "," : "", sn_dtype(t)->name);
}

static int refuse_dtype(const op_call *c, int i, const aclTensor *t, uint64_t mask)
{
    char accepted[384] = "";
    list_dtypes(mask, accepted, sizeof accepted);
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s not implemented for DT_%s, accepted are [%s]",
                   c->row->param[i].name, sn_dtype(t->dtype)->name, accepted);
}

static int refuse_rank(const op_call *c, int i, const aclTensor *t, int lo, int hi)
{
    const char *name = c->row->param[i].name;
    if (t->rank > 8)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %d dimensions, cannot be larger than 8 dimensions",
                       name, t->rank);
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %d dimensions, accepted are %d to %d", name, t->rank,
                   lo, hi);
}

/* The formats whose elements lie where the strides say. */
static bool is_plain_format(aclFormat f)
{
    static const uint64_t plain = 1ULL << ACL_FORMAT_NCHW | 1ULL << ACL_FORMAT_NHWC | 1ULL << ACL_FORMAT_ND |
                                  1ULL << ACL_FORMAT_NCDHW | 1ULL << ACL_FORMAT_NCL;
    return f == ACL_FORMAT_UNDEFINED || ((unsigned)f < 64 && plain >> f & 1);
}

/* The older path knows some private formats; the storage must hold the shape. */
static int accept_private(const op_call *c, int i, const aclTensor *t)
{
    int64_t n = sn_packed_elements(t);
    if (n >= 0 && t->storage >= n) return 0;
    char shape[256];
    return op_fail(
        c, ACLNN_ERR_PARAM_INVALID, "%s %s in private format %d needs a storage of %lld elements, has %lld",
        c->row->param[i].name, sn_shape_str(t, shape), (int)t->format, (long long)n, (long long)t->storage);
}

/* Elements of the view, and the first and last place of the storage that it reaches. False when a size is
 * negative or something does not fit into 64 bits. */
static bool view_extent(const aclTensor *t, int64_t *n, int64_t *first, int64_t *last)
{
    *n = 1;
    *first = *last = t->offset;
    bool empty = false;
    for (int32_t d = 0; d < t->rank; d++) {
        int64_t reach, *end = t->stride[d] < 0 ? first : last;
        if (t->dim[d] < 0) return false;
        empty |= t->dim[d] == 0;
        if (__builtin_mul_overflow(*n, t->dim[d] ? t->dim[d] : 1, n)) return false;
        if (t->dim[d] < 2) continue;
        if (__builtin_mul_overflow(t->dim[d] - 1, t->stride[d], &reach)) return false;
        if (__builtin_add_overflow(*end, reach, end)) return false;
    }
    int64_t bytes;
    bool fits = !__builtin_mul_overflow(*n, (int64_t)16, &bytes); /* the largest element */
    if (empty) *n = 0;
    return fits;
}

/* Where no element is reached, the caller's offset and strides mean nothing: none may overflow a product. */
static void forget_unused(aclTensor *t, int64_t n)
{
    enum { FAR = 1 << 30 };
    if (!n) t->offset = 0;
    for (int32_t d = 0; d < t->rank; d++)
        if ((!n || t->dim[d] == 1) && (t->stride[d] > FAR || t->stride[d] < -FAR)) t->stride[d] = 0;
}

/* The view lies in its storage, as far as the caller told the storage's size. */
static int accept_view(const op_call *c, int i, aclTensor *t, int64_t *n)
{
    const char *name = c->row->param[i].name;
    int64_t first, last;
    if (!view_extent(t, n, &first, &last))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has a negative size or too many elements", name);
    if (*n && (first < 0 || (t->storage && last >= t->storage)))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                       "%s reaches from element %lld to %lld of a storage of %lld", name, (long long)first,
                       (long long)last, (long long)t->storage);
    forget_unused(t, *n);
    return 0;
}

/* Types without arithmetic (8-bit floats) go where the documents name them only. */
static bool names_dtype(const op_call *c, int i, aclDataType t)
{
    return c->row->accept && (unsigned)t < 64 && c->row->accept[i].dtypes >> t & 1;
}

static int accept_tensor(op_call *c, int i, aclTensor *t)
{
    int64_t n = 0;
    if (!sn_size(t->dtype))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has data type %d, which is unknown",
                       c->row->param[i].name, (int)t->dtype);
    if (sn_dtype(t->dtype)->kind == SN_NONE && !names_dtype(c, i, t->dtype))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s not implemented for DT_%s", c->row->param[i].name,
                       sn_dtype(t->dtype)->name);
    if (t->rank > SN_MAX_DIMS) return refuse_rank(c, i, t, 0, 8);
    if (c->row->flags & OPF_INTERNAL && sn_is_private(t->format)) {
        int r = accept_private(c, i, t);
        if (r) return r;
    } else if (!is_plain_format(t->format))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                       "%s has private format %d, which the software device does not know",
                       c->row->param[i].name, (int)t->format);
    bool packed = sn_is_private(t->format);
    int e = packed ? 0 : accept_view(c, i, t, &n);
    if (e) return e;
    if (packed) n = sn_numel(t);
    if (n && !rt_is_device_ptr(t->data))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %s, not an address of device memory",
                       c->row->param[i].name, t->data ? "a host address" : "no data");
    if (!n && c->row->param[i].kind == OPK_T1)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has no element", c->row->param[i].name);
    c->work += n * (int64_t)sn_size(t->dtype);
    if (rt_settings()->accept_any || (c->row->flags & OPF_NOCHECK)) return 0;
    static const struct op_accept anything = {0, 0, 8};
    const struct op_accept *a = c->row->accept ? &c->row->accept[i] : &anything;
    if (a->dtypes && !((unsigned)t->dtype < 64 && a->dtypes >> t->dtype & 1))
        return refuse_dtype(c, i, t, a->dtypes);
    if (t->rank < a->rank_lo || t->rank > a->rank_hi) return refuse_rank(c, i, t, a->rank_lo, a->rank_hi);
    return 0;
}

/* ---- copies of the arguments ----------------------------------------------------------------- */

static const int no_memory = ACLNN_ERR_INNER_NULLPTR;

static void copy_view(aclTensor *to, const aclTensor *from)
{
    size_t n = (size_t)(from->rank < SN_MAX_DIMS ? from->rank : SN_MAX_DIMS) * sizeof from->dim[0];
    memcpy(to, from, offsetof(aclTensor, dim));
    memcpy(to->dim, from->dim, n);
    memcpy(to->stride, from->stride, n);
}

static int take_tensor(op_call *c, int i, op_arg given)
{
    aclTensor *t = exec_alloc(c->ex, sizeof *t);
    if (!t) return no_memory;
    copy_view(t, given.t);
    c->arg[i].t = t;
    if (c->ex->caller) c->ex->caller[i] = (aclTensor *)(uintptr_t)given.t;
    return accept_tensor(c, i, t);
}

static int take_tensors(op_call *c, int i, op_arg given)
{
    uint64_t n = given.tl ? given.tl->n : 0;
    aclTensorList *l = exec_alloc(c->ex, sizeof *l + n * sizeof l->v[0]);
    if (!l) return no_memory;
    c->arg[i].tl = l;
    l->n = n;
    for (uint64_t k = 0; k < n; k++) {
        l->v[k] = NULL;
        if (!given.tl->v[k] && c->row->param[i].kind == OPK_TLQ) continue;
        if (!given.tl->v[k])
            return op_fail(c, ACLNN_ERR_PARAM_NULLPTR, "%s[%llu] is null", c->row->param[i].name,
                           (unsigned long long)k);
        l->v[k] = exec_alloc(c->ex, sizeof *l->v[k]);
        if (!l->v[k]) return no_memory;
        copy_view(l->v[k], given.tl->v[k]);
        int e = accept_tensor(c, i, l->v[k]);
        if (e) return e;
    }
    return 0;
}

static int take_scalars(op_call *c, int i, op_arg given)
{
    uint64_t n = given.sl ? given.sl->n : 0;
    aclScalarList *l = exec_alloc(c->ex, sizeof *l + n * sizeof l->v[0]);
    aclScalar *values = exec_alloc(c->ex, n * sizeof *values);
    if (!l || !values) return no_memory;
    c->arg[i].sl = l;
    l->n = n;
    for (uint64_t k = 0; k < n; k++) {
        if (!given.sl->v[k])
            return op_fail(c, ACLNN_ERR_PARAM_NULLPTR, "%s[%llu] is null", c->row->param[i].name,
                           (unsigned long long)k);
        values[k] = *given.sl->v[k];
        l->v[k] = &values[k];
    }
    return 0;
}

static int take_bytes(op_call *c, int i, const void *from, size_t bytes)
{
    void *p = exec_alloc(c->ex, bytes);
    if (!p) return no_memory;
    memcpy(p, from, bytes);
    c->arg[i].t = p;
    return 0;
}

static int take_scalar(op_call *c, int i, op_arg given)
{
    return take_bytes(c, i, given.s, sizeof *given.s);
}
static int take_ints(op_call *c, int i, op_arg given)
{
    return take_bytes(c, i, given.ia, sizeof *given.ia + given.ia->n * sizeof given.ia->v[0]);
}
static int take_bools(op_call *c, int i, op_arg given)
{
    return take_bytes(c, i, given.ba, sizeof *given.ba + given.ba->n * sizeof given.ba->v[0]);
}
static int take_floats(op_call *c, int i, op_arg given)
{
    return take_bytes(c, i, given.fa, sizeof *given.fa + given.fa->n * sizeof given.fa->v[0]);
}
static int take_string(op_call *c, int i, op_arg given)
{
    return take_bytes(c, i, given.str, strlen(given.str) + 1);
}
static int take_value(op_call *c, int i, op_arg given)
{
    c->arg[i] = given;
    return 0;
}

enum need { REQUIRED, MAY_BE_NULL };
static const struct {
    int (*take)(op_call *c, int i, op_arg given);
    enum need need;
    bool null_is_empty; /* a null list is handed on as an empty one */
} kinds[] = {
    [OPK_T1] = {take_tensor, REQUIRED, false},    [OPK_T] = {take_tensor, REQUIRED, false},
    [OPK_TQ] = {take_tensor, MAY_BE_NULL, false}, [OPK_O] = {take_tensor, REQUIRED, false},
    [OPK_OQ] = {take_tensor, MAY_BE_NULL, false}, [OPK_IO] = {take_tensor, REQUIRED, false},
    [OPK_S] = {take_scalar, REQUIRED, false},     [OPK_SQ] = {take_scalar, MAY_BE_NULL, false},
    [OPK_IA] = {take_ints, REQUIRED, false},      [OPK_IAQ] = {take_ints, MAY_BE_NULL, false},
    [OPK_BA] = {take_bools, REQUIRED, false},     [OPK_BAQ] = {take_bools, MAY_BE_NULL, false},
    [OPK_FA] = {take_floats, REQUIRED, false},    [OPK_FAQ] = {take_floats, MAY_BE_NULL, false},
    [OPK_TL] = {take_tensors, MAY_BE_NULL, true}, [OPK_TLQ] = {take_tensors, MAY_BE_NULL, true},
    [OPK_OL] = {take_tensors, MAY_BE_NULL, true}, [OPK_SL] = {take_scalars, MAY_BE_NULL, true},
    [OPK_I64] = {take_value, MAY_BE_NULL, true},  [OPK_I32] = {take_value, MAY_BE_NULL, true},
    [OPK_I8] = {take_value, MAY_BE_NULL, true},   [OPK_U64] = {take_value, MAY_BE_NULL, true},
    [OPK_B] = {take_value, MAY_BE_NULL, true},    [OPK_D] = {take_value, MAY_BE_NULL, true},
    [OPK_F] = {take_value, MAY_BE_NULL, true},    [OPK_DT] = {take_value, MAY_BE_NULL, true},
    [OPK_STR] = {take_string, REQUIRED, false},   [OPK_STRQ] = {take_string, MAY_BE_NULL, false},
};
_Static_assert(sizeof kinds / sizeof *kinds == OPK_STRQ + 1, "one row per argument kind");

/* Null checks of all arguments come before any other, as the documents order the codes. */
static int check_nulls(const op_call *c, const op_arg *args)
{
    for (int i = 0; i < c->row->nparam; i++)
        if (!args[i].t && kinds[c->row->param[i].kind].need == REQUIRED)
            return op_fail(c, ACLNN_ERR_PARAM_NULLPTR, "%s is null", c->row->param[i].name);
    return 0;
}

static int take_arguments(op_call *c, const op_arg *args)
{
    for (int i = 0; i < c->row->nparam; i++) {
        int kind = c->row->param[i].kind;
        c->arg[i].t = NULL;
        if (!args[i].t && !kinds[kind].null_is_empty) continue;
        int e = kinds[kind].take(c, i, args[i]);
        if (e) return e;
    }
    return 0;
}

static int prepare(op_call *c, const op_arg *args)
{
    int e = check_nulls(c, args);
    if (!e) e = take_arguments(c, args);
    if (!e && c->row->check) e = c->row->check(c);
    return e;
}

/* ---- the launch ------------------------------------------------------------------------------ */

/* First tensor that the call writes, NULL if it has none. */
static const aclTensor *first_output(const op_call *c)
{
    for (int i = 0; i < c->row->nparam; i++) {
        int kind = c->row->param[i].kind;
        if (kind == OPK_OL && c->arg[i].tl->n) return c->arg[i].tl->v[0];
        if ((kind == OPK_O || kind == OPK_OQ || kind == OPK_IO) && c->arg[i].t) return c->arg[i].t;
    }
    return NULL;
}

/* Fault "wrong": flips high bits of every element of the first output, so that 0 and 1 are far off too. */
static void spoil(op_call *c)
{
    const aclTensor *t = first_output(c);
    if (!t || sn_numel(t) == 0) return;
    size_t size = sn_size(t->dtype), bytes = (size_t)sn_numel(t) * size;
    unsigned char *p = op_scratch(c, bytes);
    memcpy(p, op_in(c, t, t->dtype), bytes);
    for (size_t i = size - 1; i < bytes; i += size) p[i] ^= t->dtype == ACL_BOOL ? 1 : 0x45;
    op_out_done(c, t, t->dtype, p);
}

static int run_row(op_call *c)
{
    return c->row->flags & OPF_INTERNAL ? op_run_private(c) : c->row->run(c);
}

static int run_with_faults(op_call *c)
{
    const char *name = c->row->name;
    if (rt_fault_match(RT_FAULT_CRASH, name)) raise(SIGSEGV);
    if (rt_fault_match(RT_FAULT_HANG, name)) return rt_fault_hang();
    const struct rt_fault *slow = rt_fault_match(RT_FAULT_SLOW, name);
    if (slow) usleep((useconds_t)slow->n * 1000);
    if (rt_fault_match(RT_FAULT_FAIL, name))
        return op_fail(c, ACLNN_ERR_INNER, "failed on request (SOFTNPU_FAULT)");
    int e = run_row(c);
    if (!e && rt_fault_match(RT_FAULT_WRONG, name)) spoil(c);
    return e;
}

/* ---- SOFTNPU_CHECK: what a call touches, from its first byte to its last ---- */

static int check_tensor(const op_call *c, int i, const aclTensor *t)
{
    int kind = c->row->param[i].kind;
    int64_t lo = t->offset, hi = t->offset, size = (int64_t)sn_size(t->dtype);
    for (int d = 0; d < t->rank; d++) {
        if (!t->dim[d]) return 0;
        *(t->stride[d] < 0 ? &lo : &hi) += (t->dim[d] - 1) * t->stride[d];
    }
    const char *at = (const char *)t->data + lo * size, *name = c->row->param[i].name;
    uint64_t bytes = (uint64_t)((hi - lo + 1) * size);
    bool writes = kind == OPK_O || kind == OPK_OQ || kind == OPK_IO || kind == OPK_OL;
    rt_check_access(c->row->name, name, at, bytes, writes);
    return rt_check_live(c->row->name, name, at, bytes);
}

static int check_arguments(const op_call *c)
{
    int e = 0;
    for (int i = 0; i < c->row->nparam && !e; i++) {
        int kind = c->row->param[i].kind;
        if (kind <= OPK_IO && c->arg[i].t) e = check_tensor(c, i, c->arg[i].t);
        if (!op_is_tensor_list(kind)) continue;
        for (uint64_t k = 0; k < c->arg[i].tl->n && !e; k++)
            if (c->arg[i].tl->v[k]) e = check_tensor(c, i, c->arg[i].tl->v[k]);
    }
    return e;
}

static int run_call(op_call *c, aclrtStream stream)
{
    int wrong = __builtin_expect(rt_check_any(), 0) ? check_arguments(c) : 0;
    if (wrong) return wrong;
    bool traced = trace_enabled();
    int64_t start = traced ? trace_clock_ns() : 0;
    int e = __builtin_expect(rt_fault_any(), 0) ? run_with_faults(c) : run_row(c);
    scratch_reset();
    if (e) return e;
    __atomic_fetch_add(c->row->launches, 1, __ATOMIC_RELAXED);
    if (traced) trace_call(c, stream, start, trace_clock_ns());
    return 0;
}

static int exec_run(struct rt_task *task)
{
    struct aclOpExecutor *ex = (struct aclOpExecutor *)task;
    return run_call(&ex->call, ex->stream);
}

static void exec_drop(struct rt_task *task)
{
    exec_free((struct aclOpExecutor *)task);
}

static const char *exec_label(const struct rt_task *task)
{
    return ((const struct aclOpExecutor *)task)->call.row->name;
}

static const struct rt_task_kind exec_kind = {
    .name = "operator", .run = exec_run, .drop = exec_drop, .label = exec_label};
static const struct rt_task_kind exec_sync_kind = {
    .name = "operator", .run = exec_run, .drop = exec_drop, .label = exec_label, .no_capture = true};

int op_prepare(const op_row *row, const op_arg *args, uint64_t *workspace_size, aclOpExecutor **executor)
{
    if (!workspace_size || !executor)
        return rt_fail(ACLNN_ERR_PARAM_NULLPTR, "%s: workspaceSize or executor is null", row->name);
    struct aclOpExecutor *ex = exec_new();
    if (!ex) return rt_fail(no_memory, "%s: no host memory for the executor", row->name);
    op_call *c = &ex->call;
    c->row = row;
    c->ex = ex;
    c->work = 0;
    memset(c->plan, 0, sizeof c->plan);
    if (row->flags & OPF_SYNC_SHAPE) ex->caller = exec_alloc(ex, (size_t)row->nparam * sizeof *ex->caller);
    int e = row->flags & OPF_SYNC_SHAPE && !ex->caller ? no_memory : prepare(c, args);
    if (e) {
        exec_free(ex);
        return e == no_memory ? rt_fail(e, "%s: no host memory for the arguments", row->name) : e;
    }
    *workspace_size = 0;
    *executor = ex;
    return ACLNN_SUCCESS;
}

int op_launch(const op_row *row, void *workspace, uint64_t workspace_size, aclOpExecutor *executor,
              aclrtStream stream)
{
    (void)workspace;
    (void)workspace_size;
    if (!executor) return rt_fail(ACLNN_ERR_PARAM_NULLPTR, "%s: executor is null", row->name);
    if (executor->call.row != row)
        return rt_fail(ACLNN_ERR_INNER, "%s: the executor was prepared for %s", row->name,
                       executor->call.row->name);
    bool sync = row->flags & OPF_SYNC_SHAPE;
    executor->task = (struct rt_task){.kind = sync ? &exec_sync_kind : &exec_kind};
    executor->stream = stream;
    bool small = executor->call.work <= SMALL_WORK && !(row->flags & OPF_BIG);
    int e = rt_stream_push(stream, &executor->task, small || sync);
    return !e && sync ? rt_stream_drain(stream) : e;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor)
{
    if (!executor) return ACLNN_ERR_PARAM_NULLPTR;
    exec_free(executor);
    return ACLNN_SUCCESS;
}
