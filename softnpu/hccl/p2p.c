/* p2p.c - messages between two ranks, and groups of them that go at the same time. */
#include "softnpu/hccl/comm.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct item {
    bool sends;
    int peer;
    char *buffer;
    uint64_t bytes, done;
};
struct batch {
    struct rt_task task;
    struct hccl_comm *comm;
    uint32_t n;
    struct item item[];
};
/* As in the public reference. */
struct hccl_item {
    int type; /* 0 send, 1 receive */
    void *buffer;
    uint64_t count;
    int dtype;
    uint32_t peer;
};

/* ---- moving pieces ----------------------------------------------------------------------------------- */

static bool send_piece(struct hccl_channel *ch, struct item *i)
{
    unsigned sent = atomic_load(&ch->sent);
    if (sent - atomic_load(&ch->taken) >= 2) return false;
    uint64_t n = i->bytes - i->done < HCCL_CHANNEL ? i->bytes - i->done : HCCL_CHANNEL;
    if (n) memcpy(ch->buffer[sent % 2], i->buffer + i->done, n);
    ch->length[sent % 2] = (uint32_t)n;
    ch->total[sent % 2] = i->bytes;
    i->done += n;
    atomic_store(&ch->sent, sent + 1);
    return true;
}

/* 1: a piece, 0: none there, -1: the sender's message has another length. */
static int take_piece(struct hccl_channel *ch, struct item *i)
{
    unsigned taken = atomic_load(&ch->taken);
    if (atomic_load(&ch->sent) == taken) return 0;
    uint64_t n = ch->length[taken % 2];
    if (ch->total[taken % 2] != i->bytes || n > i->bytes - i->done) return -1;
    if (n) memcpy(i->buffer + i->done, ch->buffer[taken % 2], n);
    i->done += n;
    atomic_store(&ch->taken, taken + 1);
    return 1;
}

static struct hccl_channel *channel(struct hccl_comm *c, const struct item *i)
{
    return i->sends ? &c->shared->channel[c->rank][i->peer] : &c->shared->channel[i->peer][c->rank];
}

/* Messages of one direction with one peer keep their order: an item waits for those before it. */
static bool is_first(const struct batch *b, uint32_t k, const bool *over)
{
    for (uint32_t j = 0; j < k; j++)
        if (!over[j] && b->item[j].peer == b->item[k].peer && b->item[j].sends == b->item[k].sends)
            return false;
    return true;
}

static int advance(struct batch *b, bool *over, uint32_t *left, bool *moved)
{
    *moved = false;
    for (uint32_t k = 0; k < b->n; k++) {
        struct item *i = &b->item[k];
        if (over[k] || !is_first(b, k, over)) continue;
        int got = i->sends ? send_piece(channel(b->comm, i), i) : take_piece(channel(b->comm, i), i);
        if (got < 0)
            return rt_fail(ACL_ERROR_RT_AICPU_EXCEPTION,
                           "HcclRecv: rank %d sends another number of bytes than %llu", i->peer,
                           (unsigned long long)i->bytes);
        if (!got) continue;
        *moved = true;
        over[k] = i->done == i->bytes;
        *left -= over[k];
    }
    return 0;
}

static void pause_for(unsigned *idle)
{
    if (++*idle < 50) {
        sched_yield();
        return;
    }
    struct timespec t = {0, *idle < 200 ? 50000 : 500000};
    nanosleep(&t, NULL);
}

static int exchange(struct batch *b)
{
    bool *over = calloc(b->n, sizeof *over), moved;
    if (!over) return rt_fail(ACL_ERROR_BAD_ALLOC, "HcclBatchSendRecv: no memory");
    uint64_t deadline = hccl_deadline();
    uint32_t left = b->n;
    unsigned idle = 0;
    int code = 0;
    while (left && !code) {
        code = advance(b, over, &left, &moved);
        if (moved)
            idle = 0;
        else if (!code)
            pause_for(&idle);
        if (!code && idle % 200 == 199) code = hccl_check(b->comm, deadline);
    }
    free(over);
    return code ? hccl_give_up(b->comm, code) : 0;
}

/* Locks in the order of ranks, so that two batches cannot wait for each other. */
static void lock_all(struct batch *b, int (*fn)(pthread_mutex_t *))
{
    bool sends[HCCL_MAX_RANKS] = {false}, receives[HCCL_MAX_RANKS] = {false};
    for (uint32_t k = 0; k < b->n; k++) (b->item[k].sends ? sends : receives)[b->item[k].peer] = true;
    for (int r = 0; r < b->comm->n; r++) {
        if (sends[r]) fn(&b->comm->sending[r]);
        if (receives[r]) fn(&b->comm->receiving[r]);
    }
}

static int run_batch(struct rt_task *task)
{
    struct batch *b = (struct batch *)task;
    int failure = atomic_load(&b->comm->shared->failure);
    if (failure) return rt_fail(failure, "communicator %s has failed", b->comm->name);
    for (uint32_t k = 0; k < b->n; k++) b->item[k].done = 0;
    lock_all(b, pthread_mutex_lock);
    int code = exchange(b);
    lock_all(b, pthread_mutex_unlock);
    return code;
}

static void drop_batch(struct rt_task *task)
{
    hccl_comm_unref(((struct batch *)task)->comm);
    free(task);
}

static const struct rt_task_kind batch_kind = {
    .name = "send and receive", .run = run_batch, .drop = drop_batch};

/* ---- groups: what a thread asks for between start and end goes as one batch per communicator and stream */

struct waiting {
    struct hccl_comm *comm;
    aclrtStream stream;
    struct hccl_item item;
    struct waiting *next;
};
static _Thread_local int depth;
static _Thread_local struct waiting *group, **group_end;

static int check(const struct hccl_comm *c, const struct hccl_item *i)
{
    if (i->peer >= (uint32_t)c->n) return hccl_fail(HCCL_E_PARA, "no rank %u among %d", i->peer, c->n);
    if (!hccl_size(i->dtype) || i->type < 0 || i->type > 1) return hccl_fail(HCCL_E_PARA, "no such type");
    if (i->count && !rt_is_device_ptr(i->buffer))
        return hccl_fail(HCCL_E_PARA, "a buffer is not device memory");
    return HCCL_SUCCESS;
}

static int launch(struct hccl_comm *c, const struct hccl_item *items, uint32_t n, aclrtStream stream)
{
    for (uint32_t k = 0; k < n; k++)
        if (check(c, &items[k])) return HCCL_E_PARA;
    struct batch *b = calloc(1, sizeof *b + n * sizeof *b->item);
    if (!b) return hccl_fail(HCCL_E_MEMORY, "no memory for a batch");
    b->task.kind = &batch_kind;
    b->comm = c;
    b->n = n;
    atomic_fetch_add(&c->refs, 1);
    for (uint32_t k = 0; k < n; k++)
        b->item[k] = (struct item){!items[k].type, (int)items[k].peer, rt_kernel_ptr(items[k].buffer),
                                   items[k].count * hccl_size(items[k].dtype), 0};
    return hccl_result(rt_stream_push(stream, &b->task, false));
}

static int ask(struct hccl_comm *c, const struct hccl_item *item, aclrtStream stream)
{
    if (!depth) return launch(c, item, 1, stream);
    if (check(c, item)) return HCCL_E_PARA;
    struct waiting *w = malloc(sizeof *w);
    if (!w) return hccl_fail(HCCL_E_MEMORY, "no memory for a group");
    *w = (struct waiting){c, stream, *item, NULL};
    *group_end = w;
    group_end = &w->next;
    return HCCL_SUCCESS;
}

ACL_EXPORT int HcclSend(void *buffer, uint64_t count, int dtype, uint32_t to, void *comm, aclrtStream stream);
ACL_EXPORT int HcclRecv(void *buffer, uint64_t count, int dtype, uint32_t from, void *comm,
                        aclrtStream stream);
ACL_EXPORT int HcclBatchSendRecv(struct hccl_item *items, uint32_t n, void *comm, aclrtStream stream);
ACL_EXPORT int HcclGroupStart(void);
ACL_EXPORT int HcclGroupEnd(void);

int HcclSend(void *buffer, uint64_t count, int dtype, uint32_t to, void *comm, aclrtStream stream)
{
    struct hccl_comm *c = hccl_comm_of(comm);
    if (!c) return hccl_fail(HCCL_E_PARA, "HcclSend: no such communicator");
    return ask(c, &(struct hccl_item){0, buffer, count, dtype, to}, stream);
}

int HcclRecv(void *buffer, uint64_t count, int dtype, uint32_t from, void *comm, aclrtStream stream)
{
    struct hccl_comm *c = hccl_comm_of(comm);
    if (!c) return hccl_fail(HCCL_E_PARA, "HcclRecv: no such communicator");
    return ask(c, &(struct hccl_item){1, buffer, count, dtype, from}, stream);
}

int HcclBatchSendRecv(struct hccl_item *items, uint32_t n, void *comm, aclrtStream stream)
{
    struct hccl_comm *c = hccl_comm_of(comm);
    if (!c || !items || !n) return hccl_fail(HCCL_E_PARA, "HcclBatchSendRecv: no communicator, or no items");
    return launch(c, items, n, stream);
}

int HcclGroupStart(void)
{
    if (!depth++) group_end = &group;
    return HCCL_SUCCESS;
}

/* Launches all that goes to the same place as the first that waits. */
static int flush_first(void)
{
    uint32_t n = 0, k = 0;
    struct hccl_comm *c = group->comm;
    aclrtStream stream = group->stream;
    for (struct waiting *w = group; w; w = w->next) n += w->comm == c && w->stream == stream;
    struct hccl_item *items = malloc(n * sizeof *items);
    for (struct waiting **w = &group; *w;) {
        struct waiting *one = *w;
        if (one->comm != c || one->stream != stream) {
            w = &one->next;
            continue;
        }
        if (items) items[k++] = one->item;
        *w = one->next;
        free(one);
    }
    int result = items ? launch(c, items, n, stream) : hccl_fail(HCCL_E_MEMORY, "no memory for a group");
    free(items);
    return result;
}

int HcclGroupEnd(void)
{
    if (!depth) return hccl_fail(HCCL_E_PARA, "HcclGroupEnd: HcclGroupStart was not called");
    if (--depth) return HCCL_SUCCESS;
    int first = HCCL_SUCCESS;
    while (group) {
        int result = flush_first();
        if (!first) first = result;
    }
    return first;
}
