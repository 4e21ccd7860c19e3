/* place.c - one edit put into the target, given how its hunk is aligned. */
#include "concord/patch/place.h"
#include "concord/patch/evidence.h"
#include "concord/patch/words.h"

#include <stdlib.h>
#include <string.h>

static void conflict(struct placed *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void conflict(struct placed *out, const char *fmt, ...)
{
    struct buf b = BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    buf_vaddf(&b, fmt, ap);
    va_end(ap);
    out->outcome = PORT_conflict;
    out->reason = buf_take(&b);
}

static struct slice shown(struct slice s)
{
    s = slice_trim(s);
    if (s.len > 70) s.len = 70;
    return s;
}

static void add_lines(const struct hunk_edit *e, struct buf *out)
{
    for (size_t i = 0; i < e->added.len; i++) {
        buf_add(out, e->added.ptr[i].ptr, e->added.ptr[i].len);
        buf_addc(out, '\n');
    }
}

static void finish(struct placed *out, uint32_t from, uint32_t to, enum port_outcome o)
{
    out->from = from;
    out->to = to;
    out->outcome = o;
}

/* The added lines stand at target lines from..., blank ones aside at the ends. */
static bool added_stands_at(const struct target *g, const struct hunk_edit *e, uint32_t from)
{
    if (from + e->added.len > g->t.v.len || !e->added.len) return false;
    bool text = false;
    for (size_t i = 0; i < e->added.len; i++) {
        if (!slice_eq(e->added.ptr[i], g->t.v.ptr[from + i])) return false;
        text |= !slice_blank(e->added.ptr[i]);
    }
    return text;
}

static bool added_within(const struct target *g, const struct hunk_edit *e, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i + e->added.len <= to; i++)
        if (added_stands_at(g, e, i)) return true;
    return false;
}

/* ---- insertions -------------------------------------------------------------------------------------- */

/* Nearest aligned old line before (step -1) or after (step 1), blank ones only when nothing else is near. */
static int64_t neighbour(const struct old_side *o, const struct candidate *c, int64_t i, int step)
{
    int64_t blank = -1;
    for (int n = 0; i >= 0 && i < (int64_t)o->lines.len && n < 4; i += step, n++) {
        if (c->align[i] == UNALIGNED) return blank;
        if (!slice_blank(o->lines.ptr[i].text)) return blank >= 0 ? blank : i;
        if (blank < 0) blank = i;
    }
    return blank;
}

static bool all_blank(const struct target *g, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        if (!slice_blank(g->t.v.ptr[i])) return false;
    return true;
}

static bool is_import(struct slice s)
{
    return slice_starts(slice_trim(s), "import ") || slice_starts(slice_trim(s), "from ");
}

/* Both neighbours stand, with lines of the target's own between them: which of the two do the added lines
 * belong to? 0 when it cannot be told. */
static int belongs_to(const struct hunk_edit *e, struct slice before, struct slice after)
{
    struct slice first = {0};
    for (size_t i = 0; i < e->added.len && !first.len; i++)
        if (!slice_blank(e->added.ptr[i])) first = e->added.ptr[i];
    if (!first.len || (is_import(first) && !indent_of(first))) return -1;
    struct slice last = slice_trim(e->added.ptr[e->added.len - 1]);
    if (slice_starts(last, "@")) return 1;
    if (slice_ends(slice_trim(before), ":")) return -1;
    bool as_before = indent_of(first) == indent_of(before), as_after = indent_of(first) == indent_of(after);
    if (as_before != as_after) return as_before ? -1 : 1;
    return 0;
}

static void insert_at(const struct target *g, const struct hunk_edit *e, uint32_t at, struct placed *out)
{
    if (added_stands_at(g, e, at)) {
        finish(out, at, at, PORT_upstream);
        return;
    }
    finish(out, at, at, PORT_carried);
    add_lines(e, &out->text);
}

static void insert_between(const struct target *g, const struct hunk_edit *e, uint32_t before, uint32_t after,
                           struct placed *out)
{
    uint32_t from = before + 1;
    if (added_within(g, e, from, after)) {
        finish(out, from, from, PORT_upstream);
    } else if (from == after || all_blank(g, from, after)) {
        insert_at(g, e, from, out);
    } else {
        int side = belongs_to(e, g->t.v.ptr[before], g->t.v.ptr[after]);
        if (side < 0)
            insert_at(g, e, from, out);
        else if (side > 0)
            insert_at(g, e, after, out);
        else
            conflict(out, "the target has '%.*s' between its neighbours '%.*s' and '%.*s'",
                     SLICE_FMT(shown(g->t.v.ptr[from])), SLICE_FMT(shown(g->t.v.ptr[before])),
                     SLICE_FMT(shown(g->t.v.ptr[after])));
    }
}

static bool sure(const struct old_side *o, const struct target *g, const struct candidate *c, int64_t i)
{
    if (i < 0 || slice_blank(o->lines.ptr[i].text)) return false;
    return match_lines(o->lines.ptr[i].text, g->t.v.ptr[c->align[i]]) >= MATCH_INDENT;
}

static void place_insertion(const struct target *g, const struct old_side *o, const struct candidate *c,
                            const struct hunk_edit *e, struct placed *out)
{
    int64_t b = (int64_t)e->from - 1, a = e->from;
    bool has_before = b >= 0 && c->align[b] != UNALIGNED,
         has_after = a < (int64_t)o->lines.len && c->align[a] != UNALIGNED;
    if (has_before && has_after) {
        insert_between(g, e, (uint32_t)c->align[b], (uint32_t)c->align[a], out);
        return;
    }
    /* One neighbour only: it must be a line of its own, not a blank one, or lead to one without a gap. */
    int64_t nb = neighbour(o, c, b, -1), na = neighbour(o, c, a, 1);
    bool chain_b =
        has_before && (sure(o, g, c, b) ||
                       (nb >= 0 && b > 0 && c->align[b - 1] == c->align[b] - 1 && sure(o, g, c, b - 1)));
    bool chain_a =
        has_after && (sure(o, g, c, a) || (na >= 0 && a + 1 < (int64_t)o->lines.len &&
                                           c->align[a + 1] == c->align[a] + 1 && sure(o, g, c, a + 1)));
    if (chain_b && added_within(g, e, (uint32_t)c->align[b] + 1,
                                (uint32_t)(g->t.v.len < (size_t)c->align[b] + 30 ? g->t.v.len
                                                                                 : (size_t)c->align[b] + 30)))
        finish(out, (uint32_t)c->align[b] + 1, (uint32_t)c->align[b] + 1, PORT_upstream);
    else if (chain_b)
        insert_at(g, e, (uint32_t)c->align[b] + 1, out);
    else if (chain_a)
        insert_at(g, e, (uint32_t)c->align[a], out);
    else
        conflict(out, "neither '%.*s' before it nor '%.*s' after it is in the target",
                 b >= 0 ? (int)shown(o->lines.ptr[b].text).len : 0,
                 b >= 0 ? shown(o->lines.ptr[b].text).ptr : "",
                 a < (int64_t)o->lines.len ? (int)shown(o->lines.ptr[a].text).len : 0,
                 a < (int64_t)o->lines.len ? shown(o->lines.ptr[a].text).ptr : "");
}

/* ---- replacements ------------------------------------------------------------------------------------ */

/* The target's lines that stand for the removed ones: from the first to the last, or what lies between the
 * neighbours. */
static bool replaced_range(const struct target *g, const struct old_side *o, const struct candidate *c,
                           const struct hunk_edit *e, uint32_t *from, uint32_t *to)
{
    int32_t first = UNALIGNED, last = UNALIGNED;
    int64_t b = (int64_t)e->from - 1, a = e->to;
    for (uint32_t i = e->from; i < e->to; i++) {
        if (c->align[i] == UNALIGNED) continue;
        if (first == UNALIGNED) first = c->align[i];
        last = c->align[i];
    }
    bool head = c->align[e->from] != UNALIGNED, tail = c->align[e->to - 1] != UNALIGNED;
    int32_t before = b >= 0 && c->align[b] != UNALIGNED ? c->align[b] + 1 : UNALIGNED;
    int32_t after = a < (int64_t)o->lines.len && c->align[a] != UNALIGNED ? c->align[a] : UNALIGNED;
    *from = head ? (uint32_t)first : before != UNALIGNED ? (uint32_t)before : UINT32_MAX;
    *to = tail ? (uint32_t)last + 1 : after != UNALIGNED ? (uint32_t)after : UINT32_MAX;
    (void)g;
    return *from != UINT32_MAX && *to != UINT32_MAX && *from <= *to;
}

static void join(const struct textlines *t, uint32_t from, uint32_t to, struct buf *out)
{
    for (uint32_t i = from; i < to; i++) {
        buf_add(out, t->v.ptr[i].ptr, t->v.ptr[i].len);
        buf_addc(out, '\n');
    }
}

static void join_old(const struct old_side *o, const struct hunk_edit *e, struct buf *out)
{
    for (uint32_t i = e->from; i < e->to; i++) {
        buf_add(out, o->lines.ptr[i].text.ptr, o->lines.ptr[i].text.len);
        buf_addc(out, '\n');
    }
}

/* All lines differ from the target's by one and the same indent: the added ones get it too. */
static bool reindent(const struct old_side *o, const struct target *g, const struct hunk_edit *e,
                     uint32_t from, struct buf *out)
{
    int64_t shift = 0;
    bool known = false;
    for (uint32_t i = e->from; i < e->to; i++) {
        struct slice a = o->lines.ptr[i].text, b = g->t.v.ptr[from + i - e->from];
        if (match_lines(a, b) < MATCH_INDENT) return false;
        if (slice_blank(a)) continue;
        int64_t s = (int64_t)indent_of(b) - (int64_t)indent_of(a);
        if (known && s != shift) return false;
        shift = s, known = true;
    }
    if (!known) return false;
    for (size_t i = 0; i < e->added.len; i++) {
        struct slice s = e->added.ptr[i];
        int64_t n = (int64_t)indent_of(s) + shift;
        if (!slice_blank(s) && n < 0) return false;
        struct slice body = {s.ptr + indent_of(s), s.len - indent_of(s)};
        for (int64_t k = 0; k < n && body.len; k++) buf_addc(out, ' ');
        buf_add(out, body.ptr, body.len);
        buf_addc(out, '\n');
    }
    return true;
}

/* How much of old is in mine, as a share of tokens; below half a merge would put the edit into other code. */
static bool close_enough(struct slice old, struct slice mine)
{
    size_t n = old.len < mine.len ? old.len : mine.len, head = 0, tail = 0;
    while (head < n && old.ptr[head] == mine.ptr[head]) head++;
    while (tail < n - head && old.ptr[old.len - 1 - tail] == mine.ptr[mine.len - 1 - tail]) tail++;
    return 2 * (head + tail) >= (old.len + mine.len) / 2;
}

static void merge_into_target(const struct target *g, const struct old_side *o, const struct hunk_edit *e,
                              uint32_t from, uint32_t to, struct placed *out)
{
    struct buf old = BUF_INIT, new = BUF_INIT, mine = BUF_INIT;
    join_old(o, e, &old);
    add_lines(e, &new);
    join(&g->t, from, to, &mine);
    struct slice first = from < g->t.v.len ? shown(g->t.v.ptr[from]) : (struct slice){"", 0};
    if (to - from == e->to - e->from && reindent(o, g, e, from, &out->text)) {
        finish(out, from, to, PORT_adapted);
        out->reason = xstrdup("the target has the lines at another indent");
    } else if (buf_clear(&out->text),
               close_enough(slice_of(&old), slice_of(&mine)) &&
                   !merge_words(slice_of(&old), slice_of(&new), slice_of(&mine), &out->text)) {
        bool same = slice_eq(slice_of(&out->text), slice_of(&mine));
        finish(out, from, to, same ? PORT_upstream : PORT_adapted);
        if (!same) out->reason = xformat("merged into the target's '%.*s'", SLICE_FMT(first));
    } else {
        conflict(out, "the patch has '%.*s', the target '%.*s'", SLICE_FMT(shown(o->lines.ptr[e->from].text)),
                 SLICE_FMT(first));
    }
    buf_free(&old);
    buf_free(&new);
    buf_free(&mine);
}

static bool exact_range(const struct target *g, const struct old_side *o, const struct hunk_edit *e,
                        uint32_t from, uint32_t to)
{
    if (to - from != e->to - e->from) return false;
    for (uint32_t i = e->from; i < e->to; i++)
        if (!slice_eq(o->lines.ptr[i].text, g->t.v.ptr[from + i - e->from])) return false;
    return true;
}

/* Blank lines that make room for the added ones: where the target has none or others, the added lines still
 * go in. */
static bool place_over_blanks(const struct target *g, const struct old_side *o, const struct candidate *c,
                              const struct hunk_edit *e, struct placed *out)
{
    int64_t b = (int64_t)e->from - 1, a = e->to;
    for (uint32_t i = e->from; i < e->to; i++)
        if (!slice_blank(o->lines.ptr[i].text)) return false;
    if (!e->added.len || b < 0 || a >= (int64_t)o->lines.len || c->align[b] == UNALIGNED ||
        c->align[a] == UNALIGNED)
        return false;
    uint32_t from = (uint32_t)c->align[b] + 1, to = (uint32_t)c->align[a];
    if (all_blank(g, from, to)) {
        finish(out, from, to, PORT_adapted);
        out->reason = xstrdup("the target has other blank lines here");
        add_lines(e, &out->text);
    } else {
        insert_between(g, e, (uint32_t)c->align[b], to, out);
    }
    return true;
}

static void place_replacement(const struct target *g, const struct old_side *o, const struct candidate *c,
                              const struct hunk_edit *e, struct placed *out)
{
    uint32_t from, to;
    bool known = replaced_range(g, o, c, e, &from, &to);
    if (!(known && exact_range(g, o, e, from, to)) && place_over_blanks(g, o, c, e, out)) return;
    if (!known) {
        conflict(out, "'%.*s' is not in the target where its neighbours are",
                 SLICE_FMT(shown(o->lines.ptr[e->from].text)));
    } else if (exact_range(g, o, e, from, to)) {
        finish(out, from, to, PORT_carried);
        add_lines(e, &out->text);
    } else if (added_within(g, e, from, to) && to - from <= e->added.len + 2) {
        finish(out, from, from, PORT_upstream);
    } else if (from == to) {
        if (!e->added.len)
            finish(out, from, from, PORT_upstream);
        else
            conflict(out, "the target has nothing where the patch has '%.*s'",
                     SLICE_FMT(shown(o->lines.ptr[e->from].text)));
    } else {
        merge_into_target(g, o, e, from, to, out);
    }
}

void place_edit(const struct target *g, const struct old_side *o, const struct candidate *c,
                const struct hunk_edit *e, struct placed *out)
{
    *out = (struct placed){0};
    if (e->from == e->to)
        place_insertion(g, o, c, e, out);
    else
        place_replacement(g, o, c, e, out);
}
