/* check.c - the memory and race modes: vector clocks per stream, and a record of recent accesses. */
#include "softnpu/runtime/check.h"
#include "softnpu/runtime/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    bool memory, race;
} on;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_setting(void)
{
    const char *v = getenv("SOFTNPU_CHECK");
    char *copy = v && *v ? strdup(v) : NULL, *save = NULL;
    for (char *one = copy ? strtok_r(copy, ",", &save) : NULL; one; one = strtok_r(NULL, ",", &save)) {
        if (!strcmp(one, "memory"))
            on.memory = true;
        else if (!strcmp(one, "race"))
            on.race = true;
        else {
            fprintf(stderr, "softnpu: SOFTNPU_CHECK=%s: expected memory, race or memory,race\n", v);
            _Exit(2);
        }
    }
    free(copy);
}

bool rt_check_memory(void)
{
    pthread_once(&once, read_setting);
    return on.memory;
}
bool rt_check_race(void)
{
    pthread_once(&once, read_setting);
    return on.race;
}
bool rt_check_any(void)
{
    return rt_check_memory() || on.race;
}

/* ---- memory ------------------------------------------------------------------------------------------ */

int rt_check_live(const char *task, const char *argument, const void *at, uint64_t size)
{
    if (!rt_check_memory() || !size) return 0;
    int device = rt_arena_device(at);
    if (device >= 0 && rt_memory_holds(device, (uint64_t)((const char *)at - rt_arena_base(device)), size))
        return 0;
    if (device < 0 && rt_vmm_holds(at, size)) return 0;
    return rt_fail(ACL_ERROR_RT_AICORE_EXCEPTION,
                   "%s: %s: %llu bytes at %p do not lie in live device memory (used after it was freed, or "
                   "out of bounds)",
                   task, argument, (unsigned long long)size, at);
}

/* ---- races ------------------------------------------------------------------------------------------- */

struct access {
    const char *begin, *end;
    uint32_t stream, clock;
    bool writes;
    char who[72];
};
enum { NACCESSES = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rt_clock streams[CHECK_STREAMS]; /* what each stream knows of the others */
static struct rt_clock host;                   /* what the host knows: all its threads as one */
static struct access history[NACCESSES];
static unsigned long long naccesses;
static _Thread_local uint32_t running;
static atomic_ullong reported;

static void merge(struct rt_clock *to, const struct rt_clock *from)
{
    for (int i = 0; i < CHECK_STREAMS; i++)
        if (to->at[i] < from->at[i]) to->at[i] = from->at[i];
}

#define CLOCKS(statement)                                                                                    \
    do {                                                                                                     \
        if (!rt_check_race()) return;                                                                        \
        pthread_mutex_lock(&lock);                                                                           \
        statement;                                                                                           \
        pthread_mutex_unlock(&lock);                                                                         \
    } while (0)

void rt_clock_launch(uint32_t stream)
{
    CLOCKS(merge(&streams[stream % CHECK_STREAMS], &host));
}

void rt_clock_start(uint32_t stream)
{
    running = stream % CHECK_STREAMS;
    CLOCKS(streams[running].at[running]++);
}

void rt_clock_record(uint32_t stream, struct rt_clock *event)
{
    CLOCKS(*event = streams[stream % CHECK_STREAMS]);
}

void rt_clock_wait(uint32_t stream, const struct rt_clock *event)
{
    CLOCKS(merge(&streams[stream % CHECK_STREAMS], event));
}

void rt_clock_host_event(const struct rt_clock *event)
{
    CLOCKS(merge(&host, event));
}

void rt_clock_host_stream(uint32_t stream)
{
    CLOCKS(merge(&host, &streams[stream % CHECK_STREAMS]));
}

static bool races(const struct access *old, const struct access *now)
{
    return old->begin && old->stream != now->stream && (old->writes || now->writes) &&
           old->begin < now->end && now->begin < old->end &&
           streams[now->stream].at[old->stream] < old->clock;
}

/* With the lock held. One report a task is enough to find it. */
static void look_back(const struct access *now)
{
    for (int i = 0; i < NACCESSES; i++) {
        const struct access *old = &history[i];
        if (!races(old, now)) continue;
        fprintf(stderr,
                "softnpu: race: %s on stream %u %s bytes that %s on stream %u %s, and nothing orders the two "
                "(%p to %p)\n",
                now->who, now->stream, now->writes ? "writes" : "reads", old->who, old->stream,
                old->writes ? "writes" : "reads", (const void *)now->begin, (const void *)now->end);
        atomic_fetch_add(&reported, 1);
        return;
    }
}

void rt_check_forget(const void *at, uint64_t size)
{
    if (!rt_check_race()) return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < NACCESSES; i++)
        if (history[i].begin < (const char *)at + size && (const char *)at < history[i].end)
            history[i].begin = NULL;
    pthread_mutex_unlock(&lock);
}

void rt_check_access(const char *task, const char *argument, const void *at, uint64_t size, bool writes)
{
    if (!rt_check_race() || !size) return;
    struct access a = {at, (const char *)at + size, running, 0, writes, ""};
    snprintf(a.who, sizeof a.who, "%s (%s)", task, argument);
    pthread_mutex_lock(&lock);
    a.clock = streams[running].at[running];
    look_back(&a);
    history[naccesses++ % NACCESSES] = a;
    pthread_mutex_unlock(&lock);
}
