/* together.c - rules that need several patches: one target changed twice, one pair of ids for two files. */
#include "concord/audit/private.h"

#include <stdlib.h>
#include <string.h>

/* The folder that a set of patches lives in: patches of two releases may share targets. */
static char *root_of(const char *path, const char *target)
{
    size_t n = strlen(target), m = strlen(path);
    for (size_t i = m; i >= 1 && n; i--)
        if (!strncmp(path + i - 1, target, n > 3 ? n - 3 : n) && (i == 1 || path[i - 2] == '/'))
            return xstrndup(path, i - 1);
    const char *slash = strrchr(path, '/');
    return xstrndup(path, slash ? (size_t)(slash - path) + 1 : 0);
}

static uint64_t edit_of(const struct patch *p, const struct patch_file *f)
{
    uint64_t h = SLICE_HASH;
    for (uint32_t i = f->hunk; i < f->hunk_end; i++)
        for (uint32_t k = p->hunks.ptr[i].body; k < p->hunks.ptr[i].end; k++) {
            h = slice_hash(patch_line_text(p, k), h);
            h = slice_hash(slice_str("\n"), h);
        }
    return h;
}

void together_add(struct together *t, const char *file, const struct patch *p)
{
    for (size_t i = 0; i < p->files.len; i++) {
        const struct patch_file *f = &p->files.ptr[i];
        if (!f->path) continue;
        struct section *s = vec_push(&t->list);
        *s = (struct section){
            .file = xstrdup(file), .target = xstrdup(f->path), .root = root_of(file, f->path)};
        s->line = f->line;
        s->index = f->index_line;
        if (*f->old_id && *f->new_id && !blob_id_is_zero(f->old_id) && !blob_id_is_zero(f->new_id))
            snprintf(s->ids, sizeof s->ids, "%s..%s", f->old_id, f->new_id);
        s->edit = edit_of(p, f);
    }
}

void together_free(struct together *t)
{
    for (size_t i = 0; i < t->list.len; i++) {
        free(t->list.ptr[i].file);
        free(t->list.ptr[i].target);
        free(t->list.ptr[i].root);
    }
    vec_free(&t->list);
}

static int by_place(const void *a, const void *b)
{
    const struct section *x = a, *y = b;
    int c = strcmp(x->file, y->file);
    return c ? c : x->line < y->line ? -1 : x->line > y->line;
}

/* The section that stands under the key already, if any; otherwise this one from now on. */
static const struct section *earlier(struct map *seen, const struct section *s, const char *what)
{
    char *key = xformat("%s:%s", s->root, what);
    void **slot = map_put(seen, key);
    const struct section *other = *slot;
    if (!other) *slot = (void *)s;
    free(key);
    return other;
}

static void check_targets(const struct together *t, struct findings *out)
{
    struct map seen = {0};
    for (size_t i = 0; i < t->list.len; i++) {
        const struct section *s = &t->list.ptr[i], *other = earlier(&seen, s, s->target);
        if (other && strcmp(other->file, s->file) != 0)
            audit_finding_add(out, &rules[RULE_target_shared], s->file, s->line + 1, slice_str(s->target),
                              "%s is changed by %s too", s->target, other->file);
    }
    map_free(&seen, NULL);
}

/* 1: the section's base id is upstream's for its target; 0: it is not, or nobody knows; -1: failure. */
static int base_is_true(const struct audit_options *o, const struct section *s, struct err *e)
{
    struct buf text = BUF_INIT;
    int found = o->upstream ? source_read_shared(o->upstream, s->target, &text, NULL, e) : 0;
    char *old = xstrndup(s->ids, strcspn(s->ids, "."));
    bool same = found == 1 && blob_id_matches(old, slice_of(&text));
    free(old);
    buf_free(&text);
    return found < 0 ? -1 : same;
}

/* Two files may be equal and edited alike. Equal ids for different edits are a copied index line; upstream
 * tells whose it is. */
static int check_ids(const struct together *t, const struct audit_options *o, struct findings *out,
                     struct err *e)
{
    struct map seen = {0};
    int rc = 0;
    for (size_t i = 0; i < t->list.len && !rc; i++) {
        const struct section *s = &t->list.ptr[i], *other = *s->ids ? earlier(&seen, s, s->ids) : NULL;
        if (!other || other->edit == s->edit || !strcmp(other->target, s->target)) continue;
        int true_base = base_is_true(o, other, e);
        if (true_base < 0) rc = -1;
        const struct section *false_one = true_base == 1 ? s : other, *same = true_base == 1 ? other : s;
        audit_finding_add(
            out, &rules[RULE_id_fabricated], false_one->file, false_one->index + 1, slice_str(s->ids),
            "%s stands in %s too, for another edit: one of the two is copied", s->ids, same->file);
    }
    map_free(&seen, NULL);
    return rc;
}

int together_check(struct together *t, const struct audit_options *o, struct findings *out, struct err *e)
{
    if (t->list.len) qsort(t->list.ptr, t->list.len, sizeof *t->list.ptr, by_place);
    if (audit_wanted(o, RULE_target_shared)) check_targets(t, out);
    return audit_wanted(o, RULE_id_fabricated) ? check_ids(t, o, out, e) : 0;
}
