/* concord_patch_cli.c - the commands patch, audit and port as they are used: output against golden files, bad
 * input, sources. */
#include "tests/unit/patch_util.h"

#include "tests/unit/concord_program.h"

#include "tests/unit/patch_folder.h"

#include "concord/patch/load.h"
#include "concord/patch/source.h"

#include <stdio.h>
#include <unistd.h>

#define FIXTURES SOURCE_DIR "/tests/fixtures/patch"
#define GOLDEN SOURCE_DIR "/tests/golden/"
#define PATCH "patches/test/test_t.py.patch"

static int concord(const char *cwd, const char *const *args, struct buf *out)
{
    char *home = xformat("CONCORD_HOME=%s/home", folder);
    int status = run_concord(cwd, home, NULL, args, out);
    free(home);
    return status;
}

#define RUN(cwd, out, ...) concord(cwd, (const char *const[]){__VA_ARGS__, NULL}, out)

static void check_golden(const char *name, const struct buf *got)
{
    struct buf want = BUF_INIT;
    struct err e;
    char *path = xformat(GOLDEN "%s", name);
    if (getenv("CONCORD_WRITE_GOLDEN")) assert_int_equal(file_write(path, buf_str(got), got->len, 0, &e), 0);
    if (file_read(path, &want, &e)) fail_msg("%s", e.text);
    if (!slice_eq(slice_of(&want), slice_of(got))) fail_msg("%s: now\n%s", name, buf_str(got));
    buf_free(&want);
    free(path);
}

static void golden_output(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int status;
        const char *args[8];
    } rows[] = {
        {"patch-make.txt", 0, {"patch", "make", "old", "new"}},
        {"patch-show.txt", 0, {"patch", "show", "patches"}},
        {"patch-check.txt", 0, {"patch", "check", "patches", "--root", "old"}},
        {"patch-check-later.txt", 1, {"patch", "check", "patches", "--root", "later"}},
        {"audit.txt", 1, {"audit", "patches"}},
        {"audit-json.txt", 1, {"audit", "patches", "--json", "-"}},
        {"audit-explain.txt", 0, {"audit", "--explain", "non-leaf-parameter"}},
        {"port-dry.txt", 0, {"port", "--to", "later", "--from", "old", "-n", "patches"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf out = BUF_INIT;
        int status = concord(FIXTURES, rows[i].args, &out);
        if (status != rows[i].status) fail_msg("%s: status %d\n%s", rows[i].name, status, buf_str(&out));
        check_golden(rows[i].name, &out);
        buf_free(&out);
    }
}

static void ported_patch(void **state)
{
    (void)state;
    struct buf out = BUF_INIT, made = BUF_INIT;
    char *to = path_join(folder, "ported"), *file = path_join(to, "test/test_t.py.patch");
    assert_int_equal(RUN(FIXTURES, &out, "port", "--to", "later", "-q", "-o", to, "patches"), 0);
    assert_int_equal(file_read(file, &made, NULL), 0);
    check_golden("port-made.txt", &made);
    buf_free(&out), buf_free(&made);
    free(to), free(file);
}

static void copy_tree(const char *from, const char *to)
{
    char *line = xformat("rm -rf '%s' && mkdir -p '%s' && cp -r '%s'/. '%s'", to, to, from, to);
    assert_int_equal(system(line), 0);
    free(line);
}

static bool same_trees(const char *a, const char *b)
{
    char *line = xformat("diff -r '%s' '%s' >/dev/null", a, b);
    int rc = system(line);
    free(line);
    return rc == 0;
}

static void apply_and_reverse(void **state)
{
    (void)state;
    struct buf out = BUF_INIT;
    char *tree = path_join(folder, "tree");
    copy_tree(FIXTURES "/old", tree);
    assert_int_equal(RUN(FIXTURES, &out, "patch", "apply", "--dry-run", "-C", tree, "patches"), 0);
    assert_true(same_trees(FIXTURES "/old", tree));
    assert_int_equal(RUN(FIXTURES, &out, "patch", "apply", "-C", tree, "patches"), 0);
    assert_true(same_trees(FIXTURES "/new", tree));
    assert_int_equal(RUN(FIXTURES, &out, "patch", "apply", "-C", tree, "patches"), 0);
    assert_non_null(strstr(buf_str(&out), "already applied"));
    assert_true(same_trees(FIXTURES "/new", tree));
    assert_int_equal(RUN(FIXTURES, &out, "patch", "reverse", "-C", tree, "patches"), 0);
    assert_true(same_trees(FIXTURES "/old", tree));
    copy_tree(FIXTURES "/later", tree);
    assert_int_equal(RUN(FIXTURES, &out, "patch", "apply", "-C", tree, "patches"), 1);
    assert_non_null(strstr(buf_str(&out), "nothing was changed"));
    assert_true(same_trees(FIXTURES "/later", tree));
    buf_free(&out);
    free(tree);
}

/* A good patch and one that does not fit: neither is applied. */
static void one_bad_patch_stops_all(void **state)
{
    (void)state;
    struct buf out = BUF_INIT;
    char *tree = path_join(folder, "both"), *bad = path_join(folder, "bad.patch");
    static const char text[] = "--- a/test/none.py\n+++ b/test/none.py\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n";
    copy_tree(FIXTURES "/old", tree);
    assert_int_equal(file_write(bad, text, strlen(text), 0, NULL), 0);
    assert_int_equal(RUN(FIXTURES, &out, "patch", "apply", "-C", tree, "patches", bad), 1);
    assert_true(same_trees(FIXTURES "/old", tree));
    buf_free(&out);
    free(tree), free(bad);
}

/* Only torch/ targets go onto an installed torch. */
static void installed_torch(void **state)
{
    (void)state;
    struct buf out = BUF_INIT, text = BUF_INIT;
    char *site = path_join(folder, "site"), *dir = path_join(site, "torch"), *file = path_join(dir, "x.py"),
         *p = path_join(folder, "x.patch");
    static const char patch[] = "--- a/torch/x.py\n+++ b/torch/x.py\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n";
    assert_int_equal(dir_make(dir, NULL), 0);
    assert_int_equal(file_write(file, "a\nc\n", 4, 0, NULL), 0);
    assert_int_equal(file_write(p, patch, strlen(patch), 0, NULL), 0);
    assert_int_equal(RUN(FIXTURES, &out, "patch", "apply", "--installed", "-C", site, "patches", p), 0);
    assert_non_null(strstr(buf_str(&out), "left out"));
    assert_int_equal(file_read(file, &text, NULL), 0);
    assert_string_equal(buf_str(&text), "b\nc\n");
    buf_free(&out), buf_free(&text);
    free(site), free(dir), free(file), free(p);
}

static void make_onto_keeps_hunks(void **state)
{
    (void)state;
    struct buf out = BUF_INIT, text = BUF_INIT;
    char *edited = path_join(folder, "edited"), *file = path_join(edited, "test/test_t.py");
    copy_tree(FIXTURES "/new", edited);
    assert_int_equal(file_read(file, &text, NULL), 0);
    buf_adds(&text, "\n# one more line\n");
    assert_int_equal(file_write(file, text.ptr, text.len, 0, NULL), 0);
    assert_int_equal(RUN(FIXTURES, &out, "patch", "make", "--onto", PATCH, "old", edited), 0);
    assert_non_null(strstr(buf_str(&out), "2 hunks kept byte for byte, 0 rewritten, 1 added"));
    assert_non_null(strstr(buf_str(&out), "+# one more line\n"));
    buf_free(&out), buf_free(&text);
    free(edited), free(file);
}

static void bad_input(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        const char *args[8];
    } rows[] = {
        {"no subcommand", {"patch"}},
        {"did you mean apply", {"patch", "aply", "x"}},
        {"no such file", {"patch", "apply", "nowhere.patch"}},
        {"no patch given", {"patch", "check"}},
        {"not a folder", {"patch", "apply", "-C", "nowhere", "patches"}},
        {"no *.patch", {"patch", "check", "old"}},
        {"--path", {"patch", "make", "old/test/test_t.py", "new/test/test_t.py"}},
        {"two operands", {"patch", "make", "old"}},
        {"--abbrev", {"patch", "make", "old", "new", "--abbrev", "3"}},
        {"no such folder", {"patch", "check", "patches", "--upstream", "nowhere"}},
        {"needs a revision", {"patch", "check", "patches", "--upstream", "https://example.invalid/x.git"}},
        {"not an archive", {"patch", "check", "patches", "--upstream", PATCH}},
        {"several patches need", {"patch", "repair", "patches", "patches"}},
        {"unknown option", {"patch", "apply", "--dry", "patches"}},
        {"no patch given", {"audit"}},
        {"did you mean 'cuda-faked'", {"audit", "--explain", "cuda-fake"}},
        {"go together", {"audit", "--branch", "x"}},
        {"not note, warning or error", {"audit", "--least", "fatal", "patches"}},
        {"needs --reason", {"audit", "--write-baseline", "x", "patches"}},
        {"not a date", {"audit", "--expires", "soon", "patches"}},
        {"nowhere.tsv", {"audit", "--baseline", "nowhere.tsv", "patches"}},
        {"--to", {"port", "patches", "-n"}},
        {"--output", {"port", "--to", "later", "patches"}},
        {"--upstream SOURCE", {"port", "--to", "2.9.0", "-n", "patches"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf out = BUF_INIT;
        int status = concord(FIXTURES, rows[i].args, &out);
        if (status != 2 || !strstr(buf_str(&out), rows[i].says))
            fail_msg("row %zu: status %d: %s", i, status, buf_str(&out));
        if (strchr(buf_str(&out), '\n') != buf_str(&out) + out.len - 1)
            fail_msg("row %zu: more than one line: %s", i, buf_str(&out));
        buf_free(&out);
    }
}

/* ---- sources ----------------------------------------------------------------------------------------- */

static void source_gives(const char *spec, const char *path, int found)
{
    struct err e;
    struct buf text = BUF_INIT, want = BUF_INIT;
    struct source *s = source_open(spec, &e);
    if (!s) fail_msg("%s: %s", spec, e.text);
    assert_int_equal(source_read(s, path, &text, NULL, &e), found);
    if (found) {
        assert_int_equal(file_read(FIXTURES "/old/test/test_t.py", &want, &e), 0);
        assert_true(slice_eq(slice_of(&text), slice_of(&want)));
    }
    strings names = {0};
    assert_int_equal(source_list(s, "", &names, &e), 0);
    assert_int_equal(names.len, 1);
    strings_free(&names);
    source_close(s);
    buf_free(&text), buf_free(&want);
}

static void sources(void **state)
{
    (void)state;
    struct err e;
    char *home = path_join(folder, "cache"), *line;
    setenv("CONCORD_HOME", home, 1);
    source_gives(FIXTURES "/old", "test/test_t.py", 1);
    source_gives(FIXTURES "/old", "test/none.py", 0);
    line = xformat(
        "cd '%s' && rm -rf clone bare.git up.tar.gz up.zip && git init -q clone && cp -r " FIXTURES
        "/old/test clone && cd clone && "
        "git add -A && git -c user.name=t -c user.email=t@t commit -qm one && git tag v1 && rm -r test && "
        "git -c user.name=t -c user.email=t@t commit -qam two && cd .. && git clone -q --bare clone bare.git "
        "&& "
        "mkdir -p up && cp -r " FIXTURES
        "/old/test up && tar -czf up.tar.gz up && cd up && python3 -m zipfile -c ../up.zip test",
        folder);
    assert_int_equal(system(line), 0);
    free(line);
    static const struct {
        const char *before, *after;
    } specs[] = {{"", "/clone#v1"},
                 {"", "/bare.git#v1"},
                 {"", "/up.tar.gz"},
                 {"", "/up.zip"},
                 {"file://", "/clone#v1"}};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        char *spec = xformat("%s%s%s", specs[i].before, folder, specs[i].after);
        source_gives(spec, "test/test_t.py", 1);
        source_gives(spec, "test/none.py", 0);
        free(spec);
    }
    /* The blob is found by its id from whatever revision, also beside a work tree that has it no more. */
    char *work = xformat("%s/clone", folder), id[PATCH_ID_MAX + 1];
    struct buf want = BUF_INIT, got = BUF_INIT;
    assert_int_equal(file_read(FIXTURES "/old/test/test_t.py", &want, &e), 0);
    blob_id(slice_of(&want), false, id);
    struct source *s = source_open(work, &e);
    id[9] = '\0';
    assert_int_equal(source_read_blob(s, id, &got), 1);
    assert_true(slice_eq(slice_of(&got), slice_of(&want)));
    assert_int_equal(source_read_blob(s, "123456789", &got), 0);
    assert_int_equal(source_read_blob(s, "nonsense", &got), 0);
    source_close(s);
    buf_free(&want), buf_free(&got), free(work);
    char *none = xformat("%s/clone#v9", folder);
    assert_null(source_open(none, &e));
    assert_non_null(strstr(e.text, "no revision 'v9'"));
    free(none), free(home);
}

static void named_targets(void **state)
{
    (void)state;
    static const struct {
        const char *path, *target;
    } rows[] = {{"x/test/a/test_b.py.patch", "test/a/test_b.py"},
                {"test/test_b.diff", "test/test_b.py"},
                {"u/torch/x.h.patch", "torch/x.h"},
                {"test_upstream/test/t.py.patch", "test/t.py"},
                {"other/t.py.patch", NULL},
                {"test/readme.md", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *got = patch_named_target(rows[i].path);
        if (rows[i].target)
            assert_string_equal(got, rows[i].target);
        else
            assert_null(got);
        free(got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_output),     cmocka_unit_test(ported_patch),
        cmocka_unit_test(apply_and_reverse), cmocka_unit_test(one_bad_patch_stops_all),
        cmocka_unit_test(installed_torch),   cmocka_unit_test(make_onto_keeps_hunks),
        cmocka_unit_test(bad_input),         cmocka_unit_test(sources),
        cmocka_unit_test(named_targets),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
