/* profile.c - the profiler's interface: tasks and marks are recorded, and written where `msprof` looks for
 * them.
 *
 *     PATH/PROF_000001_TIME_LETTERS/host/start_info            when it began, on two clocks
 *     .../host/data/msprof_TIME.json, op_summary_TIME.csv      the trace and the kernels
 *     .../device_N/                                             for each device
 *
 * `msprof --export=on` (tools/msprof.c) puts the two files into mindstudio_profiler_output, from where the
 * plugin's own parser reads them. Facts: that parser (torch_npu/profiler/analysis). */
#include "softnpu/runtime/profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 96, PID_HOST = 1000, PID_DEVICE = 2000, MAX_RECORDS = 4000000 };

struct record {
    char name[NAME_MAX_BYTES];
    const char *kind; /* of the task, or "mark", "range" */
    int device;
    uint32_t stream;
    uint32_t thread;
    uint64_t launched, start, end;
};

atomic_bool rt_profile_on;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct record *records;
static size_t nrecords, capacity, lost;
static char folder[2048];
static uint64_t begun_clock, begun_time; /* ns: monotonic raw, and since the epoch */
static bool initialised;
static uint64_t devices_seen;

uint64_t rt_profile_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- recording --------------------------------------------------------------------------------------- */

static void keep(const struct record *r)
{
    pthread_mutex_lock(&lock);
    if (nrecords == capacity && capacity < MAX_RECORDS) {
        size_t more = capacity ? 2 * capacity : 4096;
        struct record *p = realloc(records, more * sizeof *p);
        if (p) {
            records = p;
            capacity = more;
        }
    }
    if (nrecords < capacity) {
        records[nrecords++] = *r;
        devices_seen |= 1ull << r->device;
    } else
        lost++;
    pthread_mutex_unlock(&lock);
}

void rt_profile_task(const struct rt_stream *s, const struct rt_task *task, uint64_t launched, uint64_t start,
                     uint64_t end)
{
    const struct rt_task_kind *k = task->kind;
    struct record r = {.kind = k->name, .device = rt_stream_device(s), .stream = rt_stream_number(s)};
    snprintf(r.name, sizeof r.name, "%s", k->label ? k->label(task) : k->name);
    r.thread = (uint32_t)syscall(SYS_gettid);
    r.launched = launched ? launched : start;
    r.start = start;
    r.end = end > start ? end : start + 1;
    keep(&r);
}

static void mark(const char *text, const char *kind, uint64_t start, uint64_t end)
{
    if (!atomic_load_explicit(&rt_profile_on, memory_order_relaxed) || !text) return;
    struct rt_context *ctx = rt_context_current();
    struct record r = {
        .kind = kind, .device = ctx ? ctx->device : 0, .launched = start, .start = start, .end = end};
    size_t n = 0;
    for (; *text && n + 1 < sizeof r.name; text++) /* what JSON would have to escape does not get in */
        if ((unsigned char)*text >= 0x20 && *text != '"' && *text != '\\') r.name[n++] = *text;
    r.thread = (uint32_t)syscall(SYS_gettid);
    keep(&r);
}

/* ---- writing ----------------------------------------------------------------------------------------- */

static bool is_mark(const struct record *r)
{
    return !strcmp(r->kind, "mark") || !strcmp(r->kind, "range");
}

/* aclnnAdd is of type Add; other tasks are of their own. */
static const char *type_of(const struct record *r)
{
    return !strncmp(r->name, "aclnn", 5) ? r->name + 5 : r->name;
}

/* Microseconds since the epoch, as text with nanoseconds. */
static const char *stamp(uint64_t clock, char out[40])
{
    uint64_t t = clock - begun_clock + begun_time;
    snprintf(out, 40, "%llu.%03llu", (unsigned long long)(t / 1000), (unsigned long long)(t % 1000));
    return out;
}

static void print_process(FILE *f, int pid, const char *name, bool first)
{
    fprintf(f,
            "%s\n{\"name\": \"process_name\", \"pid\": %d, \"tid\": 0, \"args\": {\"name\": \"%s\"}, \"ph\": "
            "\"M\"}",
            first ? "" : ",", pid, name);
}

static void print_kernel(FILE *f, const struct record *r, size_t id)
{
    char start[40], launched[40];
    stamp(r->start, start);
    stamp(r->launched, launched);
    double us = (double)(r->end - r->start) / 1000;
    fprintf(f,
            ",\n{\"name\": \"%s\", \"pid\": %d, \"tid\": %u, \"ts\": \"%s\", \"dur\": %.3f, \"ph\": \"X\", "
            "\"args\": "
            "{\"Task Type\": \"%s\", \"Stream Id\": %u, \"Task Id\": %zu}}",
            r->name, PID_DEVICE + r->device, r->stream, start, us, r->kind, r->stream, id);
    fprintf(f,
            ",\n{\"name\": \"Node@launch\", \"pid\": %d, \"tid\": %u, \"ts\": \"%s\", \"dur\": 1.000, "
            "\"ph\": \"X\", "
            "\"args\": {\"item_id\": \"%s\", \"connection_id\": %zu}}",
            PID_HOST, r->thread, launched, r->name, id);
    fprintf(f,
            ",\n{\"name\": \"HostToDevice%zu\", \"ph\": \"s\", \"cat\": \"HostToDevice\", \"id\": \"%zu\", "
            "\"pid\": %d, "
            "\"tid\": %u, \"ts\": \"%s\"}",
            id, id, PID_HOST, r->thread, launched);
    fprintf(f,
            ",\n{\"name\": \"HostToDevice%zu\", \"ph\": \"f\", \"bp\": \"e\", \"cat\": \"HostToDevice\", "
            "\"id\": \"%zu\", "
            "\"pid\": %d, \"tid\": %u, \"ts\": \"%s\"}",
            id, id, PID_DEVICE + r->device, r->stream, start);
}

static void print_mark(FILE *f, const struct record *r)
{
    char start[40];
    fprintf(f,
            ",\n{\"name\": \"%s\", \"pid\": %d, \"tid\": %u, \"ts\": \"%s\", \"dur\": %.3f, \"ph\": \"X\", "
            "\"args\": "
            "{\"event_type\": \"%s\"}}",
            r->name, PID_HOST, r->thread, stamp(r->start, start), (double)(r->end - r->start) / 1000,
            r->kind);
}

static void print_timeline(FILE *f)
{
    fputc('[', f);
    print_process(f, PID_HOST, "CANN", true);
    for (int d = 0; d < RT_MAX_DEVICES; d++)
        if (devices_seen >> d & 1) print_process(f, PID_DEVICE + d, "Ascend Hardware", false);
    for (size_t i = 0; i < nrecords; i++)
        is_mark(&records[i]) ? print_mark(f, &records[i]) : print_kernel(f, &records[i], i);
    fputs("\n]\n", f);
}

static void print_summary(FILE *f)
{
    char start[40];
    fputs("Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),Task "
          "Duration(us),Task Wait Time(us),Block Num\n",
          f);
    for (size_t i = 0; i < nrecords; i++) {
        const struct record *r = &records[i];
        if (is_mark(r)) continue;
        bool op = !strcmp(r->kind, "operator");
        fprintf(f, "%d,4294967295,%zu,%u,%s,%s,static,%s,%s,%.3f,%.3f,%d\n", r->device, i, r->stream, r->name,
                type_of(r), op ? "AI_CORE" : r->kind, stamp(r->start, start),
                (double)(r->end - r->start) / 1000, (double)(r->start - r->launched) / 1000,
                op ? rt_pool_threads() : 0);
    }
}

static int write_file(const char *name, void (*print)(FILE *f))
{
    char path[2400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "we");
    if (f) print(f);
    bool bad = !f || ferror(f);
    if (f && fclose(f)) bad = true;
    return bad ? rt_fail(ACL_ERROR_INVALID_FILE, "profiling: cannot write %s: %s", path, strerror(errno)) : 0;
}

static int make_folder(const char *name)
{
    char path[2400];
    snprintf(path, sizeof path, "%s%s", folder, name);
    if (!mkdir(path, 0750) || errno == EEXIST) return 0;
    return rt_fail(ACL_ERROR_INVALID_FILE, "profiling: cannot make %s: %s", path, strerror(errno));
}

static void print_start_info(FILE *f)
{
    fprintf(f, "{\"collectionTimeBegin\": \"%llu\", \"clockMonotonicRaw\": \"%llu\"}\n",
            (unsigned long long)(begun_time / 1000), (unsigned long long)begun_clock);
}

static int write_results(void)
{
    char json[64], csv[64];
    unsigned long long when = begun_time / 1000000;
    int code = 0;
    for (int d = 0; d < RT_MAX_DEVICES && !code; d++) {
        char name[32];
        snprintf(name, sizeof name, "/device_%d", d);
        if (devices_seen >> d & 1) code = make_folder(name);
    }
    snprintf(json, sizeof json, "host/data/msprof_%llu.json", when);
    snprintf(csv, sizeof csv, "host/data/op_summary_%llu.csv", when);
    if (!code) code = make_folder("/host/data");
    if (!code) code = write_file(json, print_timeline);
    if (!code) code = write_file(csv, print_summary);
    return code;
}

/* ---- aclprof ----------------------------------------------------------------------------------------- */

struct prof_config {
    uint64_t types;
};
typedef struct prof_config aclprofConfig;

ACL_EXPORT aclError aclprofInit(const char *path, size_t length);
ACL_EXPORT aclError aclprofFinalize(void);
ACL_EXPORT aclprofConfig *aclprofCreateConfig(uint32_t *devices, uint32_t n, int metrics, const void *events,
                                              uint64_t types);
ACL_EXPORT aclError aclprofDestroyConfig(const aclprofConfig *config);
ACL_EXPORT aclError aclprofWarmup(const aclprofConfig *config);
ACL_EXPORT aclError aclprofStart(const aclprofConfig *config);
ACL_EXPORT aclError aclprofStop(const aclprofConfig *config);
ACL_EXPORT aclError aclprofSetConfig(int type, const char *value, size_t length);
ACL_EXPORT aclError aclprofGetSupportedFeatures(size_t *size, void **data);
ACL_EXPORT aclError aclprofGetSupportedFeaturesV2(size_t *size, void **data);
ACL_EXPORT aclError aclprofRegisterDeviceCallback(void);
ACL_EXPORT aclError aclprofMarkEx(const char *text, size_t length, aclrtStream stream);

static uint64_t epoch_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* PROF_NUMBER_TIME_LETTERS, as the plugin looks for it. */
static int open_folder(const char *path, size_t length)
{
    static atomic_uint number;
    char when[32], letters[17];
    time_t now = time(NULL);
    struct tm tm;
    strftime(when, sizeof when, "%Y%m%d%H%M%S", localtime_r(&now, &tm));
    for (int i = 0; i < 16; i++) letters[i] = (char)('A' + (rt_profile_now() >> (i * 3)) % 26);
    letters[16] = 0;
    snprintf(folder, sizeof folder, "%.*s/PROF_%06u_%s%03d_%s", (int)length, path,
             atomic_fetch_add(&number, 1) + 1, when, (int)(epoch_ns() / 1000000 % 1000), letters);
    int code = make_folder("");
    return code ? code : make_folder("/host");
}

aclError aclprofInit(const char *path, size_t length)
{
    RT_NEED(path && length && length < 1024, ACL_ERROR_INVALID_PARAM);
    pthread_mutex_lock(&lock);
    int code = initialised ? rt_fail(ACL_ERROR_REPEAT_INITIALIZE, "aclprofInit: already initialised")
                           : open_folder(path, length);
    initialised = initialised || !code;
    pthread_mutex_unlock(&lock);
    return code;
}

aclError aclprofFinalize(void)
{
    pthread_mutex_lock(&lock);
    bool was = initialised;
    initialised = false;
    atomic_store(&rt_profile_on, false);
    free(records);
    records = NULL;
    nrecords = capacity = lost = 0;
    pthread_mutex_unlock(&lock);
    return was ? ACL_SUCCESS : rt_fail(ACL_ERROR_UNINITIALIZE, "aclprofFinalize: aclprofInit was not called");
}

/* Everything is recorded whatever is asked for; metrics of real cores do not exist here. */
aclprofConfig *aclprofCreateConfig(uint32_t *devices, uint32_t n, int metrics, const void *events,
                                   uint64_t types)
{
    (void)metrics, (void)events;
    for (uint32_t i = 0; devices && i < n; i++)
        if (devices[i] >= (uint32_t)rt_device_count()) {
            rt_fail(ACL_ERROR_RT_INVALID_DEVICEID, "aclprofCreateConfig: no device %u", devices[i]);
            return NULL;
        }
    aclprofConfig *c = malloc(sizeof *c);
    if (c) c->types = types;
    return c;
}

aclError aclprofDestroyConfig(const aclprofConfig *config)
{
    RT_NEED(config, ACL_ERROR_INVALID_PARAM);
    free((void *)(uintptr_t)config);
    return ACL_SUCCESS;
}

aclError aclprofWarmup(const aclprofConfig *config)
{
    RT_NEED(config, ACL_ERROR_INVALID_PARAM);
    return ACL_SUCCESS; /* recording needs no preparation */
}

aclError aclprofStart(const aclprofConfig *config)
{
    RT_NEED(config, ACL_ERROR_INVALID_PARAM);
    if (!initialised) return rt_fail(ACL_ERROR_UNINITIALIZE, "aclprofStart: aclprofInit was not called");
    pthread_mutex_lock(&lock);
    nrecords = lost = 0;
    devices_seen = 0;
    struct rt_context *ctx = rt_context_current();
    if (ctx) devices_seen |= 1ull << ctx->device;
    begun_clock = rt_profile_now();
    begun_time = epoch_ns();
    pthread_mutex_unlock(&lock);
    int code = write_file("host/start_info", print_start_info);
    if (!code) atomic_store(&rt_profile_on, true);
    return code;
}

aclError aclprofStop(const aclprofConfig *config)
{
    RT_NEED(config, ACL_ERROR_INVALID_PARAM);
    if (!atomic_exchange(&rt_profile_on, false))
        return rt_fail(ACL_ERROR_UNINITIALIZE, "aclprofStop: aclprofStart was not called");
    pthread_mutex_lock(&lock);
    int code = write_results();
    if (lost) fprintf(stderr, "softnpu: profiling: %zu records did not fit\n", lost);
    pthread_mutex_unlock(&lock);
    return code;
}

/* Sampling of the host and of interconnects: accepted, there is nothing to sample. */
aclError aclprofSetConfig(int type, const char *value, size_t length)
{
    RT_NEED(value && length && type > 0, ACL_ERROR_INVALID_PARAM);
    return ACL_SUCCESS;
}

aclError aclprofGetSupportedFeatures(size_t *size, void **data)
{
    RT_NEED(size && data, ACL_ERROR_INVALID_PARAM);
    *size = 0; /* none of the optional ones */
    *data = NULL;
    return ACL_SUCCESS;
}

aclError aclprofGetSupportedFeaturesV2(size_t *size, void **data)
{
    return aclprofGetSupportedFeatures(size, data);
}

aclError aclprofRegisterDeviceCallback(void)
{
    return ACL_SUCCESS; /* devices that are set later are recorded anyway */
}

aclError aclprofMarkEx(const char *text, size_t length, aclrtStream stream)
{
    (void)length;
    int code;
    RT_NEED(text, ACL_ERROR_INVALID_PARAM);
    if (!rt_stream_of(stream, __func__, &code)) return code;
    uint64_t now = rt_profile_now();
    mark(text, "mark", now, now + 1);
    return ACL_SUCCESS;
}

/* ---- steps ------------------------------------------------------------------------------------------- */

typedef struct step_info {
    uint64_t start;
} * aclprofStepInfo;
ACL_EXPORT aclprofStepInfo aclprofCreateStepInfo(void);
ACL_EXPORT void aclprofDestroyStepInfo(aclprofStepInfo info);
ACL_EXPORT aclError aclprofGetStepTimestamp(aclprofStepInfo info, int tag, aclrtStream stream);

aclprofStepInfo aclprofCreateStepInfo(void)
{
    return calloc(1, sizeof(struct step_info));
}

void aclprofDestroyStepInfo(aclprofStepInfo info)
{
    free(info);
}

/* tag 0: the step begins, 1: it ends. */
aclError aclprofGetStepTimestamp(aclprofStepInfo info, int tag, aclrtStream stream)
{
    int code;
    RT_NEED(info && (tag == 0 || tag == 1), ACL_ERROR_INVALID_PARAM);
    if (!rt_stream_of(stream, __func__, &code)) return code;
    if (!tag)
        info->start = rt_profile_now();
    else
        mark("step", "range", info->start, rt_profile_now());
    return ACL_SUCCESS;
}

/* ---- mstx: marks and ranges of the program ----------------------------------------------------------- */

enum { NRANGES = 4096 };
static struct {
    atomic_ullong id;
    char text[NAME_MAX_BYTES];
    uint64_t start;
} ranges[NRANGES];
static atomic_ullong next_range = 1;
struct mstx_domain {
    char name[64];
};
ACL_EXPORT void mstxMarkA(const char *text, aclrtStream stream);
ACL_EXPORT uint64_t mstxRangeStartA(const char *text, aclrtStream stream);
ACL_EXPORT void mstxRangeEnd(uint64_t id);
ACL_EXPORT void *mstxDomainCreateA(const char *name);
ACL_EXPORT void mstxDomainDestroy(void *domain);
ACL_EXPORT void mstxDomainMarkA(void *domain, const char *text, aclrtStream stream);
ACL_EXPORT uint64_t mstxDomainRangeStartA(void *domain, const char *text, aclrtStream stream);
ACL_EXPORT void mstxDomainRangeEnd(void *domain, uint64_t id);

void mstxMarkA(const char *text, aclrtStream stream)
{
    (void)stream;
    uint64_t now = rt_profile_now();
    mark(text, "mark", now, now + 1);
}

uint64_t mstxRangeStartA(const char *text, aclrtStream stream)
{
    (void)stream;
    uint64_t id = atomic_fetch_add(&next_range, 1), at = id % NRANGES;
    snprintf(ranges[at].text, sizeof ranges[at].text, "%s", text ? text : "");
    ranges[at].start = rt_profile_now();
    atomic_store(&ranges[at].id, id);
    return id;
}

void mstxRangeEnd(uint64_t id)
{
    unsigned long long wanted = id;
    if (id && atomic_compare_exchange_strong(&ranges[id % NRANGES].id, &wanted, 0))
        mark(ranges[id % NRANGES].text, "range", ranges[id % NRANGES].start, rt_profile_now());
}

void *mstxDomainCreateA(const char *name)
{
    struct mstx_domain *d = calloc(1, sizeof *d);
    if (d) snprintf(d->name, sizeof d->name, "%s", name ? name : "");
    return d;
}

void mstxDomainDestroy(void *domain)
{
    free(domain);
}

static const char *in_domain(const void *domain, const char *text, char out[NAME_MAX_BYTES])
{
    const struct mstx_domain *d = domain;
    snprintf(out, NAME_MAX_BYTES, "%s%s%s", d ? d->name : "", d ? ": " : "", text ? text : "");
    return out;
}

void mstxDomainMarkA(void *domain, const char *text, aclrtStream stream)
{
    char full[NAME_MAX_BYTES];
    mstxMarkA(in_domain(domain, text, full), stream);
}

uint64_t mstxDomainRangeStartA(void *domain, const char *text, aclrtStream stream)
{
    char full[NAME_MAX_BYTES];
    return mstxRangeStartA(in_domain(domain, text, full), stream);
}

void mstxDomainRangeEnd(void *domain, uint64_t id)
{
    (void)domain;
    mstxRangeEnd(id);
}

/* ---- called although nothing is being profiled ------------------------------------------------------- */

ACL_EXPORT uint64_t MsprofSysCycleTime(void);
ACL_EXPORT uint64_t MsprofGetHashId(const char *text, size_t length);
ACL_EXPORT int32_t MsprofRegisterCallback(uint32_t module,
                                          int32_t (*callback)(uint32_t type, void *data, uint32_t length));

/* Nanoseconds stand for cycles: the software device's counter runs at 1 GHz. */
uint64_t MsprofSysCycleTime(void)
{
    return rt_now_ns();
}

uint64_t MsprofGetHashId(const char *text, size_t length)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (size_t i = 0; text && i < length; i++) h = (h ^ (unsigned char)text[i]) * 0x100000001B3u;
    return h;
}

/* The callback tells a module what the vendor's collector wants; there is none, the plugin records by itself.
 */
int32_t MsprofRegisterCallback(uint32_t module,
                               int32_t (*callback)(uint32_t type, void *data, uint32_t length))
{
    (void)module;
    return callback ? 0 : rt_fail(ACL_ERROR_INVALID_PARAM, "MsprofRegisterCallback: no callback");
}
