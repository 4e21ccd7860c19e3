/* usage.h - the file in which processes tell softnpu-smi what they hold. */
#ifndef SOFTNPU_USAGE_H
#define SOFTNPU_USAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { USAGE_SLOTS = 512 };
struct usage_slot {
    atomic_int pid; /* 0: free */
    int device;
    atomic_ullong used; /* bytes */
    char name[64];
};
struct usage_table {
    struct usage_slot slot[USAGE_SLOTS];
};
/* SOFTNPU_USAGE=FILE, otherwise one file per user under /dev/shm. */
const char *usage_path(char out[128]);
/* The mapped table, NULL if there is none (or it cannot be made). */
struct usage_table *usage_map(bool create);
/* True if the slot's process is gone. */
bool usage_is_stale(const struct usage_slot *s);

#endif
