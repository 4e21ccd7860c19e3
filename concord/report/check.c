/* check.c - the checklist: what the journal's record proves. */
#include "concord/report/check.h"

#include <stdlib.h>
#include <string.h>

/* Counts cases that satisfy the test, of those that are concerned. */
typedef bool case_test(const struct case_record *c, const struct case_marks *m);

static bool count_cases(const struct report *r, case_test *concerned, case_test *holds, struct buf *fact)
{
    size_t n = 0, good = 0;
    for (size_t i = 0; i < r->record->cases.len; i++) {
        const struct case_record *c = &r->record->cases.ptr[i];
        if (!concerned(c, &r->marks.ptr[i])) continue;
        n++;
        good += holds(c, &r->marks.ptr[i]);
    }
    buf_addf(fact, "%zu/%zu", good, n);
    return n > 0 && good == n;
}

static bool any(const struct case_record *c, const struct case_marks *m)
{
    return c && m;
}

static bool was_executed(const struct case_record *c, const struct case_marks *m)
{
    return m && c->state == CASE_DONE && c->attempts > 0 && c->verdict != VERDICT_SKIPPED;
}

static bool passed(const struct case_record *c, const struct case_marks *m)
{
    return m && c->verdict == VERDICT_PASSED;
}

static bool has_backward(const struct case_record *c, const struct case_marks *m)
{
    return m && !strcmp(c->passes, "backward");
}

static bool compared(const struct case_record *c, const struct case_marks *m)
{
    return c && m->compared;
}

static bool proved(const struct case_record *c, const struct case_marks *m)
{
    return m->memory && (c->kind == KIND_HARDWARE || (c->kind == KIND_SOFTWARE && c->launches > 0));
}

static bool no_fallback(const struct case_record *c, const struct case_marks *m)
{
    return c && m->no_fallback;
}

static bool not_skipped(const struct case_record *c, const struct case_marks *m)
{
    return m && c->state == CASE_DONE && c->verdict != VERDICT_SKIPPED;
}

/* One log pasted for several releases would have one set of times and ids. */
static bool own_run(const struct case_record *c, const struct case_marks *m)
{
    return *c->started && m->own;
}

bool check_executed(const struct report *r, struct buf *fact)
{
    return count_cases(r, any, was_executed, fact);
}

bool check_compared(const struct report *r, struct buf *fact)
{
    return count_cases(r, any, compared, fact);
}

bool check_backward(const struct report *r, struct buf *fact)
{
    return count_cases(r, has_backward, passed, fact);
}

bool check_proved(const struct report *r, struct buf *fact)
{
    return count_cases(r, passed, proved, fact);
}

bool check_fallback(const struct report *r, struct buf *fact)
{
    return count_cases(r, any, no_fallback, fact);
}

bool check_skipped(const struct report *r, struct buf *fact)
{
    return count_cases(r, any, not_skipped, fact);
}

bool check_own_runs(const struct report *r, struct buf *fact)
{
    return count_cases(r, any, own_run, fact);
}

bool check_cells(const struct report *r, struct buf *fact)
{
    int good = report_passed(r);
    buf_addf(fact, "%d/%zu", good, r->cells.len);
    return r->cells.len > 0 && (size_t)good == r->cells.len;
}

/* ---- the catalogue ----------------------------------------------------------------------------------- */

static void note_cases(const struct run_record *record, struct map *seen)
{
    for (size_t i = 0; i < record->cases.len; i++) {
        const struct case_record *c = &record->cases.ptr[i];
        char *key = xformat("%s\n%s\n%s", c->release, c->api, c->name);
        map_put(seen, key);
        free(key);
    }
}

static bool is_asked(const struct run_record *record, const char *api)
{
    for (size_t a = 0; a < record->apis.len; a++)
        if (!strcmp(record->apis.ptr[a], api)) return true;
    return false;
}

/* A row that is gone from the journal shows: the catalogue knows which there must be. */
bool check_whole(const struct report *r, struct buf *fact)
{
    struct map seen = {0};
    size_t n = 0, good = 0;
    note_cases(r->record, &seen);
    for (size_t k = 0; k < r->catalogue.cases.len; k++) {
        const struct plan_case *row = &r->catalogue.cases.ptr[k];
        if (!is_asked(r->record, row->api)) continue;
        for (size_t i = 0; i < r->record->releases.len; i++) {
            char *key = xformat("%s\n%s\n%s", r->record->releases.ptr[i].name, row->api, row->name);
            good += map_has(&seen, key);
            n++;
            free(key);
        }
    }
    map_free(&seen, NULL);
    buf_addf(fact, "%zu/%zu", good, n);
    return n > 0 && good == n;
}

/* ---- releases ---------------------------------------------------------------------------------------- */

typedef bool release_test(const struct release_record *rel);

static bool count_releases(const struct run_record *r, release_test *holds, struct buf *fact)
{
    size_t good = 0;
    for (size_t i = 0; i < r->releases.len; i++) good += holds(&r->releases.ptr[i]);
    buf_addf(fact, "%zu/%zu", good, r->releases.len);
    return r->releases.len > 0 && good == r->releases.len;
}

static bool starts_with_version(const json_t *hello, const char *key, const char *version)
{
    const char *found = json_string_value(json_object_get(hello, key));
    size_t n = strlen(version);
    return found && !strncmp(found, version, n) && (!found[n] || found[n] == '+');
}

static bool versions_match(const struct release_record *rel)
{
    return starts_with_version(rel->hello, "torch", rel->torch) &&
           starts_with_version(rel->hello, "plugin_version", rel->name);
}

static bool locked(const struct release_record *rel)
{
    return *rel->lock != '\0';
}

static bool on_hardware(const struct release_record *rel)
{
    return rel->kind == KIND_HARDWARE;
}

bool check_versions(const struct report *r, struct buf *fact)
{
    return count_releases(r->record, versions_match, fact);
}

bool check_locks(const struct report *r, struct buf *fact)
{
    return count_releases(r->record, locked, fact);
}

static bool case_on_hardware(const struct case_record *c, const struct case_marks *m)
{
    return m && c->kind == KIND_HARDWARE;
}

bool check_hardware(const struct report *r, struct buf *fact)
{
    bool releases = count_releases(r->record, on_hardware, fact);
    buf_adds(fact, ", ");
    return count_cases(r, any, case_on_hardware, fact) && releases;
}

/* The kinds of the cases too: a case may have run before its release moved to another device. */
bool check_one_kind(const struct report *r, struct buf *fact)
{
    size_t kinds[3] = {0};
    for (size_t i = 0; i < r->record->cases.len; i++) kinds[r->record->cases.ptr[i].kind]++;
    for (size_t i = 0; i < r->record->releases.len; i++) kinds[r->record->releases.ptr[i].kind]++;
    const char *comma = "";
    for (enum device_kind k = KIND_NONE; k <= KIND_HARDWARE; k++) {
        if (!kinds[k]) continue;
        buf_addf(fact, "%s%s", comma, device_kind_name(k));
        comma = ", ";
    }
    return !kinds[KIND_NONE] && !kinds[KIND_SOFTWARE] != !kinds[KIND_HARDWARE];
}

bool check_same_count(const struct report *r, struct buf *fact)
{
    const struct run_record *rec = r->record;
    bool same = rec->releases.len > 0;
    int first = -1;
    for (size_t i = 0; i < rec->releases.len; i++) {
        int n = 0;
        for (size_t k = 0; k < rec->cases.len; k++)
            n += rec->cases.ptr[k].state == CASE_DONE &&
                 !strcmp(rec->cases.ptr[k].release, rec->releases.ptr[i].name);
        buf_addf(fact, "%s%d", i ? ", " : "", n);
        if (first < 0) first = n;
        same = same && n == first && n > 0;
    }
    return same;
}

/* ---- the table --------------------------------------------------------------------------------------- */

static const struct {
    const char *id, *en, *zh;
    enum report_place place;
    checker *holds;
} rows[] = {
#define CHECK(id, place, en, zh) {#id, en, zh, PLACE_##place, check_##id},
#include "concord/report/checks.inc"
#undef CHECK
};

void report_check(struct report *r)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf fact = BUF_INIT;
        bool ticked = rows[i].holds(r, &fact);
        *vec_push(&r->checks) =
            (struct check){rows[i].id, rows[i].en, rows[i].zh, rows[i].place, ticked, buf_take(&fact)};
    }
}
