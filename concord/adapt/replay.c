/* replay.c - hunks of existing patches through the rules. */
#include "concord/adapt/replay.h"

#include <stdlib.h>
#include <string.h>

const char *const replay_verdict_names[] = {
#define X(name, text) #name,
    REPLAY_VERDICTS(X)
#undef X
};
const char *const replay_verdict_texts[] = {
#define X(name, text) text,
    REPLAY_VERDICTS(X)
#undef X
};

/* A line of the old side with what became of it; added lines without a removed one hang on the line before
 * them. */
struct line {
    struct slice was, theirs; /* theirs.ptr NULL: not one line any more */
    struct buf ours;
    bool changed; /* by people */
};
struct fragment {
    VEC(struct line) lines;
    VEC(struct slice) inserted; /* by people, between unchanged lines */
    VEC(uint32_t) inserted_at;  /* before this line */
    uint32_t indent;
    struct buf text;
    uint32_t head; /* bytes of text before the first line */
    bool unequal;  /* people replaced lines by another number of lines */
};

static uint32_t indent_of(struct slice s)
{
    uint32_t n = 0;
    while (n < s.len && s.ptr[n] == ' ') n++;
    return n;
}

static struct slice dedent(struct slice s, uint32_t by)
{
    uint32_t n = indent_of(s);
    if (n > by) n = by;
    return (struct slice){s.ptr + n, s.len - n};
}

/* Pairs a run of removed lines with the run of added lines behind it. */
static void add_run(struct fragment *g, const struct patch *p, uint32_t del, uint32_t add, uint32_t end)
{
    bool paired = add - del == end - add;
    for (uint32_t i = del; i < add; i++) {
        struct line *l = vec_push(&g->lines);
        *l = (struct line){.was = patch_line_content(p, i), .changed = true};
        if (paired) l->theirs = patch_line_content(p, add + (i - del));
    }
    if (paired) return;
    g->unequal |= add > del;
    for (uint32_t i = add; i < end && add == del; i++) {
        *vec_push(&g->inserted) = patch_line_content(p, i);
        *vec_push(&g->inserted_at) = (uint32_t)g->lines.len;
    }
}

static void read_hunk(struct fragment *g, const struct patch *p, const struct hunk *h)
{
    for (uint32_t i = h->body; i < h->end;) {
        enum line_kind k = (enum line_kind)p->lines.ptr[i].kind;
        if (line_is_context(k)) {
            struct slice s = patch_line_content(p, i);
            *vec_push(&g->lines) = (struct line){.was = s, .theirs = s};
        }
        if (k != LINE_DEL && k != LINE_ADD) {
            i++;
            continue;
        }
        uint32_t add = i, end;
        while (add < h->end && p->lines.ptr[add].kind == LINE_DEL) add++;
        for (end = add; end < h->end && p->lines.ptr[end].kind == LINE_ADD;) end++;
        add_run(g, p, i, add, end);
        i = end;
    }
}

/* Imports that do not stand at the top, so that no import is put behind them; blocks for the first lines'
 * indentation. */
static void write_text(struct fragment *g)
{
    uint32_t first = UINT32_MAX;
    g->indent = UINT32_MAX;
    for (size_t i = 0; i < g->lines.len; i++) {
        uint32_t n = indent_of(g->lines.ptr[i].was);
        if (slice_blank(g->lines.ptr[i].was)) continue;
        if (first == UINT32_MAX) first = n;
        if (n < g->indent) g->indent = n;
    }
    if (first == UINT32_MAX) first = g->indent = 0;
    buf_adds(&g->text, "if 1: import torch; import torch.nn as nn; import torch.nn.functional as F\n");
    for (uint32_t at = g->indent; at < first; at += 4)
        buf_addf(&g->text, "%*sif 1:\n", (int)(at - g->indent), "");
    g->head = (uint32_t)g->text.len;
    for (size_t i = 0; i < g->lines.len; i++) {
        struct line *l = &g->lines.ptr[i];
        l->was = dedent(l->was, g->indent);
        if (l->theirs.ptr) l->theirs = dedent(l->theirs, g->indent);
        buf_add(&g->text, l->was.ptr, l->was.len);
        buf_addc(&g->text, '\n');
    }
}

/* The line in which byte at of the text stands, and its first byte. */
static size_t line_at(const struct fragment *g, uint32_t at, uint32_t *start)
{
    *start = g->head;
    for (size_t i = 0; i < g->lines.len; i++) {
        uint32_t end = *start + (uint32_t)g->lines.ptr[i].was.len;
        if (at <= end) return i;
        *start = end + 1;
    }
    return g->lines.len;
}

static int by_start(const void *a, const void *b)
{
    const struct adapt_edit *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Our edits, line by line, in their order. */
static void write_ours(struct fragment *g, struct adapt_result *r)
{
    if (r->edits.len) qsort(r->edits.ptr, r->edits.len, sizeof *r->edits.ptr, by_start);
    uint32_t start, at = g->head;
    size_t e = 0;
    for (size_t i = 0; i < g->lines.len; i++) {
        struct line *l = &g->lines.ptr[i];
        uint32_t end = at + (uint32_t)l->was.len;
        for (; e < r->edits.len && line_at(g, r->edits.ptr[e].start, &start) == i; e++) {
            const struct adapt_edit *d = &r->edits.ptr[e];
            if (d->rule == RULE_import) continue;
            buf_add(&l->ours, g->text.ptr + at, d->start - at);
            buf_adds(&l->ours, d->with);
            at = d->end;
        }
        buf_add(&l->ours, g->text.ptr + at, end - at);
        at = end + 1;
    }
}

static bool same(const struct line *l)
{
    return l->theirs.ptr && slice_eq(slice_of(&l->ours), l->theirs);
}

/* Is this import among the lines that people put at the same place? */
static bool import_agrees(const struct fragment *g, const struct adapt_edit *d)
{
    uint32_t start;
    size_t at = line_at(g, d->start, &start);
    struct slice line = {d->with, strlen(d->with) - 1};
    for (size_t i = 0; i < g->inserted.len; i++)
        if (g->inserted_at.ptr[i] == at && slice_eq(g->inserted.ptr[i], line)) return true;
    return false;
}

static void judge(const struct fragment *g, const struct adapt_result *a, struct replay *r,
                  struct replay_hunk *h)
{
    size_t imports = 0;
    bool wrong = false, all = !g->unequal;
    for (size_t i = 0; i < a->edits.len; i++) {
        const struct adapt_edit *d = &a->edits.ptr[i];
        uint32_t start;
        size_t at = line_at(g, d->start, &start);
        bool import = d->rule == RULE_import;
        bool right = import ? import_agrees(g, d) : at < g->lines.len && same(&g->lines.ptr[at]);
        imports += import;
        (right ? r->right : r->wrong)[d->rule]++;
        if (!right && !wrong) h->ours = import ? xstrdup(d->with) : xstrdup(buf_str(&g->lines.ptr[at].ours));
        wrong |= !right;
    }
    for (size_t i = 0; i < g->lines.len; i++) all &= same(&g->lines.ptr[i]);
    all &= g->inserted.len == imports;
    h->verdict = !a->edits.len ? REPLAY_none : wrong ? REPLAY_different : all ? REPLAY_exact : REPLAY_subset;
    r->counts[h->verdict]++;
}

static void fragment_free(struct fragment *g)
{
    for (size_t i = 0; i < g->lines.len; i++) buf_free(&g->lines.ptr[i].ours);
    vec_free(&g->lines);
    vec_free(&g->inserted);
    vec_free(&g->inserted_at);
    buf_free(&g->text);
}

static bool shows_torch(const struct fragment *g)
{
    for (size_t i = 0; i < g->lines.len; i++)
        if (slice_eq(g->lines.ptr[i].was, slice_str("import torch")) && !g->indent) return true;
    return false;
}

/* *import: the file has no hunk yet that shows where torch is imported. */
static void replay_hunk(const struct patch *p, const struct hunk *h, const struct adapt_options *o,
                        bool *import, struct replay *r)
{
    struct fragment g = {0};
    struct adapt_result a;
    read_hunk(&g, p, h);
    write_text(&g);
    struct py_file *f = py_parse("hunk", buf_str(&g.text), g.text.len);
    bool imports = *import && shows_torch(&g);
    if (imports) *import = false;
    adapt_fragment(f, o, imports, &a);
    write_ours(&g, &a);
    struct replay_hunk *out = vec_push(&r->hunks);
    out->line = h->line + 1;
    judge(&g, &a, r, out);
    adapt_result_free(&a);
    py_free(f);
    fragment_free(&g);
}

/* The style of a file is the one that its patch's added lines use most. */
static enum adapt_style style_of(const struct patch *p, const struct patch_file *f)
{
    struct buf text = BUF_INIT;
    buf_adds(&text, "import torch\n");
    for (uint32_t i = f->line; i < f->end; i++) {
        if (p->lines.ptr[i].kind != LINE_ADD) continue;
        struct slice s = slice_trim(patch_line_content(p, i));
        buf_add(&text, s.ptr, s.len);
        buf_addc(&text, '\n');
    }
    struct py_file *added = py_parse("added", buf_str(&text), text.len);
    enum adapt_style style = adapt_style_of(added, &adapt_defaults);
    py_free(added);
    buf_free(&text);
    return style;
}

static bool adds_shim(const struct patch *p, const struct patch_file *f)
{
    for (uint32_t i = f->line; i < f->end; i++)
        if (p->lines.ptr[i].kind == LINE_ADD && slice_has(patch_line_content(p, i), "import transfer_to_npu"))
            return true;
    return false;
}

void replay_patch(const struct patch *p, struct replay *r)
{
    for (size_t i = 0; i < p->files.len; i++) {
        const struct patch_file *f = &p->files.ptr[i];
        if (!f->path || !str_ends(f->path, ".py") || f->created || f->deleted) {
            r->skipped += f->hunk_end - f->hunk;
            continue;
        }
        struct adapt_options o = adapt_defaults;
        o.style = style_of(p, f);
        o.shim = adds_shim(p, f);
        bool import = true;
        for (uint32_t h = f->hunk; h < f->hunk_end; h++) replay_hunk(p, &p->hunks.ptr[h], &o, &import, r);
    }
}

void replay_free(struct replay *r)
{
    for (size_t i = 0; i < r->hunks.len; i++) free(r->hunks.ptr[i].ours);
    vec_free(&r->hunks);
}
