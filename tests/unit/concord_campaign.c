/* concord_campaign.c - tests of campaign files: the reference campaign, every kind of error, selection. */
#include "concord/campaign/campaign.h"

#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/concord_campaign.XXXXXX"; /* messages are compared without it */

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int drop_file(void **state)
{
    (void)state;
    return unlink(path);
}

static int load(const char *text, size_t n, struct campaign *c, struct err *e)
{
    assert_int_equal(file_write(path, text, n, 0, e), 0);
    return campaign_load(path, c, e);
}

#define HEAD "name: x\napis: [torch.a]\nreleases: [{torch: 2.7.1, torch_npu: 2.7.1}]\n"

static const struct {
    const char *text;
    const char *message; /* behind the path */
} bad[] = {
    {"", ":1:1: expected a campaign, found an empty file"},
    {"- a\n", ":1:1: expected a campaign (a mapping), found a list"},
    {"name: [x\n", ":2:1: not valid YAML: did not find expected ',' or ']'"},
    {"name: \"\x01\"\n", ":1:8: not valid YAML: control characters are not allowed"},
    {HEAD "---\nname: y\n", ":5:1: expected the end of the file, found a second document"},
    {"name: x\n", ":1:1: a campaign needs the key 'apis'"},
    {"name: x\nname: y\n", ":2:1: 'name' stands twice: first in line 1"},
    {"name: x\nrelease: []\n", ":2:1: unknown key 'release': did you mean 'releases'?"},
    {"zzz: x\n", ":1:1: unknown key 'zzz': expected one of name, apis, releases, upstream, plugin, tests, "
                 "family, review, device, executor, "
                 "tolerances, report"},
    {"name:\n", ":1:6: expected a name of letters, digits, '-', '_' and '.', found nothing"},
    {"name: a/b\n", ":1:7: expected a name of letters, digits, '-', '_' and '.', found 'a/b'"},
    {"apis: torch.a\n", ":1:7: expected a list with at least one API, found 'torch.a'"},
    {"apis: []\n", ":1:7: expected a list with at least one API, found an empty list"},
    {"apis:\n  - torch.a\n  - torch..b\n",
     ":3:5: expected the dotted name of an API such as torch.utils.checkpoint.checkpoint, found 'torch..b'"},
    {"apis: [torch]\n",
     ":1:8: expected the dotted name of an API such as torch.utils.checkpoint.checkpoint, found 'torch'"},
    {"apis: [torch.a, torch.b, torch.a]\n", ":1:26: one API stands twice: 'torch.a'"},
    {"releases: [2.7.1]\n", ":1:12: expected a release (a mapping), found '2.7.1'"},
    {"releases: [{torch: 2.7.1}]\n", ":1:12: a release needs the key 'torch_npu'"},
    {"releases:\n  - torch: 2.7.1\n    torch_np: 2.7.1\n",
     ":3:5: unknown key 'torch_np': did you mean 'torch_npu'?"},
    {"releases: [{torch: 2, torch_npu: 2.7.1}]\n", ":1:20: expected a version such as 2.7.1, found '2'"},
    {"releases: [{torch: 2.7.1, torch_npu: 2.9.0}]\n",
     ":1:12: torch_npu 2.9.0 does not go with torch 2.7.1: their versions start alike"},
    {"releases: [{torch: 2.7.1, torch_npu: 2.7.10}]\n",
     ":1:12: torch_npu 2.7.10 does not go with torch 2.7.1: their versions start alike"},
    {"releases: [{torch: 2.7.1, torch_npu: 2.7.1}, {torch: 2.7.1, torch_npu: 2.7.1}]\n",
     ":1:46: one release stands twice: '2.7.1'"},
    {"releases: [{torch: 2.7.1, torch_npu: 2.7.1, pins: {Torch_NPU: 2.7.1}}]\n",
     ":1:12: release 2.7.1 pins torch-npu: set its version with the keys 'torch' and 'torch_npu'"},
    {"releases: [{torch: 2.7.1, torch_npu: 2.7.1, pins: [sympy]}]\n",
     ":1:51: expected a mapping with packages as keys, found a list"},
    {"releases: [{torch: 2.7.1, torch_npu: 2.7.1, branch: ../x}]\n",
     ":1:53: expected a branch, tag or folder name, found '../x'"},
    {HEAD "device: npu\n", ":4:9: unknown value 'npu': expected one of auto, hardware, software"},
    {HEAD "device: softwear\n", ":4:9: unknown value 'softwear': did you mean 'software'?"},
    {HEAD "executor: {workers: 0}\n", ":4:21: expected a whole number from 1 to 256, or auto, found '0'"},
    {HEAD "executor: {workers: '4'}\n", ":4:21: expected a whole number from 1 to 256, or auto, found '4'"},
    {HEAD "executor: {workers: 4x}\n", ":4:21: expected a whole number from 1 to 256, or auto, found '4x'"},
    {HEAD "executor: {case_timeout: 120}\n",
     ":4:26: expected a duration such as 90s, 10m or 2h, found '120'"},
    {HEAD "executor: {case_timeout: -1s}\n",
     ":4:26: expected a duration such as 90s, 10m or 2h, found '-1s'"},
    {HEAD "tolerances: {float33: {rtol: 1, atol: 1}}\n",
     ":4:14: unknown dtype 'float33': did you mean 'float32'?"},
    {HEAD "tolerances: {float32: {rtol: 1}}\n", ":4:23: a tolerance needs the key 'atol'"},
    {HEAD "tolerances: {float32: {rtol: -1, atol: 1}}\n", ":4:30: expected a number, 0 or more, found '-1'"},
    {HEAD "tolerances: {float32: {rtol: nan, atol: 1}}\n",
     ":4:30: expected a number, 0 or more, found 'nan'"},
    {HEAD "report: {languages: [de]}\n", ":4:22: unknown language 'de': expected one of zh, en"},
    {HEAD "upstream: {source: a}\n", ":4:11: the upstream source needs the key 'revision'"},
    {HEAD "upstream: {source: a, revision: 'v{x}'}\n",
     ":4:11: revision: unknown '{x}': {torch}, {torch_npu} and {branch} are replaced"},
    {HEAD "? [a]\n: b\n", ":4:3: expected a key, found a list"},
};

static void every_error_has_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct campaign c;
        struct err e = {""};
        assert_int_equal(load(bad[i].text, strlen(bad[i].text), &c, &e), -1);
        assert_true(str_starts(e.text, path));
        assert_string_equal(e.text + strlen(path), bad[i].message);
        assert_null(c.path); /* nothing is left to free */
    }
}

static void bytes_that_are_no_text(void **state)
{
    (void)state;
    struct campaign c;
    struct err e;
    assert_int_equal(load("name: x\napis: \xff\n", 15, &c, &e), -1);
    assert_string_equal(e.text + strlen(path), ":2:7: not valid YAML: invalid leading UTF-8 octet");
    assert_int_equal(load("name: \"a\\0b\"\n", 13, &c, &e), -1);
    assert_string_equal(e.text + strlen(path), ":1:7: a NUL byte in a text");
    assert_int_equal(campaign_load("/nowhere.yaml", &c, &e), -1);
    assert_string_equal(e.text, "cannot read '/nowhere.yaml': No such file or directory");
}

static void defaults_are_filled(void **state)
{
    (void)state;
    struct campaign c;
    struct err e;
    assert_int_equal(load(HEAD, strlen(HEAD), &c, &e), 0);
    assert_string_equal(c.releases.ptr[0].branch, "v2.7.1");
    assert_int_equal(c.device, DEVICE_AUTO);
    assert_int_equal(c.executor.workers, 0);
    assert_true(c.executor.case_timeout_ms > 0 && c.executor.start_timeout_ms > 0);
    assert_int_equal(c.languages.len, 2);
    assert_null(c.upstream.source);
    campaign_free(&c);
    static const char all[] = HEAD "executor: {workers: 3, case_timeout: 1500ms, start_timeout: 2m}\n"
                                   "report: {languages: [en]}\ndevice: software\n"
                                   "tolerances: {float16: {rtol: 0.5, atol: 2e-3}}\n";
    assert_int_equal(load(all, strlen(all), &c, &e), 0);
    assert_int_equal(c.executor.workers, 3);
    assert_int_equal(c.executor.case_timeout_ms, 1500);
    assert_int_equal(c.executor.start_timeout_ms, 120000);
    assert_int_equal(c.device, DEVICE_SOFTWARE);
    assert_int_equal(c.languages.len, 1);
    double rtol = -1, atol = -1;
    assert_int_equal(campaign_tolerance(&c, "float16", &rtol, &atol), 0);
    assert_true(fabs(rtol - 0.5) < 1e-12 && fabs(atol - 2e-3) < 1e-12);
    assert_int_equal(campaign_tolerance(&c, "float64", &rtol, &atol), 0);
    assert_true(fabs(rtol - 1e-7) < 1e-15);
    assert_int_equal(campaign_tolerance(&c, "bool", &rtol, &atol), 0);
    assert_true(rtol == 0 && atol == 0);
    assert_int_equal(campaign_tolerance(&c, "float8", &rtol, &atol), -1);
    campaign_free(&c);
}

static void reference_campaign(void **state)
{
    (void)state;
    struct campaign c;
    struct err e;
    assert_int_equal(campaign_load(SOURCE_DIR "/campaigns/utils-checkpoint.yaml", &c, &e), 0);
    static const char *const apis[] = {"torch.overrides.is_tensor_like", "torch.utils.checkpoint.checkpoint",
                                       "torch.utils.checkpoint.checkpoint_sequential"};
    static const char *const versions[] = {"2.7.1", "2.9.0", "2.10.0", "2.11.0", "2.12.0"};
    assert_int_equal(c.apis.len, 3);
    for (int i = 0; i < 3; i++) assert_string_equal(c.apis.ptr[i], apis[i]);
    assert_int_equal(c.releases.len, 5);
    for (int i = 0; i < 5; i++) assert_string_equal(c.releases.ptr[i].torch_npu, versions[i]);
    char *tag = campaign_revision(&c.upstream, &c.releases.ptr[2]);
    char *branch = campaign_revision(&c.plugin, &c.releases.ptr[2]);
    assert_string_equal(tag, "v2.10.0");
    assert_string_equal(branch, "v2.10.0");
    assert_string_equal(c.plugin.patches, "test_upstream");
    free(tag);
    free(branch);
    campaign_free(&c);
}

static void pins_are_normalised(void **state)
{
    (void)state;
    static const char text[] =
        "name: x\napis: [torch.a]\nreleases:\n  - torch: 2.7.1\n    torch_npu: 2.7.1.post11\n"
        "    pins: {Typing_Extensions: 4.12.2}\n";
    struct campaign c;
    struct err e;
    assert_int_equal(load(text, strlen(text), &c, &e), 0);
    assert_string_equal(c.releases.ptr[0].pins.ptr[0].package, "typing-extensions");
    assert_string_equal(c.releases.ptr[0].pins.ptr[0].version, "4.12.2");
    campaign_free(&c);
}

static void selection(void **state)
{
    (void)state;
    struct campaign c;
    struct err e;
    char *two[] = {"2.12.0", "v2.9.0"}, *wrong[] = {"2.13.0"}, *far[] = {"1.0"};
    char *api[] = {"torch.overrides.is_tensor_like"}, *misspelt[] = {"torch.overrides.is_tensor_lik"};
    assert_int_equal(campaign_load(SOURCE_DIR "/campaigns/utils-checkpoint.yaml", &c, &e), 0);
    assert_int_equal(campaign_select(&c, &(strings){wrong, 1, 1}, NULL, &e), -1);
    assert_non_null(strstr(e.text, "has no release '2.13.0': did you mean '2.1"));
    assert_int_equal(campaign_select(&c, &(strings){far, 1, 1}, NULL, &e), -1);
    assert_non_null(strstr(e.text, "has no release '1.0': it has 2.7.1, 2.9.0, 2.10.0, 2.11.0, 2.12.0"));
    assert_int_equal(campaign_select(&c, NULL, &(strings){misspelt, 1, 1}, &e), -1);
    assert_non_null(strstr(e.text, "did you mean 'torch.overrides.is_tensor_like'?"));
    assert_int_equal(campaign_select(&c, NULL, &(strings){0}, &e), 0);
    assert_int_equal(c.releases.len * c.apis.len, 15);
    assert_int_equal(campaign_select(&c, &(strings){two, 2, 2}, &(strings){api, 1, 1}, &e), 0);
    assert_int_equal(c.releases.len, 2);
    assert_string_equal(c.releases.ptr[0].torch, "2.9.0");
    assert_int_equal(c.apis.len, 1);
    campaign_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_error_has_its_place), cmocka_unit_test(bytes_that_are_no_text),
        cmocka_unit_test(defaults_are_filled),       cmocka_unit_test(reference_campaign),
        cmocka_unit_test(pins_are_normalised),       cmocka_unit_test(selection),
    };
    return cmocka_run_group_tests(tests, make_file, drop_file);
}
