/* concord_adapt_cli.c - concord adapt and concord rules as they are used: from an API's name to patches. */
#include "tests/unit/patch_util.h"

#include "tests/unit/concord_program.h"

#include "concord/adapt/adapt.h"
#include "concord/patch/load.h"

#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

static char folder[64];
static char *tree, *out, *home; /* the upstream tree, where patches go, the cache */

static int concord_with(const char *answers, const char *const *args, struct buf *text)
{
    buf_clear(text);
    return run_concord(folder, home, answers, args, text);
}

#define RUN(text, ...) concord_with(NULL, (const char *const[]){__VA_ARGS__, NULL}, text)
#define API "torch.utils.checkpoint.checkpoint"

static void write_at(const char *root, const char *name, const char *text)
{
    struct err e;
    char *path = path_join(root, name), *slash = strrchr(path, '/'),
         *dir = xstrndup(path, (size_t)(slash - path));
    if (dir_make(dir, &e) || file_write(path, text, strlen(text), 0, &e)) fail_msg("%s", e.text);
    free(dir);
    free(path);
}

static void read_at(const char *root, const char *name, struct buf *text)
{
    struct err e;
    char *path = path_join(root, name);
    buf_clear(text);
    if (file_read(path, text, &e)) fail_msg("%s", e.text);
    free(path);
}

static bool exists_at(const char *root, const char *name)
{
    char *path = path_join(root, name);
    bool is = path_exists(path);
    free(path);
    return is;
}

static const char source[] =
    "import os\n"
    "import torch\n"
    "import unittest\n"
    "from torch.utils.checkpoint import checkpoint\n"
    "from torch.testing._internal.common_utils import TestCase\n"
    "\n"
    "\n"
    "HAS_CUDA = torch.cuda.is_available()\n"
    "\n"
    "\n"
    "class TestA(TestCase):\n"
    "    def test_one(self):\n"
    "        x = torch.ones(2, requires_grad=True)\n"
    "        checkpoint(lambda y: y + torch.ones(2), x).sum().backward()\n"
    "\n"
    "    @unittest.skipIf(not HAS_CUDA, \"No CUDA\")\n"
    "    def test_two(self):\n"
    "        x = torch.ones(2, device=\"cuda\", requires_grad=True)\n"
    "        self.assertEqual(str(checkpoint(f, x)), \"tensor([1.], device='cuda:0')\")\n"
    "\n"
    "    def test_other(self):\n"
    "        self.assertEqual(torch.ones(1), torch.ones(1))\n";

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/concord_adapt.XXXXXX");
    if (!mkdtemp(folder)) return -1;
    tree = path_join(folder, "tree");
    out = path_join(folder, "out");
    home = xformat("CONCORD_HOME=%s/home", folder);
    write_at(tree, "test/test_a.py", source);
    write_at(tree, "torch/testing/_internal/common_device_type.py", "class DeviceTypeTestBase: pass\n");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    struct err e;
    free(tree), free(out), free(home);
    return tree_remove(folder, &e);
}

static void patched(const char *patch, struct buf *result)
{
    struct err e;
    struct patch p;
    struct apply_result r;
    bool exists;
    char *path = path_join(out, patch);
    if (patch_load(path, &p, &e)) fail_msg("%s", e.text);
    struct buf base = BUF_INIT;
    read_at(tree, "test/test_a.py", &base);
    buf_clear(result);
    patch_apply(&p, &p.files.ptr[0], slice_of(&base), 0, result, &exists, &r);
    assert_int_equal(r.outcome, APPLY_clean);
    buf_free(&base);
    patch_free(&p);
    free(path);
}

/* The patch does what it should and nothing else; its ids are filled; run again with it, nothing is to do. */
static void test_patch(void **state)
{
    (void)state;
    struct buf text = BUF_INIT, file = BUF_INIT;
    assert_int_equal(RUN(&text, "adapt", API, "--upstream", tree, "--out", out), 0);
    assert_non_null(strstr(buf_str(&text), "audit of 1 patches: 0 errors"));
    assert_non_null(strstr(buf_str(&text), "| TestA.test\\_one |"));
    patched("test/test_a.py.patch", &file);
    static const char *const has[] = {
        "import TestCase\nimport torch_npu\n",
        "x = torch.ones(2, device=\"npu\", requires_grad=True)\n        checkpoint(lambda y: y + "
        "torch.ones(2).npu(), x)",
        "@unittest.skipIf(not torch.npu.is_available(), \"No NPU\")", "device='npu:0')",
        "    def test_other(self):\n        self.assertEqual(torch.ones(1), torch.ones(1))\n"};
    for (size_t i = 0; i < sizeof has / sizeof *has; i++)
        if (!strstr(buf_str(&file), has[i])) fail_msg("no %s in\n%s", has[i], buf_str(&file));
    read_at(out, "test/test_a.py.patch", &text);
    assert_null(strstr(buf_str(&text), "index 0000"));
    assert_non_null(strstr(buf_str(&text), "\nindex "));
    assert_int_equal(RUN(&text, "adapt", API, "--upstream", tree, "--existing", out, "--out", "again"), 0);
    assert_non_null(strstr(buf_str(&text), "\n0 edits in 0 files"));
    assert_false(exists_at(folder, "again"));
    buf_free(&text);
    buf_free(&file);
}

/* Other people's hunks of the file's patch stay byte for byte. */
static void test_merge(void **state)
{
    (void)state;
    static const char theirs[] =
        "diff --git a/test/test_a.py b/test/test_a.py\n"
        "--- a/test/test_a.py\n"
        "+++ b/test/test_a.py\n"
        "@@ -19,4 +19,4 @@ class TestA(TestCase):\n"
        "         self.assertEqual(str(checkpoint(f, x)), \"tensor([1.], device='cuda:0')\")\n"
        " \n"
        "     def test_other(self):\n"
        "-        self.assertEqual(torch.ones(1), torch.ones(1))\n"
        "+        self.assertEqual(torch.ones(1).npu(), torch.ones(1).npu())\n";
    struct buf text = BUF_INIT, file = BUF_INIT;
    write_at(folder, "theirs/test/test_a.py.patch", theirs);
    assert_int_equal(RUN(&text, "adapt", API, "--upstream", tree, "--existing", "theirs", "--out", out), 0);
    patched("test/test_a.py.patch", &file);
    assert_non_null(strstr(buf_str(&file), "torch.ones(1).npu(), torch.ones(1).npu()"));
    assert_non_null(strstr(buf_str(&file), "import torch_npu\n"));
    read_at(out, "test/test_a.py.patch", &text);
    assert_non_null(strstr(buf_str(&text),
                           "\n-        self.assertEqual(torch.ones(1), torch.ones(1))\n+        "
                           "self.assertEqual(torch.ones(1).npu(), torch.ones(1).npu())\n"));
    buf_free(&text);
    buf_free(&file);
}

static void test_dry_run_and_style(void **state)
{
    (void)state;
    struct buf text = BUF_INIT, file = BUF_INIT;
    assert_int_equal(RUN(&text, "adapt", API, "--upstream", tree, "--out", "dry", "-n"), 0);
    assert_false(exists_at(folder, "dry"));
    assert_int_equal(RUN(&text, "adapt", API, "--upstream", tree, "--out", out, "--style", "helper"), 0);
    patched("test/test_a.py.patch", &file);
    assert_non_null(strstr(buf_str(&file), "import torch_npu\ndevice_type = \"npu\"\n"));
    assert_non_null(strstr(buf_str(&file), "torch.ones(2).to(device_type)"));
    assert_int_equal(
        RUN(&text, "adapt", API, "--upstream", tree, "--existing", out, "-n", "--style", "helper"), 0);
    assert_non_null(strstr(buf_str(&text), "\n0 edits in 0 files"));
    buf_free(&text);
    buf_free(&file);
}

static void test_interactive(void **state)
{
    (void)state;
    struct buf text = BUF_INIT, file = BUF_INIT;
    const char *const args[] = {"adapt", API, "--upstream", tree, "--out", out, "-i", NULL};
    assert_int_equal(concord_with("n\ny\nq\n", args, &text), 0);
    patched("test/test_a.py.patch", &file);
    assert_non_null(strstr(buf_str(&file), "x = torch.ones(2, requires_grad=True)\n"));
    assert_non_null(strstr(buf_str(&file), "y + torch.ones(2).npu()"));
    assert_non_null(strstr(buf_str(&file), "device=\"cuda\""));
    assert_int_equal(concord_with("n\n", args, &text), 2); /* no answer is no consent */
    buf_free(&text);
    buf_free(&file);
}

/* PyTorch's own name for a device that a plugin brings. */
static void test_other_device(void **state)
{
    (void)state;
    struct buf text = BUF_INIT, file = BUF_INIT;
    write_at(folder, "foo.yaml",
             "device: privateuseone\nmodule: torch_foo\nimport:\n  - import torch_foo\n"
             "  - torch_foo.init()\nfunctions: [is_available]\n");
    assert_int_equal(RUN(&text, "adapt", API, "--upstream", tree, "--out", out, "--device", "foo.yaml"), 0);
    patched("test/test_a.py.patch", &file);
    assert_non_null(strstr(buf_str(&file), "import torch_foo\ntorch_foo.init()\n"));
    assert_non_null(strstr(buf_str(&file), "torch.ones(2).privateuseone()"));
    assert_non_null(strstr(buf_str(&file), "torch.privateuseone.is_available(), \"No PRIVATEUSEONE\""));
    assert_non_null(strstr(buf_str(&file), "device='privateuseone:0'"));
    static const struct {
        const char *yaml, *says;
    } bad[] = {
        {"device: foo\n", "device and module must be given"},
        {"device: foo\nmodul: torch_foo\n", "bad.yaml:2:1: unknown key 'modul': did you mean 'module'?"},
        {"device: [foo]\nmodule: x\n", "bad.yaml:1:9: expected a Python name"},
        {"device: foo\nmodule: 'a b'\n", "bad.yaml:2:9: expected a Python name"},
        {"device: foo\nmodule: x\nfunctions: a\n", "expected a list"},
        {"- a\n", "expected keys"},
        {"a: [\n", "bad.yaml:2:1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_at(folder, "bad.yaml", bad[i].yaml);
        assert_int_equal(RUN(&text, "adapt", API, "--upstream", tree, "-n", "--device", "bad.yaml"), 2);
        if (!strstr(buf_str(&text), bad[i].says)) fail_msg("%s: %s", bad[i].yaml, buf_str(&text));
    }
    buf_free(&text);
    buf_free(&file);
}

/* An API without a covering test gets an own test to begin with; a file that is there is a person's. */
static void test_skeleton(void **state)
{
    (void)state;
    struct buf text = BUF_INIT;
    assert_int_equal(RUN(&text, "adapt", "torch.futures.nobody", "--upstream", tree, "--out", out), 0);
    read_at(out, "own/test_torch_futures_nobody.py", &text);
    struct py_file *f = py_parse("own.py", buf_str(&text), text.len);
    assert_int_equal(f->error_row, 0);
    assert_int_not_equal(py_scope_named(f, "TestTorchFuturesNobody.test_nobody_as_on_cpu"), UINT32_MAX);
    py_free(f);
    write_at(out, "own/test_torch_futures_nobody.py", "# mine\n");
    assert_int_equal(RUN(&text, "adapt", "torch.futures.nobody", "--upstream", tree, "--out", out), 0);
    read_at(out, "own/test_torch_futures_nobody.py", &text);
    assert_string_equal(buf_str(&text), "# mine\n");
    buf_free(&text);
}

/* In classes that are instantiated per device only the guard changes, and not even that where the release
 * takes configuration. */
static void test_generic(void **state)
{
    (void)state;
    struct buf text = BUF_INIT, file = BUF_INIT;
    write_at(
        tree, "test/test_a.py",
        "import torch\n"
        "from torch.utils.checkpoint import checkpoint\n"
        "from torch.testing._internal.common_device_type import instantiate_device_type_tests, onlyCUDA\n"
        "\n\nclass TestA:\n"
        "    @onlyCUDA\n"
        "    def test_one(self, device):\n"
        "        checkpoint(f, torch.ones(2))\n"
        "\n\ninstantiate_device_type_tests(TestA, globals())\n");
    assert_int_equal(RUN(&text, "adapt", API, "--upstream", tree, "--out", out), 0);
    patched("test/test_a.py.patch", &file);
    assert_non_null(
        strstr(buf_str(&file), "import instantiate_device_type_tests, onlyCUDA, onlyPRIVATEUSE1\n"));
    assert_non_null(strstr(buf_str(&file), "    @onlyPRIVATEUSE1\n"));
    assert_non_null(strstr(buf_str(&file), "checkpoint(f, torch.ones(2))"));
    write_at(tree, "torch/testing/_internal/common_device_type.py", "    def set_test_configs(cls): pass\n");
    assert_int_equal(RUN(&text, "adapt", API, "--upstream", tree, "-n"), 0);
    assert_non_null(strstr(buf_str(&text), "set_test_configs"));
    assert_non_null(strstr(buf_str(&text), "\n0 edits in 0 files"));
    write_at(tree, "torch/testing/_internal/common_device_type.py", "\n");
    write_at(tree, "test/test_a.py", source);
    buf_free(&text);
    buf_free(&file);
}

/* A test that reaches the API through a helper of torch.testing is not about it, unless its file is named. */
static void test_far(void **state)
{
    (void)state;
    struct buf text = BUF_INIT;
    write_at(
        tree, "torch/testing/_internal/common_x.py",
        "from torch.utils.checkpoint import checkpoint\n\n\ndef run_it(x):\n    return checkpoint(f, x)\n");
    write_at(tree, "test/test_b.py",
             "import torch\nfrom torch.testing._internal.common_x import run_it\n\n\n"
             "class TestB:\n    def test_far(self):\n        run_it(torch.ones(2))\n");
    assert_int_equal(RUN(&text, "adapt", API, "--upstream", tree, "--out", "far"), 0);
    assert_non_null(strstr(buf_str(&text), "TestB.test_far: reaches it through torch.testing only"));
    assert_false(exists_at(folder, "far/test/test_b.py.patch"));
    assert_int_equal(RUN(&text, "adapt", API, "--upstream", tree, "--out", "far", "--only", "test_b"), 0);
    assert_true(exists_at(folder, "far/test/test_b.py.patch"));
    buf_free(&text);
}

static void test_rules(void **state)
{
    (void)state;
    struct buf text = BUF_INIT;
    assert_int_equal(RUN(&text, "rules"), 0);
    for (int i = 0; i < RULE_COUNT; i++) assert_non_null(strstr(buf_str(&text), adapt_rules[i].name));
    write_at(folder, "branch/test/test_a.py.patch",
             "diff --git a/test/test_a.py b/test/test_a.py\n--- a/test/test_a.py\n+++ b/test/test_a.py\n"
             "@@ -12,3 +12,3 @@\n     def test_one(self):\n-        x = torch.ones(2, requires_grad=True)\n"
             "+        x = torch.ones(2, device=\"npu\", requires_grad=True)\n"
             "         checkpoint(lambda y: y + torch.ones(2), x).sum().backward()\n");
    assert_int_equal(RUN(&text, "rules", "replay", "branch", "--upstream", tree, "--json", "replay.json"), 0);
    assert_non_null(strstr(buf_str(&text), "1 in an upstream file"));
    read_at(folder, "replay.json", &text);
    json_t *root = json_loads(buf_str(&text), 0, NULL);
    assert_non_null(root);
    json_t *rules = json_object_get(json_array_get(json_object_get(root, "branches"), 0), "rules");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(rules, "leaf-device"), "right")), 1);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(rules, "factory"), "wrong")), 1);
    json_decref(root);
    assert_int_equal(RUN(&text, "rules", "repla"), 2);
    assert_int_equal(RUN(&text, "rules", "replay"), 2);
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_patch),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_dry_run_and_style),
        cmocka_unit_test(test_interactive),
        cmocka_unit_test(test_skeleton),
        cmocka_unit_test(test_other_device),
        cmocka_unit_test(test_generic),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_far),
    };
    return cmocka_run_group_tests(all, set_up, tear_down);
}
