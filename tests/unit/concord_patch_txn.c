/* concord_patch_txn.c - changing several files as one: every I/O call and every allocation failed in turn. */
#include "tests/unit/patch_util.h"

#include "tests/unit/patch_folder.h"

#include "concord/patch/txn.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- failing disk ------------------------------------------------------------------------------------ */

static long calls, fail_at;
static bool fail_on; /* every call from fail_at on, not only that one */

static bool fails(void)
{
    calls++;
    bool now = fail_at && (fail_on ? calls >= fail_at : calls == fail_at);
    if (now) errno = ENOSPC;
    return now;
}

/* A failed write leaves half of the file, as a full disk does. */
static int bad_write(const char *path, const void *data, size_t n, mode_t mode)
{
    bool bad = fails();
    int rc = txn_io_disk.write(path, data, bad ? n / 2 : n, mode);
    if (bad) errno = ENOSPC;
    return bad ? -1 : rc;
}
static int bad_rename(const char *from, const char *to)
{
    return fails() ? -1 : txn_io_disk.rename(from, to);
}
static int bad_unlink(const char *path)
{
    return fails() ? -1 : txn_io_disk.unlink(path);
}
static int bad_mkdir(const char *path)
{
    return fails() ? -1 : txn_io_disk.mkdir(path);
}
static int bad_sync(const char *path)
{
    return fails() ? -1 : txn_io_disk.sync_dir(path);
}
static const struct txn_io bad_disk = {bad_write, bad_rename, bad_unlink, bad_mkdir, bad_sync};

/* ---- a tree of four files: two changed, one made, one removed ---------------------------------------- */

static void put(const char *name, const char *text)
{
    char *path = path_join(folder, name);
    assert_int_equal(file_write(path, text, strlen(text), 0, NULL), 0);
    free(path);
}

static void fresh_tree(void)
{
    assert_int_equal(tree_remove(folder, NULL), 0);
    assert_int_equal(dir_make(folder, NULL), 0);
    char *dir = path_join(folder, "d");
    assert_int_equal(dir_make(dir, NULL), 0);
    free(dir);
    put("a", "old a\n");
    put("d/b", "old b\n");
    put("gone", "old gone\n");
}

static void set(struct txn *t, const char *name, const char *text)
{
    struct err e;
    struct txn_file *f = txn_file(t, name, &e);
    if (!f) fail_msg("%s", e.text);
    buf_clear(&f->post);
    if (text) buf_adds(&f->post, text);
    f->exists = text != NULL;
}

static void stage(struct txn *t)
{
    set(t, "a", "new a\n");
    set(t, "d/b", "new b\n");
    set(t, "d/e/f", "new f\n");
    set(t, "gone", NULL);
}

/* 0: untouched, 1: complete, -1: between. */
static int tree_state(void)
{
    static const struct {
        const char *name, *old, *new;
    } files[] = {{"a", "old a\n", "new a\n"},
                 {"d/b", "old b\n", "new b\n"},
                 {"d/e/f", NULL, "new f\n"},
                 {"gone", "old gone\n", NULL}};
    int old = 0, new = 0;
    for (size_t i = 0; i < 4; i++) {
        struct buf text = BUF_INIT;
        char *path = path_join(folder, files[i].name);
        bool there = path_exists(path);
        if (there) assert_int_equal(file_read(path, &text, NULL), 0);
        old += there ? files[i].old && !strcmp(buf_str(&text), files[i].old) : !files[i].old;
        new += there ? files[i].new && !strcmp(buf_str(&text), files[i].new) : !files[i].new;
        free(path);
        buf_free(&text);
    }
    return old == 4 ? 0 : new == 4 ? 1 : -1;
}

static bool leftovers(void)
{
    char *path = path_join(folder, ".concord-patch");
    bool there = path_exists(path);
    free(path);
    return there;
}

static int commit(const struct txn_io *io, struct err *e)
{
    struct txn t;
    assert_int_equal(txn_open(&t, folder, NULL, e), 0);
    stage(&t);
    t.io = io;
    int rc = txn_commit(&t, e);
    txn_close(&t);
    return rc;
}

static void commits(void **state)
{
    (void)state;
    struct err e;
    fresh_tree();
    calls = fail_at = 0;
    assert_int_equal(commit(&bad_disk, &e), 0);
    assert_int_equal(tree_state(), 1);
    assert_false(leftovers());
    assert_true(calls > 10);
}

/* One call fails: the change is undone, and nothing is left behind. */
static void one_failure_is_undone(void **state)
{
    (void)state;
    struct err e;
    long n;
    for (n = 1;; n++) {
        fresh_tree();
        calls = 0, fail_at = n, fail_on = false;
        int rc = commit(&bad_disk, &e);
        if (calls < n) break;
        int after = tree_state();
        if (after < 0) fail_msg("call %ld: between: %s", n, e.text);
        if (rc && after == 1) assert_non_null(strstr(e.text, "journal"));
        if (!rc) assert_int_equal(after, 1);
    }
    assert_true(n > 10);
}

/* Everything fails from some call on, as when the process is killed or the disk is gone: the next run finds
 * the tree untouched, or completes it. */
static void a_dead_disk_is_recovered(void **state)
{
    (void)state;
    struct err e;
    bool recovered = false;
    for (long n = 1;; n++) {
        fresh_tree();
        calls = 0, fail_at = n, fail_on = true;
        commit(&bad_disk, &e);
        if (calls < n) break;
        struct txn t;
        assert_int_equal(txn_open(&t, folder, NULL, &e), 0);
        recovered |= t.recovered;
        txn_close(&t);
        if (tree_state() < 0) fail_msg("call %ld: between after recovery", n);
        assert_false(leftovers());
    }
    assert_true(recovered);
}

/* ---- failing memory ---------------------------------------------------------------------------------- */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static long allocations, fail_allocation;
static void *(*real_malloc)(size_t), *(*real_realloc)(void *, size_t);

static bool no_memory(void)
{
    return fail_allocation && ++allocations == fail_allocation;
}

void *malloc(size_t n)
{
    if (!real_malloc) real_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    return no_memory() ? NULL : real_malloc(n);
}

void *realloc(void *p, size_t n)
{
    if (!real_realloc) real_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    return no_memory() ? NULL : real_realloc(p, n);
}

/* Out of memory ends the program; whenever it does, the next run finds the tree untouched or completes it. */
static void no_allocation_leaves_the_tree_between(void **state)
{
    (void)state;
    struct err e;
    long n;
    for (n = 1; n < 10000; n++) {
        fresh_tree();
        fflush(NULL);
        pid_t child = fork();
        if (!child) {
            freopen("/dev/null", "w", stderr);
            fail_allocation = n;
            struct txn t;
            if (!txn_open(&t, folder, NULL, &e)) {
                stage(&t);
                txn_commit(&t, &e);
            }
            _exit(allocations < n ? 99 : 0);
        }
        int status;
        waitpid(child, &status, 0);
        struct txn t;
        assert_int_equal(txn_open(&t, folder, NULL, &e), 0);
        txn_close(&t);
        if (tree_state() < 0) fail_msg("allocation %ld: between", n);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 99) break;
    }
    assert_int_equal(tree_state(), 1);
    assert_true(n > 20 && n < 10000);
}
#endif

/* ---- refusals ---------------------------------------------------------------------------------------- */

static void refuses(const char *path, const char *why)
{
    struct txn t;
    struct err e;
    assert_int_equal(txn_open(&t, folder, NULL, &e), 0);
    assert_null(txn_file(&t, path, &e));
    if (!strstr(e.text, why)) fail_msg("%s", e.text);
    txn_close(&t);
}

static void paths_stay_inside(void **state)
{
    (void)state;
    fresh_tree();
    char *link = path_join(folder, "link"), *out = path_join(folder, "out");
    assert_int_equal(symlink("/etc/hostname", link), 0);
    assert_int_equal(symlink("/tmp", out), 0);
    refuses("link", "symbolic link");
    refuses("out/x", "symbolic link");
    refuses("../x", "plain path");
    refuses("/etc/hostname", "inside the tree");
    refuses("a/../b", "plain path");
    refuses(".concord-patch/0", "transactions");
    refuses("d", "regular file");
    free(link), free(out);
}

static void one_at_a_time(void **state)
{
    (void)state;
    struct txn a, b;
    struct err e;
    fresh_tree();
    assert_int_equal(txn_open(&a, folder, NULL, &e), 0);
    assert_int_equal(txn_open(&b, folder, NULL, &e), -1);
    assert_non_null(strstr(e.text, "another concord"));
    txn_close(&a);
    assert_int_equal(txn_open(&b, folder, NULL, &e), 0);
    txn_close(&b);
}

static void modes_are_kept(void **state)
{
    (void)state;
    struct stat st;
    struct err e;
    fresh_tree();
    char *path = path_join(folder, "a");
    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(commit(&txn_io_disk, &e), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0755);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commits),
        cmocka_unit_test(one_failure_is_undone),
        cmocka_unit_test(a_dead_disk_is_recovered),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        cmocka_unit_test(no_allocation_leaves_the_tree_between),
#endif
        cmocka_unit_test(paths_stay_inside),
        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(modes_are_kept),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
