/* private.h - what the source model's own files share. */
#ifndef CONCORD_PYSRC_PRIVATE_H
#define CONCORD_PYSRC_PRIVATE_H

#include "concord/pysrc/pysrc.h"

enum { PY_CHUNK = 64 << 10, PY_BUCKETS = 256 };

struct py_private {
    VEC(char *) chunks; /* the file's strings */
    char *free;
    size_t room;
    uint32_t *first; /* bucket of (scope, name) -> binding index + 1 */
    uint32_t *next;  /* chain of the bucket, by binding index */
    uint32_t nbuckets;
    bool star;
};

const char *py_intern(struct py_file *f, const char *s, size_t n);
void py_index_bindings(struct py_file *f);
/* Row of the first syntax error of text, 0 if it parses. */
uint32_t py_syntax_error_row(const char *text, size_t len);

#endif
