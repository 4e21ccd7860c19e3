/* fuzz_elf.c - reader and stripper of shared objects: what strips still reads as the same object, and strips
 * no more. */
#include "concord/env/elf_object.h"
#include "fuzz/fuzz.h"

struct seen {
    size_t symbols, needed, bytes; /* bytes: of all names, so that every one is read */
};

static bool look(const char *path, struct seen *s)
{
    struct elf_object o;
    struct err e = {""};
    *s = (struct seen){0};
    if (elf_open(path, &o, &e)) {
        MUST(e.text[0] && !strchr(e.text, '\n'));
        return false;
    }
    *s = (struct seen){o.symbols.len, o.needed.len, o.soname ? strlen(o.soname) : 0};
    for (size_t i = 0; i < o.needed.len; i++) s->bytes += strlen(o.needed.ptr[i]);
    for (size_t i = 0; i < o.symbols.len; i++) {
        const struct elf_symbol *y = &o.symbols.ptr[i];
        s->bytes += strlen(y->name) + (y->version ? strlen(y->version) : 0) + (y->file ? strlen(y->file) : 0);
    }
    elf_close(&o);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen before, after;
    struct err e = {""};
    uint64_t saved = 0;
    const char *path = fuzz_file(data, size);
    MUST(elf_is_object(path) || !look(path, &before));
    bool readable = look(path, &before);
    if (elf_strip(path, &saved, &e)) {
        MUST(e.text[0] && !strchr(e.text, '\n'));
        return 0;
    }
    MUST(saved <= size);
    if (readable && saved) MUST(look(path, &after) && after.needed == before.needed);
    return 0;
}
