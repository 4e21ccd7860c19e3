/* runs.c - concord runs: what was run, newest last. */
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"
#include "concord/suite/runref.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static json_t *one_run(const char *journal, const struct suite_run *r)
{
    struct suite_counts n;
    suite_count(r, NULL, SIDE_DEVICE, &n);
    int bad = 0;
    for (int v = 0; v < VERDICT_COUNT; v++)
        bad += verdict_is_bad((enum verdict)v) && v != VERDICT_NOT_RUN ? n.by[v] : 0;
    const char *base = base_name(journal);
    char *name = xformat("%.*s:%lld", (int)(strlen(base) - strlen(".db")), base, (long long)r->id);
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:s}", "run", name, "started",
                          r->started, "finished", r->finished, "release", r->release, "device",
                          device_kind_name(r->kind), "shard", r->shard, "tests", n.all, "done", n.done,
                          "passed", n.by[VERDICT_PASSED], "bad", bad, "command", r->command);
    free(name);
    return o;
}

static void list_journal(const char *path, json_t *out)
{
    struct store s;
    struct err e;
    int64_t last = 0;
    if (store_open_readonly(&s, path, &e) || store_last(&s, &last, &e)) {
        fprintf(stderr, "concord: %s\n", e.text);
        return;
    }
    for (int64_t id = 1; id <= last; id++) {
        struct suite_run r;
        if (store_load(&s, id, &r, NULL)) continue;
        json_array_append_new(out, one_run(path, &r));
        suite_run_free(&r);
    }
    store_close(&s);
}

static const char *text(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static void print_run(const json_t *o)
{
    printf("%-28s %s  %-10s %-8s %5lld tests, %lld passed, %lld bad%s  %s\n", text(o, "run"),
           text(o, "started"), text(o, "release"), text(o, "device"),
           json_integer_value(json_object_get(o, "tests")), json_integer_value(json_object_get(o, "passed")),
           json_integer_value(json_object_get(o, "bad")), *text(o, "finished") ? "" : ", not finished",
           text(o, "command"));
}

int cmd_runs(int argc, char **argv)
{
    const char *json = NULL, *journal = NULL;
    const struct opt opts[] = {
        {0, "journal", OPT_STRING, &journal, "FILE", "only this journal"},
        {0, "json", OPT_STRING, &json, "FILE", "the list as JSON; - is standard output"},
        {0}};
    opt_parse(&argc, argv,
              &(struct usage){"runs [options]", "Lists the runs of `concord test`, newest last.", opts});
    strings paths = {0};
    struct err e;
    if (journal)
        *vec_push(&paths) = xstrdup(journal);
    else if (runref_journals(&paths, &e))
        return err_report(&e);
    json_t *all = json_array(), *o;
    size_t i;
    for (i = 0; i < paths.len; i++) list_journal(paths.ptr[i], all);
    if (json) {
        char *dump = json_dumps(all, JSON_INDENT(1));
        int status = 0;
        if (!strcmp(json, "-"))
            puts(dump);
        else
            status = file_write(json, dump, strlen(dump), 0, &e);
        free(dump);
        if (status) return err_report(&e);
    } else {
        json_array_foreach(all, i, o) print_run(o);
    }
    json_decref(all);
    strings_free(&paths);
    return EXIT_OK;
}
