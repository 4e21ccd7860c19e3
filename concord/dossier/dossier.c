/* dossier.c - facts on disk: loaded together, replaced one at a time. */
#include "concord/dossier/dossier.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FACT_SCHEMA "concord-fact/1"

char *dossier_folder(const char *campaign)
{
    char *home = concord_home(), *dir = xformat("%s/work/%s", home, campaign);
    free(home);
    return dir;
}

char *dossier_path(const struct dossier *d, const char *fmt, ...)
{
    struct buf b = BUF_INIT;
    va_list ap;
    buf_addf(&b, "%s/", d->dir);
    va_start(ap, fmt);
    buf_vaddf(&b, fmt, ap);
    va_end(ap);
    return buf_take(&b);
}

const char *fact_text(const json_t *body, const char *key)
{
    const char *text = json_string_value(json_object_get(body, key));
    return text ? text : "";
}

void fact_append(json_t *array, json_t *value)
{
    if (!value || json_array_append_new(array, value))
        die("a fact holds text that is not UTF-8: it cannot be recorded");
}

void fact_digest(const json_t *body, char out[65])
{
    char *text = json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    sha256_hex(text ? text : "", text ? strlen(text) : 0, out);
    free(text);
}

static void keep(struct dossier *d, const char *step, const char *release, json_t *body)
{
    for (size_t i = 0; i < d->facts.len; i++) {
        struct dossier_fact *f = &d->facts.ptr[i];
        if (strcmp(f->step, step) != 0 || strcmp(f->release, release) != 0) continue;
        json_decref(f->body);
        f->body = body;
        return;
    }
    *vec_push(&d->facts) = (struct dossier_fact){xstrdup(step), xstrdup(release), body};
}

static int load_fact(struct dossier *d, const char *name, struct err *e)
{
    char *path = dossier_path(d, "facts/%s", name);
    struct buf text = BUF_INIT;
    json_error_t where;
    int status = file_read(path, &text, e);
    json_t *fact = status ? NULL : json_loadb(buf_str(&text), text.len, 0, &where);
    if (!status && !fact)
        status = err_set(e, "%s:%d: not JSON (%s): remove the file and run that step again", path, where.line,
                         where.text);
    json_t *body = json_object_get(fact, "body");
    if (!status && (strcmp(fact_text(fact, "schema"), FACT_SCHEMA) != 0 || !json_is_object(body)))
        status = err_set(e, "%s: not a fact of schema %s: remove the file and run that step again", path,
                         FACT_SCHEMA);
    if (!status) keep(d, fact_text(fact, "step"), fact_text(fact, "release"), json_incref(body));
    json_decref(fact);
    buf_free(&text);
    free(path);
    return status;
}

int dossier_open(const char *dir, struct dossier *d, struct err *e)
{
    *d = (struct dossier){.dir = xstrdup(dir)};
    char *facts = dossier_path(d, "facts");
    strings names = {0};
    int status = path_is_dir(facts) ? dir_list(facts, &names, e) : 0;
    for (size_t i = 0; !status && i < names.len; i++)
        if (str_ends(names.ptr[i], ".json")) status = load_fact(d, names.ptr[i], e);
    strings_free(&names);
    free(facts);
    if (status) dossier_close(d);
    return status;
}

void dossier_close(struct dossier *d)
{
    for (size_t i = 0; i < d->facts.len; i++) {
        free(d->facts.ptr[i].step);
        free(d->facts.ptr[i].release);
        json_decref(d->facts.ptr[i].body);
    }
    vec_free(&d->facts);
    free(d->dir);
    *d = (struct dossier){0};
}

const json_t *dossier_get(const struct dossier *d, const char *step, const char *release)
{
    for (size_t i = 0; d && i < d->facts.len; i++) {
        const struct dossier_fact *f = &d->facts.ptr[i];
        if (!strcmp(f->step, step) && !strcmp(f->release, release ? release : "")) return f->body;
    }
    return NULL;
}

static char *fact_file(const struct dossier *d, const char *step, const char *release)
{
    return dossier_path(d, "facts/%s%s%s.json", step, *release ? "@" : "", release);
}

int dossier_put(struct dossier *d, const char *step, const char *release, json_t *body, struct err *e)
{
    char now[32];
    if (!release) release = "";
    char *path = fact_file(d, step, release), *dir = dossier_path(d, "facts");
    now_iso(now);
    json_t *fact = json_pack("{s:s, s:s, s:s, s:s, s:O}", "schema", FACT_SCHEMA, "step", step, "release",
                             release, "made", now, "body", body);
    char *text = fact ? json_dumps(fact, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL;
    int status = text ? dir_make(dir, e)
                      : err_set(e, "%s: a fact of step %s holds text that is not UTF-8", path, step);
    if (text && !status) status = file_write(path, text, strlen(text), 0, e);
    if (!status)
        keep(d, step, release, body);
    else
        json_decref(body);
    json_decref(fact);
    free(text);
    free(dir);
    free(path);
    return status;
}

int dossier_drop(struct dossier *d, const char *step, const char *release, struct err *e)
{
    if (!release) release = "";
    for (size_t i = 0; i < d->facts.len; i++) {
        struct dossier_fact f = d->facts.ptr[i];
        if (strcmp(f.step, step) != 0 || strcmp(f.release, release) != 0) continue;
        char *path = fact_file(d, step, release);
        int status = unlink(path) ? err_set(e, "%s: cannot be removed", path) : 0;
        free(path);
        if (status) return status;
        free(f.step);
        free(f.release);
        json_decref(f.body);
        d->facts.ptr[i] = d->facts.ptr[--d->facts.len];
        return 0;
    }
    return 0;
}
