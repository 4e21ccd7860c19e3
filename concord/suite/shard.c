/* shard.c - choosing cases before they are run. */
#include "concord/suite/shard.h"

#include <stdlib.h>
#include <string.h>

enum { UNKNOWN_MS = 100 }; /* of a case that no recorded run had */

/* ---- filters and repetition ------------------------------------------------------------------------------
 */

static int names_of_last_run(struct selection *x, const char *text, struct store *s, struct err *e)
{
    int64_t last;
    struct suite_run run;
    bool failed = !strcmp(text, "failed");
    struct filter *f = failed ? NULL : filter_parse(text, e);
    if ((!failed && !f) || store_last(s, &last, e)) return -1;
    if (!last) return err_set(e, "--rerun: %s has no run yet", s->sql.path);
    if (store_load(s, last, &run, e)) return -1;
    for (size_t i = 0; i < run.units.len; i++) {
        const struct suite_unit *u = run.units.ptr[i];
        for (size_t k = 0; k < u->cases.len; k++) {
            const struct suite_case *c = u->cases.ptr[k];
            if (failed ? !verdict_is_bad(c->verdict) : !filter_match(f, c)) continue;
            char *name = suite_case_name(c);
            *map_put(&x->rerun, name) = x;
            free(name);
        }
    }
    suite_run_free(&run);
    filter_free(f);
    x->has_rerun = true;
    return x->rerun.entries.len
               ? 0
               : err_set(e, "--rerun %s: nothing in the last run of %s matches", text, s->sql.path);
}

int selection_open(struct selection *x, const char *only, const char *rerun, struct store *s, struct err *e)
{
    *x = (struct selection){0};
    if (only && !(x->only = filter_parse(only, e))) return -1;
    return rerun ? names_of_last_run(x, rerun, s, e) : 0;
}

void selection_free(struct selection *x)
{
    filter_free(x->only);
    map_free(&x->rerun, NULL);
    map_free(&x->shard, NULL);
    *x = (struct selection){0};
}

bool selection_active(const struct selection *x)
{
    return x->only || x->has_rerun || x->has_shard;
}

bool selection_wants(void *context, const struct suite_case *c)
{
    const struct selection *x = context;
    if (!filter_match(x->only, c)) return false;
    if (!x->has_rerun && !x->has_shard) return true;
    char *name = suite_case_name(c);
    bool yes = (!x->has_rerun || map_has(&x->rerun, name)) && (!x->has_shard || map_has(&x->shard, name));
    free(name);
    return yes;
}

/* The digests themselves hold the release and the arguments, which options_text compares already; here the
 * files. */
int selection_unchanged(const struct suite_run *r, struct err *e)
{
    for (size_t i = 0; i < r->units.len; i++) {
        const struct suite_unit *u = r->units.ptr[i];
        const char *folder = json_string_value(json_object_get(u->spec, "folder"));
        const char *planned = json_string_value(json_object_get(u->spec, "sha256"));
        if (!planned || !*planned || u->state == UNIT_DONE) continue;
        char *path = path_join(folder, u->name), digest[65] = "";
        bool same = !sha256_file(path, digest, NULL) && !strcmp(digest, planned);
        free(path);
        if (!same)
            return err_set(
                e, "%s: changed since the run that would be resumed (%s): start a new one without --resume",
                u->name, r->started);
    }
    return 0;
}

/* ---- shards ----------------------------------------------------------------------------------------------
 */

int shard_parse(const char *text, int *part, int *parts, struct err *e)
{
    char *end;
    long a = strtol(text, &end, 10), b = 0;
    bool ok = end != text && *end == '/';
    if (ok) {
        const char *second = end + 1;
        b = strtol(second, &end, 10);
        ok = end != second && !*end && b >= 1 && b <= 100000 && a >= 1 && a <= b;
    }
    if (!ok) return err_set(e, "--shard %s: expected I/N with 1 <= I <= N, e.g. 2/5", text);
    *part = (int)a;
    *parts = (int)b;
    return 0;
}

/* Recorded milliseconds by case name, from the newest run that has anything done. */
static void recorded_times(struct store *s, int64_t below, struct map *times)
{
    for (int64_t id = below - 1; id > 0 && !times->entries.len; id--) {
        struct suite_run run;
        if (store_load(s, id, &run, NULL)) continue;
        for (size_t i = 0; i < run.units.len; i++) {
            for (size_t k = 0; k < run.units.ptr[i]->cases.len; k++) {
                const struct suite_case *c = run.units.ptr[i]->cases.ptr[k];
                if (c->state != TEST_DONE) continue;
                char *name = suite_case_name(c);
                void **slot = map_put(times, name);
                if (!*slot) *slot = xcalloc(1, sizeof(double));
                *(double *)*slot = c->ms;
                free(name);
            }
        }
        suite_run_free(&run);
    }
}

static double time_of(const struct map *times, const char *name)
{
    const double *ms = map_get(times, name);
    return 5 + (ms ? *ms : UNKNOWN_MS); /* a case of no time at all is work too */
}

/* Contiguous parts: at most N - 1 files are split, and each part collects few files. */
static json_t *divide(const struct suite_run *r, const struct map *times, const struct selection *x,
                      int parts)
{
    double total = 0, before = 0;
    json_t *all = json_array();
    for (int i = 0; i < parts; i++) json_array_append_new(all, json_array());
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < r->units.len; i++) {
            for (size_t k = 0; k < r->units.ptr[i]->cases.len; k++) {
                const struct suite_case *c = r->units.ptr[i]->cases.ptr[k];
                if (!selection_wants((void *)x, c)) continue;
                char *name = suite_case_name(c);
                double ms = time_of(times, name);
                int part = pass ? (int)((before + ms / 2) / total * parts) : 0;
                if (pass)
                    json_array_append_new(json_array_get(all, (size_t)(part < parts ? part : parts - 1)),
                                          json_string(name));
                *(pass ? &before : &total) += ms;
                free(name);
            }
        }
    }
    return all;
}

/* A run of its own that only collects, in a journal beside the real one. */
static int collect(struct sched *s, struct suite_run *all, struct err *e)
{
    struct store store;
    struct suite_run plan = {0};
    struct monitor quiet;
    char *path = xformat("%s.collect", s->store->sql.path);
    int status = store_open(&store, path, true, e);
    for (size_t i = 0; !status && i < s->run->units.len; i++) {
        const struct suite_unit *u = s->run->units.ptr[i];
        struct suite_unit *copy = suite_unit_new(&plan);
        *copy = (struct suite_unit){.side = u->side,
                                    .name = xstrdup(u->name),
                                    .suite = xstrdup(u->suite),
                                    .digest = xstrdup(u->digest),
                                    .error = xstrdup(""),
                                    .spec = json_deep_copy(u->spec),
                                    .forkable = true};
        json_t *nodes = *u->digest ? store_cache_get(&store, u->digest) : NULL, *node;
        size_t k;
        json_array_foreach(nodes, k, node) suite_case_new(copy, json_string_value(node));
        if (nodes) copy->state = UNIT_COLLECTED;
        json_decref(nodes);
    }
    char **texts[] = {&plan.name,  &plan.command, &plan.options, &plan.started, &plan.finished,
                      &plan.shard, &plan.release, &plan.env,     &plan.lock};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) *texts[i] = xstrdup("");
    if (!status) status = store_begin(&store, &plan, e);
    for (size_t i = 0; !status && i < plan.units.len; i++)
        for (size_t k = 0; !status && k < plan.units.ptr[i]->cases.len; k++)
            status = store_new_case(&store, plan.units.ptr[i]->cases.ptr[k], e);
    struct sched one = *s;
    one.store = &store;
    one.run = &plan;
    one.wanted = NULL;
    one.expect = NULL;
    one.collect_only = true;
    one.monitor = &quiet;
    monitor_begin(&quiet, &plan, true, NULL);
    if (!status) status = sched_run(&one, e);
    if (status == 1) status = err_set(e, "interrupted while tests were collected for the shards");
    store_close(&store);
    free(path);
    *all = plan;
    return status;
}

static int make_plan(struct sched *s, const struct selection *x, int parts, json_t **out, struct err *e)
{
    struct suite_run all;
    struct map times = {0};
    int status = collect(s, &all, e);
    if (!status) {
        recorded_times(s->store, s->run->id, &times);
        *out = divide(&all, &times, x, parts);
    }
    suite_run_free(&all);
    map_free(&times, free);
    return status;
}

int shard_plan(struct sched *s, struct selection *x, const char *text, const char *plan, struct err *e)
{
    int part, parts, status = 0;
    json_t *all = NULL, *name;
    if (shard_parse(text, &part, &parts, e)) return -1;
    if (plan && path_exists(plan)) all = json_load_file(plan, 0, NULL);
    if (all && json_array_size(all) != (size_t)parts)
        status = err_set(e, "%s: a plan of %zu parts, not %d", plan, json_array_size(all), parts);
    if (!all) status = make_plan(s, x, parts, &all, e);
    if (!status && plan && !path_exists(plan)) {
        char *json = json_dumps(all, JSON_COMPACT);
        status = file_write(plan, json, strlen(json), 0, e);
        free(json);
    }
    size_t i;
    json_array_foreach(json_array_get(all, (size_t)part - 1), i, name) *
        map_put(&x->shard, json_string_value(name)) = x;
    json_decref(all);
    x->has_shard = true;
    s->wanted = selection_wants;
    s->context = x;
    return status;
}
