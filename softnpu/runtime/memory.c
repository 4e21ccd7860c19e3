/* memory.c - allocation of device and host memory. */
#include "softnpu/runtime/internal.h"
#include "softnpu/runtime/check.h"
#include "softnpu/runtime/fault.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { UNIT = 512 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rt_heap *heaps[RT_MAX_DEVICES];
static struct rt_memory_state states[RT_MAX_DEVICES];
static atomic_uint generation[RT_MAX_DEVICES];

/* With the lock held. */
static struct rt_heap *heap_of(int device)
{
    if (!heaps[device] && rt_arena_is_open(device)) {
        heaps[device] = rt_heap_new(rt_arena_span(device), UNIT);
        states[device] = (struct rt_memory_state){.total = RT_CAPACITY};
    }
    return heaps[device];
}

static void account(int device, int64_t bytes)
{
    struct rt_memory_state *s = &states[device];
    s->used += (uint64_t)bytes;
    if (s->used > s->peak) s->peak = s->used;
    rt_usage_update(device, s->used);
}

void rt_memory_state(int device, struct rt_memory_state *out)
{
    pthread_mutex_lock(&lock);
    *out = states[device];
    out->total = RT_CAPACITY;
    pthread_mutex_unlock(&lock);
}

int64_t rt_memory_take(int device, uint64_t size, uint64_t align)
{
    uint64_t rounded = (size + UNIT - 1) / UNIT * UNIT;
    pthread_mutex_lock(&lock);
    struct rt_heap *h = heap_of(device);
    int64_t at = -1;
    if (h && rounded >= size && states[device].used + rounded <= states[device].total)
        at = rt_heap_take(h, size, align);
    if (at >= 0) account(device, (int64_t)rounded);
    pthread_mutex_unlock(&lock);
    return at;
}

bool rt_memory_give(int device, uint64_t offset)
{
    pthread_mutex_lock(&lock);
    struct rt_heap *h = heap_of(device);
    uint64_t size = h ? rt_heap_size(h, offset) : 0;
    if (size) {
        char *at = rt_arena_base(device) + offset;
        rt_check_forget(at, size);
        if (rt_check_memory()) /* before somebody else may get the piece */
            memset(rt_kernel_ptr(at), CHECK_POISON, size);
        else
            rt_arena_discard(device, offset, size);
        rt_heap_give(h, offset);
        account(device, -(int64_t)size);
    }
    pthread_mutex_unlock(&lock);
    return size != 0;
}

void *rt_memory_first(int device)
{
    pthread_mutex_lock(&lock);
    struct rt_heap *h = heap_of(device);
    int64_t at = h ? rt_heap_first(h) : -1;
    pthread_mutex_unlock(&lock);
    return at < 0 ? NULL : rt_arena_base(device) + at;
}

bool rt_memory_holds(int device, uint64_t offset, uint64_t size)
{
    pthread_mutex_lock(&lock);
    struct rt_heap *h = heap_of(device);
    int64_t start = h ? rt_heap_find(h, offset) : -1;
    bool holds = start >= 0 && offset + size <= (uint64_t)start + rt_heap_size(h, (uint64_t)start);
    pthread_mutex_unlock(&lock);
    return holds;
}

uint32_t rt_memory_generation(int device)
{
    return atomic_load(&generation[device]);
}

void rt_memory_reset(int device)
{
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&generation[device], 1);
    if (heaps[device]) {
        rt_arena_discard(device, 0, rt_arena_span(device));
        rt_heap_delete(heaps[device]);
        heaps[device] = NULL;
        states[device].used = 0;
        rt_usage_update(device, 0);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- device memory ----------------------------------------------------------------------------------- */

static int out_of_memory(int device, size_t size)
{
    struct rt_memory_state s;
    rt_memory_state(device, &s);
    return rt_fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                   "device %d: cannot allocate %zu bytes: %llu of %llu bytes are in use", device, size,
                   (unsigned long long)s.used, (unsigned long long)s.total);
}

static int allocate(void **dev, size_t size, const char *function)
{
    struct rt_context *ctx = rt_context_current();
    if (!ctx)
        return rt_fail(ACL_ERROR_RT_CONTEXT_NULL, "%s: no context; call aclrtSetDevice first", function);
    if (!dev || !size) return rt_fail(ACL_ERROR_INVALID_PARAM, "%s: a null pointer or a size of 0", function);
    if (rt_fault_any() && rt_fault_match(RT_FAULT_ALLOC, NULL)) return out_of_memory(ctx->device, size);
    int64_t at = rt_memory_take(ctx->device, size, UNIT);
    if (at < 0) return out_of_memory(ctx->device, size);
    *dev = rt_arena_base(ctx->device) + at;
    return ACL_SUCCESS;
}

aclError aclrtMalloc(void **dev, size_t size, aclrtMemMallocPolicy policy)
{
    (void)policy;
    return allocate(dev, size, __func__);
}

aclError aclrtMallocAlign32(void **dev, size_t size, aclrtMemMallocPolicy policy)
{
    (void)policy;
    return allocate(dev, size, __func__);
}

aclError aclrtMallocCached(void **dev, size_t size, aclrtMemMallocPolicy policy)
{
    (void)policy;
    return allocate(dev, size, __func__);
}

aclError aclrtMallocWithCfg(void **dev, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg)
{
    (void)policy, (void)cfg;
    return allocate(dev, size, __func__);
}

/* True when a late free is of memory that went with its device. */
static bool device_is_gone(int device)
{
    int32_t active = 0;
    return rt_closing() || (!aclrtGetPrimaryCtxState(device, NULL, &active) && !active);
}

aclError aclrtFree(void *dev)
{
    RT_NEED(dev, ACL_ERROR_INVALID_PARAM);
    int device = rt_arena_device(dev);
    if (device >= 0 && rt_memory_give(device, (uint64_t)((char *)dev - rt_arena_base(device))))
        return ACL_SUCCESS;
    if (device >= 0 && device_is_gone(device)) return ACL_SUCCESS;
    return rt_fail(ACL_ERROR_RT_PARAM_INVALID,
                   "aclrtFree: %p was not allocated by aclrtMalloc or is already free", dev);
}

aclError aclrtMemFlush(void *dev, size_t size)
{
    RT_NEED(dev && size, ACL_ERROR_INVALID_PARAM);
    return ACL_SUCCESS; /* kernels and copies share one coherent view */
}

aclError aclrtMemInvalidate(void *dev, size_t size)
{
    RT_NEED(dev && size, ACL_ERROR_INVALID_PARAM);
    return ACL_SUCCESS;
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free_bytes, size_t *total)
{
    RT_NEED(free_bytes && total, ACL_ERROR_INVALID_PARAM);
    RT_NEED(attr >= ACL_DDR_MEM && attr <= ACL_HBM_MEM_P2P_HUGE1G, ACL_ERROR_RT_PARAM_INVALID);
    RT_NEED_CONTEXT(ctx);
    bool ddr = attr == ACL_DDR_MEM || (attr >= ACL_DDR_MEM_HUGE && attr <= ACL_DDR_MEM_NORMAL) ||
               attr == ACL_DDR_MEM_P2P_HUGE || attr == ACL_DDR_MEM_P2P_NORMAL;
    struct rt_memory_state s;
    rt_memory_state(ctx->device, &s);
    *total = ddr ? 0 : s.total; /* a 910B4 has HBM only */
    *free_bytes = ddr ? 0 : s.total - s.used;
    return ACL_SUCCESS;
}

aclError aclrtGetMemUsageInfo(uint32_t device, aclrtMemUsageInfo *info, size_t n, size_t *count)
{
    RT_NEED(info && n && count, ACL_ERROR_INVALID_PARAM);
    RT_NEED(device < (uint32_t)rt_device_count(), ACL_ERROR_RT_INVALID_DEVICEID);
    struct rt_memory_state s;
    rt_memory_state((int)device, &s);
    memset(info, 0, sizeof *info);
    memcpy(info->name, "APP", 4);
    info->curMemSize = s.used;
    info->memPeakSize = s.peak;
    *count = 1;
    return ACL_SUCCESS;
}

/* ---- host memory: listed, so that pinned memory can be told from other host memory ------------------- */

struct host_block {
    char *p;
    size_t size;
    bool ours; /* allocated here, not registered */
    struct host_block *next;
};
static pthread_mutex_t host_lock = PTHREAD_MUTEX_INITIALIZER;
static struct host_block *host_first;

static bool host_add(void *p, size_t size, bool ours)
{
    struct host_block *b = malloc(sizeof *b);
    if (!b) return false;
    pthread_mutex_lock(&host_lock);
    *b = (struct host_block){p, size, ours, host_first};
    host_first = b;
    pthread_mutex_unlock(&host_lock);
    return true;
}

/* Size of the block removed, 0 if there was none. */
static size_t host_remove(void *p, bool ours)
{
    size_t size = 0;
    pthread_mutex_lock(&host_lock);
    for (struct host_block **b = &host_first; *b; b = &(*b)->next) {
        if ((*b)->p != p || (*b)->ours != ours) continue;
        struct host_block *gone = *b;
        *b = gone->next;
        size = gone->size;
        free(gone);
        break;
    }
    pthread_mutex_unlock(&host_lock);
    return size;
}

static bool host_is_pinned(const void *p)
{
    pthread_mutex_lock(&host_lock);
    struct host_block *b = host_first;
    while (b && !((const char *)p >= b->p && (const char *)p < b->p + b->size)) b = b->next;
    pthread_mutex_unlock(&host_lock);
    return b != NULL;
}

aclError aclrtMallocHost(void **host, size_t size)
{
    RT_NEED(host && size, ACL_ERROR_INVALID_PARAM);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t rounded = (size + page - 1) / page * page;
    void *p = rounded < size
                  ? MAP_FAILED
                  : mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED && !host_add(p, rounded, true)) {
        munmap(p, rounded);
        p = MAP_FAILED;
    }
    if (p == MAP_FAILED)
        return rt_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMallocHost: cannot allocate %zu bytes", size);
    *host = p;
    return ACL_SUCCESS;
}

aclError aclrtMallocHostWithCfg(void **host, uint64_t size, aclrtMallocConfig *cfg)
{
    (void)cfg;
    return aclrtMallocHost(host, size);
}

aclError aclrtFreeHost(void *host)
{
    RT_NEED(host, ACL_ERROR_INVALID_PARAM);
    size_t size = host_remove(host, true);
    if (!size)
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtFreeHost: %p was not allocated by aclrtMallocHost",
                       host);
    munmap(host, size);
    return ACL_SUCCESS;
}

aclError aclrtHostRegisterV2(void *host, uint64_t size, uint32_t flag)
{
    (void)flag;
    RT_NEED(host && size && !rt_is_device_ptr(host), ACL_ERROR_RT_PARAM_INVALID);
    return host_add(host, size, false) ? ACL_SUCCESS
                                       : rt_fail(ACL_ERROR_BAD_ALLOC, "aclrtHostRegisterV2: no memory");
}

/* The mapped form wants an address at which the device reaches host memory: none exists here. */
aclError aclrtHostRegister(void *host, uint64_t size, int type, void **dev)
{
    (void)host, (void)size, (void)type, (void)dev;
    return RT_UNSUPPORTED();
}

aclError aclrtHostUnregister(void *host)
{
    RT_NEED(host, ACL_ERROR_INVALID_PARAM);
    return host_remove(host, false)
               ? ACL_SUCCESS
               : rt_fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtHostUnregister: %p is not registered", host);
}

aclError aclrtPointerGetAttributes(const void *p, aclrtPtrAttributes *attributes)
{
    RT_NEED(p && attributes, ACL_ERROR_INVALID_PARAM);
    memset(attributes, 0, sizeof *attributes);
    int device = rt_arena_device(p);
    if (device < 0 && rt_is_device_ptr(p)) device = rt_vmm_device(p);
    bool host = rt_vmm_is_host(p);
    if (rt_is_device_ptr(p) && !host) {
        attributes->location =
            (aclrtMemLocation){device < 0 ? 0 : (uint32_t)device, ACL_MEM_LOCATION_TYPE_DEVICE};
        attributes->pageSize = 2u << 20;
        return ACL_SUCCESS;
    }
    attributes->location.type =
        host || host_is_pinned(p) ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_UNREGISTERED;
    attributes->pageSize = (uint32_t)sysconf(_SC_PAGESIZE);
    return ACL_SUCCESS;
}
