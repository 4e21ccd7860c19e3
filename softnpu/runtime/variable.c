/* variable.c - settings from the environment: numbers in a range, the processor's name. */
#include "softnpu/runtime/variable.h"

#include <stdio.h>
#include <stdlib.h>

int variable_number(const char *who, const char *name, int lo, int hi, int otherwise)
{
    const char *v = getenv(name);
    if (!v || !*v) return otherwise;
    char *end;
    long n = strtol(v, &end, 10);
    if (!*end && n >= lo && n <= hi) return (int)n;
    fprintf(stderr, "%s: %s=%s: expected a whole number from %d to %d\n", who, name, v, lo, hi);
    _Exit(2);
}

int variable_devices(const char *who)
{
    return variable_number(who, "SOFTNPU_DEVICES", 0, RT_MAX_DEVICES, 1);
}

const struct soc *variable_soc(const char *who)
{
    const char *v = getenv("SOFTNPU_SOC");
    const struct soc *s = soc_find(v);
    if (s) return s;
    char names[512];
    fprintf(stderr, "%s: SOFTNPU_SOC=%s: expected one of %s\n", who, v, soc_names(names, sizeof names));
    _Exit(2);
}
