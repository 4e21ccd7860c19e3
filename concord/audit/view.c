/* view.c - a patch section's lines with code, strings and comments told apart.
 *
 * A careful line model: it sees only the hunks. Each side of a hunk is scanned with the state of
 * triple-quoted strings carried from line to line; how the hunk begins is settled by where its first triple
 * quote stands.
 */
#include "concord/audit/side.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

bool vline_added(const struct vline *l)
{
    return l->kind == LINE_ADD;
}
bool vline_removed(const struct vline *l)
{
    return l->kind == LINE_DEL;
}

bool vline_code(const struct vline *l)
{
    return !l->blank && !l->comment && !l->in_string;
}

/* ---- tokens ------------------------------------------------------------------------------------------ */

static bool triple_at(struct slice s, size_t i, char q)
{
    return i + 2 < s.len && s.ptr[i] == q && s.ptr[i + 1] == q && s.ptr[i + 2] == q;
}

/* End of the string that opens at i, masked into code; *open gets the quote when a triple-quoted one goes on.
 */
static size_t mask_string(struct slice s, char *code, size_t i, char *open)
{
    char q = s.ptr[i];
    bool triple = triple_at(s, i, q);
    size_t n = triple ? 3 : 1;
    for (i += n; i < s.len; i++) {
        if (s.ptr[i] == '\\' && i + 1 < s.len) {
            code[i] = 's';
            code[++i] = 's';
        } else if (s.ptr[i] == q && (!triple || triple_at(s, i, q))) {
            return i + n;
        } else {
            code[i] = 's';
        }
    }
    *open = triple ? q : 0;
    return s.len;
}

/* The rest of a triple-quoted string that began on an earlier line. */
static size_t mask_rest(struct slice s, char *code, char *open)
{
    for (size_t i = 0; i < s.len; i++) {
        if (triple_at(s, i, *open)) {
            *open = 0;
            return i + 3;
        }
        code[i] = 's';
        if (s.ptr[i] == '\\' && i + 1 < s.len) code[++i] = 's';
    }
    return s.len;
}

/* Writes the masked line to code (s.len bytes); *open is the quote of a triple-quoted string in force, or 0.
 */
static void mask_line(struct slice s, char *code, char *open)
{
    if (!s.len) return;
    memcpy(code, s.ptr, s.len);
    size_t i = *open ? mask_rest(s, code, open) : 0;
    while (i < s.len) {
        if (s.ptr[i] == '#') {
            memset(code + i, ' ', s.len - i);
            return;
        }
        if (s.ptr[i] == '"' || s.ptr[i] == '\'')
            i = mask_string(s, code, i, open);
        else
            i++;
    }
}

/* Does the text look like a statement, and not like prose? */
static bool looks_like_code(struct slice t)
{
    static const char *const words[] = {"import ", "from ",   "def ",    "class ", "@",
                                        "self.",   "return ", "assert ", "with "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (slice_starts(t, words[i]) && (i != 1 || slice_has(t, " import "))) return true;
    return slice_has(t, " = ") || slice_ends(t, ")") || slice_ends(t, "):");
}

/* What tells whether a side begins inside a triple-quoted string. */
struct quotes {
    size_t count;   /* triple quotes in the side */
    char first;     /* the first one's character */
    bool may_close; /* where it stands, a string could end: not behind a line that asks for a docstring */
    size_t code_before, code_after;
};

static void count_quotes(struct quotes *q, struct slice t, struct slice before)
{
    for (size_t i = 0; i + 2 < t.len; i++) {
        char c = t.ptr[i];
        if ((c != '"' && c != '\'') || !triple_at(t, i, c)) continue;
        if (!q->count++) {
            bool in_expression = i > 0 && strchr("(=[,rfbuRFBU ", t.ptr[i - 1]);
            q->first = c;
            q->may_close = before.ptr && !slice_ends(before, ":") && !slice_ends(before, "(") &&
                           !slice_ends(before, ",") && !in_expression;
        }
        i += 2;
    }
}

/* Only when its triple quotes are odd in number, the first one stands where a string ends, and what stands
 * before it is not more of a program than what follows. A file's first line is in no string. */
static char initial_quote(const struct view *v, size_t from, size_t to, uint8_t skip)
{
    struct quotes q = {0};
    struct slice before = {0};
    if (from < to && v->p->hunks.ptr[v->lines.ptr[from].hunk].old_start <= 1) return 0;
    for (size_t k = from; k < to; k++) {
        const struct vline *l = &v->lines.ptr[k];
        if (l->kind == skip) continue;
        struct slice t = slice_trim(l->text);
        size_t had = q.count;
        count_quotes(&q, t, before);
        if (looks_like_code(t) && q.count == had) *(q.count ? &q.code_after : &q.code_before) += 1;
        if (t.len) before = t;
    }
    return q.count % 2 && q.may_close && q.code_before <= q.code_after ? q.first : 0;
}

static void classify(struct vline *l, bool in_string)
{
    size_t i = 0;
    while (i < l->text.len && (l->text.ptr[i] == ' ' || l->text.ptr[i] == '\t')) i++;
    l->indent = (uint32_t)i;
    l->in_string = in_string;
    l->blank = slice_blank(l->text);
    l->comment = !in_string && i < l->text.len && l->text.ptr[i] == '#';
}

/* Scans one side of one hunk; context lines get their code from the old side, which is scanned last. */
static void mask_side(struct view *v, size_t from, size_t to, uint8_t skip)
{
    char open = v->python ? initial_quote(v, from, to, skip) : 0;
    for (size_t k = from; k < to; k++) {
        struct vline *l = &v->lines.ptr[k];
        if (l->kind == skip) continue;
        bool in_string = open != 0;
        if (v->python) mask_line(l->text, (char *)l->code.ptr, &open);
        classify(l, in_string);
    }
}

/* ---- who replaced whom ------------------------------------------------------------------------------- */

/* Common leading and trailing bytes, as a share of both lines: enough to pair a line with its edited self. */
static unsigned likeness(struct slice a, struct slice b)
{
    a = slice_trim(a), b = slice_trim(b);
    size_t n = a.len < b.len ? a.len : b.len, head = 0, tail = 0;
    while (head < n && a.ptr[head] == b.ptr[head]) head++;
    while (tail < n - head && a.ptr[a.len - 1 - tail] == b.ptr[b.len - 1 - tail]) tail++;
    return a.len + b.len ? (unsigned)(200 * (head + tail) / (a.len + b.len)) : 0;
}

enum { PARTNER_WINDOW = 64 }; /* in a longer block only the lines about as far down are looked at */

static bool can_replace(const struct vline *l)
{
    return vline_added(l) && !l->blank && !l->comment;
}

static void find_partners_in(struct view *v, const struct block *b, uint32_t *added)
{
    uint32_t n = 0, rank = 0;
    for (uint32_t k = b->first; k < b->end; k++)
        if (can_replace(&v->lines.ptr[k])) added[n++] = k;
    for (uint32_t i = b->first; i < b->end; i++) {
        if (!vline_removed(&v->lines.ptr[i])) continue;
        uint32_t middle = (uint32_t)((uint64_t)rank++ * n / b->dels);
        uint32_t from = middle > PARTNER_WINDOW ? middle - PARTNER_WINDOW : 0, to = middle + PARTNER_WINDOW;
        unsigned most = 39;
        for (uint32_t k = from; k < n && k <= to; k++) {
            unsigned alike = likeness(v->lines.ptr[i].text, v->lines.ptr[added[k]].text);
            if (alike > most) most = alike, v->partner[i] = added[k];
        }
    }
}

static void find_partners(struct view *v)
{
    uint32_t *added = xcalloc(v->lines.len + 1, sizeof *added);
    v->partner = xmalloc((v->lines.len + 1) * sizeof *v->partner);
    for (size_t i = 0; i < v->lines.len; i++) v->partner[i] = UINT32_MAX;
    for (size_t n = 0; n < v->blocks.len; n++)
        if (v->blocks.ptr[n].dels && v->blocks.ptr[n].adds) find_partners_in(v, &v->blocks.ptr[n], added);
    free(added);
}

void each_pair(const struct rule *rule, const struct view *v, struct findings *out, pair_fn *fn)
{
    for (size_t i = 0; i < v->lines.len; i++) {
        const struct vline *old = &v->lines.ptr[i];
        if (!vline_removed(old) || !vline_code(old) || v->partner[i] == UINT32_MAX) continue;
        fn(rule, v, old, &v->lines.ptr[v->partner[i]], out);
    }
}

/* ---- the view ---------------------------------------------------------------------------------------- */

static void add_hunk(struct view *v, uint32_t h, char **arena)
{
    const struct hunk *k = &v->p->hunks.ptr[h];
    size_t from = v->lines.len;
    for (uint32_t i = k->body; i < k->end; i++) {
        uint8_t kind = v->p->lines.ptr[i].kind;
        if (kind == LINE_NO_EOL) continue;
        struct vline *l = vec_push(&v->lines);
        l->line = i;
        l->hunk = h;
        l->kind = kind == LINE_BARE ? LINE_CONTEXT : kind;
        l->text = patch_line_content(v->p, i);
        if (l->text.len) memcpy(*arena, l->text.ptr, l->text.len);
        l->code = (struct slice){*arena, l->text.len};
        *arena += l->text.len;
    }
    mask_side(v, from, v->lines.len, LINE_DEL);
    mask_side(v, from, v->lines.len, LINE_ADD);
}

static void find_blocks(struct view *v)
{
    for (uint32_t i = 0; i < v->lines.len;) {
        const struct vline *l = &v->lines.ptr[i];
        if (l->kind == LINE_CONTEXT) {
            i++;
            continue;
        }
        struct block *b = vec_push(&v->blocks);
        b->first = i;
        for (; i < v->lines.len && v->lines.ptr[i].hunk == l->hunk && v->lines.ptr[i].kind != LINE_CONTEXT;
             i++) {
            b->dels += v->lines.ptr[i].kind == LINE_DEL;
            b->adds += v->lines.ptr[i].kind == LINE_ADD;
            b->adds_device |= vline_added(&v->lines.ptr[i]) && slice_has(v->lines.ptr[i].code, "device");
        }
        b->end = i;
    }
}

/* Wanted by rules that look for a line's former self; made only where something is commented out. */
static void find_removed(struct view *v)
{
    bool comments = false;
    for (size_t i = 0; i < v->lines.len && !comments; i++)
        comments = vline_added(&v->lines.ptr[i]) && v->lines.ptr[i].comment;
    for (size_t i = 0; i < v->lines.len && comments; i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (!vline_removed(l) || !vline_code(l)) continue;
        struct slice t = slice_trim(l->text);
        char *key = xstrndup(t.ptr, t.len);
        *map_put(&v->removed, key) = (void *)l;
        free(key);
    }
}

void view_make(struct view *v, const char *file, const struct patch *p, const struct patch_file *f)
{
    *v = (struct view){.file = file, .p = p, .f = f};
    if (!f || !f->path) return;
    v->after = xcalloc(1, sizeof *v->after);
    v->python = str_ends(f->path, ".py") || str_ends(f->path, ".pyi");
    size_t bytes = 0;
    for (uint32_t i = f->line; i < f->end; i++) bytes += p->lines.ptr[i].len;
    v->arena = xmalloc(bytes + 1);
    char *at = v->arena;
    for (uint32_t h = f->hunk; h < f->hunk_end; h++) add_hunk(v, h, &at);
    find_blocks(v);
    find_removed(v);
    find_partners(v);
}

void view_free(struct view *v)
{
    vec_free(&v->lines);
    vec_free(&v->blocks);
    map_free(&v->removed, NULL);
    free(v->arena);
    free(v->partner);
    if (v->after) side_free(v->after);
    free(v->after);
    if (v->pre) py_free(v->pre);
    if (v->post) py_free(v->post);
}

const struct side *view_after(const struct view *v)
{
    if (!v->after->file) side_make(v->after, v);
    return v->after;
}

/* ---- questions rules ask ----------------------------------------------------------------------------- */

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

size_t find_word(struct slice code, const char *word, size_t from)
{
    size_t n = strlen(word);
    while (from + n <= code.len) {
        const char *hit = memmem(code.ptr + from, code.len - from, word, n);
        if (!hit) return SIZE_MAX;
        size_t at = (size_t)(hit - code.ptr);
        bool left = at == 0 || !is_name_char(code.ptr[at - 1]) || !is_name_char(*word);
        bool right = at + n == code.len || !is_name_char(code.ptr[at + n]) || !is_name_char(word[n - 1]);
        if (left && right) return at;
        from = at + 1;
    }
    return SIZE_MAX;
}

bool has_word(struct slice code, const char *word)
{
    return find_word(code, word, 0) != SIZE_MAX;
}

struct slice literal_at(const struct vline *l, size_t at)
{
    size_t end = at + 1;
    while (end < l->code.len && l->code.ptr[end] == 's') end++;
    if (end >= l->code.len || l->code.ptr[end] != l->code.ptr[at]) return (struct slice){"", 0};
    return (struct slice){l->text.ptr + at + 1, end - at - 1};
}

static bool literal_is(struct slice s, const char *word, bool index)
{
    size_t n = strlen(word);
    if (!slice_starts(s, word)) return false;
    if (s.len == n) return true;
    if (!index || s.ptr[n] != ':' || s.len == n + 1) return false;
    for (size_t i = n + 1; i < s.len; i++)
        if (!isdigit((unsigned char)s.ptr[i])) return false;
    return true;
}

bool has_literal(const struct vline *l, const char *word, bool index)
{
    for (size_t i = 0; i < l->code.len && !l->in_string; i++) {
        if (l->code.ptr[i] != '"' && l->code.ptr[i] != '\'') continue;
        struct slice s = literal_at(l, i);
        if (literal_is(s, word, index)) return true;
        i += s.len + 1;
    }
    return false;
}

void rule_report(const struct rule *rule, const struct view *v, struct findings *out, const struct vline *l,
                 const char *fmt, ...)
{
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    audit_finding_add(out, rule, v->file, l->line + 1, l->text, "%s", text);
}
