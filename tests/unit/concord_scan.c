/* concord_scan.c - which tests cover an API: direct, indirect, methods, operators, evidence. */
#include "concord/scan/scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char source[] = "import torch\n"
                             "import unittest\n"
                             "from torch.utils.checkpoint import checkpoint as ck\n"
                             "from torch.testing._internal.common_utils import TestCase\n"
                             "class Net(torch.nn.Module):\n"
                             "    def forward(self, x):\n"
                             "        return ck(self.run, x)\n"
                             "class TestA(TestCase):\n"
                             "    def _helper(self, x):\n"
                             "        y = ck(lambda a: a, x)\n"
                             "        return y\n"
                             "    @unittest.skipIf(True, 'no')\n"
                             "    def test_direct(self):\n"
                             "        x = torch.randn(3, requires_grad=True)\n"
                             "        out = ck(torch.sin, x)\n"
                             "        out.sum().backward()\n"
                             "        self.assertEqual(x.grad, None)\n"
                             "    def test_indirect(self):\n"
                             "        self._helper(torch.ones(3))\n"
                             "    def test_module(self):\n"
                             "        Net()(torch.ones(2))\n"
                             "    def test_other(self):\n"
                             "        checkpoint = 3\n"
                             "        print(checkpoint)\n"
                             "    def test_shadowed(self):\n"
                             "        def ck(f): return f\n"
                             "        ck(1)\n"
                             "    def test_methods(self):\n"
                             "        a = torch.ones(2)\n"
                             "        b = a.add(1) + 2\n"
                             "        s = set()\n"
                             "        s.add(1)\n"
                             "        u = unknown()\n"
                             "        u.add(1)\n";

static struct scan_file scan(const char *name)
{
    struct scan_api api;
    struct err e;
    struct scan_file f;
    assert_int_equal(scan_api_parse(name, &api, &e), 0);
    scan_source("test_a.py", source, strlen(source), &api, 1, &f);
    scan_api_free(&api);
    return f;
}

static const struct scan_test *test_named(const struct scan_file *f, const char *id)
{
    for (size_t i = 0; i < f->tests.len; i++)
        if (!strcmp(f->tests.ptr[i].id, id)) return &f->tests.ptr[i];
    return NULL;
}

static void test_coverage(void **state)
{
    (void)state;
    struct scan_file f = scan("torch.utils.checkpoint.checkpoint");
    assert_int_equal(f.sites.len, 3);
    assert_int_equal(f.tests.len, 3);
    const struct scan_test *t = test_named(&f, "TestA.test_direct");
    assert_non_null(t);
    assert_false(t->indirect);
    assert_int_equal(t->rows.len, 1);
    assert_int_equal(t->rows.ptr[0], 15);
    assert_int_equal(t->tensor_row, 14);
    assert_int_equal(t->backward_row, 16);
    assert_string_equal(t->asserts, "assertEqual");
    assert_string_equal(t->keeps_off, "unittest.skipIf");
    t = test_named(&f, "TestA.test_indirect");
    assert_non_null(t);
    assert_true(t->indirect && t->tensors);
    assert_string_equal(t->path, "test_indirect -> _helper");
    t = test_named(&f, "TestA.test_module");
    assert_non_null(t);
    assert_string_equal(t->path, "test_module -> forward");
    scan_file_free(&f);
}

static void test_methods_and_operators(void **state)
{
    (void)state;
    struct scan_file f = scan("torch.Tensor.add");
    int count[SCAN_NMATCH] = {0};
    for (size_t i = 0; i < f.sites.len; i++) count[f.sites.ptr[i].match]++;
    assert_int_equal(count[SCAN_OPERATOR], 1);
    assert_int_equal(count[SCAN_METHOD], 1);   /* a.add, a tensor's; s.add is a set's */
    assert_int_equal(count[SCAN_RECEIVER], 1); /* what u is cannot be told, and that is said */
    scan_file_free(&f);
}

static struct scan_file scan_text(const char *text, size_t len, const char *name)
{
    struct scan_api api;
    struct err e;
    struct scan_file f;
    assert_int_equal(scan_api_parse(name, &api, &e), 0);
    scan_source("test_odd.py", text, len, &api, 1, &f);
    scan_api_free(&api);
    return f;
}

/* Other encodings, line ends, versions of Python, sizes: read as far as possible, and said. */
static void test_odd_sources(void **state)
{
    (void)state;
#define BODY(nl) "import torch" nl "def test_x():" nl "    torch.relu(1)" nl
    static const struct {
        const char *text;
        bool note;
    } odd[] = {
        {"\xef\xbb\xbf" BODY("\n"), false},
        {BODY("\r\n"), false},
        {"# -*- coding: latin-1 -*-\n# caf\xe9\n" BODY("\n"), true},
        {BODY("\n") "print 'python 2'\nexec 'x'\n", false},
        {BODY("\n") "match x:\n    case {'a': [b, *_]}: pass\ntype A[T] = list[T]\n", false},
        {BODY("\n") "def broken(:\n", true},
        {BODY("\n") "x = '''never closed\n", true},
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct scan_file f = scan_text(odd[i].text, strlen(odd[i].text), "torch.relu");
        if (f.tests.len != 1) fail_msg("source %zu: %zu tests", i, f.tests.len);
        if (odd[i].note) assert_non_null(f.note);
        scan_file_free(&f);
    }
    struct buf big = BUF_INIT;
    buf_adds(&big, BODY("\n"));
    while (big.len < 1 << 20)
        buf_adds(&big, "def test_more():\n    return [torch.relu(x) for x in range(3)]\n");
    struct scan_file f = scan_text(big.ptr, big.len, "torch.relu");
    assert_true(f.tests.len > 10000);
    scan_file_free(&f);
    buf_free(&big);
    f = scan_text("a\0b", 3, "torch.relu");
    assert_int_equal(f.tests.len, 0);
    scan_file_free(&f);
}

/* A subclass's method stands in for the API's; a class's dunder is a use of the class; global binds the
 * module's. */
static void test_ways_to_an_api(void **state)
{
    (void)state;
    static const char text[] = "import torch\n"
                               "from torch.store import Writer, Kind\n"
                               "class Faulty(Writer):\n"
                               "    def reset(self): pass\n"
                               "def test_override():\n"
                               "    Faulty()\n"
                               "def test_dunder():\n"
                               "    Kind.__call__(1)\n"
                               "def load():\n"
                               "    global Later\n"
                               "    from torch.store import Later\n"
                               "def test_global():\n"
                               "    Later(3)\n"
                               "def test_annotated(x: torch.Tensor):\n"
                               "    y: Kind\n"
                               "    return ~x\n";
    static const struct {
        const char *api, *test;
        bool indirect;
    } expected[] = {
        {"torch.store.Writer.reset", "test_override", true},  {"torch.store.Kind", "test_dunder", false},
        {"torch.store.Kind", "test_annotated", false},        {"torch.store.Later", "test_global", false},
        {"torch.Tensor.__invert__", "test_annotated", false},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        struct scan_file f = scan_text(text, strlen(text), expected[i].api);
        const struct scan_test *t = test_named(&f, expected[i].test);
        if (!t) fail_msg("%s: %s is not found", expected[i].api, expected[i].test);
        assert_int_equal(t->indirect, expected[i].indirect);
        scan_file_free(&f);
    }
}

static void test_bad_names(void **state)
{
    (void)state;
    struct scan_api api;
    struct err e;
    static const char *const bad[] = {"",          "checkpoint", "torch..x", ".x",
                                      "torch.a-b", "torch.x.",   "torch.1x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(scan_api_parse(bad[i], &api, &e), -1);
        assert_non_null(strstr(e.text, "full dotted name"));
    }
    struct scan_result r;
    assert_int_equal(scan_api_parse("torch.add", &api, &e), 0);
    assert_int_equal(scan_tree("/no/such/folder", &api, 1, 1, &r, &e), -1);
    scan_api_free(&api);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coverage),    cmocka_unit_test(test_methods_and_operators),
        cmocka_unit_test(test_odd_sources), cmocka_unit_test(test_ways_to_an_api),
        cmocka_unit_test(test_bad_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
