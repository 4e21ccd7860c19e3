/* arena.c - the device window and the kernel window, and the memory object behind each device.
 *
 * Two ranges of equal size are reserved once. The first, the device window, stays without access for ever:
 * its addresses are what the host is given. The second, the kernel window, shows the memory objects. A device
 * address plus rt_kernel_delta is its kernel address. Each window holds the devices' heaps, then the range
 * that aclrtReserveMemAddress hands out:
 *
 *     | device 0 heap | device 1 heap | ... | reserved addresses ... |
 */
#include "softnpu/runtime/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GIB ((uint64_t)1 << 30)

intptr_t rt_kernel_delta;

static char *window; /* device window */
static uint64_t window_size;
static uint64_t heap_span; /* addresses per device */
static int memory_fd[RT_MAX_DEVICES];
static atomic_bool opened[RT_MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool rt_is_device_ptr(const void *p)
{
    return (uintptr_t)p - (uintptr_t)window < window_size;
}
bool rt_arena_is_open(int device)
{
    return device >= 0 && device < RT_MAX_DEVICES && atomic_load(&opened[device]);
}
int rt_arena_fd(int device)
{
    return memory_fd[device];
}
char *rt_arena_base(int device)
{
    return window + (uint64_t)device * heap_span;
}
uint64_t rt_arena_span(int device)
{
    return rt_arena_is_open(device) ? heap_span : 0;
}
char *rt_arena_reserve_base(void)
{
    return rt_arena_base(rt_device_count());
}
uint64_t rt_arena_reserve_size(void)
{
    return window_size - (uint64_t)rt_device_count() * heap_span;
}

int rt_arena_device(const void *p)
{
    if (!rt_is_device_ptr(p)) return -1;
    uint64_t d = (uint64_t)((const char *)p - window) / heap_span;
    return d < (uint64_t)rt_device_count() ? (int)d : -1;
}

/* Mappings are made in steps of 2 MiB, so both windows start at one: the kernel promises page alignment only.
 */
enum { WINDOW_ALIGN = 2 << 20 };

static char *reserve(uint64_t size)
{
    uint64_t whole = size + WINDOW_ALIGN;
    char *p = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    uint64_t before = -(uintptr_t)p % WINDOW_ALIGN;
    if (before) munmap(p, before);
    munmap(p + before + size, WINDOW_ALIGN - before);
    return p + before;
}

static bool reserve_windows(uint64_t size)
{
    char *device = reserve(size);
    char *kernel = device ? reserve(size) : NULL;
    if (!kernel) {
        if (device) munmap(device, size);
        return false;
    }
    window = device;
    window_size = size;
    rt_kernel_delta = (intptr_t)kernel - (intptr_t)device;
    return true;
}

/* As much address space as the machine gives, halving from 8 TiB (or SOFTNPU_ADDRESS_GIB, for emulators that
 * keep a record of every reserved page); less only costs room for expandable segments. */
static int open_windows(void)
{
    if (window) return 0;
    uint64_t devices = (uint64_t)rt_device_count();
    for (uint64_t size = (uint64_t)rt_settings()->address_gib * GIB; size >= (devices + 1) * RT_CAPACITY;
         size /= 2) {
        /* Twice the capacity in addresses per device: fragmentation then costs addresses, not memory. */
        heap_span = size >= 4 * devices * RT_CAPACITY ? 2 * RT_CAPACITY : RT_CAPACITY;
        if (reserve_windows(size)) return 0;
    }
    return rt_fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                   "no address space for %d devices of %llu GiB: lower SOFTNPU_DEVICES", (int)devices,
                   (unsigned long long)(RT_CAPACITY / GIB));
}

static int open_memory(int device)
{
    char name[32]; /* other processes look for it (ipc.c) */
    snprintf(name, sizeof name, "softnpu-device-%d", device);
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0) return rt_fail(ACL_ERROR_RT_INTERNAL_ERROR, "memfd_create: %s", strerror(errno));
    char *at = rt_arena_base(device) + rt_kernel_delta;
    if (ftruncate(fd, (off_t)heap_span) ||
        mmap(at, heap_span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0) ==
            MAP_FAILED) {
        int e = errno;
        close(fd);
        return rt_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "mapping device memory: %s", strerror(e));
    }
    madvise(at, heap_span, MADV_HUGEPAGE); /* a wish: honoured where shmem_enabled says "advise" */
    memory_fd[device] = fd;
    atomic_store(&opened[device], true);
    return 0;
}

int rt_arena_open(int device)
{
    if (rt_arena_is_open(device)) return 0;
    pthread_mutex_lock(&lock);
    int code = open_windows();
    if (!code && !rt_arena_is_open(device)) code = open_memory(device);
    pthread_mutex_unlock(&lock);
    return code;
}

void rt_arena_discard(int device, uint64_t offset, uint64_t size)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t begin = (offset + page - 1) / page * page;
    uint64_t end = (offset + size) / page * page;
    if (begin < end)
        fallocate(memory_fd[device], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)begin,
                  (off_t)(end - begin));
}
