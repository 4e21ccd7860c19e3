/* concord_trace.c - what tests called when run, merged with what the source says. */
#include "concord/scan/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char source[] = "import torch\n"
                             "class TestA:\n"
                             "    def test_one(self):\n"
                             "        torch.relu(torch.ones(2))\n"
                             "    def test_two(self):\n"
                             "        if False: torch.relu(1)\n"
                             "    def test_three(self):\n"
                             "        torch.relu(2)\n";

struct fixture {
    struct scan_api apis[3];
    struct scan_file file;
    struct trace_result result;
};

static void set_up(struct fixture *x)
{
    struct err e;
    static const char *const names[] = {"torch.relu", "torch.ones", "torch.sin"};
    for (int i = 0; i < 3; i++) assert_int_equal(scan_api_parse(names[i], &x->apis[i], &e), 0);
    scan_source("test_a.py", source, strlen(source), x->apis, 3, &x->file);
    x->result = (struct trace_result){0};
}

static void tear_down(struct fixture *x)
{
    trace_free(&x->result);
    scan_file_free(&x->file);
    for (int i = 0; i < 3; i++) scan_api_free(&x->apis[i]);
}

static void feed(struct fixture *x, const char *line)
{
    struct err e;
    if (trace_merge_line(&x->result, &x->file, line, x->apis, 3, &e)) fail_msg("%s", e.text);
}

static const struct trace_row *row(const struct fixture *x, const char *test, uint32_t api)
{
    for (size_t i = 0; i < x->result.rows.len; i++) {
        const struct trace_row *r = &x->result.rows.ptr[i];
        if (r->api == api && !strcmp(x->result.tests.ptr[r->test].id, test)) return r;
    }
    return NULL;
}

static void test_merging(void **state)
{
    (void)state;
    struct fixture x;
    set_up(&x);
    feed(&x, "{\"test\":\"TestA.test_one\",\"outcome\":\"passed\",\"seconds\":0.5,\"backward\":1,\"apis\":{"
             "\"torch.relu\":{\"calls\":2,\"inside\":1,\"tensors\":2,\"grad\":true},"
             "\"torch.sin\":{\"calls\":0,\"inside\":1,\"tensors\":0,\"grad\":false}}}");
    feed(&x, "{\"test\":\"TestA.test_two\",\"outcome\":\"passed\",\"apis\":{}}");
    feed(&x, "{\"test\":\"TestA.test_three\",\"outcome\":\"skipped\",\"reason\":\"no\",\"apis\":{}}");
    const struct trace_row *r = row(&x, "TestA.test_one", 0);
    assert_non_null(r);
    assert_int_equal(r->merge, TRACE_CONFIRMED);
    assert_int_equal(r->calls, 2);
    assert_int_equal(r->inside, 1);
    assert_true(r->grad && r->tensors);
    assert_int_equal(row(&x, "TestA.test_one", 1)->merge,
                     TRACE_STATIC_ONLY); /* torch.ones: ran, not called */
    assert_int_equal(row(&x, "TestA.test_one", 2)->merge, TRACE_DYNAMIC_ONLY);
    assert_int_equal(row(&x, "TestA.test_two", 0)->merge, TRACE_STATIC_ONLY);
    assert_int_equal(row(&x, "TestA.test_three", 0)->merge, TRACE_NOT_RUN); /* a skipped test says nothing */
    assert_null(row(&x, "TestA.test_two", 2));
    struct buf b = BUF_INIT;
    trace_print_json(&b, &x.result, x.apis, 3);
    assert_non_null(strstr(b.ptr, "\"merge\": \"dynamic only\""));
    buf_free(&b);
    tear_down(&x);
}

static void test_unobservable_is_not_absent(void **state)
{
    (void)state;
    struct fixture x;
    set_up(&x);
    feed(&x, "{\"test\":\"TestA.test_one\",\"outcome\":\"passed\",\"apis\":{},"
             "\"unobservable\":{\"torch.relu\":\"made in C\"}}");
    assert_int_equal(row(&x, "TestA.test_one", 0)->merge, TRACE_NOT_RUN);
    assert_string_equal(map_get(&x.result.unobservable, "torch.relu"), "made in C");
    tear_down(&x);
}

static void test_foreign_lines(void **state)
{
    (void)state;
    struct fixture x;
    struct err e;
    set_up(&x);
    assert_int_equal(trace_merge_line(&x.result, &x.file, "{\"test\":\"TestB.x\"}", x.apis, 3, &e), -1);
    assert_non_null(strstr(e.text, "no test's"));
    assert_int_equal(trace_merge_line(&x.result, &x.file, "{\"test\":", x.apis, 3, &e), -1);
    assert_int_equal(x.result.rows.len, 0);
    tear_down(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merging),
        cmocka_unit_test(test_unobservable_is_not_absent),
        cmocka_unit_test(test_foreign_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
