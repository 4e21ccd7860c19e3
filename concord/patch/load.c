/* load.c - patch files by path, many at once. */
#include "concord/patch/load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_patch_name(const char *name)
{
    return str_ends(name, ".patch") || str_ends(name, ".diff");
}

static int find_in(const char *dir, strings *out, struct err *e)
{
    strings names = {0};
    int rc = dir_list(dir, &names, e);
    for (size_t i = 0; !rc && i < names.len; i++) {
        char *path = path_join(dir, names.ptr[i]);
        if (path_is_dir(path) && strcmp(names.ptr[i], ".git") != 0)
            rc = find_in(path, out, e);
        else if (is_patch_name(names.ptr[i]))
            *vec_push(out) = xstrdup(path);
        free(path);
    }
    strings_free(&names);
    return rc;
}

int patch_find(int n, char *const *args, strings *out, struct err *e)
{
    for (int i = 0; i < n; i++) {
        size_t before = out->len;
        if (!path_is_dir(args[i])) {
            if (!path_exists(args[i])) return err_set(e, "%s: no such file or folder", args[i]);
            *vec_push(out) = xstrdup(args[i]);
            continue;
        }
        if (find_in(args[i], out, e)) return -1;
        if (out->len == before) return err_set(e, "%s: no *.patch or *.diff file in it", args[i]);
    }
    return 0;
}

int patch_load(const char *path, struct patch *p, struct err *e)
{
    struct buf text = BUF_INIT;
    int rc = file_read(path, &text, e);
    if (!rc && patch_parse(p, slice_of(&text), e)) rc = err_wrap(e, "%s", path);
    buf_free(&text);
    return rc;
}

char *patch_named_target(const char *path)
{
    static const char *const tops[] = {"test/", "torch/"};
    const char *best = NULL;
    for (const char *at = path; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        for (size_t i = 0; !best && i < 2; i++)
            if (str_starts(at, tops[i])) best = at;
    if (!best || !is_patch_name(best)) return NULL;
    const char *dot = strrchr(best, '.');
    char *name = xstrndup(best, (size_t)(dot - best));
    const char *base = strrchr(name, '/') + 1;
    if (strcmp(dot, ".diff") != 0 || strchr(base, '.')) return name;
    char *with_py = xformat("%s.py", name);
    free(name);
    return with_py;
}

/* ---- many at once ------------------------------------------------------------------------------------ */

struct pool {
    struct check *checks;
    size_t n;
    struct source *source;
    int flags;
    atomic_size_t next;
};

static void check_sections(struct pool *pool, struct check *c, struct buf *pre, struct buf *post)
{
    for (size_t i = 0; i < c->p.files.len; i++) {
        const struct patch_file *f = &c->p.files.ptr[i];
        struct apply_result *r = vec_push(&c->results);
        bool exists;
        int found = 0;
        if (f->path) found = source_read_shared(pool->source, f->path, pre, NULL, &c->error);
        if (found < 0) return;
        patch_apply(&c->p, f, found ? slice_of(pre) : (struct slice){0}, pool->flags, post, &exists, r);
    }
}

static void *work(void *arg)
{
    struct pool *pool = arg;
    struct buf pre = BUF_INIT, post = BUF_INIT;
    for (size_t i; (i = atomic_fetch_add(&pool->next, 1)) < pool->n;) {
        struct check *c = &pool->checks[i];
        c->loaded = !patch_load(c->path, &c->p, &c->error);
        if (c->loaded && pool->source) check_sections(pool, c, &pre, &post);
    }
    buf_free(&pre);
    buf_free(&post);
    return NULL;
}

struct check *patch_check_all(const strings *paths, struct source *s, int flags)
{
    struct pool pool = {.checks = xcalloc(paths->len + 1, sizeof(struct check)),
                        .n = paths->len,
                        .source = s,
                        .flags = flags};
    for (size_t i = 0; i < pool.n; i++) pool.checks[i].path = paths->ptr[i];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t extra = cores > 1 && pool.n > 16 ? (size_t)(cores > 8 ? 8 : cores) - 1 : 0, started = 0;
    pthread_t threads[8];
    while (started < extra && !pthread_create(&threads[started], NULL, work, &pool)) started++;
    work(&pool);
    while (started) pthread_join(threads[--started], NULL);
    return pool.checks;
}

void patch_checks_free(struct check *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (c[i].loaded) patch_free(&c[i].p);
        vec_free(&c[i].results);
    }
    free(c);
}
