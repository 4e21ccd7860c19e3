/* merge.c - new edits into an existing patch: other people's hunks stay as they are.
 *
 * The change from base to post is cut into items: hunks of the old patch that still hold and that no new edit
 * touches (kept with their own body), and bare edits in the gaps between them. Items whose contexts would
 * overlap become one hunk; a kept hunk that stands alone is printed from its own bytes.
 */
#include "concord/patch/textlines.h"

#include <stdlib.h>
#include <string.h>

struct item {
    size_t base, base_end, post, post_end; /* lines, from 0 */
    const struct hunk *kept;               /* NULL: a bare edit */
};

struct merger {
    const struct patch *p;
    const struct make_options *o;
    struct textlines base, post;
    VEC(struct item) items;
    struct merge_result *r;
    uint32_t context;
};

/* Line ranges of a diff without context between two texts, as items relative to them. */
static int diff_bare(struct slice a, struct slice b, struct patch *out, struct err *e)
{
    struct buf text = BUF_INIT;
    struct make_options o = {.context = UINT32_MAX};
    int rc = patch_make("x", a, b, 0, &o, &text, e);
    if (!rc) rc = patch_parse(out, slice_of(&text), e);
    buf_free(&text);
    return rc;
}

static struct item item_of(const struct hunk *h)
{
    size_t a = h->old_len ? h->old_start - 1 : h->old_start, b = h->new_len ? h->new_start - 1 : h->new_start;
    return (struct item){a, a + h->old_len, b, b + h->new_len, NULL};
}

static bool touches(const struct item *edit, size_t from, size_t to)
{
    if (edit->base == edit->base_end) return edit->base > from && edit->base < to;
    return edit->base < to && edit->base_end > from;
}

static struct slice span(const struct textlines *t, size_t from, size_t to)
{
    if (from >= to) return (struct slice){"", 0};
    const char *start = t->v.ptr[from].ptr, *end = t->v.ptr[to - 1].ptr + t->v.ptr[to - 1].len;
    bool open = to == t->v.len && t->unterminated;
    return (struct slice){start, (size_t)(end - start) + !open};
}

/* Bare edits of the gap base [a, b) to post [x, y). */
static int add_gap(struct merger *m, size_t a, size_t b, size_t x, size_t y, struct err *e)
{
    struct slice from = span(&m->base, a, b), to = span(&m->post, x, y);
    if (slice_eq(from, to)) return 0;
    struct patch d;
    if (diff_bare(from, to, &d, e)) return -1;
    for (size_t i = 0; i < d.hunks.len; i++) {
        struct item it = item_of(&d.hunks.ptr[i]);
        *vec_push(&m->items) =
            (struct item){it.base + a, it.base_end + a, it.post + x, it.post_end + x, NULL};
    }
    patch_free(&d);
    return 0;
}

/* Which hunks of f no edit between its result and post touches, with their place in post. */
static int find_items(struct merger *m, const struct patch_file *f, struct slice result, struct slice post,
                      struct err *e)
{
    struct patch d;
    if (diff_bare(result, post, &d, e)) return -1;
    size_t next = 0, a = 0, x = 0;
    int64_t delta = 0;
    int rc = 0;
    for (uint32_t k = f->hunk; k < f->hunk_end && !rc; k++) {
        struct item h = item_of(&m->p->hunks.ptr[k]);
        while (next < d.hunks.len && item_of(&d.hunks.ptr[next]).base_end <= h.post &&
               !touches(&(struct item){h.post, h.post_end, 0, 0, NULL}, item_of(&d.hunks.ptr[next]).base,
                        item_of(&d.hunks.ptr[next]).base_end)) {
            delta += (int64_t)d.hunks.ptr[next].new_len - d.hunks.ptr[next].old_len;
            next++;
        }
        struct item edit =
            next < d.hunks.len ? item_of(&d.hunks.ptr[next]) : (struct item){SIZE_MAX, SIZE_MAX, 0, 0, NULL};
        if (touches(&edit, h.post, h.post_end)) continue;
        struct item it = {h.base, h.base_end, (size_t)((int64_t)h.post + delta),
                          (size_t)((int64_t)h.post_end + delta), &m->p->hunks.ptr[k]};
        rc = add_gap(m, a, it.base, x, it.post, e);
        *vec_push(&m->items) = it;
        a = it.base_end, x = it.post_end;
    }
    if (!rc) rc = add_gap(m, a, m->base.v.len, x, m->post.v.len, e);
    patch_free(&d);
    return rc;
}

/* Do the contexts of two neighbouring items meet? Two old hunks stay two. */
static bool joins(const struct merger *m, const struct item *a, const struct item *b)
{
    size_t gap = b->base - a->base_end;
    if (a->kept && b->kept) return false;
    return a->kept || b->kept ? gap < m->context : gap <= 2 * (size_t)m->context;
}

static void print_kept_body(const struct merger *m, const struct hunk *h, struct buf *out)
{
    for (uint32_t i = h->body; i < h->end; i++) {
        struct slice s = patch_line_text(m->p, i);
        buf_add(out, s.ptr, s.len);
        buf_addc(out, '\n');
    }
}

static void print_item(const struct merger *m, const struct item *it, struct buf *out)
{
    if (it->kept) {
        print_kept_body(m, it->kept, out);
        return;
    }
    textlines_add(&m->base, it->base, it->base_end, "-", out);
    textlines_add(&m->post, it->post, it->post_end, "+", out);
}

static void print_range(struct buf *out, char sign, size_t first, size_t len)
{
    buf_addf(out, "%c%zu", sign, len ? first + 1 : first);
    if (len != 1) buf_addf(out, ",%zu", len);
}

/* One hunk from items [from, to). */
static void print_group(struct merger *m, size_t from, size_t to, struct buf *out)
{
    const struct item *first = &m->items.ptr[from], *last = &m->items.ptr[to - 1];
    bool alone = to - from == 1 && first->kept;
    size_t before = first->kept ? 0 : m->context < first->base ? m->context : first->base;
    size_t left = m->base.v.len - last->base_end, after = last->kept          ? 0
                                                          : m->context < left ? m->context
                                                                              : left;
    buf_adds(out, "@@ ");
    print_range(out, '-', first->base - before, last->base_end + after - (first->base - before));
    buf_addc(out, ' ');
    print_range(out, '+', first->post - before, last->post_end + after - (first->post - before));
    buf_adds(out, " @@");
    if (alone)
        buf_add(out, first->kept->section.ptr, first->kept->section.len);
    else
        textlines_section(&m->base, first->base - before, out);
    buf_addc(out, '\n');
    textlines_add(&m->base, first->base - before, first->base, " ", out);
    for (size_t i = from; i < to; i++) {
        print_item(m, &m->items.ptr[i], out);
        if (i + 1 < to) textlines_add(&m->base, m->items.ptr[i].base_end, m->items.ptr[i + 1].base, " ", out);
    }
    textlines_add(&m->base, last->base_end, last->base_end + after, " ", out);
    size_t old = 0;
    for (size_t i = from; i < to; i++) old += m->items.ptr[i].kept != NULL;
    if (alone)
        m->r->kept++;
    else if (old)
        m->r->rewritten += (uint32_t)old;
    else
        m->r->added++;
}

static void print_header(const struct patch_file *f, struct slice base, struct slice post,
                         const struct make_options *o, struct buf *out)
{
    char a[PATCH_ID_MAX + 1], b[PATCH_ID_MAX + 1];
    blob_id(base, false, a);
    blob_id(post, false, b);
    size_t digits = *f->old_id ? strlen(f->old_id) : o && o->id_digits ? o->id_digits : 11;
    int n = (int)(digits < 40 ? digits : 40);
    buf_addf(out, "diff --git a/%s b/%s\n", f->path, f->path);
    bool mode_changes = f->old_mode != f->new_mode;
    if (mode_changes) buf_addf(out, "old mode %06o\nnew mode %06o\n", f->old_mode, f->new_mode);
    buf_addf(out, "index %.*s..%.*s", n, a, n, b);
    if (!mode_changes) buf_addf(out, " %06o", f->old_mode ? f->old_mode : 0100644);
    buf_addf(out, "\n--- a/%s\n+++ b/%s\n", f->path, f->path);
}

int patch_merge(const struct patch *p, const struct patch_file *f, struct slice base, struct slice post,
                const struct make_options *o, struct buf *out, struct merge_result *r, struct err *e)
{
    struct apply_result applied;
    struct buf result = BUF_INIT;
    bool exists;
    *r = (struct merge_result){0};
    if (f->created || f->deleted)
        return err_set(e, "%s: a created or deleted file has no hunks to keep", f->path);
    patch_apply(p, f, base, 0, &result, &exists, &applied);
    if (applied.outcome != APPLY_clean) {
        buf_free(&result);
        return err_set(e, "%s: the existing patch %s: %s", f->path, apply_outcome_text(applied.outcome),
                       applied.text);
    }
    struct merger m = {.p = p, .o = o, .r = r, .context = o && o->context ? o->context : 3};
    textlines_of(&m.base, base);
    textlines_of(&m.post, post);
    int rc = find_items(&m, f, slice_of(&result), post, e);
    if (!rc && m.items.len) print_header(f, base, post, o, out);
    for (size_t i = 0, to; !rc && i < m.items.len; i = to) {
        for (to = i + 1; to < m.items.len && joins(&m, &m.items.ptr[to - 1], &m.items.ptr[to]); to++)
            continue;
        print_group(&m, i, to, out);
    }
    textlines_free(&m.base);
    textlines_free(&m.post);
    vec_free(&m.items);
    buf_free(&result);
    return rc;
}
