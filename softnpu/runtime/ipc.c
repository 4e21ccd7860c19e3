/* ipc.c - the table of exported memory and events, and opening another process's. */
#include "softnpu/runtime/ipc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

enum { NMEMORY = 1024, NEVENT = 4096, NPIDS = 64 };

struct memory_slot {
    atomic_uint nonce; /* 0: free */
    int device;
    uint64_t offset, size; /* in the device's memory object */
    bool anybody;
    uint32_t npids;
    int32_t pid[NPIDS];
};
struct event_slot {
    atomic_uint nonce;
    atomic_int users;
    struct rt_event_state state;
};
struct table {
    struct memory_slot memory[NMEMORY];
    struct event_slot event[NEVENT];
};

/* Another process's table, mapped for good: event states stay valid. */
struct peer {
    int pid;
    struct table *table;
    struct peer *next;
};
struct import {
    char key[IPC_KEY_SIZE];
    char *address; /* what the program got */
    int users;
    struct import *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct table *own;
static int own_pid;
static struct peer *peers;
static struct import *imports;

/* ---- tables ------------------------------------------------------------------------------------------ */

static struct table *map_table(int fd)
{
    void *p = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* With the lock held. A forked child has a table of its own: the parent's keys are not its. */
static struct table *own_table(void)
{
    if (own && own_pid == (int)getpid()) return own;
    int fd = memfd_create("softnpu-ipc", MFD_CLOEXEC); /* stays open: other processes find it in /proc */
    if (fd < 0 || ftruncate(fd, sizeof(struct table)) || !(own = map_table(fd))) {
        if (fd >= 0) close(fd);
        return NULL;
    }
    own_pid = (int)getpid();
    return own;
}

/* The newest is meant: a forked child also holds its parent's. */
int rt_open_object(int pid, const char *name)
{
    char folder[64], path[352], link[300], wanted[64];
    snprintf(folder, sizeof folder, "/proc/%d/fd", pid);
    size_t n = (size_t)snprintf(wanted, sizeof wanted, "/memfd:%s (deleted)", name);
    DIR *d = opendir(folder);
    int best = -1;
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        ssize_t got = readlink(path, link, sizeof link);
        if (got == (ssize_t)n && !memcmp(link, wanted, n) && atoi(e->d_name) > best) best = atoi(e->d_name);
    }
    if (d) closedir(d);
    if (best < 0) return -1;
    snprintf(path, sizeof path, "%s/%d", folder, best);
    return open(path, O_RDWR | O_CLOEXEC);
}

static struct table *table_of(int pid)
{
    if (pid == (int)getpid()) return own_table();
    for (struct peer *p = peers; p; p = p->next)
        if (p->pid == pid) return p->table;
    int fd = rt_open_object(pid, "softnpu-ipc");
    struct table *t = fd < 0 ? NULL : map_table(fd);
    if (fd >= 0) close(fd);
    struct peer *p = t ? malloc(sizeof *p) : NULL;
    if (!p) return NULL;
    *p = (struct peer){pid, t, peers};
    peers = p;
    return t;
}

static uint32_t new_nonce(void)
{
    uint32_t n = 0;
    while (!n)
        if (getrandom(&n, sizeof n, 0) != sizeof n) n = (uint32_t)rt_now_ns() | 1;
    return n;
}

/* ---- keys -------------------------------------------------------------------------------------------- */

struct key {
    int pid;
    uint32_t slot, nonce;
};

static void write_key(char *text, size_t size, struct key k)
{
    memset(text, 0, size);
    snprintf(text, size, "softnpu-%08x-%04x-%08x", (unsigned)k.pid, k.slot, k.nonce);
}

static bool read_key(const char *text, struct key *k)
{
    char copy[IPC_EVENT_HANDLE_SIZE] = "";
    unsigned pid;
    snprintf(copy, sizeof copy, "%.*s", (int)sizeof copy - 1, text); /* keys from elsewhere may be shorter */
    if (sscanf(copy, "softnpu-%8x-%4x-%8x", &pid, &k->slot, &k->nonce) != 3 || !k->nonce) return false;
    k->pid = (int)pid;
    return true;
}

static uint64_t pack(struct key k)
{
    return (uint64_t)(uint32_t)k.pid << 42 | (uint64_t)k.slot << 32 | k.nonce;
}

static struct key unpack(uint64_t h)
{
    return (struct key){(int)(h >> 42), (uint32_t)(h >> 32) & (NMEMORY - 1), (uint32_t)h};
}

/* ---- exporting memory -------------------------------------------------------------------------------- */

/* With the lock held. */
static struct memory_slot *find_slot(struct key k)
{
    struct table *t = k.slot < NMEMORY ? table_of(k.pid) : NULL;
    return t && atomic_load(&t->memory[k.slot].nonce) == k.nonce ? &t->memory[k.slot] : NULL;
}

static int export_piece(int device, uint64_t offset, uint64_t size, bool anybody, struct key *k)
{
    int code = ACL_ERROR_RT_INTERNAL_ERROR;
    pthread_mutex_lock(&lock);
    struct table *t = own_table();
    for (uint32_t i = 0; t && i < NMEMORY; i++) {
        struct memory_slot *s = &t->memory[i];
        if (atomic_load(&s->nonce)) continue;
        s->device = device;
        s->offset = offset;
        s->size = size;
        s->anybody = anybody;
        s->npids = 0;
        *k = (struct key){(int)getpid(), i, new_nonce()};
        atomic_store(&s->nonce, k->nonce);
        code = 0;
        break;
    }
    pthread_mutex_unlock(&lock);
    return code ? rt_fail(code, "exporting memory: %s",
                          t ? "1024 pieces are exported already" : strerror(errno))
                : 0;
}

static int allow(struct key k, const int32_t *pid, size_t n, const char *function)
{
    pthread_mutex_lock(&lock);
    struct memory_slot *s = k.pid == (int)getpid() ? find_slot(k) : NULL;
    bool room = s && s->npids + n <= NPIDS;
    if (room) {
        memcpy(s->pid + s->npids, pid, n * sizeof *pid);
        s->npids += (uint32_t)n;
    }
    pthread_mutex_unlock(&lock);
    if (!s) return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "%s: this process did not export the key", function);
    return room ? 0 : rt_fail(ACL_ERROR_RT_PARAM_INVALID, "%s: more than %d processes", function, NPIDS);
}

aclError aclrtIpcMemGetExportKey(void *dev, size_t size, char *key, size_t len, uint64_t flags)
{
    RT_NEED(dev && size && key, ACL_ERROR_INVALID_PARAM);
    RT_NEED(len == IPC_KEY_SIZE && flags <= ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
            ACL_ERROR_RT_PARAM_INVALID);
    int device = rt_arena_device(dev);
    uint64_t offset = device < 0 ? 0 : (uint64_t)((char *)dev - rt_arena_base(device));
    if (device < 0 || !rt_memory_holds(device, offset, size))
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %p is not %zu bytes of memory from aclrtMalloc",
                       __func__, dev, size);
    struct key k;
    int code = export_piece(device, offset, size, flags != 0, &k);
    if (!code) write_key(key, len, k);
    return code;
}

aclError aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num)
{
    struct key k;
    RT_NEED(key && pid && num && read_key(key, &k), ACL_ERROR_INVALID_PARAM);
    return allow(k, pid, num, __func__);
}

/* ---- importing memory -------------------------------------------------------------------------------- */

static bool may_open(const struct memory_slot *s)
{
    bool yes = s->anybody;
    for (uint32_t i = 0; i < s->npids; i++) yes |= s->pid[i] == (int32_t)getpid();
    return yes;
}

/* With the lock held: copies the slot and opens the memory object it lies in. */
static int open_slot(struct key k, struct memory_slot *copy, int *fd, const char *function)
{
    struct memory_slot *s = find_slot(k);
    if (!s)
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID,
                       "%s: nothing is exported under this key, or the process that did has ended", function);
    if (!may_open(s))
        return rt_fail(ACL_ERROR_RT_NO_PERMISSION, "%s: process %d is not among those that may open the key",
                       function, (int)getpid());
    char name[32];
    snprintf(name, sizeof name, "softnpu-device-%d", s->device);
    *fd = k.pid == (int)getpid() ? dup(rt_arena_fd(s->device)) : rt_open_object(k.pid, name);
    if (*fd < 0)
        return rt_fail(ACL_ERROR_RT_INTERNAL_ERROR, "%s: opening the memory of process %d: %s", function,
                       k.pid, strerror(errno));
    memcpy(copy, s, sizeof *copy);
    return 0;
}

static struct import *find_import(const char *key)
{
    struct import *i = imports;
    while (i && strncmp(i->key, key, IPC_KEY_SIZE - 1)) i = i->next;
    return i;
}

static int import_key(struct key k, const char *key, char **address)
{
    struct import *i = find_import(key);
    if (i) {
        i->users++;
        *address = i->address;
        return 0;
    }
    struct memory_slot s;
    int fd, code = open_slot(k, &s, &fd, "aclrtIpcMemImportByKey");
    if (code) return code;
    struct rt_context *ctx = rt_context_current();
    i = calloc(1, sizeof *i);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), before = s.offset % page;
    code = i ? rt_vmm_map_object(ctx ? ctx->device : 0, fd, s.offset - before, before + s.size, &i->address)
             : rt_fail(ACL_ERROR_BAD_ALLOC, "aclrtIpcMemImportByKey: no memory");
    if (code) {
        free(i);
        return code;
    }
    i->address += before;
    strncpy(i->key, key, IPC_KEY_SIZE - 1);
    i->users = 1;
    i->next = imports;
    imports = i;
    *address = i->address;
    return 0;
}

aclError aclrtIpcMemImportByKey(void **dev, const char *key, uint64_t flags)
{
    struct key k;
    RT_NEED(dev && key && read_key(key, &k), ACL_ERROR_INVALID_PARAM);
    RT_NEED(flags <= ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS, ACL_ERROR_RT_PARAM_INVALID);
    RT_NEED_CONTEXT(ctx);
    int code = rt_arena_open(ctx->device);
    if (code) return code;
    char *address = NULL;
    pthread_mutex_lock(&lock);
    code = import_key(k, key, &address);
    pthread_mutex_unlock(&lock);
    if (!code) *dev = address;
    return code;
}

/* Takes the import off the list when its last user goes; the address to unmap, or NULL. */
static char *drop_import(struct import *i)
{
    if (--i->users) return NULL;
    struct import **link = &imports;
    while (*link != i) link = &(*link)->next;
    *link = i->next;
    char *address = i->address;
    free(i);
    return address;
}

aclError aclrtIpcMemClose(const char *key)
{
    struct key k;
    RT_NEED(key && read_key(key, &k), ACL_ERROR_INVALID_PARAM);
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    pthread_mutex_lock(&lock);
    struct import *i = find_import(key);
    char *gone = i ? drop_import(i) : NULL;
    struct memory_slot *s = !i && k.pid == (int)getpid() ? find_slot(k) : NULL;
    if (s) atomic_store(&s->nonce, 0);
    pthread_mutex_unlock(&lock);
    if (gone) return rt_vmm_unmap_object(gone - (uintptr_t)gone % page);
    return i || s || rt_closing()
               ? ACL_SUCCESS
               : rt_fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtIpcMemClose: the key is not open");
}

/* ---- shareable handles of physical memory ------------------------------------------------------------ */

aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, int handleType, uint64_t flags,
                                         uint64_t *shareableHandle)
{
    RT_NEED(handle && shareableHandle, ACL_ERROR_INVALID_PARAM);
    RT_NEED(handleType == 0 && flags <= ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
            ACL_ERROR_RT_PARAM_INVALID);
    int device;
    uint64_t offset, size;
    if (!rt_vmm_place(handle, &device, &offset, &size))
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "%s: not physical memory of this process", __func__);
    struct key k;
    int code = export_piece(device, offset, size, flags != 0, &k);
    if (!code) *shareableHandle = pack(k);
    return code;
}

aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid, size_t num)
{
    RT_NEED(pid && num, ACL_ERROR_INVALID_PARAM);
    return allow(unpack(shareableHandle), pid, num, __func__);
}

aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t device,
                                           aclrtDrvMemHandle *handle)
{
    RT_NEED(handle, ACL_ERROR_INVALID_PARAM);
    RT_NEED(device >= 0 && device < rt_device_count(), ACL_ERROR_RT_INVALID_DEVICEID);
    struct memory_slot s;
    int fd, code = rt_arena_open(device);
    if (code) return code;
    pthread_mutex_lock(&lock);
    code = open_slot(unpack(shareableHandle), &s, &fd, __func__);
    pthread_mutex_unlock(&lock);
    return code ? code : rt_vmm_import(device, fd, s.offset, s.size, handle);
}

/* ---- events ------------------------------------------------------------------------------------------ */

struct rt_event_state *rt_ipc_event_share(const struct rt_event_state *state, char key[IPC_EVENT_HANDLE_SIZE])
{
    struct rt_event_state *shared = NULL;
    pthread_mutex_lock(&lock);
    struct table *t = own_table();
    for (uint32_t i = 0; t && !shared && i < NEVENT; i++) {
        struct event_slot *s = &t->event[i];
        if (atomic_load(&s->nonce) || atomic_load(&s->users)) continue;
        struct key k = {(int)getpid(), i, new_nonce()};
        atomic_store(&s->users, 1);
        atomic_store(&s->state.recorded, atomic_load(&state->recorded));
        atomic_store(&s->state.done, atomic_load(&state->done));
        atomic_store(&s->state.time_ns, atomic_load(&state->time_ns));
        atomic_store(&s->nonce, k.nonce);
        write_key(key, IPC_EVENT_HANDLE_SIZE, k);
        shared = &s->state;
    }
    pthread_mutex_unlock(&lock);
    if (!shared) rt_fail(ACL_ERROR_RT_INTERNAL_ERROR, "sharing an event: no slot is free");
    return shared;
}

struct rt_event_state *rt_ipc_event_open(const char key[IPC_EVENT_HANDLE_SIZE], int *code)
{
    struct key k;
    struct event_slot *s = NULL;
    pthread_mutex_lock(&lock);
    struct table *t = read_key(key, &k) && k.slot < NEVENT ? table_of(k.pid) : NULL;
    if (t && atomic_load(&t->event[k.slot].nonce) == k.nonce) s = &t->event[k.slot];
    if (s) atomic_fetch_add(&s->users, 1);
    pthread_mutex_unlock(&lock);
    *code = s ? 0
              : rt_fail(ACL_ERROR_RT_PARAM_INVALID,
                        "aclrtIpcOpenEventHandle: no such event, or the process that made it has ended");
    return s ? &s->state : NULL;
}

/* The slot is free again when its maker and all who opened it have closed it. */
void rt_ipc_event_close(struct rt_event_state *state)
{
    struct event_slot *s = (struct event_slot *)((char *)state - offsetof(struct event_slot, state));
    if (atomic_fetch_sub(&s->users, 1) == 1) atomic_store(&s->nonce, 0);
}
