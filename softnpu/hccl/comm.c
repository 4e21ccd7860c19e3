/* comm.c - making communicators, meeting, and noticing that a rank has gone. */
#include "softnpu/hccl/comm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define COMM_MAGIC 0x4CC1u
enum { ROOT_INFO_BYTES = 4108, NAME_BYTES = 128, CONFIG_NAME_AT = 32 };

struct hccl_root { /* what HcclRootInfo holds */
    char magic[8];
    int pid;
    uint32_t nonce;
};
struct root_info {
    char bytes[ROOT_INFO_BYTES];
};
struct pending { /* objects made by HcclGetRootInfo that rank 0 has not taken yet */
    uint32_t nonce;
    int fd;
    struct pending *next;
};
struct hccl_range {
    char *at;
    size_t size;
    struct hccl_range *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pending *pending;

int hccl_fail(int result, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    rt_fail(ACL_ERROR_FAILURE, "HCCL: %s", text);
    return result;
}

int hccl_result(int acl_error)
{
    return acl_error ? HCCL_E_INTERNAL : HCCL_SUCCESS;
}

static uint64_t seconds(const char *variable, uint64_t otherwise)
{
    const char *v = getenv(variable);
    char *end;
    long s = v && *v ? strtol(v, &end, 10) : -1;
    return s < 0 || *end ? otherwise : (uint64_t)s;
}

uint64_t hccl_deadline(void)
{
    uint64_t s = seconds("HCCL_EXEC_TIMEOUT", 1836);
    return s ? rt_now_ns() + s * 1000000000u : 0;
}

struct hccl_comm *hccl_comm_of(void *handle)
{
    struct hccl_comm *c = handle;
    return c && c->magic == COMM_MAGIC ? c : NULL;
}

/* ---- meeting ----------------------------------------------------------------------------------------- */

/* Gone, or dead and not yet waited for by its parent. */
static bool is_dead(int pid)
{
    if (pid == (int)getpid()) return false;
    if (kill(pid, 0) && errno == ESRCH) return true;
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    const char *end = n > 0 ? strrchr(text, ')') : NULL;
    return end && end[1] == ' ' && (end[2] == 'Z' || end[2] == 'X');
}

int hccl_give_up(struct hccl_comm *c, int code)
{
    int none = 0;
    atomic_compare_exchange_strong(&c->shared->failure, &none, code);
    atomic_fetch_add(&c->shared->meeting, 0);
    syscall(SYS_futex, &c->shared->meeting, FUTEX_WAKE, HCCL_MAX_RANKS, NULL, NULL, 0);
    return code;
}

int hccl_check(struct hccl_comm *c, uint64_t deadline)
{
    int failure = atomic_load(&c->shared->failure);
    if (failure) return rt_fail(failure, "communicator %s: another rank has failed", c->name);
    if (rt_task_cancelled()) return hccl_give_up(c, ACL_ERROR_RT_STREAM_ABORT);
    for (int r = 0; r < c->n; r++) {
        int pid = atomic_load(&c->shared->rank[r].pid);
        if (pid && is_dead(pid))
            return hccl_give_up(c,
                                rt_fail(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR,
                                        "communicator %s: rank %d (process %d) has ended", c->name, r, pid));
    }
    if (deadline && rt_now_ns() > deadline)
        return hccl_give_up(c, rt_fail(ACL_ERROR_RT_AICPU_TIMEOUT,
                                       "communicator %s: a rank did not come within HCCL_EXEC_TIMEOUT",
                                       c->name));
    return 0;
}

int hccl_meet(struct hccl_comm *c)
{
    struct hccl_shared *s = c->shared;
    uint64_t deadline = hccl_deadline();
    unsigned now = atomic_load(&s->meeting);
    if (atomic_fetch_add(&s->arrived, 1) + 1 == (unsigned)c->n) {
        atomic_store(&s->arrived, 0);
        atomic_fetch_add(&s->meeting, 1);
        syscall(SYS_futex, &s->meeting, FUTEX_WAKE, HCCL_MAX_RANKS, NULL, NULL, 0);
    }
    while (atomic_load(&s->meeting) == now) {
        struct timespec soon = {0, 100000000};
        syscall(SYS_futex, &s->meeting, FUTEX_WAIT, now, &soon, NULL, 0);
        if (atomic_load(&s->meeting) != now) break;
        int code = hccl_check(c, deadline);
        if (code) return code;
    }
    return 0;
}

/* ---- memory objects ---------------------------------------------------------------------------------- */

static void object_name(char name[32], uint32_t nonce)
{
    snprintf(name, 32, "softnpu-hccl-%08x", nonce);
}

static int make_object(uint32_t *nonce)
{
    char name[32];
    if (getrandom(nonce, sizeof *nonce, 0) != sizeof *nonce) return -1;
    object_name(name, *nonce);
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, sizeof(struct hccl_shared))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static struct hccl_shared *map_object(int fd)
{
    void *p =
        mmap(NULL, sizeof(struct hccl_shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* The descriptor that this process keeps for an object it made, -1 if it made none. */
static int take_pending(uint32_t nonce)
{
    int fd = -1;
    pthread_mutex_lock(&lock);
    for (struct pending **p = &pending; *p; p = &(*p)->next) {
        if ((*p)->nonce != nonce) continue;
        struct pending *gone = *p;
        fd = gone->fd;
        *p = gone->next;
        free(gone);
        break;
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

static bool keep_pending(uint32_t nonce, int fd)
{
    struct pending *p = malloc(sizeof *p);
    if (!p) return false;
    pthread_mutex_lock(&lock);
    *p = (struct pending){nonce, fd, pending};
    pending = p;
    pthread_mutex_unlock(&lock);
    return true;
}

/* ---- joining ----------------------------------------------------------------------------------------- */

static struct hccl_comm *new_comm(int n, int rank, struct hccl_shared *shared, uint32_t nonce)
{
    struct hccl_comm *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->magic = COMM_MAGIC;
    c->n = n;
    c->rank = rank;
    c->shared = shared;
    c->fd = -1;
    snprintf(c->name, sizeof c->name, "softnpu_%08x", nonce);
    atomic_store(&c->refs, 1);
    pthread_mutex_init(&c->collective, NULL);
    for (int i = 0; i < HCCL_MAX_RANKS; i++) {
        pthread_mutex_init(&c->sending[i], NULL);
        pthread_mutex_init(&c->receiving[i], NULL);
    }
    return c;
}

void hccl_comm_unref(struct hccl_comm *c)
{
    if (atomic_fetch_sub(&c->refs, 1) != 1) return;
    munmap(c->shared, sizeof *c->shared);
    if (c->fd >= 0) close(c->fd);
    for (struct hccl_range *r = c->ranges, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    free(c);
}

/* Takes the rank's place; false if it is taken or the sizes differ. */
static bool take_place(struct hccl_shared *s, unsigned n, int rank)
{
    unsigned unknown = 0;
    int free_place = 0;
    if (!atomic_compare_exchange_strong(&s->nranks, &unknown, n) && unknown != n) return false;
    if (!atomic_compare_exchange_strong(&s->rank[rank].pid, &free_place, (int)getpid())) return false;
    atomic_fetch_add(&s->joined, 1);
    return true;
}

/* Waits until all ranks have come, at most HCCL_CONNECT_TIMEOUT seconds. */
static int await_all(struct hccl_comm *c)
{
    uint64_t deadline = rt_now_ns() + seconds("HCCL_CONNECT_TIMEOUT", 120) * 1000000000u;
    while (atomic_load(&c->shared->joined) < (unsigned)c->n) {
        if (rt_now_ns() > deadline)
            return hccl_fail(HCCL_E_TIMEOUT,
                             "communicator %s: only %u of %d ranks came within HCCL_CONNECT_TIMEOUT", c->name,
                             atomic_load(&c->shared->joined), c->n);
        usleep(500);
    }
    return HCCL_SUCCESS;
}

static int join(int pid, uint32_t nonce, uint32_t n, uint32_t rank, bool wait, void **comm)
{
    struct rt_context *ctx = rt_context_current();
    if (!ctx) return hccl_fail(HCCL_E_PARA, "no device is set");
    if (!n || n > HCCL_MAX_RANKS || rank >= n)
        return hccl_fail(n > HCCL_MAX_RANKS ? HCCL_E_NOT_SUPPORT : HCCL_E_PARA,
                         "rank %u of %u: 1 to %d ranks", rank, n, HCCL_MAX_RANKS);
    char name[32];
    object_name(name, nonce);
    int fd = rt_open_object(pid, name);
    struct hccl_shared *s = fd < 0 ? NULL : map_object(fd);
    if (fd >= 0) close(fd);
    if (!s)
        return hccl_fail(
            HCCL_E_SYSCALL,
            "process %d, which made the root info, cannot be reached: all ranks must run on one machine "
            "as one user (%s)",
            pid, strerror(errno));
    struct hccl_comm *c = new_comm((int)n, (int)rank, s, nonce);
    if (!c || !take_place(s, n, (int)rank)) {
        free(c);
        munmap(s, sizeof *s);
        return c ? hccl_fail(HCCL_E_PARA, "rank %u has joined already, or the ranks do not agree on %u", rank,
                             n)
                 : hccl_fail(HCCL_E_MEMORY, "no memory for a communicator");
    }
    c->device = ctx->device;
    int result = wait ? await_all(c) : HCCL_SUCCESS;
    if (pid == (int)getpid() && wait) c->fd = take_pending(nonce);
    if (result) {
        hccl_comm_unref(c);
        return result;
    }
    *comm = c;
    return HCCL_SUCCESS;
}

static void name_it(void *comm, const void *config)
{
    size_t size;
    if (!config) return;
    memcpy(&size, config, sizeof size);
    const char *name = (const char *)config + CONFIG_NAME_AT;
    if (size >= CONFIG_NAME_AT + NAME_BYTES && *name)
        snprintf(((struct hccl_comm *)comm)->name, NAME_BYTES, "%.*s", NAME_BYTES - 1, name);
}

ACL_EXPORT int HcclGetRootInfo(struct root_info *info);
ACL_EXPORT int HcclCommInitRootInfoConfig(uint32_t n, const struct root_info *info, uint32_t rank,
                                          const void *config, void **comm);
ACL_EXPORT int HcclCommInitRootInfo(uint32_t n, const struct root_info *info, uint32_t rank, void **comm);
ACL_EXPORT int HcclCommInitAll(uint32_t n, const int32_t *devices, void **comms);
ACL_EXPORT int HcclCreateSubCommConfig(void **comm, uint32_t n, const uint32_t *ranks, uint64_t id,
                                       uint32_t rank, const void *config, void **sub);
ACL_EXPORT int HcclCommDestroy(void *comm);

int HcclGetRootInfo(struct root_info *info)
{
    if (!info) return hccl_fail(HCCL_E_PTR, "HcclGetRootInfo: no place for it");
    struct hccl_root root = {"softnpu", (int)getpid(), 0};
    int fd = make_object(&root.nonce);
    if (fd < 0 || !keep_pending(root.nonce, fd))
        return hccl_fail(HCCL_E_SYSCALL, "HcclGetRootInfo: %s", strerror(errno));
    memset(info, 0, sizeof *info);
    memcpy(info, &root, sizeof root);
    return HCCL_SUCCESS;
}

int HcclCommInitRootInfoConfig(uint32_t n, const struct root_info *info, uint32_t rank, const void *config,
                               void **comm)
{
    if (!info || !comm) return hccl_fail(HCCL_E_PTR, "HcclCommInitRootInfo: a null pointer");
    struct hccl_root root;
    memcpy(&root, info, sizeof root);
    if (memcmp(root.magic, "softnpu", 8))
        return hccl_fail(HCCL_E_PARA, "HcclCommInitRootInfo: not a root info");
    int result = join(root.pid, root.nonce, n, rank, true, comm);
    if (!result) name_it(*comm, config);
    return result;
}

int HcclCommInitRootInfo(uint32_t n, const struct root_info *info, uint32_t rank, void **comm)
{
    return HcclCommInitRootInfoConfig(n, info, rank, NULL, comm);
}

/* All ranks in this process, one a device. */
int HcclCommInitAll(uint32_t n, const int32_t *devices, void **comms)
{
    if (!devices || !comms || !n || n > (uint32_t)rt_device_count())
        return hccl_fail(HCCL_E_PARA, "HcclCommInitAll: %u devices of %d", n, rt_device_count());
    uint32_t nonce;
    int fd = make_object(&nonce), result = HCCL_SUCCESS;
    if (fd < 0) return hccl_fail(HCCL_E_SYSCALL, "HcclCommInitAll: %s", strerror(errno));
    for (uint32_t i = 0; i < n && !result; i++) {
        result = join((int)getpid(), nonce, n, i, false, &comms[i]);
        if (!result) ((struct hccl_comm *)comms[i])->device = devices[i];
    }
    close(fd);
    return result;
}

/* Rank 0 of the new communicator makes it and leaves word in the old one's memory. */
static int publish(struct hccl_shared *s, uint64_t id, struct hccl_sub *made)
{
    uint32_t nonce;
    int fd = make_object(&nonce);
    unsigned i = fd < 0 || !keep_pending(nonce, fd) ? HCCL_SUBS : atomic_fetch_add(&s->nsubs, 1);
    if (i >= HCCL_SUBS) return hccl_fail(HCCL_E_MEMORY, "no room for another communicator");
    s->sub[i].id = id;
    s->sub[i].pid = made->pid = (int)getpid();
    s->sub[i].nonce = made->nonce = nonce;
    atomic_store(&s->sub[i].ready, 1);
    return HCCL_SUCCESS;
}

/* The newest with this number: numbers may be used again. */
static int find_published(struct hccl_shared *s, uint64_t id, uint32_t rank, struct hccl_sub *made)
{
    uint64_t deadline = rt_now_ns() + seconds("HCCL_CONNECT_TIMEOUT", 120) * 1000000000u;
    while (rt_now_ns() < deadline) {
        unsigned n = atomic_load(&s->nsubs);
        for (unsigned i = n < HCCL_SUBS ? n : HCCL_SUBS; i-- > 0;) {
            if (!atomic_load(&s->sub[i].ready) || s->sub[i].id != id) continue;
            made->pid = s->sub[i].pid;
            made->nonce = s->sub[i].nonce;
            return HCCL_SUCCESS;
        }
        usleep(500);
    }
    return hccl_fail(HCCL_E_TIMEOUT, "rank %u: rank 0 of the new communicator did not come", rank);
}

int HcclCreateSubCommConfig(void **comm, uint32_t n, const uint32_t *ranks, uint64_t id, uint32_t rank,
                            const void *config, void **sub)
{
    struct hccl_comm *c = comm ? hccl_comm_of(*comm) : NULL;
    if (!c || !ranks || !sub) return hccl_fail(HCCL_E_PTR, "HcclCreateSubCommConfig: a null pointer");
    if (rank >= n || ranks[rank] != (uint32_t)c->rank)
        return hccl_fail(HCCL_E_PARA, "HcclCreateSubCommConfig: rank %d is not number %u of the list",
                         c->rank, rank);
    struct hccl_sub made = {0};
    int result = rank ? find_published(c->shared, id, rank, &made) : publish(c->shared, id, &made);
    if (!result) result = join(made.pid, made.nonce, n, rank, true, sub);
    if (!result) name_it(*sub, config);
    return result;
}

int HcclCommDestroy(void *comm)
{
    struct hccl_comm *c = hccl_comm_of(comm);
    if (!c) return hccl_fail(HCCL_E_PARA, "HcclCommDestroy: no such communicator");
    c->magic = 0;
    atomic_store(&c->shared->rank[c->rank].pid, 0); /* nobody waits for this process any more */
    hccl_comm_unref(c);
    return HCCL_SUCCESS;
}

/* ---- asking, and memory ranges ----------------------------------------------------------------------- */

ACL_EXPORT int HcclGetCommName(void *comm, char *name);
ACL_EXPORT int HcclGetCommAsyncError(void *comm, int *error);
ACL_EXPORT int HcclGetRankSize(void *comm, uint32_t *n);
ACL_EXPORT int HcclGetRankId(void *comm, uint32_t *rank);
ACL_EXPORT uint32_t HcclGetCommConfigCapability(void);
ACL_EXPORT int HcclCommResume(void *comm);
ACL_EXPORT int HcclCommSetMemoryRange(void *comm, void *at, size_t size, size_t alignment, uint64_t flags);
ACL_EXPORT int HcclCommUnsetMemoryRange(void *comm, void *at);
ACL_EXPORT int HcclCommActivateCommMemory(void *comm, void *at, size_t size, size_t offset, void *handle,
                                          uint64_t flags);
ACL_EXPORT int HcclCommDeactivateCommMemory(void *comm, void *at);

#define COMM(c, handle)                                                                                      \
    struct hccl_comm *c = hccl_comm_of(handle);                                                              \
    if (!c) return hccl_fail(HCCL_E_PARA, "%s: no such communicator", __func__)

int HcclGetCommName(void *comm, char *name)
{
    COMM(c, comm);
    if (!name) return hccl_fail(HCCL_E_PTR, "HcclGetCommName: no place for it");
    memcpy(name, c->name, sizeof c->name);
    return HCCL_SUCCESS;
}

int HcclGetCommAsyncError(void *comm, int *error)
{
    COMM(c, comm);
    if (!error) return hccl_fail(HCCL_E_PTR, "HcclGetCommAsyncError: no place for it");
    *error = atomic_load(&c->shared->failure) ? HCCL_E_REMOTE : HCCL_SUCCESS;
    return HCCL_SUCCESS;
}

int HcclGetRankSize(void *comm, uint32_t *n)
{
    COMM(c, comm);
    if (!n) return hccl_fail(HCCL_E_PTR, "HcclGetRankSize: no place for it");
    *n = (uint32_t)c->n;
    return HCCL_SUCCESS;
}

int HcclGetRankId(void *comm, uint32_t *rank)
{
    COMM(c, comm);
    if (!rank) return hccl_fail(HCCL_E_PTR, "HcclGetRankId: no place for it");
    *rank = (uint32_t)c->rank;
    return HCCL_SUCCESS;
}

/* Buffer size, determinism, name, expansion mode: the numbers up to 3 of the public list. The first two
 * change nothing here, results being deterministic anyway. */
uint32_t HcclGetCommConfigCapability(void)
{
    return 4;
}

/* After a failure that was handled: the ranks begin again. */
int HcclCommResume(void *comm)
{
    COMM(c, comm);
    atomic_store(&c->shared->failure, 0);
    atomic_store(&c->shared->arrived, 0);
    return HCCL_SUCCESS;
}

/* Ranges from which a board sends without staging. Kept on record and checked; staging is used all the same.
 */
static struct hccl_range **find_range(struct hccl_comm *c, const char *at, size_t size)
{
    struct hccl_range **r = &c->ranges;
    while (*r && !(at >= (*r)->at && at + size <= (*r)->at + (*r)->size)) r = &(*r)->next;
    return r;
}

int HcclCommSetMemoryRange(void *comm, void *at, size_t size, size_t alignment, uint64_t flags)
{
    COMM(c, comm);
    (void)alignment, (void)flags;
    if (!rt_is_device_ptr(at) || !size)
        return hccl_fail(HCCL_E_PARA, "HcclCommSetMemoryRange: not device memory");
    struct hccl_range *r = malloc(sizeof *r);
    if (!r) return hccl_fail(HCCL_E_MEMORY, "HcclCommSetMemoryRange: no memory");
    pthread_mutex_lock(&lock);
    *r = (struct hccl_range){at, size, c->ranges};
    c->ranges = r;
    pthread_mutex_unlock(&lock);
    return HCCL_SUCCESS;
}

int HcclCommUnsetMemoryRange(void *comm, void *at)
{
    COMM(c, comm);
    pthread_mutex_lock(&lock);
    struct hccl_range **r = find_range(c, at, 1), *gone = *r;
    if (gone) *r = gone->next;
    pthread_mutex_unlock(&lock);
    free(gone);
    return gone ? HCCL_SUCCESS : hccl_fail(HCCL_E_PARA, "HcclCommUnsetMemoryRange: no such range");
}

static int in_a_range(struct hccl_comm *c, void *at, size_t size, const char *function)
{
    pthread_mutex_lock(&lock);
    bool known = *find_range(c, at, size) != NULL;
    pthread_mutex_unlock(&lock);
    return known ? HCCL_SUCCESS
                 : hccl_fail(HCCL_E_PARA, "%s: %p lies in no range that was set", function, at);
}

int HcclCommActivateCommMemory(void *comm, void *at, size_t size, size_t offset, void *handle, uint64_t flags)
{
    COMM(c, comm);
    (void)offset, (void)handle, (void)flags;
    return in_a_range(c, at, size, __func__);
}

int HcclCommDeactivateCommMemory(void *comm, void *at)
{
    COMM(c, comm);
    return in_a_range(c, at, 1, __func__);
}
