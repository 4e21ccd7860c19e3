/* votes.c - where a branch's patches put the backend's import, and where a file's import goes accordingly. */
#include "concord/adapt/replay.h"

#include <stdlib.h>
#include <string.h>

/* The place of the first import that a hunk adds, by the line in front of it; ADAPT_PLACES: none, or another.
 */
static enum adapt_place place_of(const struct patch *p, const struct hunk *h)
{
    struct slice before = {0};
    for (uint32_t i = h->body; i < h->end; i++) {
        enum line_kind k = (enum line_kind)p->lines.ptr[i].kind;
        struct slice s = patch_line_content(p, i);
        if (line_is_context(k)) before = s;
        if (k != LINE_ADD || !slice_starts(s, "import torch_npu")) continue;
        if (h->old_start <= 1 && !before.ptr) return ADAPT_TOP;
        if (!before.ptr) return ADAPT_PLACES;
        if (slice_eq(slice_trim(before), slice_str("import torch"))) return ADAPT_BEHIND_TORCH;
        bool testing = slice_starts(before, "from torch.testing") || slice_starts(before, ")");
        return testing ? ADAPT_BEHIND_TESTING : ADAPT_PLACES;
    }
    return ADAPT_PLACES;
}

void replay_vote(const struct patch *p, struct replay_votes *v)
{
    for (size_t i = 0; i < p->files.len; i++) {
        const struct patch_file *f = &p->files.ptr[i];
        enum adapt_place place = ADAPT_PLACES;
        for (uint32_t h = f->hunk; h < f->hunk_end && place == ADAPT_PLACES; h++)
            place = place_of(p, &p->hunks.ptr[h]);
        if (place != ADAPT_PLACES && f->path)
            *vec_push(&v->list) = (struct replay_vote){xstrdup(f->path), place};
    }
}

static bool same_folder(const char *a, const char *b)
{
    const char *x = strrchr(a, '/'), *y = strrchr(b, '/');
    size_t n = x ? (size_t)(x - a) : 0;
    return n == (y ? (size_t)(y - b) : 0) && !memcmp(a, b, n);
}

enum adapt_place replay_place(const struct replay_votes *v, const char *path)
{
    enum { ENOUGH = 3 };
    size_t near[ADAPT_PLACES] = {0}, all[ADAPT_PLACES] = {0}, n = 0;
    for (size_t i = 0; i < v->list.len; i++) {
        const struct replay_vote *k = &v->list.ptr[i];
        if (path && !strcmp(k->path, path)) continue;
        all[k->place]++;
        if (path && same_folder(k->path, path)) near[k->place]++, n++;
    }
    const size_t *count = n >= ENOUGH ? near : all;
    enum adapt_place best = ADAPT_BEHIND_TESTING;
    for (int i = 0; i < ADAPT_PLACES; i++)
        if (count[i] > count[best]) best = (enum adapt_place)i;
    return best;
}

void replay_votes_free(struct replay_votes *v)
{
    for (size_t i = 0; i < v->list.len; i++) free(v->list.ptr[i].path);
    vec_free(&v->list);
}
