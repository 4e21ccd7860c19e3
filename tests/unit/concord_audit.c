/* concord_audit.c - the audit: every rule on a fixture that breaks it and one that does not, branches,
 * baselines, renderings. */
#include "tests/unit/patch_util.h"

#include "tests/unit/patch_folder.h"

#include "concord/audit/audit.h"

#include <jansson.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD                                                                                                 \
    "diff --git a/test/test_t.py b/test/test_t.py\nindex 5ad3c1e0..9b1f07d4 100644\n--- "                    \
    "a/test/test_t.py\n+++ b/test/test_t.py\n"
#define HUNK "@@ -1,4 +1,4 @@\n import torch_npu\n-a\n+b\n c\n d\n"

static bool bad_seen[RULE_COUNT], good_seen[RULE_COUNT];

static void audit_text(struct slice text, const char *name, struct source *upstream, struct findings *out)
{
    struct err e;
    char *dir = path_join(folder, "p/test"), *path = path_join(dir, name);
    assert_int_equal(dir_make(dir, &e), 0);
    assert_int_equal(file_write(path, text.ptr, text.len, 0, &e), 0);
    strings paths = {0};
    *vec_push(&paths) = path;
    struct audit_options o = {.upstream = upstream, .least = SEVERITY_NOTE};
    assert_int_equal(audit_patches(&paths, &o, out, &e), 0);
    strings_free(&paths);
    free(dir);
}

static size_t count(const struct findings *f, const char *rule)
{
    size_t n = 0;
    for (size_t i = 0; i < f->list.len; i++) n += !strcmp(f->list.ptr[i].rule->name, rule);
    return n;
}

static void expect(struct slice text, const char *name, struct source *upstream, const char *rule, bool found)
{
    struct findings f = {0};
    audit_text(text, name, upstream, &f);
    const struct rule *r = rule_named(rule);
    assert_non_null(r);
    if ((count(&f, rule) > 0) != found)
        fail_msg("%s: %s in\n%.*s", rule, found ? "not found" : "found", SLICE_FMT(text));
    (found ? bad_seen : good_seen)[r - rules] = true;
    audit_findings_free(&f);
}

static void expect_str(const char *text, const char *rule, bool found)
{
    expect(slice_str(text), "test_t.py.patch", NULL, rule, found);
}

/* ---- fixtures ---------------------------------------------------------------------------------------- */

static void make_patch(const char *body, struct buf *out)
{
    unsigned old = 3, new = 3;
    for (const char *at = body; *at; at = strchr(at, '\n') + 1) {
        old += *at == ' ' || *at == '-';
        new += *at == ' ' || *at == '+';
    }
    buf_addf(out, HEAD "@@ -1,%u +1,%u @@\n%s \n # after\n # after\n", old, new, body);
}

static void fixtures_of_the_meaning_rules(void **state)
{
    (void)state;
    struct buf text = BUF_INIT, body = BUF_INIT, patch = BUF_INIT;
    struct err e;
    assert_int_equal(file_read(SOURCE_DIR "/tests/fixtures/audit/meaning.txt", &text, &e), 0);
    char rule[64] = "", kind[8] = "";
    size_t cases = 0;
    buf_adds(&text, "== end\n");
    for (char *rest = text.ptr, *line; (line = strsep(&rest, "\n"));) {
        if (strncmp(line, "== ", 3)) {
            if (*rule && rest) buf_addf(&body, "%s\n", *line ? line : " ");
            continue;
        }
        if (*rule) {
            make_patch(buf_str(&body), &patch);
            expect(slice_of(&patch), "test_t.py.patch", NULL, rule, !strcmp(kind, "bad"));
            cases++;
        }
        buf_clear(&body);
        buf_clear(&patch);
        if (sscanf(line, "== %63s %7s", rule, kind) != 2) break;
    }
    assert_true(cases > 60);
    buf_free(&text), buf_free(&body), buf_free(&patch);
}

/* ---- format ------------------------------------------------------------------------------------------ */

static const struct {
    const char *rule, *text;
} format_bad[] = {
    {"hunk-outside-file", HUNK HEAD HUNK},
    {"stray-text", "subject\n" HEAD HUNK},
    {"trailing-text", HEAD HUNK "\n"},
    {"no-file", "hello\n"},
    {"hunk-header", HEAD "@@ -1,4 +1,04 @@\n a\n"},
    {"hunk-count", HEAD "@@ -1,4 +1,5 @@\n-a\n+b\n c\n d\n e\n"},
    {"hunk-order", HEAD "@@ -5,2 +5,2 @@\n-a\n+b\n c\n@@ -1,2 +1,2 @@\n-x\n+y\n z\n"},
    {"hunk-new-start", HEAD "@@ -1,2 +1,3 @@\n-a\n+b\n+b\n c\n@@ -9,2 +9,2 @@\n-x\n+y\n z\n"},
    {"hunk-noop", HEAD "@@ -1,2 +1,2 @@\n-a\n+a\n c\n"},
    {"hunk-duplicate", HEAD HUNK HUNK},
    {"hunk-no-context", HEAD "@@ -3 +3 @@\n-a\n+b\n"},
    {"context-stripped", HEAD "@@ -1,3 +1,3 @@\n-a\n+b\n\n c\n"},
    {"cr-line-ends",
     "diff --git a/f b/f\r\nindex 5ad3..9b1f\r\n--- a/f\r\n+++ b/f\r\n@@ -1,2 +1,2 @@\r\n-a\r\n+b\r\n c\r\n"},
    {"byte-order-mark", "\xef\xbb\xbf" HEAD HUNK},
    {"no-final-newline", HEAD "@@ -1,2 +1,2 @@\n-a\n+b\n c"},
    {"no-index", "--- a/f\n+++ b/f\n" HUNK},
    {"index-malformed", "diff --git a/f b/f\nindex xyz..1234\n--- a/f\n+++ b/f\n" HUNK},
    {"header-incomplete", "diff --git a/f b/f\nindex 5ad3..9b1f\n--- a/f\n" HUNK},
    {"header-paths", "diff --git a/f b/f\nindex 5ad3..9b1f\n--- a/g\n+++ b/f\n" HUNK},
    {"header-prefix", "diff --git a/f b/f\nindex 5ad3..9b1f\n--- f\n+++ b/f\n" HUNK},
    {"path-traversal", "--- a/x/../../f\n+++ b/x/../../f\n" HUNK},
    {"path-absolute", "--- /etc/passwd\n+++ /etc/passwd\n" HUNK},
    {"target-twice", HEAD HUNK HEAD HUNK},
    {"symlink", "diff --git a/f b/f\nnew file mode 120000\nindex 0000..9b1f\n--- /dev/null\n+++ b/f\n@@ -0,0 "
                "+1 @@\n+x\n"},
    {"binary", "diff --git a/f b/f\nindex 5ad3..9b1f 100644\nBinary files a/f and b/f differ\n"},
    {"rename", "diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to g\n"},
    {"copy", "diff --git a/f b/g\nsimilarity index 100%\ncopy from f\ncopy to g\n"},
    {"mode-change", "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n"},
    {"file-deleted", "diff --git a/f b/f\ndeleted file mode 100644\nindex 5ad3..0000\n--- a/f\n+++ "
                     "/dev/null\n@@ -1 +0,0 @@\n-x\n"},
    {"file-created", "diff --git a/f b/f\nnew file mode 100644\nindex 0000..5ad3\n--- /dev/null\n+++ b/f\n@@ "
                     "-0,0 +1 @@\n+x\n"},
    {"id-fabricated", "diff --git a/test/test_t.py b/test/test_t.py\nindex 1111111..2222222 100644\n--- "
                      "a/test/test_t.py\n+++ b/test/test_t.py\n" HUNK},
    {"id-fabricated", "diff --git a/test/test_t.py b/test/test_t.py\nindex 1234567..9b1f07d 100644\n--- "
                      "a/test/test_t.py\n+++ b/test/test_t.py\n" HUNK},
    {"target-name", "diff --git a/test/other.py b/test/other.py\nindex 5ad3..9b1f\n--- a/test/other.py\n+++ "
                    "b/test/other.py\n" HUNK},
    {"tab-added", HEAD "@@ -1,3 +1,4 @@\n a\n+\tb\n c\n d\n"},
    {"torch-and-tests", HEAD HUNK
     "diff --git a/torch/x.py b/torch/x.py\nindex 5ad3..9b1f\n--- a/torch/x.py\n+++ b/torch/x.py\n" HUNK},
};

static void format_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof format_bad / sizeof *format_bad; i++) {
        expect_str(format_bad[i].text, format_bad[i].rule, true);
        expect_str(HEAD HUNK, format_bad[i].rule, false);
    }
    static const char nul[] = HEAD "@@ -1,2 +1,2 @@\n-a\0\n+b\n c\n";
    expect((struct slice){nul, sizeof nul - 1}, "test_t.py.patch", NULL, "nul-byte", true);
    expect_str(HEAD HUNK, "nul-byte", false);
}

static void clean_input_gives_nothing(void **state)
{
    (void)state;
    struct findings f = {0};
    audit_text(slice_str(HEAD HUNK), "test_t.py.patch", NULL, &f);
    if (f.list.len) fail_msg("%s: %s", f.list.ptr[0].rule->name, f.list.ptr[0].message);
    audit_findings_free(&f);
}

static void two_patches_for_one_target(void **state)
{
    (void)state;
    struct err e;
    struct findings f = {0};
    strings paths = {0};
    char *dir = path_join(folder, "two/test");
    assert_int_equal(dir_make(dir, &e), 0);
    for (int i = 0; i < 2; i++) {
        *vec_push(&paths) = path_join(dir, i ? "test_t.diff" : "test_t.py.patch");
        assert_int_equal(file_write(paths.ptr[i], HEAD HUNK, strlen(HEAD HUNK), 0, &e), 0);
    }
    struct audit_options o = {.least = SEVERITY_NOTE};
    assert_int_equal(audit_patches(&paths, &o, &f, &e), 0);
    assert_int_equal(count(&f, "target-shared"), 1);
    bad_seen[RULE_target_shared] = good_seen[RULE_target_shared] = true;
    audit_findings_free(&f);
    strings_free(&paths);
    free(dir);
}

/* One index line in two patches of a set: equal files edited alike may have it, different edits may not. */
static void ids_copied_between_patches(void **state)
{
    (void)state;
    static const char *const bodies[] = {HUNK, HUNK, "@@ -1,3 +1,3 @@\n import x\n-a\n+b\n c\n"};
    struct err e;
    char *dir = path_join(folder, "ids/test");
    assert_int_equal(dir_make(dir, &e), 0);
    for (int third = 1; third < 3; third++) {
        struct findings f = {0};
        strings paths = {0};
        for (int i = 0; i < 2; i++) {
            char *name = xformat("test_%c.py.patch", 'a' + i);
            char *text =
                xformat("diff --git a/test/test_%c.py b/test/test_%c.py\nindex 5ad3c1e0..9b1f07d4 100644\n"
                        "--- a/test/test_%c.py\n+++ b/test/test_%c.py\n%s",
                        'a' + i, 'a' + i, 'a' + i, 'a' + i, bodies[i ? third : 0]);
            *vec_push(&paths) = path_join(dir, name);
            assert_int_equal(file_write(paths.ptr[i], text, strlen(text), 0, &e), 0);
            free(name), free(text);
        }
        struct audit_options o = {.least = SEVERITY_NOTE};
        assert_int_equal(audit_patches(&paths, &o, &f, &e), 0);
        assert_int_equal(count(&f, "id-fabricated"), third == 2);
        audit_findings_free(&f);
        strings_free(&paths);
    }
    free(dir);
}

/* ---- upstream ---------------------------------------------------------------------------------------- */

static void upstream_rules(void **state)
{
    (void)state;
    struct err e;
    char *tree = path_join(folder, "up"), *dir = path_join(tree, "test"), *file = path_join(dir, "test_t.py");
    static const char base[] = "import torch\n\n\ndef f():\n    return 1\n\n\ndef g():\n    return 2\n";
    static const char post[] = "import torch\n\n\ndef f():\n    return 3\n\n\ndef g():\n    return 2\n";
    assert_int_equal(dir_make(dir, &e), 0);
    assert_int_equal(file_write(file, base, strlen(base), 0, &e), 0);
    struct source *s = source_open(tree, &e);
    assert_non_null(s);
    char a[PATCH_ID_MAX + 1], b[PATCH_ID_MAX + 1];
    blob_id(slice_str(base), false, a);
    blob_id(slice_str(post), false, b);
#define ROW "diff --git a/test/%s b/test/%s\nindex %.11s..%.11s 100644\n--- a/test/%s\n+++ b/test/%s\n%s"
#define EDIT "@@ -2,6 +2,6 @@\n \n \n def f():\n-    return 1\n+    return 3\n \n \n"
    const struct {
        const char *rule, *name, *from, *to, *hunk;
    } rows[] = {
        {"target-absent", "none.py", a, b, EDIT},
        {"base-id", "test_t.py", "c0ffee15bad", b, EDIT},
        {"post-id", "test_t.py", a, a, EDIT},
        {"needs-offset", "test_t.py", a, b,
         "@@ -1,6 +1,6 @@\n \n \n def f():\n-    return 1\n+    return 3\n \n \n"},
        {"needs-fuzz", "test_t.py", a, b,
         "@@ -2,6 +2,6 @@\n x\n \n def f():\n-    return 1\n+    return 3\n \n \n"},
        {"does-not-apply", "test_t.py", a, b,
         "@@ -2,6 +2,6 @@\n \n \n def f():\n-    return 7\n+    return 3\n \n \n"},
        {"syntax-error", "test_t.py", a, b,
         "@@ -2,6 +2,6 @@\n \n \n def f():\n-    return 1\n+    return (\n \n \n"},
    };
    char *good = xformat(ROW, "test_t.py", "test_t.py", a, b, "test_t.py", "test_t.py", EDIT);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *bad = xformat(ROW, rows[i].name, rows[i].name, rows[i].from, rows[i].to, rows[i].name,
                            rows[i].name, rows[i].hunk);
        expect(slice_str(bad), "test_t.py.patch", s, rows[i].rule, true);
        expect(slice_str(good), "test_t.py.patch", s, rows[i].rule, false);
        free(bad);
    }
    source_close(s);
    free(good), free(tree), free(dir), free(file);
}

/* ---- branches ---------------------------------------------------------------------------------------- */

static void git(const char *repo, const char *command)
{
    char *line = xformat(
        "cd '%s' && git -c user.name=t -c user.email=t@t -c init.defaultBranch=main %s >/dev/null 2>&1", repo,
        command);
    assert_int_equal(system(line), 0);
    free(line);
}

static void put(const char *repo, const char *name, const char *text)
{
    struct err e;
    char *path = path_join(repo, name), *dir = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    assert_int_equal(dir_make(dir, &e), 0);
    assert_int_equal(file_write(path, text, strlen(text), 0, &e), 0);
    free(path), free(dir);
}

static void branch_rules(void **state)
{
    (void)state;
    struct err e;
    char *repo = path_join(folder, "repo");
    assert_int_equal(dir_make(repo, &e), 0);
    git(repo, "init -q");
    put(repo, "test_upstream/test/test_t.py.patch", HEAD HUNK "@@ -20,3 +20,4 @@\n x\n+mine\n y\n z\n");
    put(repo, "test_upstream/test/test_u.py.patch", HEAD HUNK);
    put(repo, "src/a.c", "int a;\n");
    git(repo, "add -A");
    git(repo, "commit -qm base");
    git(repo, "checkout -qb good");
    put(repo, "test_upstream/test/test_t.py.patch",
        HEAD HUNK "@@ -20,3 +20,4 @@\n x\n+mine\n y\n z\n@@ -40,3 +41,4 @@\n x\n+new\n y\n z\n");
    git(repo, "commit -qam good");
    git(repo, "checkout -q -b bad main");
    put(repo, "test_upstream/test/test_t.py.patch", HEAD HUNK "@@ -20,3 +20,4 @@\n x\n+changed\n y\n z\n");
    put(repo, "src/a.c", "int b;\n");
    put(repo, "docs/a.md", "text\n");
    git(repo, "rm -q test_upstream/test/test_u.py.patch");
    git(repo, "add -A");
    git(repo, "commit -qm bad");
    static const enum rule_id scope[] = {RULE_branch_other_file, RULE_branch_documentation,
                                         RULE_branch_patch_deleted, RULE_foreign_hunk_changed};
    for (int good = 0; good < 2; good++) {
        struct findings f = {0};
        size_t patches;
        struct audit_options o = {.least = SEVERITY_NOTE};
        assert_int_equal(audit_branch(repo, good ? "good" : "bad", "main", &o, &f, &patches, &e), 0);
        assert_int_equal(patches, 1);
        for (size_t i = 0; i < 4; i++) {
            assert_int_equal(count(&f, rules[scope[i]].name), good ? 0 : 1);
            (good ? good_seen : bad_seen)[scope[i]] = true;
        }
        audit_findings_free(&f);
    }
    struct findings none = {0};
    size_t patches;
    assert_int_equal(audit_branch(repo, "no-such", "main", &(struct audit_options){0}, &none, &patches, &e),
                     -1);
    assert_non_null(strstr(e.text, "no-such"));
    free(repo);
}

static void every_rule_has_both_fixtures(void **state)
{
    (void)state;
    for (int i = 0; i < RULE_COUNT; i++)
        if (!bad_seen[i] || !good_seen[i])
            fail_msg("%s has no %s fixture", rules[i].name, bad_seen[i] ? "good" : "bad");
}

/* ---- baselines --------------------------------------------------------------------------------------- */

static struct baseline *baseline_of(const char *text, struct err *e)
{
    char *path = path_join(folder, "baseline");
    assert_int_equal(file_write(path, text, strlen(text), 0, NULL), 0);
    struct baseline *b = baseline_read(path, e);
    free(path);
    return b;
}

static void baselines(void **state)
{
    (void)state;
    struct findings f = {0};
    struct err e;
    strings notes = {0};
    audit_text(slice_str(HEAD HUNK "\n"), "test_t.py.patch", NULL, &f);
    assert_int_equal(f.list.len, 1);
    char *exact = xformat("trailing-text\tx\t%s\t2027-01-31\tknown\nno-index\tx\t*\t2027-01-31\tunused\n",
                          f.list.ptr[0].print);
    struct baseline *b = baseline_of(exact, &e);
    assert_non_null(b);
    baseline_apply(b, &f, "2026-12-01", &notes);
    assert_string_equal(f.list.ptr[0].accepted, "known");
    assert_int_equal(notes.len, 1);
    assert_non_null(strstr(notes.ptr[0], "matches no finding"));
    f.list.ptr[0].accepted = NULL;
    strings_free(&notes);
    baseline_apply(b, &f, "2027-02-01", &notes);
    assert_null(f.list.ptr[0].accepted);
    assert_non_null(strstr(notes.ptr[0], "expired"));
    baseline_free(b);
    strings_free(&notes);
    assert_null(baseline_of("trailing-text\tx\t*\t2027-01-31\n", &e));
    assert_non_null(strstr(e.text, ":1:"));
    assert_null(baseline_of("trailing-texd\tx\t*\t2027-01-31\tr\n", &e));
    assert_non_null(strstr(e.text, "trailing-text"));
    assert_null(baseline_of("trailing-text\tx\t*\tsoon\tr\n", &e));
    assert_true(date_valid("2028-02-29") && date_valid("2026-12-31"));
    assert_false(date_valid("2026-02-29") || date_valid("2100-02-29") || date_valid("2026-04-31"));
    audit_findings_free(&f);
    free(exact);
}

/* ---- renderings -------------------------------------------------------------------------------------- */

static void renderings(void **state)
{
    (void)state;
    struct findings f = {0};
    audit_text(slice_str(HEAD HUNK "\n\xff\n"), "test_t.py.patch", NULL, &f);
    assert_int_equal(f.list.len, 1);
    char *text = audit_report_json(&f);
    json_t *j = json_loads(text, 0, NULL), *first = json_array_get(j, 0);
    assert_string_equal(json_string_value(json_object_get(first, "rule")), "trailing-text");
    assert_string_equal(json_string_value(json_object_get(first, "severity")), "warning");
    assert_int_equal(json_integer_value(json_object_get(first, "line")), 11);
    json_decref(j);
    free(text);
    f.list.ptr[0].accepted = "known";
    text = audit_report_sarif(&f);
    j = json_loads(text, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(j, "version")), "2.1.0");
    json_t *run = json_array_get(json_object_get(j, "runs"), 0),
           *result = json_array_get(json_object_get(run, "results"), 0);
    assert_string_equal(json_string_value(json_object_get(result, "ruleId")), "trailing-text");
    assert_int_equal(json_array_size(json_object_get(result, "suppressions")), 1);
    json_t *driver = json_object_get(json_object_get(run, "tool"), "driver");
    assert_int_equal(json_array_size(json_object_get(driver, "rules")), RULE_COUNT);
    json_decref(j);
    free(text);
    audit_findings_free(&f);
}

static void documentation_is_the_table(void **state)
{
    (void)state;
    struct buf made = BUF_INIT, kept = BUF_INIT;
    struct err e;
    audit_report_rules_markdown(&made);
    assert_int_equal(file_read(SOURCE_DIR "/docs/audit.md", &kept, &e), 0);
    if (!slice_eq(slice_of(&made), slice_of(&kept)))
        fail_msg("docs/audit.md is old: concord audit --rules > docs/audit.md");
    buf_free(&made), buf_free(&kept);
}

static void rules_are_named(void **state)
{
    (void)state;
    for (int i = 0; i < RULE_COUNT; i++) {
        assert_ptr_equal(rule_named(rules[i].name), &rules[i]);
        assert_true(*rules[i].en && *rules[i].zh && *rules[i].mend_en && *rules[i].mend_zh);
    }
    assert_null(rule_named("no-such-rule"));
    assert_string_equal(rule_nearest("cuda-fake"), "cuda-faked");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_named),
        cmocka_unit_test(fixtures_of_the_meaning_rules),
        cmocka_unit_test(format_rules),
        cmocka_unit_test(clean_input_gives_nothing),
        cmocka_unit_test(two_patches_for_one_target),
        cmocka_unit_test(ids_copied_between_patches),
        cmocka_unit_test(upstream_rules),
        cmocka_unit_test(branch_rules),
        cmocka_unit_test(every_rule_has_both_fixtures),
        cmocka_unit_test(baselines),
        cmocka_unit_test(renderings),
        cmocka_unit_test(documentation_is_the_table),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
