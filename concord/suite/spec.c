/* spec.c - from an operand to units: rows, files, digests, packages. */
#include "concord/suite/spec.h"
#include "concord/env/env.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct suite_row rows[] = {
#define X(name, engine, torch, each, sub, packages, meaning)                                                 \
    {#name, engine, torch, each, sub, packages, meaning},
    SUITES(X)
#undef X
};
enum { NROWS = sizeof rows / sizeof *rows };

const struct suite_row *suite_rows(size_t *n)
{
    *n = NROWS;
    return rows;
}

static const struct suite_row *row_named(const char *name, size_t n)
{
    for (size_t i = 0; i < NROWS; i++)
        if (strlen(rows[i].name) == n && !memcmp(rows[i].name, name, n)) return &rows[i];
    return NULL;
}

static int unknown_suite(const char *operand, struct err *e)
{
    const char *names[NROWS];
    for (size_t i = 0; i < NROWS; i++) names[i] = rows[i].name;
    char *name = xstrndup(operand, strcspn(operand, ":"));
    const char *nearest = str_nearest(name, names, NROWS);
    free(name);
    if (nearest) return err_set(e, "%s: no such suite or folder: did you mean '%s'?", operand, nearest);
    return err_set(e,
                   "%s: no such suite or folder: give a folder of tests, or pytest:, unittest:, upstream:, "
                   "plugin:, torchcts: and "
                   "a folder",
                   operand);
}

int spec_find(const char *operand, const struct suite_row **row, char **folder, struct err *e)
{
    size_t n = strcspn(operand, ":");
    *row = row_named(operand, n);
    if (!*row && !path_exists(operand)) return unknown_suite(operand, e);
    const char *path = *row ? operand + n + (operand[n] == ':') : operand;
    if (!*row) *row = row_named("pytest", strlen("pytest"));
    *folder = realpath(*path ? path : ".", NULL);
    return *folder ? 0 : err_set(e, "%s: %s", path, strerror(errno));
}

/* ---- files ----------------------------------------------------------------------------------------------
 */

static bool is_test_file(const char *name)
{
    return str_ends(name, ".py") && (str_starts(name, "test_") || str_ends(name, "_test.py"));
}

static bool chosen(const strings *patterns, const char *name)
{
    if (!patterns->len) return true;
    for (size_t i = 0; i < patterns->len; i++)
        if (!fnmatch(patterns->ptr[i], name, 0)) return true;
    return false;
}

/* Names below root, depth first, folders and files in the order of their names. */
static int find_files(const char *root, const char *below, const strings *patterns, strings *out,
                      struct err *e)
{
    char *folder = *below ? path_join(root, below) : xstrdup(root);
    strings names = {0};
    int status = dir_list(folder, &names, e);
    for (size_t i = 0; i < names.len && !status; i++) {
        const char *name = names.ptr[i];
        if (name[0] == '.' || !strcmp(name, "__pycache__")) continue;
        char *path = path_join(folder, name), *inner = *below ? path_join(below, name) : xstrdup(name);
        if (path_is_dir(path))
            status = find_files(root, inner, patterns, out, e);
        else if (is_test_file(name) && chosen(patterns, inner))
            *vec_push(out) = xstrdup(inner);
        free(path);
        free(inner);
    }
    strings_free(&names);
    free(folder);
    return status;
}

/* ---- digests --------------------------------------------------------------------------------------------
 */

static void add_file(struct buf *b, const char *path)
{
    char digest[65];
    if (path_exists(path) && !sha256_file(path, digest, NULL)) buf_addf(b, "%s %s\n", digest, path);
}

/* Of the file, every conftest from its folder up to the root, the arguments and the salt. Owned. */
static char *digest_of(const struct spec_request *q, enum side side, const char *root, const char *name)
{
    struct buf b = BUF_INIT;
    char *file = path_join(root, name), digest[65];
    buf_addf(&b, "%s\n%s\n%s\n", q->salt, side_name(side), name);
    for (size_t i = 0; i < q->args->len; i++) buf_addf(&b, "%s\n", q->args->ptr[i]);
    add_file(&b, file);
    for (char *slash; (slash = strrchr(file, '/')) && strlen(file) > strlen(root);) {
        *slash = '\0';
        char *conftest = path_join(file, "conftest.py");
        add_file(&b, conftest);
        free(conftest);
    }
    sha256_hex(b.ptr, b.len, digest);
    buf_free(&b);
    free(file);
    return xstrdup(digest);
}

/* ---- units ----------------------------------------------------------------------------------------------
 */

static json_t *path_json(const strings *sites)
{
    json_t *path = json_array();
    for (size_t i = 0; i < sites->len; i++) json_array_append_new(path, json_string(sites->ptr[i]));
    return path;
}

static void add_unit(const struct spec_request *q, const struct suite_row *row, struct suite_run *r,
                     enum side side, const char *root, const char *name, json_t *args)
{
    struct suite_unit *u = suite_unit_new(r);
    u->side = side;
    u->name = xstrdup(name);
    u->suite = xstrdup(q->operand);
    u->digest = row->each_file ? digest_of(q, side, root, name) : xstrdup("");
    u->error = xstrdup("");
    for (size_t i = 0; i < q->args->len; i++) json_array_append_new(args, json_string(q->args->ptr[i]));
    u->spec = json_pack("{s:s, s:o, s:s, s:o}", "engine", row->engine, "args", args, "folder", root, "path",
                        path_json(q->sites));
    char *file = path_join(root, name), sha[65];
    if (row->each_file && !sha256_file(file, sha, NULL))
        json_object_set_new(u->spec, "sha256", json_string(sha));
    free(file);
}

static json_t *file_args(const struct suite_row *row, const char *root, const char *name)
{
    char *file = path_join(root, name);
    json_t *args = json_pack("[s]", file);
    free(file);
    if (!strcmp(row->engine, "pytest")) {
        const char *const fixed[] = {"-c", "/dev/null", "--rootdir", root};
        for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
            json_array_append_new(args, json_string(fixed[i]));
    }
    return args;
}

static const char *root_of(const struct spec_request *q, enum side side, const char *folder)
{
    return side == SIDE_DEVICE && q->patched ? q->patched : folder;
}

static int units_of_files(const struct spec_request *q, const struct suite_row *row, struct suite_run *r,
                          const char *folder, struct err *e)
{
    int status = 0;
    for (int side = 0; side < (q->cpu ? SIDES : 1) && !status; side++) {
        char *root = path_join(root_of(q, (enum side)side, folder), row->subfolder);
        char *real = realpath(root, NULL);
        strings files = {0};
        status =
            real ? find_files(real, "", q->files, &files, e) : err_set(e, "%s: %s", root, strerror(errno));
        if (!status && !files.len)
            status = err_set(e, "%s: no test file there%s (test_*.py, *_test.py)", real,
                             q->files->len ? " that --files chooses" : "");
        for (size_t i = 0; i < files.len; i++)
            add_unit(q, row, r, (enum side)side, real, files.ptr[i], file_args(row, real, files.ptr[i]));
        strings_free(&files);
        free(real);
        free(root);
    }
    return status;
}

static int unit_of_file(const struct spec_request *q, const struct suite_row *row, struct suite_run *r,
                        char *file)
{
    char *slash = strrchr(file, '/');
    const char *name = slash + 1;
    *slash = '\0';
    for (int side = 0; side < (q->cpu ? SIDES : 1); side++)
        add_unit(q, row, r, (enum side)side, file, name, file_args(row, file, name));
    return 0;
}

/* TorchCTS finds its own tests beside its conftest; its manifest is read from the working folder. */
static const char *const torchcts_parts[] = {"opinfo",     "operators", "training",     "compiler",
                                             "device_api", "autograd",  "memory",       "dtypes",
                                             "strides",    "workloads", "rng",          "serialization",
                                             "errors",     "stress",    "multi_device", "generated"};

static int whole_unit(const struct spec_request *q, const struct suite_row *row, struct suite_run *r,
                      const char *folder, struct err *e)
{
    json_t *args = json_array();
    if (!strcmp(row->name, "torchcts")) {
        for (size_t i = 0; i < sizeof torchcts_parts / sizeof *torchcts_parts; i++) {
            char *part = xformat("%s/torchcts/%s", q->sites->len ? q->sites->ptr[0] : ".", torchcts_parts[i]);
            if (path_is_dir(part)) json_array_append_new(args, json_string(part));
            free(part);
        }
        if (!json_array_size(args)) {
            json_decref(args);
            return err_set(e, "torchcts: not in %s: give the folder it is installed in with --site",
                           q->sites->len ? q->sites->ptr[0] : "any --site");
        }
    }
    for (int side = 0; side < (q->cpu ? SIDES : 1); side++)
        add_unit(q, row, r, (enum side)side, folder, row->name, json_deep_copy(args));
    json_decref(args);
    return 0;
}

int spec_units(const struct spec_request *q, struct suite_run *r, struct err *e)
{
    const struct suite_row *row;
    char *folder;
    if (spec_find(q->operand, &row, &folder, e)) return -1;
    int status;
    if (!row->each_file)
        status = whole_unit(q, row, r, folder, e);
    else if (!path_is_dir(folder))
        status = unit_of_file(q, row, r, folder);
    else
        status = units_of_files(q, row, r, folder, e);
    free(folder);
    return status;
}

/* ---- packages -------------------------------------------------------------------------------------------
 */

static void split_words(const char *text, strings *out)
{
    while (*text) {
        size_t n = strcspn(text, " ");
        if (n) *vec_push(out) = xstrndup(text, n);
        text += n + (text[n] == ' ');
    }
}

static int install(const struct suite_row *row, const char *python, const char *target, struct err *e)
{
    char *uv = env_find_uv(true, e);
    if (!uv) return -1;
    strings words = {0};
    VEC(const char *) argv = {0};
    const char *const fixed[] = {uv,         "pip",  "install",  "-q",  "--no-deps",
                                 "--python", python, "--target", target};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) *vec_push(&argv) = fixed[i];
    split_words(row->packages, &words);
    for (size_t i = 0; i < words.len; i++) *vec_push(&argv) = words.ptr[i];
    *vec_push(&argv) = NULL;
    struct proc_result p;
    int status = proc_run(&(struct proc_spec){.argv = argv.ptr, .timeout_ms = 600000, .merge = true}, &p, e);
    if (!status && p.status)
        status = err_set(
            e, "%s: its packages (%s) could not be installed: %.*s: give a folder that has them with --site",
            row->name, row->packages, (int)strcspn(buf_str(&p.out), "\n"), buf_str(&p.out));
    proc_result_free(&p);
    vec_free(&argv);
    strings_free(&words);
    free(uv);
    return status;
}

char *spec_site(const struct suite_row *row, const char *python, struct err *e)
{
    if (!*row->packages) return xstrdup("");
    char digest[65], *home = concord_home(), *key = xformat("%s\n%s", row->packages, python);
    sha256_hex(key, strlen(key), digest);
    char *site = xformat("%s/sites/%s-%.12s", home, row->name, digest), *part = xformat("%s.part", site);
    char *lock = xformat("%s.lock", site), *folder = path_join(home, "sites");
    int status = dir_make(folder, e), held = -1;
    if (!status && (held = file_lock(lock, true, e)) < 0) status = -1;
    if (!status && !path_is_dir(site)) {
        status = tree_remove(part, e);
        if (!status) status = install(row, python, part, e);
        if (!status && rename(part, site)) status = err_set(e, "%s: %s", site, strerror(errno));
    }
    if (held >= 0) close(held);
    char *owned[] = {home, key, part, lock, folder};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
    if (!status) return site;
    free(site);
    return NULL;
}
