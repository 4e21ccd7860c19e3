/* executor.c - executors are recycled through the thread that made them.
 *
 * Every thread that prepares calls has an owner: a private list of free executors and a shared stack onto
 * which other threads push what they finished. Only the owner's thread pops, and it takes the whole stack at
 * once, so the stack needs no lock and knows no ABA problem. An owner outlives its thread: the next new
 * thread adopts it. */
#include "softnpu/op/executor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct exec_chunk {
    struct exec_chunk *next;
    _Alignas(16) char bytes[];
};

struct exec_owner {
    struct aclOpExecutor *free;               /* the owner's thread only */
    _Atomic(struct aclOpExecutor *) returned; /* pushed by any thread */
    struct exec_owner *next;                  /* among the owners without a thread; under owners.lock */
};

static struct {
    pthread_mutex_t lock;
    struct exec_owner *idle;
    pthread_once_t once;
    pthread_key_t key; /* its destructor puts a dead thread's owner into idle */
} owners = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static _Thread_local struct exec_owner *my_owner;

static void owner_retire(void *p)
{
    struct exec_owner *o = p;
    my_owner = NULL;
    pthread_mutex_lock(&owners.lock);
    o->next = owners.idle;
    owners.idle = o;
    pthread_mutex_unlock(&owners.lock);
}

static void owners_init(void)
{
    pthread_key_create(&owners.key, owner_retire);
}

static struct exec_owner *owner_adopt(void)
{
    pthread_once(&owners.once, owners_init);
    pthread_mutex_lock(&owners.lock);
    struct exec_owner *o = owners.idle;
    if (o) owners.idle = o->next;
    pthread_mutex_unlock(&owners.lock);
    if (!o) o = calloc(1, sizeof *o);
    if (!o) return NULL;
    my_owner = o;
    pthread_setspecific(owners.key, o);
    return o;
}

struct aclOpExecutor *exec_new(void)
{
    struct exec_owner *o = my_owner ? my_owner : owner_adopt();
    if (!o) return NULL;
    if (!o->free) o->free = atomic_exchange_explicit(&o->returned, NULL, memory_order_acquire);
    struct aclOpExecutor *ex = o->free;
    if (ex)
        o->free = ex->next;
    else if (!(ex = aligned_alloc(64, (sizeof *ex + 63) & ~(size_t)63)))
        return NULL;
    ex->owner = o;
    ex->chunks = NULL;
    ex->caller = NULL;
    ex->used = 0;
    return ex;
}

void *exec_alloc(struct aclOpExecutor *ex, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (bytes <= EXEC_ARENA - ex->used) {
        void *p = ex->arena + ex->used;
        ex->used += bytes;
        return p;
    }
    struct exec_chunk *chunk = malloc(sizeof *chunk + bytes);
    if (!chunk) return NULL;
    chunk->next = ex->chunks;
    ex->chunks = chunk;
    return chunk->bytes;
}

void exec_free(struct aclOpExecutor *ex)
{
    for (struct exec_chunk *c = ex->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    struct exec_owner *o = ex->owner;
    if (o == my_owner) {
        ex->next = o->free;
        o->free = ex;
        return;
    }
    struct aclOpExecutor *head = atomic_load_explicit(&o->returned, memory_order_relaxed);
    do ex->next = head;
    while (!atomic_compare_exchange_weak_explicit(&o->returned, &head, ex, memory_order_release,
                                                  memory_order_relaxed));
}
