/* usage.c - what softnpu-smi shows: one shared file of slots, a slot per process and device. */
#include "softnpu/runtime/usage.h"
#include "softnpu/runtime/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const char *usage_path(char out[128])
{
    const char *named = getenv("SOFTNPU_USAGE");
    if (named && *named)
        snprintf(out, 128, "%s", named);
    else
        snprintf(out, 128, "/dev/shm/softnpu-usage-%u", (unsigned)getuid());
    return out;
}

struct usage_table *usage_map(bool create)
{
    char path[128];
    int fd = open(usage_path(path), (create ? O_CREAT : 0) | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return NULL;
    struct stat st;
    void *p = MAP_FAILED;
    if (!fstat(fd, &st) && st.st_uid == getuid() && (!create || !ftruncate(fd, sizeof(struct usage_table))) &&
        (create || st.st_size >= (off_t)sizeof(struct usage_table)))
        p = mmap(NULL, sizeof(struct usage_table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

bool usage_is_stale(const struct usage_slot *s)
{
    int pid = atomic_load(&((struct usage_slot *)(uintptr_t)s)->pid);
    return pid && kill(pid, 0) && errno == ESRCH;
}

/* ---- this process's slots
 * ---------------------------------------------------------------------------------------- */

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
        s->device = device;
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
