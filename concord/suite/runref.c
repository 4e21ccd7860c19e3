/* runref.c - finds journals and runs by what people call them. */
#include "concord/suite/runref.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int64_t written(const char *path)
{
    char *wal = xformat("%s-wal", path);
    struct stat a = {0}, b = {0};
    stat(path, &a);
    stat(wal, &b);
    free(wal);
    int64_t t = (int64_t)a.st_mtim.tv_sec * 1000000000 + a.st_mtim.tv_nsec;
    int64_t u = (int64_t)b.st_mtim.tv_sec * 1000000000 + b.st_mtim.tv_nsec;
    return t > u ? t : u;
}

static int by_time(const void *a, const void *b)
{
    int64_t x = written(*(char *const *)a), y = written(*(char *const *)b);
    return (x > y) - (x < y);
}

int runref_journals(strings *out, struct err *e)
{
    char *folder = store_folder();
    strings names = {0};
    int status = path_is_dir(folder) ? dir_list(folder, &names, e) : 0;
    for (size_t i = 0; i < names.len; i++)
        if (str_ends(names.ptr[i], ".db")) *vec_push(out) = path_join(folder, names.ptr[i]);
    if (out->len) qsort(out->ptr, out->len, sizeof *out->ptr, by_time);
    strings_free(&names);
    free(folder);
    return status;
}

/* The journal's path and, in *id, the run's number or 0. Owned, NULL with *e. */
static char *path_of(const char *text, int64_t *id, struct err *e)
{
    *id = 0;
    if (!text) {
        strings all = {0};
        char *path = NULL;
        if (!runref_journals(&all, e)) {
            if (all.len)
                path = xstrdup(all.ptr[all.len - 1]);
            else
                err_set(e, "no run yet: `concord test SUITE` makes one");
        }
        strings_free(&all);
        return path;
    }
    const char *colon = strrchr(text, ':');
    char *end;
    if (colon && (*id = strtoll(colon + 1, &end, 10)) > 0 && !*end) {
        char *name = xstrndup(text, (size_t)(colon - text));
        char *path = strchr(name, '/') || str_ends(name, ".db") ? xstrdup(name) : store_path(name);
        free(name);
        return path;
    }
    *id = 0;
    return strchr(text, '/') || str_ends(text, ".db") ? xstrdup(text) : store_path(text);
}

int runref_load(const char *text, struct store *s, struct suite_run *r, struct err *e)
{
    int64_t id;
    char *path = path_of(text, &id, e);
    if (!path) return -1;
    int status = store_open_readonly(s, path, e);
    free(path);
    if (!status && !id) status = store_last(s, &id, e);
    if (!status && !id) status = err_set(e, "%s: holds no run", s->sql.path);
    if (!status) status = store_load(s, id, r, e);
    return status;
}
