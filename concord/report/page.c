/* page.c - the self-contained HTML page: the template's parts, the model as JSON, the cases as columns, and
 * what a click needs of each case in compressed chunks.
 *
 * Data sits in <script type="application/json">: a '<' in it is written \u003c, so that no text of a test can
 * end the element. The page shows every text as text (textContent), never as markup. */
#include "concord/report/page.h"
#include "concord/report/json.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { CHUNK_CASES = 400 }; /* a click unpacks one chunk: about 1 MB of text */

/* JSON text as the content of a script element. */
static void put_json(struct buf *out, const char *text)
{
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "<");
        buf_add(out, p, n);
        p += n;
        if (!*p) break;
        buf_adds(out, "\\u003c");
        p++;
    }
}

static void put_block(struct buf *out, const char *id, json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    buf_addf(out, "<script type=\"application/json\" id=\"%s\">", id);
    put_json(out, text ? text : "null");
    buf_adds(out, "</script>\n");
    free(text);
    json_decref(value);
}

/* ---- the model --------------------------------------------------------------------------------------- */

/* Texts of the patch files that the adapt step wrote, by release and path. */
static json_t *patch_texts(const struct report *r)
{
    json_t *all = json_object();
    for (size_t i = 0; i < r->record->releases.len; i++) {
        const char *release = r->record->releases.ptr[i].name;
        json_t *texts = json_object(), *file;
        size_t k;
        json_array_foreach(json_object_get(dossier_get(r->dossier, "adapt", release), "files"), k, file)
        {
            struct buf text = BUF_INIT;
            char *path = dossier_path(r->dossier, "patches/%s/%s", release, fact_text(file, "patch"));
            if (!file_read(path, &text, NULL))
                json_object_set_new(texts, fact_text(file, "patch"), json_stringn(buf_str(&text), text.len));
            free(path);
            buf_free(&text);
        }
        json_object_set_new(all, release, texts);
    }
    return all;
}

static json_t *verdicts_json(void)
{
    json_t *all = json_array();
    for (int v = 0; v < VERDICT_COUNT; v++)
        json_array_append_new(all, json_pack("{s:s, s:s}", "name", verdict_name((enum verdict)v), "meaning",
                                             verdict_meaning((enum verdict)v)));
    return all;
}

static json_t *page_model(const struct report *r)
{
    json_t *model = report_summary(r);
    json_object_set_new(model, "patches", patch_texts(r));
    json_object_set_new(model, "verdicts", verdicts_json());
    json_object_set_new(model, "chunk", json_integer(CHUNK_CASES));
    return model;
}

/* ---- the cases as columns ---------------------------------------------------------------------------- */

/* Texts by number: each is in the page once. */
struct texts {
    struct map numbers;
    json_t *list;
};

static json_int_t text_number(struct texts *t, const char *text)
{
    void **slot = map_put(&t->numbers, text);
    if (!*slot) {
        json_array_append_new(t->list, json_string(text));
        *slot = (void *)(uintptr_t)json_array_size(t->list);
    }
    return (json_int_t)(uintptr_t)*slot - 1;
}

#define COLUMNS(X)                                                                                           \
    X(release, json_integer(text_number(&texts, c->release)))                                                \
    X(api, json_integer(text_number(&texts, c->api)))                                                        \
    X(name, json_integer(text_number(&texts, c->name)))                                                      \
    X(en, json_integer(text_number(&texts, report_title(r, c, LANG_EN))))                                    \
    X(zh, json_integer(text_number(&texts, report_title(r, c, LANG_ZH))))                                    \
    X(passes, json_integer(text_number(&texts, c->passes)))                                                  \
    X(reason, json_integer(text_number(&texts, c->reason)))                                                  \
    X(verdict, json_integer(c->verdict))                                                                     \
    X(kind, json_integer(c->kind))                                                                           \
    X(launches, json_integer(c->launches))                                                                   \
    X(ms, json_real_tenths(c->ms))                                                                           \
    X(cpu, json_real_tenths(m->cpu_ms))                                                                      \
    X(device, json_real_tenths(m->device_ms))

/* Tenths of a millisecond as an integer: short, and exact enough to read. */
static json_t *json_real_tenths(double ms)
{
    return json_integer(ms < 0 ? -1 : (json_int_t)(ms * 10 + 0.5));
}

static json_t *page_columns(const struct report *r)
{
    struct texts texts = {.list = json_array()};
    json_t *columns = json_object();
#define X(key, value) json_object_set_new(columns, #key, json_array());
    COLUMNS(X)
#undef X
    for (size_t i = 0; i < r->record->cases.len; i++) {
        const struct case_record *c = &r->record->cases.ptr[i];
        const struct case_marks *m = &r->marks.ptr[i];
#define X(key, value) json_array_append_new(json_object_get(columns, #key), value);
        COLUMNS(X)
#undef X
    }
    json_object_set_new(columns, "texts", texts.list);
    map_free(&texts.numbers, NULL);
    return columns;
}

/* ---- what a click needs ------------------------------------------------------------------------------ */

static void put_detail(const struct report *r, size_t i, struct buf *out)
{
    const struct case_record *c = &r->record->cases.ptr[i];
    buf_addf(out, "{\"attempts\":%d", c->attempts);
    put_json_member(out, "started", c->started);
    put_json_member(out, "output", c->output);
    put_json_member(out, "stack", c->stack);
    buf_adds(out, ",\"facts\":");
    buf_adds(out, report_facts_text(r, i));
    buf_addc(out, '}');
}

static void put_packed(struct buf *out, const struct buf *text)
{
    uLongf n = compressBound(text->len);
    unsigned char *packed = xmalloc(n);
    if (compress2(packed, &n, (const Bytef *)buf_str(text), text->len, 3) != Z_OK)
        die("report: zlib cannot compress the cases' details");
    buf_reserve(out, n * 4 / 3 + 8);
    char *coded = xmalloc(n * 4 / 3 + 8);
    int length = EVP_EncodeBlock((unsigned char *)coded, packed, (int)n);
    buf_add(out, coded, (size_t)length);
    free(coded);
    free(packed);
}

static void put_details(const struct report *r, struct buf *out)
{
    const struct run_record *rec = r->record;
    for (size_t from = 0; from < rec->cases.len; from += CHUNK_CASES) {
        struct buf text = BUF_INIT;
        for (size_t i = from; i < rec->cases.len && i < from + CHUNK_CASES; i++) {
            buf_addc(&text, i == from ? '[' : ',');
            put_detail(r, i, &text);
        }
        buf_addc(&text, ']');
        buf_addf(out, "<script type=\"text/plain\" id=\"details-%zu\">", from / CHUNK_CASES);
        put_packed(out, &text);
        buf_adds(out, "</script>\n");
        buf_free(&text);
    }
}

/* ---- the template ------------------------------------------------------------------------------------ */

static void put_escaped(struct buf *out, const char *text)
{
    for (; *text; text++) {
        static const char *const names[] = {
            ['<'] = "&lt;", ['>'] = "&gt;", ['&'] = "&amp;", ['"'] = "&quot;"};
        unsigned char c = (unsigned char)*text;
        if (c < sizeof names / sizeof *names && names[c])
            buf_adds(out, names[c]);
        else
            buf_addc(out, c);
    }
}

static void put_title(const struct report *r, struct buf *out)
{
    put_escaped(out, r->record->campaign);
}

static void put_data(const struct report *r, struct buf *out)
{
    put_block(out, "model", page_model(r));
    put_block(out, "columns", page_columns(r));
    put_details(r, out);
}

static void put_css(const struct report *r, struct buf *out)
{
    (void)r;
    buf_adds(out, (const char *)page_file_page_css);
}

static void put_js(const struct report *r, struct buf *out)
{
    (void)r;
    const unsigned char *const parts[] = {page_file_words_js, page_file_model_js, page_file_views_js,
                                          page_file_page_js};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) buf_adds(out, (const char *)parts[i]);
}

static const struct {
    const char *mark;
    void (*put)(const struct report *r, struct buf *out);
} marks[] = {{"@@title@@", put_title}, {"@@css@@", put_css}, {"@@data@@", put_data}, {"@@js@@", put_js}};

void report_page(const struct report *r, struct buf *out)
{
    const char *p = (const char *)page_file_page_html;
    while (*p) {
        const char *mark = strstr(p, "@@");
        size_t n = mark ? (size_t)(mark - p) : strlen(p), i = 0;
        buf_add(out, p, n);
        p += n;
        if (!mark) return;
        while (i < sizeof marks / sizeof *marks && !str_starts(p, marks[i].mark)) i++;
        if (i == sizeof marks / sizeof *marks) die("report: unknown mark in the page's template: %.20s", p);
        marks[i].put(r, out);
        p += strlen(marks[i].mark);
    }
}
