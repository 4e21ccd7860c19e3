/* side.c - the patched side of a section as a source model, whole or put together from its hunks. */
#include "concord/audit/side.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- one hunk ---------------------------------------------------------------------------------------- */

struct piece {
    const struct view *v;
    uint32_t first, end;   /* view lines */
    uint32_t start, close; /* lines before start lie in a string, lines up to close in a bracket from above */
    VEC(char) above;       /* closing brackets whose opening ones stand above the hunk */
    VEC(char) open;        /* opening brackets not yet closed */
    VEC(uint32_t)
    levels;              /* indents of the blocks that the hunk starts in or falls back to, innermost first */
    VEC(uint32_t) leads; /* the statement that falls back to the level, a view line */
    VEC(uint32_t) tries; /* indents of try statements without a handler so far */
    const struct vline *head, *last; /* where the last statement starts; the last line of code */
};

static bool shown(const struct vline *l)
{
    return l->kind != LINE_DEL;
}

static void follow_brackets(struct piece *p, uint32_t i, bool note_above)
{
    struct slice code = p->v->lines.ptr[i].code;
    for (size_t k = 0; k < code.len; k++) {
        if (strchr("([{", code.ptr[k])) {
            *vec_push(&p->open) = code.ptr[k];
        } else if (code.ptr[k] && strchr(")]}", code.ptr[k])) {
            if (p->open.len) {
                p->open.len--;
            } else if (note_above) {
                *vec_push(&p->above) = code.ptr[k];
                p->close = i;
            }
        }
    }
}

static bool goes_on(const struct vline *l)
{
    return slice_ends(slice_trim(l->code), "\\");
}

static void follow_tries(struct piece *p, const struct vline *l)
{
    struct slice c = slice_trim(l->code);
    bool handler = slice_starts(c, "except") || slice_starts(c, "finally");
    if (handler && p->tries.len && p->tries.ptr[p->tries.len - 1] == l->indent) p->tries.len--;
    if (slice_starts(c, "try:")) *vec_push(&p->tries) = l->indent;
}

/* Where statements start, and with them the blocks that the hunk begins in. */
static void find_levels(struct piece *p)
{
    const struct vline *before = NULL;
    bool above = p->above.len > 0;
    p->open.len = 0;
    for (uint32_t i = p->start; i < p->end; i++) {
        const struct vline *l = &p->v->lines.ptr[i];
        if (!shown(l)) continue;
        bool statement =
            !p->open.len && !l->blank && !l->comment && !l->in_string && !(before && goes_on(before));
        if (above) {
            statement = i == p->close; /* its indent is that of the statement around it */
            above = !statement;
        }
        if (statement && (!p->levels.len || l->indent < p->levels.ptr[p->levels.len - 1])) {
            *vec_push(&p->levels) = l->indent;
            *vec_push(&p->leads) = i;
        }
        if (statement) p->head = l;
        if (statement) follow_tries(p, l);
        if (!l->blank && !l->comment && !l->in_string) p->last = l;
        follow_brackets(p, i, false);
        before = l;
    }
}

static void study(struct piece *p)
{
    p->start = p->first;
    while (p->start < p->end && (p->v->lines.ptr[p->start].in_string || !shown(&p->v->lines.ptr[p->start])))
        p->start++;
    for (uint32_t i = p->start; i < p->end; i++)
        if (shown(&p->v->lines.ptr[i])) follow_brackets(p, i, true);
    find_levels(p);
}

/* ---- the text ---------------------------------------------------------------------------------------- */

struct writer {
    struct side *s;
    struct buf text;
};

static void write_row(struct writer *w, uint32_t line, uint32_t indent, struct slice text)
{
    *vec_push(&w->s->row) = (uint32_t)w->text.len;
    *vec_push(&w->s->line) = line;
    for (uint32_t i = 0; i < indent; i++) buf_addc(&w->text, ' ');
    buf_add(&w->text, text.ptr, text.len);
    buf_addc(&w->text, '\n');
}

static void write_word(struct writer *w, uint32_t indent, const char *text)
{
    write_row(w, UINT32_MAX, indent, slice_str(text));
}

/* The statement that a branch or a handler belongs to; NULL when code is none. */
static const char *lead_of(struct slice code)
{
    code = slice_trim(code);
    if (slice_starts(code, "else") || slice_starts(code, "elif")) return "if 1:";
    if (slice_starts(code, "except") || slice_starts(code, "finally")) return "try:";
    return NULL;
}

/* "class X(Y):" or "def f(self, device" of the hunk's section text, cut where git cut it, as a header line.
 */
static bool write_section(struct writer *w, struct slice section, uint32_t indent)
{
    section = slice_trim(section);
    bool class = slice_starts(section, "class ");
    if (!class && !slice_starts(section, "def ") && !slice_starts(section, "async def ")) return false;
    size_t n = slice_starts(section, "async ") ? 10 : class ? 6 : 4, name = n, cut = 0;
    while (n < section.len && (isalnum((unsigned char)section.ptr[n]) || section.ptr[n] == '_')) n++;
    if (n == name || (n < section.len && section.ptr[n] != '(' && section.ptr[n] != ':')) return false;
    const char *open = n < section.len && section.ptr[n] == '(' ? section.ptr + n : NULL;
    for (size_t i = n; i < section.len; i++)
        if (strchr("),", section.ptr[i])) cut = i;
    struct buf head = BUF_INIT;
    buf_add(&head, section.ptr, n);
    if (!class) {
        buf_addc(&head, '(');
        if (open && cut > n) buf_add(&head, open + 1, cut - n - 1);
        buf_addc(&head, ')');
    }
    buf_addc(&head, ':');
    write_row(w, UINT32_MAX, indent, slice_of(&head));
    buf_free(&head);
    return true;
}

static bool names_method(struct slice section)
{
    return slice_has(section, "def ") && (slice_has(section, "(self") || slice_has(section, "(cls"));
}

/* Does the line go on from an operand above it? */
static bool goes_on_from(struct slice code)
{
    static const char *const words[] = {"and ", "or ", "if ", "else ", "for ", "in ", ".",
                                        "+",    "- ",  "/",   "%",     "|",    "="};
    code = slice_trim(code);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (slice_starts(code, words[i])) return true;
    return false;
}

/* The statement around the hunk's first lines, up to the brackets that these close. */
static void write_call(struct writer *w, const struct piece *p)
{
    struct slice end = slice_trim(p->v->lines.ptr[p->close].code);
    bool block = slice_ends(end, ":"), function = slice_has(end, "->");
    for (uint32_t i = p->start; i < p->close && block; i++)
        function |= slice_starts(slice_trim(p->v->lines.ptr[i].code), "self");
    struct buf call = BUF_INIT;
    bool display = p->above.ptr[p->above.len - 1] == '}';
    buf_adds(&call, display ? "_ = " : block ? function ? "def _" : "if _" : "_");
    for (size_t i = p->above.len; i-- > 0;) {
        char c = p->above.ptr[i];
        buf_addc(&call, c == ')' ? '(' : c == ']' ? '[' : '{');
    }
    if (goes_on_from(p->v->lines.ptr[p->start].code)) buf_addc(&call, '_');
    write_row(w, UINT32_MAX, p->levels.ptr[0], slice_of(&call));
    buf_free(&call);
}

static bool has_method_at(const struct piece *p, uint32_t indent)
{
    for (uint32_t i = p->start; i < p->end; i++) {
        const struct vline *l = &p->v->lines.ptr[i];
        if (shown(l) && l->indent == indent && names_method(l->code)) return true;
    }
    return false;
}

/* The blocks around the hunk, outermost first: a class or function that the section names, a method where the
 * indent asks for one more, then plain blocks. */
static void write_blocks(struct writer *w, const struct piece *p, struct slice section)
{
    size_t n = p->levels.len;
    const uint32_t body = 4;
    if (!n) return;
    uint32_t lowest = p->levels.ptr[n - 1];
    bool method = names_method(section), function = slice_has(section, "def ") && !method;
    bool class =
        slice_has(section, "class ") || (!function && (p->levels.ptr[0] > body || has_method_at(p, body)));
    if (lowest) {
        bool in_method = lowest > body && class;
        if (method || !write_section(w, section, 0)) write_word(w, 0, class ? "class _:" : "if 1:");
        if (in_method && !(method && write_section(w, section, body))) write_word(w, body, "def _(self):");
    }
    for (size_t i = n; i-- > 1;) {
        const char *lead = lead_of(p->v->lines.ptr[p->leads.ptr[i]].code);
        bool members = class && lowest && p->levels.ptr[i] == body;
        write_word(w, p->levels.ptr[i], lead ? lead : members ? "def _(self):" : "if 1:");
    }
    const char *lead = lead_of(p->v->lines.ptr[p->leads.ptr[0]].code);
    if (lead && !p->above.len) {
        write_word(w, p->levels.ptr[0], lead);
        write_word(w, p->levels.ptr[0] + 4, "pass");
    }
    if (p->above.len) write_call(w, p);
}

/* Position of the triple quote whose string the hunk leaves open: its line in *line; SIZE_MAX when all are
 * closed. Strings are masked in the code, so every triple quote there opens or closes one. */
static size_t open_quote(const struct piece *p, uint32_t *line)
{
    size_t at = SIZE_MAX;
    for (uint32_t i = p->start; i < p->end; i++) {
        struct slice c = p->v->lines.ptr[i].code;
        if (!shown(&p->v->lines.ptr[i])) continue;
        for (size_t k = 0; k + 2 < c.len; k++) {
            if ((c.ptr[k] != '"' && c.ptr[k] != '\'') || c.ptr[k + 1] != c.ptr[k] || c.ptr[k + 2] != c.ptr[k])
                continue;
            if (at == SIZE_MAX)
                at = k, *line = i;
            else
                at = SIZE_MAX;
            k += 2;
        }
    }
    return at;
}

static void write_lines(struct writer *w, const struct piece *p)
{
    uint32_t cut = UINT32_MAX;
    size_t quote = open_quote(p, &cut);
    for (uint32_t i = p->first; i < p->end; i++) {
        const struct vline *l = &p->v->lines.ptr[i];
        if (!shown(l)) continue;
        struct slice text = l->text;
        if (i < p->start || (quote != SIZE_MAX && i > cut)) text.len = 0;
        if (quote != SIZE_MAX && i == cut) text.len = quote;
        write_row(w, i, 0, text);
        if (quote == SIZE_MAX || i != cut) continue;
        w->text.len--; /* the string goes on past the hunk: an empty one in its place */
        buf_adds(&w->text, "''\n");
    }
}

static bool starts_block(struct slice code)
{
    static const char *const words[] = {"def ", "async ", "class ", "if ",    "elif ",
                                        "for ", "while ", "with ",  "except "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (slice_starts(code, words[i])) return true;
    return false;
}

/* What the last lines leave open. */
static void write_end(struct writer *w, const struct piece *p)
{
    if (!p->head) return;
    struct slice head = slice_trim(p->head->code), code = slice_trim(p->last->code);
    bool left_open = p->open.len || slice_ends(code, "\\");
    struct buf close = BUF_INIT;
    if (slice_ends(code, "\\") || (code.len && strchr("([{", code.ptr[code.len - 1]))) buf_addc(&close, '_');
    for (size_t i = p->open.len; i-- > 0;) {
        char c = p->open.ptr[i];
        buf_addc(&close, c == '(' ? ')' : c == '[' ? ']' : '}');
    }
    if (left_open && starts_block(head)) buf_addc(&close, ':');
    if (close.len) write_row(w, UINT32_MAX, p->last->indent, slice_of(&close));
    if (slice_starts(head, "@"))
        write_word(w, p->head->indent, "def _(): pass");
    else if (slice_ends(code, ":") || (left_open && starts_block(head)))
        write_word(w, p->head->indent + 4, "pass");
    for (size_t i = p->tries.len; i-- > 0;) write_word(w, p->tries.ptr[i], "finally: pass");
    buf_free(&close);
}

static void write_piece(struct writer *w, const struct view *v, uint32_t first, uint32_t end)
{
    struct piece p = {.v = v, .first = first, .end = end};
    study(&p);
    write_blocks(w, &p, v->p->hunks.ptr[v->lines.ptr[first].hunk].section);
    write_lines(w, &p);
    write_end(w, &p);
    vec_free(&p.above);
    vec_free(&p.open);
    vec_free(&p.levels);
    vec_free(&p.leads);
    vec_free(&p.tries);
}

static void put_together(struct side *s, const struct view *v)
{
    struct writer w = {.s = s};
    for (uint32_t i = 0, end; i < v->lines.len; i = end) {
        for (end = i; end < v->lines.len && v->lines.ptr[end].hunk == v->lines.ptr[i].hunk;) end++;
        write_piece(&w, v, i, end);
    }
    s->file = py_parse(v->f->path, buf_str(&w.text), w.text.len);
    buf_free(&w.text);
}

/* ---- the whole file ---------------------------------------------------------------------------------- */

static void find_rows(struct side *s)
{
    *vec_push(&s->row) = 0;
    for (uint32_t i = 0; i < s->file->len; i++)
        if (s->file->text[i] == '\n') *vec_push(&s->row) = i + 1;
    for (size_t i = 0; i < s->row.len; i++) *vec_push(&s->line) = UINT32_MAX;
}

static void find_lines(struct side *s, const struct view *v)
{
    uint32_t hunk = UINT32_MAX, row = 0;
    for (uint32_t i = 0; i < v->lines.len; i++) {
        const struct vline *l = &v->lines.ptr[i];
        if (l->hunk != hunk) hunk = l->hunk, row = v->p->hunks.ptr[hunk].new_start;
        if (!shown(l)) continue;
        if (row && row <= s->line.len) s->line.ptr[row - 1] = i;
        row++;
    }
}

void side_make(struct side *s, const struct view *v)
{
    *s = (struct side){.file = v->post, .whole = v->post != NULL};
    if (!s->whole) {
        put_together(s, v);
        return;
    }
    find_rows(s);
    find_lines(s, v);
}

void side_free(struct side *s)
{
    if (!s->whole) py_free(s->file);
    vec_free(&s->line);
    vec_free(&s->row);
}

const struct vline *side_line(const struct side *s, const struct view *v, uint32_t offset)
{
    size_t low = 0, high = s->row.len;
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (s->row.ptr[mid] <= offset)
            low = mid;
        else
            high = mid;
    }
    uint32_t i = low < s->line.len ? s->line.ptr[low] : UINT32_MAX;
    return i == UINT32_MAX ? NULL : &v->lines.ptr[i];
}
