/* concord_suite.c - tests of concord/suite: names, filters, verdicts, expectations, reports, the journal
 * under faults. */
#include "concord/suite/expect.h"
#include "concord/suite/filter.h"
#include "concord/suite/judge.h"
#include "concord/suite/merge.h"
#include "concord/suite/render.h"
#include "concord/suite/shard.h"
#include "concord/suite/store.h"
#include "concord/suite/twin.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/concord-suite-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return tree_remove(folder, NULL);
}

static struct suite_run new_run(void)
{
    struct suite_run r = {0};
    char **texts[] = {&r.name,     &r.command, &r.options, &r.version, &r.started,
                      &r.finished, &r.shard,   &r.env,     &r.lock};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) *texts[i] = xstrdup("");
    r.release = xstrdup("2.12.0");
    r.kind = KIND_SOFTWARE;
    return r;
}

static struct suite_unit *new_unit(struct suite_run *r, enum side side, const char *name)
{
    struct suite_unit *u = suite_unit_new(r);
    u->side = side;
    u->name = xstrdup(name);
    u->suite = xstrdup("pytest");
    u->digest = xstrdup("");
    u->error = xstrdup("");
    u->spec = json_object();
    return u;
}

static struct suite_case *done_case(struct suite_unit *u, const char *node, enum verdict v,
                                    const char *reason)
{
    struct suite_case *c = suite_case_new(u, node);
    c->state = TEST_DONE;
    c->verdict = v;
    c->attempts = 1;
    free(c->reason);
    c->reason = xstrdup(reason);
    return c;
}

/* ---- names and twins -------------------------------------------------------------------------------------
 */

static void twin_keys(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"TestNNDeviceTypeCPU::test_a_cpu_float32",
         "TestNNDeviceTypePRIVATEUSE1::test_a_privateuse1_float32"},
        {"TestX::test_b_npu", "TestX::test_b_cpu"},
        {"TestX::test_c[npu:0]", "TestX::test_c[cpu]"},
        {"TestAutogradDeviceTypeNPU::test_d", "TestAutogradDeviceTypeCPU::test_d"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char *a = suite_twin_key(same[i][0]), *b = suite_twin_key(same[i][1]);
        assert_string_equal(a, b);
        free(a);
        free(b);
    }
    char *other = suite_twin_key("TestInput::test_cpuinfo");
    assert_string_equal(other, "TestInput::test_cpuinfo"); /* a word that only begins like a device */
    free(other);
}

static void twins_compare(void **state)
{
    (void)state;
    struct suite_run r = new_run();
    struct suite_unit *d = new_unit(&r, SIDE_DEVICE, "t.py"), *c = new_unit(&r, SIDE_CPU, "t.py");
    done_case(d, "a_npu", VERDICT_PASSED, "");
    done_case(c, "a_cpu", VERDICT_PASSED, "");
    done_case(d, "b", VERDICT_FAILED, "x");
    done_case(c, "b", VERDICT_PASSED, "");
    done_case(d, "c", VERDICT_SKIPPED, "x");
    done_case(c, "c", VERDICT_PASSED, "");
    done_case(c, "d", VERDICT_PASSED, "");
    done_case(d, "e", VERDICT_NO_PROOF, "x");
    done_case(c, "e", VERDICT_PASSED, "");
    json_t *all = twin_json(&r), *counts = json_object_get(json_object_get(all, "t.py"), "counts");
    assert_int_equal(json_integer_value(json_object_get(counts, twin_text(TWIN_SAME))), 1);
    assert_int_equal(json_integer_value(json_object_get(counts, twin_text(TWIN_DEVICE_FAILS))), 1);
    assert_int_equal(json_integer_value(json_object_get(counts, twin_text(TWIN_DEVICE_SKIPS))), 1);
    assert_int_equal(json_integer_value(json_object_get(counts, twin_text(TWIN_CPU_ONLY))), 1);
    assert_int_equal(json_integer_value(json_object_get(counts, twin_text(TWIN_UNPROVED))), 1);
    json_decref(all);
    suite_run_free(&r);
}

/* ---- filters ---------------------------------------------------------------------------------------------
 */

static void filters(void **state)
{
    (void)state;
    struct suite_run r = new_run();
    struct suite_case *c = done_case(new_unit(&r, SIDE_DEVICE, "nn/test_conv.py"), "TestA::test_conv[1]",
                                     VERDICT_NO_PROOF, "it fell");
    c->ms = 120;
    static const struct {
        const char *text;
        bool match;
    } rows[] = {
        {"conv", true},
        {"not conv", false},
        {"file=nn/*.py and ms>100", true},
        {"file=nn/*.py and ms>=121", false},
        {"verdict=NO_PROOF", true},
        {"verdict!=NO_PROOF or reason~fell", true},
        {"(verdict=FAILED or verdict=NO_PROOF) and not (side=cpu)", true},
        {"reason='it fell'", true},
        {"node=TestA::*", true},
        {"node!~conv", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err e;
        struct filter *f = filter_parse(rows[i].text, &e);
        assert_non_null(f);
        assert_int_equal(filter_match(f, c), rows[i].match);
        filter_free(f);
    }
    static const char *const bad[] = {"",         "and",    "name~", "(a", "a b", "sise=1",
                                      "ms=quick", "name<3", "ms~3",  "'a", "not"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err e = {""};
        struct filter *f = filter_parse(bad[i], &e);
        if (f) fail_msg("'%s' was accepted", bad[i]);
        assert_non_null(strstr(e.text, "column"));
    }
    suite_run_free(&r);
}

/* ---- verdicts --------------------------------------------------------------------------------------------
 */

static void judgements(void **state)
{
    (void)state;
    static const struct {
        const char *answer;
        enum verdict v;
        const char *reason;
        bool lost;
    } rows[] = {
        {"{'exit':0,'result':{'outcome':'passed','proof':{'launches':2}}}", VERDICT_PASSED, "", false},
        {"{'exit':0,'result':{'outcome':'passed','proof':{}}}", VERDICT_NO_PROOF, "nothing was executed",
         false},
        {"{'exit':0,'result':{'outcome':'passed','proof':{'launches':2},'fallbacks':['aten::x']}}",
         VERDICT_NO_PROOF, "fell back to the CPU: aten::x", false},
        {"{'exit':0,'result':{'outcome':'failed','reason':'no'}}", VERDICT_FAILED, "no", false},
        {"{'exit':0,'result':{'outcome':'skipped','reason':'why'}}", VERDICT_SKIPPED, "why", false},
        {"{'exit':0,'result':{'outcome':'passed','healthy':false}}", VERDICT_ERROR, "left the device broken",
         false},
        {"{'exit':0,'result':{'outcome':'odd'}}", VERDICT_ERROR, "unknown outcome", false},
        {"{'exit':0,'output':'x\\nlast\\n'}", VERDICT_ERROR, "status 0: last", false},
        {"{'exit':3,'result':{'outcome':'passed','proof':{'launches':2}}}", VERDICT_ERROR, "status 3", false},
        {"{'exit':-1,'signal':9}", VERDICT_CRASHED, "SIGKILL", true},
        {"{'exit':-1,'signal':11,'result':{'outcome':'passed','proof':{'launches':1}}}", VERDICT_CRASHED,
         "SIGSEGV after the test", false},
        {"{'exit':-1,'signal':6,'stack':'C stack (innermost first):\\n/l/libc.so.6(gsignal+0x1)[0x1]\\n"
         "/l/libx.so(op_add+0x2)[0x2]\\nend of C stack\\nCurrent thread 0x1\\n  File \\\"a.py\\\", line 3 in "
         "f\\n'}",
         VERDICT_CRASHED, "SIGABRT in op_add (libx.so) at File \"a.py\", line 3 in f", false},
        {"{'exit':-1,'signal':9,'limit':'timeout','ms':2000}", VERDICT_TIMEOUT, "no end after 2.0 s", false},
        {"{'exit':-1,'signal':9,'limit':'memory'}", VERDICT_ERROR, "more than 7 MiB of memory", false},
        {"{'exit':-1,'signal':9,'limit':'output'}", VERDICT_ERROR, "more than 8 MiB of output", false},
        {"{'exit':-1,'signal':9,'limit':'processes'}", VERDICT_ERROR, "more than 9 processes", false},
    };
    struct judge_context x = {
        .proof = true, .kind = KIND_SOFTWARE, .memory_mib = 7, .output_mib = 8, .processes = 9};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = xstrdup(rows[i].answer);
        for (char *p = text; *p; p++)
            if (*p == '\'') *p = '"';
        json_t *answer = json_loads(text, 0, NULL);
        assert_non_null(answer);
        struct test_judgement j = judge_test(&x, answer);
        if (j.verdict != rows[i].v || !strstr(j.reason, rows[i].reason) || j.lost != rows[i].lost)
            fail_msg("%s: %s '%s'", text, verdict_name(j.verdict), j.reason);
        free(j.reason);
        json_decref(answer);
        free(text);
    }
    x.kind = KIND_HARDWARE; /* counts no launches; memory is the proof there */
    json_t *answer =
        json_loads("{\"exit\":0,\"result\":{\"outcome\":\"passed\",\"proof\":{\"memory_peak\":1}}}", 0, NULL);
    struct test_judgement j = judge_test(&x, answer);
    assert_int_equal(j.verdict, VERDICT_PASSED);
    free(j.reason);
    json_decref(answer);
}

/* Nothing executed, or nothing passed, is no success. */
static void status_of_nothing(void **state)
{
    (void)state;
    struct suite_run r = new_run();
    assert_int_equal(suite_status(&r), EXIT_FINDINGS);
    struct suite_unit *u = new_unit(&r, SIDE_DEVICE, "t.py");
    struct suite_case *c = done_case(u, "a", VERDICT_SKIPPED, "why");
    assert_int_equal(suite_status(&r), EXIT_FINDINGS);
    c->verdict = VERDICT_XFAIL;
    assert_int_equal(suite_status(&r), EXIT_FINDINGS);
    done_case(u, "b", VERDICT_PASSED, "");
    assert_int_equal(suite_status(&r), EXIT_OK);
    done_case(u, "c", VERDICT_NO_PROOF, "x");
    assert_int_equal(suite_status(&r), EXIT_FINDINGS);
    suite_run_free(&r);
}

/* ---- expectations ----------------------------------------------------------------------------------------
 */

static void load_expectations(const char *text, struct expectations *x, struct err *e, int want)
{
    char *path = path_join(folder, "expect.txt");
    assert_int_equal(file_write(path, text, strlen(text), 0, NULL), 0);
    assert_int_equal(expect_load(path, true, x, e), want);
    free(path);
}

static void expectations(void **state)
{
    (void)state;
    struct expectations x;
    struct err e;
    load_expectations(
        "# known\nt.py::a* FAILED 2.12.0 software #7 adds wrongly\nt.py::b NO_PROOF - - - stays on the CPU\n",
        &x, &e, 0);
    struct suite_run r = new_run();
    struct suite_unit *u = new_unit(&r, SIDE_DEVICE, "t.py");
    struct suite_case *a = done_case(u, "a1", VERDICT_FAILED, "2 != 3"),
                      *b = done_case(u, "b", VERDICT_PASSED, "");
    struct suite_case *c = done_case(u, "a2", VERDICT_CRASHED, "SIGSEGV");
    expect_apply(&x, &r, a);
    expect_apply(&x, &r, b);
    expect_apply(&x, &r, c);
    assert_int_equal(a->verdict, VERDICT_XFAIL);
    assert_non_null(strstr(a->reason, "#7: adds wrongly"));
    assert_int_equal(b->verdict, VERDICT_XPASS);
    assert_int_equal(c->verdict,
                     VERDICT_CRASHED); /* another failure than the expected one is no expected failure */
    int added, removed;
    assert_int_equal(expect_update(&x, &r, &added, &removed, &e), 0);
    assert_int_equal(added, 1);
    assert_int_equal(removed, 1);
    expect_free(&x);
    load_expectations("t.py::a PASSED - - - x\n", &x, &e, -1);
    assert_non_null(strstr(e.text, "expect.txt:1: 'PASSED' is no verdict"));
    load_expectations("\nt.py::a FAILED -\n", &x, &e, -1);
    assert_non_null(strstr(e.text, "expect.txt:2:"));
    load_expectations("t.py::a FAILED - - -\n", &x, &e, -1);
    assert_non_null(strstr(e.text, "a reason is missing"));
    suite_run_free(&r);
}

/* ---- reports ---------------------------------------------------------------------------------------------
 */

static void reports(void **state)
{
    (void)state;
    struct suite_run r = new_run();
    struct suite_unit *u = new_unit(&r, SIDE_DEVICE, "a,b.py");
    done_case(u, "t[<&\">]", VERDICT_FAILED, "50% <x>\nmore");
    struct buf b = BUF_INIT;
    render_junit(&r, &b);
    assert_non_null(strstr(b.ptr, "name=\"t[&lt;&amp;&quot;&gt;]\""));
    assert_non_null(strstr(b.ptr, "failures=\"1\""));
    buf_clear(&b);
    render_annotations(&r, &b);
    assert_string_equal(b.ptr, "::error file=a%2Cb.py,title=FAILED t[<&\">]::50%25 <x>%0Amore\n");
    buf_free(&b);
    suite_run_free(&r);
}

static void shards(void **state)
{
    (void)state;
    int part, parts;
    struct err e;
    assert_int_equal(shard_parse("2/5", &part, &parts, &e), 0);
    assert_int_equal(part + 10 * parts, 52);
    static const char *const bad[] = {"0/5", "6/5", "1/0", "1", "/2", "1/", "a/b", "1/2x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(shard_parse(bad[i], &part, &parts, &e), -1);
}

/* ---- the journal under faults ----------------------------------------------------------------------------
 */

/* A file system that fails the Nth of the calls that change a file, and every one after it, as a full disk
 * does. */
static sqlite3_vfs *real_vfs;
static sqlite3_vfs faulty_vfs;
static int calls, fail_at, fail_code;

struct faulty_file {
    sqlite3_file base;
    sqlite3_io_methods methods;
    const sqlite3_io_methods *real;
    /* the real file follows */
};
static sqlite3_file *inner(sqlite3_file *f)
{
    return (sqlite3_file *)((struct faulty_file *)f + 1);
}
static bool fails(void)
{
    return fail_at && ++calls >= fail_at;
}
static int faulty_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    return fails() ? fail_code : inner(f)->pMethods->xWrite(inner(f), p, n, at);
}
/* The disk itself is not waited for: what is tested is the order of writes and errors. */
static int faulty_sync(sqlite3_file *f, int flags)
{
    (void)f;
    (void)flags;
    return fails() ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}
static int faulty_truncate(sqlite3_file *f, sqlite3_int64 n)
{
    return fails() ? fail_code : inner(f)->pMethods->xTruncate(inner(f), n);
}
#define PASS(name, parameters, arguments)                                                                    \
    static int pass_##name parameters                                                                        \
    {                                                                                                        \
        return inner(f)->pMethods->name arguments;                                                           \
    }
PASS(xClose, (sqlite3_file * f), (inner(f)))
PASS(xRead, (sqlite3_file * f, void *p, int n, sqlite3_int64 at), (inner(f), p, n, at))
PASS(xFileSize, (sqlite3_file * f, sqlite3_int64 *n), (inner(f), n))
PASS(xLock, (sqlite3_file * f, int k), (inner(f), k))
PASS(xUnlock, (sqlite3_file * f, int k), (inner(f), k))
PASS(xCheckReservedLock, (sqlite3_file * f, int *k), (inner(f), k))
PASS(xFileControl, (sqlite3_file * f, int op, void *p), (inner(f), op, p))
PASS(xSectorSize, (sqlite3_file * f), (inner(f)))
PASS(xDeviceCharacteristics, (sqlite3_file * f), (inner(f)))
PASS(xShmMap, (sqlite3_file * f, int page, int size, int extend, void volatile **p),
     (inner(f), page, size, extend, p))
PASS(xShmLock, (sqlite3_file * f, int offset, int n, int flags), (inner(f), offset, n, flags))
PASS(xShmUnmap, (sqlite3_file * f, int del), (inner(f), del))
static void pass_xShmBarrier(sqlite3_file *f)
{
    inner(f)->pMethods->xShmBarrier(inner(f));
}

static int faulty_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out)
{
    (void)v;
    struct faulty_file *x = (struct faulty_file *)f;
    f->pMethods = NULL;
    int rc = real_vfs->xOpen(real_vfs, name, inner(f), flags, out);
    if (rc) return rc;
    x->methods = (sqlite3_io_methods){.iVersion = 2,
                                      .xClose = pass_xClose,
                                      .xRead = pass_xRead,
                                      .xWrite = faulty_write,
                                      .xTruncate = faulty_truncate,
                                      .xSync = faulty_sync,
                                      .xFileSize = pass_xFileSize,
                                      .xLock = pass_xLock,
                                      .xUnlock = pass_xUnlock,
                                      .xCheckReservedLock = pass_xCheckReservedLock,
                                      .xFileControl = pass_xFileControl,
                                      .xSectorSize = pass_xSectorSize,
                                      .xDeviceCharacteristics = pass_xDeviceCharacteristics,
                                      .xShmMap = pass_xShmMap,
                                      .xShmLock = pass_xShmLock,
                                      .xShmBarrier = pass_xShmBarrier,
                                      .xShmUnmap = pass_xShmUnmap};
    f->pMethods = &x->methods;
    return rc;
}

static void use_faulty(void)
{
    real_vfs = sqlite3_vfs_find(NULL);
    faulty_vfs = *real_vfs;
    faulty_vfs.zName = "faulty";
    faulty_vfs.szOsFile = (int)sizeof(struct faulty_file) + real_vfs->szOsFile;
    faulty_vfs.xOpen = faulty_open;
    sqlite3_vfs_register(&faulty_vfs, 1);
}

enum { CASES = 12 };

/* Runs 12 cases; returns how many transitions were reported as durable before an error, in *complete whether
 * all were. */
static int run_until_fault(const char *path, bool *complete)
{
    struct store s;
    struct suite_run r = new_run();
    struct suite_unit *u = new_unit(&r, SIDE_DEVICE, "t.py");
    int durable = 0;
    bool ok = !store_open(&s, path, false, NULL);
    bool opened = ok;
    ok = ok && !store_begin(&s, &r, NULL);
    for (int i = 0; ok && i < CASES; i++) {
        char node[16];
        snprintf(node, sizeof node, "case%d", i);
        ok = !store_new_case(&s, suite_case_new(u, node), NULL);
    }
    ok = ok && !store_commit(&s, NULL);
    for (int i = 0; ok && i < CASES; i++) {
        struct suite_case *c = u->cases.ptr[i];
        c->state = TEST_DONE;
        c->verdict = VERDICT_PASSED;
        c->attempts = 1;
        c->output = xstrdup("some output");
        ok = !store_case(&s, c, NULL) && !store_output(&s, c, NULL) && !store_commit(&s, NULL);
        durable += ok;
    }
    if (opened) store_close(&s);
    suite_run_free(&r);
    *complete = ok;
    return durable;
}

static int done_in(const char *path)
{
    struct store s;
    struct suite_run r;
    int64_t last = 0;
    if (store_open_readonly(&s, path, NULL)) return 0; /* the fault was before there was a schema */
    int done = 0;
    if (!store_last(&s, &last, NULL) && last) {
        assert_int_equal(store_load(&s, last, &r, NULL), 0);
        struct suite_counts n;
        suite_count(&r, NULL, SIDE_DEVICE, &n);
        done = n.by[VERDICT_PASSED];
        suite_run_free(&r);
    }
    store_close(&s);
    return done;
}

/* Fail the first call that changes a file, then the second, ... until a run meets none: whatever was reported
 * is there. */
static void nothing_reported_is_lost(void **state)
{
    (void)state;
    static const int codes[] = {SQLITE_FULL, SQLITE_IOERR_WRITE, SQLITE_READONLY};
    use_faulty();
    for (size_t k = 0; k < sizeof codes / sizeof *codes; k++) {
        bool complete = false;
        fail_code = codes[k];
        int tried = 0;
        for (int n = 1; !complete; n++) {
            char *path = xformat("%s/fault-%zu-%d.db", folder, k, n);
            fail_at = n;
            calls = 0;
            int durable = run_until_fault(path, &complete);
            fail_at = 0;
            assert_true(done_in(path) >= durable);
            tried = n;
            free(path);
        }
        assert_true(tried > CASES); /* faults were met */
    }
    sqlite3_vfs_register(real_vfs, 1);
    sqlite3_vfs_unregister(&faulty_vfs);
}

static void journals(void **state)
{
    (void)state;
    char *path = path_join(folder, "a.db"), *merged = path_join(folder, "merged.db");
    bool complete;
    struct store s, second;
    struct err e;
    assert_int_equal(run_until_fault(path, &complete), CASES);
    assert_int_equal(store_open(&s, path, false, &e), 0);
    assert_int_equal(store_open(&second, path, false, &e), -1); /* one writer at a time */
    assert_non_null(strstr(e.text, "another run"));
    assert_int_equal(sql_exec(&s.sql, "PRAGMA user_version=999", &e), 0);
    store_close(&s);
    assert_int_equal(store_open_readonly(&s, path, &e), -1);
    assert_non_null(strstr(e.text, "version 999"));
    unlink(path);
    run_until_fault(path, &complete);
    strings from = {0};
    *vec_push(&from) = xstrdup(path);
    *vec_push(&from) = xstrdup(path);
    assert_int_equal(merge_journals(merged, &from, &e), -1); /* the same test twice */
    assert_non_null(strstr(e.text, "is in another"));
    assert_false(path_exists(merged));
    from.len = 1;
    assert_int_equal(merge_journals(merged, &from, &e), 0);
    assert_int_equal(done_in(merged), CASES);
    from.len = 2;
    strings_free(&from);
    free(path);
    free(merged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twin_keys),
        cmocka_unit_test(twins_compare),
        cmocka_unit_test(filters),
        cmocka_unit_test(judgements),
        cmocka_unit_test(expectations),
        cmocka_unit_test(reports),
        cmocka_unit_test(shards),
        cmocka_unit_test(journals),
        cmocka_unit_test(status_of_nothing),
        cmocka_unit_test(nothing_reported_is_lost),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
