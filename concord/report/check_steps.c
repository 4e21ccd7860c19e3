/* check_steps.c - the checklist: what the steps' facts prove, and that they still hold. */
#include "concord/forge/branch.h"
#include "concord/report/check.h"

#include <stdlib.h>
#include <string.h>

/* Counts releases whose fact of the step satisfies the test; a missing fact satisfies nothing. */
typedef bool fact_test(const struct report *r, const char *release, const json_t *body);

static bool count_facts(const struct report *r, const char *step, fact_test *holds, struct buf *fact)
{
    size_t n = r->record->releases.len, good = 0, known = 0;
    for (size_t i = 0; i < n; i++) {
        const char *release = r->record->releases.ptr[i].name;
        const json_t *body = dossier_get(r->dossier, step, release);
        known += body != NULL;
        good += body && holds(r, release, body);
    }
    buf_addf(fact, "%zu/%zu", good, n);
    if (!known) buf_addf(fact, ", no fact of step %s", step);
    return n > 0 && good == n;
}

bool check_journal(const struct report *r, struct buf *fact)
{
    const json_t *body = dossier_get(r->dossier, "verify", NULL);
    char digest[65];
    if (!body) {
        buf_adds(fact, "no fact of step verify");
        return false;
    }
    report_run_digest(r->record, digest);
    bool same = !strcmp(digest, fact_text(body, "digest"));
    buf_addf(fact, "SHA-256 %.16s%s%.16s", digest, same ? " = " : " != ", fact_text(body, "digest"));
    return same && json_integer_value(json_object_get(body, "run")) == r->record->id;
}

/* ---- scan, adapt, audit ------------------------------------------------------------------------------ */

static bool has_test(const json_t *scan, const char *api)
{
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(scan, "tests"), i,
                       t) if (!strcmp(fact_text(t, "api"), api)) return true;
    return false;
}

static bool all_covered(const struct report *r, const char *release, const json_t *body)
{
    for (size_t a = 0; a < r->record->apis.len; a++)
        if (!has_test(body, r->record->apis.ptr[a])) return false;
    return *release;
}

bool check_covered(const struct report *r, struct buf *fact)
{
    return count_facts(r, "scan", all_covered, fact);
}

/* What was left is settled by a person's word on exactly that list. */
static bool none_left(const struct report *r, const char *release, const json_t *body)
{
    if (!json_integer_value(json_object_get(body, "left"))) return true;
    const json_t *accepted = dossier_get(r->dossier, "accept", release);
    return accepted && !strcmp(fact_text(accepted, "digest"), fact_text(body, "left_digest"));
}

bool check_left(const struct report *r, struct buf *fact)
{
    return count_facts(r, "adapt", none_left, fact);
}

static bool patch_unchanged(const struct report *r, const char *release, const json_t *audited)
{
    char *path = dossier_path(r->dossier, "patches/%s/%s", release, fact_text(audited, "patch")), now[65];
    bool same = !sha256_file(path, now, NULL) && !strcmp(now, fact_text(audited, "sha256"));
    free(path);
    return same;
}

static bool patches_unchanged(const struct report *r, const char *release, const json_t *body)
{
    const json_t *patches = json_object_get(body, "patches");
    size_t i, made = json_array_size(json_object_get(dossier_get(r->dossier, "adapt", release), "files"));
    json_t *p;
    json_array_foreach(patches, i, p) if (!patch_unchanged(r, release, p)) return false;
    return json_array_size(patches) == made;
}

bool check_patches(const struct report *r, struct buf *fact)
{
    return count_facts(r, "audit", patches_unchanged, fact);
}

static bool audit_clean(const struct report *r, const char *release, const json_t *body)
{
    const json_t *errors = json_object_get(body, "errors");
    return r && *release && json_is_integer(errors) && !json_integer_value(errors);
}

bool check_audit(const struct report *r, struct buf *fact)
{
    return count_facts(r, "audit", audit_clean, fact);
}

static bool suite_agrees(const struct report *r, const char *release, const json_t *body)
{
    json_int_t executed = json_integer_value(json_object_get(body, "executed"));
    json_int_t tests = json_integer_value(json_object_get(body, "tests"));
    return r && *release && executed > 0 && !json_integer_value(json_object_get(body, "differ")) &&
           !json_integer_value(json_object_get(body, "unproved")) &&
           json_integer_value(json_object_get(body, "cpu_tests")) == tests &&
           json_array_size(json_object_get(body, "rows")) == (size_t)tests;
}

bool check_suite(const struct report *r, struct buf *fact)
{
    return count_facts(r, "suite", suite_agrees, fact);
}

/* ---- the repository ---------------------------------------------------------------------------------- */

static bool base_unmoved(const struct report *r, const char *release, const json_t *body)
{
    char now[BRANCH_ID_MAX];
    return r && *release &&
           !branch_resolve(fact_text(body, "repository"), fact_text(body, "ref"), now, NULL) &&
           !strcmp(now, fact_text(body, "commit"));
}

bool check_base(const struct report *r, struct buf *fact)
{
    return count_facts(r, "base", base_unmoved, fact);
}

static bool branch_holds(const struct report *r, const char *release, const json_t *body)
{
    const json_t *base = dossier_get(r->dossier, "base", release);
    return base && branch_is(fact_text(base, "repository"), body);
}

bool check_branches(const struct report *r, struct buf *fact)
{
    return count_facts(r, "branch", branch_holds, fact);
}

static bool docs_support(const struct report *r, const char *release, const json_t *body)
{
    const json_t *rows = json_object_get(body, "rows");
    size_t i, good = 0;
    json_t *row;
    json_array_foreach(rows, i, row) good += !strcmp(fact_text(row, "verdict"), "supported");
    return *release && good && good == json_array_size(rows) && good == r->record->apis.len;
}

bool check_docs(const struct report *r, struct buf *fact)
{
    return count_facts(r, "docs", docs_support, fact);
}
