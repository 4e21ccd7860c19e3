/* collective.c - collectives as steps through the staging slots.
 *
 * Whole form: a rank's slot holds a piece of its one message, which any rank may take. Split form: the slot
 * is cut into one part per rank, and a rank takes its part of every slot. */
#include "softnpu/hccl/comm.h"

#include <stdlib.h>
#include <string.h>

struct part {
    uint64_t at, bytes;
};
struct collective {
    struct rt_task task;
    struct hccl_comm *comm;
    const char *name;
    const char *send;
    char *recv;
    int dtype, op; /* op -1: nothing is reduced, parts are moved */
    bool split;
    /* to[r]: what goes to rank r (whole form: to[0] only); from[r]: where rank r's goes, 0 bytes: nowhere.
     * With a reduction all of `from` are the same place. */
    struct part to[HCCL_MAX_RANKS], from[HCCL_MAX_RANKS];
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Bytes of part p in the step that begins at `at`. */
static uint64_t piece(const struct part *p, uint64_t at, uint64_t step)
{
    return at < p->bytes ? least(p->bytes - at, step) : 0;
}

static uint64_t step_of(const struct collective *t)
{
    uint64_t n = t->split ? (uint64_t)t->comm->n : 1;
    return HCCL_SLOT / n / 64 * 64;
}

static void put(const struct collective *t, uint64_t at)
{
    struct hccl_comm *c = t->comm;
    uint64_t step = step_of(t);
    for (int r = 0; r < (t->split ? c->n : 1); r++) {
        uint64_t n = piece(&t->to[r], at, step);
        if (n) memcpy(c->shared->slot[c->rank] + (uint64_t)r * step, t->send + t->to[r].at + at, n);
    }
}

static const char *part_of(const struct collective *t, int r)
{
    struct hccl_comm *c = t->comm;
    return c->shared->slot[r] + (t->split ? (uint64_t)c->rank * step_of(t) : 0);
}

static int take_reduced(const struct collective *t, uint64_t at)
{
    const void *src[HCCL_MAX_RANKS];
    uint64_t n = piece(&t->from[0], at, step_of(t)), size = hccl_size(t->dtype);
    for (int r = 0; r < t->comm->n; r++) src[r] = part_of(t, r);
    if (n && !hccl_reduce(t->dtype, t->op, n / size, t->recv + t->from[0].at + at, src, t->comm->n))
        return rt_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: no reduction %d of type %d", t->name, t->op,
                       t->dtype);
    return 0;
}

static int take(const struct collective *t, uint64_t at)
{
    if (t->op >= 0) return take_reduced(t, at);
    for (int r = 0; r < t->comm->n; r++) {
        uint64_t n = piece(&t->from[r], at, step_of(t));
        if (n) memcpy(t->recv + t->from[r].at + at, part_of(t, r), n);
    }
    return 0;
}

static uint64_t hash(const char *name)
{
    uint64_t h = 5381;
    for (; *name; name++) h = h * 33 + (unsigned char)*name;
    return h;
}

/* The ranks tell each other how many bytes they need; *total is the most. They must be in the same call. */
static int agree(const struct collective *t, uint64_t *total)
{
    struct hccl_comm *c = t->comm;
    struct hccl_rank *mine = &c->shared->rank[c->rank];
    mine->need = 0;
    mine->call = (uint32_t)hash(t->name);
    for (int r = 0; r < c->n; r++) {
        if (mine->need < t->to[r].bytes) mine->need = t->to[r].bytes;
        if (mine->need < t->from[r].bytes) mine->need = t->from[r].bytes;
    }
    int code = hccl_meet(c);
    *total = 0;
    for (int r = 0; r < c->n && !code; r++) {
        const struct hccl_rank *other = &c->shared->rank[r];
        if (other->call != mine->call)
            code = rt_fail(ACL_ERROR_RT_AICPU_EXCEPTION, "%s: rank %d is in another collective", t->name, r);
        if (other->need > *total) *total = other->need;
    }
    return code ? hccl_give_up(c, code) : 0;
}

static int steps(const struct collective *t)
{
    struct hccl_comm *c = t->comm;
    uint64_t total, step = step_of(t);
    int failure = atomic_load(&c->shared->failure);
    if (failure) return rt_fail(failure, "%s: communicator %s has failed", t->name, c->name);
    int code = agree(t, &total);
    for (uint64_t at = 0; !code && at < total; at += step) {
        put(t, at);
        code = hccl_meet(c);
        if (!code) code = take(t, at);
        if (code) return hccl_give_up(c, code);
        code = hccl_meet(c);
    }
    if (!code && !total) code = hccl_meet(c); /* `need` may be written again after this */
    return code;
}

static int run_collective(struct rt_task *task)
{
    const struct collective *t = (const struct collective *)task;
    pthread_mutex_lock(&t->comm->collective);
    int code = steps(t);
    pthread_mutex_unlock(&t->comm->collective);
    return code;
}

static void drop_collective(struct rt_task *task)
{
    hccl_comm_unref(((struct collective *)task)->comm);
    free(task);
}

static const char *label_collective(const struct rt_task *task)
{
    return ((const struct collective *)task)->name;
}

static const struct rt_task_kind collective_kind = {
    .name = "collective", .run = run_collective, .drop = drop_collective, .label = label_collective};

/* ---- the interface ----------------------------------------------------------------------------------- */

static char *address(const void *p)
{
    return rt_kernel_ptr(p);
}

/* A new task, or NULL with *result set. count elements may be 0, then pointers may be null. */
static struct collective *begin(void *comm, const char *name, const void *send, void *recv, int dtype,
                                int *result)
{
    struct hccl_comm *c = hccl_comm_of(comm);
    if (!c) return *result = hccl_fail(HCCL_E_PARA, "%s: no such communicator", name), NULL;
    if (!hccl_size(dtype)) return *result = hccl_fail(HCCL_E_PARA, "%s: no type %d", name, dtype), NULL;
    if ((send && !rt_is_device_ptr(send)) || (recv && !rt_is_device_ptr(recv)))
        return *result = hccl_fail(HCCL_E_PARA, "%s: a buffer is not device memory", name), NULL;
    struct collective *t = calloc(1, sizeof *t);
    if (!t) return *result = hccl_fail(HCCL_E_MEMORY, "%s: no memory", name), NULL;
    atomic_fetch_add(&c->refs, 1);
    t->task.kind = &collective_kind;
    t->comm = c;
    t->name = name;
    t->send = address(send);
    t->recv = address(recv);
    t->dtype = dtype;
    t->op = -1;
    return t;
}

static int launch(struct collective *t, aclrtStream stream)
{
    bool missing = false;
    for (int r = 0; r < t->comm->n; r++)
        missing |= (t->to[r].bytes && !t->send) || (t->from[r].bytes && !t->recv);
    if (missing) {
        int result = hccl_fail(HCCL_E_PTR, "%s: a null buffer", t->name);
        drop_collective(&t->task);
        return result;
    }
    return hccl_result(rt_stream_push(stream, &t->task, false));
}

#define BEGIN(t, send, recv, dtype)                                                                          \
    int begun = HCCL_SUCCESS;                                                                                \
    struct collective *t = begin(comm, __func__, send, recv, dtype, &begun);                                 \
    if (!t) return begun;                                                                                    \
    const int n = t->comm->n, me = t->comm->rank;                                                            \
    const uint64_t size = hccl_size(dtype);                                                                  \
    (void)n, (void)me

/* Rank numbers and counts come from the caller: refuse what would lead outside. */
static int bad_root(struct collective *t, uint32_t root)
{
    if (root < (uint32_t)t->comm->n) return HCCL_SUCCESS;
    int result = hccl_fail(HCCL_E_PARA, "%s: no rank %u among %d", t->name, root, t->comm->n);
    drop_collective(&t->task);
    return result;
}

#define HCCL_COLLECTIVE(name, ...)                                                                           \
    ACL_EXPORT int name(__VA_ARGS__, void *comm, aclrtStream stream);                                        \
    int name(__VA_ARGS__, void *comm, aclrtStream stream)

/* clang-format off */
HCCL_COLLECTIVE(HcclAllReduce, void *send, void *recv, uint64_t count, int dtype, int op)
/* clang-format on */
{
    BEGIN(t, send, recv, dtype);
    t->op = op;
    t->to[0] = (struct part){0, count * size};
    t->from[0] = t->to[0];
    return launch(t, stream);
}

HCCL_COLLECTIVE(HcclReduce, void *send, void *recv, uint64_t count, int dtype, int op, uint32_t root)
{
    BEGIN(t, send, recv, dtype);
    if (bad_root(t, root)) return HCCL_E_PARA;
    t->op = op;
    t->to[0] = (struct part){0, count * size};
    if (me == (int)root) t->from[0] = t->to[0];
    return launch(t, stream);
}

HCCL_COLLECTIVE(HcclBroadcast, void *buffer, uint64_t count, int dtype, uint32_t root)
{
    BEGIN(t, buffer, buffer, dtype);
    if (bad_root(t, root)) return HCCL_E_PARA;
    if (me == (int)root)
        t->to[0] = (struct part){0, count * size};
    else
        t->from[root] = (struct part){0, count * size};
    return launch(t, stream);
}

HCCL_COLLECTIVE(HcclAllGather, void *send, void *recv, uint64_t count, int dtype)
{
    BEGIN(t, send, recv, dtype);
    t->to[0] = (struct part){0, count * size};
    for (int r = 0; r < n; r++) t->from[r] = (struct part){(uint64_t)r * count * size, count * size};
    return launch(t, stream);
}

HCCL_COLLECTIVE(HcclAllGatherV, void *send, uint64_t count, void *recv, const uint64_t *counts,
                const uint64_t *places, int dtype)
{
    BEGIN(t, send, recv, dtype);
    t->to[0] = (struct part){0, count * size};
    for (int r = 0; r < n; r++) t->from[r] = (struct part){places[r] * size, counts[r] * size};
    return launch(t, stream);
}

HCCL_COLLECTIVE(HcclReduceScatter, void *send, void *recv, uint64_t count, int dtype, int op)
{
    BEGIN(t, send, recv, dtype);
    t->op = op;
    t->split = true;
    for (int r = 0; r < n; r++) t->to[r] = (struct part){(uint64_t)r * count * size, count * size};
    t->from[0] = (struct part){0, count * size};
    return launch(t, stream);
}

HCCL_COLLECTIVE(HcclReduceScatterV, void *send, const uint64_t *counts, const uint64_t *places, void *recv,
                uint64_t count, int dtype, int op)
{
    BEGIN(t, send, recv, dtype);
    t->op = op;
    t->split = true;
    for (int r = 0; r < n; r++) t->to[r] = (struct part){places[r] * size, counts[r] * size};
    t->from[0] = (struct part){0, count * size};
    return launch(t, stream);
}

HCCL_COLLECTIVE(HcclScatter, void *send, void *recv, uint64_t count, int dtype, uint32_t root)
{
    BEGIN(t, send, recv, dtype);
    if (bad_root(t, root)) return HCCL_E_PARA;
    t->split = true;
    for (int r = 0; me == (int)root && r < n; r++)
        t->to[r] = (struct part){(uint64_t)r * count * size, count * size};
    t->from[root] = (struct part){0, count * size};
    return launch(t, stream);
}

HCCL_COLLECTIVE(HcclAlltoAll, const void *send, uint64_t sends, int dtype, const void *recv, uint64_t recvs,
                int recv_type)
{
    BEGIN(t, send, (void *)(uintptr_t)recv, dtype);
    t->split = true;
    for (int r = 0; r < n; r++) {
        uint64_t in = recvs * hccl_size(recv_type);
        t->to[r] = (struct part){(uint64_t)r * sends * size, sends * size};
        t->from[r] = (struct part){(uint64_t)r * in, in};
    }
    return launch(t, stream);
}

HCCL_COLLECTIVE(HcclAlltoAllV, const void *send, const uint64_t *sends, const uint64_t *send_places,
                int dtype, const void *recv, const uint64_t *recvs, const uint64_t *recv_places,
                int recv_type)
{
    BEGIN(t, send, (void *)(uintptr_t)recv, dtype);
    t->split = true;
    for (int r = 0; r < n; r++) {
        t->to[r] = (struct part){send_places[r] * size, sends[r] * size};
        t->from[r] = (struct part){recv_places[r] * hccl_size(recv_type), recvs[r] * hccl_size(recv_type)};
    }
    return launch(t, stream);
}

/* matrix[i][j]: elements from rank i to rank j; buffers are packed. */
HCCL_COLLECTIVE(HcclAlltoAllVC, const void *send, const uint64_t *matrix, int dtype, const void *recv,
                int recv_type)
{
    BEGIN(t, send, (void *)(uintptr_t)recv, dtype);
    t->split = true;
    uint64_t out = 0, in = 0;
    for (int r = 0; r < n; r++) {
        t->to[r] = (struct part){out, matrix[me * n + r] * size};
        t->from[r] = (struct part){in, matrix[r * n + me] * hccl_size(recv_type)};
        out += t->to[r].bytes;
        in += t->from[r].bytes;
    }
    return launch(t, stream);
}

ACL_EXPORT int HcclBarrier(void *comm, aclrtStream stream);
int HcclBarrier(void *comm, aclrtStream stream)
{
    BEGIN(t, NULL, NULL, 0);
    (void)size;
    return launch(t, stream);
}
