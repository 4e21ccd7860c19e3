/* concord_apidocs.c - the layouts of reference documentation, answers per family, contradictions. */
#include "concord/apidocs/apidocs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char table[] = "# torch.a\n\n> [!NOTE]\n>\n> text\n\n"
                            "|API名称|NPU形式名称|是否支持|限制与说明|\n|--|--|--|--|\n"
                            "|[torch.a.one](https://x.invalid/1)|-|是|-|\n"
                            "|[torch.a.Two\\_b](https://x.invalid/2)|npu.two|是<br>暂不支持<term>Ascend "
                            "950DT</term>|支持fp32<br>否则报错|\n"
                            "|torch.a.three|-|否|-|\n"
                            "|rename_|-|是|-|\n";

static const char families[] =
    "# torch.b\n\n## base\n\n### <code><i>class</i></code> torch.b.Cls\n\n<div>\n\n"
    "**原生文档**：[torch.b.Cls](https://x.invalid/b.html#torch.b.Cls)\n\n**支持情况**：\n\n"
    "| 硬件 | 是否支持 |\n| ---- | :----: |\n| <term>Atlas A2 训练系列产品</term> | ✔ |\n"
    "| <term>Ascend 950DT</term> | ✘ |\n\n</div>\n\n> <font>m()</font>\n\n<div>\n\n"
    "**原生文档**：[Cls.m](https://x.invalid/b.html#torch.b.Cls.m)\n\n**支持情况**：\n\n"
    "| 硬件 | 是否支持 |\n| ---- | :----: |\n| <term>Atlas A2 训练系列产品</term> | &#10004; |\n\n"
    "**限制与说明**： 仅支持fp32\n\n</div>\n";

static const char html[] =
    "# API\n\n<table><thead><tr><th>API</th><th>C</th></tr></thead>\n"
    "<tbody><tr id=\"1\"><td a=\"b\"><p><a "
    "name=\"x\"></a>torch.c.one</p>\n</td>\n<td>Y</td><td>&nbsp;</td>\n</tr>\n"
    "<tr id=\"2\"><td>torch.c.two</td><td>&nbsp;&nbsp;</td><td>no</td></tr></tbody></table>\n";

static const struct doc_entry *entry(const struct doc_set *s, const char *api)
{
    for (size_t i = 0; i < s->entries.len; i++)
        if (!strcmp(s->entries.ptr[i].api, api)) return &s->entries.ptr[i];
    fail_msg("no entry %s", api);
    return NULL;
}

static void test_table(void **state)
{
    (void)state;
    struct doc_set s = {0};
    doc_read(&s, "t.md", table, strlen(table));
    assert_int_equal(s.entries.len, 4);
    const struct doc_entry *d = entry(&s, "torch.a.Two_b");
    assert_int_equal(d->line, 10);
    assert_string_equal(d->npu_name, "npu.two");
    assert_string_equal(d->note, "支持fp32; 否则报错");
    assert_int_equal(doc_answer(d, "Atlas A2"), DOC_YES);
    assert_int_equal(doc_answer(d, "Ascend 950DT"), DOC_NO);
    assert_int_equal(doc_answer(entry(&s, "torch.a.three"), "Atlas A2"), DOC_NO);
    assert_string_equal(entry(&s, "torch.a.one")->note, "");
    entry(&s, "rename_");
    doc_free(&s);
}

static void test_families(void **state)
{
    (void)state;
    struct doc_set s = {0};
    doc_read(&s, "f.md", families, strlen(families));
    assert_int_equal(s.entries.len, 2);
    const struct doc_entry *d = entry(&s, "torch.b.Cls");
    assert_int_equal(d->layout, DOC_FAMILIES);
    assert_int_equal(doc_answer(d, "Atlas A2"), DOC_YES);
    assert_int_equal(doc_answer(d, "Ascend 950DT"), DOC_NO);
    assert_int_equal(doc_answer(d, "Atlas A3"), DOC_UNSAID);
    d = entry(&s, "torch.b.Cls.m");
    assert_int_equal(doc_answer(d, "Atlas A2"), DOC_YES);
    assert_string_equal(d->note, "仅支持fp32");
    doc_free(&s);
}

static void test_html(void **state)
{
    (void)state;
    struct doc_set s = {0};
    doc_read(&s, "h.md", html, strlen(html));
    assert_int_equal(s.entries.len, 2);
    assert_int_equal(entry(&s, "torch.c.one")->support, DOC_YES);
    assert_int_equal(entry(&s, "torch.c.one")->line, 4);
    assert_int_equal(entry(&s, "torch.c.two")->support, DOC_NO);
    assert_string_equal(entry(&s, "torch.c.two")->note, "no");
    doc_free(&s);
}

static void test_verdicts(void **state)
{
    (void)state;
    struct doc_set s = {0};
    static const char again[] = "|API名称|是否支持|限制与说明|\n|--|--|--|\n|torch.a.one|否|-|\n";
    doc_read(&s, "t.md", table, strlen(table));
    const struct doc_entry *d;
    assert_int_equal(doc_check(&s, "torch.a.one", "Atlas A2", &d), DOC_SUPPORTED);
    assert_int_equal(doc_check(&s, "torch.a.three", "Atlas A2", &d), DOC_UNSUPPORTED);
    assert_int_equal(doc_check(&s, "torch.a.none", "Atlas A2", &d), DOC_MISSING);
    assert_null(d);
    doc_read(&s, "u.md", again, strlen(again));
    assert_int_equal(doc_check(&s, "torch.a.one", "Atlas A2", &d), DOC_CONTRADICTORY);
    doc_free(&s);
    struct err e;
    assert_int_equal(doc_load(&s, "/no/such/folder", NULL, "2.12.0", &e), -1);
    assert_int_equal(doc_load(&s, SOURCE_DIR "/tests/unit", NULL, "2.12.0", &e), -1);
    assert_non_null(strstr(e.text, "none in a known layout"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_html),
        cmocka_unit_test(test_verdicts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
