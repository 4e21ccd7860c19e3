/* branch.c - branches made with libgit2 from blobs and trees alone. */
#include "concord/forge/branch.h"

#include <git2.h>
#include <stdlib.h>
#include <string.h>

static int git_fail(struct err *e, const char *what)
{
    const git_error *g = git_error_last();
    return err_set(e, "%s: %s", what, g && g->message ? g->message : "unknown reason");
}

static int open_repo(git_repository **repo, const char *path, struct err *e)
{
    git_libgit2_init();
    if (!git_repository_open(repo, path)) return 0;
    git_libgit2_shutdown();
    return err_set(e, "%s: not a git repository: name a clone of the plugin's repository", path);
}

static void close_repo(git_repository *repo)
{
    git_repository_free(repo);
    git_libgit2_shutdown();
}

static int find_commit(git_repository *repo, const char *rev, git_commit **out, struct err *e)
{
    git_object *object = NULL;
    if (git_revparse_single(&object, repo, rev))
        return err_set(e, "no revision '%s' in %s", rev, git_repository_path(repo));
    int rc = git_object_peel((git_object **)out, object, GIT_OBJECT_COMMIT);
    git_object_free(object);
    return rc ? err_set(e, "'%s' in %s is not a commit", rev, git_repository_path(repo)) : 0;
}

static void id_text(const git_oid *id, char out[BRANCH_ID_MAX])
{
    git_oid_tostr(out, BRANCH_ID_MAX, id);
}

/* ---- reading ----------------------------------------------------------------------------------------- */

int branch_resolve(const char *path, const char *ref, char id[BRANCH_ID_MAX], struct err *e)
{
    git_repository *repo;
    git_commit *commit = NULL;
    if (open_repo(&repo, path, e)) return -1;
    int status = find_commit(repo, ref, &commit, e);
    if (!status) id_text(git_commit_id(commit), id);
    git_commit_free(commit);
    close_repo(repo);
    return status;
}

char *branch_base_ref(const char *path, const char *branch, struct err *e)
{
    static const char *const places[] = {"refs/remotes/upstream/", "refs/remotes/origin/", "refs/heads/"};
    git_repository *repo;
    char *found = NULL;
    if (open_repo(&repo, path, e)) return NULL;
    for (size_t i = 0; !found && i < sizeof places / sizeof *places; i++) {
        char *name = xformat("%s%s", places[i], branch);
        git_oid id;
        if (!git_reference_name_to_id(&id, repo, name))
            found = name;
        else
            free(name);
    }
    close_repo(repo);
    if (!found) err_set(e, "%s has no branch %s: fetch it, or correct the release's branch", path, branch);
    return found;
}

int branch_read(const char *path, const char *commit, const char *file, struct buf *out, struct err *e)
{
    git_repository *repo;
    git_commit *at = NULL;
    git_tree *tree = NULL;
    git_tree_entry *entry = NULL;
    git_blob *blob = NULL;
    buf_clear(out);
    if (open_repo(&repo, path, e)) return -1;
    int status = find_commit(repo, commit, &at, e);
    if (!status && git_commit_tree(&tree, at)) status = git_fail(e, path);
    if (!status && !git_tree_entry_bypath(&entry, tree, file) &&
        git_tree_entry_type(entry) == GIT_OBJECT_BLOB) {
        status = git_blob_lookup(&blob, repo, git_tree_entry_id(entry)) ? git_fail(e, file) : 1;
        if (status > 0) buf_add(out, git_blob_rawcontent(blob), (size_t)git_blob_rawsize(blob));
    }
    git_blob_free(blob);
    git_tree_entry_free(entry);
    git_tree_free(tree);
    git_commit_free(at);
    close_repo(repo);
    return status;
}

static int check_clean(git_repository *repo, struct err *e)
{
    git_status_options o;
    git_status_list *list = NULL;
    if (git_repository_is_bare(repo)) return 0;
    if (git_status_options_init(&o, GIT_STATUS_OPTIONS_VERSION))
        return git_fail(e, git_repository_path(repo));
    o.show = GIT_STATUS_SHOW_INDEX_AND_WORKDIR;
    o.flags = 0; /* neither untracked nor ignored files; the index is not rewritten */
    if (git_status_list_new(&list, repo, &o)) return git_fail(e, git_repository_path(repo));
    int status = 0;
    for (size_t i = 0; !status && i < git_status_list_entrycount(list); i++) {
        const git_status_entry *s = git_status_byindex(list, i);
        const git_diff_delta *d = s->head_to_index ? s->head_to_index : s->index_to_workdir;
        status = err_set(e, "%s has uncommitted changes (%s): commit or stash them first",
                         git_repository_workdir(repo), d->new_file.path);
    }
    git_status_list_free(list);
    return status;
}

int branch_clean(const char *path, struct err *e)
{
    git_repository *repo;
    if (open_repo(&repo, path, e)) return -1;
    int status = check_clean(repo, e);
    close_repo(repo);
    return status;
}

/* ---- making ------------------------------------------------------------------------------------------ */

static int add_file(git_repository *repo, git_index *index, const struct branch_file *f, struct err *e)
{
    git_index_entry entry = {.mode = GIT_FILEMODE_BLOB, .path = f->path};
    if (git_blob_create_from_buffer(&entry.id, repo, f->data, f->len)) return git_fail(e, f->path);
    const git_index_entry *old = git_index_get_bypath(index, f->path, 0);
    if (old) entry.mode = old->mode;
    return git_index_add(index, &entry) ? git_fail(e, f->path) : 0;
}

/* The base's tree with the files put in, written through an index that exists only in memory. */
static int make_tree(git_repository *repo, git_tree *base, const struct branch_request *q, git_oid *id,
                     struct err *e)
{
    git_index *index = NULL;
    if (git_index_new(&index)) return git_fail(e, "index");
    int status = git_index_read_tree(index, base) ? git_fail(e, "index") : 0;
    for (size_t i = 0; !status && i < q->nfiles; i++) status = add_file(repo, index, &q->files[i], e);
    if (!status && git_index_write_tree_to(id, index, repo)) status = git_fail(e, "tree");
    git_index_free(index);
    if (!status && git_oid_equal(id, git_tree_id(base)))
        status =
            err_set(e, "%s: the base has these patch files already: there is nothing to review", q->name);
    return status;
}

/* Who commits, at the base's time: the identity is the person's, the time is nobody's. */
static int make_signature(git_repository *repo, git_commit *base, git_signature **out, struct err *e)
{
    git_signature *who = NULL;
    if (git_signature_default(&who, repo))
        return err_set(e, "no identity for commits: set it with `git config user.name` and `git config "
                          "user.email`");
    int rc = git_signature_new(out, who->name, who->email, git_commit_committer(base)->when.time, 0);
    git_signature_free(who);
    return rc ? git_fail(e, "identity") : 0;
}

static int write_commit(git_repository *repo, git_commit *base, const struct branch_request *q, git_oid *id,
                        struct err *e)
{
    git_tree *from = NULL, *tree = NULL;
    git_signature *who = NULL;
    git_oid tree_id;
    int status = git_commit_tree(&from, base) ? git_fail(e, q->base) : make_tree(repo, from, q, &tree_id, e);
    if (!status && git_tree_lookup(&tree, repo, &tree_id)) status = git_fail(e, "tree");
    if (!status) status = make_signature(repo, base, &who, e);
    if (!status) {
        const git_commit *parents[] = {base};
        if (git_commit_create(id, repo, NULL, who, who, "UTF-8", q->message, tree, 1, (void *)parents))
            status = git_fail(e, q->name);
    }
    git_signature_free(who);
    git_tree_free(tree);
    git_tree_free(from);
    return status;
}

/* Points the branch at the commit, unless somebody would lose work. */
static int set_branch(git_repository *repo, const struct branch_request *q, const git_oid *id, struct err *e)
{
    git_reference *old = NULL, *new = NULL;
    char *ref = xformat("refs/heads/%s", q->name);
    int status = 0, found = !git_reference_lookup(&old, repo, ref);
    bool same = found && git_oid_equal(git_reference_target(old), id);
    if (found && !same && git_branch_is_checked_out(old))
        status = err_set(e, "branch %s is checked out in %s: leave it first", q->name, q->repo);
    else if (found && !same && !q->replace)
        status = err_set(e, "branch %s exists with another commit: remove it, or replace it with --replace",
                         q->name);
    else if (!same && git_reference_create(&new, repo, ref, id, true, "concord branch"))
        status = git_fail(e, ref);
    git_reference_free(old);
    git_reference_free(new);
    free(ref);
    return status;
}

static int check_base(git_repository *repo, const struct branch_request *q, git_commit **base, struct err *e)
{
    git_commit *now = NULL;
    char id[BRANCH_ID_MAX];
    if (find_commit(repo, q->base, base, e) || find_commit(repo, q->base_ref, &now, e)) return -1;
    id_text(git_commit_id(now), id);
    int status = git_oid_equal(git_commit_id(now), git_commit_id(*base))
                     ? 0
                     : err_set(e,
                               "%s moved from %.12s to %.12s since the patches were made: run the campaign "
                               "again from the step adapt",
                               q->base_ref, q->base, id);
    git_commit_free(now);
    return status;
}

int branch_make(const struct branch_request *q, char commit[BRANCH_ID_MAX], struct err *e)
{
    git_repository *repo;
    git_commit *base = NULL;
    git_oid id;
    if (open_repo(&repo, q->repo, e)) return -1;
    int status = check_base(repo, q, &base, e);
    if (!status) status = check_clean(repo, e);
    if (!status) status = write_commit(repo, base, q, &id, e);
    if (!status) status = set_branch(repo, q, &id, e);
    if (!status) id_text(&id, commit);
    git_commit_free(base);
    close_repo(repo);
    return status;
}

/* ---- looking at one ---------------------------------------------------------------------------------- */

static bool names_file(const json_t *files, const char *path)
{
    size_t i;
    json_t *file;
    json_array_foreach(files, i, file) if (!strcmp(json_string_value(file), path)) return true;
    return false;
}

static bool changes_only(git_repository *repo, git_commit *tip, git_commit *base, const json_t *files)
{
    git_tree *a = NULL, *b = NULL;
    git_diff *diff = NULL;
    bool ok = !git_commit_tree(&a, base) && !git_commit_tree(&b, tip) &&
              !git_diff_tree_to_tree(&diff, repo, a, b, NULL) &&
              git_diff_num_deltas(diff) == json_array_size(files);
    for (size_t i = 0; ok && i < git_diff_num_deltas(diff); i++)
        ok = names_file(files, git_diff_get_delta(diff, i)->new_file.path);
    git_diff_free(diff);
    git_tree_free(a);
    git_tree_free(b);
    return ok;
}

static bool text_is(const json_t *fact, const char *key, const git_oid *id)
{
    char text[BRANCH_ID_MAX];
    const char *said = json_string_value(json_object_get(fact, key));
    id_text(id, text);
    return said && !strcmp(said, text);
}

bool branch_is(const char *path, const json_t *fact)
{
    git_repository *repo;
    git_commit *tip = NULL, *base = NULL;
    const char *name = json_string_value(json_object_get(fact, "name"));
    if (!name || open_repo(&repo, path, NULL)) return false;
    char *ref = xformat("refs/heads/%s", name);
    bool ok = !find_commit(repo, ref, &tip, NULL) && text_is(fact, "commit", git_commit_id(tip)) &&
              git_commit_parentcount(tip) == 1 && !git_commit_parent(&base, tip, 0) &&
              text_is(fact, "base", git_commit_id(base)) &&
              changes_only(repo, tip, base, json_object_get(fact, "files"));
    git_commit_free(tip);
    git_commit_free(base);
    close_repo(repo);
    free(ref);
    return ok;
}
