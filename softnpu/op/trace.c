/* trace.c - evidence: launch counts for the harness, SOFTNPU_COUNTS=FILE at exit, SOFTNPU_TRACE=FILE a line
 * per call. */
#include "softnpu/include/softnpu.h"
#include "softnpu/op/executor.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Text that is built in a fixed buffer: length counts on past the end, as snprintf's result does. */
struct text {
    char *at;
    size_t cap, length;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    size_t room = t->length < t->cap ? t->cap - t->length : 0;
    int n = vsnprintf(room ? t->at + t->length : NULL, room, fmt, ap);
    va_end(ap);
    t->length += n > 0 ? (size_t)n : 0;
}

/* ---- counts ---------------------------------------------------------------------------------- */

const char *softnpu_version(void)
{
    return SOFTNPU_VERSION;
}

uint64_t softnpu_launches(void)
{
    return op_launches_total();
}

size_t softnpu_launch_table(char *json, size_t cap)
{
    struct text t = {json, cap, 0};
    const char *between = "{";
    for (int i = 0; i < op_count(); i++) {
        const op_row *row = op_at(i);
        uint64_t n = op_launches(row);
        if (!n) continue;
        put(&t, "%s\"%s\": %llu", between, row->name, (unsigned long long)n);
        between = ", ";
    }
    put(&t, *between == '{' ? "{}" : "}");
    return t.length;
}

/* FILE, with every %p replaced by the process id so that forked workers do not overwrite each other. */
static char *file_name(const char *pattern)
{
    size_t cap = strlen(pattern) * 6 + 1;
    char *name = malloc(cap);
    struct text t = {name, cap, 0};
    for (const char *s = pattern; name && *s; s++) {
        if (s[0] == '%' && s[1] == 'p')
            put(&t, "%d", (int)getpid()), s++;
        else
            put(&t, "%c", *s);
    }
    return name;
}

/* Whole or not at all: a temporary beside the file, then a rename. */
static bool write_counts(const char *path)
{
    size_t length = softnpu_launch_table(NULL, 0) + 64, cap = length + strlen(path) + 32;
    char *json = malloc(length), *temporary = malloc(cap);
    bool ok = json && temporary;
    if (ok) {
        softnpu_launch_table(json, length);
        snprintf(temporary, cap, "%s.%d", path, (int)getpid());
        FILE *f = fopen(temporary, "we");
        ok = f && fprintf(f, "%s\n", json) > 0;
        if (f) ok = fclose(f) == 0 && ok;
        ok = ok && rename(temporary, path) == 0;
    }
    free(json);
    free(temporary);
    return ok;
}

__attribute__((destructor)) static void counts_at_exit(void)
{
    const char *pattern = rt_settings()->counts;
    if (!pattern) return;
    char *path = file_name(pattern);
    if (!path || !write_counts(path))
        fprintf(stderr, "softnpu: SOFTNPU_COUNTS: cannot write %s: %m\n", pattern);
    free(path);
}

/* ---- trace ----------------------------------------------------------------------------------- */

static struct {
    pthread_once_t once;
    int fd;
} trace = {.once = PTHREAD_ONCE_INIT, .fd = -1};

static void trace_open(void)
{
    const char *pattern = rt_settings()->trace;
    if (!pattern) return;
    char *path = file_name(pattern);
    trace.fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (trace.fd < 0)
        fprintf(stderr, "softnpu: SOFTNPU_TRACE: cannot open %s: %m; nothing is traced\n", pattern);
    free(path);
}

bool trace_enabled(void)
{
    pthread_once(&trace.once, trace_open);
    return trace.fd >= 0;
}

int64_t trace_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void put_tensor(struct text *t, const char *name, const aclTensor *v, const char *before)
{
    char shape[256];
    if (!v)
        put(t, "%s{\"name\": \"%s\", \"dtype\": null}", before, name);
    else
        put(t, "%s{\"name\": \"%s\", \"dtype\": \"%s\", \"shape\": %s}", before, name,
            sn_dtype(v->dtype)->short_name, sn_shape_str(v, shape));
}

static void put_arguments(struct text *t, const op_call *c)
{
    const char *before = "";
    for (int i = 0; i < c->row->nparam; i++) {
        const struct op_param *p = &c->row->param[i];
        if (p->kind <= OPK_IO) {
            put_tensor(t, p->name, c->arg[i].t, before);
            before = ", ";
        }
        for (uint64_t k = 0; op_is_tensor_list(p->kind) && k < c->arg[i].tl->n; k++) {
            put_tensor(t, p->name, c->arg[i].tl->v[k], before);
            before = ", ";
        }
    }
}

/* One write a line: with O_APPEND lines of several threads and forked processes do not mix. */
void trace_call(const op_call *c, aclrtStream stream, int64_t start_ns, int64_t end_ns)
{
    char small[4096], *line = small;
    struct text t = {small, sizeof small, 0};
    for (;;) {
        put(&t,
            "{\"op\": \"%s\", \"pid\": %d, \"stream\": %u, \"start_ns\": %lld, \"ns\": %lld, \"tensors\": [",
            c->row->name, (int)getpid(), rt_stream_id(stream), (long long)start_ns,
            (long long)(end_ns - start_ns));
        put_arguments(&t, c);
        put(&t, "]}\n");
        if (t.length < t.cap) break;
        size_t cap = t.length + 1;
        line = malloc(cap);
        if (!line) return;
        t = (struct text){line, cap, 0};
    }
    ssize_t written = write(trace.fd, line, t.length);
    if (written != (ssize_t)t.length) fprintf(stderr, "softnpu: SOFTNPU_TRACE: a line was not written: %m\n");
    if (line != small) free(line);
}
