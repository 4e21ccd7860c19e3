/* steps.c - the order of work, what is kept, and where it stops. */
#include "concord/steps/steps.h"

#include <stdlib.h>
#include <string.h>

const struct step steps_table[STEP_COUNT] = {
#define X(name, each, what) {#name, what, each, step_##name, inputs_##name},
    STEPS(X)
#undef X
};

int steps_find(const char *name)
{
    for (int i = 0; i < STEP_COUNT; i++)
        if (!strcmp(steps_table[i].name, name)) return i;
    return -1;
}

int steps_open(struct steps *s, struct campaign *c, const char *clone, const char *dir, struct err *e)
{
    *s = (struct steps){.campaign = c};
    char *folder = dir ? xstrdup(dir) : dossier_folder(c->name);
    const char *source = clone ? clone : c->plugin.source;
    int status = dossier_open(folder, &s->dossier, e);
    free(folder);
    if (status) return status;
    if (source && path_is_dir(source)) s->clone = xstrdup(source);
    if (s->clone) return 0;
    dossier_close(&s->dossier);
    return err_set(e, "%s: no clone of the plugin's repository: give one with --plugin DIR (git clone %s)",
                   c->path, c->plugin.source ? c->plugin.source : "URL");
}

void steps_close(struct steps *s)
{
    dossier_close(&s->dossier);
    free(s->clone);
}

void steps_say(const char *step, const struct campaign_release *release, const char *fmt, ...)
{
    struct buf text = BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    buf_vaddf(&text, fmt, ap);
    va_end(ap);
    printf("%-7s %-9s %s\n", step, release ? release->torch_npu : "", buf_str(&text));
    fflush(stdout);
    buf_free(&text);
}

json_t *steps_texts(const strings *list)
{
    json_t *all = json_array();
    for (size_t i = 0; i < list->len; i++) json_array_append_new(all, json_string(list->ptr[i]));
    return all;
}

json_t *steps_fact_digest(const struct steps *s, const char *step, const struct campaign_release *release)
{
    const json_t *body = dossier_get(&s->dossier, step, release ? release->torch_npu : NULL);
    char digest[65] = "";
    if (body) fact_digest(body, digest);
    return json_string(digest);
}

static bool is_repository(const char *dir)
{
    char *dot = path_join(dir, ".git"), *objects = path_join(dir, "objects"), *head = path_join(dir, "HEAD");
    bool yes = path_exists(dot) || (path_is_dir(objects) && path_exists(head));
    free(dot);
    free(objects);
    free(head);
    return yes;
}

char *steps_upstream(const struct steps *s, const struct campaign_release *release, struct err *e)
{
    struct campaign_source place = {.revision =
                                        (char *)(s->upstream ? s->upstream : s->campaign->upstream.source)};
    if (!place.revision) {
        err_set(e, "%s: no upstream source: set upstream.source, or give --upstream PLACE",
                s->campaign->path);
        return NULL;
    }
    char *spec = campaign_revision(&place, release);
    bool plain = strchr(spec, '#') || (path_exists(spec) && !(path_is_dir(spec) && is_repository(spec)));
    if (plain) return spec;
    char *revision = s->campaign->upstream.revision ? campaign_revision(&s->campaign->upstream, release)
                                                    : xformat("v%s", release->torch);
    char *whole = xformat("%s#%s", spec, revision);
    free(spec);
    free(revision);
    return whole;
}

/* ---- kept or run again ------------------------------------------------------------------------------- */

static bool inputs_digest(const struct steps *s, enum step_id id, const struct campaign_release *release,
                          char out[65])
{
    json_t *inputs = steps_table[id].inputs(s, release);
    if (inputs) fact_digest(inputs, out);
    bool any = inputs != NULL;
    json_decref(inputs);
    return any;
}

bool steps_fresh(const struct steps *s, enum step_id id, const struct campaign_release *release)
{
    char digest[65];
    const json_t *body = dossier_get(&s->dossier, steps_table[id].name, release ? release->torch_npu : NULL);
    return body && inputs_digest(s, id, release, digest) && !strcmp(fact_text(body, "inputs"), digest);
}

static int keep_fact(struct steps *s, enum step_id id, const struct campaign_release *release, json_t *body,
                     struct err *e)
{
    char digest[65];
    if (!body) return 0;
    if (inputs_digest(s, id, release, digest)) json_object_set_new(body, "inputs", json_string(digest));
    return dossier_put(&s->dossier, steps_table[id].name, release ? release->torch_npu : NULL, body, e);
}

/* A kept step that stopped the work then stops it now: its fact says how it ended. */
static int run_one(struct steps *s, enum step_id id, const struct campaign_release *release, struct err *e)
{
    const struct step *step = &steps_table[id];
    json_t *body = NULL;
    if (!s->again && steps_fresh(s, id, release)) {
        const json_t *fact = dossier_get(&s->dossier, step->name, release ? release->torch_npu : NULL);
        int outcome = (int)json_integer_value(json_object_get(fact, "outcome"));
        if (outcome == STEP_OK) {
            steps_say(step->name, release, "unchanged");
            return STEP_OK;
        }
    }
    int outcome = step->run(s, release, &body, e);
    if (outcome >= 0 && body) json_object_set_new(body, "outcome", json_integer(outcome));
    if (outcome < 0) {
        json_decref(body);
        return outcome;
    }
    return keep_fact(s, id, release, body, e) ? -1 : outcome;
}

static int run_step(struct steps *s, enum step_id id, struct err *e)
{
    if (!steps_table[id].each) return run_one(s, id, NULL, e);
    int worst = STEP_OK;
    for (size_t i = 0; i < s->campaign->releases.len; i++) {
        int outcome = run_one(s, id, &s->campaign->releases.ptr[i], e);
        if (outcome < 0) return outcome;
        if (outcome > worst) worst = outcome;
    }
    return worst;
}

/* What stops the work still gets its report: that is what a person decides by. */
static int report_anyway(struct steps *s, enum step_id stopped, struct err *e)
{
    if (stopped < STEP_verify || stopped >= STEP_report) return 0;
    return run_step(s, STEP_report, e) < 0 ? -1 : 0;
}

int steps_run(struct steps *s, enum step_id from, enum step_id to, struct err *e)
{
    for (int id = (int)from; id <= (int)to; id++) {
        int outcome = run_step(s, (enum step_id)id, e);
        if (outcome < 0) return outcome;
        if (outcome != STEP_OK) return report_anyway(s, (enum step_id)id, e) ? -1 : outcome;
        if (proc_interrupted) return err_set(e, "interrupted: run the campaign again to go on");
    }
    return STEP_OK;
}
