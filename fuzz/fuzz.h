/* fuzz.h - what the fuzz targets share. */
#ifndef FUZZ_H
#define FUZZ_H

#include "concord/patch/patch.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property that must hold whatever the input is. */
#define MUST(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                          \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

/* Cuts the input at NUL bytes into n parts; the last one has the rest, missing ones are empty. */
static inline void fuzz_split(const uint8_t *data, size_t size, struct slice *parts, size_t n)
{
    const char *at = (const char *)data, *end = at + size;
    for (size_t i = 0; i < n; i++) {
        const char *nul = i + 1 < n && at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
        parts[i] = (struct slice){at < end ? at : "", nul ? (size_t)(nul - at) : (size_t)(end - at)};
        at = nul ? nul + 1 : end;
    }
}

#endif
