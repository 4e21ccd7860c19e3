/* branch.c - a branch against its base: what it may change, and that other people's edits survive. */
#include "concord/audit/audit.h"
#include "concord/audit/private.h"

#include <git2.h>
#include <stdlib.h>
#include <string.h>

struct branch {
    git_repository *repo;
    git_tree *base, *tip;
    const struct audit_options *o;
    struct findings *out;
    struct together together;
    size_t patches;
};

static int git_fail(struct err *e, const char *what)
{
    const git_error *g = git_error_last();
    return err_set(e, "%s: %s", what, g && g->message ? g->message : "unknown reason");
}

static int find_commit(git_repository *repo, const char *rev, git_oid *id, struct err *e)
{
    git_object *object = NULL, *commit = NULL;
    if (git_revparse_single(&object, repo, rev))
        return err_set(e, "no revision '%s' in %s", rev, git_repository_path(repo));
    int rc = git_object_peel(&commit, object, GIT_OBJECT_COMMIT);
    if (!rc) *id = *git_object_id(commit);
    git_object_free(object);
    git_object_free(commit);
    return rc ? git_fail(e, rev) : 0;
}

static int tree_of(git_repository *repo, const git_oid *id, git_tree **tree, struct err *e)
{
    git_commit *commit = NULL;
    int rc = git_commit_lookup(&commit, repo, id) || git_commit_tree(tree, commit);
    git_commit_free(commit);
    return rc ? git_fail(e, "commit") : 0;
}

static bool is_patch(const char *path)
{
    return str_ends(path, ".patch") || str_ends(path, ".diff");
}

static bool is_documentation(const char *path)
{
    return str_starts(path, "docs/") || strstr(path, "/docs/") || str_ends(path, ".md") ||
           str_ends(path, ".rst");
}

static int load_blob(struct branch *b, const git_oid *id, struct patch *p, struct err *e)
{
    git_blob *blob = NULL;
    if (git_blob_lookup(&blob, b->repo, id)) return git_fail(e, "blob");
    int rc = patch_parse(p, (struct slice){git_blob_rawcontent(blob), (size_t)git_blob_rawsize(blob)}, e);
    git_blob_free(blob);
    return rc;
}

static bool is_edit(const struct patch_line *l)
{
    return l->kind == LINE_ADD || l->kind == LINE_DEL;
}

/* The line of the other patch behind the hunk's removed and added lines, which it has in order at or after
 * from; UINT32_MAX when it has not. */
static uint32_t found_from(const struct patch *p, const struct hunk *h, const struct patch *now,
                           uint32_t from)
{
    uint32_t k = from;
    for (uint32_t i = h->body; i < h->end; i++) {
        if (!is_edit(&p->lines.ptr[i])) continue;
        while (k < now->lines.len && !(now->lines.ptr[k].kind == p->lines.ptr[i].kind &&
                                       slice_eq(patch_line_text(p, i), patch_line_text(now, k))))
            k++;
        if (k++ >= now->lines.len) return UINT32_MAX;
    }
    return k;
}

/* Are all of the hunk's edits among the other patch's at all? Settles most that are gone without a search. */
static bool all_known(const struct patch *p, const struct hunk *h, const struct map *edits)
{
    for (uint32_t i = h->body; i < h->end; i++) {
        if (!is_edit(&p->lines.ptr[i])) continue;
        struct slice text = patch_line_text(p, i);
        char *key = xstrndup(text.ptr, text.len);
        bool known = map_has(edits, key);
        free(key);
        if (!known) return false;
    }
    return true;
}

static void edits_of(const struct patch *p, struct map *out)
{
    for (uint32_t i = 0; i < p->lines.len; i++) {
        if (!is_edit(&p->lines.ptr[i])) continue;
        struct slice text = patch_line_text(p, i);
        char *key = xstrndup(text.ptr, text.len);
        map_put(out, key);
        free(key);
    }
}

static int check_kept(struct branch *b, const char *path, const git_oid *old_id, const struct patch *now,
                      struct err *e)
{
    struct patch old = {0};
    struct map edits = {0};
    if (load_blob(b, old_id, &old, e)) return -1;
    edits_of(now, &edits);
    uint32_t at = 0;
    for (size_t i = 0; i < old.hunks.len; i++) {
        const struct hunk *h = &old.hunks.ptr[i];
        uint32_t next = all_known(&old, h, &edits) ? found_from(&old, h, now, at) : UINT32_MAX;
        if (next == UINT32_MAX && at && all_known(&old, h, &edits)) next = found_from(&old, h, now, 0);
        if (next != UINT32_MAX) {
            at = next;
            continue;
        }
        audit_finding_add(b->out, &rules[RULE_foreign_hunk_changed], path, 1, patch_line_text(&old, h->line),
                          "the hunk at line %u of the base's patch (-%u,%u) is gone or changed", h->line + 1,
                          h->old_start, h->old_len);
    }
    map_free(&edits, NULL);
    patch_free(&old);
    return 0;
}

static int audit_blob(struct branch *b, const git_diff_delta *d, struct err *e)
{
    struct patch p;
    const char *path = d->new_file.path;
    if (load_blob(b, &d->new_file.id, &p, e)) return -1;
    int rc = audit_one(path, &p, b->o, b->out, e);
    if (!rc && d->status == GIT_DELTA_MODIFIED) rc = check_kept(b, path, &d->old_file.id, &p, e);
    together_add(&b->together, path, &p);
    patch_free(&p);
    b->patches++;
    return rc;
}

static int audit_delta(struct branch *b, const git_diff_delta *d, struct err *e)
{
    const char *path = d->status == GIT_DELTA_DELETED ? d->old_file.path : d->new_file.path;
    struct slice none = {"", 0};
    if (is_documentation(path))
        audit_finding_add(b->out, &rules[RULE_branch_documentation], path, 0, none, "documentation changes");
    else if (!is_patch(path))
        audit_finding_add(b->out, &rules[RULE_branch_other_file], path, 0, none, "not a patch file");
    else if (d->status == GIT_DELTA_DELETED)
        audit_finding_add(b->out, &rules[RULE_branch_patch_deleted], path, 0, none, "deleted");
    else
        return audit_blob(b, d, e);
    return 0;
}

static int open_branch(struct branch *b, const char *repo, const char *branch, const char *base,
                       struct err *e)
{
    git_oid tip, from, merge;
    if (git_repository_open(&b->repo, repo)) return git_fail(e, repo);
    if (find_commit(b->repo, branch, &tip, e) || find_commit(b->repo, base, &from, e)) return -1;
    if (git_merge_base(&merge, b->repo, &tip, &from))
        return err_set(e, "'%s' and '%s' have no common commit: is the clone shallow?", branch, base);
    return tree_of(b->repo, &merge, &b->base, e) || tree_of(b->repo, &tip, &b->tip, e) ? -1 : 0;
}

int audit_branch(const char *repo, const char *branch, const char *base, const struct audit_options *o,
                 struct findings *out, size_t *patches, struct err *e)
{
    struct branch b = {.o = o, .out = out};
    git_diff *diff = NULL;
    git_libgit2_init();
    int rc = open_branch(&b, repo, branch, base, e);
    if (!rc && git_diff_tree_to_tree(&diff, b.repo, b.base, b.tip, NULL)) rc = git_fail(e, repo);
    for (size_t i = 0; !rc && i < git_diff_num_deltas(diff); i++)
        rc = audit_delta(&b, git_diff_get_delta(diff, i), e);
    if (!rc) rc = together_check(&b.together, o, out, e);
    together_free(&b.together);
    git_diff_free(diff);
    git_tree_free(b.base);
    git_tree_free(b.tip);
    git_repository_free(b.repo);
    git_libgit2_shutdown();
    *patches = b.patches;
    audit_findings_sort(out);
    return rc;
}
