/* concord_plan.c - the catalogue of cases and what is chosen from it. */
#include "concord/run/plan.h"

#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/concord_plan.XXXXXX";

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int drop_file(void **state)
{
    (void)state;
    return unlink(path);
}

#define HEAD "# comment\napi\tcase\tpasses\ten\tzh\n"

static int load(const char *text, struct plan_catalogue *c, struct err *e)
{
    assert_int_equal(file_write(path, text, strlen(text), 0, e), 0);
    return plan_catalogue_load(path, c, e);
}

static void test_catalogue_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"", ": no case in it"},
        {HEAD, ": no case in it"},
        {"api\tcase\tdirection\ten\tzh\n", ":1: column 3 should be 'passes'"},
        {HEAD "a\tb\tforward\ten\n", ":3: 4 columns, expected 5"},
        {HEAD "a\tb\tsideways\ten\tzh\n", ":3: 'sideways': expected forward or backward"},
        {HEAD "a\tb\tforward\te\tz\na\tb\tforward\te\tz\n", ":4: case a::b is listed twice"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct plan_catalogue c;
        struct err e;
        assert_int_equal(load(bad[i].text, &c, &e), -1);
        assert_string_equal(e.text + strlen(path), bad[i].message);
        assert_int_equal(c.cases.len, 0);
    }
}

/* The shipped catalogue has the three reference APIs, and every text is there. */
static void test_shipped_catalogue(void **state)
{
    (void)state;
    struct plan_catalogue c;
    struct err e;
    assert_int_equal(plan_catalogue_load(SOURCE_DIR "/harness/cases.tsv", &c, &e), 0);
    assert_non_null(plan_find(&c, "torch.overrides.is_tensor_like", "duck_type"));
    assert_non_null(plan_find(&c, "torch.utils.checkpoint.checkpoint", "nested"));
    assert_non_null(plan_find(&c, "torch.utils.checkpoint.checkpoint_sequential", "wrong_arguments"));
    assert_null(plan_find(&c, "torch.utils.checkpoint.checkpoint", "duck_type"));
    for (size_t i = 0; i < c.cases.len; i++) {
        assert_true(*c.cases.ptr[i].en);
        assert_true(*c.cases.ptr[i].zh);
    }
    plan_catalogue_free(&c);
}

static struct campaign two_apis(void)
{
    struct campaign c = {.path = "c.yaml", .name = "c"};
    *vec_push(&c.apis) = xstrdup("torch.b");
    *vec_push(&c.apis) = xstrdup("torch.a");
    return c;
}

static const char catalogue_text[] =
    HEAD "torch.a\tone\tforward\te\tz\ntorch.a\ttwo\tbackward\te\tz\ntorch.b\tone\tforward\te\tz\n";

static void test_choice(void **state)
{
    (void)state;
    struct plan_catalogue catalogue;
    struct campaign c = two_apis();
    struct err e;
    assert_int_equal(load(catalogue_text, &catalogue, &e), 0);
    struct plan p = {.campaign = &c};
    strings all = {0}, some = {0};
    assert_int_equal(plan_choose_cases(&p, &catalogue, &all, &e), 0);
    assert_int_equal(p.cases.len, 3);
    assert_string_equal(p.cases.ptr[0]->api, "torch.b"); /* the campaign's order of APIs */
    assert_int_equal(p.apis.len, 2);
    plan_free(&p);

    p = (struct plan){.campaign = &c};
    *vec_push(&some) = xstrdup("t*");
    assert_int_equal(plan_choose_cases(&p, &catalogue, &some, &e), 0);
    assert_int_equal(p.cases.len, 1);
    assert_string_equal(p.cases.ptr[0]->name, "two");
    assert_int_equal(p.apis.len, 1); /* an API without a chosen case is no cell */
    plan_free(&p);
    strings_free(&some);
    plan_catalogue_free(&catalogue);
    strings_free(&c.apis);
}

static void test_choice_errors(void **state)
{
    (void)state;
    struct plan_catalogue catalogue;
    struct campaign c = two_apis();
    struct err e;
    assert_int_equal(load(catalogue_text, &catalogue, &e), 0);
    struct plan p = {.campaign = &c};
    strings patterns = {0};
    *vec_push(&patterns) = xstrdup("three");
    assert_int_equal(plan_choose_cases(&p, &catalogue, &patterns, &e), -1);
    assert_string_equal(e.text, "c.yaml: no case matches 'three'");
    plan_free(&p);
    strings_free(&patterns);

    p = (struct plan){.campaign = &c};
    *vec_push(&c.apis) = xstrdup("torch.unheard_of");
    assert_int_equal(plan_choose_cases(&p, &catalogue, &patterns, &e), -1);
    assert_non_null(strstr(e.text, "c.yaml: no built-in case covers 'torch.unheard_of'"));
    plan_free(&p);
    plan_catalogue_free(&catalogue);
    strings_free(&c.apis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_catalogue_errors),
                                       cmocka_unit_test(test_shipped_catalogue),
                                       cmocka_unit_test(test_choice), cmocka_unit_test(test_choice_errors)};
    return cmocka_run_group_tests(tests, make_file, drop_file);
}
