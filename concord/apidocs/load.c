/* load.c - finds a release's documents in a folder or in a commit. */
#include "concord/apidocs/private.h"

#include <git2.h>
#include <stdlib.h>
#include <string.h>

/* Where a repository keeps them, newest layout first; %s is the release as 2-12-0. The third serves every
 * release. */
static const char *const places[] = {"docs/zh/api/native_api/pytorch_%s", "docs/zh/native_apis/pytorch_%s"};
static const char single_file[] = "docs/api/torch_npu_apis.md";

static char *place(size_t i, const char *release)
{
    char *dashed = xstrdup(release);
    for (char *c = dashed; *c; c++)
        if (*c == '.') *c = '-';
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    char *path = xformat(places[i], dashed);
#pragma GCC diagnostic pop
    free(dashed);
    return path;
}

static int read_folder(struct doc_set *set, const char *root, const char *rel, struct err *e)
{
    char *dir = *rel ? path_join(root, rel) : xstrdup(root);
    strings names = {0};
    int rc = dir_list(dir, &names, e);
    for (size_t i = 0; !rc && i < names.len; i++) {
        char *below = *rel ? path_join(rel, names.ptr[i]) : xstrdup(names.ptr[i]);
        char *full = path_join(root, below);
        struct buf text = BUF_INIT;
        if (path_is_dir(full)) {
            rc = read_folder(set, root, below, e);
        } else if (str_ends(below, ".md")) {
            rc = file_read(full, &text, e);
            if (!rc) doc_read(set, below, buf_str(&text), text.len);
        }
        buf_free(&text);
        free(full);
        free(below);
    }
    strings_free(&names);
    free(dir);
    return rc;
}

static int load_from_folder(struct doc_set *set, const char *root, const char *release, struct err *e)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *rel = place(i, release);
        char *full = path_join(root, rel);
        bool found = path_is_dir(full);
        int rc = found ? read_folder(set, root, rel, e) : 0;
        free(full);
        free(rel);
        if (found) return rc;
    }
    char *full = path_join(root, single_file);
    struct buf text = BUF_INIT;
    int rc = 0;
    if (path_exists(full)) {
        rc = file_read(full, &text, e);
        if (!rc) doc_read(set, single_file, buf_str(&text), text.len);
    } else {
        rc = read_folder(set, root, "", e);
    }
    buf_free(&text);
    free(full);
    return rc;
}

static int git_failed(struct err *e, const char *root, const char *what)
{
    const git_error *g = git_error_last();
    return err_set(e, "%s: %s: %s", root, what, g ? g->message : "unknown git error");
}

static int read_blob(struct doc_set *set, git_repository *repo, const git_oid *id, const char *path)
{
    git_blob *blob;
    if (git_blob_lookup(&blob, repo, id)) return -1;
    char *text = xstrndup(git_blob_rawcontent(blob), (size_t)git_blob_rawsize(blob));
    doc_read(set, path, text, (size_t)git_blob_rawsize(blob));
    free(text);
    git_blob_free(blob);
    return 0;
}

struct tree_read {
    struct doc_set *set;
    git_repository *repo;
    const char *base;
};

static int on_entry(const char *dir, const git_tree_entry *entry, void *arg)
{
    struct tree_read *t = arg;
    if (git_tree_entry_type(entry) != GIT_OBJECT_BLOB || !str_ends(git_tree_entry_name(entry), ".md"))
        return 0;
    char *path = xformat("%s/%s%s", t->base, dir, git_tree_entry_name(entry));
    int rc = read_blob(t->set, t->repo, git_tree_entry_id(entry), path);
    free(path);
    return rc;
}

static int load_place(struct doc_set *set, git_repository *repo, const git_tree *root, const char *path,
                      bool *found)
{
    git_tree_entry *entry;
    *found = !git_tree_entry_bypath(&entry, root, path);
    if (!*found) return 0;
    int rc;
    git_tree *tree = NULL;
    if (git_tree_entry_type(entry) == GIT_OBJECT_TREE) {
        struct tree_read t = {set, repo, path};
        rc = git_tree_lookup(&tree, repo, git_tree_entry_id(entry));
        if (!rc) rc = git_tree_walk(tree, GIT_TREEWALK_PRE, on_entry, &t);
    } else {
        rc = read_blob(set, repo, git_tree_entry_id(entry), path);
    }
    git_tree_free(tree);
    git_tree_entry_free(entry);
    return rc;
}

static int load_from_commit(struct doc_set *set, const char *root, const char *ref, const char *release,
                            struct err *e)
{
    git_repository *repo = NULL;
    git_object *commit = NULL, *tree = NULL;
    int rc = 0;
    bool found = false;
    git_libgit2_init();
    if (git_repository_open(&repo, root)) rc = git_failed(e, root, "no git repository");
    char *spec = xformat("%s^{commit}", ref);
    if (!rc && git_revparse_single(&commit, repo, spec)) rc = git_failed(e, root, ref);
    if (!rc && git_object_peel(&tree, commit, GIT_OBJECT_TREE)) rc = git_failed(e, root, ref);
    for (size_t i = 0; !rc && !found && i < sizeof places / sizeof *places; i++) {
        char *path = place(i, release);
        if (load_place(set, repo, (git_tree *)tree, path, &found)) rc = git_failed(e, root, path);
        free(path);
    }
    if (!rc && !found && load_place(set, repo, (git_tree *)tree, single_file, &found))
        rc = git_failed(e, root, single_file);
    if (!rc && !found)
        rc = err_set(
            e,
            "%s: no API documents of %s at %s: looked for docs/zh/api/native_api, docs/zh/native_apis and %s",
            root, release, ref, single_file);
    free(spec);
    git_object_free(tree);
    git_object_free(commit);
    git_repository_free(repo);
    git_libgit2_shutdown();
    return rc;
}

int doc_load(struct doc_set *set, const char *root, const char *ref, const char *release, struct err *e)
{
    *set = (struct doc_set){0};
    if (!path_is_dir(root))
        return err_set(e, "%s: no such folder: give a clone of the plugin's repository", root);
    int rc = ref ? load_from_commit(set, root, ref, release, e) : load_from_folder(set, root, release, e);
    if (!rc && !set->entries.len)
        rc = err_set(e, "%s: %u documents of %s, none in a known layout: nothing can be said of any API",
                     root, set->files, release);
    if (rc) doc_free(set);
    return rc;
}
