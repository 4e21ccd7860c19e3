/* concord_tokens.c - Python text as tokens: what is alike, where devices are given, which of them are
 * needless. */
#include "concord/adapt/tokens.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void read_text(const char *text, tokens *t)
{
    *t = (tokens){0};
    tokens_read(slice_str(text), "npu", t);
}

static bool same(const char *a, const char *b, bool spelling)
{
    tokens x, y;
    read_text(a, &x), read_text(b, &y);
    bool is = tokens_same(&x, &y, spelling);
    tokens_free(&x), tokens_free(&y);
    return is;
}

static void test_layout(void **state)
{
    (void)state;
    static const char *const alike[][2] = {
        {"f(a, 'x')", "f(\n    a,\n    \"x\",\n)"},
        {"f(2, device='npu', requires_grad=True)", "f(2, requires_grad=True, device=\"npu\")"},
        {"a = r'''b'''", "a = \"b\""},
    };
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        assert_true(same(alike[i][0], alike[i][1], true));
    static const char *const unlike[][2] = {{"f(a)", "f(b)"},
                                            {"a  # x", "a"},
                                            {"a = 'b'", "a = b"},
                                            {"1.0", "1."},
                                            {"f(2).npu()", "f(2)"},
                                            {"f(2).npu()", "f(2).to(device)"},
                                            {"def f(device=None): pass", "def f(): pass"}};
    for (size_t i = 0; i < sizeof unlike / sizeof *unlike; i++)
        assert_false(same(unlike[i][0], unlike[i][1], false));
}

static void test_spelling(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"f(2).npu()", "f(2, device=\"npu\")"},
        {"f(2).to('npu')", "f(2).npu()"},
        {"torch.cuda.is_available()", "torch_npu.npu.is_available()"},
        {"@onlyCUDA", "@onlyPRIVATEUSE1"},
        {"nn.Sequential(nn.Linear(1, 1).npu(), nn.ReLU())",
         "nn.Sequential(nn.Linear(1, 1), nn.ReLU()).npu()"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        assert_true(same(pairs[i][0], pairs[i][1], false));
        assert_false(same(pairs[i][0], pairs[i][1], true));
    }
    assert_false(same("x.to(torch.float)", "x", false));
}

/* The marks that stay of `after`, as edited from `before`. */
static void expect_marks(const char *before, const char *after, size_t marks)
{
    tokens a, b;
    read_text(before, &a), read_text(after, &b);
    uint32_t *to = calloc(a.len + 1, sizeof *to);
    assert_true(tokens_align(&a, &b, to));
    for (size_t i = 0; i < a.len; i++) assert_int_equal(to[i], i);
    tokens_drop_needless(&b, &a, to, (struct needless){0});
    size_t n = 0;
    for (size_t i = 0; i < b.len; i++) n += b.ptr[i].mark != NULL;
    if (n != marks) fail_msg("%s: %zu marks, not %zu", after, n, marks);
    free(to);
    tokens_free(&a), tokens_free(&b);
}

static void test_needless(void **state)
{
    (void)state;
    expect_marks("x = torch.ones_like(y)", "x = torch.ones_like(y).npu()", 0);
    expect_marks("m = nn.ReLU()", "m = nn.ReLU().npu()", 0);
    expect_marks("m = nn.Linear(1, 1)", "m = nn.Linear(1, 1).npu()", 1);
    expect_marks("m = M(nn.Linear(1, 1))", "m = M(nn.Linear(1, 1).npu()).npu()", 1);
    expect_marks("self.w = nn.Parameter(torch.ones(1))", "self.w = nn.Parameter(torch.ones(1).npu())", 0);
    expect_marks("self.t = torch.ones(1)", "self.t = torch.ones(1).npu()", 1);
    expect_marks("x = torch.ones_like(y).npu()", "x = torch.ones_like(y).npu()", 1); /* was there before */
}

static void test_align(void **state)
{
    (void)state;
    tokens a, b;
    read_text("a = f(1)\nb = g(2)\n", &a), read_text("a = f(1)\nc = 3\nb = g(2)\n", &b);
    uint32_t to[32];
    assert_true(tokens_align(&a, &b, to));
    for (size_t i = 0; i < 6; i++) assert_int_equal(to[i], i);
    for (size_t i = 6; i < a.len; i++) assert_int_equal(to[i], i + 3);
    assert_int_equal(b.ptr[6].row, 1);
    tokens_free(&a), tokens_free(&b);
}

/* Broken pieces of text, as hunks begin and end: read to the end. */
static void test_pieces(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "", ")", "f(", "'", "\"\"\"a", "f(device=", ", device=x", ").npu(", "\\", "#", "x.to("};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        tokens t;
        read_text(pieces[i], &t);
        tokens_drop_needless(&t, NULL, NULL, (struct needless){0});
        tokens_free(&t);
    }
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_layout), cmocka_unit_test(test_spelling), cmocka_unit_test(test_needless),
        cmocka_unit_test(test_align),  cmocka_unit_test(test_pieces),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
