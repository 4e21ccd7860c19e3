/* schema.c - decodes a libyaml document by the tables of schema.h. */
#include "concord/campaign/schema.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct reader {
    const char *path;
    yaml_document_t doc;
    struct err *e;
};

typedef VEC(char) any_vec; /* VECs differ only in their element's type */

static int decode(struct reader *r, enum field_kind kind, const void *detail, yaml_node_t *node, void *at);
static void release(enum field_kind kind, const void *detail, void *at);

/* ---- messages ------------------------------------------------------------------------------------------ */

static int fail(struct reader *r, yaml_mark_t mark, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int fail(struct reader *r, yaml_mark_t mark, const char *fmt, ...)
{
    struct buf b = BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    buf_vaddf(&b, fmt, ap);
    va_end(ap);
    err_set(r->e, "%s:%zu:%zu: %s", r->path, mark.line + 1, mark.column + 1, b.ptr);
    buf_free(&b);
    return -1;
}

static const char *text_of(const yaml_node_t *n)
{
    return (const char *)n->data.scalar.value;
}

static bool is_plain(const yaml_node_t *n)
{
    return n->type == YAML_SCALAR_NODE && n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static bool is_null(const yaml_node_t *n)
{
    const char *s = n->type == YAML_SCALAR_NODE ? text_of(n) : "";
    return is_plain(n) && (!*s || !strcmp(s, "~") || !strcmp(s, "null"));
}

/* "expected A, found B" at the node. */
static int mismatch(struct reader *r, const yaml_node_t *n, const char *expected)
{
    if (is_null(n)) return fail(r, n->start_mark, "expected %s, found nothing", expected);
    if (n->type == YAML_SEQUENCE_NODE) return fail(r, n->start_mark, "expected %s, found a list", expected);
    if (n->type == YAML_MAPPING_NODE) return fail(r, n->start_mark, "expected %s, found a mapping", expected);
    int shown = (int)strcspn(text_of(n), "\n"); /* the message must stay one line */
    if (shown > 60) shown = 60;
    return fail(r, n->start_mark, "expected %s, found '%.*s'", expected, shown, text_of(n));
}

static int unknown_name(struct reader *r, const yaml_node_t *n, const char *what, const char *const *names)
{
    size_t count = 0;
    struct buf all = BUF_INIT;
    for (; names[count]; count++) buf_addf(&all, "%s%s", count ? ", " : "", names[count]);
    const char *nearest = str_nearest(text_of(n), names, count);
    if (nearest)
        fail(r, n->start_mark, "unknown %s '%s': did you mean '%s'?", what, text_of(n), nearest);
    else
        fail(r, n->start_mark, "unknown %s '%s': expected one of %s", what, text_of(n), buf_str(&all));
    buf_free(&all);
    return -1;
}

/* ---- scalars ------------------------------------------------------------------------------------------- */

static bool one_of(const char *s, const char *const *names)
{
    while (*names && strcmp(*names, s)) names++;
    return *names != NULL;
}

static bool accepts(const struct text_rule *rule, const char *s)
{
    return rule->ok ? rule->ok(s) : *s != '\0';
}

static int decode_text(struct reader *r, const struct text_rule *rule, yaml_node_t *n, char **out)
{
    if (n->type != YAML_SCALAR_NODE || is_null(n)) return mismatch(r, n, rule->expected);
    if (strlen(text_of(n)) != n->data.scalar.length) return fail(r, n->start_mark, "a NUL byte in a text");
    if (rule->choices && !one_of(text_of(n), rule->choices))
        return unknown_name(r, n, rule->expected, rule->choices);
    if (!rule->choices && !accepts(rule, text_of(n))) return mismatch(r, n, rule->expected);
    free(*out);
    *out = xstrdup(text_of(n));
    return 0;
}

static int decode_int(struct reader *r, const struct int_rule *rule, yaml_node_t *n, int64_t *out)
{
    char expected[128];
    snprintf(expected, sizeof expected, "a whole number from %lld to %lld%s%s", (long long)rule->min,
             (long long)rule->max, rule->word ? ", or " : "", rule->word ? rule->word : "");
    if (!is_plain(n) || is_null(n)) return mismatch(r, n, expected);
    if (rule->word && !strcmp(text_of(n), rule->word)) {
        *out = 0;
        return 0;
    }
    char *end;
    errno = 0;
    long long v = strtoll(text_of(n), &end, 10);
    if (errno || *end || v < rule->min || v > rule->max) return mismatch(r, n, expected);
    *out = v;
    return 0;
}

static int decode_number(struct reader *r, yaml_node_t *n, double *out)
{
    static const char expected[] = "a number, 0 or more";
    if (!is_plain(n) || is_null(n)) return mismatch(r, n, expected);
    if (text_of(n)[strspn(text_of(n), "+-.0123456789eE")]) return mismatch(r, n, expected);
    char *end;
    double v = strtod(text_of(n), &end);
    if (*end || !isfinite(v) || v < 0) return mismatch(r, n, expected);
    *out = v;
    return 0;
}

static int decode_duration(struct reader *r, yaml_node_t *n, int64_t *out)
{
    static const char expected[] = "a duration such as 90s, 10m or 2h";
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    if (!is_plain(n) || is_null(n)) return mismatch(r, n, expected);
    char *end;
    errno = 0;
    long long v = strtoll(text_of(n), &end, 10);
    if (errno || v <= 0 || v > 1000000 || end == text_of(n)) return mismatch(r, n, expected);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].unit)) continue;
        *out = v * units[i].ms;
        return 0;
    }
    return mismatch(r, n, expected);
}

static int decode_choice(struct reader *r, const char *const *names, yaml_node_t *n, int *out)
{
    if (n->type != YAML_SCALAR_NODE || is_null(n)) return mismatch(r, n, "a word");
    for (int i = 0; names[i]; i++) {
        if (strcmp(names[i], text_of(n))) continue;
        *out = i;
        return 0;
    }
    return unknown_name(r, n, "value", names);
}

/* ---- mappings and lists -------------------------------------------------------------------------------- */

static yaml_node_t *node(struct reader *r, int index)
{
    return yaml_document_get_node(&r->doc, index);
}

/* A key must be a text that did not come before. */
static int check_key(struct reader *r, const yaml_node_t *map, const yaml_node_pair_t *pair)
{
    const yaml_node_t *key = node(r, pair->key);
    if (key->type != YAML_SCALAR_NODE || !*text_of(key)) return mismatch(r, key, "a key");
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < pair; p++) {
        const yaml_node_t *other = node(r, p->key);
        if (!strcmp(text_of(other), text_of(key)))
            return fail(r, key->start_mark, "'%s' stands twice: first in line %zu", text_of(key),
                        other->start_mark.line + 1);
    }
    return 0;
}

static const struct field *find_field(const struct field *fields, const char *key)
{
    while (fields->key && strcmp(fields->key, key)) fields++;
    return fields->key ? fields : NULL;
}

static int unknown_key(struct reader *r, const yaml_node_t *key, const struct field *fields)
{
    VEC(const char *) names = {0};
    for (; fields->key; fields++) *vec_push(&names) = fields->key;
    *vec_push(&names) = NULL;
    int rc = unknown_name(r, key, "key", names.ptr);
    vec_free(&names);
    return rc;
}

static bool has_key(struct reader *r, const yaml_node_t *map, const char *key)
{
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++)
        if (!strcmp(text_of(node(r, p->key)), key)) return true;
    return false;
}

static int decode_record(struct reader *r, const struct record *rec, yaml_node_t *n, void *at)
{
    if (n->type != YAML_MAPPING_NODE) {
        char expected[128];
        snprintf(expected, sizeof expected, "%s (a mapping)", rec->what);
        return mismatch(r, n, expected);
    }
    for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        if (check_key(r, n, p)) return -1;
        const struct field *f = find_field(rec->fields, text_of(node(r, p->key)));
        if (!f) return unknown_key(r, node(r, p->key), rec->fields);
        if (decode(r, f->kind, f->detail, node(r, p->value), (char *)at + f->offset)) return -1;
    }
    for (const struct field *f = rec->fields; f->key; f++)
        if (f->required && !has_key(r, n, f->key))
            return fail(r, n->start_mark, "%s needs the key '%s'", rec->what, f->key);
    struct err inner;
    if (rec->check && rec->check(at, &inner)) return fail(r, n->start_mark, "%s", inner.text);
    return 0;
}

static char *name_of(const any_vec *v, size_t size, size_t i)
{
    return *(char **)(v->ptr + i * size);
}

static int refuse_repeat(struct reader *r, const yaml_node_t *n, const char *what, const any_vec *v,
                         size_t size)
{
    for (size_t i = 0; i + 1 < v->len; i++)
        if (!strcmp(name_of(v, size, i), name_of(v, size, v->len - 1)))
            return fail(r, n->start_mark, "%s stands twice: '%s'", what, name_of(v, size, i));
    return 0;
}

static int decode_list(struct reader *r, const struct list *list, yaml_node_t *n, any_vec *v)
{
    char expected[128];
    snprintf(expected, sizeof expected, "a list with at least %s", list->what);
    if (n->type != YAML_SEQUENCE_NODE) return mismatch(r, n, expected);
    if (n->data.sequence.items.start == n->data.sequence.items.top)
        return fail(r, n->start_mark, "expected %s, found an empty list", expected);
    if (v->len) release(FIELD_LIST, list, v); /* the file's list replaces the default one */
    for (yaml_node_item_t *item = n->data.sequence.items.start; item < n->data.sequence.items.top; item++) {
        vec_grow_((void **)&v->ptr, &v->len, &v->cap, list->size);
        if (decode(r, list->kind, list->detail, node(r, *item), v->ptr + (v->len - 1) * list->size))
            return -1;
        if (refuse_repeat(r, node(r, *item), list->what, v, list->size)) return -1;
    }
    return 0;
}

static int decode_pairs(struct reader *r, const struct pairs *pairs, yaml_node_t *n, any_vec *v)
{
    if (n->type != YAML_MAPPING_NODE) {
        char expected[128];
        snprintf(expected, sizeof expected, "a mapping with %s as keys", pairs->what);
        return mismatch(r, n, expected);
    }
    for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        if (check_key(r, n, p)) return -1;
        vec_grow_((void **)&v->ptr, &v->len, &v->cap, pairs->size);
        char *item = v->ptr + (v->len - 1) * pairs->size;
        if (decode_text(r, pairs->key, node(r, p->key), (char **)item)) return -1;
        if (decode(r, pairs->kind, pairs->detail, node(r, p->value), item + pairs->offset)) return -1;
    }
    return 0;
}

static int decode(struct reader *r, enum field_kind kind, const void *detail, yaml_node_t *n, void *at)
{
    switch (kind) {
    case FIELD_TEXT:
        return decode_text(r, detail, n, at);
    case FIELD_INT:
        return decode_int(r, detail, n, at);
    case FIELD_NUMBER:
        return decode_number(r, n, at);
    case FIELD_DURATION:
        return decode_duration(r, n, at);
    case FIELD_CHOICE:
        return decode_choice(r, detail, n, at);
    case FIELD_RECORD:
        return decode_record(r, detail, n, at);
    case FIELD_LIST:
        return decode_list(r, detail, n, at);
    case FIELD_PAIRS:
        return decode_pairs(r, detail, n, at);
    case NFIELD_KINDS:
        break;
    }
    return fail(r, n->start_mark, "the schema has no kind %d", (int)kind);
}

/* ---- freeing ------------------------------------------------------------------------------------------- */

void schema_free(const struct record *top, void *object)
{
    for (const struct field *f = top->fields; f->key; f++)
        release(f->kind, f->detail, (char *)object + f->offset);
}

static void release_items(any_vec *v, size_t size, bool keyed, enum field_kind kind, size_t offset,
                          const void *detail)
{
    for (size_t i = 0; i < v->len; i++) {
        char *item = v->ptr + i * size;
        if (keyed) free(*(char **)item);
        release(kind, detail, item + offset);
    }
    vec_free(v);
}

static void release(enum field_kind kind, const void *detail, void *at)
{
    if (kind == FIELD_TEXT) {
        free(*(char **)at);
        *(char **)at = NULL;
    } else if (kind == FIELD_RECORD) {
        schema_free(detail, at);
    } else if (kind == FIELD_LIST) {
        const struct list *list = detail;
        release_items(at, list->size, false, list->kind, 0, list->detail);
    } else if (kind == FIELD_PAIRS) {
        const struct pairs *pairs = detail;
        release_items(at, pairs->size, true, pairs->kind, pairs->offset, pairs->detail);
    }
}

/* ---- the file ------------------------------------------------------------------------------------------ */

/* What libyaml's reader refuses (a bad byte) has an offset instead of a line and a column. */
static yaml_mark_t problem_mark(const yaml_parser_t *p, const struct buf *text)
{
    if (p->error != YAML_READER_ERROR) return p->problem_mark;
    yaml_mark_t m = {0};
    for (size_t i = 0; i < p->problem_offset && i < text->len; i++) {
        bool newline = text->ptr[i] == '\n';
        m.line += newline;
        m.column = newline ? 0 : m.column + 1;
    }
    return m;
}

static int parse(struct reader *r, const struct buf *text)
{
    yaml_parser_t p;
    if (!yaml_parser_initialize(&p)) die("out of memory (YAML parser)");
    yaml_parser_set_input_string(&p, (const unsigned char *)buf_str(text), text->len);
    int rc = 0;
    if (!yaml_parser_load(&p, &r->doc)) {
        rc = fail(r, problem_mark(&p, text), "not valid YAML: %s", p.problem ? p.problem : "cannot be read");
    } else {
        yaml_document_t next;
        if (!yaml_parser_load(&p, &next)) {
            rc = fail(r, problem_mark(&p, text), "not valid YAML: %s",
                      p.problem ? p.problem : "cannot be read");
        } else {
            yaml_node_t *more = yaml_document_get_root_node(&next);
            if (more) rc = fail(r, more->start_mark, "expected the end of the file, found a second document");
            yaml_document_delete(&next);
        }
        if (rc) yaml_document_delete(&r->doc);
    }
    yaml_parser_delete(&p);
    return rc;
}

int schema_load(const char *path, const struct record *top, void *object, struct err *e)
{
    struct buf text = BUF_INIT;
    struct reader r = {.path = path, .e = e};
    int rc = file_read(path, &text, e);
    if (!rc) rc = parse(&r, &text);
    if (!rc) {
        yaml_node_t *root = yaml_document_get_root_node(&r.doc);
        if (root)
            rc = decode(&r, FIELD_RECORD, top, root, object);
        else
            rc = fail(&r, (yaml_mark_t){0}, "expected %s, found an empty file", top->what);
        yaml_document_delete(&r.doc);
    }
    buf_free(&text);
    return rc;
}
