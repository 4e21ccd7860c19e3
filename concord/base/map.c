/* map.c - string to pointer: entries in insertion order, found through an open-addressed index (FNV-1a). */
#include "concord/base/base.h"

#include <stdlib.h>
#include <string.h>

enum { EMPTY = 0, FIRST_SLOTS = 16 }; /* a slot holds the entry's number plus one */

static uint64_t hash_of(const char *s)
{
    uint64_t h = 14695981039346656037u;
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211u;
    return h;
}

/* The slot that holds key, or the empty one where it belongs. */
static uint32_t *slot_of(const struct map *m, const char *key, uint64_t hash)
{
    size_t mask = m->nslots - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        uint32_t s = m->slots[i];
        if (s == EMPTY) return &m->slots[i];
        const struct map_entry *entry = &m->entries.ptr[s - 1];
        if (entry->hash == hash && !strcmp(entry->key, key)) return &m->slots[i];
    }
}

static void grow(struct map *m)
{
    free(m->slots);
    m->nslots = m->nslots ? m->nslots * 2 : FIRST_SLOTS;
    m->slots = xcalloc(m->nslots, sizeof *m->slots);
    for (size_t i = 0; i < m->entries.len; i++)
        *slot_of(m, m->entries.ptr[i].key, m->entries.ptr[i].hash) = (uint32_t)i + 1;
}

void **map_put(struct map *m, const char *key)
{
    if ((m->entries.len + 1) * 4 > m->nslots * 3) grow(m);
    uint64_t hash = hash_of(key);
    uint32_t *slot = slot_of(m, key, hash);
    if (*slot == EMPTY) {
        struct map_entry *entry = vec_push(&m->entries);
        entry->key = xstrdup(key);
        entry->hash = hash;
        *slot = (uint32_t)m->entries.len;
    }
    return &m->entries.ptr[*slot - 1].value;
}

static const struct map_entry *find(const struct map *m, const char *key)
{
    if (!m->nslots) return NULL;
    uint32_t slot = *slot_of(m, key, hash_of(key));
    return slot == EMPTY ? NULL : &m->entries.ptr[slot - 1];
}

void *map_get(const struct map *m, const char *key)
{
    const struct map_entry *entry = find(m, key);
    return entry ? entry->value : NULL;
}

bool map_has(const struct map *m, const char *key)
{
    return find(m, key) != NULL;
}

void map_free(struct map *m, void (*free_value)(void *))
{
    for (size_t i = 0; i < m->entries.len; i++) {
        free(m->entries.ptr[i].key);
        if (free_value) free_value(m->entries.ptr[i].value);
    }
    vec_free(&m->entries);
    free(m->slots);
    *m = (struct map){0};
}
