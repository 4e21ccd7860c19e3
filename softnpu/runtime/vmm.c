/* vmm.c - reserved addresses, physical memory, and mapping one onto the other, in steps of 2 MiB.
 *
 * Physical memory is a piece of the device's memory object, from the same heap as aclrtMalloc and counted
 * against the same capacity. Mapping shows the piece in the kernel window at the reserved address; the device
 * window never changes. */
#include "softnpu/runtime/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STEP ((uint64_t)2 << 20)
#define PHYSICAL_MAGIC 0x9473A1u

struct physical {
    uint32_t magic;
    int device;
    uint32_t generation;
    uint64_t offset, size;
    int mapped;
    int fd;    /* a memory object of its own (host memory) or another process's, -1 for the device's */
    bool host; /* the host reads and writes it at its mapped address */
};
struct mapping {
    char *at;
    uint64_t size;
    struct physical *of;
    struct mapping *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int host_mappings;
static struct rt_heap *addresses;
static struct mapping *mappings;

/* ---- addresses --------------------------------------------------------------------------------------- */

static bool open_addresses(void)
{
    if (!addresses) addresses = rt_heap_new(rt_arena_reserve_size() / STEP * STEP, STEP);
    return addresses != NULL;
}

static int64_t reserve(size_t size, size_t alignment, void *expect)
{
    uint64_t offset = (uint64_t)((char *)expect - rt_arena_reserve_base());
    if (expect && offset % STEP == 0 && offset + size <= rt_arena_reserve_size() &&
        rt_heap_take_at(addresses, offset, size))
        return (int64_t)offset;
    return rt_heap_take(addresses, size, alignment > STEP ? alignment : STEP);
}

aclError aclrtReserveMemAddress(void **dev, size_t size, size_t alignment, void *expect, uint64_t flags)
{
    (void)flags; /* page size hint */
    RT_NEED(dev && size, ACL_ERROR_INVALID_PARAM);
    RT_NEED((alignment & (alignment - 1)) == 0, ACL_ERROR_RT_PARAM_INVALID);
    struct rt_context *ctx = rt_context_current(); /* none is needed: addresses belong to the process */
    int code = rt_arena_open(ctx ? ctx->device : 0);
    if (code) return code;
    pthread_mutex_lock(&lock);
    int64_t at = open_addresses() ? reserve(size, alignment, expect) : -1;
    pthread_mutex_unlock(&lock);
    if (at < 0)
        return rt_fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                       "aclrtReserveMemAddress: no range of %zu bytes is left", size);
    *dev = rt_arena_reserve_base() + at;
    return ACL_SUCCESS;
}

aclError aclrtReleaseMemAddress(void *dev)
{
    RT_NEED(dev, ACL_ERROR_INVALID_PARAM);
    pthread_mutex_lock(&lock);
    uint64_t offset = (uint64_t)((char *)dev - rt_arena_reserve_base());
    uint64_t size = addresses && rt_is_device_ptr(dev) ? rt_heap_size(addresses, offset) : 0;
    bool busy = false;
    for (struct mapping *m = mappings; m; m = m->next)
        busy |= m->at >= (char *)dev && m->at < (char *)dev + size;
    if (size && !busy) rt_heap_give(addresses, offset);
    pthread_mutex_unlock(&lock);
    if (busy)
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtReleaseMemAddress: %p still has memory mapped", dev);
    if (!size && !rt_closing())
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtReleaseMemAddress: %p is not reserved", dev);
    return ACL_SUCCESS;
}

/* ---- physical memory --------------------------------------------------------------------------------- */

aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop, int option, size_t *granularity)
{
    (void)option;
    RT_NEED(prop && granularity, ACL_ERROR_INVALID_PARAM);
    *granularity = STEP;
    return ACL_SUCCESS;
}

/* Host memory that can be mapped as device memory can: a memory object of its own. */
static int host_memory(aclrtDrvMemHandle *handle, size_t size)
{
    uint64_t rounded = (size + STEP - 1) / STEP * STEP;
    struct physical *p = malloc(sizeof *p);
    int fd = p ? memfd_create("softnpu-host", MFD_CLOEXEC) : -1;
    if (fd < 0 || ftruncate(fd, (off_t)rounded)) {
        if (fd >= 0) close(fd);
        free(p);
        return rt_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMallocPhysical: the host has no %zu bytes left",
                       size);
    }
    *p = (struct physical){PHYSICAL_MAGIC, 0, 0, 0, rounded, 0, fd, true};
    *handle = p;
    return ACL_SUCCESS;
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp *prop,
                             uint64_t flags)
{
    (void)flags;
    RT_NEED(handle && prop && size, ACL_ERROR_INVALID_PARAM);
    if (prop->location.type == ACL_MEM_LOCATION_TYPE_HOST ||
        prop->location.type == ACL_MEM_LOCATION_TYPE_HOST_NUMA)
        return host_memory(handle, size);
    RT_NEED(prop->location.type == ACL_MEM_LOCATION_TYPE_DEVICE, ACL_ERROR_RT_PARAM_INVALID);
    RT_NEED(prop->location.id < (uint32_t)rt_device_count(), ACL_ERROR_RT_INVALID_DEVICEID);
    int device = (int)prop->location.id, code = rt_arena_open(device);
    if (code) return code;
    uint64_t rounded = (size + STEP - 1) / STEP * STEP;
    struct physical *p = malloc(sizeof *p);
    int64_t at = p ? rt_memory_take(device, rounded, STEP) : -1;
    if (at < 0) {
        free(p);
        return rt_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMallocPhysical: device %d has no %zu bytes left",
                       device, size);
    }
    *p = (struct physical){PHYSICAL_MAGIC, device, rt_memory_generation(device), (uint64_t)at, rounded, 0, -1,
                           false};
    *handle = p;
    return ACL_SUCCESS;
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle)
{
    struct physical *p = handle;
    RT_NEED(p && p->magic == PHYSICAL_MAGIC, ACL_ERROR_INVALID_PARAM);
    pthread_mutex_lock(&lock);
    bool busy = p->mapped > 0;
    pthread_mutex_unlock(&lock);
    if (busy) return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtFreePhysical: the memory is still mapped");
    if (p->fd >= 0)
        close(p->fd);
    else if (p->generation == rt_memory_generation(p->device))
        rt_memory_give(p->device, p->offset);
    p->magic = 0;
    free(p);
    return ACL_SUCCESS;
}

/* ---- mapping ----------------------------------------------------------------------------------------- */

static bool reserved(const char *at, uint64_t size)
{
    if (!addresses || !rt_is_device_ptr(at)) return false;
    uint64_t offset = (uint64_t)(at - rt_arena_reserve_base());
    int64_t start = rt_heap_find(addresses, offset);
    return start >= 0 && offset + size <= (uint64_t)start + rt_heap_size(addresses, (uint64_t)start);
}

static bool overlaps(const char *at, uint64_t size)
{
    for (struct mapping *m = mappings; m; m = m->next)
        if (at < m->at + m->size && m->at < at + size) return true;
    return false;
}

/* With the lock held. */
static int map(char *at, uint64_t size, uint64_t offset, struct physical *p)
{
    if (!reserved(at, size) || overlaps(at, size))
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMapMem: %p is not reserved or already mapped",
                       (void *)at);
    struct mapping *m = malloc(sizeof *m);
    if (!m) return rt_fail(ACL_ERROR_BAD_ALLOC, "aclrtMapMem: no memory");
    if (mmap(at + rt_kernel_delta, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
             p->fd >= 0 ? p->fd : rt_arena_fd(p->device), (off_t)(p->offset + offset)) == MAP_FAILED) {
        free(m);
        return rt_fail(ACL_ERROR_RT_INTERNAL_ERROR, "aclrtMapMem: %s", strerror(errno));
    }
    if (p->host && mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->fd,
                        (off_t)(p->offset + offset)) == MAP_FAILED) {
        free(m);
        return rt_fail(ACL_ERROR_RT_INTERNAL_ERROR, "aclrtMapMem: %s", strerror(errno));
    }
    *m = (struct mapping){at, size, p, mappings};
    mappings = m;
    p->mapped++;
    if (p->host) atomic_fetch_add(&host_mappings, 1);
    return ACL_SUCCESS;
}

aclError aclrtMapMem(void *dev, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags)
{
    struct physical *p = handle;
    RT_NEED(dev && size && p && p->magic == PHYSICAL_MAGIC, ACL_ERROR_INVALID_PARAM);
    RT_NEED(flags == 0, ACL_ERROR_RT_PARAM_INVALID);
    RT_NEED((uintptr_t)dev % STEP == 0 && offset % STEP == 0, ACL_ERROR_RT_PARAM_INVALID);
    uint64_t rounded = (size + STEP - 1) / STEP * STEP;
    RT_NEED(offset <= p->size && rounded <= p->size - offset, ACL_ERROR_RT_PARAM_INVALID);
    pthread_mutex_lock(&lock);
    int code = map(dev, rounded, offset, p);
    pthread_mutex_unlock(&lock);
    return code;
}

/* False when the kernel keeps the memory mapped: then the mapping stays on record too. */
static bool unmap(struct mapping **link)
{
    struct mapping *m = *link;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    if (mmap(m->at + rt_kernel_delta, m->size, PROT_NONE, flags, -1, 0) == MAP_FAILED) return false;
    if (m->of->host) {
        mmap(m->at, m->size, PROT_NONE, flags, -1, 0);
        atomic_fetch_sub(&host_mappings, 1);
    }
    *link = m->next;
    m->of->mapped--;
    free(m);
    return true;
}

aclError aclrtUnmapMem(void *dev)
{
    RT_NEED(dev, ACL_ERROR_INVALID_PARAM);
    pthread_mutex_lock(&lock);
    struct mapping **link = &mappings;
    while (*link && (*link)->at != dev) link = &(*link)->next;
    bool found = *link != NULL;
    bool stays = found && !unmap(link);
    pthread_mutex_unlock(&lock);
    if (stays) return rt_fail(ACL_ERROR_BAD_ALLOC, "aclrtUnmapMem: the kernel keeps %p mapped", dev);
    if (!found && !rt_closing())
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtUnmapMem: nothing is mapped at %p", dev);
    return ACL_SUCCESS;
}

/* ---- other processes' memory ------------------------------------------------------------------------- */

bool rt_vmm_place(aclrtDrvMemHandle handle, int *device, uint64_t *offset, uint64_t *size)
{
    const struct physical *p = handle;
    if (!p || p->magic != PHYSICAL_MAGIC || p->fd >= 0) return false;
    *device = p->device;
    *offset = p->offset;
    *size = p->size;
    return true;
}

int rt_vmm_import(int device, int fd, uint64_t offset, uint64_t size, aclrtDrvMemHandle *handle)
{
    struct physical *p = malloc(sizeof *p);
    if (!p) {
        close(fd);
        return rt_fail(ACL_ERROR_BAD_ALLOC, "importing memory: no memory");
    }
    *p = (struct physical){PHYSICAL_MAGIC, device, rt_memory_generation(device), offset, size, 0, fd, false};
    *handle = p;
    return 0;
}

int rt_vmm_map_object(int device, int fd, uint64_t offset, uint64_t size, char **address)
{
    aclrtDrvMemHandle handle = NULL;
    int code = rt_vmm_import(device, fd, offset, size, &handle);
    if (code) return code;
    pthread_mutex_lock(&lock);
    int64_t at = open_addresses() ? reserve((size + STEP - 1) / STEP * STEP, STEP, NULL) : -1;
    code = at < 0 ? rt_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "importing memory: no addresses are left")
                  : map(rt_arena_reserve_base() + at, size, 0, handle);
    if (code && at >= 0) rt_heap_give(addresses, (uint64_t)at);
    pthread_mutex_unlock(&lock);
    if (code)
        aclrtFreePhysical(handle);
    else
        *address = rt_arena_reserve_base() + at;
    return code;
}

int rt_vmm_unmap_object(char *address)
{
    pthread_mutex_lock(&lock);
    struct mapping *m = mappings;
    while (m && m->at != address) m = m->next;
    struct physical *p = m ? m->of : NULL;
    pthread_mutex_unlock(&lock);
    if (!p) return 0; /* went with its device */
    int code = aclrtUnmapMem(address);
    if (!code) code = aclrtReleaseMemAddress(address);
    return code ? code : aclrtFreePhysical(p);
}

bool rt_vmm_is_host(const void *address)
{
    if (!atomic_load_explicit(&host_mappings, memory_order_relaxed)) return false;
    bool host = false;
    pthread_mutex_lock(&lock);
    for (struct mapping *m = mappings; m && !host; m = m->next)
        host = m->of->host && (const char *)address >= m->at && (const char *)address < m->at + m->size;
    pthread_mutex_unlock(&lock);
    return host;
}

bool rt_vmm_holds(const void *address, uint64_t size)
{
    const char *at = address, *end = at + size;
    pthread_mutex_lock(&lock);
    for (struct mapping *m = mappings; m && at < end;) {
        bool inside = at >= m->at && at < m->at + m->size;
        if (inside) at = m->at + m->size;
        m = inside ? mappings : m->next; /* the next piece may stand anywhere in the list */
    }
    pthread_mutex_unlock(&lock);
    return at >= end;
}

int rt_vmm_device(const void *address)
{
    int device = -1;
    pthread_mutex_lock(&lock);
    for (struct mapping *m = mappings; m && device < 0; m = m->next)
        if ((const char *)address >= m->at && (const char *)address < m->at + m->size) device = m->of->device;
    pthread_mutex_unlock(&lock);
    return device;
}

/* The device's mappings end with it; handles and reserved ranges stay valid objects for a late free. */
void rt_vmm_reset(int device)
{
    pthread_mutex_lock(&lock);
    for (struct mapping **link = &mappings; *link;) {
        if ((*link)->of->host || (*link)->of->device != device || !unmap(link)) link = &(*link)->next;
    }
    pthread_mutex_unlock(&lock);
}
