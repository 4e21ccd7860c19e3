/* concord_index.c - facts packed and kept: damage, versions, several processes, what a warm scan reads. */
#include "concord/scan/index.h"
#include "concord/scan/outline.h"
#include "concord/scan/print.h"
#include "concord/scan/scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static const char test_source[] = "import torch\n"
                                  "from torch.nn import Thing as T\n"
                                  "from torch.util import *\n"
                                  "from torch.testing._internal.common_thing import drive, ThingCase\n"
                                  "class TestA(ThingCase):\n"
                                  "    def test_direct(self):\n"
                                  "        T(torch.ones(2)).backward()\n"
                                  "    def test_star(self):\n"
                                  "        helper_of_all(1)\n"
                                  "    def test_helper(self):\n"
                                  "        drive(torch.ones(3))\n"
                                  "    def test_case(self):\n"
                                  "        self.drive_case()\n"
                                  "    def test_nothing(self):\n"
                                  "        print(1)\n";

struct folder {
    char path[64];
};

static void put(const struct folder *f, const char *name, const char *text)
{
    struct err e;
    char *full = path_join(f->path, name), *slash = strrchr(full, '/');
    *slash = 0;
    assert_int_equal(dir_make(full, &e), 0);
    *slash = '/';
    assert_int_equal(file_write(full, text, strlen(text), 0, &e), 0);
    /* long ago: files written just now are not trusted to stay */
    const struct timespec old[2] = {{1700000000, 0}, {1700000000, 0}};
    assert_int_equal(utimensat(0, full, old, 0), 0);
    free(full);
}

static struct folder make_tree(void)
{
    struct folder f;
    strcpy(f.path, "/tmp/concord-index-XXXXXX");
    assert_non_null(mkdtemp(f.path));
    put(&f, "torch/__init__.py", "from . import nn\n");
    put(&f, "torch/nn/__init__.py", "from .modules import *\n");
    put(&f, "torch/nn/modules/__init__.py", "from .thing import Thing\n");
    put(&f, "torch/nn/modules/thing.py", "class Thing:\n    def forward(self):\n        return 1\n");
    put(&f, "torch/util.py", "def helper_of_all(x):\n    return x\n");
    put(&f, "torch/testing/_internal/common_thing.py",
        "import torch\nimport unittest\ndef drive(x):\n    return torch.nn.Thing(x)\n"
        "class ThingCase(unittest.TestCase):\n    def drive_case(self):\n        return drive(1)\n");
    put(&f, "test/test_a.py", test_source);
    put(&f, "test/test_b.py", "def test_b():\n    x = 'nothing of that'\n");
    return f;
}

static struct scan_result scan(const struct folder *f, const char *name, const char *index)
{
    struct scan_api api;
    struct scan_result r;
    struct err e;
    char *tests = path_join(f->path, "test"), *path = index ? path_join(f->path, index) : NULL;
    struct scan_spec spec = {.tests = tests, .source = f->path, .index = path, .threads = 2};
    assert_int_equal(scan_api_parse(name, &api, &e), 0);
    if (scan_run(&spec, &api, 1, &r, &e)) fail_msg("%s", e.text);
    scan_api_free(&api);
    free(tests);
    free(path);
    return r;
}

static size_t count_tests(const struct scan_result *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->files.len; i++) n += r->files.ptr[i].tests.len;
    return n;
}

static const struct scan_test *test_named(const struct scan_result *r, const char *id)
{
    for (size_t i = 0; i < r->files.len; i++)
        for (size_t k = 0; k < r->files.ptr[i].tests.len; k++)
            if (!strcmp(r->files.ptr[i].tests.ptr[k].id, id)) return &r->files.ptr[i].tests.ptr[k];
    return NULL;
}

static void remove_tree(const struct folder *f)
{
    struct err e;
    assert_int_equal(tree_remove(f->path, &e), 0);
}

static void test_aliases_and_helpers(void **state)
{
    (void)state;
    struct folder f = make_tree();
    struct scan_result r = scan(&f, "torch.nn.Thing", NULL);
    assert_int_equal(count_tests(&r), 3);
    const struct scan_test *t = test_named(&r, "TestA.test_direct");
    assert_non_null(t);
    assert_false(t->indirect);
    assert_int_equal(t->backward_row, 7);
    t = test_named(&r, "TestA.test_helper");
    assert_non_null(t);
    assert_true(t->indirect && t->tensors);
    assert_string_equal(t->path, "test_helper -> torch.testing._internal.common_thing.drive");
    t = test_named(&r, "TestA.test_case");
    assert_non_null(t);
    assert_true(t->indirect);
    scan_result_free(&r);
    r = scan(&f, "torch.nn.modules.thing.Thing", NULL); /* the same thing by its other name */
    assert_int_equal(count_tests(&r), 3);
    assert_int_equal(test_named(&r, "TestA.test_direct")->match, SCAN_ALIAS);
    scan_result_free(&r);
    r = scan(&f, "torch.util.helper_of_all", NULL);
    assert_int_equal(count_tests(&r), 1);
    assert_int_equal(test_named(&r, "TestA.test_star")->match, SCAN_STAR);
    scan_result_free(&r);
    remove_tree(&f);
}

static void test_warm_reads_nothing(void **state)
{
    (void)state;
    struct folder f = make_tree();
    struct scan_result r = scan(&f, "torch.nn.Thing", "scan.db");
    assert_true(r.nread > 0);
    assert_null(r.warning);
    scan_result_free(&r);
    r = scan(&f, "torch.nn.Thing", "scan.db");
    assert_int_equal(r.nread, 0);
    assert_int_equal(r.nparsed, 0);
    assert_int_equal(count_tests(&r), 3);
    scan_result_free(&r);
    /* one changed file is read, and only that; an equal file elsewhere shares its facts */
    put(&f, "test/test_b.py", "import torch\ndef test_b():\n    torch.nn.Thing(2)\n");
    put(&f, "test/test_c.py", test_source);
    r = scan(&f, "torch.nn.Thing", "scan.db");
    assert_int_equal(r.nread, 2);
    assert_int_equal(r.nparsed, 1);
    assert_int_equal(count_tests(&r), 7);
    scan_result_free(&r);
    remove_tree(&f);
}

static void damage(const struct folder *f, const char *how)
{
    struct err e;
    struct buf b = BUF_INIT;
    char *path = path_join(f->path, "scan.db");
    assert_int_equal(file_read(path, &b, &e), 0);
    assert_true(b.len > 4096);
    if (!strcmp(how, "truncated"))
        b.len = b.len / 2 + 100;
    else if (!strcmp(how, "garbage"))
        memset(b.ptr, 'x', b.len);
    else if (!strcmp(how, "empty"))
        b.len = 0;
    else /* pages behind the first: found when they are read */
        memset(b.ptr + 4096, 0x5a, b.len - 4096);
    assert_int_equal(file_write(path, b.ptr, b.len, 0, &e), 0);
    buf_free(&b);
    free(path);
}

static void test_damage_is_mended(void **state)
{
    (void)state;
    static const char *const ways[] = {"truncated", "garbage", "empty", "pages"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct folder f = make_tree();
        struct scan_result r = scan(&f, "torch.nn.Thing", "scan.db");
        scan_result_free(&r);
        damage(&f, ways[i]);
        r = scan(&f, "torch.nn.Thing", "scan.db");
        assert_int_equal(count_tests(&r), 3); /* right all the same */
        scan_result_free(&r);
        r = scan(&f, "torch.nn.Thing", "scan.db");
        if (r.nread) fail_msg("a %s index was not made anew: %u files read", ways[i], r.nread);
        assert_int_equal(count_tests(&r), 3);
        scan_result_free(&r);
        remove_tree(&f);
    }
}

static void test_no_place_for_an_index(void **state)
{
    (void)state;
    struct folder f = make_tree();
    put(&f, "file", "not a folder\n");
    struct scan_result r = scan(&f, "torch.nn.Thing", "file/scan.db");
    assert_int_equal(count_tests(&r), 3);
    assert_non_null(r.warning); /* said, not fatal */
    scan_result_free(&r);
    remove_tree(&f);
}

static void test_several_processes(void **state)
{
    (void)state;
    enum { PROCESSES = 4 };
    struct folder f = make_tree();
    pid_t pid[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        pid[i] = fork();
        if (pid[i]) continue;
        struct scan_result r = scan(&f, "torch.nn.Thing", "scan.db");
        _exit(count_tests(&r) == 3 && !r.warning ? 0 : 1);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
    }
    struct scan_result r = scan(&f, "torch.nn.Thing", "scan.db");
    assert_int_equal(r.nread, 0);
    scan_result_free(&r);
    remove_tree(&f);
}

static void test_pack(void **state)
{
    (void)state;
    struct py_file *p = py_parse("t.py", test_source, strlen(test_source));
    struct facts f, g;
    struct buf b = BUF_INIT, c = BUF_INIT;
    facts_extract(&f, p);
    py_free(p);
    facts_pack(&f, &b);
    assert_int_equal(facts_unpack(&g, b.ptr, b.len), 0);
    assert_int_equal(g.sites.len, f.sites.len);
    assert_int_equal(g.funcs.len, f.funcs.len);
    facts_pack(&g, &c);
    assert_int_equal(b.len, c.len);
    assert_memory_equal(b.ptr, c.ptr, b.len);
    for (size_t n = 0; n < b.len; n++) assert_int_equal(facts_unpack(&(struct facts){0}, b.ptr, n), -1);
    for (size_t i = 0; i < b.len; i++) { /* no flipped byte is taken for facts */
        b.ptr[i] ^= 0x10;
        assert_int_equal(facts_unpack(&(struct facts){0}, b.ptr, b.len), -1);
        b.ptr[i] ^= 0x10;
    }
    facts_free(&f);
    facts_free(&g);
    buf_free(&b);
    buf_free(&c);
}

static void test_outline(void **state)
{
    (void)state;
    static const char text[] = "import torch\n"
                               "x = '''\ndef no(self):\n'''\n"
                               "@deco(\n    1)\n"
                               "def first(a,\n          b=')'):\n    # note\n    return 1\n\n"
                               "class C:\n"
                               "    y = 2\n"
                               "    def m(self): return word\n"
                               "    async def n(self):\n"
                               "        def inner():\n            pass\n"
                               "        return 3\n"
                               "z = 1\n";
    struct outline o;
    outline_read(&o, text, strlen(text));
    assert_int_equal(o.defs.len, 4);
    static const char *const names[] = {"first", "C", "m", "n"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(o.defs.ptr[i].name_len, strlen(names[i]));
        assert_memory_equal(text + o.defs.ptr[i].name, names[i], strlen(names[i]));
    }
    assert_memory_equal(text + o.defs.ptr[0].start, "@deco", 5);
    assert_int_equal(o.defs.ptr[2].parent, 1);
    assert_int_equal(o.defs.ptr[3].end, o.defs.ptr[1].end);
    assert_memory_equal(text + o.defs.ptr[1].end, "z = 1", 5);
    outline_free(&o);
    outline_skips skips = {0};
    char *copy = xstrdup(text);
    strings words = {0}, none = {0};
    *vec_push(&words) = xstrdup("word");
    assert_false(outline_keep(copy, strlen(copy), &none, &words, &skips));
    assert_false(outline_keep(copy, strlen(copy), &words, &none, &skips)); /* nothing imports it */
    free(copy);
    vec_free(&skips);
    copy = xstrdup(
        "from torch import word\ndef a():\n    word(1)\ndef b():\n    a()\ndef c():\n    return [\n2]\n");
    assert_true(outline_keep(copy, strlen(copy), &words, &none, &skips));
    assert_int_equal(skips.len, 1); /* c says nothing of it; b calls what does */
    struct py_file *f = py_parse_without("t.py", copy, strlen(copy), skips.ptr, skips.len);
    assert_int_equal(f->error_row, 0);
    assert_int_equal(py_scope_named(f, "c"), 3);
    assert_int_equal(f->scopes.ptr[3].at.row, 6);
    py_free(f);
    free(copy);
    strings_free(&words);
    vec_free(&skips);
}

/* What is parsed in part must give what a whole parse gives. */
static void test_part_equals_whole(void **state)
{
    (void)state;
    struct folder f = make_tree();
    struct scan_result part = scan(&f, "torch.nn.Thing", NULL);
    struct scan_api api;
    struct err e;
    struct scan_result whole;
    char *tests = path_join(f.path, "test");
    assert_int_equal(scan_api_parse("torch.nn.Thing", &api, &e), 0);
    struct scan_spec spec = {.tests = tests, .source = f.path, .whole = true};
    assert_int_equal(scan_run(&spec, &api, 1, &whole, &e), 0);
    struct buf a = BUF_INIT, b = BUF_INIT;
    scan_print_json(&a, &part, &api, 1, true);
    scan_print_json(&b, &whole, &api, 1, true);
    assert_string_equal(strstr(a.ptr, "\"apis\""), strstr(b.ptr, "\"apis\""));
    scan_print_table(&a, &part, &api, 1);
    assert_non_null(
        strstr(a.ptr, "| torch.nn.Thing | test\\_a.py | TestA.test\\_direct | 6-7 (7) | direct |"));
    buf_free(&a);
    buf_free(&b);
    scan_result_free(&part);
    scan_result_free(&whole);
    scan_api_free(&api);
    free(tests);
    remove_tree(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pack),
        cmocka_unit_test(test_outline),
        cmocka_unit_test(test_aliases_and_helpers),
        cmocka_unit_test(test_part_equals_whole),
        cmocka_unit_test(test_warm_reads_nothing),
        cmocka_unit_test(test_damage_is_mended),
        cmocka_unit_test(test_no_place_for_an_index),
        cmocka_unit_test(test_several_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
