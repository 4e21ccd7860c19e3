/* record.c - cells and sums of a run's record. */
#include "concord/run/record.h"
#include "concord/base/base.h"

#include <stdlib.h>
#include <string.h>

static void case_free(struct case_record *c)
{
    free(c->release);
    free(c->api);
    free(c->name);
    free(c->passes);
    free(c->reason);
    free(c->started);
    free(c->output);
    free(c->stack);
    free(c->facts);
}

static void release_free(struct release_record *r)
{
    free(r->torch);
    free(r->name);
    free(r->branch);
    free(r->env);
    free(r->lock);
    free(r->device);
    free(r->error);
    json_decref(r->hello);
}

void run_record_free(struct run_record *r)
{
    char *owned[] = {r->campaign, r->path,    r->digest,   r->choice, r->tolerances,
                     r->command,  r->started, r->finished, r->version};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
    json_decref(r->host);
    strings_free(&r->apis);
    for (size_t i = 0; i < r->releases.len; i++) release_free(&r->releases.ptr[i]);
    for (size_t i = 0; i < r->cases.len; i++) case_free(&r->cases.ptr[i]);
    vec_free(&r->releases);
    vec_free(&r->cases);
    *r = (struct run_record){0};
}

json_t *case_facts(const struct case_record *c)
{
    return c->facts && *c->facts ? json_loads(c->facts, 0, NULL) : NULL;
}

struct release_record *record_release(const struct run_record *r, const char *name)
{
    for (size_t i = 0; i < r->releases.len; i++)
        if (!strcmp(r->releases.ptr[i].name, name)) return &r->releases.ptr[i];
    return NULL;
}

struct cell record_cell(const struct run_record *r, const char *release, const char *api)
{
    struct cell cell = {.release = release, .api = api};
    const struct release_record *rel = record_release(r, release);
    if (rel) cell.kind = rel->kind;
    for (size_t i = 0; i < r->cases.len; i++) {
        const struct case_record *c = &r->cases.ptr[i];
        if (strcmp(c->release, release) != 0 || strcmp(c->api, api) != 0) continue;
        cell.total++;
        cell.counts[c->verdict]++;
        cell.launches += c->launches;
        cell.ms += c->ms;
    }
    cell.verdict = verdict_of_cell(cell.counts);
    for (size_t i = 0; i < r->cases.len && cell.verdict != VERDICT_PASSED && !cell.worst; i++) {
        const struct case_record *c = &r->cases.ptr[i];
        if (!strcmp(c->release, release) && !strcmp(c->api, api) && c->verdict == cell.verdict)
            cell.worst = c;
    }
    return cell;
}

int record_passed(const struct run_record *r, int *total)
{
    int passed = 0;
    *total = 0;
    for (size_t v = 0; v < r->releases.len; v++) {
        for (size_t a = 0; a < r->apis.len; a++, ++*total) {
            struct cell cell = record_cell(r, r->releases.ptr[v].name, r->apis.ptr[a]);
            passed += cell.verdict == VERDICT_PASSED;
        }
    }
    return passed;
}

bool record_complete(const struct run_record *r)
{
    for (size_t i = 0; i < r->cases.len; i++)
        if (r->cases.ptr[i].state != CASE_DONE) return false;
    return true;
}

enum device_kind record_kind(const struct run_record *r, bool *mixed)
{
    enum device_kind kind = KIND_NONE;
    *mixed = false;
    for (size_t i = 0; i < r->releases.len; i++) {
        enum device_kind k = r->releases.ptr[i].kind;
        if (k == KIND_NONE) continue;
        if (kind != KIND_NONE && kind != k) *mixed = true;
        kind = k;
    }
    return *mixed ? KIND_NONE : kind;
}
