/* settings.c - the environment variables, read once. */
#include "softnpu/runtime/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rt_settings settings;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool is_on(const char *name)
{
    const char *v = getenv(name);
    return v && *v && strcmp(v, "0") != 0;
}

static const char *text(const char *name, const char *otherwise)
{
    const char *v = getenv(name);
    return v && *v ? v : otherwise;
}

/* A whole number in [lo, hi]; anything else ends the process with one line: a device must not guess its
 * shape. */
static int number(const char *name, int lo, int hi, int otherwise)
{
    const char *v = getenv(name);
    if (!v || !*v) return otherwise;
    char *end;
    long n = strtol(v, &end, 10);
    if (*end || n < lo || n > hi) {
        fprintf(stderr, "softnpu: %s=%s: expected a whole number from %d to %d\n", name, v, lo, hi);
        _Exit(2);
    }
    return (int)n;
}

static const struct soc *soc(void)
{
    const struct soc *s = soc_find(getenv("SOFTNPU_SOC"));
    if (s) return s;
    char names[512];
    fprintf(stderr, "softnpu: SOFTNPU_SOC=%s: expected one of %s\n", getenv("SOFTNPU_SOC"),
            soc_names(names, sizeof names));
    _Exit(2);
}

/* Of no devices at all nothing can be hidden. */
static void see_devices(void)
{
    if (!settings.devices) return;
    const char *list = getenv("ASCEND_RT_VISIBLE_DEVICES");
    int n = soc_visible(list && *list ? list : NULL, settings.devices, settings.physical);
    if (n < 0) {
        fprintf(stderr,
                "softnpu: ASCEND_RT_VISIBLE_DEVICES=%s: expected numbers below %d (SOFTNPU_DEVICES), each "
                "once, separated "
                "by commas\n",
                list, settings.devices);
        _Exit(2);
    }
    settings.devices = n;
}

static void read_settings(void)
{
    settings = (struct rt_settings){
        .blocking = is_on("SOFTNPU_BLOCKING"),
        .accept_any = !strcmp(text("SOFTNPU_ACCEPT", ""), "any"),
        .hf32 = is_on("SOFTNPU_HF32"),
        .devices = number("SOFTNPU_DEVICES", 0, RT_MAX_DEVICES, 1),
        .address_gib = number("SOFTNPU_ADDRESS_GIB", 64, 8192, 8192),
        .soc = soc(),
        .trace = text("SOFTNPU_TRACE", NULL),
        .counts = text("SOFTNPU_COUNTS", NULL),
    };
    see_devices();
}

const struct rt_settings *rt_settings(void)
{
    pthread_once(&once, read_settings);
    return &settings;
}
