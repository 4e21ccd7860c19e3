/* schema.h - YAML into C structs by tables: one table decodes, names the known keys, and frees.
 *
 * libyaml's document tree is used and not libcyaml, which stands on it: libcyaml reports an error without its
 * place in the file and cannot name the nearest known key.
 */
#ifndef CONCORD_SCHEMA_H
#define CONCORD_SCHEMA_H

#include "concord/base/base.h"

enum field_kind {
    FIELD_TEXT,     /* char *    detail: struct text_rule */
    FIELD_INT,      /* int64_t   detail: struct int_rule */
    FIELD_NUMBER,   /* double    at least 0; no detail */
    FIELD_DURATION, /* int64_t   milliseconds, more than 0; no detail */
    FIELD_CHOICE,   /* int       detail: NULL-terminated names; the value is the position */
    FIELD_RECORD,   /* struct    detail: struct record */
    FIELD_LIST,     /* VEC       detail: struct list */
    FIELD_PAIRS,    /* VEC       detail: struct pairs: a mapping whose keys are data */
    NFIELD_KINDS
};

struct text_rule {
    const char *expected;       /* "a version such as 2.7.1" */
    bool (*ok)(const char *s);  /* NULL: anything but the empty text */
    const char *const *choices; /* NULL, or the only values, NULL-terminated */
};

struct int_rule {
    int64_t min, max;
    const char *word; /* a word that may stand for 0 ("auto"), or NULL */
};

struct field {
    const char *key;
    enum field_kind kind;
    bool required;
    size_t offset;
    const void *detail;
};

struct record {
    const char *what;           /* "a release": for messages */
    const struct field *fields; /* ends with key NULL */
    /* Checks between fields, after all are read; may adjust the object. NULL: none. */
    int (*check)(void *object, struct err *e);
};

/* Items that are records start with the char * that names them: repeats are refused by it. */
struct list {
    const char *what; /* "an API" */
    enum field_kind kind;
    size_t size;
    const void *detail;
};

/* Items are structs that start with a char * for the key. */
struct pairs {
    const char *what;
    size_t size;
    const struct text_rule *key;
    enum field_kind kind; /* FIELD_RECORD: its offsets are in the item; else the value is at offset */
    size_t offset;
    const void *detail;
};

/* Decodes the file into object, which holds the defaults. On failure object is partly filled: schema_free it.
 */
int schema_load(const char *path, const struct record *top, void *object, struct err *e);
void schema_free(const struct record *top, void *object);

#endif
