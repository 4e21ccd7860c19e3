/* replay.c - hunks of existing patches through the rules. */
#include "concord/adapt/replay.h"
#include "concord/adapt/private.h"
#include "concord/adapt/tokens.h"

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
const char *const replay_argument_names[] = {
#define X(name, text) #name,
    REPLAY_ARGUMENTS(X)
#undef X
};
const char *const replay_argument_texts[] = {
#define X(name, text) text,
    REPLAY_ARGUMENTS(X)
#undef X
};

/* ---- what a file's patch shows of the file ----------------------------------------------------------- */

struct view {
    struct adapt_options o;
    struct py_file *file; /* of the upstream tree, NULL if it has none */
    bool imports;         /* people import the backend somewhere in the file */
    bool expected;        /* an import of ours is still to be placed */
};

/* A line that imports the backend as a whole, not a name of its that hand work asks for. */
static bool is_import_line(struct slice s)
{
    static const char *const lines[] = {"import torch_npu", "from torch_npu.contrib import transfer_to_npu"};
    if (s.len && (s.ptr[0] == ' ' || s.ptr[0] == '\t')) return false;
    const char *comment = s.len ? memchr(s.ptr, '#', s.len) : NULL;
    if (comment) s.len = (size_t)(comment - s.ptr);
    s = slice_trim(s);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (slice_eq(s, slice_str(lines[i]))) return true;
    return false;
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

static void see_line(struct view *v, struct slice s, bool added)
{
    if (added && slice_starts(s, "from torch_npu.contrib import transfer_to_npu")) v->o.shim = true;
    if (slice_starts(s, "import torch_npu") || slice_starts(s, "from torch_npu")) v->imports = true;
    if (slice_starts(s, "device_type = ") && is_device_value(s)) v->o.variable = "device_type";
}

static void see_file(const struct patch *p, const struct patch_file *f, enum adapt_place place,
                     struct view *v)
{
    *v = (struct view){.o = adapt_defaults, .expected = true};
    v->o.style = style_of(p, f);
    v->o.place = place;
    for (uint32_t i = f->line; i < f->end; i++) {
        enum line_kind k = (enum line_kind)p->lines.ptr[i].kind;
        if (k == LINE_ADD || line_is_context(k)) see_line(v, patch_line_content(p, i), k == LINE_ADD);
    }
    if (v->o.shim) v->o.import_lines = "import torch_npu\nfrom torch_npu.contrib import transfer_to_npu\n";
}

/* ---- a hunk ------------------------------------------------------------------------------------------ */

struct line {
    struct slice was;
    uint32_t start; /* in text */
    uint32_t part;  /* the function that it belongs to, from 0 */
};
struct part {
    struct py_span span;
    bool asked; /* people put it on the device */
};
struct fragment {
    struct view *v;
    VEC(struct line) lines;     /* the old side, out of its indentation */
    VEC(struct slice) imported; /* lines that import the backend, added by people */
    VEC(uint32_t) imported_at;  /* before this line of the old side */
    VEC(struct part) parts;
    uint32_t indent, old_start;
    struct buf old;        /* the old side */
    struct buf text;       /* of the old side, behind the prelude; empty when the file has it */
    struct buf theirs;     /* the new side without imported */
    struct py_file *model; /* of text, or the file's */
    bool in_file;
    const char *all;     /* its text */
    uint32_t head, tail; /* the old side is all[head, tail) */
    tokens a, b;
    uint32_t *to; /* a's token in b */
    bool *moved;  /* a's token has another device, or another name, in b */
    bool mechanical;
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

static void read_hunk(struct fragment *g, const struct patch *p, const struct hunk *h)
{
    for (uint32_t i = h->body; i < h->end; i++) {
        enum line_kind k = (enum line_kind)p->lines.ptr[i].kind;
        struct slice s = patch_line_content(p, i);
        if (line_is_context(k) || k == LINE_DEL) {
            *vec_push(&g->lines) = (struct line){.was = s};
            buf_add(&g->old, s.ptr, s.len);
            buf_addc(&g->old, '\n');
        }
        if (k == LINE_ADD && is_import_line(s)) {
            *vec_push(&g->imported) = s;
            *vec_push(&g->imported_at) = (uint32_t)g->lines.len;
        } else if (line_is_context(k) || k == LINE_ADD) {
            buf_add(&g->theirs, s.ptr, s.len);
            buf_addc(&g->theirs, '\n');
        }
    }
}

/* Definitions and decorators of methods and of the module open a function of their own. */
static bool opens_part(struct slice raw)
{
    static const char *const words[] = {"def ", "async def ", "class ", "@"};
    struct slice s = dedent(raw, 4);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (indent_of(raw) <= 4 && slice_starts(s, words[i])) return true;
    return false;
}

static void find_parts(struct fragment *g)
{
    bool decorated = false;
    *vec_push(&g->parts) = (struct part){0};
    for (size_t i = 0; i < g->lines.len; i++) {
        struct slice raw = g->lines.ptr[i].was;
        if (opens_part(raw)) {
            if (!decorated && i) *vec_push(&g->parts) = (struct part){0};
            decorated = raw.ptr[indent_of(raw)] == '@' || (decorated && indent_of(raw) > 4);
        }
        g->lines.ptr[i].part = (uint32_t)g->parts.len - 1;
    }
}

static uint32_t least_indent(const struct fragment *g, uint32_t *first)
{
    uint32_t least = UINT32_MAX;
    *first = UINT32_MAX;
    for (size_t i = 0; i < g->lines.len; i++) {
        uint32_t n = indent_of(g->lines.ptr[i].was);
        if (slice_blank(g->lines.ptr[i].was)) continue;
        if (*first == UINT32_MAX) *first = n;
        if (n < least) least = n;
    }
    if (least == UINT32_MAX) *first = least = 0;
    return least;
}

/* Where the file has the old side, next to the line that the hunk names; UINT32_MAX if it has not. */
static uint32_t find_in_file(const struct fragment *g)
{
    const struct py_file *f = g->v->file;
    uint32_t best = UINT32_MAX, line = 1, at = 0, distance = UINT32_MAX;
    if (!f || !g->old.len) return best;
    for (const char *found = f->text;
         (found = memmem(found, f->len - (size_t)(found - f->text), g->old.ptr, g->old.len)); found++) {
        for (; at < (uint32_t)(found - f->text); at++) line += f->text[at] == '\n';
        uint32_t away = line > g->old_start ? line - g->old_start : g->old_start - line;
        if ((at && f->text[at - 1] != '\n') || away >= distance) continue;
        best = at, distance = away;
    }
    return best;
}

static void place_lines(struct fragment *g)
{
    uint32_t at = g->head;
    for (size_t i = 0; i < g->lines.len; i++) {
        struct line *l = &g->lines.ptr[i];
        struct part *in = &g->parts.ptr[l->part];
        l->start = at;
        at += (uint32_t)l->was.len + 1;
        if (!in->span.end) in->span = (struct py_span){l->start, 0, (uint32_t)i + 1};
        in->span.end = at;
    }
    g->tail = at;
}

/* Blocks open the first lines' indentation. */
static void write_text(struct fragment *g)
{
    uint32_t first;
    g->indent = least_indent(g, &first);
    buf_adds(&g->text, "if 1: import torch; import torch.nn as nn; import torch.nn.functional as F\n");
    for (uint32_t at = g->indent; at < first; at += 4)
        buf_addf(&g->text, "%*sif 1:\n", (int)(at - g->indent), "");
    g->head = (uint32_t)g->text.len;
    for (size_t i = 0; i < g->lines.len; i++) {
        struct line *l = &g->lines.ptr[i];
        l->was = dedent(l->was, g->indent);
        buf_add(&g->text, l->was.ptr, l->was.len);
        buf_addc(&g->text, '\n');
    }
    g->model = py_parse("hunk", buf_str(&g->text), g->text.len);
}

static void place_hunk(struct fragment *g)
{
    uint32_t at = find_in_file(g);
    g->in_file = at != UINT32_MAX;
    if (g->in_file)
        g->head = at, g->model = g->v->file;
    else
        write_text(g);
    g->all = g->model->text;
    place_lines(g);
}

static struct slice old_side(const struct fragment *g)
{
    return (struct slice){g->all + g->head, g->tail - g->head};
}

static bool differs(const struct token *a, const struct token *b)
{
    if (!token_same(a, b)) return true;
    return b->mark && (!a->mark || strcmp(a->mark, b->mark));
}

static const struct token *partner(const struct fragment *g, size_t i)
{
    return g->to[i] == UINT32_MAX ? NULL : &g->b.ptr[g->to[i]];
}

static bool stateless_here(const char *name, const void *fragment)
{
    const struct fragment *g = fragment;
    return is_stateless_class(g->model, name, g->tail);
}

/* What people did, token by token, and whether that was all. */
static void see_people(struct fragment *g)
{
    const char *device = g->v->o.device;
    tokens_read(old_side(g), device, &g->a);
    tokens_read(slice_of(&g->theirs), device, &g->b);
    g->to = xcalloc(g->a.len + 1, sizeof *g->to);
    g->moved = xcalloc(g->a.len + 1, sizeof *g->moved);
    if (!tokens_align(&g->a, &g->b, g->to)) return;
    bool all = g->a.len == g->b.len, any = g->imported.len != 0;
    for (size_t i = 0; i < g->a.len; i++) {
        const struct token *a = &g->a.ptr[i], *b = partner(g, i);
        all &= b && (!a->mark || b->mark);
        if (!b || !differs(a, b)) continue;
        g->moved[i] = true;
        g->parts.ptr[g->lines.ptr[a->row].part].asked = true;
    }
    tokens_drop_needless(&g->b, &g->a, g->to, (struct needless){stateless_here, g});
    for (size_t i = 0; i < g->a.len; i++) any |= partner(g, i) && differs(&g->a.ptr[i], partner(g, i));
    g->mechanical = all && any;
}

/* ---- ours -------------------------------------------------------------------------------------------- */

static int by_start(const void *a, const void *b)
{
    const struct adapt_edit *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* The old side with edits but for the import: all of them, or one. */
static void write_ours(const struct fragment *g, const struct adapt_edit *edits, size_t n, struct buf *out)
{
    uint32_t at = g->head;
    buf_clear(out);
    for (size_t i = 0; i < n; i++) {
        if (edits[i].rule == RULE_import) continue;
        buf_add(out, g->all + at, edits[i].start - at);
        buf_adds(out, edits[i].with);
        at = edits[i].end;
    }
    buf_add(out, g->all + at, g->tail - at);
}

static size_t line_at(const struct fragment *g, uint32_t at)
{
    size_t i = 0;
    while (i + 1 < g->lines.len && g->lines.ptr[i + 1].start <= at) i++;
    return i;
}

/* The token of the old side that the edit is about; a.len if there is none. */
static size_t token_edited(const struct fragment *g, const struct adapt_edit *d)
{
    struct buf text = BUF_INIT;
    tokens with = {0};
    write_ours(g, d, 1, &text);
    tokens_read(slice_of(&text), g->v->o.device, &with);
    size_t i = 0;
    while (i < g->a.len && i < with.len && !differs(&g->a.ptr[i], &with.ptr[i])) i++;
    if (i == with.len) i = g->a.len;
    tokens_free(&with);
    buf_free(&text);
    return i;
}

/* Blank lines in front of a place say nothing, nor do the comments at the top of a file. */
static uint32_t behind_text(const struct fragment *g, uint32_t at)
{
    bool top = g->v->o.place == ADAPT_TOP;
    while (at &&
           (slice_blank(g->lines.ptr[at - 1].was) || (top && slice_starts(g->lines.ptr[at - 1].was, "#"))))
        at--;
    return at;
}

/* Every line of ours is among those that people put at this place. */
static bool import_agrees(const struct fragment *g, const struct adapt_edit *d)
{
    uint32_t at = 0;
    while (at < g->lines.len && g->lines.ptr[at].start < d->start) at++;
    at = behind_text(g, at);
    for (const char *line = d->with; *line;) {
        size_t n = strcspn(line, "\n");
        bool found = !n;
        for (size_t i = 0; i < g->imported.len && !found; i++)
            found = behind_text(g, g->imported_at.ptr[i]) == at &&
                    slice_eq(g->imported.ptr[i], (struct slice){line, n});
        if (!found) return false;
        line += n + (line[n] == '\n');
    }
    return true;
}

/* The operand beside token i of a binary operation, or the other arguments of its call, moved by people? */
static bool neighbour_moved(const struct fragment *g, size_t i)
{
    uint32_t row = g->a.ptr[i].row;
    size_t from = i, to = i;
    while (from && g->a.ptr[from - 1].row == row) from--;
    while (to + 1 < g->a.len && g->a.ptr[to + 1].row == row) to++;
    for (size_t k = from; k <= to; k++)
        if (k != i && g->moved[k] && g->a.ptr[k].mark == NULL) return true;
    return false;
}

/* A class's instance, in a hunk where people moved what classes make. */
static bool layers_moved(const struct fragment *g, const struct adapt_edit *d)
{
    if (d->rule != RULE_module) return false;
    for (size_t i = 0; i < g->a.len; i++)
        if (g->moved[i] && partner(g, i) && !partner(g, i)->mark && token_same(&g->a.ptr[i], partner(g, i)))
            return true;
    return false;
}

static enum replay_argument argue(const struct fragment *g, const struct adapt_edit *d, size_t token)
{
    if (d->rule == RULE_import) return g->v->imports ? REPLAY_placed : REPLAY_no_import;
    if (token >= g->a.len) return REPLAY_unargued;
    if (g->to[token] == UINT32_MAX) return REPLAY_rewritten;
    if (layers_moved(g, d)) return REPLAY_layers;
    if (g->v->o.shim && slice_has((struct slice){g->all + d->start, d->end - d->start}, "cuda"))
        return REPLAY_shimmed;
    if (g->v->o.shim && d->rule == RULE_guard) return REPLAY_shimmed;
    return neighbour_moved(g, token) ? REPLAY_omitted : REPLAY_unargued;
}

static void judge_edit(const struct fragment *g, const struct adapt_edit *d, struct replay *r,
                       struct replay_hunk *h)
{
    bool import = d->rule == RULE_import;
    size_t token = import ? g->a.len : token_edited(g, d);
    bool right = import ? import_agrees(g, d) : token < g->a.len && g->moved[token];
    if (right) {
        r->right[d->rule]++;
        return;
    }
    enum replay_argument why = argue(g, d, token);
    r->argued[why]++;
    if (why == REPLAY_unargued) r->wrong[d->rule]++;
    if (h->ours && (h->argument == REPLAY_unargued || why != REPLAY_unargued)) return;
    h->argument = why;
    free(h->ours);
    struct slice line = g->lines.len ? slice_trim(g->lines.ptr[line_at(g, d->start)].was) : slice_str("");
    h->ours = import ? xformat("%.*s", (int)strcspn(d->with, "\n"), d->with)
                     : xformat("%s: %.*s: %s", adapt_rules[d->rule].name, SLICE_FMT(line), d->with);
}

static size_t lines_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++) n += *text == '\n' && text[1] != '\n';
    return n;
}

/* The hunk as a whole, if no edit of ours is other than people's. */
static enum replay_verdict compare(const struct fragment *g, const struct adapt_result *a)
{
    struct buf text = BUF_INIT;
    tokens ours = {0};
    size_t imports = 0;
    for (size_t i = 0; i < a->edits.len; i++)
        if (a->edits.ptr[i].rule == RULE_import) imports += lines_of(a->edits.ptr[i].with);
    write_ours(g, a->edits.ptr, a->edits.len, &text);
    tokens_read(slice_of(&text), g->v->o.device, &ours);
    uint32_t *to = xcalloc(g->a.len + 1, sizeof *to);
    if (tokens_align(&g->a, &ours, to))
        tokens_drop_needless(&ours, &g->a, to, (struct needless){stateless_here, g});
    free(to);
    bool all = imports == g->imported.len;
    enum replay_verdict v = all && tokens_same(&ours, &g->b, true)    ? REPLAY_exact
                            : all && tokens_same(&ours, &g->b, false) ? REPLAY_respelt
                                                                      : REPLAY_subset;
    tokens_free(&ours);
    buf_free(&text);
    return v;
}

static void judge(const struct fragment *g, const struct adapt_result *a, struct replay *r,
                  struct replay_hunk *h)
{
    for (size_t i = 0; i < a->edits.len; i++) judge_edit(g, &a->edits.ptr[i], r, h);
    h->mechanical = g->mechanical;
    h->verdict = !a->edits.len ? REPLAY_none : h->ours ? REPLAY_different : compare(g, a);
    r->counts[h->mechanical][h->verdict]++;
}

static void fragment_free(struct fragment *g)
{
    tokens_free(&g->a), tokens_free(&g->b);
    vec_free(&g->lines);
    vec_free(&g->imported);
    vec_free(&g->imported_at);
    vec_free(&g->parts);
    if (!g->in_file) py_free(g->model);
    buf_free(&g->old);
    buf_free(&g->text);
    buf_free(&g->theirs);
    free(g->to);
    free(g->moved);
}

static bool shows_module(const struct fragment *g, const char *start)
{
    for (size_t i = 0; i < g->lines.len && !g->indent; i++)
        if (slice_starts(g->lines.ptr[i].was, start)) return true;
    return false;
}

/* Does the branch's place for imports lie in this hunk? */
static bool shows_place(const struct fragment *g)
{
    switch (g->v->o.place) {
    case ADAPT_TOP:
        return g->old_start <= 1;
    case ADAPT_BEHIND_TORCH:
        for (size_t i = 0; i < g->lines.len && !g->indent; i++)
            if (slice_eq(slice_trim(g->lines.ptr[i].was), slice_str("import torch")) &&
                !indent_of(g->lines.ptr[i].was))
                return true;
        return false;
    default:
        return shows_module(g, "from torch.testing") || shows_module(g, "import torch.testing");
    }
}

/* The file begins with the hunk: the prelude stands in front of it, and is not of the file. */
static void put_import_first(struct fragment *g, struct adapt_result *a)
{
    for (size_t i = 0; i < a->edits.len; i++) {
        struct adapt_edit *d = &a->edits.ptr[i];
        if (d->rule == RULE_import && d->start < g->head) d->start = d->end = g->head;
    }
}

/* Edits of the file that lie outside the hunk are another hunk's. */
static void keep_inside(const struct fragment *g, struct adapt_result *a)
{
    size_t n = 0;
    for (size_t i = 0; i < a->edits.len; i++) {
        struct adapt_edit d = a->edits.ptr[i];
        if (d.start >= g->head && d.end <= g->tail)
            a->edits.ptr[n++] = d;
        else
            free(d.with);
    }
    a->edits.len = n;
}

/* The whole function, of which the hunk shows a part. */
static struct py_span whole_function(const struct py_file *f, struct py_span part)
{
    uint32_t at = part.start;
    while (at < part.end && strchr(" \n", f->text[at])) at++;
    struct py_span all = part;
    for (size_t i = f->scopes.len; i-- > 1;) {
        const struct py_scope *s = &f->scopes.ptr[i];
        if (s->kind != PY_FUNCTION || s->at.start > at || s->at.end <= at) continue;
        if (s->at.start < all.start) all.start = s->at.start;
        if (s->at.end > all.end) all.end = s->at.end;
    }
    return all;
}

static void adapt_parts(struct fragment *g, struct adapt_result *a)
{
    struct view *v = g->v;
    VEC(struct py_span) spans = {0};
    for (size_t i = 0; i < g->parts.len; i++)
        if (g->parts.ptr[i].asked)
            *vec_push(&spans) =
                g->in_file ? whole_function(v->file, g->parts.ptr[i].span) : g->parts.ptr[i].span;
    bool imports = v->expected && (g->in_file || shows_place(g));
    adapt_fragment(g->model, spans.ptr, spans.len, &v->o, imports, a);
    for (size_t i = 0; i < a->edits.len; i++) a->edits.ptr[i].scope = "";
    if (!g->in_file) put_import_first(g, a);
    keep_inside(g, a);
    for (size_t i = 0; i < a->edits.len; i++) v->expected &= a->edits.ptr[i].rule != RULE_import;
    if (a->edits.len) qsort(a->edits.ptr, a->edits.len, sizeof *a->edits.ptr, by_start);
    vec_free(&spans);
}

static void replay_hunk(const struct patch *p, const struct hunk *h, struct view *v, struct replay *r)
{
    struct fragment g = {.v = v, .old_start = h->old_start};
    struct adapt_result a;
    read_hunk(&g, p, h);
    find_parts(&g);
    place_hunk(&g);
    r->seen += g.in_file;
    see_people(&g);
    adapt_parts(&g, &a);
    struct replay_hunk *out = vec_push(&r->hunks);
    out->line = h->line + 1;
    judge(&g, &a, r, out);
    adapt_result_free(&a);
    fragment_free(&g);
}

/* ---- patches ----------------------------------------------------------------------------------------- */

static bool is_replayed(const struct patch_file *f)
{
    return f->path && str_ends(f->path, ".py") && !f->created && !f->deleted;
}

static struct py_file *upstream_file(const char *upstream, const char *path)
{
    struct err e;
    struct py_file *f = NULL;
    char *full = upstream ? path_join(upstream, path) : NULL;
    if (full && path_exists(full) && py_parse_file(full, &f, &e)) f = NULL;
    free(full);
    return f;
}

void replay_patch(const struct patch *p, const struct replay_votes *votes, const char *upstream,
                  struct replay *r)
{
    for (size_t i = 0; i < p->files.len; i++) {
        const struct patch_file *f = &p->files.ptr[i];
        if (!is_replayed(f)) {
            r->skipped += f->hunk_end - f->hunk;
            continue;
        }
        struct view v;
        see_file(p, f, replay_place(votes, f->path), &v);
        v.file = upstream_file(upstream, f->path);
        for (uint32_t h = f->hunk; h < f->hunk_end; h++) replay_hunk(p, &p->hunks.ptr[h], &v, r);
        py_free(v.file);
    }
}

double replay_precision(const struct replay *r)
{
    size_t right = 0, wrong = 0;
    for (int i = 0; i < RULE_COUNT; i++) right += r->right[i], wrong += r->wrong[i];
    return right + wrong ? (double)right / (double)(right + wrong) : 1.0;
}

void replay_free(struct replay *r)
{
    for (size_t i = 0; i < r->hunks.len; i++) free(r->hunks.ptr[i].ours);
    vec_free(&r->hunks);
}
