/* env.c - concord env create|list|path|remove. */
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"
#include "concord/env/env.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef VEC(struct env_spec) specs;

static void free_specs(specs *s)
{
    for (size_t i = 0; i < s->len; i++) env_spec_free(&s->ptr[i]);
    vec_free(s);
}

static bool names_file(const char *s)
{
    return str_ends(s, ".yaml") || str_ends(s, ".yml") || strchr(s, '/');
}

static int add_campaign(const char *path, const strings *releases, specs *out, struct err *e)
{
    struct campaign c;
    if (campaign_load(path, &c, e)) return -1;
    int rc = campaign_select(&c, releases, NULL, e);
    for (size_t i = 0; !rc && i < c.releases.len; i++) env_spec_campaign(&c.releases.ptr[i], vec_push(out));
    campaign_free(&c);
    return rc;
}

static int add_release(const char *name, specs *out, struct err *e)
{
    struct env_spec s;
    if (env_spec_known(name, &s, e)) return -1;
    *vec_push(out) = s;
    return 0;
}

static int finish(int rc, const struct err *e)
{
    return rc ? err_report(e) : EXIT_OK;
}

/* ---- create -------------------------------------------------------------------------------------------- */

static int run_create(int argc, char **argv)
{
    bool full = false, offline = false, force = false, quiet = false;
    strings links = {0}, releases = {0};
    const char *index = NULL;
    int64_t jobs = 0;
    const struct opt opts[] = {
        {0, "versions", OPT_LIST, &releases, "V,...", "only these releases of the campaign"},
        {'f', "find-links", OPT_LIST, &links, "DIR,...",
         "folders of wheels, looked at first (or CONCORD_WHEELS)"},
        {0, "offline", OPT_FLAG, &offline, NULL, "only those folders, no package index"},
        {0, "index", OPT_STRING, &index, "URL",
         "a further index, e.g. one with CPU wheels (or CONCORD_INDEX)"},
        {0, "full", OPT_FLAG, &full, NULL, "keep torch's CUDA libraries, 0.7 to 1.2 GB more each"},
        {0, "force", OPT_FLAG, &force, NULL, "make it again even if it is ready"},
        {'j', "jobs", OPT_INT, &jobs, "N", "how many at a time (2)"},
        {'q', "quiet", OPT_FLAG, &quiet, NULL, "no progress"},
        {0},
    };
    opt_parse(&argc, argv,
              &(struct usage){"env create CAMPAIGN_OR_RELEASE... [options]",
                              "Make an isolated environment for each release, unless it is ready.", opts});
    if (argc < 2) die("env create: name a campaign file or a release, e.g. `concord env create 2.12.0`");
    if (jobs < 0 || jobs > 16) die("env create: --jobs wants 1 to 16");
    specs s = {0};
    struct err e;
    int rc = 0;
    for (int i = 1; !rc && i < argc; i++)
        rc = names_file(argv[i]) ? add_campaign(argv[i], &releases, &s, &e) : add_release(argv[i], &s, &e);
    struct env_options o = {.mode = full ? TRIM_FULL : TRIM_SLIM,
                            .find_links = &links,
                            .index = index,
                            .offline = offline,
                            .force = force,
                            .jobs = (int)jobs,
                            .quiet = quiet};
    proc_catch_signals();
    if (!rc) rc = env_create(s.ptr, s.len, &o, &e);
    free_specs(&s);
    strings_free(&links);
    strings_free(&releases);
    return finish(rc, &e);
}

/* ---- list ---------------------------------------------------------------------------------------------- */

static void look(const char *name, struct env_info *info)
{
    struct env_spec s;
    struct err ignored;
    bool known = !env_spec_known(name, &s, &ignored);
    env_look(name, known ? &s : NULL, info);
    if (known) env_spec_free(&s);
}

static json_t *info_json(const char *name, const struct env_info *i)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:s?, s:s?, s:s?, s:s?, s:s?, s:s?}", "name", name, "state",
                          env_state_names[i->state], "folder", i->folder, "torch", i->torch, "torch_npu",
                          i->torch_npu, "python", i->python, "mode", i->mode, "created", i->created,
                          "stale_because", i->why);
    json_t *packages = json_array();
    for (size_t k = 0; k < i->packages.len; k++) {
        const struct env_package *p = &i->packages.ptr[k];
        json_array_append_new(packages, json_pack("{s:s?, s:s?, s:s?, s:s?}", "name", p->name, "version",
                                                  p->version, "wheel", p->wheel, "sha256", p->sha256));
    }
    json_object_set_new(o, "packages", packages);
    return o;
}

static void print_line(const char *name, const struct env_info *i)
{
    printf("%-14s %-6s torch %-8s torch_npu %-14s python %-8s %-5s %s\n", name, env_state_names[i->state],
           i->torch ? i->torch : "?", i->torch_npu ? i->torch_npu : "?", i->python ? i->python : "?",
           i->mode ? i->mode : "?", i->why ? i->why : i->folder);
}

static int write_json(const char *path, json_t *value, struct err *e)
{
    char *text = json_dumps(value, JSON_INDENT(2));
    int rc =
        text ? file_write(path, text, strlen(text), 0, e) : err_set(e, "cannot print JSON for '%s'", path);
    free(text);
    return rc;
}

static int run_list(int argc, char **argv)
{
    const char *json = NULL;
    const struct opt opts[] = {
        {0, "json", OPT_STRING, &json, "FILE", "write the list as JSON, with every wheel's hash"}, {0}};
    opt_parse(&argc, argv,
              &(struct usage){"env list [options]", "List the environments that were made.", opts});
    if (argc > 1) die("env list: no arguments, but '%s' was given", argv[1]);
    strings names = {0};
    struct err e;
    json_t *list = json_array();
    int rc = env_list(&names, &e);
    for (size_t i = 0; i < names.len; i++) {
        struct env_info info;
        look(names.ptr[i], &info);
        print_line(names.ptr[i], &info);
        json_array_append_new(list, info_json(names.ptr[i], &info));
        env_info_free(&info);
    }
    if (!rc && json) rc = write_json(json, list, &e);
    json_decref(list);
    strings_free(&names);
    return finish(rc, &e);
}

/* ---- path, remove -------------------------------------------------------------------------------------- */

/* A release of the table, or the name of an environment that a campaign made. */
static char *folder_of(const char *name, struct err *e)
{
    struct env_spec s;
    if (!env_spec_known(name, &s, e)) {
        char *folder = env_folder(&s, e);
        env_spec_free(&s);
        return folder;
    }
    struct env_info info;
    char *folder = NULL;
    if (*name && *name != '.' && !strchr(name, '/')) {
        env_look(name, NULL, &info);
        if (info.state == ENV_READY)
            folder = xstrdup(info.folder);
        else if (info.state == ENV_STALE)
            err_set(e, "environment '%s' is stale: %s", info.folder, info.why);
        env_info_free(&info);
    }
    return folder;
}

static int run_path(int argc, char **argv)
{
    const struct opt opts[] = {{0}};
    opt_parse(&argc, argv,
              &(struct usage){"env path RELEASE",
                              "Print an environment's folder: its interpreter is bin/python.", opts});
    if (argc != 2) die("env path: one release, e.g. `concord env path 2.12.0`");
    struct err e;
    char *folder = folder_of(argv[1], &e);
    if (!folder) return err_report(&e);
    puts(folder);
    free(folder);
    return EXIT_OK;
}

static int run_remove(int argc, char **argv)
{
    bool all = false;
    const struct opt opts[] = {{0, "all", OPT_FLAG, &all, NULL, "remove every environment"}, {0}};
    opt_parse(&argc, argv, &(struct usage){"env remove RELEASE... [options]", "Remove environments.", opts});
    if (argc < 2 && !all) die("env remove: name a release, or --all");
    strings names = {0};
    struct err e;
    int rc = all ? env_list(&names, &e) : 0;
    for (int i = 1; !all && i < argc; i++) *vec_push(&names) = xstrdup(argv[i]);
    for (size_t i = 0; !rc && i < names.len; i++) rc = env_remove(names.ptr[i], &e);
    strings_free(&names);
    return finish(rc, &e);
}

/* ---- dispatch ------------------------------------------------------------------------------------------ */

static const struct {
    const char *name, *full_name;
    int (*run)(int argc, char **argv);
    const char *summary;
} actions[] = {
    {"create", "env create", run_create, "make an isolated environment for each release, unless it is ready"},
    {"list", "env list", run_list, "list the environments that were made"},
    {"path", "env path", run_path, "print an environment's folder: its interpreter is bin/python"},
    {"remove", "env remove", run_remove, "remove environments"},
};
enum { NACTIONS = sizeof actions / sizeof *actions };

static void print_help(FILE *to)
{
    fputs("usage: concord env ACTION [options]\n\nIsolated environments, one per release.\n\n", to);
    for (int i = 0; i < NACTIONS; i++) fprintf(to, "  %-8s %s\n", actions[i].name, actions[i].summary);
    fputs("\n`concord env ACTION --help` describes one action.\n", to);
}

int cmd_env(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        print_help(stdout);
        return EXIT_OK;
    }
    const char *names[NACTIONS];
    for (int i = 0; i < NACTIONS; i++) {
        names[i] = actions[i].name;
        if (strcmp(argv[1], actions[i].name)) continue;
        argv[1] = (char *)actions[i].full_name; /* what messages call it */
        return actions[i].run(argc - 1, argv + 1);
    }
    const char *nearest = str_nearest(argv[1], names, NACTIONS);
    if (nearest) die("env: unknown action '%s': did you mean '%s'?", argv[1], nearest);
    die("env: unknown action '%s': `concord env --help` lists them", argv[1]);
}
