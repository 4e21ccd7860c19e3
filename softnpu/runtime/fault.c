/* fault.c - parses SOFTNPU_FAULT and says when a fault is due. */
#include "softnpu/runtime/fault.h"
#include "softnpu/runtime/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FAULTS = 32 };

static const struct {
    const char *name;
    bool named;       /* takes an operator's name; N is then optional */
    int code;         /* of kinds that end a task */
    const char *what; /* the message */
} kinds[] = {
    [RT_FAULT_ALLOC] = {"alloc", false, 0, NULL},
    [RT_FAULT_STREAM] = {"stream", false, ACL_ERROR_RT_AICORE_EXCEPTION, "aicore exception"},
    [RT_FAULT_MEMORY] = {"memory", false, ACL_ERROR_RT_DEVICE_MEM_ERROR, "uncorrectable memory error (UCE)"},
    [RT_FAULT_ECC] = {"ecc", false, ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR, "HBM multi-bit ECC error"},
    [RT_FAULT_LINK] = {"link", false, ACL_ERROR_RT_LINK_ERROR, "link error"},
    [RT_FAULT_LOST] = {"lost", false, ACL_ERROR_RT_LOST_HEARTBEAT, "the device is lost"},
    [RT_FAULT_WRONG] = {"wrong", true, 0, NULL},
    [RT_FAULT_FAIL] = {"fail", true, 0, NULL},
    [RT_FAULT_HANG] = {"hang", true, 0, NULL},
    [RT_FAULT_CRASH] = {"crash", true, 0, NULL},
    [RT_FAULT_SLOW] = {"slow", true, 0, NULL},
};
_Static_assert(sizeof kinds / sizeof *kinds == RT_FAULT_KINDS, "one row per kind");

static struct rt_fault faults[MAX_FAULTS];
static atomic_int nfaults;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool parse_count(const char *s, int64_t *n)
{
    char *end;
    long long v = strtoll(s, &end, 10);
    *n = v;
    return *s && !*end && v >= 1;
}

static bool parse_one(char *spec, struct rt_fault *out)
{
    char *arg = strchr(spec, ':');
    if (!arg) return false;
    *arg++ = 0;
    for (int k = 0; k < RT_FAULT_KINDS; k++) {
        if (strcmp(spec, kinds[k].name)) continue;
        *out = (struct rt_fault){.kind = (enum rt_fault_kind)k};
        if (!kinds[k].named) return parse_count(arg, &out->n);
        char *count = strchr(arg, ':');
        if (count) *count++ = 0;
        if (!*arg || strlen(arg) >= sizeof out->name) return false;
        memcpy(out->name, arg, strlen(arg) + 1);
        return count ? parse_count(count, &out->n) : k != RT_FAULT_SLOW;
    }
    return false;
}

bool rt_fault_set(const char *spec)
{
    atomic_store(&nfaults, 0);
    if (!spec || !*spec) return true;
    char *copy = strdup(spec), *save = NULL;
    bool ok = copy != NULL;
    int n = 0;
    for (char *one = copy ? strtok_r(copy, ",", &save) : NULL; one && ok; one = strtok_r(NULL, ",", &save)) {
        char shown[160];
        snprintf(shown, sizeof shown, "%s", one);
        ok = n < MAX_FAULTS && parse_one(one, &faults[n]);
        if (!ok)
            fprintf(stderr,
                    "softnpu: SOFTNPU_FAULT: '%s' is not a fault; write alloc|stream|memory|ecc|link|lost:N, "
                    "wrong|fail|hang|crash:OPERATOR[:N] or slow:OPERATOR:MILLISECONDS, separated by commas\n",
                    shown);
        n++;
    }
    free(copy);
    if (ok) atomic_store(&nfaults, n);
    return ok;
}

static void read_environment(void)
{
    if (!rt_fault_set(getenv("SOFTNPU_FAULT"))) _Exit(2);
}

bool rt_fault_any(void)
{
    pthread_once(&once, read_environment);
    return atomic_load_explicit(&nfaults, memory_order_relaxed) != 0;
}

const struct rt_fault *rt_fault_match(enum rt_fault_kind kind, const char *name)
{
    if (!rt_fault_any()) return NULL;
    const struct rt_fault *due = NULL;
    for (int i = 0; i < atomic_load(&nfaults); i++) {
        struct rt_fault *f = &faults[i];
        if (f->kind != kind || (kinds[kind].named && strcmp(f->name, name))) continue;
        int64_t hit = atomic_fetch_add(&f->hits, 1) + 1;
        if (!f->n || f->n == hit || kind == RT_FAULT_SLOW) due = f;
    }
    return due;
}

static _Thread_local const struct rt_fault *due_task;

bool rt_fault_task(void)
{
    due_task = NULL;
    for (int k = RT_FAULT_STREAM; k <= RT_FAULT_LOST; k++) {
        const struct rt_fault *f = rt_fault_match((enum rt_fault_kind)k, NULL);
        if (f) due_task = f;
    }
    return due_task != NULL;
}

int rt_fault_task_code(void)
{
    return rt_fail(kinds[due_task->kind].code, "%s (SOFTNPU_FAULT=%s:%lld)", kinds[due_task->kind].what,
                   kinds[due_task->kind].name, (long long)due_task->n);
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

int rt_fault_hang(void)
{
    uint64_t limit = rt_op_timeout_us();
    rt_wait_until(never, NULL, limit ? rt_now_ns() + limit * 1000 : 0, true);
    return rt_task_cancelled() ? ACL_ERROR_RT_DEVICE_TASK_ABORT : ACL_ERROR_RT_AICORE_TIMEOUT;
}
