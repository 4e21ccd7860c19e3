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

static void read_settings(void)
{
    settings = (struct rt_settings){
        .blocking = is_on("SOFTNPU_BLOCKING"),
        .accept_any = !strcmp(text("SOFTNPU_ACCEPT", ""), "any"),
        .hf32 = is_on("SOFTNPU_HF32"),
        .devices = number("SOFTNPU_DEVICES", 0, RT_MAX_DEVICES, 1),
        .address_gib = number("SOFTNPU_ADDRESS_GIB", 64, 8192, 8192),
        .soc = text("SOFTNPU_SOC", "Ascend910B4"),
        .trace = text("SOFTNPU_TRACE", NULL),
        .counts = text("SOFTNPU_COUNTS", NULL),
    };
}

const struct rt_settings *rt_settings(void)
{
    pthread_once(&once, read_settings);
    return &settings;
}
