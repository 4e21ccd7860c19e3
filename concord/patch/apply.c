/* apply.c - one file section applied in memory: exactly where it says, or not at all.
 *
 * As git does, a hunk without trailing context must end at the end of the file: nothing else proves its
 * place.
 */
#include "concord/patch/patch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Forward and reverse are one algorithm seen from the two sides. */
struct side {
    bool reverse;
    uint32_t start, len;
};

static const char *const outcome_texts[] = {
#define X(name, text) [APPLY_##name] = text,
    APPLY_OUTCOMES(X)
#undef X
};
static_assert(sizeof outcome_texts / sizeof *outcome_texts == APPLY_OUTCOME_COUNT, "one text an outcome");

const char *apply_outcome_text(enum apply_outcome o)
{
    return outcome_texts[o];
}

static void say(struct apply_result *r, enum apply_outcome o, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void say(struct apply_result *r, enum apply_outcome o, const char *fmt, ...)
{
    r->outcome = o;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->text, sizeof r->text, fmt, ap);
    va_end(ap);
}

static bool in_from(enum line_kind k, bool reverse)
{
    return reverse ? line_in_new(k) : line_in_old(k);
}
static bool in_to(enum line_kind k, bool reverse)
{
    return reverse ? line_in_old(k) : line_in_new(k);
}

static struct side from_side(const struct hunk *h, bool reverse)
{
    return reverse ? (struct side){reverse, h->new_start, h->new_len}
                   : (struct side){reverse, h->old_start, h->old_len};
}

/* ---- walking the file -------------------------------------------------------------------------------- */

struct walk {
    struct slice pre;
    size_t at;     /* byte offset */
    uint32_t line; /* 1-based number of the line at it */
};

static size_t line_end(struct slice s, size_t at)
{
    const char *nl = memchr(s.ptr + at, '\n', s.len - at);
    return nl ? (size_t)(nl - s.ptr) + 1 : s.len;
}

/* Moves to the line; false when the file is shorter. One past the last line is a place too. */
static bool walk_to(struct walk *w, uint32_t line)
{
    while (w->line < line && w->at < w->pre.len) {
        w->at = line_end(w->pre, w->at);
        w->line++;
    }
    return w->line == line;
}

/* Does patch line i stand at byte offset at? Returns the offset after it, NO_MATCH when not. */
#define NO_MATCH SIZE_MAX
static size_t match_line(const struct patch *p, const struct hunk *h, uint32_t i, struct slice pre, size_t at)
{
    struct slice want = patch_line_content(p, i);
    bool newline = !patch_line_unterminated(p, i, h->end);
    size_t need = newline ? want.len + 1 : want.len;
    if (pre.len < need || at > pre.len - need || (!newline && at + need != pre.len)) return NO_MATCH;
    if (want.len && memcmp(pre.ptr + at, want.ptr, want.len) != 0) return NO_MATCH;
    /* The analyser loses pre.len of an empty file's literal, and with it the check above. */
    // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult)
    bool ends = !newline || pre.ptr[at + want.len] == '\n';
    return ends ? at + need : NO_MATCH;
}

static bool has_trailing_context(const struct patch *p, const struct hunk *h)
{
    for (uint32_t i = h->end; i-- > h->body;) {
        if (p->lines.ptr[i].kind == LINE_NO_EOL) continue;
        return line_is_context(p->lines.ptr[i].kind);
    }
    return true;
}

/* Checks the hunk at the walk's place and moves behind it; false leaves the place and names the line in r. */
static bool match_hunk(const struct patch *p, const struct hunk *h, struct walk *w, bool reverse,
                       struct apply_result *r)
{
    size_t at = w->at;
    uint32_t lines = 0;
    for (uint32_t i = h->body; i < h->end; i++) {
        if (!in_from(p->lines.ptr[i].kind, reverse)) continue;
        size_t next = match_line(p, h, i, w->pre, at);
        if (next == NO_MATCH) {
            struct slice want = patch_line_content(p, i);
            r->line = i;
            say(r, APPLY_fails, "line %u of the target is not '%.*s'", w->line + lines,
                (int)(want.len < 80 ? want.len : 80), want.ptr);
            return false;
        }
        at = next;
        lines++;
    }
    if (at != w->pre.len && !has_trailing_context(p, h)) {
        r->line = h->line;
        say(r, APPLY_fails, "the hunk has no trailing context and does not end at the end of the file");
        return false;
    }
    w->at = at;
    w->line += lines;
    return true;
}

static void add_to_side(const struct patch *p, const struct hunk *h, bool reverse, struct buf *post)
{
    for (uint32_t i = h->body; i < h->end; i++) {
        if (!in_to(p->lines.ptr[i].kind, reverse)) continue;
        struct slice s = patch_line_content(p, i);
        buf_add(post, s.ptr, s.len);
        if (!patch_line_unterminated(p, i, h->end)) buf_addc(post, '\n');
    }
}

static bool apply_hunks(const struct patch *p, const struct patch_file *f, struct slice pre, bool reverse,
                        struct buf *post, struct apply_result *r)
{
    struct walk w = {pre, 0, 1};
    for (uint32_t k = f->hunk; k < f->hunk_end; k++) {
        const struct hunk *h = &p->hunks.ptr[k];
        struct side from = from_side(h, reverse);
        size_t before = w.at;
        r->hunk = k;
        r->line = h->line;
        if (!walk_to(&w, from.start + (from.len == 0))) {
            say(r, APPLY_fails, "the target has no line %u", from.start);
            return false;
        }
        if (post) buf_add(post, pre.ptr + before, w.at - before);
        if (!match_hunk(p, h, &w, reverse, r)) return false;
        if (post) add_to_side(p, h, reverse, post);
    }
    if (post && pre.len) buf_add(post, pre.ptr + w.at, pre.len - w.at);
    return true;
}

/* ---- why it does not fit ----------------------------------------------------------------------------- */

/* The from side of a hunk as bytes, without skip context lines at either end. */
static void from_image(const struct patch *p, const struct hunk *h, bool reverse, uint32_t skip,
                       struct buf *out)
{
    uint32_t first = h->body, last = h->end;
    for (uint32_t n = 0; n < skip && first < last && line_is_context(p->lines.ptr[first].kind); n++) first++;
    for (uint32_t n = 0; n < skip && last > first && line_is_context(p->lines.ptr[last - 1].kind); n++)
        last--;
    for (uint32_t i = first; i < last; i++) {
        if (!in_from(p->lines.ptr[i].kind, reverse)) continue;
        struct slice s = patch_line_content(p, i);
        buf_add(out, s.ptr, s.len);
        if (!patch_line_unterminated(p, i, h->end)) buf_addc(out, '\n');
    }
}

/* Line number of the occurrence nearest to line near, 0 when there is none. */
static uint32_t find_image(struct slice pre, struct slice image, uint32_t near)
{
    if (!image.len || !pre.len) return 0;
    uint32_t best = 0, line = 1;
    size_t counted = 0;
    for (size_t at = 0; at < pre.len;) {
        const char *hit = memmem(pre.ptr + at, pre.len - at, image.ptr, image.len);
        if (!hit) break;
        size_t off = (size_t)(hit - pre.ptr);
        for (; counted < off; counted++) line += pre.ptr[counted] == '\n';
        bool aligned = !off || pre.ptr[off - 1] == '\n';
        if (aligned && (!best || llabs((long long)line - near) < llabs((long long)best - near))) best = line;
        if (best && line > near) break;
        at = off + 1;
    }
    return best;
}

static void explain(const struct patch *p, struct slice pre, bool reverse, struct apply_result *r)
{
    const struct hunk *h = &p->hunks.ptr[r->hunk];
    struct side from = from_side(h, reverse);
    for (uint32_t skip = 0; skip < 3; skip++) {
        struct buf image = BUF_INIT;
        from_image(p, h, reverse, skip, &image);
        uint32_t at = find_image(pre, slice_of(&image), from.start);
        buf_free(&image);
        if (!at) continue;
        r->offset = (int64_t)at - from.start;
        if (skip == 0 && r->offset)
            say(r, APPLY_offset, "stands at line %u, not %u", at, from.start);
        else if (skip)
            say(r, APPLY_fuzz, "fits at line %u only without %u context lines", at, skip);
        return;
    }
}

/* ---- one section ------------------------------------------------------------------------------------- */

static bool ids_usable(const char *id)
{
    return *id && !blob_id_is_zero(id);
}

static void finish(struct apply_result *r, const char *to_id, bool check, struct buf *post)
{
    if (check && ids_usable(to_id)) {
        if (blob_id_matches(to_id, slice_of(post))) {
            r->result_checked = true;
        } else {
            say(r, APPLY_wrong_result, "the result is not %s", to_id);
            buf_clear(post);
            return;
        }
    }
    r->outcome = APPLY_clean;
}

static void already(struct apply_result *r, struct slice pre, struct buf *post, bool exists_after,
                    bool *exists)
{
    buf_clear(post);
    buf_add(post, pre.ptr, pre.len);
    *exists = exists_after;
    r->outcome = APPLY_already;
}

/* The target is absent, or the section creates or removes it. True when that settled the outcome. */
static bool apply_presence(const struct patch *p, const struct patch_file *f, struct slice pre, bool reverse,
                           struct buf *post, bool *exists, struct apply_result *r)
{
    bool creates = reverse ? f->deleted : f->created, deletes = reverse ? f->created : f->deleted;
    bool there = pre.ptr != NULL;
    *exists = !deletes;
    if (!there && deletes) {
        already(r, (struct slice){"", 0}, post, false, exists);
        return true;
    }
    if (!there && !creates) {
        say(r, APPLY_absent, "'%.100s' is not there", f->path);
        return true;
    }
    if (!there || !creates) return false;
    apply_hunks(p, f, (struct slice){"", 0}, reverse, post, r);
    bool same = slice_eq(slice_of(post), pre);
    buf_clear(post);
    if (same)
        already(r, pre, post, true, exists);
    else
        say(r, APPLY_exists, "'%.100s' is there with other contents", f->path);
    return true;
}

/* It does not fit: because it is in place already, or for another reason. */
static void apply_unfit(const struct patch *p, const struct patch_file *f, struct slice pre, bool reverse,
                        const char *to_id, struct buf *post, bool *exists, struct apply_result *r)
{
    struct apply_result back = {0};
    buf_clear(post);
    if ((ids_usable(to_id) && blob_id_matches(to_id, pre)) || apply_hunks(p, f, pre, !reverse, NULL, &back))
        already(r, pre, post, *exists, exists);
    else
        explain(p, pre, reverse, r);
}

/* It fits, but is pre the blob it was made for? True when pre is. */
static bool base_agrees(const char *from_id, const char *to_id, struct slice pre, struct buf *post,
                        bool *exists, struct apply_result *r)
{
    if (blob_id_matches(from_id, pre)) return r->base_checked = true;
    buf_clear(post);
    if (ids_usable(to_id) && blob_id_matches(to_id, pre))
        already(r, pre, post, *exists, exists);
    else
        say(r, APPLY_wrong_base, "the target is not the blob %s that the patch was made for", from_id);
    return false;
}

/* Without ids, an edit that is in place and one that is not yet can both fit: then nobody can tell. */
static bool ambiguous(const struct patch *p, const struct patch_file *f, struct slice pre, bool reverse,
                      const struct buf *post)
{
    struct apply_result back = {0};
    if (f->hunk == f->hunk_end || f->created || f->deleted || slice_eq(slice_of(post), pre)) return false;
    return apply_hunks(p, f, pre, !reverse, NULL, &back);
}

void patch_apply(const struct patch *p, const struct patch_file *f, struct slice pre, int flags,
                 struct buf *post, bool *exists, struct apply_result *r)
{
    bool reverse = flags & APPLY_REVERSE, check = !(flags & APPLY_IGNORE_IDS);
    const char *from_id = reverse ? f->new_id : f->old_id, *to_id = reverse ? f->old_id : f->new_id;
    *r = (struct apply_result){0};
    buf_clear(post);
    const struct patch_fault *b = patch_blocked(p);
    if (b) {
        r->line = b->line;
        say(r, APPLY_blocked, "%s: %s", patch_fault_name(b->kind), b->text);
        return;
    }
    if (apply_presence(p, f, pre, reverse, post, exists, r)) return;
    struct slice bytes = pre.ptr ? pre : (struct slice){"", 0};
    bool check_base = check && ids_usable(from_id);
    if (!apply_hunks(p, f, bytes, reverse, post, r)) {
        apply_unfit(p, f, bytes, reverse, to_id, post, exists, r);
    } else if (check_base && pre.ptr && !base_agrees(from_id, to_id, pre, post, exists, r)) {
        return;
    } else if (!check_base && ambiguous(p, f, bytes, reverse, post)) {
        buf_clear(post);
        say(r, APPLY_fails, "it fits both as applied and as not applied, and no index line tells which");
    } else if (!*exists && post->len) {
        buf_clear(post);
        say(r, APPLY_fails, "it deletes the file but leaves lines in it");
    } else {
        finish(r, *exists ? to_id : "", check, post);
    }
}
