/* port.c - a patch's edits carried to another release's file: hunks to places, places to contents. */
#include "concord/patch/port.h"
#include "concord/patch/evidence.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const outcome_texts[] = {
#define X(name, text) [PORT_##name] = text,
    PORT_OUTCOMES(X)
#undef X
};
static_assert(sizeof outcome_texts / sizeof *outcome_texts == PORT_OUTCOME_COUNT, "one text an outcome");

const char *port_outcome_text(enum port_outcome o)
{
    return outcome_texts[o];
}

/* ---- a hunk read ------------------------------------------------------------------------------------- */

struct job {
    const struct hunk *h;
    struct old_side old;
    VEC(struct hunk_edit) edits;
    candidates places;
    size_t chosen;               /* index into places; places.len when none */
    char *why;                   /* why none was chosen; owned */
    VEC(struct evidence) scopes; /* one an edit */
};

struct porter {
    const struct patch *p;
    const struct patch_file *f;
    struct target to;
    struct target from; /* when has_from */
    bool has_from;
    VEC(struct job) jobs;
    struct port *r;
};

static void read_edits(const struct patch *p, struct job *j)
{
    struct hunk_edit *edit = NULL;
    for (uint32_t i = j->h->body; i < j->h->end; i++) {
        uint8_t kind = p->lines.ptr[i].kind;
        if (kind == LINE_NO_EOL) continue;
        if (line_is_context(kind))
            edit = NULL;
        else if (!edit) {
            edit = vec_push(&j->edits);
            edit->from = edit->to = (uint32_t)j->old.lines.len;
            edit->patch_line = i;
        }
        if (kind == LINE_ADD) *vec_push(&edit->added) = patch_line_content(p, i);
        if (kind == LINE_DEL) edit->to++;
        if (line_in_old(kind))
            *vec_push(&j->old.lines) =
                (struct old_line){patch_line_content(p, i), i, kind == LINE_DEL, false};
    }
    for (size_t n = 0; n < j->edits.len; n++) {
        uint32_t b = j->edits.ptr[n].from, a = j->edits.ptr[n].to;
        if (b > 0) j->old.lines.ptr[b - 1].near = true;
        if (a < j->old.lines.len) j->old.lines.ptr[a].near = true;
    }
}

/* ---- candidates -------------------------------------------------------------------------------------- */

/* Places every edit as c has it; false when none holds or the first that does is in another scope. */
static bool try_candidate(const struct porter *k, const struct job *j, struct candidate *c, bool *wrong_scope,
                          char **seen, char **refused)
{
    bool any = false, agrees = true;
    c->placement = 1469598103934665603u;
    for (size_t i = 0; i < j->edits.len; i++) {
        struct placed placed;
        place_edit(&k->to, &j->old, c, &j->edits.ptr[i], &placed);
        bool holds = placed.outcome != PORT_conflict;
        if (holds && !any && !evidence_agrees(&j->scopes.ptr[i], &k->to, placed.from, placed.to, c)) {
            agrees = false;
            *wrong_scope = true;
            if (!*seen) *seen = xstrdup(scope_at(&k->to, placed.from, placed.to, j->scopes.ptr[i].indent));
        }
        if (holds && !any) c->edit_first = placed.from;
        if (holds) c->edit_end = placed.to;
        c->placement = (c->placement ^ (holds ? placed.from * 31u + placed.to : 0)) * 1099511628211u;
        any |= holds;
        if (!holds && !*refused) *refused = xstrdup(placed.reason);
        buf_free(&placed.text);
        free(placed.reason);
    }
    return any && agrees;
}

static bool seen_before(const candidates *places, size_t n, uint64_t placement)
{
    for (size_t i = 0; i < n; i++)
        if (places->ptr[i].placement == placement) return true;
    return false;
}

static const char *scope_wanted(const struct evidence *ev)
{
    return ev->exact && *ev->exact ? ev->exact
           : ev->below             ? ev->below
           : ev->inner             ? ev->inner
           : ev->outer             ? ev->outer
                                   : "the module's";
}

/* Of candidates that place the edits alike the best one stays: they come best first. */
static void keep_good(struct porter *k, struct job *j)
{
    size_t n = 0, total = j->places.len;
    bool wrong_scope = false;
    char *seen = NULL, *refused = NULL;
    for (size_t i = 0; i < total; i++) {
        struct candidate *c = &j->places.ptr[i];
        bool good = c->score >= 0.35 && try_candidate(k, j, c, &wrong_scope, &seen, &refused) &&
                    !seen_before(&j->places, n, c->placement);
        if (good)
            j->places.ptr[n++] = *c;
        else
            free(c->align);
    }
    j->places.len = n;
    if (!n && wrong_scope)
        j->why = xformat("its lines stand only in %s, not in %s", *seen ? seen : "the module's own scope",
                         scope_wanted(&j->scopes.ptr[0]));
    else if (!n && total)
        j->why = xstrdup(refused ? refused : "too few of its lines are in the target");
    free(seen);
    free(refused);
}

static void find_places(struct porter *k, struct job *j)
{
    int32_t hints[2] = {0, 0};
    find_candidates(&k->to, &j->old, hints, 1, 0, (uint32_t)k->to.t.v.len, &j->places);
    if (!j->places.len) j->why = xstrdup("none of its lines are in the target");
    keep_good(k, j);
}

/* ---- choosing ---------------------------------------------------------------------------------------- */

/* Hunks keep their order, and neighbours move alike: the best chain of candidates under both. */
struct chain {
    double score;
    size_t job, place; /* the one before */
    bool any;
};

static double drift_cost(int32_t a, int32_t b)
{
    return 0.02 * log2(1.0 + fabs((double)a - b));
}

static bool before(const struct candidate *a, const struct candidate *b)
{
    return a->edit_end <= b->edit_first && a->edit_first <= b->edit_first;
}

static double own_score(const struct candidate *c)
{
    return 1.0 + 2.0 * c->score * c->score;
}

static void choose_chain(struct porter *k)
{
    size_t n = k->jobs.len, widest = 1;
    for (size_t i = 0; i < n; i++) {
        struct job *j = &k->jobs.ptr[i];
        j->chosen = j->places.len;
        if (j->places.len > widest) widest = j->places.len;
    }
    struct chain *best = xcalloc(n * widest + 1, sizeof *best);
    struct chain end = {0};
    for (size_t i = 0; i < n; i++)
        for (size_t a = 0; a < k->jobs.ptr[i].places.len; a++) {
            struct chain *c = &best[i * widest + a];
            const struct candidate *mine = &k->jobs.ptr[i].places.ptr[a];
            c->score = own_score(mine) - drift_cost(mine->drift, 0) * 0.5;
            /* Far hunks constrain little: look back a bounded way. */
            for (size_t h = i > 12 ? i - 12 : 0; h < i; h++)
                for (size_t b = 0; b < k->jobs.ptr[h].places.len; b++) {
                    const struct candidate *other = &k->jobs.ptr[h].places.ptr[b];
                    double s =
                        best[h * widest + b].score + own_score(mine) - drift_cost(mine->drift, other->drift);
                    if (before(other, mine) && s > c->score) *c = (struct chain){s, h, b, true};
                }
            if (c->score > end.score) end = (struct chain){c->score, i, a, true};
        }
    for (struct chain at = end; at.any;) {
        k->jobs.ptr[at.job].chosen = at.place;
        at = best[at.job * widest + at.place];
    }
    free(best);
}

/* The interval of drifts that the neighbours of job i moved by; false when there is none. */
static bool neighbour_drifts(const struct porter *k, size_t i, int32_t *low, int32_t *high)
{
    bool any = false;
    for (int step = -1; step <= 1; step += 2)
        for (size_t h = i + (size_t)step; h < k->jobs.len; h += (size_t)step) {
            const struct job *j = &k->jobs.ptr[h];
            if (j->chosen >= j->places.len) continue;
            int32_t d = j->places.ptr[j->chosen].drift;
            if (!any || d < *low) *low = d;
            if (!any || d > *high) *high = d;
            any = true;
            break;
        }
    return any;
}

static int64_t outside(int32_t drift, int32_t low, int32_t high)
{
    return drift < low ? (int64_t)low - drift : drift > high ? (int64_t)drift - high : 0;
}

/* Two ways to lay the hunk over the same lines are told apart by their score alone; a whole exact match has a
 * rival only in another one. */
static bool rivals(const struct candidate *a, const struct candidate *b)
{
    if (a->score > 0.9995) return b->score > 0.9995;
    bool overlap = a->first <= b->last && b->first <= a->last;
    return b->score >= a->score * (overlap ? 0.99 : 0.92);
}

/* Most of the hunk's lines stand at another indent: the code has moved into another block or definition. */
static bool moved(const struct porter *k, const struct job *j, const struct candidate *c)
{
    size_t same = 0, shifted = 0;
    for (size_t i = 0; i < j->old.lines.len; i++) {
        struct slice text = j->old.lines.ptr[i].text;
        if (c->align[i] == UNALIGNED || slice_blank(text)) continue;
        enum match_quality q = match_lines(text, k->to.t.v.ptr[c->align[i]]);
        same += q == MATCH_EXACT;
        shifted += q == MATCH_INDENT;
    }
    return shifted > same;
}

/* Nothing tells the function of some edit, and the lines alone do not say enough. */
static bool is_guess(const struct porter *k, const struct job *j, const struct candidate *c)
{
    bool certain = true;
    for (size_t i = 0; i < j->scopes.len; i++) certain &= evidence_certain(&j->scopes.ptr[i]);
    return (!certain && c->score < 0.5) || (!k->has_from && moved(k, j, c));
}

/* A rival that matches as well is told apart only by the neighbours' drift: the chosen one must lie within
 * it, or very near, and the rival far outside. Otherwise the place would be a guess. */
static void reject_guesses(struct porter *k)
{
    for (size_t i = 0; i < k->jobs.len; i++) {
        struct job *j = &k->jobs.ptr[i];
        if (j->chosen >= j->places.len) continue;
        const struct candidate *c = &j->places.ptr[j->chosen];
        int32_t low = 0, high = 0;
        if (is_guess(k, j, c))
            j->why = xformat(
                "its lines stand changed or moved at line %u, and neither the patch nor a base file shows "
                "which function they belong to",
                c->first + 1);
        bool neighbours = neighbour_drifts(k, i, &low, &high);
        int64_t mine = neighbours ? outside(c->drift, low, high) : labs((long)c->drift);
        for (size_t a = 0; a < j->places.len && !j->why; a++) {
            const struct candidate *other = &j->places.ptr[a];
            if (a == j->chosen || !rivals(c, other)) continue;
            int64_t theirs = neighbours ? outside(other->drift, low, high) : labs((long)other->drift);
            if (theirs > 4 * mine + 2 && mine <= 40) continue;
            j->why = xformat("it fits at line %u and at line %u alike", c->first + 1, other->first + 1);
        }
        if (j->why) j->chosen = j->places.len;
    }
}

/* ---- results ----------------------------------------------------------------------------------------- */

struct change {
    struct placed placed;
    size_t job, edit;
    bool import; /* put behind the last import, where no scope needs to agree */
};
typedef VEC(struct change) changes;

static void place_all(struct porter *k, changes *out)
{
    for (size_t i = 0; i < k->jobs.len; i++) {
        struct job *j = &k->jobs.ptr[i];
        for (size_t n = 0; n < j->edits.len; n++) {
            struct change *c = vec_push(out);
            c->job = i, c->edit = n;
            if (j->chosen < j->places.len) {
                place_edit(&k->to, &j->old, &j->places.ptr[j->chosen], &j->edits.ptr[n], &c->placed);
            } else {
                c->placed.outcome = PORT_conflict;
                c->placed.reason =
                    xstrdup(j->why ? j->why : "its place does not keep the order of the patch");
            }
        }
    }
}

/* An edit that only adds imports in the first column. */
static bool adds_imports(const struct hunk_edit *e)
{
    bool any = false;
    for (size_t i = 0; i < e->added.len; i++) {
        struct slice s = e->added.ptr[i];
        if (slice_blank(s)) continue;
        if (!slice_starts(s, "import ") &&
            !(slice_starts(s, "from ") && slice_has(s, " import ") && !slice_ends(s, "(")))
            return false;
        any = true;
    }
    return any && e->from == e->to;
}

/* The line behind the last import in the first column before the first class or def; 0 when there is none. */
static uint32_t behind_imports(const struct target *g)
{
    uint32_t line = 0, limit = UINT32_MAX;
    for (size_t i = 1; g->py && i < g->py->scopes.len; i++) {
        const struct py_scope *s = &g->py->scopes.ptr[i];
        if ((s->kind == PY_CLASS || s->kind == PY_FUNCTION) && s->at.start < limit) limit = s->at.start;
    }
    for (size_t i = 0; g->py && i < g->py->imports.len; i++) {
        const struct py_import *m = &g->py->imports.ptr[i];
        bool first_column = m->at.start == 0 || g->py->text[m->at.start - 1] == '\n';
        if (m->scope || m->at.start >= limit || !first_column) continue;
        uint32_t rows = m->at.row;
        for (uint32_t k = m->at.start; k < m->at.end; k++) rows += g->py->text[k] == '\n';
        if (rows > line) line = rows;
    }
    return line;
}

/* Where an import stands among the imports means nothing, so those whose neighbours the target lacks go
 * behind the last one. */
static void save_imports(const struct porter *k, changes *all)
{
    uint32_t at = behind_imports(&k->to), end = 0, next = UINT32_MAX;
    for (size_t i = 0; at && i < all->len; i++) {
        struct change *c = &all->ptr[i];
        const struct hunk_edit *e = &k->jobs.ptr[c->job].edits.ptr[c->edit];
        if (c->placed.outcome != PORT_conflict) {
            if (c->placed.to > end) end = c->placed.to;
            continue;
        }
        for (size_t n = i + 1; n < all->len && next == UINT32_MAX; n++)
            if (all->ptr[n].placed.outcome != PORT_conflict) next = all->ptr[n].placed.from;
        if (!adds_imports(e) || at < end || at > next) continue;
        free(c->placed.reason);
        c->placed = (struct placed){.from = at, .to = at, .outcome = PORT_adapted};
        c->placed.reason = xstrdup("its neighbours are not in the target: put behind the last import");
        for (size_t n = 0; n < e->added.len; n++)
            buf_addf(&c->placed.text, "%.*s\n", SLICE_FMT(e->added.ptr[n]));
        c->import = true;
        end = at;
    }
}

static void to_conflict(struct change *c, const char *why)
{
    buf_free(&c->placed.text);
    free(c->placed.reason);
    c->placed = (struct placed){.outcome = PORT_conflict, .reason = xstrdup(why)};
}

static bool writes(const struct change *c)
{
    return c->placed.outcome == PORT_carried || c->placed.outcome == PORT_adapted;
}

/* Each edit must lie behind the one before it, and in the scope it came from. */
static void check_changes(struct porter *k, changes *all)
{
    uint32_t end = 0;
    for (size_t i = 0; i < all->len; i++) {
        struct change *c = &all->ptr[i];
        const struct job *j = &k->jobs.ptr[c->job];
        if (!writes(c)) continue;
        bool same_scope = c->import || evidence_agrees(&j->scopes.ptr[c->edit], &k->to, c->placed.from,
                                                       c->placed.to, &j->places.ptr[j->chosen]);
        if (c->placed.from < end)
            to_conflict(c, "it would overlap the edit before it");
        else if (!same_scope)
            to_conflict(c, "it would land in another class or function");
        else
            end = c->placed.to > c->placed.from ? c->placed.to : c->placed.from;
    }
}

static void splice(const struct porter *k, const changes *all, size_t only_job, struct buf *post)
{
    uint32_t at = 0;
    const struct textlines *t = &k->to.t;
    buf_clear(post);
    for (size_t i = 0; i < all->len; i++) {
        const struct change *c = &all->ptr[i];
        if (!writes(c) || (only_job != SIZE_MAX && c->job != only_job)) continue;
        textlines_add(t, at, c->placed.from, "", post);
        bool open = c->placed.from == t->v.len && t->unterminated && c->placed.from > at;
        if (open) buf_addc(post, '\n');
        buf_add(post, buf_str(&c->placed.text), c->placed.text.len);
        at = c->placed.to;
    }
    textlines_add(t, at, t->v.len, "", post);
}

static bool parses(const struct porter *k, const struct buf *text)
{
    if (!k->to.py || k->to.py->error_row) return true;
    struct py_file *py = py_parse(k->f->path, buf_str(text), text->len);
    bool good = !py->error_row;
    py_free(py);
    return good;
}

/* A result that no longer parses: hunks that break it alone go; if that does not help, all go. */
static void drop_unparsable(struct porter *k, changes *all, struct buf *post)
{
    static const char why[] = "the result would not be valid Python";
    for (size_t job = 0; job < k->jobs.len; job++) {
        splice(k, all, job, post);
        if (parses(k, post)) continue;
        for (size_t i = 0; i < all->len; i++)
            if (all->ptr[i].job == job && writes(&all->ptr[i])) to_conflict(&all->ptr[i], why);
    }
    splice(k, all, SIZE_MAX, post);
    for (size_t i = all->len; i-- > 0 && !parses(k, post);) {
        if (!writes(&all->ptr[i])) continue;
        to_conflict(&all->ptr[i], why);
        splice(k, all, SIZE_MAX, post);
    }
}

static void record(struct porter *k, changes *all)
{
    for (size_t i = 0; i < all->len; i++) {
        struct change *c = &all->ptr[i];
        const struct job *j = &k->jobs.ptr[c->job];
        const struct hunk_edit *e = &j->edits.ptr[c->edit];
        struct port_edit *r = vec_push(&k->r->edits);
        bool found = c->placed.outcome != PORT_conflict;
        *r = (struct port_edit){.line = e->patch_line + 1,
                                .source = j->old.start + e->from + 1,
                                .target = found ? c->placed.from + 1 : 0,
                                .removed = e->to - e->from,
                                .added = (uint32_t)e->added.len,
                                .outcome = c->placed.outcome,
                                .reason = c->placed.reason};
        const struct evidence *ev = &j->scopes.ptr[c->edit];
        size_t indent = ev->indent;
        r->certain = evidence_certain(ev);
        k->r->uncertain += found && !r->certain;
        r->scope = xstrdup(found ? scope_at(&k->to, c->placed.from, c->placed.to, indent) : "");
        k->r->counts[r->outcome]++;
        buf_free(&c->placed.text);
    }
    vec_free(all);
}

/* ---- the whole --------------------------------------------------------------------------------------- */

static void add_job(struct porter *k, const struct hunk *h)
{
    struct job *j = vec_push(&k->jobs);
    j->h = h;
    j->old.start = h->old_len ? h->old_start - 1 : h->old_start;
    read_edits(k->p, j);
    for (size_t i = 0; i < j->edits.len; i++) {
        const struct hunk_edit *e = &j->edits.ptr[i];
        evidence_read(vec_push(&j->scopes), h->section, &j->old, e, k->has_from ? &k->from : NULL,
                      j->old.start + e->from);
    }
}

static void free_job(struct job *j)
{
    for (size_t i = 0; i < j->edits.len; i++) vec_free(&j->edits.ptr[i].added);
    vec_free(&j->edits);
    vec_free(&j->old.lines);
    candidates_free(&j->places);
    free(j->why);
    for (size_t i = 0; i < j->scopes.len; i++) evidence_free(&j->scopes.ptr[i]);
    vec_free(&j->scopes);
}

void port_section(const struct patch *p, const struct patch_file *f, struct slice from, struct slice to,
                  struct port *r, struct buf *post)
{
    struct porter k = {.p = p, .f = f, .r = r};
    changes all = {0};
    buf_clear(post);
    target_make(&k.to, f->path, to);
    k.has_from = from.ptr != NULL;
    if (k.has_from) target_make(&k.from, f->path, from);
    for (uint32_t h = f->hunk; h < f->hunk_end; h++) add_job(&k, &p->hunks.ptr[h]);
    for (size_t i = 0; i < k.jobs.len; i++) find_places(&k, &k.jobs.ptr[i]);
    choose_chain(&k);
    reject_guesses(&k);
    place_all(&k, &all);
    save_imports(&k, &all);
    check_changes(&k, &all);
    splice(&k, &all, SIZE_MAX, post);
    if (!parses(&k, post)) drop_unparsable(&k, &all, post);
    record(&k, &all);
    for (size_t i = 0; i < k.jobs.len; i++) free_job(&k.jobs.ptr[i]);
    vec_free(&k.jobs);
    target_free(&k.to);
    if (k.has_from) target_free(&k.from);
}

void port_free(struct port *r)
{
    for (size_t i = 0; i < r->edits.len; i++) {
        free(r->edits.ptr[i].reason);
        free(r->edits.ptr[i].scope);
    }
    vec_free(&r->edits);
    *r = (struct port){0};
}
