/* concord_patch_port.c - carrying edits, and repairing faulty patches. */
#include "tests/unit/patch_util.h"

#include "tests/unit/patch_folder.h"

#include "concord/patch/port.h"
#include "concord/patch/repair.h"
#include "concord/patch/words.h"

#include <stdio.h>
#include <unistd.h>

static const char source[] = "import torch\n"
                             "\n"
                             "\n"
                             "class TestA(TestCase):\n"
                             "    def test_one(self):\n"
                             "        x = torch.ones(3)\n"
                             "        self.assertEqual(x, x)\n"
                             "\n"
                             "    def test_two(self):\n"
                             "        x = torch.ones(3)\n"
                             "        self.assertEqual(x, x)\n"
                             "\n"
                             "    def test_three(self):\n"
                             "        y = torch.randn(4, 5)\n"
                             "        self.assertEqual(y, y)\n";

static char *replaced(const char *text, const char *old, const char *new)
{
    const char *at = strstr(text, old);
    assert_non_null(at);
    return xformat("%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
}

struct ported {
    struct port r;
    struct buf post;
};

static struct ported carry(const char *edited, const char *to, bool with_base)
{
    struct ported out = {0};
    struct buf text = BUF_INIT;
    struct patch p;
    struct err e;
    assert_int_equal(patch_make("test/t.py", slice_str(source), slice_str(edited), 0, NULL, &text, &e), 0);
    parse(&p, buf_str(&text));
    port_section(&p, &p.files.ptr[0], with_base ? slice_str(source) : (struct slice){0}, slice_str(to),
                 &out.r, &out.post);
    patch_free(&p);
    buf_free(&text);
    return out;
}

static void expect(const char *edited, const char *to, bool with_base, const char *post,
                   enum port_outcome outcome, const char *reason)
{
    struct ported out = carry(edited, to, with_base);
    assert_true(out.r.edits.len >= 1);
    const struct port_edit *e = &out.r.edits.ptr[0];
    if (e->outcome != outcome) fail_msg("%s: %s", port_outcome_text(e->outcome), e->reason ? e->reason : "");
    if (reason && (!e->reason || !strstr(e->reason, reason)))
        fail_msg("'%s' lacks '%s'", e->reason ? e->reason : "", reason);
    assert_string_equal(buf_str(&out.post), post);
    port_free(&out.r);
    buf_free(&out.post);
}

static void edits_follow_their_function(void **state)
{
    (void)state;
    /* test_two's body is test_one's too, and something long stands before both: line numbers would say
     * test_one. */
    char *edited = replaced(source, "test_two(self):\n        x = torch.ones(3)",
                            "test_two(self):\n        x = torch.ones(3).npu()");
    char *to = replaced(source, "import torch\n", "import torch\nimport os\n\nA = 1\nB = 2\nC = 3\nD = 4\n");
    char *post = replaced(to, "test_two(self):\n        x = torch.ones(3)",
                          "test_two(self):\n        x = torch.ones(3).npu()");
    expect(edited, to, false, post, PORT_carried, NULL);
    expect(edited, to, true, post, PORT_carried, NULL);
    free(edited), free(to), free(post);
}

static void another_function_is_a_conflict(void **state)
{
    (void)state;
    char *edited = replaced(source, "test_two(self):\n        x = torch.ones(3)",
                            "test_two(self):\n        x = torch.ones(3).npu()");
    char *to = replaced(source, "test_two", "test_other");
    expect(edited, to, true, to, PORT_conflict, "TestA.test_two");
    expect(edited, to, false, to, PORT_conflict, "test_two");
    free(edited), free(to);
}

/* Without the base nothing says which block the moved lines are in now; with it the place is right or
 * refused. */
static void moved_code_is_no_place_without_a_base(void **state)
{
    (void)state;
    char *edited = replaced(source, "y = torch.randn(4, 5)", "y = torch.randn(4, 5).npu()");
    char *other = replaced(
        source, "    def test_three(self):\n        y = torch.randn(4, 5)\n        self.assertEqual(y, y)\n",
        "    def test_four(self):\n        def test_three(self):\n            y = torch.randn(4, 5)\n"
        "            self.assertEqual(y, y)\n");
    expect(edited, other, false, other, PORT_conflict, NULL);
    expect(edited, other, true, other, PORT_conflict, NULL);
    free(edited), free(other);
}

/* A def inside a string opens no scope, but the line is as good a mark. */
static void heads_in_strings_are_marks(void **state)
{
    (void)state;
    static const char text[] =
        "CODE = \"\"\"\nimport torch\ndef run(rank):\n    use(rank)\n    stop(rank)\n\"\"\"\n";
    struct buf out = BUF_INIT, post = BUF_INIT;
    struct patch p;
    struct port r = {0};
    struct err e;
    char *edited = replaced(text, "use(rank)", "use(rank, 1)"), *to = replaced(text, "CODE", "# new\nCODE");
    char *want = replaced(edited, "CODE", "# new\nCODE");
    assert_int_equal(patch_make("test/t.py", slice_str(text), slice_str(edited), 0, NULL, &out, &e), 0);
    parse(&p, buf_str(&out));
    port_section(&p, &p.files.ptr[0], (struct slice){0}, slice_str(to), &r, &post);
    assert_int_equal(r.counts[PORT_carried], 1);
    assert_string_equal(buf_str(&post), want);
    port_free(&r);
    patch_free(&p);
    buf_free(&out), buf_free(&post);
    free(edited), free(to), free(want);
}

static void words_are_merged(void **state)
{
    (void)state;
    char *edited = replaced(source, "torch.randn(4, 5)", "torch.randn(4, 5, device=\"npu\")");
    char *to = replaced(source, "y = torch", "value = torch");
    char *post = replaced(to, "torch.randn(4, 5)", "torch.randn(4, 5, device=\"npu\")");
    expect(edited, to, true, post, PORT_adapted, "merged into");
    free(to), free(post);
    to = replaced(source, "torch.randn(4, 5)", "torch.zeros(6)");
    expect(edited, to, true, to, PORT_conflict, "torch.zeros(6)");
    free(edited), free(to);
}

static void what_is_there_is_dropped(void **state)
{
    (void)state;
    char *edited = replaced(source, "torch.randn(4, 5)", "torch.randn(4, 5, device=\"npu\")");
    expect(edited, edited, true, edited, PORT_upstream, NULL);
    char *import = replaced(source, "import torch\n", "import torch\nimport torch_npu\n");
    expect(import, import, true, import, PORT_upstream, NULL);
    free(edited), free(import);
}

static void decorators_keep_their_definition(void **state)
{
    (void)state;
    char *edited = replaced(source, "    def test_two", "    @onlyNPU\n    def test_two");
    char *to =
        replaced(source, "    def test_two", "    def test_new(self):\n        pass\n\n    def test_two");
    char *post = replaced(to, "    def test_two", "    @onlyNPU\n    def test_two");
    expect(edited, to, false, post, PORT_carried, NULL);
    free(to), free(post);
    to = replaced(source, "test_two", "test_gone");
    expect(edited, to, false, to, PORT_conflict, NULL);
    free(edited), free(to);
}

static void results_that_do_not_parse_are_conflicts(void **state)
{
    (void)state;
    /* The edit closes a parenthesis that the target does not open there. */
    char *edited = replaced(source, "        self.assertEqual(y, y)\n",
                            "        self.assertEqual(y, y)\n        z = (1,\n             2)\n");
    struct ported out = carry(edited, source, false);
    assert_int_equal(out.r.counts[PORT_carried], 1);
    port_free(&out.r);
    buf_free(&out.post);
    char *broken = replaced(source, "        self.assertEqual(y, y)\n",
                            "        self.assertEqual(y, y)\n        z = (1,\n");
    struct ported bad = carry(broken, source, false);
    assert_int_equal(bad.r.counts[PORT_conflict], 1);
    assert_non_null(strstr(bad.r.edits.ptr[0].reason, "valid Python"));
    assert_string_equal(buf_str(&bad.post), source);
    port_free(&bad.r);
    buf_free(&bad.post);
    free(edited), free(broken);
}

static void word_merge(void **state)
{
    (void)state;
    static const struct {
        const char *old, *new, *mine, *merged;
    } rows[] = {
        {"f(a, b)\n", "f(a, b).npu()\n", "g = f(a, b)\n", "g = f(a, b).npu()\n"},
        {"x = f(1)\n", "x = f(1, d)\n", "yy = f(1)\n", "yy = f(1, d)\n"},
        {"x = f(1)\n", "x = f(2)\n", "x = f(3)\n", NULL},
        {"a\nb c\n", "a\nb d\n", "z\nb c\n", "z\nb d\n"},
        {"same\n", "same\n", "other\n", "other\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf out = BUF_INIT;
        int rc = merge_words(slice_str(rows[i].old), slice_str(rows[i].new), slice_str(rows[i].mine), &out);
        assert_int_equal(rc, rows[i].merged ? 0 : 1);
        if (rows[i].merged) assert_string_equal(buf_str(&out), rows[i].merged);
        buf_free(&out);
    }
}

/* A hundred edits of a long file, carried to one with other lines put in: every edit in its own function. */
static void many_edits(void **state)
{
    (void)state;
    struct buf from = BUF_INIT, edited = BUF_INIT, to = BUF_INIT, text = BUF_INIT, post = BUF_INIT;
    unsigned seed = 99;
    for (int i = 0; i < 100; i++) {
        struct buf *all[] = {&from, &edited, &to};
        if (next_random(&seed) % 3 == 0) buf_addf(&to, "def new_%d():\n    return %d\n\n\n", i, i % 7);
        for (int k = 0; k < 3; k++)
            buf_addf(all[k], "def f_%d():\n    a = g(1)\n    b = g(2)%s\n    return a + b\n\n\n", i,
                     k == 1 ? ".npu()" : "");
    }
    struct err e;
    struct patch p;
    struct port r = {0};
    patch_make("t.py", slice_of(&from), slice_of(&edited), 0, NULL, &text, &e);
    parse(&p, buf_str(&text));
    port_section(&p, &p.files.ptr[0], slice_of(&from), slice_of(&to), &r, &post);
    assert_int_equal(r.edits.len, 100);
    for (size_t i = 0; i < r.edits.len; i++) {
        char *want = xformat("f_%zu", i);
        if (r.edits.ptr[i].outcome != PORT_conflict) assert_string_equal(r.edits.ptr[i].scope, want);
        free(want);
    }
    assert_true(r.counts[PORT_carried] >= 95);
    port_free(&r);
    patch_free(&p);
    buf_free(&from), buf_free(&edited), buf_free(&to), buf_free(&text), buf_free(&post);
}

/* ---- repair ------------------------------------------------------------------------------------------ */

#define HEAD                                                                                                 \
    "diff --git a/test/t.py b/test/t.py\nindex 5ad3c1e0..9b1f07d4 100644\n--- a/test/t.py\n+++ "             \
    "b/test/t.py\n"
#define HUNK "@@ -1,2 +1,2 @@\n-a\n+b\n c\n"
#define NEXT "@@ -9,2 +9,2 @@\n-x\n+y\n z\n"

static const struct {
    const char *bad, *good;
} repairs[] = {
    {HEAD HUNK, HEAD HUNK},
    {"\xef\xbb\xbf" HEAD HUNK, HEAD HUNK},
    {"\n" HEAD HUNK "\n\n", HEAD HUNK},
    {HEAD "@@ -1,3 +1,2 @@\n-a\n+b\n c\n", HEAD HUNK},
    {HEAD "@@ -1,2 +1,2 @@\n-a\n+b\n c", HEAD HUNK},
    {HEAD NEXT HUNK, HEAD HUNK NEXT},
    {HEAD HUNK "@@ -9,2 +12,2 @@\n-x\n+y\n z\n", HEAD HUNK NEXT},
    {HEAD HUNK "@@ -5,1 +5,1 @@\n-q\n+q\n" NEXT, HEAD HUNK NEXT},
    {HEAD HUNK "\n" NEXT, HEAD HUNK NEXT},
    {HUNK HEAD HUNK NEXT, HEAD HUNK NEXT},
    {NEXT HEAD HUNK, HEAD HUNK NEXT},
    {HEAD HUNK HUNK, HEAD HUNK},
    {HEAD "@@ -1,3 +1,3 @@\n-a\n+b\n\n c\n", HEAD "@@ -1,3 +1,3 @@\n-a\n+b\n \n c\n"},
    {"diff --git a/test/t.py b/test/t.py\r\nindex 5ad3c1e0..9b1f07d4 100644\r\n--- a/test/t.py\r\n+++ "
     "b/test/t.py\r\n"
     "@@ -1,2 +1,2 @@\r\n-a\r\n+b\r\n c\r\n",
     HEAD HUNK},
};

static void repairs_without_a_base(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof repairs / sizeof *repairs; i++) {
        struct buf out = BUF_INIT;
        struct repair r;
        struct err e;
        assert_int_equal(patch_repair("x/test/t.py.patch", slice_str(repairs[i].bad), NULL, &out, &r, &e), 0);
        if (strcmp(buf_str(&out), repairs[i].good)) fail_msg("row %zu:\n%s", i, buf_str(&out));
        assert_int_equal(r.left, 0);
        repair_free(&r);
        buf_free(&out);
    }
}

static void leaves_what_is_in_doubt(void **state)
{
    (void)state;
    static const char *const doubtful[] = {
        HEAD "@@ -1,3 +1,3 @@\n-a\n+b\n c\n d\n@@ -2,3 +2,3 @@\n c\n-d\n+e\n f\n",
        "@@ -1,3 +1,3 @@\n-p\n+q\n c\n d\n" HEAD "@@ -1,3 +1,3 @@\n-a\n+b\n c\n d\n",
        "diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to g\n",
        HEAD "@@ -1,2 +1,2 @\n-a\n+b\n c\n",
    };
    for (size_t i = 0; i < sizeof doubtful / sizeof *doubtful; i++) {
        struct buf out = BUF_INIT;
        struct repair r;
        struct err e;
        assert_int_equal(patch_repair("x/test/t.py.patch", slice_str(doubtful[i]), NULL, &out, &r, &e), 0);
        assert_true(r.left > 0);
        assert_string_equal(buf_str(&out), doubtful[i]);
        repair_free(&r);
        buf_free(&out);
    }
}

static void put(const char *name, const char *text)
{
    char *path = path_join(folder, name), *dir = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    assert_int_equal(dir_make(dir, NULL), 0);
    assert_int_equal(file_write(path, text, strlen(text), 0, NULL), 0);
    free(path), free(dir);
}

static void repairs_against_the_base(void **state)
{
    (void)state;
    struct err e;
    static const char base[] = "one\ntwo\nthree\nfour\nfive\nsix\nseven\ntwo\n",
                      post[] = "one\ntwo\nthree\nFOUR\nfive\nsix\nseven\ntwo\n";
    put("test/t.py", base);
    struct source *s = source_open(folder, &e);
    assert_non_null(s);
    char a[PATCH_ID_MAX + 1];
    blob_id(slice_str(base), false, a);
    char *bare = xformat("diff --git a/test/t.py b/test/t.py\nindex %.10s..1111111111 100644\n--- "
                         "a/test/t.py\n+++ b/test/t.py\n@@ -4 +4 @@\n-four\n+FOUR\n",
                         a);
    char *moved = xformat("--- a/test/t.py\n+++ b/test/t.py\n@@ -5,3 +5,3 @@\n three\n-four\n+FOUR\n five\n");
    const char *const rows[] = {bare, moved};
    for (size_t i = 0; i < 2; i++) {
        struct buf out = BUF_INIT;
        struct repair r;
        struct patch p;
        assert_int_equal(patch_repair("x/test/t.py.patch", slice_str(rows[i]), s, &out, &r, &e), 0);
        assert_int_equal(r.left, 0);
        parse(&p, buf_str(&out));
        assert_int_equal(p.faults.len, 0);
        check_result(&p, slice_str(base), 0, slice_str(post));
        patch_free(&p);
        repair_free(&r);
        buf_free(&out);
    }
    /* Two places fit: none is taken. */
    struct buf out = BUF_INIT;
    struct repair r;
    static const char guess[] = "--- a/test/t.py\n+++ b/test/t.py\n@@ -5,1 +5,2 @@\n two\n+more\n";
    assert_int_equal(patch_repair("x/test/t.py.patch", slice_str(guess), s, &out, &r, &e), 0);
    assert_true(r.left > 0);
    repair_free(&r);
    buf_free(&out);
    source_close(s);
    free(bare), free(moved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edits_follow_their_function),
        cmocka_unit_test(another_function_is_a_conflict),
        cmocka_unit_test(moved_code_is_no_place_without_a_base),
        cmocka_unit_test(heads_in_strings_are_marks),
        cmocka_unit_test(words_are_merged),
        cmocka_unit_test(what_is_there_is_dropped),
        cmocka_unit_test(decorators_keep_their_definition),
        cmocka_unit_test(results_that_do_not_parse_are_conflicts),
        cmocka_unit_test(word_merge),
        cmocka_unit_test(many_edits),
        cmocka_unit_test(repairs_without_a_base),
        cmocka_unit_test(leaves_what_is_in_doubt),
        cmocka_unit_test(repairs_against_the_base),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
