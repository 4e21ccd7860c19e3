/* concord_pysrc.c - the Python source model: scopes, resolution, odd files, edits. */
#include "concord/pysrc/pysrc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct py_file *parse(const char *text)
{
    return py_parse("t.py", text, strlen(text));
}

/* The first reference whose chain is this. */
static const struct py_ref *ref(struct py_file *f, const char *chain)
{
    for (size_t i = 0; i < f->refs.len; i++)
        if (!strcmp(f->refs.ptr[i].chain, chain)) return &f->refs.ptr[i];
    fail_msg("no reference %s", chain);
    return NULL;
}

static const char *resolved(struct py_file *f, const char *chain)
{
    const char *r = py_resolve(f, ref(f, chain)->scope, chain);
    return r ? r : "unknown";
}

static void test_imports(void **state)
{
    (void)state;
    struct py_file *f =
        parse("import torch\nimport torch.nn.functional as F\nimport torch.utils.checkpoint\n"
              "from torch.utils.checkpoint import checkpoint as ck, checkpoint_sequential\n"
              "from torch import nn\nfrom .common import helper\n"
              "torch.add(1)\nF.relu(2)\nck(3)\ncheckpoint_sequential(4)\nnn.Linear(3, 3)\nhelper()\n"
              "len(x)\ntorch . utils.checkpoint . checkpoint(1)\n");
    assert_string_equal(resolved(f, "torch.add"), "torch.add");
    assert_string_equal(resolved(f, "F.relu"), "torch.nn.functional.relu");
    assert_string_equal(resolved(f, "ck"), "torch.utils.checkpoint.checkpoint");
    assert_string_equal(resolved(f, "checkpoint_sequential"), "torch.utils.checkpoint.checkpoint_sequential");
    assert_string_equal(resolved(f, "nn.Linear"), "torch.nn.Linear");
    assert_string_equal(resolved(f, "helper"), ".common.helper");
    assert_string_equal(resolved(f, "len"), "builtins.len");
    assert_true(ref(f, "torch.utils.checkpoint.checkpoint")->call);
    py_free(f);
}

static void test_scopes(void **state)
{
    (void)state;
    struct py_file *f = parse("import torch\nck = torch.utils.checkpoint.checkpoint\n"
                              "class TestA(TestCase):\n"
                              "    run = torch.relu\n"
                              "    @unittest.skipIf(True, 'x')\n"
                              "    def test_one(self, device='cpu', *rest):\n"
                              "        def inner(ck):\n"
                              "            return ck(1)\n"
                              "        y = ck(2)\n"
                              "        run(3)\n"
                              "        return [torch.neg(i) for i in y]\n"
                              "def test_module(): pass\n");
    uint32_t one = py_scope_named(f, "TestA.test_one");
    assert_int_not_equal(one, UINT32_MAX);
    assert_true(py_is_test(f, one));
    assert_true(py_is_test(f, py_scope_named(f, "test_module")));
    assert_false(py_is_test(f, py_scope_named(f, "TestA.test_one.inner")));
    const struct py_scope *s = &f->scopes.ptr[one];
    assert_int_equal(s->decorators.len, 1);
    assert_string_equal(s->decorators.ptr[0].name, "unittest.skipIf");
    assert_int_equal(s->params.len, 3);
    assert_int_equal(s->at.row, 5);
    assert_string_equal(f->scopes.ptr[py_scope_named(f, "TestA")].bases.ptr[0], "TestCase");
    assert_null(py_resolve(f, py_scope_named(f, "TestA.test_one.inner"), "ck")); /* a parameter */
    assert_string_equal(py_resolve(f, one, "ck"), "torch.utils.checkpoint.checkpoint");
    assert_string_equal(py_resolve(f, one, "run"), "builtins.run"); /* methods do not see the class's names */
    assert_string_equal(resolved(f, "torch.neg"), "torch.neg");
    assert_string_equal(py_resolve(f, 0, "TestA.test_one"), ".TestA.test_one");
    py_free(f);
}

static void test_disagreement_is_unknown(void **state)
{
    (void)state;
    struct py_file *f = parse("import torch\nif A:\n    f = torch.add\nelse:\n    f = torch.sub\nf(1)\n"
                              "try:\n    import numpy as np\nexcept ImportError:\n    np = None\nnp.sum(1)\n"
                              "def g(torch):\n    return torch.mul(1)\n"
                              "for h in fs:\n    h(1)\n");
    assert_string_equal(resolved(f, "f"), "unknown");
    assert_string_equal(resolved(f, "np.sum"), "numpy.sum");
    assert_string_equal(resolved(f, "torch.mul"), "unknown");
    assert_string_equal(resolved(f, "h"), "unknown");
    py_free(f);
    f = parse("from torch.testing import *\nassert_close(1)\n");
    assert_string_equal(resolved(f, "assert_close"), "unknown");
    assert_true(py_has_star(f));
    py_free(f);
    f = parse("x = y\ny = x\nx(1)\n"); /* a cycle ends */
    assert_string_equal(resolved(f, "x"), "unknown");
    py_free(f);
}

static void test_instances_and_methods(void **state)
{
    (void)state;
    struct py_file *f =
        parse("from torch import nn\nm = nn.Linear(3, 3)\nm.weight.sum().backward()\nz = a + -b\n");
    assert_string_equal(py_resolve_instance(f, 0, "m"), "torch.nn.Linear");
    assert_true(ref(f, "?.backward")->call);
    assert_true(ref(f, "m.weight.sum")->call);
    assert_int_equal(f->operators.len, 2);
    assert_string_equal(f->operators.ptr[0].op, "+");
    assert_string_equal(f->operators.ptr[1].op, "u-");
    py_free(f);
}

static void test_odd_files(void **state)
{
    (void)state;
    struct py_file *f = parse("def f(:\n    torch.add(1)\n");
    assert_int_not_equal(f->error_row, 0);
    assert_non_null(f->note);
    py_free(f);
    f = py_parse("t.py", "x = '\xff'\n", 9);
    assert_non_null(strstr(f->note, "UTF-8"));
    py_free(f);
    f = parse("");
    assert_int_equal(f->scopes.len, 1);
    py_free(f);
    f = parse("match x:\n    case [a, b]:\n        print(a)\ntype X = int\ndef f[T](x: T) -> T: return x\n");
    assert_int_not_equal(f->scopes.len, 0); /* newer syntax never stops the reader */
    py_free(f);
}

static void test_edits(void **state)
{
    (void)state;
    struct err e;
    struct buf out = BUF_INIT;
    struct py_file *f = parse("x = torch.randn(3)  # keep\n");
    const struct py_ref *r = ref(f, "torch.randn");
    struct py_edit insert = {r->args.end - 1, r->args.end - 1, ", device=\"npu\""};
    assert_int_equal(py_apply(f, &insert, 1, &out, &e), 0);
    assert_string_equal(buf_str(&out), "x = torch.randn(3, device=\"npu\")  # keep\n");
    struct py_edit bad = {r->args.start, r->args.start + 1, ""};
    assert_int_equal(py_apply(f, &bad, 1, &out, &e), -1);
    assert_non_null(strstr(e.text, "syntax error"));
    struct py_edit overlap[] = {{0, 5, "a"}, {3, 6, "b"}};
    assert_int_equal(py_apply(f, overlap, 2, &out, &e), -1);
    buf_free(&out);
    py_free(f);
}

static void test_values(void **state)
{
    (void)state;
    struct py_file *f = parse("x, y = torch.ones(3), [1]\nfor t in y: pass\nself.w = x\n"
                              "def f(a: torch.Tensor, b=2):\n    return a + b\n"
                              "torch.ones(2).grad.sum(x, dim=0)\nx += 1\n");
    const struct py_binding *x = &f->bindings.ptr[0], *y = &f->bindings.ptr[1], *t = &f->bindings.ptr[2];
    assert_string_equal(x->name, "x");
    assert_int_equal(f->exprs.ptr[x->value].kind, PYE_CALL);
    assert_string_equal(f->refs.ptr[f->exprs.ptr[x->value].a].chain, "torch.ones");
    assert_int_equal(f->exprs.ptr[y->value].kind, PYE_LIST);
    assert_int_equal(f->exprs.ptr[t->value].kind, PYE_SUBSCRIPT);
    assert_int_equal(f->attributes.len, 1);
    assert_string_equal(f->attributes.ptr[0].chain, "self.w");
    assert_int_equal(f->returns.len, 1);
    assert_int_equal(f->exprs.ptr[f->returns.ptr[0].value].kind, PYE_OPERATOR);
    const struct py_ref *sum = ref(f, "?.sum"), *grad = ref(f, "?.grad");
    assert_int_equal(sum->nargs, 2);
    assert_string_equal(f->arguments.ptr[sum->arg + 1].keyword, "dim");
    assert_int_equal(f->exprs.ptr[sum->base].kind, PYE_REF);
    assert_int_equal(f->exprs.ptr[grad->base].kind, PYE_CALL);
    assert_string_equal(f->operators.ptr[1].op, "+=");
    assert_int_not_equal(f->operators.ptr[1].left, 0);
    for (size_t i = 0; i < f->bindings.len; i++)
        if (!strcmp(f->bindings.ptr[i].name, "a"))
            assert_string_equal(f->bindings.ptr[i].target, "torch.Tensor");
    py_free(f);
}

static void test_deep_nesting(void **state)
{
    (void)state;
    static const struct {
        const char *open, *middle, *close;
    } shapes[] = {
        {"(", "1", ")"}, {"[", "", "]"},  {"not ", "x", ""}, {"a.", "b", ""},
        {"1+", "1", ""}, {"f(", "", ")"}, {"-", "1", ""},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct buf b = BUF_INIT;
        for (int n = 0; n < 20000; n++) buf_adds(&b, shapes[i].open);
        buf_adds(&b, shapes[i].middle);
        for (int n = 0; n < 20000; n++) buf_adds(&b, shapes[i].close);
        buf_addc(&b, '\n');
        struct py_file *f = py_parse("t.py", buf_str(&b), b.len);
        assert_non_null(f);
        assert_non_null(f->note); /* said, not fatal */
        py_free(f);
        buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_imports),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_disagreement_is_unknown),
        cmocka_unit_test(test_instances_and_methods),
        cmocka_unit_test(test_odd_files),
        cmocka_unit_test(test_edits),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_deep_nesting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
