/* usage.c - tells softnpu-smi what this process holds: a slot per device. */
#include "softnpu/runtime/usage.h"
#include "softnpu/runtime/internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- this process's slots ---------------------------------------------------------------------------- */

static struct usage_table *table;
static struct usage_slot *mine[RT_MAX_DEVICES];
static bool tried;

static void name_process(char out[64])
{
    int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, 63);
    if (fd >= 0) close(fd);
    out[n > 0 ? n : 0] = 0;
    out[strcspn(out, "\n")] = 0;
}

static struct usage_slot *claim(int device)
{
    for (int i = 0; i < USAGE_SLOTS; i++) {
        struct usage_slot *s = &table->slot[i];
        int pid = atomic_load(&s->pid);
        if (pid && !usage_is_stale(s)) continue;
        if (!atomic_compare_exchange_strong(&s->pid, &pid, (int)getpid())) continue;
        s->device = rt_settings()->physical[device];
        atomic_store(&s->used, 0);
        name_process(s->name);
        return s;
    }
    return NULL;
}

static void release(void)
{
    for (int d = 0; d < RT_MAX_DEVICES; d++)
        if (mine[d] && atomic_load(&mine[d]->pid) == (int)getpid()) atomic_store(&mine[d]->pid, 0);
}

static void after_fork(void)
{
    memset(mine, 0, sizeof mine);
}

/* Called with the memory lock held. Without the file the device works, only the table is not seen. */
void rt_usage_update(int device, uint64_t used)
{
    if (!tried) {
        tried = true;
        table = usage_map(true);
        pthread_atfork(NULL, NULL, after_fork);
        atexit(release);
    }
    if (!table) return;
    if (!mine[device] && used) mine[device] = claim(device);
    if (mine[device]) atomic_store(&mine[device]->used, used);
}
