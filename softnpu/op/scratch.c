/* scratch.c - memory of a running call: one arena per executing thread, kept between calls up to a limit. */
#include "softnpu/op/executor.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALIGN = 64, KEEP = 8 << 20, FIRST = 64 << 10 };

struct chunk {
    struct chunk *next;
    size_t size, used;
    _Alignas(ALIGN) char bytes[];
};

struct arena {
    struct chunk *chunks; /* newest first */
    char *block;
    size_t block_size;
};

static _Thread_local struct arena *mine;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

static _Noreturn void out_of_memory(size_t bytes)
{
    fprintf(stderr, "softnpu: no host memory for %zu bytes of kernel scratch; the process ends\n", bytes);
    abort();
}

static void *get(size_t bytes)
{
    void *p = aligned_alloc(ALIGN, (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1));
    if (!p) out_of_memory(bytes);
    return p;
}

static void free_chunks(struct chunk *c)
{
    for (struct chunk *next; c; c = next) {
        next = c->next;
        free(c);
    }
}

static void arena_free(void *p)
{
    struct arena *a = p;
    free_chunks(a->chunks);
    free(a->block);
    free(a);
    mine = NULL;
}

static void key_init(void)
{
    pthread_key_create(&key, arena_free);
}

static struct arena *arena(void)
{
    if (mine) return mine;
    pthread_once(&once, key_init);
    mine = get(sizeof *mine);
    *mine = (struct arena){0};
    pthread_setspecific(key, mine);
    return mine;
}

static struct chunk *add_chunk(struct arena *a, size_t bytes)
{
    struct chunk *c = get(sizeof *c + bytes);
    *c = (struct chunk){.next = a->chunks, .size = bytes};
    a->chunks = c;
    return c;
}

void *op_scratch(op_call *c, size_t bytes)
{
    (void)c;
    struct arena *a = arena();
    bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    struct chunk *chunk = a->chunks;
    if (!chunk || chunk->size - chunk->used < bytes) chunk = add_chunk(a, bytes > FIRST ? bytes : FIRST);
    void *p = chunk->bytes + chunk->used;
    chunk->used += bytes;
    return p;
}

/* Several chunks become one of their total size next time, unless that is more than a thread should hold on
 * to. */
void scratch_reset(void)
{
    struct arena *a = mine;
    if (!a || !a->chunks || (a->chunks->used == 0 && !a->chunks->next)) return;
    size_t total = 0;
    for (struct chunk *c = a->chunks; c; c = c->next) total += c->size;
    if (!a->chunks->next && total <= KEEP) {
        a->chunks->used = 0;
        return;
    }
    free_chunks(a->chunks);
    a->chunks = NULL;
    if (total <= KEEP) add_chunk(a, total);
}

char *scratch_block(size_t bytes)
{
    struct arena *a = arena();
    if (a->block_size < bytes) {
        free(a->block);
        a->block = get(bytes);
        a->block_size = bytes;
    }
    return a->block;
}
