/* fuzz.h - what the fuzz targets share. */
#ifndef FUZZ_H
#define FUZZ_H

#include "concord/patch/patch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* The input as a file, for what reads files: one of this process, written anew each time, gone at the end. */
static char fuzz_path[64];
static inline void fuzz_file_remove(void)
{
    unlink(fuzz_path);
}
static inline const char *fuzz_file(const uint8_t *data, size_t size)
{
    if (!fuzz_path[0]) {
        snprintf(fuzz_path, sizeof fuzz_path, "/tmp/concord-fuzz.%ld", (long)getpid());
        atexit(fuzz_file_remove);
    }
    unlink(fuzz_path);
    FILE *f = fopen(fuzz_path, "wbx");
    MUST(f && fwrite(data, 1, size, f) == size && !fclose(f));
    return fuzz_path;
}

#endif
