/* tokens.c - Python text as tokens, devices as marks. */
#include "concord/adapt/tokens.h"
#include "concord/adapt/private.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CELLS = 16 << 20, MAX_DEPTH = 64 };

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (c & 0x80);
}

/* ---- reading ----------------------------------------------------------------------------------------- */

/* The end of the string whose quote is at i; *inner is what stands between the quotes. */
static size_t string_end(struct slice t, size_t i, struct slice *inner)
{
    char q = t.ptr[i];
    size_t n = i + 2 < t.len && t.ptr[i + 1] == q && t.ptr[i + 2] == q ? 3 : 1, start = i + n;
    for (i = start; i < t.len; i++) {
        if (t.ptr[i] == '\\') {
            i++;
        } else if (n == 1 && t.ptr[i] == '\n') {
            break; /* never closed: a piece of a longer string, or broken text */
        } else if (t.ptr[i] == q && (n == 1 || (i + 2 < t.len && t.ptr[i + 1] == q && t.ptr[i + 2] == q))) {
            *inner = (struct slice){t.ptr + start, i - start};
            return i + n;
        }
    }
    if (i > t.len) i = t.len;
    *inner = (struct slice){t.ptr + start, i > start ? i - start : 0};
    return i > start ? i : start;
}

static bool is_prefix(struct slice word)
{
    if (word.len > 2) return false;
    for (size_t i = 0; i < word.len; i++)
        if (!strchr("rbfuRBFU", word.ptr[i])) return false;
    return true;
}

static size_t read_one(struct slice t, size_t i, struct token *out)
{
    size_t end = i;
    if (is_word(t.ptr[i])) {
        while (end < t.len &&
               (is_word(t.ptr[end]) || (t.ptr[end] == '.' && isdigit((unsigned char)t.ptr[i]))))
            end++;
        out->kind = 'n';
        out->text = (struct slice){t.ptr + i, end - i};
        if (end < t.len && (t.ptr[end] == '"' || t.ptr[end] == '\'') && is_prefix(out->text)) {
            out->kind = 's';
            return string_end(t, end, &out->text);
        }
        return end;
    }
    if (t.ptr[i] == '"' || t.ptr[i] == '\'') {
        out->kind = 's';
        return string_end(t, i, &out->text);
    }
    if (t.ptr[i] == '#')
        while (end < t.len && t.ptr[end] != '\n') end++;
    else
        end++;
    out->kind = t.ptr[i];
    out->text = slice_trim((struct slice){t.ptr + i, end - i});
    return end;
}

static void read_all(struct slice t, tokens *out)
{
    uint32_t row = 0;
    for (size_t i = 0; i < t.len;) {
        if (strchr(" \t\r\n\\\f", t.ptr[i]) && t.ptr[i]) {
            row += t.ptr[i++] == '\n';
            continue;
        }
        struct token k = {.row = row};
        size_t end = read_one(t, i, &k);
        for (; i < end; i++) row += t.ptr[i] == '\n';
        *vec_push(out) = k;
    }
}

/* ---- devices as marks -------------------------------------------------------------------------------- */

static bool is(const struct token *k, const char *text)
{
    return k->kind != 's' && k->text.len == strlen(text) && !memcmp(k->text.ptr, text, k->text.len);
}

/* The token behind the expression at i, which ends at a comma or the bracket that is not its own. */
static size_t expression_end(const tokens *t, size_t i)
{
    for (uint32_t depth = 0; i < t->len; i++) {
        char c = t->ptr[i].kind;
        if (c == '(' || c == '[' || c == '{') depth++;
        if (c == ')' || c == ']' || c == '}') {
            if (!depth) break;
            depth--;
        }
        if (c == ',' && !depth) break;
    }
    return i;
}

static void add_mark(struct token *k, const tokens *t, size_t from, size_t to, char spelt)
{
    struct buf b = BUF_INIT;
    buf_adds(&b, k->mark ? k->mark : "");
    if (b.len) buf_addc(&b, ' ');
    for (size_t i = from; i < to; i++) buf_add(&b, t->ptr[i].text.ptr, t->ptr[i].text.len);
    free(k->mark);
    k->mark = buf_take(&b);
    k->spelt = spelt;
}

/* A device by its spelling: "npu", device, self.device_type, torch.device(...). */
static bool names_device(const tokens *t, size_t from, size_t to, const char *device)
{
    if (to <= from) return false;
    const struct token *k = &t->ptr[from];
    if (k->kind == 's')
        return slice_starts(k->text, device) || slice_starts(k->text, "cuda") || slice_starts(k->text, "cpu");
    for (size_t i = from; i < to; i++)
        if (t->ptr[i].kind == 'n' &&
            (slice_has(t->ptr[i].text, "device") || slice_has(t->ptr[i].text, "DEVICE")))
            return true;
    return false;
}

struct marker {
    const tokens *in;
    tokens *out;
    const char *device;
    bool call[MAX_DEPTH]; /* the open brackets: of a call? */
    size_t depth;
    struct {
        size_t from, to;
    } given[MAX_DEPTH];
};

/* `, device=D` or `device=D,` at i of an open call: the token behind it, else i. */
static size_t skip_keyword(struct marker *m, size_t i)
{
    const tokens *t = m->in;
    if (!m->depth || m->depth > MAX_DEPTH || !m->call[m->depth - 1]) return i;
    size_t at = i + (t->ptr[i].kind == ',');
    if (at == i && (!i || t->ptr[i - 1].kind != '(')) return i;
    if (at + 2 >= t->len || !is(&t->ptr[at], "device") || t->ptr[at + 1].kind != '=' ||
        t->ptr[at + 2].kind == '=')
        return i;
    size_t end = expression_end(t, at + 2);
    if (end >= t->len) return i;
    m->given[m->depth - 1].from = at + 2, m->given[m->depth - 1].to = end;
    return at == i && t->ptr[end].kind == ',' ? end + 1 : end;
}

/* `.npu()`, `.cuda()`, `.to(D)` at i: the token behind it, else i. */
static size_t skip_move(struct marker *m, size_t i)
{
    const tokens *t = m->in;
    if (!m->out->len || i + 3 >= t->len || t->ptr[i].kind != '.' || t->ptr[i + 2].kind != '(') return i;
    struct token *on = &m->out->ptr[m->out->len - 1];
    const struct token *name = &t->ptr[i + 1];
    size_t from = i + 3;
    if ((is(name, m->device) || is(name, "cuda")) && t->ptr[from].kind == ')') {
        add_mark(on, t, i + 1, i + 2, 'm');
        return i + 4;
    }
    if (!is(name, "to")) return i;
    if (is(&t->ptr[from], "device") && from + 1 < t->len && t->ptr[from + 1].kind == '=') from += 2;
    size_t end = expression_end(t, from);
    if (end >= t->len || t->ptr[end].kind != ')' || !names_device(t, from, end, m->device)) return i;
    add_mark(on, t, from, end, 't');
    return end + 1;
}

static bool ends_callee(const struct token *k)
{
    static const char *const words[] = {"return", "in",   "and",    "or",    "not",
                                        "if",     "else", "assert", "yield", "is"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is(k, words[i])) return false;
    return k->kind == 'n' || k->kind == ')' || k->kind == ']';
}

static void track_brackets(struct marker *m, const struct token *k)
{
    if (k->kind == '(' || k->kind == '[' || k->kind == '{') {
        if (m->depth < MAX_DEPTH) {
            m->call[m->depth] = k->kind == '(' && m->out->len && ends_callee(&m->out->ptr[m->out->len - 1]);
            m->given[m->depth].from = m->given[m->depth].to = 0;
        }
        m->depth++;
    }
}

static void close_bracket(struct marker *m)
{
    if (!m->depth || --m->depth >= MAX_DEPTH) return;
    size_t from = m->given[m->depth].from, to = m->given[m->depth].to;
    if (to > from) add_mark(&m->out->ptr[m->out->len - 1], m->in, from, to, 'k');
}

static void mark_devices(const tokens *in, const char *device, tokens *out)
{
    struct marker m = {.in = in, .out = out, .device = device};
    for (size_t i = 0; i < in->len;) {
        const struct token *k = &in->ptr[i];
        size_t behind = skip_keyword(&m, i);
        if (behind == i) behind = skip_move(&m, i);
        if (behind != i) {
            i = behind;
            continue;
        }
        i++;
        bool closes = k->kind == ')' || k->kind == ']' || k->kind == '}';
        if (k->kind == ',' && i < in->len && strchr(")]}", in->ptr[i].kind)) continue; /* says nothing */
        track_brackets(&m, k);
        *vec_push(out) = *k;
        if (closes) close_bracket(&m);
    }
}

static size_t opening(const tokens *t, size_t i);
static void callee(const tokens *t, size_t i, struct buf *out);
static void drop(struct token *k);
static bool is_container(const char *name);

/* A container whose modules all have the mark has it itself: Sequential(Linear(1, 1).npu()). */
static void hoist(tokens *t, size_t close)
{
    struct buf name = BUF_INIT;
    size_t from = opening(t, close), marked = t->len;
    if (from != t->len) callee(t, from, &name);
    for (size_t i = from + 1; from != t->len && is_container(buf_str(&name)) && i < close; i++)
        if (t->ptr[i].mark && (marked == t->len || !strcmp(t->ptr[i].mark, t->ptr[marked].mark))) marked = i;
    buf_free(&name);
    if (marked == t->len || t->ptr[close].mark) return;
    t->ptr[close].mark = xstrdup(t->ptr[marked].mark);
    t->ptr[close].spelt = 'h';
    for (size_t i = from + 1; i < close; i++) drop(&t->ptr[i]);
}

void tokens_read(struct slice text, const char *device, tokens *out)
{
    tokens all = {0};
    out->len = 0;
    read_all(text, &all);
    mark_devices(&all, device, out);
    for (size_t i = 0; i < out->len; i++)
        if (out->ptr[i].kind == ')') hoist(out, i);
    vec_free(&all);
}

void tokens_free(tokens *t)
{
    for (size_t i = 0; i < t->len; i++) free(t->ptr[i].mark);
    vec_free(t);
}

/* ---- comparing --------------------------------------------------------------------------------------- */

bool token_same(const struct token *a, const struct token *b)
{
    return a->kind == b->kind && slice_eq(a->text, b->text);
}

/* Spellings of one thing on two devices; the longer first. */
static const char *const names[][2] = {
    {"PRIVATEUSE1", "\1"}, {"privateuse1", "\2"}, {"torch_npu", "torch"}, {"CUDA", "\1"}, {"NPU", "\1"},
    {"cuda", "\2"},        {"npu", "\2"},         {"GPU", "\1"},          {"gpu", "\2"},  {"nccl", "\3"},
    {"hccl", "\3"},        {"NCCL", "\4"},        {"HCCL", "\4"},
};

static void canonical(struct slice s, struct buf *out)
{
    buf_clear(out);
    for (size_t i = 0; i < s.len;) {
        size_t n = 0;
        for (size_t k = 0; k < sizeof names / sizeof *names && !n; k++) {
            size_t len = strlen(names[k][0]);
            if (s.len - i < len || memcmp(s.ptr + i, names[k][0], len)) continue;
            buf_adds(out, names[k][1]);
            n = len;
        }
        if (!n) buf_addc(out, s.ptr[i]);
        i += n ? n : 1;
    }
}

bool token_alike(const struct token *a, const struct token *b)
{
    if (token_same(a, b)) return true;
    if (a->kind != b->kind || (a->kind != 'n' && a->kind != 's')) return false;
    struct buf x = BUF_INIT, y = BUF_INIT;
    canonical(a->text, &x), canonical(b->text, &y);
    bool alike = slice_eq(slice_of(&x), slice_of(&y));
    buf_free(&x), buf_free(&y);
    return alike;
}

static bool same_mark(const struct token *a, const struct token *b, bool spelling)
{
    if (!a->mark || !b->mark) return a->mark == b->mark;
    return !strcmp(a->mark, b->mark) && (!spelling || a->spelt == b->spelt);
}

bool tokens_same(const tokens *a, const tokens *b, bool spelling)
{
    bool same = a->len == b->len;
    for (size_t i = 0; same && i < a->len; i++) {
        const struct token *x = &a->ptr[i], *y = &b->ptr[i];
        same = (spelling ? token_same(x, y) : token_alike(x, y)) && same_mark(x, y, spelling);
    }
    return same;
}

/* Lengths of common subsequences of the tails, row by row; then a walk from the front. */
static void align_middle(const struct token *a, size_t n, const struct token *b, size_t m, uint32_t base,
                         uint32_t *to)
{
    uint16_t *best = xcalloc((n + 1) * (m + 1), sizeof *best);
#define BEST(i, k) best[(i) * (m + 1) + (k)]
    for (size_t i = n; i-- > 0;)
        for (size_t k = m; k-- > 0;) {
            uint16_t skip = BEST(i + 1, k) > BEST(i, k + 1) ? BEST(i + 1, k) : BEST(i, k + 1);
            uint16_t take = token_alike(&a[i], &b[k]) ? (uint16_t)(BEST(i + 1, k + 1) + 1) : 0;
            BEST(i, k) = take > skip ? take : skip;
        }
    for (size_t i = 0, k = 0; i < n && k < m;) {
        if (token_alike(&a[i], &b[k]) && BEST(i, k) == BEST(i + 1, k + 1) + 1)
            to[i++] = base + (uint32_t)k++;
        else if (BEST(i + 1, k) >= BEST(i, k + 1))
            i++;
        else
            k++;
    }
#undef BEST
    free(best);
}

bool tokens_align(const tokens *a, const tokens *b, uint32_t *to)
{
    size_t head = 0, tail = 0, n = a->len, m = b->len;
    for (size_t i = 0; i < n; i++) to[i] = UINT32_MAX;
    while (head < n && head < m && token_same(&a->ptr[head], &b->ptr[head])) head++;
    while (tail < n - head && tail < m - head && token_same(&a->ptr[n - 1 - tail], &b->ptr[m - 1 - tail]))
        tail++;
    size_t an = n - head - tail, bm = m - head - tail;
    if ((an + 1) * (bm + 1) > MAX_CELLS || an > UINT16_MAX || bm > UINT16_MAX) return false;
    for (size_t i = 0; i < head; i++) to[i] = (uint32_t)i;
    for (size_t i = 0; i < tail; i++) to[n - 1 - i] = (uint32_t)(m - 1 - i);
    if (an && bm) align_middle(a->ptr + head, an, b->ptr + head, bm, (uint32_t)head, to + head);
    return true;
}

/* ---- needless marks ---------------------------------------------------------------------------------- */

/* The bracket that the one at i closes; t->len if there is none. */
static size_t opening(const tokens *t, size_t i)
{
    for (uint32_t depth = 0;; i--) {
        char c = t->ptr[i].kind;
        depth += c == ')' || c == ']' || c == '}';
        if ((c == '(' || c == '[' || c == '{') && --depth == 0) return i;
        if (!i) return t->len;
    }
}

/* The dotted name in front of the bracket at i: "nn.Linear". */
static void callee(const tokens *t, size_t i, struct buf *out)
{
    size_t from = i;
    while (from && (t->ptr[from - 1].kind == 'n' || t->ptr[from - 1].kind == '.')) from--;
    buf_clear(out);
    for (; from < i; from++) buf_add(out, t->ptr[from].text.ptr, t->ptr[from].text.len);
}

static void drop(struct token *k)
{
    free(k->mark);
    k->mark = NULL;
    k->spelt = 0;
}

static bool is_stateless(const char *name)
{
    char *full = xformat("torch.%s", str_starts(name, "torch.") ? name + 6 : name);
    bool stateless = is_torch_module(full) && !has_parameters(full);
    free(full);
    return stateless;
}

static bool is_container(const char *name)
{
    return str_ends(name, "Sequential") || str_ends(name, "ModuleList") || str_ends(name, "ModuleDict");
}

static bool is_module_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    return str_starts(name, "nn.") || str_starts(name, "torch.nn.") || (!dot && *name >= 'A' && *name <= 'Z');
}

static bool is_layer(const char *name)
{
    return str_starts(name, "nn.") || str_starts(name, "torch.nn.") || str_ends(name, "Parameter") ||
           str_ends(name, "Buffer");
}

/* `self.x = nn.Layer(...)` from token i on: the token behind it, else i. */
static size_t skip_layer(const tokens *b, size_t i)
{
    const struct token *k = &b->ptr[i];
    if (i + 5 >= b->len || !is(k, "self") || k[1].kind != '.' || k[3].kind != '=' || k[4].kind != 'n')
        return i;
    if (i && k[-1].row == k->row) return i;
    struct buf name = BUF_INIT;
    size_t open = i + 4;
    while (open < b->len && b->ptr[open].kind != '(' && b->ptr[open].row == k->row) open++;
    if (open < b->len && b->ptr[open].kind == '(') callee(b, open, &name);
    bool layer = is_layer(buf_str(&name));
    buf_free(&name);
    if (!layer) return i;
    for (size_t end = open, depth = 0; end < b->len; end++) {
        depth += b->ptr[end].kind == '(';
        if (b->ptr[end].kind == ')' && --depth == 0) return end + 1;
    }
    return i;
}

static void drop_in_layers(tokens *b, const bool *kept)
{
    for (size_t i = 0; i < b->len;) {
        size_t end = skip_layer(b, i);
        for (size_t k = i; k < end; k++)
            if (b->ptr[k].mark && !kept[k]) drop(&b->ptr[k]);
        i = end > i ? end : i + 1;
    }
}

void tokens_drop_needless(tokens *b, const tokens *was, const uint32_t *to, struct needless n)
{
    struct buf name = BUF_INIT;
    bool *kept = xcalloc(b->len + 1, sizeof *kept);
    for (size_t i = 0; was && i < was->len; i++)
        if (to[i] != UINT32_MAX) kept[to[i]] = was->ptr[i].mark != NULL;
    for (size_t i = b->len; i-- > 0;) {
        struct token *k = &b->ptr[i];
        if (!k->mark || k->kind != ')') continue;
        size_t from = opening(b, i);
        if (from == b->len) continue;
        callee(b, from, &name);
        if (str_ends(buf_str(&name), "_like") || is_stateless(buf_str(&name)) ||
            (n.stateless && n.stateless(buf_str(&name), n.context))) {
            if (!kept[i]) drop(k);
        } else if (is_module_name(buf_str(&name))) {
            for (size_t inner = from + 1; inner < i; inner++)
                if (b->ptr[inner].mark && !kept[inner] && !strcmp(b->ptr[inner].mark, k->mark))
                    drop(&b->ptr[inner]);
        }
    }
    drop_in_layers(b, kept);
    free(kept);
    buf_free(&name);
}
