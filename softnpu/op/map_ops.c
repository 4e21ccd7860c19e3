/* map_ops.c - building and running separable index maps. */
#include "softnpu/op/map_ops.h"

#include <string.h>

/* NARROWEST: elements of a block that are worth a task of their own, which walks all places. */
enum { GRAIN_BYTES = 64 * 1024, NARROWEST = 64 };

int map_type(aclDataType type)
{
    static const int8_t number[SN_NDTYPES] = {
        [ACL_UINT8] = MAP_TYPE_u8 + 1,        [ACL_INT8] = MAP_TYPE_i8 + 1,
        [ACL_UINT16] = MAP_TYPE_u16 + 1,      [ACL_INT16] = MAP_TYPE_i16 + 1,
        [ACL_UINT32] = MAP_TYPE_u32 + 1,      [ACL_INT32] = MAP_TYPE_i32 + 1,
        [ACL_UINT64] = MAP_TYPE_u64 + 1,      [ACL_INT64] = MAP_TYPE_i64 + 1,
        [ACL_FLOAT] = MAP_TYPE_f32 + 1,       [ACL_DOUBLE] = MAP_TYPE_f64 + 1,
        [ACL_BOOL] = MAP_TYPE_boolean + 1,    [ACL_COMPLEX64] = MAP_TYPE_c64 + 1,
        [ACL_COMPLEX128] = MAP_TYPE_c128 + 1,
    };
    return (int)type < 0 || (int)type >= SN_NDTYPES ? -1 : number[type] - 1;
}

/* ---- building ---------------------------------------------------------------------------------------- */

aclTensor map_at_least_1d(const aclTensor *t)
{
    aclTensor view = *t;
    if (view.rank == 0) {
        view.rank = 1;
        view.dim[0] = 1;
        view.stride[0] = 1;
    }
    return view;
}

void map_dense(struct map_job *job, const aclTensor *dense)
{
    aclTensor view = map_at_least_1d(dense);
    memset(job, 0, sizeof *job);
    job->rank = view.rank;
    for (int d = 0; d < view.rank; d++) {
        job->dim[d] = view.dim[d];
        job->stride[d] = view.stride[d];
    }
    job->run = 1;
    job->size = (int64_t)sn_size(view.dtype);
    job->dense = sn_data(dense);
}

const int64_t *map_range(op_call *c, int64_t n, int64_t start, int64_t step)
{
    int64_t *map = op_scratch(c, (size_t)(n ? n : 1) * sizeof *map);
    for (int64_t i = 0; i < n; i++) map[i] = start + i * step;
    return map;
}

enum { INDEX_GRAIN = 32768 };
struct values_ctx {
    const int64_t *from;
    int64_t *to, size;
    int64_t wrong; /* place of the first value outside, or its count of places */
};

/* Remembers the first place of all pieces. */
static void note_wrong(struct values_ctx *v, int64_t i)
{
    int64_t first = __atomic_load_n(&v->wrong, __ATOMIC_RELAXED);
    while (i < first &&
           !__atomic_compare_exchange_n(&v->wrong, &first, i, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static void check_values(void *ctx, int64_t begin, int64_t end)
{
    struct values_ctx *v = ctx;
    const int64_t *from = v->from, size = v->size;
    int64_t *to = v->to, outside = 0;
    for (int64_t i = begin; i < end; i++) { /* no branch: this loop runs as vectors */
        int64_t at = from[i] + (size & (from[i] >> 63));
        to[i] = at;
        outside |= at | (size - 1 - at);
    }
    for (int64_t i = begin; outside < 0 && i < end; i++)
        if (to[i] < 0 || to[i] >= size) {
            note_wrong(v, i);
            return;
        }
}

int map_values(op_call *c, const aclTensor *index, int64_t size, int64_t **values)
{
    int64_t n = sn_numel(index);
    struct values_ctx v = {.size = size, .wrong = n};
    v.to = op_scratch(c, (size_t)(n ? n : 1) * sizeof *v.to);
    if (n) v.from = op_in(c, index, ACL_INT64);
    rt_pool_run(n, INDEX_GRAIN, check_values, &v);
    if (v.wrong < n)
        return op_fail(c, ACL_ERROR_RT_AICORE_EXCEPTION,
                       "index %lld is out of bounds for dimension with size %lld", (long long)v.from[v.wrong],
                       (long long)size);
    *values = v.to;
    return 0;
}

int map_index(op_call *c, const aclTensor *index, int64_t size, int64_t step, const int64_t **map)
{
    int64_t *v = NULL, n = sn_numel(index);
    int r = map_values(c, index, size, &v);
    if (r) return r;
    if (step != 1)
        for (int64_t i = 0; i < n; i++) v[i] *= step;
    *map = v;
    return 0;
}

void map_follow(op_call *c, struct map_job *job, const aclTensor *mapped)
{
    aclTensor view = map_at_least_1d(mapped);
    for (int d = 0; d < job->rank; d++)
        if (!job->map[d]) job->map[d] = map_range(c, job->dim[d], 0, view.stride[d]);
    job->mapped = sn_data(mapped);
}

void map_fill_value(struct map_job *job, const aclScalar *value, aclDataType t)
{
    memset(job->fill, 0, sizeof job->fill);
    sn_scalar_store(value, t, job->fill);
}

const aclTensor *map_as(op_call *c, const aclTensor *t, aclDataType as, aclTensor *hold)
{
    if (t->dtype == as) return t;
    sn_wrap(hold, as, t->rank, t->dim, op_in(c, t, as));
    return hold;
}

void map_store(op_call *c, const aclTensor *t, const aclTensor *changed)
{
    if (changed != t) op_copy(c, t, changed);
}

const aclTensor *map_apart(op_call *c, const aclTensor *t, const aclTensor *other, aclTensor *hold)
{
    if (!sn_numel(t) || !sn_overlap(t, other)) return t;
    sn_wrap(hold, t->dtype, t->rank, t->dim, op_scratch(c, (size_t)sn_numel(t) * sn_size(t->dtype)));
    op_copy(c, hold, t);
    return hold;
}

/* ---- running ----------------------------------------------------------------------------------------- */

/* Dimensions at the end that move whole blocks become part of the block. */
static void absorb(struct map_job *job)
{
    for (; job->rank > 0; job->rank--) {
        int last = job->rank - 1;
        if (job->dim[last] != 1 && job->stride[last] != job->run) return;
        for (int64_t i = 0; i < job->dim[last]; i++)
            if (job->map[last][i] != i * job->run) return;
        job->run *= job->dim[last];
    }
}

static int64_t places(const struct map_job *job)
{
    int64_t n = 1;
    for (int d = 0; d < job->rank; d++) n *= job->dim[d];
    return n;
}

/* A job needs a dimension to loop over. */
static void need_dimension(struct map_job *job)
{
    static const int64_t zero[1];
    if (job->rank) return;
    job->rank = 1;
    job->dim[0] = 1;
    job->stride[0] = job->run;
    job->map[0] = zero;
}

static int64_t grain_of(int64_t bytes)
{
    return bytes >= GRAIN_BYTES ? 1 : GRAIN_BYTES / (bytes ? bytes : 1);
}

/* A job narrowed to [begin, end) of its dimension d, or of its block where d is -1. */
static struct map_job narrowed(const struct map_job *job, int d, int64_t begin, int64_t end)
{
    struct map_job part = *job;
    if (d < 0) {
        part.run = end - begin;
        part.dense = (char *)part.dense + begin * part.size;
        part.mapped = (char *)part.mapped + begin * part.size;
    } else {
        part.dim[d] = end - begin;
        part.map[d] += begin;
        part.dense = (char *)part.dense + begin * part.stride[d] * part.size;
    }
    return part;
}

static void gather_rows(void *ctx, int64_t begin, int64_t end)
{
    map_kernels()->gather(ctx, begin, end);
}
static void gather_block(void *ctx, int64_t begin, int64_t end)
{
    struct map_job part = narrowed(ctx, -1, begin, end);
    map_kernels()->gather(&part, 0, 1);
}
static void gather_last(void *ctx, int64_t begin, int64_t end)
{
    const struct map_job *job = ctx;
    struct map_job part = narrowed(job, job->rank - 1, begin, end);
    map_kernels()->gather(&part, 0, 1);
}

void map_gather(op_call *c, struct map_job *job)
{
    (void)c;
    absorb(job);
    need_dimension(job);
    int64_t n = places(job), last = job->dim[job->rank - 1], block = job->run * job->size;
    if (!n || !job->run) return;
    if (n == 1)
        rt_pool_run(job->run, GRAIN_BYTES / job->size, gather_block, job);
    else if (n == last)
        rt_pool_run(last, grain_of(block), gather_last, job);
    else
        rt_pool_run(n / last, grain_of(last * block), gather_rows, job);
}

struct scatter_ctx {
    const struct map_job *job;
    enum map_op op;
    enum map_type type;
    int split;
};
static void scatter_part(void *ctx, int64_t begin, int64_t end)
{
    const struct scatter_ctx *s = ctx;
    struct map_job part = narrowed(s->job, s->split, begin, end);
    if (s->op == MAP_SET)
        map_kernels()->scatter(&part, 0, places(&part) / part.dim[part.rank - 1]);
    else
        map_kernels()->join(&part, s->op, s->type);
}

void map_scatter(op_call *c, struct map_job *job, enum map_op op, aclDataType type, int split)
{
    (void)c;
    absorb(job);
    need_dimension(job);
    int64_t n = places(job);
    if (!n || !job->run) return;
    if (split >= job->rank || (split >= 0 && job->dim[split] < job->run)) split = -1;
    struct scatter_ctx ctx = {job, op, (enum map_type)map_type(type), split};
    int64_t width = split < 0 ? job->run : job->dim[split],
            grain = grain_of(n * job->run / width * job->size);
    if (split < 0 && grain < NARROWEST) grain = NARROWEST;
    rt_pool_run(width, grain, scatter_part, &ctx);
}
