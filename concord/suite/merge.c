/* merge.c - one run out of shards. */
#include "concord/suite/merge.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct copying {
    struct store *to;
    struct suite_case *c;
    struct err *e;
    int status;
};

static void copy_output(void *context, int attempt, const char *output, const char *stack, const char *trace)
{
    struct copying *x = context;
    if (x->status) return;
    struct suite_case with = {.id = x->c->id,
                              .attempts = attempt,
                              .output = (char *)output,
                              .stack = (char *)stack,
                              .trace = (char *)trace};
    x->status = store_output(x->to, &with, x->e);
}

static int copy_cases(struct store *to, struct store *from, struct suite_unit *u, struct suite_unit *into,
                      struct map *seen, struct err *e)
{
    for (size_t i = 0; i < u->cases.len; i++) {
        struct suite_case *c = u->cases.ptr[i];
        int64_t old = c->id;
        char *name = suite_case_name(c);
        bool twice = map_has(seen, name);
        *map_put(seen, name) = seen;
        if (twice) {
            err_set(e, "%s: %s is in another of the journals too", from->sql.path, name);
            free(name);
            return -1;
        }
        free(name);
        c->unit = into;
        struct copying x = {.to = to, .c = c, .e = e};
        x.status = store_new_case(to, c, e) || store_case(to, c, e) ? -1 : 0;
        if (x.status || store_read_output(from, old, copy_output, &x, e) || x.status) return -1;
    }
    return 0;
}

static struct suite_unit *same_unit(struct suite_run *r, const struct suite_unit *u)
{
    for (size_t i = 0; i < r->units.len; i++)
        if (r->units.ptr[i]->side == u->side && !strcmp(r->units.ptr[i]->name, u->name) &&
            !strcmp(r->units.ptr[i]->suite, u->suite))
            return r->units.ptr[i];
    return NULL;
}

static struct suite_unit *copy_unit(struct suite_run *r, const struct suite_unit *u)
{
    struct suite_unit *copy = suite_unit_new(r);
    *copy = (struct suite_unit){.side = u->side,
                                .name = xstrdup(u->name),
                                .suite = xstrdup(u->suite),
                                .digest = xstrdup(u->digest),
                                .error = xstrdup(u->error),
                                .spec = json_deep_copy(u->spec),
                                .patch = json_deep_copy(u->patch),
                                .forkable = u->forkable};
    return copy;
}

static void begin_like(struct suite_run *to, const struct suite_run *from)
{
    *to = (struct suite_run){.name = xstrdup(from->name),
                             .command = xstrdup(from->command),
                             .options = xstrdup(from->options),
                             .finished = xstrdup(""),
                             .shard = xstrdup(""),
                             .release = xstrdup(from->release),
                             .env = xstrdup(from->env),
                             .lock = xstrdup(from->lock),
                             .host = json_deep_copy(from->host),
                             .kind = from->kind};
    for (int s = 0; s < SIDES; s++) to->hello[s] = json_deep_copy(from->hello[s]);
}

static int check_like(const struct suite_run *to, const struct suite_run *from, const char *path,
                      struct err *e)
{
    const struct {
        const char *what, *a, *b;
    } same[] = {{"release", to->release, from->release}, {"environment", to->lock, from->lock}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (strcmp(same[i].a, same[i].b) != 0)
            return err_set(e, "%s: of another %s than the first journal", path, same[i].what);
    /* A shard whose part was empty had no device to see. */
    if (from->kind != KIND_NONE && to->kind != KIND_NONE && from->kind != to->kind)
        return err_set(e, "%s: of another kind of device (%s) than the first journal (%s)", path,
                       device_kind_name(from->kind), device_kind_name(to->kind));
    return 0;
}

static int merge_one(struct store *to, struct suite_run *merged, const char *path, struct map *seen,
                     bool *finished, struct err *e)
{
    struct store s;
    struct suite_run r;
    int64_t last;
    if (store_open_readonly(&s, path, e) || store_last(&s, &last, e)) return -1;
    if (!last) return err_set(e, "%s: holds no run", path);
    int status = store_load(&s, last, &r, e);
    if (!status && !merged->name) {
        begin_like(merged, &r);
        status = store_begin(to, merged, e);
    }
    if (!status) status = check_like(merged, &r, path, e);
    for (int side = 0; side < SIDES && !status; side++)
        if (!merged->hello[side]) merged->hello[side] = json_deep_copy(r.hello[side]);
    if (!status && merged->kind == KIND_NONE) merged->kind = r.kind;
    for (size_t i = 0; i < r.units.len && !status; i++) {
        struct suite_unit *u = r.units.ptr[i], *into = same_unit(merged, u);
        bool fresh = !into;
        if (fresh) into = copy_unit(merged, u);
        into->state = UNIT_COLLECTED;
        if (fresh) status = store_unit(to, merged, into, e);
        if (!status) status = copy_cases(to, &s, u, into, seen, e);
        into->state = UNIT_DONE;
        if (!status) status = store_unit(to, merged, into, e);
    }
    *finished &= !status && *r.finished;
    suite_run_free(&r);
    store_close(&s);
    return status;
}

int merge_journals(const char *to, const strings *from, struct err *e)
{
    struct store s;
    struct suite_run merged = {0};
    struct map seen = {0};
    bool finished = true;
    if (path_exists(to)) return err_set(e, "%s: is there already: name a new file", to);
    int status = store_open(&s, to, false, e);
    for (size_t i = 0; i < from->len && !status; i++)
        status = merge_one(&s, &merged, from->ptr[i], &seen, &finished, e);
    if (!status && finished) {
        char now[32];
        now_iso(now);
        free(merged.finished);
        merged.finished = xstrdup(now);
    }
    if (!status) status = store_run(&s, &merged, e);
    if (!status) status = store_commit(&s, e);
    store_close(&s);
    map_free(&seen, NULL);
    if (merged.name) suite_run_free(&merged);
    if (status) unlink(to);
    return status;
}
