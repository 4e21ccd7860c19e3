/* concord_verdict.c - from the facts of a case to its verdict, one row a rule. */
#include "concord/run/verdict.h"
#include "concord/base/base.h"

#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define PROOF "'proof':{'launches':5,'memory_peak':512,'made':1,'on_device':2,'elsewhere':[],'fallbacks':[]}"
#define GOOD "'cpu':{'claims':[]},'device':{'claims':[]},'compared':3,'differences':[]," PROOF
#define ENDED "'exit':0,'signal':0,'timed_out':false,'ms':12,'phase':'exit','stack':'','output':''"

static const struct {
    const char *done; /* single quotes for double ones */
    enum device_kind kind;
    enum verdict verdict;
    const char *reason;
} rows[] = {
    {"{" ENDED ",'result':{" GOOD "}}", KIND_SOFTWARE, VERDICT_PASSED, ""},
    {"{" ENDED ",'result':{" GOOD "}}", KIND_HARDWARE, VERDICT_PASSED, ""},
    {"{" ENDED ",'result':{" GOOD "}}", KIND_NONE, VERDICT_NO_PROOF,
     "the worker has neither softnpu nor a board"},
    {"{'exit':-1,'signal':9,'timed_out':true,'ms':2500,'phase':'device','stack':'Current thread 0x1:\\n  "
     "File \"a.py\", "
     "line 3 in f\\n  File \"b.py\", line 4 in g','output':'','result':null}",
     KIND_SOFTWARE, VERDICT_TIMEOUT, "no end after 2.5 s, in phase 'device' at File \"a.py\", line 3 in f"},
    {"{'exit':-1,'signal':11,'timed_out':false,'ms':5,'phase':'device','stack':'','output':'','result':null}",
     KIND_SOFTWARE, VERDICT_CRASHED, "SIGSEGV in phase 'device'"},
    {"{'exit':-1,'signal':6,'phase':'device','stack':'','output':'E12: x\\nEZ9999: no "
     "Foo\\ny','result':null}",
     KIND_SOFTWARE, VERDICT_CRASHED, "SIGABRT in phase 'device': EZ9999: no Foo"},
    {"{'exit':70,'signal':0,'timed_out':false,'ms':5,'phase':'cpu','stack':'','output':'x\\nKeyError: "
     "y\\n','result':"
     "null}",
     KIND_SOFTWARE, VERDICT_ERROR, "exit status 70 in phase 'cpu': KeyError: y"},
    {"{'exit':0,'signal':0,'timed_out':false,'phase':'start','output':'','result':null}", KIND_SOFTWARE,
     VERDICT_ERROR, "exit status 0 in phase 'start'"},
    {"{" ENDED ",'result':{'skip':'not before 2.9','cpu':{}}}", KIND_SOFTWARE, VERDICT_SKIPPED,
     "not before 2.9"},
    {"{" ENDED ",'result':{'cpu':{'exception':{'type':'E','raw':'a\\nb','cause':''}}}}", KIND_SOFTWARE,
     VERDICT_ERROR, "the CPU twin raised E: a"},
    {"{" ENDED ",'result':{'cpu':{},'device':{'exception':{'type':'E','raw':'a\\nb','cause':'EZ9999: c'}}}}",
     KIND_SOFTWARE, VERDICT_ERROR, "the device raised E: EZ9999: c"},
    {"{" ENDED ",'result':{'cpu':{'claims':['p']},'device':{'claims':['p']},'compared':1}}", KIND_SOFTWARE,
     VERDICT_ERROR, "does not hold on the CPU either: p"},
    {"{" ENDED ",'result':{'cpu':{},'device':{},'compared':4,'differences':['a','b','c','d']," PROOF "}}",
     KIND_SOFTWARE, VERDICT_FAILED, "a; b; c; and 1 more"},
    {"{" ENDED ",'result':{'cpu':{},'device':{'claims':['p']},'compared':4,'differences':[]," PROOF "}}",
     KIND_SOFTWARE, VERDICT_FAILED, "does not hold: p"},
    {"{" ENDED ",'result':{'cpu':{},'device':{},'compared':0,'differences':[]," PROOF "}}", KIND_SOFTWARE,
     VERDICT_ERROR, "the case compared nothing"},
    {"{" ENDED
     ",'result':{'compared':1,'differences':[],'proof':{'launches':5,'memory_peak':9,'made':1,'on_device':1,"
     "'fallbacks':['aten::foo']}}}",
     KIND_SOFTWARE, VERDICT_NO_PROOF, "fell back to the CPU: aten::foo"},
    /* forced to the CPU: everything agrees, nothing is on the device */
    {"{" ENDED
     ",'result':{'compared':1,'differences':[],'proof':{'launches':0,'memory_peak':0,'made':0,'on_device':0,"
     "'elsewhere':['out is on cpu, not on npu:0'],'fallbacks':[]}}}",
     KIND_SOFTWARE, VERDICT_NO_PROOF, "no tensor of the case was on the device"},
    {"{" ENDED
     ",'result':{'compared':1,'differences':[],'proof':{'launches':3,'memory_peak':8,'made':1,'on_device':0,"
     "'elsewhere':['out is on cpu, not on npu:0'],'fallbacks':[]}}}",
     KIND_SOFTWARE, VERDICT_FAILED, "out is on cpu, not on npu:0"},
    {"{" ENDED
     ",'result':{'compared':1,'differences':[],'proof':{'launches':0,'memory_peak':8,'made':1,'on_device':1,"
     "'fallbacks':[]}}}",
     KIND_SOFTWARE, VERDICT_NO_PROOF, "no operator was launched on the device"},
    {"{" ENDED
     ",'result':{'compared':1,'differences':[],'proof':{'launches':0,'memory_peak':8,'made':1,'on_device':1,"
     "'fallbacks':[]}}}",
     KIND_HARDWARE, VERDICT_PASSED, ""},
    {"{" ENDED
     ",'result':{'compared':1,'differences':[],'proof':{'launches':2,'memory_peak':0,'made':1,'on_device':1,"
     "'fallbacks':[]}}}",
     KIND_HARDWARE, VERDICT_NO_PROOF, "no device memory was in use"},
};

/* In a row ' stands for " and " for an escaped one. */
static json_t *parse(const char *quoted)
{
    struct buf b = BUF_INIT;
    for (const char *p = quoted; *p; p++) {
        if (*p == '"') buf_addc(&b, '\\');
        buf_addc(&b, *p == '\'' ? '"' : *p);
    }
    json_error_t error;
    json_t *value = json_loads(buf_str(&b), 0, &error);
    if (!value) fail_msg("%s in %s", error.text, buf_str(&b));
    buf_free(&b);
    return value;
}

static void test_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *done = parse(rows[i].done);
        struct judgement j = verdict_judge(done, rows[i].kind);
        assert_string_equal(j.reason, rows[i].reason);
        assert_string_equal(verdict_name(j.verdict), verdict_name(rows[i].verdict));
        free(j.reason);
        json_decref(done);
    }
}

static void test_names(void **state)
{
    (void)state;
    for (int v = 0; v < VERDICT_COUNT; v++) assert_int_equal(verdict_parse(verdict_name((enum verdict)v)), v);
    assert_int_equal(verdict_parse("GREEN"), VERDICT_ERROR);
}

static void test_cells(void **state)
{
    (void)state;
    int none[VERDICT_COUNT] = {0};
    assert_int_equal(verdict_of_cell(none), VERDICT_NOT_RUN);
    for (int v = 0; v < VERDICT_COUNT; v++) {
        int counts[VERDICT_COUNT] = {[VERDICT_PASSED] = 20};
        counts[v]++;
        bool harmless = v == VERDICT_SKIPPED || v == VERDICT_XFAIL;
        assert_int_equal(verdict_of_cell(counts), harmless ? VERDICT_PASSED : v);
        int alone[VERDICT_COUNT] = {0};
        alone[v] = 1;
        assert_int_equal(verdict_of_cell(alone), v);
    }
    int both[VERDICT_COUNT] = {[VERDICT_FAILED] = 9, [VERDICT_CRASHED] = 1};
    assert_int_equal(verdict_of_cell(both), VERDICT_CRASHED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules), cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_cells)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
