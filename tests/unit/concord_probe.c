/* concord_probe.c - finding the device in planted places, and labels from what a worker says it loaded. */
#include "concord/run/probe.h"

#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char root[] = "/tmp/concord_probe.XXXXXX";

static char *at(const char *name)
{
    return path_join(root, name);
}

static void plant(const char *name, mode_t mode)
{
    struct err e;
    char *path = at(name), *folder = xstrdup(path);
    *strrchr(folder, '/') = '\0';
    assert_int_equal(dir_make(folder, &e), 0);
    assert_int_equal(file_write(path, "#!/bin/sh\n", 10, mode, &e), 0);
    free(path);
    free(folder);
}

static int set_up(void **state)
{
    (void)state;
    unsetenv("ASCEND_HOME_PATH");
    if (!mkdtemp(root)) return -1;
    plant("board/davinci0", 0);
    plant("board/davinci_manager", 0);
    plant("empty/null", 0);
    plant("toolkit/set_env.sh", 0);
    plant("toolkit/latest/version.cfg", 0);
    plant("softnpu", 0755);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return tree_remove(root, NULL);
}

static int probe(enum device_choice choice, const char *dev, const char *toolkit, const char *home,
                 const char *launcher, struct device_setup *out, struct err *e)
{
    char *dev_path = at(dev), *toolkit_path = toolkit ? at(toolkit) : NULL,
         *home_path = home ? at(home) : NULL;
    char *launcher_path = at(launcher);
    const char *homes[] = {home_path, NULL};
    struct probe_places places = {dev_path, launcher_path, homes};
    int status = probe_device(choice, toolkit_path, &places, out, e);
    free(dev_path);
    free(toolkit_path);
    free(home_path);
    free(launcher_path);
    return status;
}

static void test_set_up(void **state)
{
    (void)state;
    static const struct {
        enum device_choice choice;
        const char *dev, *toolkit, *home, *launcher;
        const char *prefix; /* NULL: an error that contains message */
        const char *message;
    } rows[] = {
        {DEVICE_AUTO, "empty", NULL, "toolkit", "softnpu", "softnpu", NULL},
        {DEVICE_AUTO, "board", NULL, "toolkit", "softnpu", "bash", NULL},
        {DEVICE_AUTO, "board", NULL, NULL, "softnpu", NULL, "--device software"},
        {DEVICE_SOFTWARE, "board", NULL, "toolkit", "softnpu", "softnpu", NULL},
        {DEVICE_SOFTWARE, "empty", NULL, NULL, "absent", NULL, "no softnpu launcher"},
        {DEVICE_SOFTWARE, "empty", "toolkit", NULL, "softnpu", NULL, "--device software needs none"},
        {DEVICE_HARDWARE, "empty", NULL, NULL, "softnpu", NULL, "use --device software"},
        {DEVICE_HARDWARE, "empty", NULL, "toolkit", "softnpu", "bash", NULL},
        {DEVICE_HARDWARE, "empty", "toolkit", NULL, "softnpu", "bash", NULL},
        {DEVICE_HARDWARE, "empty", "toolkit/latest", NULL, "softnpu", "bash",
         NULL}, /* set_env.sh one above */
        {DEVICE_HARDWARE, "empty", "empty", NULL, "softnpu", NULL, "no set_env.sh there"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct device_setup setup;
        struct err e;
        int status =
            probe(rows[i].choice, rows[i].dev, rows[i].toolkit, rows[i].home, rows[i].launcher, &setup, &e);
        if (!rows[i].prefix) {
            assert_int_equal(status, -1);
            assert_non_null(strstr(e.text, rows[i].message));
            continue;
        }
        assert_int_equal(status, 0);
        assert_true(str_ends(setup.prefix.ptr[0], rows[i].prefix));
        assert_int_equal(setup.toolkit != NULL, !strcmp(rows[i].prefix, "bash"));
        device_setup_free(&setup);
    }
}

/* A toolkit that the shell has sourced is used as it is. */
static void test_sourced(void **state)
{
    (void)state;
    struct device_setup setup;
    struct err e;
    char *home = at("toolkit");
    setenv("ASCEND_HOME_PATH", home, 1);
    assert_int_equal(probe(DEVICE_HARDWARE, "empty", NULL, NULL, "softnpu", &setup, &e), 0);
    assert_string_equal(setup.prefix.ptr[0], "env");
    assert_string_equal(setup.toolkit, home);
    device_setup_free(&setup);
    unsetenv("ASCEND_HOME_PATH");
    free(home);
}

static void test_device_files(void **state)
{
    (void)state;
    char *board = at("board"), *empty = at("empty"), *absent = at("absent");
    assert_int_equal(probe_device_files(board), 1); /* davinci_manager is no board */
    assert_int_equal(probe_device_files(empty), 0);
    assert_int_equal(probe_device_files(absent), 0);
    free(board);
    free(empty);
    free(absent);
}

static void test_labels(void **state)
{
    (void)state;
    static const struct {
        const char *softnpu, *ascendcl;
        int files;
        enum device_kind kind;
    } rows[] = {
        {"/x/libsoftnpu.so", "/x/libascendcl.so", 0, KIND_SOFTWARE},
        {"/x/libsoftnpu.so", "/x/libascendcl.so", 1, KIND_SOFTWARE}, /* whatever the layout and the files */
        {"", "/usr/local/Ascend/lib64/libascendcl.so", 1, KIND_HARDWARE},
        {"", "/usr/local/Ascend/lib64/libascendcl.so", 0, KIND_NONE},
        {"", "", 1, KIND_NONE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *files = json_array();
        for (int k = 0; k < rows[i].files; k++) json_array_append_new(files, json_string("/dev/davinci0"));
        json_t *hello = json_pack("{s:s, s:s, s:o}", "softnpu", rows[i].softnpu, "ascendcl", rows[i].ascendcl,
                                  "device_files", files);
        assert_int_equal(probe_label(hello), rows[i].kind);
        json_decref(hello);
    }
    json_t *nothing = json_object();
    assert_int_equal(probe_label(nothing), KIND_NONE);
    json_decref(nothing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_set_up), cmocka_unit_test(test_sourced),
                                       cmocka_unit_test(test_device_files), cmocka_unit_test(test_labels)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
