/* usage_file.c - the file of slots itself: where it is, mapping it, whose slot is whose. Shared with
 * softnpu-smi. */
#include "softnpu/runtime/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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
