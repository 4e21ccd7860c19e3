/* outline.c - where definitions begin and end, and blanking what an answer does not need. */
#include "concord/scan/outline.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- logical lines ------------------------------------------------------------------------------------- */

static bool word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* Past a string literal whose opening quote is at `at`. */
static size_t skip_string(const char *s, size_t at, size_t len)
{
    char quote = s[at];
    if (at + 2 < len && s[at + 1] == quote && s[at + 2] == quote) {
        for (at += 3; at < len; at++) {
            if (s[at] == '\\')
                at++;
            else if (s[at] == quote && at + 2 < len && s[at + 1] == quote && s[at + 2] == quote)
                return at + 3;
        }
        return len;
    }
    for (at++; at < len && s[at] != quote && s[at] != '\n'; at++)
        if (s[at] == '\\' && at + 1 < len) at++;
    return at < len && s[at] == quote ? at + 1 : at;
}

/* End of the logical line that starts at `at`: past its newline. */
static size_t line_end(const char *s, size_t at, size_t len)
{
    int depth = 0;
    while (at < len) {
        char c = s[at];
        if (c == '\n' && depth <= 0) return at + 1;
        if (c == '"' || c == '\'') {
            at = skip_string(s, at, len);
            continue;
        }
        if (c == '#') {
            const char *nl = memchr(s + at, '\n', len - at);
            at = nl ? (size_t)(nl - s) : len;
            continue;
        }
        if (c == '\\' && at + 1 < len) at++;
        depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
        at++;
    }
    return len;
}

static bool starts_word(const char *s, size_t at, size_t len, const char *word, size_t n)
{
    return at + n < len && !memcmp(s + at, word, n) && !word_char(s[at + n]);
}

struct line {
    size_t start, text, end; /* text: first byte that is no blank */
    size_t indent;
    enum { LINE_BLANK, LINE_OTHER, LINE_DECORATOR, LINE_DEF, LINE_CLASS } kind;
    size_t name;
};

static size_t skip_blanks(const char *s, size_t at, size_t len)
{
    while (at < len && (s[at] == ' ' || s[at] == '\t')) at++;
    return at;
}

static void read_line(struct line *l, const char *s, size_t at, size_t len)
{
    *l = (struct line){.start = at, .kind = LINE_OTHER};
    size_t tabs = 0;
    for (l->text = at; l->text < len && (s[l->text] == ' ' || s[l->text] == '\t' || s[l->text] == '\f');
         l->text++)
        tabs += s[l->text] == '\t' ? 7 : 0;
    l->indent = l->text - at + tabs;
    char c = l->text < len ? s[l->text] : '\n';
    if (c == '\n' || c == '#' || (c == '\r' && l->text + 1 < len && s[l->text + 1] == '\n')) {
        const char *nl = memchr(s + l->text, '\n', len - l->text);
        l->end = nl ? (size_t)(nl - s) + 1 : len;
        l->kind = LINE_BLANK;
        return;
    }
    l->end = line_end(s, l->text, len);
    size_t word = l->text;
    if (c == '@') l->kind = LINE_DECORATOR;
    if (starts_word(s, word, len, "async", 5)) word = skip_blanks(s, word + 5, len);
    if (starts_word(s, word, len, "def", 3)) {
        l->kind = LINE_DEF;
        l->name = skip_blanks(s, word + 3, len);
    } else if (starts_word(s, word, len, "class", 5)) {
        l->kind = LINE_CLASS;
        l->name = skip_blanks(s, word + 5, len);
    }
}

/* ---- definitions --------------------------------------------------------------------------------------- */

struct open_def {
    int32_t index;
    size_t indent;
};
struct scanner {
    struct outline *o;
    VEC(struct open_def) open;
    size_t last;      /* end of the last line that is not blank */
    size_t decorated; /* start of the first decorator above; SIZE_MAX */
};

static void close_to(struct scanner *s, size_t indent)
{
    while (s->open.len && s->open.ptr[s->open.len - 1].indent >= indent)
        s->o->defs.ptr[s->open.ptr[--s->open.len].index].end = (uint32_t)s->last;
}

static bool inside_function(const struct scanner *s)
{
    return s->open.len && !s->o->defs.ptr[s->open.ptr[s->open.len - 1].index].class;
}

static void open_def(struct scanner *s, const struct line *l, const char *text, size_t len)
{
    size_t n = 0;
    while (l->name + n < len && word_char(text[l->name + n])) n++;
    int32_t parent = s->open.len ? s->open.ptr[s->open.len - 1].index : -1;
    *vec_push(&s->open) = (struct open_def){(int32_t)s->o->defs.len, l->indent};
    *vec_push(&s->o->defs) =
        (struct outline_def){.start = (uint32_t)(s->decorated != SIZE_MAX ? s->decorated : l->start),
                             .body = (uint32_t)l->end,
                             .end = (uint32_t)l->end,
                             .name = (uint32_t)l->name,
                             .name_len = (uint32_t)n,
                             .parent = parent,
                             .class = l->kind == LINE_CLASS};
}

void outline_read(struct outline *o, const char *text, size_t len)
{
    *o = (struct outline){0};
    struct scanner s = {.o = o, .decorated = SIZE_MAX};
    struct line l;
    for (size_t at = 0; at < len; at = l.end) {
        read_line(&l, text, at, len);
        if (l.kind == LINE_BLANK) continue;
        close_to(&s, l.indent);
        if (!inside_function(&s)) {
            if (l.kind == LINE_DECORATOR) {
                if (s.decorated == SIZE_MAX) s.decorated = l.start;
            } else {
                if (l.kind >= LINE_DEF) open_def(&s, &l, text, len);
                s.decorated = SIZE_MAX;
            }
        }
        s.last = l.end;
    }
    close_to(&s, 0);
    vec_free(&s.open);
}

void outline_free(struct outline *o)
{
    vec_free(&o->defs);
}

/* One expression stands for the body: "0" where its first statement begins; the last newline ends it. */
static void leave_out(char *text, const struct outline_def *d, outline_skips *skips)
{
    uint32_t at = d->body, last = d->end;
    while (at < d->end && strchr(" \t\f\r\n#", text[at])) {
        if (text[at] == '#') /* a comment may stand further left than the body */
            while (at < d->end && text[at] != '\n') at++;
        at += at < d->end;
    }
    if (at == d->end) return;
    if (text[last - 1] == '\n') last--;
    text[at] = '0';
    if (at + 1 < last) *vec_push(skips) = (struct py_span){at + 1, last, 0};
}

void outline_exports(char *text, size_t len, outline_skips *skips)
{
    struct outline o;
    outline_read(&o, text, len);
    for (size_t i = 0; i < o.defs.len; i++)
        if (o.defs.ptr[i].parent < 0) leave_out(text, &o.defs.ptr[i], skips);
    outline_free(&o);
}

/* ---- what is wanted ------------------------------------------------------------------------------------ */

enum { CALLER = 1, CALLEE = 2 }; /* reaches a word; is only named by one that does */

struct names {
    uint32_t *slots; /* index of a definition + 1 */
    size_t mask;
    uint32_t *next; /* definitions of the same name */
};

static uint32_t hash_word(const char *s, size_t n)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h ^ (h >> 15);
}

static bool same_name(const char *text, const struct outline_def *d, const char *s, size_t n)
{
    return d->name_len == n && !memcmp(text + d->name, s, n);
}

/* First definition of that name + 1, or 0. */
static uint32_t find_name(const struct names *h, const struct outline *o, const char *text, const char *s,
                          size_t n)
{
    for (size_t i = hash_word(s, n) & h->mask;; i = (i + 1) & h->mask)
        if (!h->slots[i] || same_name(text, &o->defs.ptr[h->slots[i] - 1], s, n)) return h->slots[i];
}

static void hash_names(struct names *h, const struct outline *o, const char *text)
{
    h->mask = 63;
    while (h->mask < 2 * o->defs.len) h->mask = 2 * h->mask + 1;
    h->slots = xcalloc(h->mask + 1, sizeof *h->slots);
    h->next = xcalloc(o->defs.len + 1, sizeof *h->next);
    for (uint32_t d = 0; d < o->defs.len; d++) {
        const struct outline_def *def = &o->defs.ptr[d];
        size_t i = hash_word(text + def->name, def->name_len) & h->mask;
        while (h->slots[i] &&
               !same_name(text, &o->defs.ptr[h->slots[i] - 1], text + def->name, def->name_len))
            i = (i + 1) & h->mask;
        h->next[d] = h->slots[i];
        h->slots[i] = d + 1;
    }
}

struct mention { /* definition `from` contains the name of definition `to`; from -1: the module's own lines */
    int32_t from;
    uint32_t to;
};
struct selection {
    const char *text;
    struct outline *o;
    struct names names;
    VEC(struct mention) mentions;
    uint8_t *mark;
};

/* Words of text[at, end) that may name definitions: methods after a dot, the others without one. */
static void find_mentions(struct selection *s, int32_t from, size_t at, size_t end)
{
    while (at < end) {
        if (!word_char(s->text[at])) {
            at++;
            continue;
        }
        size_t start = at;
        while (at < end && word_char(s->text[at])) at++;
        uint32_t d = find_name(&s->names, s->o, s->text, s->text + start, at - start);
        bool attribute = start && s->text[start - 1] == '.';
        for (; d; d = s->names.next[d - 1])
            if ((int32_t)(d - 1) != from && attribute == (s->o->defs.ptr[d - 1].parent >= 0))
                *vec_push(&s->mentions) = (struct mention){from, d - 1};
    }
}

/* How a word stands at p. A bare word can only stand for something of another module where it was imported.
 */
enum role { ROLE_NONE, ROLE_BARE, ROLE_ATTRIBUTE, ROLE_IMPORT };

static bool in_import(const char *text, const char *p)
{
    const char *line = memrchr(text, '\n', (size_t)(p - text));
    line = line ? line + 1 : text;
    while (line < p && (*line == ' ' || *line == '\t')) line++;
    if (!strncmp(line, "from ", 5) || !strncmp(line, "import ", 7)) return true;
    while (p > text && (word_char(p[-1]) || strchr(" ,\t\r\n\\", p[-1]))) p--; /* a list in brackets */
    if (p == text || p[-1] != '(') return false;
    for (p--; p > text && p[-1] == ' '; p--) {
    }
    return p - text >= 6 && !memcmp(p - 6, "import", 6);
}

static enum role role_at(const char *text, const char *stop, const char *p, size_t n)
{
    if ((p > text && word_char(p[-1])) || (p + n < stop && word_char(p[n]))) return ROLE_NONE;
    if (p > text && p[-1] == '.') {
        bool own = p - text >= 5 && !memcmp(p - 5, "self.", 5) && (p - text == 5 || !word_char(p[-6]));
        return own ? ROLE_BARE : ROLE_ATTRIBUTE;
    }
    return in_import(text, p) ? ROLE_IMPORT : ROLE_BARE;
}

/* Whether text[at, end) has the word in a role of at least `least`. */
static bool has_role(const char *text, size_t at, size_t end, const char *word, enum role least)
{
    size_t n = strlen(word);
    const char *stop = text + end;
    for (const char *p = text + at; (p = memmem(p, (size_t)(stop - p), word, n)); p += n)
        if (role_at(text, stop, p, n) >= least) return true;
    return false;
}

/* Whether bare words of the file may come from elsewhere: the word is imported, or anything is. */
static bool is_imported(const char *text, size_t len, const char *word)
{
    return has_role(text, 0, len, word, ROLE_IMPORT) || memmem(text, len, "import *", 8);
}

static bool sets_up(const char *text, const struct outline_def *d)
{
    static const char *const names[] = {"__init__", "setUp", "setUpClass", "setup_method", "setUpModule"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (same_name(text, d, names[i], strlen(names[i]))) return true;
    return false;
}

/* A function that is reached makes its class reached: naming the class names the function. */
static bool spread_callers(struct selection *s)
{
    bool changed = false;
    for (uint32_t d = 0; d < s->o->defs.len; d++) {
        int32_t parent = s->o->defs.ptr[d].parent;
        if (!(s->mark[d] & CALLER) || parent < 0 || s->mark[parent] & CALLER) continue;
        s->mark[parent] |= CALLER;
        changed = true;
    }
    for (size_t i = 0; i < s->mentions.len; i++) {
        const struct mention *m = &s->mentions.ptr[i];
        if (m->from < 0 || !(s->mark[m->to] & CALLER) || s->mark[m->from] & CALLER) continue;
        s->mark[m->from] |= CALLER;
        changed = true;
    }
    return changed;
}

static bool spread_callees(struct selection *s)
{
    bool changed = false;
    for (size_t i = 0; i < s->mentions.len; i++) {
        const struct mention *m = &s->mentions.ptr[i];
        if (s->mark[m->to] || (m->from >= 0 && !s->mark[m->from]) || (m->from < 0)) continue;
        s->mark[m->to] |= CALLEE;
        changed = true;
    }
    for (uint32_t d = 0; d < s->o->defs.len; d++) {
        int32_t parent = s->o->defs.ptr[d].parent;
        bool in_class = parent >= 0 && s->mark[parent];
        if (s->mark[d] && parent >= 0 && !s->mark[parent]) s->mark[parent] |= CALLEE, changed = true;
        if (s->mark[d] || !in_class || !sets_up(s->text, &s->o->defs.ptr[d])) continue;
        s->mark[d] |= CALLEE;
        changed = true;
    }
    return changed;
}

/* Of a class, what stands before its first method; what stands between methods is kept in any case. */
static size_t own_end(const struct selection *s, uint32_t d)
{
    const struct outline_def *def = &s->o->defs.ptr[d];
    bool more = def->class && d + 1 < s->o->defs.len && s->o->defs.ptr[d + 1].start < def->end;
    return more ? s->o->defs.ptr[d + 1].start : def->end;
}

static void find_all_mentions(struct selection *s)
{
    for (uint32_t d = 0; d < s->o->defs.len; d++) {
        const struct outline_def *def = &s->o->defs.ptr[d];
        find_mentions(s, (int32_t)d, def->start, own_end(s, d));
    }
}

struct wanted {
    const char *word;
    enum role least;
};

/* Bodies of functions are searched; of a class, what stands between its methods counts as the class's own. */
static void mark_words(struct selection *s, const struct wanted *words, size_t nwords)
{
    for (uint32_t d = 0; d < s->o->defs.len; d++) {
        const struct outline_def *def = &s->o->defs.ptr[d];
        size_t end = own_end(s, d);
        bool has = false;
        for (size_t i = 0; i < nwords && !has; i++)
            has = has_role(s->text, def->start, end, words[i].word, words[i].least);
        if (!has) continue;
        s->mark[d] |= CALLER;
    }
}

static bool inside_body(const struct outline *o, size_t at)
{
    for (size_t i = 0; i < o->defs.len && o->defs.ptr[i].start <= at; i++)
        if (!o->defs.ptr[i].class && at < o->defs.ptr[i].end) return true;
    return false;
}

/* Names that a line outside functions gives to a word: `word as NAME`, `NAME = ... word`. */
static void find_aliases(const char *text, size_t len, const struct outline *o, const char *word,
                         strings *out)
{
    size_t n = strlen(word);
    const char *stop = text + len;
    for (const char *p = text; (p = memmem(p, (size_t)(stop - p), word, n)); p += n) {
        if ((p > text && word_char(p[-1])) || (p + n < stop && word_char(p[n]))) continue;
        if (inside_body(o, (size_t)(p - text))) continue; /* such a function has the word itself */
        size_t at = skip_blanks(text, (size_t)(p + n - text), len);
        if (starts_word(text, at, len, "as", 2)) {
            at = skip_blanks(text, at + 2, len);
        } else {
            const char *line = memrchr(text, '\n', (size_t)(p - text));
            at = skip_blanks(text, line ? (size_t)(line + 1 - text) : 0, len);
            size_t end = at;
            while (end < len && word_char(text[end])) end++;
            size_t sign = skip_blanks(text, end, len);
            if (sign + 1 >= len || text[sign] != '=' || text[sign + 1] == '=') continue;
        }
        size_t end = at;
        while (end < len && word_char(text[end])) end++;
        if (end > at) *vec_push(out) = xstrndup(text + at, end - at);
    }
}

bool outline_has_word(const char *text, size_t len, char *const *words, size_t nwords)
{
    for (size_t i = 0; i < nwords; i++)
        if (has_role(text, 0, len, words[i], ROLE_BARE)) return true;
    return false;
}

/* The words that the file may mean. */
static size_t find_wanted(const char *text, size_t len, const strings *words, struct wanted *out)
{
    size_t n = 0;
    for (size_t i = 0; i < words->len; i++) {
        if (!memmem(text, len, words->ptr[i], strlen(words->ptr[i]))) continue;
        enum role least = is_imported(text, len, words->ptr[i]) ? ROLE_BARE : ROLE_ATTRIBUTE;
        if (has_role(text, 0, len, words->ptr[i], least)) out[n++] = (struct wanted){words->ptr[i], least};
    }
    return n;
}

static void select_functions(struct selection *s, size_t len, const struct wanted *wanted, size_t n)
{
    strings aliases = {0};
    hash_names(&s->names, s->o, s->text);
    find_all_mentions(s);
    mark_words(s, wanted, n);
    for (size_t i = 0; i < n; i++) find_aliases(s->text, len, s->o, wanted[i].word, &aliases);
    for (size_t i = 0; i < aliases.len; i++) mark_words(s, &(struct wanted){aliases.ptr[i], ROLE_BARE}, 1);
    while (spread_callers(s)) {
    }
    while (spread_callees(s)) {
    }
    strings_free(&aliases);
}

bool outline_keep(char *text, size_t len, const strings *words, const strings *attributes,
                  outline_skips *skips)
{
    struct wanted *wanted = xcalloc(words->len + attributes->len + 1, sizeof *wanted);
    size_t n = find_wanted(text, len, words, wanted);
    for (size_t i = 0; n && i < attributes->len; i++)
        wanted[n++] = (struct wanted){attributes->ptr[i], ROLE_BARE};
    if (n) {
        struct outline o;
        outline_read(&o, text, len);
        struct selection s = {.text = text, .o = &o, .mark = xcalloc(o.defs.len + 1, 1)};
        select_functions(&s, len, wanted, n);
        for (size_t i = 0; i < o.defs.len; i++)
            if (!s.mark[i] && !o.defs.ptr[i].class) leave_out(text, &o.defs.ptr[i], skips);
        free(s.names.slots);
        free(s.names.next);
        free(s.mark);
        vec_free(&s.mentions);
        outline_free(&o);
    }
    free(wanted);
    return n > 0;
}
