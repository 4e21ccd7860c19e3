/* diff.c - concord diff: what changed from one run to another. */
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"
#include "concord/suite/runref.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* X(id, title) */
#define CHANGES(X)                                                                                           \
    X(BROKEN, "new failures")                                                                                \
    X(FIXED, "fixed")                                                                                        \
    X(CHANGED, "another verdict")                                                                            \
    X(REASON, "another reason")                                                                              \
    X(SLOWER, "slower")                                                                                      \
    X(GONE, "only in the first run")                                                                         \
    X(NEW, "only in the second run")
enum change {
#define X(id, title) CHANGE_##id,
    CHANGES(X)
#undef X
        NCHANGES
};
static const char *const titles[] = {
#define X(id, title) title,
    CHANGES(X)
#undef X
};

struct limits {
    double factor, least_ms; /* slower: by this factor and by at least this much */
};

static int compare(const struct suite_case *a, const struct suite_case *b, const struct limits *l)
{
    if (!a) return CHANGE_NEW;
    if (!b) return CHANGE_GONE;
    bool bad_a = verdict_is_bad(a->verdict), bad_b = verdict_is_bad(b->verdict);
    if (!bad_a && bad_b) return CHANGE_BROKEN;
    if (bad_a && !bad_b) return CHANGE_FIXED;
    if (a->verdict != b->verdict) return CHANGE_CHANGED;
    if (bad_a && strcmp(a->reason, b->reason) != 0) return CHANGE_REASON;
    if (b->ms > a->ms * l->factor && b->ms - a->ms > l->least_ms) return CHANGE_SLOWER;
    return -1;
}

static void index_run(const struct suite_run *r, struct map *out)
{
    for (size_t i = 0; i < r->units.len; i++) {
        for (size_t k = 0; k < r->units.ptr[i]->cases.len; k++) {
            char *name = suite_case_name(r->units.ptr[i]->cases.ptr[k]);
            *map_put(out, name) = r->units.ptr[i]->cases.ptr[k];
            free(name);
        }
    }
}

static json_t *entry(const char *name, const struct suite_case *a, const struct suite_case *b)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:f}", "name", name, "before",
                     a ? verdict_name(a->verdict) : "", "after", b ? verdict_name(b->verdict) : "",
                     "reason_before", a ? a->reason : "", "reason_after", b ? b->reason : "", "ms_before",
                     a ? a->ms : 0.0, "ms_after", b ? b->ms : 0.0);
}

static json_t *changes(const struct suite_run *first, const struct suite_run *second, const struct limits *l)
{
    struct map a = {0}, b = {0};
    json_t *all = json_array();
    for (int i = 0; i < NCHANGES; i++) json_array_append_new(all, json_array());
    index_run(first, &a);
    index_run(second, &b);
    for (size_t i = 0; i < a.entries.len; i++) {
        const char *name = a.entries.ptr[i].key;
        int kind = compare(a.entries.ptr[i].value, map_get(&b, name), l);
        if (kind >= 0)
            json_array_append_new(json_array_get(all, (size_t)kind),
                                  entry(name, a.entries.ptr[i].value, map_get(&b, name)));
    }
    for (size_t i = 0; i < b.entries.len; i++)
        if (!map_has(&a, b.entries.ptr[i].key))
            json_array_append_new(json_array_get(all, CHANGE_NEW),
                                  entry(b.entries.ptr[i].key, NULL, b.entries.ptr[i].value));
    map_free(&a, NULL);
    map_free(&b, NULL);
    return all;
}

static const char *text(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static void print_changes(const json_t *all)
{
    for (size_t kind = 0; kind < NCHANGES; kind++) {
        const json_t *list = json_array_get(all, kind);
        size_t i;
        json_t *o;
        if (json_array_size(list)) printf("%s: %zu\n", titles[kind], json_array_size(list));
        json_array_foreach(list, i, o)
        {
            printf("    %s: ", text(o, "name"));
            if (kind == CHANGE_SLOWER)
                printf("%.0f ms -> %.0f ms\n", json_number_value(json_object_get(o, "ms_before")),
                       json_number_value(json_object_get(o, "ms_after")));
            else
                printf("%s -> %s%s%s\n", text(o, "before"), text(o, "after"),
                       *text(o, "reason_after") ? ": " : "", text(o, "reason_after"));
        }
    }
}

static int write_changes(const json_t *all, const char *file, struct err *e)
{
    json_t *o = json_object();
    for (size_t kind = 0; kind < NCHANGES; kind++)
        json_object_set(o, titles[kind], json_array_get(all, kind));
    char *dump = json_dumps(o, JSON_INDENT(1));
    int status = 0;
    if (!strcmp(file, "-"))
        puts(dump);
    else
        status = file_write(file, dump, strlen(dump), 0, e);
    free(dump);
    json_decref(o);
    return status;
}

static void said_differently(const struct suite_run *a, const struct suite_run *b, bool quiet)
{
    if (quiet) return;
    if (strcmp(a->release, b->release) != 0)
        printf("the runs are of torch_npu %s and %s\n", a->release, b->release);
    if (a->kind != b->kind)
        printf("the runs are on %s and %s devices\n", device_kind_name(a->kind), device_kind_name(b->kind));
    if (strcmp(a->lock, b->lock) != 0 && !strcmp(a->release, b->release))
        printf("the runs are in environments with other packages\n");
}

int cmd_diff(int argc, char **argv)
{
    const char *json = NULL;
    int64_t percent = 100, least = 1000;
    const struct opt opts[] = {
        {0, "slower", OPT_INT, &percent, "PERCENT", "more than this much slower (100)"},
        {0, "at-least", OPT_INT, &least, "MS", "and at least this much (1000)"},
        {0, "json", OPT_STRING, &json, "FILE", "the changes as JSON; - is standard output"},
        {0}};
    opt_parse(&argc, argv,
              &(struct usage){"diff RUN RUN [options]",
                              "What changed from the first run to the second: new failures, fixed, other "
                              "verdicts and reasons, slower, "
                              "gone, new. Exit status 1 when there are new failures.",
                              opts});
    if (argc != 3) die("diff: give two runs, as `concord runs` prints them");
    struct store s[2];
    struct suite_run r[2];
    struct err e;
    for (int i = 0; i < 2; i++)
        if (runref_load(argv[1 + i], &s[i], &r[i], &e)) return err_report(&e);
    struct limits l = {1.0 + (double)percent / 100.0, (double)least};
    said_differently(&r[0], &r[1], json && !strcmp(json, "-"));
    json_t *all = changes(&r[0], &r[1], &l);
    int code = json_array_size(json_array_get(all, CHANGE_BROKEN)) ? EXIT_FINDINGS : EXIT_OK;
    if (!json)
        print_changes(all);
    else if (write_changes(all, json, &e))
        code = err_report(&e);
    json_decref(all);
    for (int i = 0; i < 2; i++) {
        suite_run_free(&r[i]);
        store_close(&s[i]);
    }
    return code;
}
