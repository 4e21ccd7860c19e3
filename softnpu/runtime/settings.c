/* settings.c - the environment variables, read once. */
#include "softnpu/runtime/internal.h"
#include "softnpu/runtime/variable.h"

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
        .devices = variable_devices("softnpu"),
        .address_gib = variable_number("softnpu", "SOFTNPU_ADDRESS_GIB", 64, 8192, 8192),
        .soc = variable_soc("softnpu"),
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
