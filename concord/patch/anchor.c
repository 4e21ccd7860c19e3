/* anchor.c - where a hunk's old side stands in another version of the file.
 *
 * Every line of the old side that the target has votes for the drift it implies, rare lines with more weight.
 * The best drifts are then aligned line by line, gaps allowed on both sides.
 */
#include "concord/patch/anchor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OCCURRENCES = 400, MAX_DRIFTS = 40, SLACK = 40 };

/* ---- the target's index ------------------------------------------------------------------------------ */

static uint64_t hash_line(struct slice s)
{
    return slice_hash(slice_trim(s), SLICE_HASH);
}

static void mark_scope(struct target *g, const struct py_scope *s, uint32_t index)
{
    uint32_t row = s->at.row;
    for (uint32_t at = s->at.start; at < s->at.end; row++) {
        if (row >= 1 && row <= g->t.v.len) g->scope[row - 1] = index;
        const char *nl = memchr(g->py->text + at, '\n', s->at.end - at);
        at = nl ? (uint32_t)(nl - g->py->text) + 1 : s->at.end;
    }
}

/* Scopes stand in the model outer before inner, so the innermost one is written last. */
static void index_scopes(struct target *g)
{
    g->scope = xcalloc(g->t.v.len + 1, sizeof *g->scope);
    for (uint32_t i = 1; i < g->py->scopes.len; i++) {
        const struct py_scope *s = &g->py->scopes.ptr[i];
        if (s->kind == PY_CLASS || s->kind == PY_FUNCTION) mark_scope(g, s, i);
    }
}

void target_make(struct target *g, const char *path, struct slice text)
{
    *g = (struct target){0};
    textlines_of(&g->t, text);
    size_t n = g->t.v.len;
    g->nbuckets = 16;
    while (g->nbuckets < n * 2) g->nbuckets *= 2;
    g->trimmed = xcalloc(n + 1, sizeof *g->trimmed);
    g->hashes = xcalloc(n + 1, sizeof *g->hashes);
    g->next = xcalloc(n + 1, sizeof *g->next);
    g->first = xcalloc(g->nbuckets, sizeof *g->first);
    for (size_t i = n; i-- > 0;) {
        g->trimmed[i] = slice_trim(g->t.v.ptr[i]);
        g->hashes[i] = hash_line(g->trimmed[i]);
        uint32_t *slot = &g->first[g->hashes[i] & (g->nbuckets - 1)];
        g->next[i] = *slot;
        *slot = (uint32_t)i + 1;
    }
    if (!str_ends(path, ".py")) return;
    g->py = py_parse(path, text.ptr, text.len);
    index_scopes(g);
}

void target_free(struct target *g)
{
    textlines_free(&g->t);
    free(g->trimmed);
    free(g->hashes);
    free(g->next);
    free(g->first);
    free(g->scope);
    if (g->py) py_free(g->py);
}

/* Steps through the lines with the hash; start with at = 0. Returns line + 1, 0 at the end. */
static uint32_t next_same(const struct target *g, uint64_t hash, uint32_t at)
{
    at = at ? g->next[at - 1] : g->first[hash & (g->nbuckets - 1)];
    while (at && g->hashes[at - 1] != hash) at = g->next[at - 1];
    return at;
}

uint32_t target_count(const struct target *g, struct slice line)
{
    uint32_t n = 0;
    uint64_t h = hash_line(line);
    for (uint32_t at = next_same(g, h, 0); at; at = next_same(g, h, at)) n++;
    return n;
}

/* ---- matching lines ---------------------------------------------------------------------------------- */

/* For trimmed lines. Most pairs are settled by their lengths and their first and last bytes. */
static bool alike(struct slice a, struct slice b)
{
    size_t n = a.len < b.len ? a.len : b.len, enough = 3 * (a.len + b.len), head = 0, tail = 0;
    if (n < 8 || 10 * n < enough) return false;
    if (a.ptr[0] != b.ptr[0] && a.ptr[a.len - 1] != b.ptr[b.len - 1]) return false;
    while (head < n && a.ptr[head] == b.ptr[head]) head++;
    while (tail < n - head && a.ptr[a.len - 1 - tail] == b.ptr[b.len - 1 - tail]) tail++;
    return 10 * (head + tail) >= enough;
}

enum match_quality match_lines(struct slice a, struct slice b)
{
    if (slice_eq(a, b)) return MATCH_EXACT;
    a = slice_trim(a), b = slice_trim(b);
    if (slice_eq(a, b)) return MATCH_INDENT;
    return alike(a, b) ? MATCH_ALIKE : MATCH_NONE;
}

/* An old line made ready to be matched with many lines of the target. */
struct probe {
    struct slice whole, trimmed;
    uint64_t hash;
};

static enum match_quality match_probe(const struct probe *p, const struct target *g, uint32_t line)
{
    if (p->hash != g->hashes[line]) return alike(p->trimmed, g->trimmed[line]) ? MATCH_ALIKE : MATCH_NONE;
    return match_lines(p->whole, g->t.v.ptr[line]);
}

/* ---- weights ----------------------------------------------------------------------------------------- */

/* Rare lines say more; lines to be removed and the neighbours of edits matter more. */
static double weight(const struct target *g, const struct old_line *l)
{
    if (slice_blank(l->text)) return 0.05;
    double n = (double)g->t.v.len + 2, c = target_count(g, l->text);
    double w = c > 0 ? log2(n / c) / log2(n) : 0.8;
    if (w < 0.1) w = 0.1;
    return w * (l->removed ? 2.0 : l->near ? 1.5 : 1.0);
}

static double quality_share(enum match_quality q)
{
    static const double share[] = {
        [MATCH_NONE] = 0, [MATCH_ALIKE] = 0.5, [MATCH_INDENT] = 0.8, [MATCH_EXACT] = 1};
    return share[q];
}

/* ---- votes ------------------------------------------------------------------------------------------- */

struct vote {
    int32_t drift;
    double weight;
};
typedef VEC(struct vote) votes;

static int by_drift(const void *a, const void *b)
{
    const struct vote *x = a, *y = b;
    return x->drift < y->drift ? -1 : x->drift > y->drift;
}

static int by_weight(const void *a, const void *b)
{
    const struct vote *x = a, *y = b;
    if (x->weight != y->weight) return x->weight > y->weight ? -1 : 1;
    return x->drift < y->drift ? -1 : x->drift > y->drift;
}

static void collect_votes(const struct target *g, const struct old_side *o, const double *w, uint32_t from,
                          uint32_t to, votes *v)
{
    for (uint32_t i = 0; i < o->lines.len; i++) {
        struct slice text = o->lines.ptr[i].text;
        uint64_t h = hash_line(text);
        if (slice_blank(text) || target_count(g, text) > MAX_OCCURRENCES) continue;
        for (uint32_t at = next_same(g, h, 0); at; at = next_same(g, h, at))
            if (at - 1 >= from && at - 1 < to)
                *vec_push(v) = (struct vote){(int32_t)(at - 1) - (int32_t)(o->start + i), w[i]};
    }
}

/* Votes for one drift become one; then the heaviest come first. */
static void count_votes(votes *v)
{
    if (!v->len) return;
    qsort(v->ptr, v->len, sizeof *v->ptr, by_drift);
    size_t n = 0;
    for (size_t i = 0; i < v->len; i++) {
        if (n && v->ptr[n - 1].drift == v->ptr[i].drift)
            v->ptr[n - 1].weight += v->ptr[i].weight;
        else
            v->ptr[n++] = v->ptr[i];
    }
    v->len = n;
    qsort(v->ptr, v->len, sizeof *v->ptr, by_weight);
}

/* ---- alignment --------------------------------------------------------------------------------------- */

struct grid {
    size_t rows, cols;
    float *score;
    uint8_t *step; /* 0 stop, 1 match, 2 skip old, 3 skip target */
};

static void trace(const struct grid *m, size_t row, size_t col, uint32_t base, int32_t *align)
{
    while (row) {
        uint8_t step = m->step[row * m->cols + col];
        if (step == 1)
            align[--row] = (int32_t)(base + --col);
        else if (step == 3)
            col--;
        else
            align[--row] = UNALIGNED;
    }
}

/* Best alignment of the old side with target lines [base, end): free at both ends of the target. Of equal
 * ones that which ends nearest to target line expected, so that repeated code is found at every drift that is
 * tried. */
static double align_window(const struct target *g, const struct old_side *o, const double *w, uint32_t base,
                           uint32_t end, int64_t expected, int32_t *align)
{
    struct grid m = {o->lines.len + 1, end - base + 1, NULL, NULL};
    m.score = xcalloc(m.rows * m.cols, sizeof *m.score);
    m.step = xcalloc(m.rows * m.cols, 1);
    for (size_t i = 1; i < m.rows; i++) {
        float *row = m.score + i * m.cols, *up = row - m.cols;
        uint8_t *step = m.step + i * m.cols;
        float lost = (float)(w[i - 1] * 0.1);
        struct slice whole = o->lines.ptr[i - 1].text;
        const struct probe probe = {whole, slice_trim(whole), hash_line(whole)};
        row[0] = up[0] - lost;
        step[0] = 2;
        for (size_t j = 1; j < m.cols; j++) {
            enum match_quality q = match_probe(&probe, g, base + (uint32_t)j - 1);
            float match = q ? up[j - 1] + (float)(w[i - 1] * quality_share(q)) : -1e9f;
            float skip_target = i + 1 < m.rows ? row[j - 1] - 0.02f : row[j - 1] - 1e9f;
            row[j] = up[j] - lost, step[j] = 2;
            if (skip_target > row[j]) row[j] = skip_target, step[j] = 3;
            if (match >= row[j]) row[j] = match, step[j] = 1;
        }
    }
    size_t best = 0;
    double most = -1e9;
    const float *last = m.score + (m.rows - 1) * m.cols;
    for (size_t j = 0; j < m.cols; j++) {
        double s = last[j] - 0.002 * (double)llabs((int64_t)(base + j) - expected);
        if (s > most) most = s, best = j;
    }
    double score = m.score[(m.rows - 1) * m.cols + best];
    trace(&m, m.rows - 1, best, base, align);
    free(m.score);
    free(m.step);
    return score;
}

static int32_t middle_drift(const struct old_side *o, const struct candidate *c)
{
    int64_t best = INT64_MAX, drift = 0, half = (int64_t)o->lines.len / 2;
    for (int64_t i = 0; i < (int64_t)o->lines.len; i++) {
        int64_t distance = llabs(i - half) + (o->lines.ptr[i].near ? 0 : 1000);
        if (c->align[i] == UNALIGNED || distance >= best) continue;
        best = distance;
        drift = c->align[i] - (int64_t)o->start - i;
    }
    return (int32_t)drift;
}

static bool same_alignment(const struct candidate *a, const struct candidate *b, size_t n)
{
    return !memcmp(a->align, b->align, n * sizeof *a->align);
}

static void try_drift(const struct target *g, const struct old_side *o, const double *w, double total,
                      int32_t drift, uint32_t from, uint32_t to, candidates *out)
{
    int64_t base = (int64_t)o->start + drift - SLACK, end = base + (int64_t)2 * SLACK + (int64_t)o->lines.len;
    int64_t expected = base + SLACK + (int64_t)o->lines.len;
    if (base < from) base = from;
    if (end > to) end = to;
    if (base >= end) return;
    struct candidate c = {.align = xcalloc(o->lines.len + 1, sizeof *c.align), .first = UINT32_MAX};
    c.score = align_window(g, o, w, (uint32_t)base, (uint32_t)end, expected, c.align) / total;
    for (size_t i = 0; i < o->lines.len; i++) {
        if (c.align[i] == UNALIGNED) continue;
        if (c.first == UINT32_MAX) c.first = (uint32_t)c.align[i];
        c.last = (uint32_t)c.align[i];
    }
    bool keep = c.score >= 0.3 && c.first != UINT32_MAX;
    for (size_t i = 0; keep && i < out->len; i++) keep = !same_alignment(&c, &out->ptr[i], o->lines.len);
    c.drift = middle_drift(o, &c);
    if (keep)
        *vec_push(out) = c;
    else
        free(c.align);
}

static int by_score(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return abs(x->drift) - abs(y->drift);
}

void find_candidates(const struct target *g, const struct old_side *o, const int32_t *hints, size_t nhints,
                     uint32_t from, uint32_t to, candidates *out)
{
    votes v = {0};
    double total = 0, *w = xcalloc(o->lines.len + 1, sizeof *w);
    for (size_t i = 0; i < o->lines.len; i++) total += w[i] = weight(g, &o->lines.ptr[i]);
    collect_votes(g, o, w, from, to, &v);
    count_votes(&v);
    /* Big hunks are told apart by a few votes, and their alignments are dear. */
    size_t most = o->lines.len > 300 ? 3 : MAX_DRIFTS;
    for (size_t i = 0; i < nhints && total > 0; i++) try_drift(g, o, w, total, hints[i], from, to, out);
    for (size_t i = 0; i < v.len && i < most && total > 0; i++)
        try_drift(g, o, w, total, v.ptr[i].drift, from, to, out);
    if (out->len) qsort(out->ptr, out->len, sizeof *out->ptr, by_score);
    vec_free(&v);
    free(w);
}

void candidates_free(candidates *c)
{
    for (size_t i = 0; i < c->len; i++) free(c->ptr[i].align);
    vec_free(c);
}
