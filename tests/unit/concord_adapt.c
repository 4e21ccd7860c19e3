/* concord_adapt.c - the adapting rules: the table's own examples, more pairs, what is left alone, twice is
 * once. */
#include "concord/adapt/adapt.h"
#include "concord/adapt/replay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char imports[] = "import torch\nfrom torch import nn\n";
static const char *const tests[] = {"TestA.test_x"};

/* The file around lines that stand in a test. */
static char *file_of(const char *body, bool imported)
{
    return xformat("%s%s\nclass TestA(TestCase):\n    def test_x(self):\n        %s\n", imports,
                   imported ? "import torch_npu\n" : "", body);
}

static void adapt(const char *text, const struct adapt_options *o, struct adapt_result *r, struct py_file **f)
{
    struct err e;
    *f = py_parse("t.py", text, strlen(text));
    assert_int_equal((*f)->error_row, 0);
    if (adapt_source(*f, tests, 1, o, r, &e)) fail_msg("%s", e.text);
}

static void expect_text(const char *before, const char *after, const struct adapt_options *o)
{
    struct adapt_result r;
    struct py_file *f;
    adapt(before, o, &r, &f);
    assert_string_equal(buf_str(&r.text), after);
    assert_true((r.edits.len != 0) == (strcmp(before, after) != 0));
    adapt_result_free(&r);
    py_free(f);
    adapt(after, o, &r, &f); /* twice is once */
    assert_string_equal(buf_str(&r.text), after);
    assert_int_equal(r.edits.len, 0);
    adapt_result_free(&r);
    py_free(f);
}

static void expect(const char *before, const char *after, const struct adapt_options *o)
{
    char *b = file_of(before, false), *a = file_of(after, strcmp(before, after) != 0);
    expect_text(b, a, o);
    free(a);
    free(b);
}

#define IN_FUNCTION(lines) "def f(x, device):\n            " lines

static const struct {
    enum adapt_rule_id rule;
    const char *before, *after;
} pairs[] = {
    {RULE_leaf_device, "a = torch.tensor([1.0], requires_grad=True)",
     "a = torch.tensor([1.0], device=\"npu\", requires_grad=True)"},
    {RULE_leaf_device, "torch.rand(requires_grad=g, size=(2,))",
     "torch.rand(device=\"npu\", requires_grad=g, size=(2,))"},
    {RULE_factory, "torch.rand(2, requires_grad=False)", "torch.rand(2, requires_grad=False).npu()"},
    {RULE_factory, "a = nn.Parameter(torch.rand(2))", "a = nn.Parameter(torch.rand(2).npu())"},
    {RULE_factory, "a = torch.ones(2).double()", "a = torch.ones(2).npu().double()"},
    {RULE_factory, "a = torch.ones(2).to(torch.int)", "a = torch.ones(2).npu().to(torch.int)"},
    {RULE_factory, IN_FUNCTION("return torch.ones(10) + x"),
     IN_FUNCTION("return torch.ones(10).to(device) + x")},
    {RULE_factory, "a = torch.from_numpy(b)", "a = torch.from_numpy(b).npu()"},
    {RULE_factory, "a = torch.ones(*sizes)", "a = torch.ones(*sizes).npu()"},
    {RULE_leaf_device, IN_FUNCTION("return torch.ones(1, requires_grad=True)"),
     IN_FUNCTION("return torch.ones(1, device=device, requires_grad=True)")},
    {RULE_meets_tensor, "f = lambda x: torch.ones(2) + x.sin()",
     "f = lambda x: torch.ones(2, device=x.device) + x.sin()"},
    {RULE_module, "m = nn.Linear(3, 3)", "m = nn.Linear(3, 3).npu()"},
    {RULE_module, "m = [nn.Linear(3, 3), nn.ReLU()]", "m = [nn.Linear(3, 3).npu(), nn.ReLU()]"},
    {RULE_module,
     "class Net(nn.Module):\n            def __init__(self):\n                self.l = nn.Linear(1, 1)\n     "
     "   n = Net()",
     "class Net(nn.Module):\n            def __init__(self):\n                self.l = nn.Linear(1, 1)\n     "
     "   n = "
     "Net().npu()"},
    {RULE_factory,
     "class Net(nn.Module):\n            def __init__(self):\n                self.t = torch.ones(1)\n       "
     " n = Net()",
     "class Net(nn.Module):\n            def __init__(self):\n                self.t = torch.ones(1).npu()\n"
     "        n = Net()"},
    {RULE_module,
     "class Net(nn.Module):\n            def __init__(self):\n                self.register_buffer('t', "
     "torch.ones(1))\n"
     "        n = Net()",
     "class Net(nn.Module):\n            def __init__(self):\n                self.register_buffer('t', "
     "torch.ones(1))\n"
     "        n = Net().npu()"},
    {RULE_device_string, "a = b.to('cuda')", "a = b.to('npu')"},
    {RULE_device_string, "d = torch.device(\"cuda:1\")", "d = torch.device(\"npu:1\")"},
    {RULE_device_comparison, "if 'cuda' != x.device.type: pass", "if 'npu' != x.device.type: pass"},
    {RULE_torch_cuda, "torch.cuda.manual_seed(3)", "torch.npu.manual_seed(3)"},
    {RULE_cuda_method, IN_FUNCTION("return x.cuda()"), IN_FUNCTION("return x.to(device)")},
    {RULE_cuda_method, "a = torch.ones(2).cuda()", "a = torch.ones(2).npu()"},
};

static void test_examples(void **state)
{
    (void)state;
    for (int i = 0; i < RULE_COUNT; i++) {
        assert_true(*adapt_rules[i].reason && *adapt_rules[i].reason_zh);
        const struct adapt_rule *k = &adapt_rules[i];
        assert_true(*k->before && *k->after);
        if (strchr(k->before, '\n')) /* a whole file */
            expect_text(k->before, k->after, &adapt_defaults);
        else
            expect(k->before, k->after, &adapt_defaults);
    }
}

static void test_pairs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        expect(pairs[i].before, pairs[i].after, &adapt_defaults);
        char *text = file_of(pairs[i].before, true);
        struct adapt_result r;
        struct py_file *f;
        adapt(text, &adapt_defaults, &r, &f);
        for (size_t k = 0; k < r.edits.len; k++)
            assert_string_equal(adapt_rules[r.edits.ptr[k].rule].name, adapt_rules[pairs[i].rule].name);
        adapt_result_free(&r);
        py_free(f);
        free(text);
    }
}

static void test_untouched(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "a = torch.ones(2, device=\"npu\")",
        "a = torch.ones(2).npu()",
        "a = torch.ones(2).to(dev)",
        "a = torch.rand(1).item()",
        "s = 'torch.ones(3)'",
        "a = foo.ones(3)",
        "a = torch.ones_like(b)",
        "m = nn.ReLU()",
        "b = name == 'cuda'",
        "a = torch.ones(2)\n        b = a.to('npu')",
        "a = nn.Linear(3, 3).to('npu')",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) expect(lines[i], lines[i], &adapt_defaults);
}

/* What is left has a reason, and no edit. */
static void test_left(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "torch.ones(2, out=b)",
        "torch.ones(2, **kw)",
        "m = torch.nn.DataParallel(nn.Linear(2, 2))(torch.ones(2))",
        "lengths = torch.tensor([3, 2])",
        "torch.rand(2, generator=g)",
        "torch.cuda.nvtx.mark('a')",
        "self.assertExpectedInline(str(x), \"tensor([1.])\")",
        "with torch.device(d):\n            a = torch.ones(2)",
        "a = torch.ones(2, device=\"cpu\")\n        b = a + torch.ones(2)",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char *text = file_of(lines[i], false);
        struct adapt_result r;
        struct py_file *f;
        adapt(text, &adapt_defaults, &r, &f);
        if (r.left.len != 1 || r.edits.len)
            fail_msg("%s: %zu left, %zu edits", lines[i], r.left.len, r.edits.len);
        assert_string_equal(r.left.ptr[0].scope, "TestA.test_x");
        adapt_result_free(&r);
        py_free(f);
        free(text);
    }
}

static void test_style(void **state)
{
    (void)state;
    struct adapt_options o = adapt_defaults;
    o.style = ADAPT_TO;
    expect("a = torch.ones(2)", "a = torch.ones(2).to(\"npu\")", &o);
    const char *text = "import torch\ntorch.ones(2).to(\"npu\")\n";
    struct py_file *f = py_parse("t.py", text, strlen(text));
    assert_int_equal(adapt_style_of(f, &o), ADAPT_TO);
    py_free(f);
    o.style = ADAPT_KEYWORD;
    expect("a = torch.tensor([1, 2], dtype=d)", "a = torch.tensor([1, 2], dtype=d, device=\"npu\")", &o);
    expect("a = torch.ones(\n            2,\n        )",
           "a = torch.ones(\n            2, device=\"npu\",\n        )", &o);
}

/* Functions whose checks a device makes fail are left whole, with the reason. */
static void test_left_whole(void **state)
{
    (void)state;
    static const char *const bodies[][2] = {
        {"a = torch.ones(2, requires_grad=True)\n        a.grad_fn.metadata[1] = h\n        r = "
         "weakref.ref(h)",
         "graph"},
        {"class Mode(TorchDispatchMode): pass\n        a = torch.ones(2)\n        self.assertEqual(ops, "
         "[\"exp.default\", \"detach.default\"])",
         "detach"},
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char *text = file_of(bodies[i][0], false);
        struct adapt_result r;
        struct py_file *f;
        adapt(text, &adapt_defaults, &r, &f);
        assert_int_equal(r.edits.len, 0);
        assert_int_equal(r.left.len, 1);
        assert_non_null(strstr(r.left.ptr[0].reason, bodies[i][1]));
        adapt_result_free(&r);
        py_free(f);
        free(text);
    }
}

/* The shim redirects torch.cuda: those names stay, data still moves. */
static void test_shim(void **state)
{
    (void)state;
    struct adapt_result r;
    struct py_file *f;
    char *text = file_of("torch.cuda.synchronize(); a = b.cuda(); c = torch.ones(2)", true);
    char *shim = xformat("from torch_npu.contrib import transfer_to_npu\n%s", text);
    adapt(shim, &adapt_defaults, &r, &f);
    assert_int_equal(r.edits.len, 1);
    assert_int_equal(r.edits.ptr[0].rule, RULE_factory);
    adapt_result_free(&r);
    py_free(f);
    free(shim);
    free(text);
}

/* Another backend is three words. */
static void test_backend(void **state)
{
    (void)state;
    struct adapt_options o = adapt_defaults;
    o.device = "foo", o.import = "torch_foo";
    expect_text("import torch\nclass TestA(TestCase):\n    def test_x(self):\n        return torch.ones(2)\n",
                "import torch\nimport torch_foo\nclass TestA(TestCase):\n    def test_x(self):\n"
                "        return torch.ones(2).foo()\n",
                &o);
}

static void test_import_place(void **state)
{
    (void)state;
    const char *body = "class TestA(TestCase):\n    def test_x(self):\n        return torch.ones(2)";
    static const char *const heads[][2] = {
        {"import torch\nfrom torch.testing._internal.common_utils import (\n    TestCase,\n)  # noqa\n",
         "import os\n"},
        {"import torch\n",
         "from torch.testing._internal.common_cuda import TEST_CUDA\nfrom torch.testing import x\n"},
        {"import torch\nfrom torch.testing import x\n",
         "from torch.testing._internal.common_cuda import y\n"},
        {"import torch\nimport torch.nn as nn\n", "if nn:\n    from torch import z\n"},
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char *before = xformat("%s%s%s\n", heads[i][0], heads[i][1], body);
        char *after = xformat("%simport torch_npu\n%s%s.npu()\n", heads[i][0], heads[i][1], body);
        expect_text(before, after, &adapt_defaults);
        free(before);
        free(after);
    }
}

/* A helper that other tests use keeps its data, but a constant may follow the tensor that it meets. */
static void test_helpers(void **state)
{
    (void)state;
    const char *text = "import torch\n"
                       "def own(): return torch.ones(1)\n"
                       "def shared(): return torch.ones(2)\n"
                       "def follows(x): return x.sin() * torch.ones(3)\n"
                       "class TestA(TestCase):\n"
                       "    def test_x(self): own(), shared(), follows(1)\n"
                       "    def test_y(self): shared(), follows(2)\n";
    struct adapt_result r;
    struct py_file *f;
    adapt(text, &adapt_defaults, &r, &f);
    assert_non_null(strstr(buf_str(&r.text), "return torch.ones(1).npu()\n"));
    assert_non_null(strstr(buf_str(&r.text), "return torch.ones(2)\n"));
    assert_non_null(strstr(buf_str(&r.text), "torch.ones(3, device=x.device)\n"));
    assert_int_equal(r.left.len, 1);
    assert_int_equal(r.left.ptr[0].row, 3);
    adapt_result_free(&r);
    py_free(f);
}

static void test_device_generic(void **state)
{
    (void)state;
    struct adapt_result r;
    struct py_file *f;
    adapt("import torch\nclass TestA(TestCase):\n    def test_x(self, device): torch.ones(2)\n"
          "instantiate_device_type_tests(TestA, globals())\n",
          &adapt_defaults, &r, &f);
    assert_int_equal(r.edits.len, 0);
    assert_int_equal(r.notes.len, 1);
    assert_string_equal(r.notes.ptr[0].reason, adapt_rules[RULE_device_generic].reason);
    adapt_result_free(&r);
    py_free(f);
}

/* One hunk a verdict: as people did, less than people did, other than people did, nothing. */
static const char history[] = "diff --git a/test/test_a.py b/test/test_a.py\n"
                              "--- a/test/test_a.py\n"
                              "+++ b/test/test_a.py\n"
                              "@@ -1,2 +1,3 @@\n"
                              " import os\n"
                              " import torch\n"
                              "+import torch_npu\n"
                              "@@ -10,3 +11,3 @@\n"
                              "             z = 1\n"
                              "     def test_b(self):\n"
                              "-        a = torch.ones(2)\n"
                              "+        a = torch.ones(2).npu()\n"
                              "@@ -20,2 +21,2 @@\n"
                              "-        a = torch.ones(2)\n"
                              "-        b = other(2)\n"
                              "+        a = torch.ones(2).npu()\n"
                              "+        b = other(2).npu()\n"
                              "@@ -30,2 +31,2 @@\n"
                              "         a = torch.ones(2)\n"
                              "-        b = torch.ones(2)\n"
                              "+        b = torch.ones(2).npu()\n"
                              "@@ -40,2 +41,2 @@\n"
                              "         a = 1\n"
                              "-        b = 2\n"
                              "+        b = 3\n";

static const char neighbour[] = "diff --git a/test/test_b.py b/test/test_b.py\n"
                                "--- a/test/test_b.py\n"
                                "+++ b/test/test_b.py\n"
                                "@@ -1,2 +1,3 @@\n"
                                " import os\n"
                                " import torch\n"
                                "+import torch_npu\n";

static void test_replay(void **state)
{
    (void)state;
    struct err e;
    struct patch p;
    struct replay r = {0};
    assert_int_equal(patch_parse(&p, slice_str(history), &e), 0);
    struct replay_votes votes = {0};
    replay_vote(&p, &votes);
    assert_int_equal(replay_place(&votes, NULL), ADAPT_BEHIND_TORCH);
    assert_int_equal(replay_place(&votes, "test/test_a.py"),
                     ADAPT_BEHIND_TESTING); /* its own does not count */
    struct patch other;
    assert_int_equal(patch_parse(&other, slice_str(neighbour), &e), 0);
    replay_vote(&other, &votes);
    patch_free(&other);
    assert_int_equal(replay_place(&votes, "test/test_a.py"), ADAPT_BEHIND_TORCH);
    replay_patch(&p, &votes, NULL, &r);
    static const enum replay_verdict verdicts[] = {REPLAY_exact, REPLAY_exact, REPLAY_subset,
                                                   REPLAY_different, REPLAY_none};
    assert_int_equal(r.hunks.len, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(r.hunks.ptr[i].verdict, verdicts[i]);
        assert_int_equal(r.hunks.ptr[i].mechanical, i < 4);
    }
    assert_int_equal(r.right[RULE_factory], 3);
    assert_int_equal(r.wrong[RULE_factory], 1);
    assert_int_equal(r.right[RULE_import], 1);
    assert_string_equal(r.hunks.ptr[3].ours, "factory: a = torch.ones(2): .npu()");
    replay_votes_free(&votes);
    replay_free(&r);
    patch_free(&p);
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_examples),       cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_untouched),      cmocka_unit_test(test_left),
        cmocka_unit_test(test_style),          cmocka_unit_test(test_backend),
        cmocka_unit_test(test_import_place),   cmocka_unit_test(test_helpers),
        cmocka_unit_test(test_device_generic), cmocka_unit_test(test_replay),
        cmocka_unit_test(test_shim),           cmocka_unit_test(test_left_whole),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
