/* concord_evidence.c - facts on disk, review texts, and that no text of a test leaves its place in a
 * rendering. */
#include "concord/dossier/dossier.h"
#include "concord/report/json.h"
#include "concord/report/review.h"

#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static char root[] = "/tmp/concord_evidence.XXXXXX";

static int set_up(void **state)
{
    (void)state;
    setenv("CONCORD_SHARE", SOURCE_DIR, 1);
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return tree_remove(root, NULL);
}

static void open_dossier(struct dossier *d)
{
    struct err e;
    if (dossier_open(root, d, &e)) fail_msg("%s", e.text);
}

/* ---- facts ------------------------------------------------------------------------------------------- */

static void facts_round_trip(void **state)
{
    (void)state;
    struct dossier d;
    struct err e;
    open_dossier(&d);
    assert_null(dossier_get(&d, "scan", "2.7.1"));
    assert_int_equal(dossier_put(&d, "scan", "2.7.1", json_pack("{s:s}", "upstream", "a"), &e), 0);
    assert_int_equal(dossier_put(&d, "scan", "2.7.1", json_pack("{s:s}", "upstream", "b"), &e), 0);
    assert_int_equal(dossier_put(&d, "verify", NULL, json_pack("{s:i}", "run", 3), &e), 0);
    dossier_close(&d);
    open_dossier(&d);
    assert_int_equal(d.facts.len, 2);
    assert_string_equal(fact_text(dossier_get(&d, "scan", "2.7.1"), "upstream"), "b");
    assert_int_equal(json_integer_value(json_object_get(dossier_get(&d, "verify", ""), "run")), 3);
    assert_int_equal(dossier_drop(&d, "scan", "2.7.1", &e), 0);
    assert_int_equal(dossier_drop(&d, "verify", NULL, &e), 0);
    dossier_close(&d);
    open_dossier(&d);
    assert_int_equal(d.facts.len, 0);
    dossier_close(&d);
}

static void damaged_facts_are_named(void **state)
{
    (void)state;
    static const char *const texts[] = {"{", "{}", "{\"schema\": \"concord-fact/1\", \"body\": []}", ""};
    char *path = xformat("%s/facts/scan@1.json", root);
    struct dossier d;
    struct err e;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(file_write(path, texts[i], strlen(texts[i]), 0, &e), 0);
        assert_int_equal(dossier_open(root, &d, &e), -1);
        assert_non_null(strstr(e.text, "scan@1.json"));
    }
    assert_int_equal(tree_remove(path, &e), 0);
    free(path);
}

static void digests_do_not_depend_on_order(void **state)
{
    (void)state;
    json_t *a = json_pack("{s:i, s:s}", "x", 1, "y", "z"), *b = json_pack("{s:s, s:i}", "y", "z", "x", 1);
    char da[65], db[65];
    fact_digest(a, da);
    fact_digest(b, db);
    assert_string_equal(da, db);
    json_object_set_new(b, "x", json_integer(2));
    fact_digest(b, db);
    assert_string_not_equal(da, db);
    json_decref(a);
    json_decref(b);
}

/* ---- a run in memory --------------------------------------------------------------------------------- */

static char *copy(const char *text)
{
    return xstrdup(text);
}

static void make_record(struct run_record *r, const char *odd)
{
    *r = (struct run_record){.id = 1,
                             .campaign = copy("c"),
                             .path = copy("c.yaml"),
                             .digest = copy("d"),
                             .choice = copy("software"),
                             .tolerances = copy("{}"),
                             .command = copy("concord verify c.yaml"),
                             .started = copy("2026-12-01T00:00:00Z"),
                             .finished = copy("2026-12-01T00:01:00Z"),
                             .version = copy("0"),
                             .host = json_pack("{s:s}", "os", "Debian")};
    *vec_push(&r->apis) = copy("torch.a");
    struct release_record *rel = vec_push(&r->releases);
    *rel = (struct release_record){copy("2.7.1"), copy("2.7.1"), copy("v2.7.1"), copy(""), copy("{}"),
                                   KIND_SOFTWARE, copy("dev"),   json_object(),  copy("")};
    struct case_record *c = vec_push(&r->cases);
    *c = (struct case_record){.id = 1,
                              .release = copy("2.7.1"),
                              .api = copy("torch.a"),
                              .name = copy(odd),
                              .passes = copy("forward"),
                              .state = CASE_DONE,
                              .attempts = 1,
                              .verdict = VERDICT_FAILED,
                              .reason = copy(odd),
                              .started = copy("2026-12-01T00:00:00Z"),
                              .kind = KIND_SOFTWARE,
                              .facts = copy("{\"done\": 1}"),
                              .output = copy(odd),
                              .stack = copy(odd)};
}

static void render(report_renderer *f, const struct run_record *record, struct buf *out)
{
    struct report r;
    struct err e;
    if (report_make(record, NULL, &r, &e)) fail_msg("%s", e.text);
    f(&r, out);
    report_free(&r);
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what)) n++;
    return n;
}

/* ---- texts stay texts -------------------------------------------------------------------------------- */

static void the_page_s_scripts_end_where_they_should(void **state)
{
    (void)state;
    struct run_record plain, odd;
    struct buf a = BUF_INIT, b = BUF_INIT;
    make_record(&plain, "x");
    make_record(&odd, "</script><script>x</script><!--");
    render(report_page, &plain, &a);
    render(report_page, &odd, &b);
    assert_int_equal(count(buf_str(&a), "</script"), count(buf_str(&b), "</script"));
    assert_int_equal(count(buf_str(&a), "<script"), count(buf_str(&b), "<script"));
    assert_non_null(strstr(buf_str(&b), "\\u003c/script>"));
    static const char *const marks[] = {"@@title@@", "@@css@@", "@@data@@", "@@js@@"};
    for (size_t i = 0; i < 4; i++) assert_null(strstr(buf_str(&a), marks[i]));
    buf_free(&a);
    buf_free(&b);
    run_record_free(&plain);
    run_record_free(&odd);
}

static void programs_can_read_what_tests_print(void **state)
{
    (void)state;
    static const char *const odd[] = {"a\"b\\c\n\t\x01", "\xff\xfe",         "\xe4\xb8",
                                      "\xed\xa0\x80",    "\xf0\x9f\x98\x80", "]]>&<>"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct run_record r;
        struct buf json = BUF_INIT, xml = BUF_INIT;
        make_record(&r, "x");
        free(r.cases.ptr[0].output);
        r.cases.ptr[0].output = copy(odd[i]);
        render(report_json, &r, &json);
        json_t *parsed = json_loads(buf_str(&json), 0, NULL);
        assert_non_null(parsed);
        const json_t *c = json_array_get(json_object_get(parsed, "cases"), 0);
        assert_true(json_is_string(json_object_get(c, "output")));
        assert_int_equal(json_integer_value(json_object_get(json_object_get(c, "facts"), "done")), 1);
        render(report_junit, &r, &xml);
        assert_int_equal(count(buf_str(&xml), "<system-out>"), 1);
        assert_int_equal(count(buf_str(&xml), "]]><"), 0);
        json_decref(parsed);
        buf_free(&json);
        buf_free(&xml);
        run_record_free(&r);
    }
}

static void facts_that_are_no_json_are_left_out(void **state)
{
    (void)state;
    struct run_record r;
    struct buf json = BUF_INIT;
    make_record(&r, "x");
    free(r.cases.ptr[0].facts);
    r.cases.ptr[0].facts = copy("{\"done\": ");
    render(report_json, &r, &json);
    json_t *parsed = json_loads(buf_str(&json), 0, NULL);
    assert_non_null(parsed);
    assert_true(json_is_null(json_object_get(json_array_get(json_object_get(parsed, "cases"), 0), "facts")));
    json_decref(parsed);
    buf_free(&json);
    run_record_free(&r);
}

static void findings_as_sarif(void **state)
{
    (void)state;
    struct run_record r;
    struct buf text = BUF_INIT;
    make_record(&r, "x");
    render(report_sarif, &r, &text);
    json_t *parsed = json_loads(buf_str(&text), 0, NULL);
    const json_t *run = json_array_get(json_object_get(parsed, "runs"), 0);
    const json_t *result = json_array_get(json_object_get(run, "results"), 0);
    assert_string_equal(fact_text(result, "ruleId"), "case/failed");
    assert_string_equal(fact_text(result, "level"), "error");
    json_decref(parsed);
    buf_free(&text);
    run_record_free(&r);
}

static void the_digest_sees_every_row(void **state)
{
    (void)state;
    struct run_record r;
    char before[65], after[65];
    make_record(&r, "x");
    report_run_digest(&r, before);
    r.cases.ptr[0].launches++;
    report_run_digest(&r, after);
    assert_string_not_equal(before, after);
    r.cases.ptr[0].launches--;
    report_run_digest(&r, after);
    assert_string_equal(before, after);
    r.releases.ptr[0].kind = KIND_HARDWARE;
    report_run_digest(&r, after);
    assert_string_not_equal(before, after);
    run_record_free(&r);
}

/* ---- review texts ------------------------------------------------------------------------------------ */

static char *review(const char *template, const char *issue, const char *title, size_t limit)
{
    struct run_record record;
    struct report r;
    struct err e;
    struct buf out = BUF_INIT;
    make_record(&record, "x");
    if (report_make(&record, NULL, &r, &e)) fail_msg("%s", e.text);
    review_text(&(struct review_request){&r, "2.7.1", template, issue, title, limit}, &out);
    report_free(&r);
    run_record_free(&record);
    return buf_take(&out);
}

static void a_template_keeps_its_lines_and_is_filled(void **state)
{
    (void)state;
    char *text = review("# 【合入来源】\n> hint\n- [ ] issue/工单\n# 【别的】\nkeep me\n# 【CheckList】\n- [ "
                        "] 标签\n- [ ] CI",
                        "https://x/1", "test(utils): x", 0);
    const char *source = strstr(text, "# 【合入来源】"), *other = strstr(text, "# 【别的】"),
               *list = strstr(text, "# 【CheckList】");
    assert_true(source && other && list && source < other && other < list);
    assert_non_null(strstr(text, "> hint\n- [x] issue/工单\n"));
    assert_non_null(strstr(text, "keep me\n"));
    assert_non_null(strstr(text, "- [x] 标签 (test)\n- [ ] CI\n"));
    assert_non_null(strstr(text, "# 功能验证\n")); /* what the template lacks is added */
    assert_non_null(strstr(text, "不是真实硬件"));
    free(text);
    text = review("# Source\n- [ ] issue/ticket\n", NULL, "x", 0);
    assert_non_null(strstr(text, "- [ ] issue/ticket\n"));
    assert_non_null(strstr(text, "# Verification\n"));
    free(text);
}

static void a_review_stays_below_the_limit(void **state)
{
    (void)state;
    static const size_t limits[] = {200, 500, 1000, 1500};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        char *text = review("# 【修改方案】\n# 【功能验证】\n", NULL, "x", limits[i]);
        assert_true(review_length(text) <= limits[i]);
        if (limits[i] < 500) assert_non_null(strstr(text, "超出平台长度限制"));
        assert_true(text[strlen(text) - 1] == '\n');
        free(text);
    }
    assert_int_equal(review_length("a\xe4\xb8\xad"
                                   "b"),
                     3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(facts_round_trip),
                                       cmocka_unit_test(damaged_facts_are_named),
                                       cmocka_unit_test(digests_do_not_depend_on_order),
                                       cmocka_unit_test(the_page_s_scripts_end_where_they_should),
                                       cmocka_unit_test(programs_can_read_what_tests_print),
                                       cmocka_unit_test(facts_that_are_no_json_are_left_out),
                                       cmocka_unit_test(findings_as_sarif),
                                       cmocka_unit_test(the_digest_sees_every_row),
                                       cmocka_unit_test(a_template_keeps_its_lines_and_is_filled),
                                       cmocka_unit_test(a_review_stays_below_the_limit)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
