/* report.c - makes the model and writes its renderings. */
#include "concord/report/report.h"

#include <stdlib.h>
#include <string.h>

const struct report_format report_formats[] = {
#define X(name, file, language, function) {#name, file, language, function},
    REPORT_FORMATS(X)
#undef X
};
const int report_format_count = sizeof report_formats / sizeof *report_formats;

const char *const report_place_names[PLACE_COUNT] = {
#define X(id) #id,
    REPORT_PLACES(X)
#undef X
};

/* ---- cells and marks --------------------------------------------------------------------------------- */

/* Positions count from 1: NULL is absence. */
static void number(struct map *m, const char *key, size_t i)
{
    *map_put(m, key) = (void *)(i + 1);
}

static void count_case(struct cell *cell, const struct case_record *c)
{
    cell->total++;
    cell->counts[c->verdict]++;
    cell->launches += c->launches;
    cell->ms += c->ms;
}

static void empty_cells(struct report *r)
{
    const struct run_record *rec = r->record;
    for (size_t i = 0; i < rec->releases.len; i++)
        for (size_t a = 0; a < rec->apis.len; a++)
            *vec_push(&r->cells) = (struct cell){.release = rec->releases.ptr[i].name,
                                                 .api = rec->apis.ptr[a],
                                                 .kind = rec->releases.ptr[i].kind};
}

/* The cell of a case, NULL for one that belongs to none. */
static struct cell *cell_of(struct report *r, struct map *releases, struct map *apis,
                            const struct case_record *c)
{
    size_t i = (size_t)map_get(releases, c->release), a = (size_t)map_get(apis, c->api);
    return i && a ? &r->cells.ptr[(i - 1) * r->record->apis.len + a - 1] : NULL;
}

/* One pass over the cases, because there may be 50,000. */
static void make_cells(struct report *r)
{
    const struct run_record *rec = r->record;
    struct map releases = {0}, apis = {0};
    empty_cells(r);
    for (size_t i = 0; i < rec->releases.len; i++) number(&releases, rec->releases.ptr[i].name, i);
    for (size_t a = 0; a < rec->apis.len; a++) number(&apis, rec->apis.ptr[a], a);
    for (size_t i = 0; i < rec->cases.len; i++) {
        struct cell *cell = cell_of(r, &releases, &apis, &rec->cases.ptr[i]);
        if (cell) count_case(cell, &rec->cases.ptr[i]);
    }
    for (size_t i = 0; i < r->cells.len; i++)
        r->cells.ptr[i].verdict = verdict_of_cell(r->cells.ptr[i].counts);
    for (size_t i = 0; i < rec->cases.len; i++) {
        struct cell *cell = cell_of(r, &releases, &apis, &rec->cases.ptr[i]);
        if (cell && !cell->worst && cell->verdict != VERDICT_PASSED &&
            cell->verdict == rec->cases.ptr[i].verdict)
            cell->worst = &rec->cases.ptr[i];
    }
    map_free(&releases, NULL);
    map_free(&apis, NULL);
}

static double side_ms(const json_t *result, const char *side)
{
    const json_t *ms = json_object_get(json_object_get(result, side), "ms");
    return ms ? json_number_value(ms) : -1;
}

static struct case_marks read_marks(const struct case_record *c)
{
    struct case_marks m = {.cpu_ms = -1, .device_ms = -1};
    json_t *facts = case_facts(c), *result = json_object_get(facts, "result");
    const json_t *proof = json_object_get(result, "proof"), *fallbacks = json_object_get(proof, "fallbacks");
    m.facts = facts != NULL;
    m.compared = json_integer_value(json_object_get(result, "compared")) > 0;
    m.memory = json_integer_value(json_object_get(proof, "memory_peak")) > 0;
    m.no_fallback = json_is_array(fallbacks) && !json_array_size(fallbacks);
    m.own = facts && json_integer_value(json_object_get(facts, "done")) == c->id;
    m.cpu_ms = side_ms(result, "cpu");
    m.device_ms = side_ms(result, "device");
    json_decref(facts);
    return m;
}

/* ---- the model --------------------------------------------------------------------------------------- */

int report_make(const struct run_record *record, const struct dossier *dossier, struct report *out,
                struct err *e)
{
    *out = (struct report){.record = record, .dossier = dossier};
    char *path = concord_share("harness/cases.tsv");
    int status = plan_catalogue_load(path, &out->catalogue, e);
    free(path);
    if (status) return status;
    make_cells(out);
    for (size_t i = 0; i < record->cases.len; i++) *vec_push(&out->marks) = read_marks(&record->cases.ptr[i]);
    report_check(out);
    return 0;
}

void report_free(struct report *r)
{
    plan_catalogue_free(&r->catalogue);
    for (size_t i = 0; i < r->checks.len; i++) free(r->checks.ptr[i].fact);
    vec_free(&r->checks);
    vec_free(&r->cells);
    vec_free(&r->marks);
}

const struct cell *report_cell(const struct report *r, size_t release, size_t api)
{
    return &r->cells.ptr[release * r->record->apis.len + api];
}

int report_passed(const struct report *r)
{
    int passed = 0;
    for (size_t i = 0; i < r->cells.len; i++) passed += r->cells.ptr[i].verdict == VERDICT_PASSED;
    return passed;
}

const struct check *report_find_check(const struct report *r, const char *id)
{
    for (size_t i = 0; i < r->checks.len; i++)
        if (!strcmp(r->checks.ptr[i].id, id)) return &r->checks.ptr[i];
    return NULL;
}

const char *report_title(const struct report *r, const struct case_record *c, enum language lang)
{
    const struct plan_case *row = plan_find(&r->catalogue, c->api, c->name);
    if (!row) return c->name;
    return lang == LANG_ZH ? row->zh : row->en;
}

const char *report_device_sentence(const struct report *r, enum language lang)
{
    static const char *const sentences[][LANG_COUNT] = {
        [KIND_NONE] = {"No device executed anything in this run.", "本次运行没有任何设备执行过算子。"},
        [KIND_SOFTWARE] =
            {"These results come from softnpu, an Ascend 910B4 in software. They are not results from "
             "hardware.",
             "以下结果来自软件实现的昇腾 910B4（softnpu），不是真实硬件上的结果。"},
        [KIND_HARDWARE] = {"These results come from hardware.", "以下结果来自真实硬件。"},
    };
    static const char *const mixed_sentence[LANG_COUNT] = {
        "This run mixes software and hardware: the device column says which result is which.",
        "本次运行混用了软件设备与真实硬件：以设备列为准。"};
    bool mixed;
    enum device_kind kind = record_kind(r->record, &mixed);
    return mixed ? mixed_sentence[lang] : sentences[kind][lang];
}

static void digest_line(struct buf *b, const struct case_record *c)
{
    buf_addf(b, "%lld\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%lld\t%s\t", (long long)c->id, c->release, c->api,
             c->name, verdict_name(c->verdict), c->attempts, c->reason, c->started, device_kind_name(c->kind),
             (long long)c->launches, c->facts);
    buf_addf(b, "%zu\t%zu\n", strlen(c->output), strlen(c->stack));
}

void report_run_digest(const struct run_record *record, char out[65])
{
    struct buf b = BUF_INIT;
    buf_addf(&b, "%s\t%s\t%s\n", record->campaign, record->digest, record->started);
    for (size_t i = 0; i < record->releases.len; i++) {
        const struct release_record *rel = &record->releases.ptr[i];
        buf_addf(&b, "%s\t%s\t%s\t%s\t%s\n", rel->name, rel->torch, rel->branch, device_kind_name(rel->kind),
                 rel->lock);
    }
    for (size_t i = 0; i < record->cases.len; i++) digest_line(&b, &record->cases.ptr[i]);
    sha256_hex(buf_str(&b), b.len, out);
    buf_free(&b);
}

/* ---- writing ----------------------------------------------------------------------------------------- */

static int write_to(const char *path, const struct buf *text, struct err *e)
{
    if (strcmp(path, "-") != 0) return file_write(path, buf_str(text), text->len, 0, e);
    bool ok = fwrite(buf_str(text), 1, text->len, stdout) == text->len && !fflush(stdout);
    return ok ? 0 : err_set(e, "standard output cannot be written");
}

static int write_format(const struct report *r, const struct report_format *f, const char *path,
                        struct err *e)
{
    struct buf text = BUF_INIT;
    f->render(r, &text);
    int status = write_to(path, &text, e);
    buf_free(&text);
    return status;
}

int report_write_one(const struct run_record *record, const struct dossier *dossier, const char *format,
                     const char *path, struct err *e)
{
    struct report r;
    int status = -1, i = 0;
    while (i < report_format_count && strcmp(report_formats[i].name, format) != 0) i++;
    if (i == report_format_count) return err_set(e, "no report format '%s'", format);
    if (!report_make(record, dossier, &r, e)) status = write_format(&r, &report_formats[i], path, e);
    report_free(&r);
    return status;
}

int report_write_json(const struct run_record *record, const char *path, struct err *e)
{
    return report_write_one(record, NULL, "json", path, e);
}

static bool wanted(const struct report_format *f, const strings *languages, bool to_folder)
{
    if (!*f->language) return to_folder;
    for (size_t i = 0; i < languages->len; i++)
        if (!strcmp(languages->ptr[i], f->language)) return true;
    return languages->len == 0;
}

int report_write(const struct run_record *record, const struct dossier *dossier, const strings *languages,
                 const char *dir, struct err *e)
{
    struct report r;
    int status = report_make(record, dossier, &r, e);
    if (!status && dir) status = dir_make(dir, e);
    for (int i = 0; !status && i < report_format_count; i++) {
        const struct report_format *f = &report_formats[i];
        if (!wanted(f, languages, dir != NULL)) continue;
        char *path = dir ? path_join(dir, f->file) : xstrdup("-");
        status = write_format(&r, f, path, e);
        if (dir && !status) printf("%s\n", path);
        free(path);
    }
    report_free(&r);
    return status;
}
