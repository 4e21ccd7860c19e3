/* copy.c - copies and fills, on the calling thread or in stream order. */
#include "softnpu/runtime/internal.h"
#include "softnpu/runtime/check.h"
#include "softnpu/runtime/graph.h"

#include <stdlib.h>
#include <string.h>

/* Above SPLIT bytes a copy is shared out over the pool; up to SMALL bytes it may run on the launching thread.
 */
enum { SPLIT = 4 << 20, SMALL = 64 << 10 };

/* ---- what a copy does -------------------------------------------------------------------------------- */

struct move {
    char *dst;
    const char *src;                   /* NULL: fill with value */
    const void *given_dst, *given_src; /* as the caller knows them */
    size_t dpitch, spitch, width, height;
    int value;
};

static void row(char *dst, const char *src, int value, size_t n)
{
    /* dst is never null: checked before rt_any_ptr, whose sum the analyser takes for a possible null. */
    /* NOLINTBEGIN(clang-analyzer-core.NonNullParamChecker) */
    if (!src)
        memset(dst, value, n);
    else if (dst != src)
        memmove(dst, src, n);
    /* NOLINTEND(clang-analyzer-core.NonNullParamChecker) */
}

static void piece(void *ctx, int64_t begin, int64_t end)
{
    const struct move *m = ctx;
    row(m->dst + begin, m->src ? m->src + begin : NULL, m->value, (size_t)(end - begin));
}

static bool self_overlapping(const struct move *m)
{
    return m->src && m->dst < m->src + m->width && m->src < m->dst + m->width;
}

static void perform(const struct move *m)
{
    if (m->height == 1 && m->width > SPLIT && !self_overlapping(m)) {
        rt_pool_run((int64_t)m->width, SPLIT, piece, (void *)(uintptr_t)m);
        return;
    }
    for (size_t y = 0; y < m->height; y++)
        row(m->dst + y * m->dpitch, m->src ? m->src + y * m->spitch : NULL, m->value, m->width);
}

/* ---- in stream order --------------------------------------------------------------------------------- */

struct move_task {
    struct rt_task task;
    struct move move;
};

/* Pitched copies are looked at as one piece from the first byte to the last. */
static int check_side(const char *what, const char *argument, const void *given, size_t pitch,
                      const struct move *m, bool writes)
{
    uint64_t bytes = (m->height - 1) * pitch + m->width;
    if (!given || !rt_is_device_ptr(given)) return 0;
    rt_check_access(what, argument, given, bytes, writes);
    return rt_check_live(what, argument, given, bytes);
}

static int check_move(const struct move *m)
{
    const char *what = m->src ? "copy" : "fill";
    int code = check_side(what, "source", m->given_src, m->spitch, m, false);
    return code ? code : check_side(what, "destination", m->given_dst, m->dpitch, m, true);
}

static int run_move(struct rt_task *t)
{
    const struct move *m = &((struct move_task *)t)->move;
    int code = __builtin_expect(rt_check_any(), 0) ? check_move(m) : 0;
    if (!code) perform(m);
    return code;
}

static void drop_move(struct rt_task *t)
{
    free(t);
}

static const struct rt_task_kind copy_kind = {.name = "copy", .run = run_move, .drop = drop_move};
static const struct rt_task_kind fill_kind = {.name = "fill", .run = run_move, .drop = drop_move};

static int launch(const struct move *m, aclrtStream stream, const char *function)
{
    int code;
    struct rt_stream *s = rt_stream_of(stream, function, &code);
    if (!s) return code;
    if (m->width * m->height <= SMALL && rt_stream_enter(s)) {
        perform(m);
        return rt_stream_leave(s, 0);
    }
    struct move_task *t = malloc(sizeof *t);
    if (!t) return rt_fail(ACL_ERROR_BAD_ALLOC, "%s: no memory", function);
    *t = (struct move_task){{.kind = m->src ? &copy_kind : &fill_kind}, *m};
    return rt_stream_queue(s, &t->task, false);
}

/* ---- checks ------------------------------------------------------------------------------------------ */

enum side { HOST, DEVICE, ANY };
static const struct {
    enum side dst, src;
    const char *name;
} kinds[] = {
    [ACL_MEMCPY_HOST_TO_HOST] = {HOST, HOST, "host to host"},
    [ACL_MEMCPY_HOST_TO_DEVICE] = {DEVICE, HOST, "host to device"},
    [ACL_MEMCPY_DEVICE_TO_HOST] = {HOST, DEVICE, "device to host"},
    [ACL_MEMCPY_DEVICE_TO_DEVICE] = {DEVICE, DEVICE, "device to device"},
    [ACL_MEMCPY_DEFAULT] = {ANY, ANY, "default"},
    [ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE] = {DEVICE, HOST, "host through buffer to device"},
    [ACL_MEMCPY_INNER_DEVICE_TO_DEVICE] = {DEVICE, DEVICE, "within a device"},
    [ACL_MEMCPY_INTER_DEVICE_TO_DEVICE] = {DEVICE, DEVICE, "between devices"},
};
enum { NKINDS = sizeof kinds / sizeof *kinds };

static bool on_device(const void *p)
{
    return rt_is_device_ptr(p) && !rt_vmm_is_host(p);
}

static bool fits(const void *p, enum side side)
{
    return side == ANY || on_device(p) == (side == DEVICE);
}

static int check_kind(const void *dst, const void *src, int kind, const char *function)
{
    if (kind < 0 || kind >= NKINDS)
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "%s: unknown copy kind %d", function, kind);
    if (fits(dst, kinds[kind].dst) && fits(src, kinds[kind].src)) return 0;
    return rt_fail(ACL_ERROR_RT_PARAM_INVALID,
                   "%s: copy %s, but the destination %p is %s memory and the source %p %s memory", function,
                   kinds[kind].name, dst, on_device(dst) ? "device" : "host", src,
                   on_device(src) ? "device" : "host");
}

static int plan_copy(void *dst, size_t max, const void *src, size_t count, int kind, const char *function,
                     struct move *m)
{
    if (!dst || !src) return rt_fail(ACL_ERROR_INVALID_PARAM, "%s: a null pointer", function);
    if (count > max)
        return rt_fail(ACL_ERROR_INVALID_PARAM, "%s: %zu bytes do not fit in the destination's %zu", function,
                       count, max);
    *m = (struct move){rt_any_ptr(dst), rt_any_ptr(src), dst, src, 0, 0, count, 1, 0};
    return check_kind(dst, src, kind, function);
}

static int plan_fill(void *dst, size_t max, int value, size_t count, const char *function, struct move *m)
{
    if (!dst) return rt_fail(ACL_ERROR_INVALID_PARAM, "%s: a null pointer", function);
    if (count > max)
        return rt_fail(ACL_ERROR_INVALID_PARAM, "%s: %zu bytes do not fit in the destination's %zu", function,
                       count, max);
    *m = (struct move){rt_any_ptr(dst), NULL, dst, NULL, 0, 0, count, 1, value};
    return 0;
}

/* ---- the interface ----------------------------------------------------------------------------------- */

aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind)
{
    struct move m = {0};
    int code = plan_copy(dst, destMax, src, count, kind, __func__, &m);
    if (!code) code = rt_graph_allow(__func__);
    if (!code) perform(&m);
    return code;
}

aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream)
{
    struct move m = {0};
    int code = plan_copy(dst, destMax, src, count, kind, __func__, &m);
    return code ? code : launch(&m, stream, __func__);
}

/* The vendor's condition: with pageable host memory the call returns only after the copy. */
aclError aclrtMemcpyAsyncWithCondition(void *dst, size_t destMax, const void *src, size_t count,
                                       aclrtMemcpyKind kind, aclrtStream stream)
{
    struct move m = {0};
    int code = plan_copy(dst, destMax, src, count, kind, __func__, &m);
    if (!code) code = launch(&m, stream, __func__);
    aclrtPtrAttributes a, b;
    if (code || aclrtPointerGetAttributes(dst, &a) || aclrtPointerGetAttributes(src, &b)) return code;
    bool pageable = a.location.type == ACL_MEM_LOCATION_TYPE_UNREGISTERED ||
                    b.location.type == ACL_MEM_LOCATION_TYPE_UNREGISTERED;
    return pageable ? rt_stream_drain(stream) : 0;
}

static int plan_2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                   int kind, const char *function, struct move *m)
{
    if (!dst || !src || !width || !height || width > dpitch || width > spitch)
        return rt_fail(ACL_ERROR_INVALID_PARAM,
                       "%s: null pointer, or rows of %zu bytes with pitches %zu and %zu", function, width,
                       dpitch, spitch);
    *m = (struct move){rt_any_ptr(dst), rt_any_ptr(src), dst, src, dpitch, spitch, width, height, 0};
    return check_kind(dst, src, kind, function);
}

aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind)
{
    struct move m = {0};
    int code = plan_2d(dst, dpitch, src, spitch, width, height, kind, __func__, &m);
    if (!code) code = rt_graph_allow(__func__);
    if (!code) perform(&m);
    return code;
}

aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                            size_t height, aclrtMemcpyKind kind, aclrtStream stream)
{
    struct move m = {0};
    int code = plan_2d(dst, dpitch, src, spitch, width, height, kind, __func__, &m);
    return code ? code : launch(&m, stream, __func__);
}

aclError aclrtMemcpyBatch(void **dsts, size_t *destMax, void **srcs, size_t *sizes, size_t n,
                          aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t nattrs, size_t *failed)
{
    (void)attrs, (void)attrsIndexes, (void)nattrs; /* addresses say where they are */
    RT_NEED(dsts && destMax && srcs && sizes && n, ACL_ERROR_INVALID_PARAM);
    for (size_t i = 0; i < n; i++) {
        int code = aclrtMemcpy(dsts[i], destMax[i], srcs[i], sizes[i], ACL_MEMCPY_DEFAULT);
        if (code && failed) *failed = i;
        if (code) return code;
    }
    return ACL_SUCCESS;
}

aclError aclrtMemcpyBatchAsync(void **dsts, size_t *destMax, void **srcs, size_t *sizes, size_t n,
                               aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t nattrs,
                               size_t *failed, aclrtStream stream)
{
    (void)attrs, (void)attrsIndexes, (void)nattrs;
    RT_NEED(dsts && destMax && srcs && sizes && n, ACL_ERROR_INVALID_PARAM);
    for (size_t i = 0; i < n; i++) {
        int code = aclrtMemcpyAsync(dsts[i], destMax[i], srcs[i], sizes[i], ACL_MEMCPY_DEFAULT, stream);
        if (code && failed) *failed = i;
        if (code) return code;
    }
    return ACL_SUCCESS;
}

aclError aclrtMemset(void *dst, size_t destMax, int32_t value, size_t count)
{
    struct move m = {0};
    int code = plan_fill(dst, destMax, value, count, __func__, &m);
    if (!code) code = rt_graph_allow(__func__);
    if (!code) perform(&m);
    return code;
}

aclError aclrtMemsetAsync(void *dst, size_t destMax, int32_t value, size_t count, aclrtStream stream)
{
    struct move m = {0};
    int code = plan_fill(dst, destMax, value, count, __func__, &m);
    return code ? code : launch(&m, stream, __func__);
}

aclError aclrtCmoAsync(void *src, size_t size, int type, aclrtStream stream)
{
    (void)type;
    RT_NEED(src && size, ACL_ERROR_INVALID_PARAM);
    int code = 0;
    return rt_stream_of(stream, __func__, &code) ? ACL_SUCCESS : code;
}
