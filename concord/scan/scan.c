/* scan.c - files to call sites to tests; a tree, several files at a time. */
#include "concord/scan/match.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file that does not contain the last part of any API's name, nor an operator that stands for one, needs no
 * parse. */
static bool worth_parsing(const char *text, size_t len, const struct scan_api *apis, size_t napis)
{
    for (size_t i = 0; i < napis; i++)
        if (apis[i].operator_ || memmem(text, len, apis[i].leaf, strlen(apis[i].leaf))) return true;
    return false;
}

static void add_site(struct scan_file *out, struct scan_site site)
{
    *vec_push(&out->sites) = site;
}

static void find_sites(struct py_file *f, const struct scan_api *apis, size_t napis, struct scan_file *out)
{
    for (size_t i = 0; i < f->refs.len; i++) {
        const struct py_ref *r = &f->refs.ptr[i];
        for (uint32_t a = 0; a < napis; a++) {
            enum scan_match m = match_ref(f, r, &apis[a]);
            if (m == SCAN_NMATCH) continue;
            add_site(out,
                     (struct scan_site){a, m, r->call, r->at.row, r->at.start, r->at.end, r->scope, r->args});
        }
    }
    for (size_t i = 0; i < f->operators.len; i++) {
        const struct py_operator *o = &f->operators.ptr[i];
        for (uint32_t a = 0; a < napis; a++)
            if (apis[a].operator_ && !strcmp(apis[a].operator_, o->op))
                add_site(out, (struct scan_site){a, SCAN_OPERATOR, true, o->at.row, o->at.start, o->at.end,
                                                 o->scope, o->at});
    }
}

void scan_source(const char *path, const char *text, size_t len, const struct scan_api *apis, size_t napis,
                 struct scan_file *out)
{
    *out = (struct scan_file){0};
    if (!worth_parsing(text, len, apis, napis)) return;
    struct py_file *f = py_parse(path, text, len);
    out->model = f;
    out->path = f->path;
    out->note = f->note;
    find_sites(f, apis, napis, out);
    if (out->sites.len) reach_tests(f, napis, out);
}

void scan_file_free(struct scan_file *f)
{
    for (size_t i = 0; i < f->tests.len; i++) {
        vec_free(&f->tests.ptr[i].rows);
        free((char *)f->tests.ptr[i].path);
        free((char *)f->tests.ptr[i].asserts);
        free((char *)f->tests.ptr[i].keeps_off);
    }
    vec_free(&f->sites);
    vec_free(&f->tests);
    py_free(f->model);
    *f = (struct scan_file){0};
}

/* ---- trees ------------------------------------------------------------------------------------------- */

static int list_python(const char *root, const char *rel, strings *out, struct err *e)
{
    char *dir = path_join(root, rel);
    strings names = {0};
    int rc = dir_list(dir, &names, e);
    for (size_t i = 0; !rc && i < names.len; i++) {
        const char *name = names.ptr[i];
        char *below = *rel ? path_join(rel, name) : xstrdup(name);
        char *full = path_join(root, below);
        if (name[0] != '.' && path_is_dir(full))
            rc = list_python(root, below, out, e);
        else if (str_ends(name, ".py"))
            *vec_push(out) = xstrdup(below);
        free(full);
        free(below);
    }
    strings_free(&names);
    free(dir);
    return rc;
}

struct job {
    const char *root;
    const strings *paths;
    const struct scan_api *apis;
    size_t napis;
    struct scan_file *files; /* one per path */
    atomic_size_t next;
    atomic_ullong bytes;
    atomic_uint parsed, failed;
    struct err error; /* of the first file that could not be read */
};

static void *worker(void *arg)
{
    struct job *j = arg;
    struct buf text = BUF_INIT;
    size_t i;
    while ((i = atomic_fetch_add(&j->next, 1)) < j->paths->len) {
        struct err e;
        char *full = path_join(j->root, j->paths->ptr[i]);
        buf_clear(&text);
        if (file_read(full, &text, &e)) {
            if (!atomic_fetch_add(&j->failed, 1)) j->error = e;
        } else {
            scan_source(j->paths->ptr[i], buf_str(&text), text.len, j->apis, j->napis, &j->files[i]);
            atomic_fetch_add(&j->bytes, text.len);
            if (j->files[i].model) atomic_fetch_add(&j->parsed, 1);
        }
        free(full);
    }
    buf_free(&text);
    return NULL;
}

static void run_workers(struct job *j, int threads)
{
    pthread_t thread[64];
    int started = 0;
    while (started < threads - 1 && !pthread_create(&thread[started], NULL, worker, j)) started++;
    worker(j);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

int scan_tree(const char *root, const struct scan_api *apis, size_t napis, int threads,
              struct scan_result *out, struct err *e)
{
    *out = (struct scan_result){0};
    strings paths = {0};
    if (!path_is_dir(root))
        return err_set(e, "%s: no such folder: give the root of an upstream source tree", root);
    if (list_python(root, "", &paths, e)) return -1;
    if (threads <= 0) threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (threads > 64) threads = 64;
    struct job j = {.root = root, .paths = &paths, .apis = apis, .napis = napis};
    j.files = xcalloc(paths.len + 1, sizeof *j.files);
    run_workers(&j, threads);
    for (size_t i = 0; i < paths.len; i++) {
        if (j.files[i].sites.len || j.files[i].note)
            *vec_push(&out->files) = j.files[i];
        else
            scan_file_free(&j.files[i]);
    }
    out->nfiles = (uint32_t)paths.len;
    out->nparsed = j.parsed;
    out->bytes = j.bytes;
    free(j.files);
    strings_free(&paths);
    if (j.failed) {
        scan_result_free(out);
        *e = j.error;
        return -1;
    }
    return 0;
}

void scan_result_free(struct scan_result *r)
{
    for (size_t i = 0; i < r->files.len; i++) scan_file_free(&r->files.ptr[i]);
    vec_free(&r->files);
}
