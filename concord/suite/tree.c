/* tree.c - the private copy and its patches. */
#include "concord/suite/tree.h"
#include "concord/patch/load.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void tree_report_free(struct tree_report *t)
{
    for (size_t i = 0; i < t->patches.len; i++) {
        free(t->patches.ptr[i].file);
        free(t->patches.ptr[i].patch);
        free(t->patches.ptr[i].why);
    }
    vec_free(&t->patches);
    free(t->folder);
    *t = (struct tree_report){0};
}

/* A copy from an earlier, complete attempt is not made again; one that was interrupted is. */
static int copy_tree(const char *tree, const char *to, struct err *e)
{
    char *part = xformat("%s.part", to), *from = path_join(tree, "test");
    struct proc_result p;
    int status = tree_remove(part, e);
    if (!status) status = dir_make(part, e);
    if (!status) {
        const char *const argv[] = {"cp", "-a", "--reflink=auto", from, part, NULL};
        status = proc_run(&(struct proc_spec){.argv = argv, .merge = true}, &p, e);
        if (!status && p.status)
            status = err_set(e, "%s: cannot be copied: %.*s", from, (int)strcspn(buf_str(&p.out), "\n"),
                             buf_str(&p.out));
        proc_result_free(&p);
    }
    if (!status && rename(part, to)) status = err_set(e, "%s: %s", to, strerror(errno));
    free(part);
    free(from);
    return status;
}

/* files are patterns below test/. */
static bool chosen(const strings *files, const char *path)
{
    if (!path || !str_starts(path, "test/")) return false;
    if (!files->len) return true;
    for (size_t i = 0; i < files->len; i++)
        if (!fnmatch(files->ptr[i], path + strlen("test/"), 0)) return true;
    return false;
}

/* Against the original, so that doing it twice does the same; text must fit exactly, blob ids need not agree,
 * because patches of another release are welcome where they fit. NULL when it was applied, else why not;
 * owned. */
static char *apply_one(const struct patch *p, const struct patch_file *f, const char *tree, const char *copy)
{
    struct buf pre = BUF_INIT, post = BUF_INIT;
    struct err e;
    struct apply_result r;
    char *from = path_join(tree, f->path), *to = path_join(copy, f->path), *why = NULL;
    bool there = path_exists(from), exists;
    if (there && file_read(from, &pre, &e)) {
        why = xstrdup(e.text);
    } else {
        struct slice text = {there ? buf_str(&pre) : NULL, pre.len};
        patch_apply(p, f, text, APPLY_IGNORE_IDS, &post, &exists, &r);
        bool good = r.outcome == APPLY_clean || r.outcome == APPLY_already;
        if (!good)
            why = xformat("%s: %s", apply_outcome_text(r.outcome), r.text);
        else if (exists && file_write(to, buf_str(&post), post.len, 0, &e))
            why = xstrdup(e.text);
    }
    buf_free(&pre);
    buf_free(&post);
    free(from);
    free(to);
    return why;
}

static void apply_patch(const char *path, const char *tree, const strings *files, struct tree_report *out)
{
    struct patch p;
    struct err e;
    if (patch_load(path, &p, &e)) {
        *vec_push(&out->patches) = (struct tree_patch_record){xstrdup(""), xstrdup(path), xstrdup(e.text)};
        return;
    }
    const struct patch_fault *fault = patch_blocked(&p);
    for (size_t i = 0; i < p.files.len; i++) {
        const struct patch_file *f = &p.files.ptr[i];
        if (!chosen(files, f->path)) continue;
        char *why = fault ? xformat("refused: %s", fault->text) : apply_one(&p, f, tree, out->folder);
        *vec_push(&out->patches) = (struct tree_patch_record){xstrdup(f->path), xstrdup(path), why};
    }
    patch_free(&p);
}

int tree_patch(const char *tree, const char *patches, const strings *files, const char *journal,
               struct tree_report *out, struct err *e)
{
    char *argument = xstrdup(patches), digest[65];
    strings paths = {0};
    sha256_hex(tree, strlen(tree), digest);
    *out = (struct tree_report){.folder = xformat("%s.tree-%.8s", journal, digest)};
    int status = patch_find(1, &argument, &paths, e);
    if (!status && !path_is_dir(out->folder)) status = copy_tree(tree, out->folder, e);
    for (size_t i = 0; i < paths.len && !status; i++) apply_patch(paths.ptr[i], tree, files, out);
    strings_free(&paths);
    free(argument);
    return status;
}

void tree_mark(const struct tree_report *t, const char *subfolder, struct suite_run *r)
{
    for (size_t i = 0; i < r->units.len; i++) {
        struct suite_unit *u = r->units.ptr[i];
        char *file = path_join(subfolder, u->name);
        for (size_t k = 0; k < t->patches.len && u->side == SIDE_DEVICE; k++) {
            const struct tree_patch_record *p = &t->patches.ptr[k];
            if (strcmp(p->file, file) != 0) continue;
            json_decref(u->patch);
            u->patch = json_pack("{s:s, s:s}", "patch", p->patch, "state", p->why ? p->why : "applied");
        }
        free(file);
    }
}
