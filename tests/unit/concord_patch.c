/* concord_patch.c - the patch model: parse, print, apply, reverse, make, merge. */
#include "tests/unit/patch_util.h"

static const char simple[] = "diff --git a/test/t.py b/test/t.py\n"
                             "--- a/test/t.py\n"
                             "+++ b/test/t.py\n"
                             "@@ -1,4 +1,5 @@ class A:\n"
                             " one\n"
                             "-two\n"
                             "+TWO\n"
                             "+two and a half\n"
                             " three\n"
                             " four\n";

static void counts_kinds_and_numbers(void **state)
{
    (void)state;
    struct patch p;
    parse(&p, simple);
    assert_int_equal(p.files.len, 1);
    assert_string_equal(p.files.ptr[0].path, "test/t.py");
    assert_int_equal(p.hunks.len, 1);
    assert_int_equal(p.hunks.ptr[0].old_real, 4);
    assert_int_equal(p.hunks.ptr[0].new_real, 5);
    assert_int_equal(p.hunks.ptr[0].section.len, strlen(" class A:"));
    assert_int_equal(p.faults.len, 1);
    assert_int_equal(p.faults.ptr[0].kind, FAULT_no_index);
    patch_free(&p);
}

/* A table of texts and the one fault that each must have; every one must print as it was. */
#define HEAD "diff --git a/f b/f\nindex 1111..2222 100644\n--- a/f\n+++ b/f\n"
#define HUNK "@@ -1,2 +1,2 @@\n-a\n+b\n c\n"
static const struct {
    enum patch_fault_kind kind;
    const char *text;
} faulty[] = {
    {FAULT_hunk_outside_file, HUNK HEAD HUNK},
    {FAULT_hunk_outside_file, HEAD HUNK "\n@@ -9,2 +9,2 @@\n-a\n+b\n c\n"},
    {FAULT_stray_text, "subject\n" HEAD HUNK},
    {FAULT_trailing_text, HEAD HUNK "\n\n"},
    {FAULT_trailing_text, HEAD HUNK "-- \n2.39.5\n"},
    {FAULT_no_file, "hello\n"},
    {FAULT_hunk_header, HEAD "@@ -1,2 +1,02 @@\n-a\n+b\n c\n"},
    {FAULT_hunk_header, HEAD "@@ -1,2 +1,2 @@x\n-a\n+b\n c\n"},
    {FAULT_hunk_header, HEAD "@@ -1,2 +99999999999,2 @@\n-a\n+b\n c\n"},
    {FAULT_hunk_count, HEAD "@@ -1,2 +1,3 @@\n-a\n+b\n c\n"},
    {FAULT_hunk_count, HEAD "@@ -1,2 +1,2 @@\n-a\n+b\n c\n d\n"},
    {FAULT_hunk_order, HEAD "@@ -5,2 +5,2 @@\n-a\n+b\n c\n@@ -1,2 +1,2 @@\n-x\n+y\n z\n"},
    {FAULT_hunk_order, HEAD "@@ -5,2 +5,2 @@\n-a\n+b\n c\n@@ -6,2 +6,2 @@\n-x\n+y\n z\n"},
    {FAULT_hunk_new_start, HEAD "@@ -1,2 +1,3 @@\n-a\n+b\n+b\n c\n@@ -9,2 +9,2 @@\n-x\n+y\n z\n"},
    {FAULT_hunk_noop, HEAD "@@ -1,2 +1,2 @@\n-a\n+a\n c\n"},
    {FAULT_hunk_duplicate, HEAD HUNK HUNK},
    {FAULT_hunk_no_context, HEAD "@@ -3 +3 @@\n-a\n+b\n"},
    {FAULT_context_stripped, HEAD "@@ -1,3 +1,3 @@\n-a\n+b\n\n c\n"},
    {FAULT_cr_line_ends,
     "diff --git a/f b/f\r\nindex 1111..2222\r\n--- a/f\r\n+++ b/f\r\n@@ -1,2 +1,2 @@\r\n-a\r\n+b\r\n c\r\n"},
    {FAULT_byte_order_mark, "\xef\xbb\xbf" HEAD HUNK},
    {FAULT_no_final_newline, HEAD "@@ -1,2 +1,2 @@\n-a\n+b\n c"},
    {FAULT_no_index, "diff --git a/f b/f\n--- a/f\n+++ b/f\n" HUNK},
    {FAULT_index_malformed, "diff --git a/f b/f\nindex xyz..1234\n--- a/f\n+++ b/f\n" HUNK},
    {FAULT_header_incomplete, "diff --git a/f b/f\nindex 1111..2222\n--- a/f\n" HUNK},
    {FAULT_header_paths, "diff --git a/f b/f\nindex 1111..2222\n--- a/g\n+++ b/f\n" HUNK},
    {FAULT_header_prefix, "diff --git a/f b/f\nindex 1111..2222\n--- f\n+++ b/f\n" HUNK},
    {FAULT_path_traversal, "--- a/x/../../f\n+++ b/x/../../f\n" HUNK},
    {FAULT_path_traversal, "--- a/.git/hooks/x\n+++ b/.git/hooks/x\n" HUNK},
    {FAULT_path_absolute, "--- /etc/passwd\n+++ /etc/passwd\n" HUNK},
    {FAULT_target_twice, HEAD HUNK HEAD HUNK},
    {FAULT_symlink, "diff --git a/f b/f\nnew file mode 120000\nindex 0000..2222\n--- /dev/null\n+++ b/f\n@@ "
                    "-0,0 +1 @@\n+x\n"},
    {FAULT_binary, "diff --git a/f b/f\nindex 1111..2222 100644\nBinary files a/f and b/f differ\n"},
    {FAULT_rename, "diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to g\n"},
    {FAULT_copy, "diff --git a/f b/g\nsimilarity index 100%\ncopy from f\ncopy to g\n"},
    {FAULT_mode_change, "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n"},
    {FAULT_file_deleted, "diff --git a/f b/f\ndeleted file mode 100644\nindex 1111..0000\n--- a/f\n+++ "
                         "/dev/null\n@@ -1 +0,0 @@\n-x\n"},
    {FAULT_file_created, "diff --git a/f b/f\nnew file mode 100644\nindex 0000..1111\n--- /dev/null\n+++ "
                         "b/f\n@@ -0,0 +1 @@\n+x\n"},
};

static void every_fault_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faulty / sizeof *faulty; i++) {
        struct patch p;
        parse(&p, faulty[i].text);
        if (!has_fault(&p, faulty[i].kind)) fail_msg("row %zu lacks %s", i, patch_fault_name(faulty[i].kind));
        patch_free(&p);
    }
}

static void nul_is_a_fault(void **state)
{
    (void)state;
    static const char text[] = HEAD "@@ -1,2 +1,2 @@\n-a\0\n+b\n c\n";
    struct patch p;
    parse_bytes(&p, (struct slice){text, sizeof text - 1});
    assert_true(has_fault(&p, FAULT_nul_byte));
    patch_free(&p);
}

static void good_patches_have_none(void **state)
{
    (void)state;
    static const char *const good[] = {
        HEAD HUNK,
        HEAD HUNK "@@ -9,2 +9,3 @@ def f():\n x\n+y\n z\n",
        HEAD "@@ -1,2 +1,2 @@\n-a\n\\ No newline at end of file\n+b\n c\n\\ No newline at end of file\n",
        HEAD HUNK "diff --git a/g b/g\nindex 1111..2222 100644\n--- a/g\n+++ b/g\n" HUNK,
        "diff --git \"a/\\303\\244 b\" \"b/\\303\\244 b\"\nindex 1111..2222 100644\n--- \"a/\\303\\244 "
        "b\"\n+++ \"b/\\303\\244 b\"\n" HUNK,
        "diff --git a/a b b/a b\nindex 1111..2222 100644\n--- a/a b\t\n+++ b/a b\t\n" HUNK,
        /* removed and added lines that look like headers */
        HEAD "@@ -1,3 +1,3 @@\n--- a/x\n+++ b/x\n c\n d\n",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct patch p;
        parse(&p, good[i]);
        if (p.faults.len)
            fail_msg("row %zu: %s: %s", i, patch_fault_name(p.faults.ptr[0].kind), p.faults.ptr[0].text);
        patch_free(&p);
    }
}

static void quoted_names(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } rows[] = {{"\"a\\tb\"", "a\tb"}, {"\"\\303\\244\"", "\303\244"},
                {"plain", "plain"},    {"\"open", NULL},
                {"\"\\9\"", NULL},     {"\"\\0\"", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *got = patch_unquote(slice_str(rows[i].in));
        if (!rows[i].out)
            assert_null(got);
        else
            assert_string_equal(got, rows[i].out);
        free(got);
    }
}

/* ---- apply -----------------------------------------------------------------------------------------------
 */

static void applies_exactly(void **state)
{
    (void)state;
    check_apply(simple, "one\ntwo\nthree\nfour\n", 0, APPLY_clean, "one\nTWO\ntwo and a half\nthree\nfour\n");
    check_apply(simple, "one\nTWO\ntwo and a half\nthree\nfour\n", 0, APPLY_already,
                "one\nTWO\ntwo and a half\nthree\nfour\n");
    check_apply(simple, "zero\none\ntwo\nthree\nfour\n", 0, APPLY_offset, "");
    check_apply(simple, "one\ntwo\nthree\nfive\n", 0, APPLY_fuzz, "");
    check_apply(simple, "one\n2\nthree\nfour\n", 0, APPLY_fails, "");
    check_apply(simple, "", 0, APPLY_fails, "");
    check_apply(simple, NULL, 0, APPLY_absent, "");
    check_apply(simple, "one\nTWO\ntwo and a half\nthree\nfour\n", APPLY_REVERSE, APPLY_clean,
                "one\ntwo\nthree\nfour\n");
}

static void ids_are_conditions(void **state)
{
    (void)state;
    char a[PATCH_ID_MAX + 1], b[PATCH_ID_MAX + 1];
    blob_id(slice_str("a\nc\n"), false, a);
    blob_id(slice_str("b\nc\n"), false, b);
    char *right = xformat("diff --git a/f b/f\nindex %.11s..%.11s 100644\n--- a/f\n+++ b/f\n" HUNK, a, b);
    char *wrong_base =
        xformat("diff --git a/f b/f\nindex %.11s..%.11s 100644\n--- a/f\n+++ b/f\n" HUNK, b, b);
    char *wrong_result =
        xformat("diff --git a/f b/f\nindex %.11s..%.11s 100644\n--- a/f\n+++ b/f\n" HUNK, a, a);
    check_apply(right, "a\nc\n", 0, APPLY_clean, "b\nc\n");
    check_apply(right, "b\nc\n", 0, APPLY_already, "b\nc\n");
    check_apply(right, "a\nc\nother\n", 0, APPLY_wrong_base, "");
    check_apply(right, "a\nc\nother\n", APPLY_IGNORE_IDS, APPLY_clean, "b\nc\nother\n");
    check_apply(wrong_base, "a\nc\n", 0, APPLY_wrong_base, "");
    check_apply(wrong_result, "a\nc\n", 0, APPLY_wrong_result, "");
    free(right);
    free(wrong_base);
    free(wrong_result);
}

static void ends_of_files(void **state)
{
    (void)state;
    static const char no_eol[] =
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n";
    check_apply(no_eol, "a\nb", 0, APPLY_clean, "a\nc\n");
    check_apply(no_eol, "a\nb\n", 0, APPLY_fails, "");
    check_apply(no_eol, "a\nc\n", APPLY_REVERSE, APPLY_clean, "a\nb");
    static const char at_end[] = "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n a\n b\n+c\n";
    check_apply(at_end, "a\nb\n", 0, APPLY_clean, "a\nb\nc\n");
    check_apply(at_end, "a\nb\nx\n", 0, APPLY_fails, "");
    static const char insert[] = "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n";
    check_apply(insert, NULL, 0, APPLY_clean, "a\nb\n");
    check_apply(insert, "a\nb\n", 0, APPLY_already, "a\nb\n");
    check_apply(insert, "x\n", 0, APPLY_exists, "");
    static const char remove[] = "--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n";
    check_apply(remove, "a\nb\n", 0, APPLY_clean, "");
    check_apply(remove, "a\nb\nc\n", 0, APPLY_fails, "");
}

static void blocked_patches_do_not_apply(void **state)
{
    (void)state;
    check_apply(HEAD "@@ -1,2 +1,3 @@\n-a\n+b\n c\n", "a\nc\n", APPLY_IGNORE_IDS, APPLY_blocked, "");
}

/* Repeated lines: with neither ids nor context to tell, nothing is applied. */
static void cannot_tell(void **state)
{
    (void)state;
    check_apply("--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n x\n+x\n x\n", "x\nx\nx\n", 0, APPLY_fails, "");
}

/* ---- make, reverse, merge ---------------------------------------------------------------------------- */

static void made_patches_apply_and_reverse(void **state)
{
    (void)state;
    unsigned seed = 20261201;
    for (int round = 0; round < 300; round++) {
        struct buf a = BUF_INIT, b = BUF_INIT, text = BUF_INIT, back = BUF_INIT, result = BUF_INIT;
        random_pair(&seed, &a, &b);
        struct err e;
        assert_int_equal(patch_make("d/f.py", slice_of(&a), slice_of(&b), 0, NULL, &text, &e), 0);
        struct patch p, q;
        parse(&p, buf_str(&text));
        if (p.faults.len && text.len) fail_msg("%s\n%s", p.faults.ptr[0].text, buf_str(&text));
        check_result(&p, slice_of(&a), 0, slice_of(&b));
        check_result(&p, slice_of(&b), APPLY_REVERSE, slice_of(&a));
        assert_int_equal(patch_reverse(&p, &back, &e), text.len ? 0 : -1);
        parse(&q, buf_str(&back));
        check_result(&q, slice_of(&b), 0, slice_of(&a));
        patch_free(&p);
        patch_free(&q);
        buf_free(&a), buf_free(&b), buf_free(&text), buf_free(&back), buf_free(&result);
    }
}

static void mode_in_header(void **state)
{
    (void)state;
    struct buf out = BUF_INIT;
    struct err e;
    assert_int_equal(patch_make("f", slice_str("a\n"), slice_str("b\n"), 0100755, NULL, &out, &e), 0);
    assert_non_null(strstr(buf_str(&out), " 100755\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"));
    buf_free(&out);
}

static void merge_keeps_other_hunks(void **state)
{
    (void)state;
    struct buf base = BUF_INIT, patched = BUF_INIT, edited = BUF_INIT, old = BUF_INIT, merged = BUF_INIT;
    for (int i = 1; i <= 60; i++) {
        buf_addf(&base, i == 5 ? "def five():\n" : "    line %d\n", i);
        buf_addf(&patched,
                 i == 5               ? "def five():\n"
                 : i == 20 || i == 40 ? "    LINE %d\n"
                                      : "    line %d\n",
                 i);
        if (i == 10) buf_adds(&edited, "    new\n");
        buf_addf(&edited,
                 i == 5               ? "def five():\n"
                 : i == 20 || i == 40 ? "    LINE %d\n"
                 : i == 58            ? "    LAST %d\n"
                                      : "    line %d\n",
                 i);
    }
    struct err e;
    struct merge_result r;
    patch_make("f", slice_of(&base), slice_of(&patched), 0, NULL, &old, &e);
    struct patch p, q;
    parse(&p, buf_str(&old));
    assert_int_equal(
        patch_merge(&p, &p.files.ptr[0], slice_of(&base), slice_of(&edited), NULL, &merged, &r, &e), 0);
    assert_int_equal(r.kept, 2);
    assert_int_equal(r.added, 2);
    parse(&q, buf_str(&merged));
    assert_int_equal(q.faults.len, 0);
    check_result(&q, slice_of(&base), 0, slice_of(&edited));
    assert_non_null(strstr(buf_str(&merged), "@@ -17,7 +18,7 @@ def five():\n     line 17\n"));
    patch_free(&p);
    patch_free(&q);
    buf_free(&base), buf_free(&patched), buf_free(&edited), buf_free(&old), buf_free(&merged);
}

/* Whatever is edited on top of a patch: the merged patch leads from base to the edited contents. */
static void merge_is_right_everywhere(void **state)
{
    (void)state;
    unsigned seed = 7;
    for (int round = 0; round < 300; round++) {
        struct buf a = BUF_INIT, b = BUF_INIT, c = BUF_INIT, text = BUF_INIT, merged = BUF_INIT;
        struct err e;
        struct merge_result r;
        random_pair(&seed, &a, &b);
        random_edit(&seed, slice_of(&b), &c);
        patch_make("f", slice_of(&a), slice_of(&b), 0, NULL, &text, &e);
        if (text.len && !slice_eq(slice_of(&a), slice_of(&c))) {
            struct patch p, q;
            parse(&p, buf_str(&text));
            assert_int_equal(
                patch_merge(&p, &p.files.ptr[0], slice_of(&a), slice_of(&c), NULL, &merged, &r, &e), 0);
            parse(&q, buf_str(&merged));
            if (patch_blocked(&q))
                fail_msg("%s\n%s\n%s", patch_blocked(&q)->text, buf_str(&text), buf_str(&merged));
            check_result(&q, slice_of(&a), 0, slice_of(&c));
            patch_free(&p);
            patch_free(&q);
        }
        buf_free(&a), buf_free(&b), buf_free(&c), buf_free(&text), buf_free(&merged);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_kinds_and_numbers),
        cmocka_unit_test(every_fault_is_found),
        cmocka_unit_test(nul_is_a_fault),
        cmocka_unit_test(good_patches_have_none),
        cmocka_unit_test(quoted_names),
        cmocka_unit_test(applies_exactly),
        cmocka_unit_test(ids_are_conditions),
        cmocka_unit_test(ends_of_files),
        cmocka_unit_test(blocked_patches_do_not_apply),
        cmocka_unit_test(cannot_tell),
        cmocka_unit_test(made_patches_apply_and_reverse),
        cmocka_unit_test(mode_in_header),
        cmocka_unit_test(merge_keeps_other_hunks),
        cmocka_unit_test(merge_is_right_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
