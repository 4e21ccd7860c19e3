/* concord_base.c - tests of concord/base: strings, maps, files, processes, the command line. */
#include "concord/base/base.h"

#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char *scratch; /* a fresh folder for the whole program */

static int make_scratch(void **state)
{
    (void)state;
    char name[] = "/tmp/concord_base.XXXXXX";
    scratch = mkdtemp(name) ? xstrdup(name) : NULL;
    return scratch ? 0 : -1;
}

static int drop_scratch(void **state)
{
    (void)state;
    struct err e;
    int rc = tree_remove(scratch, &e);
    free(scratch);
    return rc;
}

/* ---- errors, buf, vec, map ------------------------------------------------------------------------------
 */

static void errors_are_wrapped(void **state)
{
    (void)state;
    struct err e;
    assert_int_equal(err_set(&e, "no file '%s'", "a"), -1);
    assert_int_equal(err_wrap(&e, "campaign %d", 7), -1);
    assert_string_equal(e.text, "campaign 7: no file 'a'");
    assert_int_equal(err_set(NULL, "x"), -1);
    memset(e.text, 'x', sizeof e.text - 1);
    e.text[sizeof e.text - 1] = '\0';
    err_wrap(&e, "front");
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    assert_true(str_starts(e.text, "front: xxx"));
}

static void buf_grows_and_keeps_nul(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    assert_string_equal(buf_str(&b), "");
    for (int i = 0; i < 1000; i++) buf_addf(&b, "%d,", i);
    assert_int_equal(b.len, 10 * 2 + 90 * 3 + 900 * 4);
    assert_int_equal(b.ptr[b.len], '\0');
    buf_clear(&b);
    buf_add(&b, "a\0b", 3);
    assert_memory_equal(b.ptr, "a\0b", 4);
    char *p = buf_take(&b);
    assert_null(b.ptr);
    free(p);
    p = buf_take(&b);
    assert_string_equal(p, "");
    free(p);
}

struct pair {
    int a, b;
};

static void vec_gives_zeroed_elements(void **state)
{
    (void)state;
    VEC(struct pair) v = {0};
    for (int i = 0; i < 100; i++) {
        assert_int_equal(vec_push(&v)->b, 0);
        v.ptr[v.len - 1].a = i;
    }
    assert_int_equal(v.len, 100);
    assert_int_equal(v.ptr[99].a, 99);
    vec_free(&v);
    assert_null(v.ptr);
}

static void map_finds_and_keeps_order(void **state)
{
    (void)state;
    struct map m = {0};
    assert_null(map_get(&m, "absent"));
    for (int i = 0; i < 500; i++) {
        char *key = xformat("key%d", i);
        void **slot = map_put(&m, key);
        assert_null(*slot);
        *slot = xformat("%d", i);
        free(key);
    }
    assert_string_equal(*map_put(&m, "key250"), "250");
    assert_int_equal(m.entries.len, 500);
    assert_string_equal(m.entries.ptr[499].key, "key499");
    assert_string_equal(map_get(&m, "key7"), "7");
    assert_false(map_has(&m, "key500"));
    map_free(&m, free);
    assert_false(map_has(&m, "key7"));
}

/* ---- strings --------------------------------------------------------------------------------------------
 */

static void nearest_name(void **state)
{
    (void)state;
    static const char *const names[] = {"verify", "version", "report", NULL, "releases"};
    assert_string_equal(str_nearest("verfy", names, 5), "verify");
    assert_string_equal(str_nearest("reprot", names, 5), "report");
    assert_string_equal(str_nearest("release", names, 5), "releases");
    assert_null(str_nearest("doctor", names, 5));
    assert_null(str_nearest("", names, 0));
}

static void versions_order(void **state)
{
    (void)state;
    static const char *const rising[] = {"2.6.0",    "2.6.0.post5", "2.7.0.dev1",  "2.7.0a1",
                                         "2.7.0rc1", "2.7.0",       "2.7.1.post2", "2.7.1.post11",
                                         "2.7.1.1",  "2.9.0",       "2.10.0",      "2.10.0+cpu"};
    for (size_t i = 0; i + 1 < sizeof rising / sizeof *rising; i++) {
        assert_int_equal(version_compare(rising[i], rising[i + 1]), -1);
        assert_int_equal(version_compare(rising[i + 1], rising[i]), 1);
    }
    assert_int_equal(version_compare("2.10", "2.10.0"), 0);
    assert_int_equal(version_compare("v2.10", "v2.10.0"), 0);
}

/* ---- files ----------------------------------------------------------------------------------------------
 */

static void paths_join(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"a", "/b", "/b"}, {"", "b", "b"}};
    for (size_t i = 0; i < 4; i++) {
        char *p = path_join(rows[i][0], rows[i][1]);
        assert_string_equal(p, rows[i][2]);
        free(p);
    }
}

static void files_are_replaced_whole(void **state)
{
    (void)state;
    struct err e;
    struct buf b = BUF_INIT;
    char *path = path_join(scratch, "f"), *sub = path_join(scratch, "d/e/f");
    assert_int_equal(file_write(path, "one\0two", 7, 0, &e), 0);
    assert_int_equal(file_write(path, "three", 5, 0600, &e), 0);
    assert_int_equal(file_read(path, &b, &e), 0);
    assert_int_equal(b.len, 5);
    assert_string_equal(b.ptr, "three");
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(file_write(sub, "", 0, 0, &e), -1);
    assert_non_null(strstr(e.text, "d/e/f': No such file"));
    assert_int_equal(file_read(sub, &b, &e), -1);
    strings names = {0};
    assert_int_equal(dir_list(scratch, &names, &e), 0);
    assert_int_equal(names.len, 1); /* no temporary is left */
    strings_free(&names);
    buf_free(&b);
    free(path);
    free(sub);
}

static void trees_are_made_and_removed(void **state)
{
    (void)state;
    struct err e;
    char *top = path_join(scratch, "tree"), *deep = path_join(top, "a/b/c"), *link = path_join(top, "a/link");
    char *kept = path_join(scratch, "kept"), *file = path_join(deep, "file");
    assert_int_equal(dir_make(deep, &e), 0);
    assert_int_equal(dir_make(deep, &e), 0);
    assert_int_equal(dir_make(kept, &e), 0);
    assert_int_equal(symlink(kept, link), 0);
    assert_int_equal(file_write(file, "x", 1, 0, &e), 0);
    char *below = path_join(file, "g");
    assert_int_equal(dir_make(below, &e), -1);
    assert_int_equal(tree_remove(top, &e), 0);
    assert_false(path_exists(top));
    assert_true(path_is_dir(kept)); /* the link went, not what it led to */
    assert_int_equal(tree_remove(top, &e), 0);
    uint64_t bytes = 0;
    assert_int_equal(disk_free(top, &bytes, &e), 0);
    assert_true(bytes > 0);
    free(top), free(deep), free(link), free(kept), free(file), free(below);
}

static void lists_are_sorted(void **state)
{
    (void)state;
    struct err e;
    char *dir = path_join(scratch, "list");
    assert_int_equal(dir_make(dir, &e), 0);
    static const char *const names[] = {"b", "c", "a"};
    for (int i = 0; i < 3; i++) {
        char *p = path_join(dir, names[i]);
        assert_int_equal(file_write(p, "", 0, 0, &e), 0);
        free(p);
    }
    strings out = {0};
    assert_int_equal(dir_list(dir, &out, &e), 0);
    assert_int_equal(out.len, 3);
    assert_string_equal(out.ptr[0], "a");
    assert_string_equal(out.ptr[2], "c");
    strings_free(&out);
    char *absent = path_join(dir, "absent");
    assert_int_equal(dir_list(absent, &out, &e), -1);
    free(absent);
    free(dir);
}

static void locks_exclude(void **state)
{
    (void)state;
    struct err e;
    char *path = path_join(scratch, "locks/one");
    int fd = file_lock(path, false, &e);
    assert_true(fd >= 0);
    assert_int_equal(file_lock(path, false, &e), -1);
    char *want = xformat("is locked by process %d", (int)getpid());
    assert_non_null(strstr(e.text, want));
    close(fd);
    fd = file_lock(path, true, &e);
    assert_true(fd >= 0);
    close(fd);
    free(want);
    free(path);
}

static void sha256_known_answers(void **state)
{
    (void)state;
    char hex[65];
    struct err e;
    sha256_hex("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    char *path = path_join(scratch, "empty");
    assert_int_equal(file_write(path, "", 0, 0, &e), 0);
    assert_int_equal(sha256_file(path, hex, &e), 0);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_int_equal(sha256_file("/nowhere", hex, &e), -1);
    free(path);
}

static void home_and_share(void **state)
{
    (void)state;
    setenv("CONCORD_HOME", "/x/y", 1);
    char *p = concord_home();
    assert_string_equal(p, "/x/y");
    free(p);
    unsetenv("CONCORD_HOME");
    setenv("XDG_CACHE_HOME", "/cache", 1);
    p = concord_home();
    assert_string_equal(p, "/cache/concord");
    free(p);
    unsetenv("XDG_CACHE_HOME");
    p = concord_share("concord/base/base.h");
    assert_true(path_exists(p));
    free(p);
}

/* ---- processes ------------------------------------------------------------------------------------------
 */

static struct proc_result run_shell(const char *script, struct proc_spec s)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    struct proc_result r;
    struct err e;
    s.argv = argv;
    assert_int_equal(proc_run(&s, &r, &e), 0);
    return r;
}

static void output_and_status(void **state)
{
    (void)state;
    struct proc_result r =
        run_shell("cat; echo no >&2; exit 3", (struct proc_spec){.input = "in", .input_len = 2});
    assert_int_equal(r.status, 3);
    assert_string_equal(buf_str(&r.out), "in");
    assert_string_equal(buf_str(&r.err), "no\n");
    proc_result_free(&r);
    r = run_shell("echo a; echo b >&2", (struct proc_spec){.merge = true});
    assert_string_equal(buf_str(&r.out), "a\nb\n");
    proc_result_free(&r);
    r = run_shell("kill -9 $$", (struct proc_spec){0});
    assert_int_equal(r.status, -1);
    assert_int_equal(r.signal, SIGKILL);
    proc_result_free(&r);
}

static void environment_and_folder(void **state)
{
    (void)state;
    setenv("GONE", "1", 1);
    setenv("OLD", "old", 1);
    static const char *const env[] = {"OLD=new", "GONE", "ADDED=yes", NULL};
    struct proc_result r =
        run_shell("echo $OLD ${GONE-unset} $ADDED; pwd", (struct proc_spec){.env = env, .cwd = "/"});
    assert_string_equal(buf_str(&r.out), "new unset yes\n/\n");
    proc_result_free(&r);
}

static void big_output_is_cut(void **state)
{
    (void)state;
    struct proc_result r = run_shell("head -c 300000 /dev/zero", (struct proc_spec){.max_output = 1000});
    assert_int_equal(r.status, 0);
    assert_int_equal(r.out.len, 1000);
    assert_true(r.truncated);
    proc_result_free(&r);
}

static void big_input_needs_no_reader(void **state)
{
    (void)state;
    char *big = xcalloc(1, 1 << 20);
    struct proc_result r = run_shell("exit 0", (struct proc_spec){.input = big, .input_len = 1 << 20});
    assert_int_equal(r.status, 0);
    proc_result_free(&r);
    free(big);
}

static void time_limit_kills_the_group(void **state)
{
    (void)state;
    /* The child of the shell ignores TERM: only KILL of the whole group ends it. */
    struct proc_result r =
        run_shell("(trap '' TERM; sleep 60) & echo $!; wait", (struct proc_spec){.timeout_ms = 200});
    assert_true(r.timed_out);
    assert_int_equal(r.signal, SIGTERM);
    int child = atoi(buf_str(&r.out));
    assert_true(child > 0);
    for (int i = 0; i < 500 && !kill(child, 0); i++) usleep(10000);
    assert_int_equal(kill(child, 0), -1);
    proc_result_free(&r);
}

static void leftovers_are_killed(void **state)
{
    (void)state;
    struct proc_result r = run_shell("sleep 60 & echo $!", (struct proc_spec){0});
    assert_int_equal(r.status, 0);
    int child = atoi(buf_str(&r.out));
    for (int i = 0; i < 500 && !kill(child, 0); i++) usleep(10000);
    assert_int_equal(kill(child, 0), -1);
    proc_result_free(&r);
}

static void what_cannot_start_is_said(void **state)
{
    (void)state;
    struct err e;
    struct proc_result r;
    const char *const argv[] = {"no-such-program", NULL}, *const sh[] = {"sh", NULL};
    assert_int_equal(proc_run(&(struct proc_spec){.argv = argv}, &r, &e), -1);
    assert_string_equal(e.text, "cannot run 'no-such-program': No such file or directory");
    assert_int_equal(proc_run(&(struct proc_spec){.argv = sh, .cwd = "/nowhere"}, &r, &e), -1);
    assert_string_equal(e.text, "cannot run 'sh': no folder '/nowhere'");
}

static void interrupt_ends_the_child(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        proc_catch_signals();
        alarm(30);
        struct proc_result r = run_shell("kill -INT $PPID; sleep 60", (struct proc_spec){0});
        _exit(proc_interrupted == SIGINT && r.signal == SIGTERM && !r.timed_out ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* ---- command line ---------------------------------------------------------------------------------------
 */

static bool flag;
static const char *text;
static int64_t number;
static strings list;
static const struct opt opts[] = {
    {'f', "flag", OPT_FLAG, &flag, NULL, "a flag"},
    {'t', "text", OPT_STRING, &text, "TEXT", "a text"},
    {0, "number", OPT_INT, &number, "N", "a number"},
    {0, "list", OPT_LIST, &list, "A,B", "names"},
    {0},
};
static const struct usage usage = {"test FILE [options]", "Tests.", opts};

static void options_in_every_form(void **state)
{
    (void)state;
    char *argv[] = {"test", "one",      "-f",  "--text=a=b", "--number", "-7", "--list",
                    "x,y",  "--list=z", "two", "--",         "-f",       NULL};
    int argc = 12;
    opt_parse(&argc, argv, &usage);
    assert_int_equal(argc, 4);
    assert_string_equal(argv[1], "one");
    assert_string_equal(argv[2], "two");
    assert_string_equal(argv[3], "-f");
    assert_null(argv[4]);
    assert_true(flag);
    assert_string_equal(text, "a=b");
    assert_int_equal(number, -7);
    assert_int_equal(list.len, 3);
    assert_string_equal(list.ptr[2], "z");
    strings_free(&list);
}

/* What opt_parse prints when it ends the program; *status gets the exit status. */
static char *parse_in_child(char **argv, int *status)
{
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fd[1], 1);
        dup2(fd[1], 2);
        int argc = 0;
        while (argv[argc]) argc++;
        opt_parse(&argc, argv, &usage);
        _exit(99);
    }
    close(fd[1]);
    struct buf b = BUF_INIT;
    char chunk[4096];
    ssize_t n;
    while ((n = read(fd[0], chunk, sizeof chunk)) > 0) buf_add(&b, chunk, (size_t)n);
    close(fd[0]);
    assert_int_equal(waitpid(pid, status, 0), pid);
    *status = WEXITSTATUS(*status);
    return buf_take(&b);
}

static void bad_options_are_one_line(void **state)
{
    (void)state;
    static const struct {
        char *arg;
        const char *message;
    } rows[] = {
        {"--txt", "concord: test: unknown option '--txt': did you mean '--text'?\n"},
        {"--zzzzzzz", "concord: test: unknown option '--zzzzzzz': `concord test --help` lists them\n"},
        {"--number=3x", "concord: test: --number wants a whole number, not '3x'\n"},
        {"--text", "concord: test: --text wants a value: --text TEXT\n"},
        {"--flag=1", "concord: test: --flag takes no value\n"},
        {"-q", "concord: test: unknown option '-q': `concord test --help` lists them\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int status;
        char *out = parse_in_child((char *[]){"test", rows[i].arg, NULL}, &status);
        assert_string_equal(out, rows[i].message);
        assert_int_equal(status, EXIT_USAGE);
        free(out);
    }
}

static void help_lists_the_table(void **state)
{
    (void)state;
    int status;
    char *out = parse_in_child((char *[]){"test", "--help", NULL}, &status);
    assert_int_equal(status, 0);
    assert_true(str_starts(out, "usage: concord test FILE [options]\n\nTests.\n\n"));
    assert_non_null(strstr(out, "  -t, --text TEXT           a text\n"));
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_wrapped),
        cmocka_unit_test(buf_grows_and_keeps_nul),
        cmocka_unit_test(vec_gives_zeroed_elements),
        cmocka_unit_test(map_finds_and_keeps_order),
        cmocka_unit_test(nearest_name),
        cmocka_unit_test(versions_order),
        cmocka_unit_test(paths_join),
        cmocka_unit_test(files_are_replaced_whole),
        cmocka_unit_test(trees_are_made_and_removed),
        cmocka_unit_test(lists_are_sorted),
        cmocka_unit_test(locks_exclude),
        cmocka_unit_test(sha256_known_answers),
        cmocka_unit_test(home_and_share),
        cmocka_unit_test(output_and_status),
        cmocka_unit_test(environment_and_folder),
        cmocka_unit_test(big_output_is_cut),
        cmocka_unit_test(big_input_needs_no_reader),
        cmocka_unit_test(time_limit_kills_the_group),
        cmocka_unit_test(leftovers_are_killed),
        cmocka_unit_test(what_cannot_start_is_said),
        cmocka_unit_test(interrupt_ends_the_child),
        cmocka_unit_test(options_in_every_form),
        cmocka_unit_test(bad_options_are_one_line),
        cmocka_unit_test(help_lists_the_table),
    };
    return cmocka_run_group_tests(tests, make_scratch, drop_scratch);
}
