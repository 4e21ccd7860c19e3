/* campaign.c - the schema of campaign files, and what follows from a campaign. */
#include "concord/campaign/campaign.h"

#include "concord/campaign/schema.h"
#include "concord/forge/names.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts --------------------------------------------------------------------------------------------- */

const char *const device_choice_names[NDEVICE_CHOICES + 1] = {"auto", "hardware", "software", NULL};

/* N.N[.N...] and, as package indexes have it, an optional suffix of letters and digits (post11, rc1, +cpu).
 */
static bool is_version(const char *s)
{
    int numbers = 0;
    for (; isdigit((unsigned char)*s); numbers++) {
        while (isdigit((unsigned char)*s)) s++;
        if (*s != '.') break;
        s++;
        if (isalpha((unsigned char)*s)) break;
    }
    return numbers >= 2 && s[-1] != '+' && !s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.+")];
}

static bool is_identifier(const char *s, size_t n)
{
    if (!n || isdigit((unsigned char)*s)) return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && s[i] != '_') return false;
    return true;
}

/* Dotted, and at least two names: a module's own name is no API. */
static bool is_api(const char *s)
{
    int names = 0;
    for (;; s++) {
        size_t n = strcspn(s, ".");
        if (!is_identifier(s, n)) return false;
        names++;
        s += n;
        if (!*s) return names >= 2;
    }
}

static bool is_word(const char *s)
{
    return *s && !s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")] &&
           *s != '-';
}

/* Names are used as git revisions and as folders, so what could climb out or be taken for an option is
 * refused. */
static bool is_ref(const char *s)
{
    return *s && *s != '-' && *s != '/' && !strstr(s, "..") && !s[strcspn(s, " \t\n~^:?*[\\")];
}

static const char *const dtypes[] = {"float16",   "bfloat16",   "float32", "float64",
                                     "complex64", "complex128", NULL};
static const char *const languages[] = {"zh", "en", NULL};

static const struct text_rule rule_name = {"a name of letters, digits, '-', '_' and '.'", is_word, NULL};
static const struct text_rule rule_api = {
    "the dotted name of an API such as torch.utils.checkpoint.checkpoint", is_api, NULL};
static const struct text_rule rule_version = {"a version such as 2.7.1", is_version, NULL};
static const struct text_rule rule_ref = {"a branch, tag or folder name", is_ref, NULL};
static const struct text_rule rule_source = {"a repository: URL or folder", NULL, NULL};
static const struct text_rule rule_package = {"the name of a package", is_word, NULL};
static const struct text_rule rule_dtype = {"dtype", NULL, dtypes};
static const struct text_rule rule_language = {"language", NULL, languages};

/* ---- records ------------------------------------------------------------------------------------------- */

static const struct pairs pins_pairs = {.what = "packages",
                                        .size = sizeof(struct campaign_pin),
                                        .key = &rule_package,
                                        .kind = FIELD_TEXT,
                                        .offset = offsetof(struct campaign_pin, version),
                                        .detail = &rule_version};

static const struct field release_fields[] = {
    {"torch", FIELD_TEXT, true, offsetof(struct campaign_release, torch), &rule_version},
    {"torch_npu", FIELD_TEXT, true, offsetof(struct campaign_release, torch_npu), &rule_version},
    {"branch", FIELD_TEXT, false, offsetof(struct campaign_release, branch), &rule_ref},
    {"pins", FIELD_PAIRS, false, offsetof(struct campaign_release, pins), &pins_pairs},
    {0},
};

static void normalise_package(char *s)
{
    char *out = s;
    for (; *s; s++) {
        bool separator = strchr("-_.", *s) != NULL;
        if (!separator)
            *out++ = (char)tolower((unsigned char)*s);
        else if (out[-1] != '-')
            *out++ = '-';
    }
    *out = '\0';
}

static int check_pins(struct campaign_release *r, struct err *e)
{
    for (size_t i = 0; i < r->pins.len; i++) {
        normalise_package(r->pins.ptr[i].package);
        const char *name = r->pins.ptr[i].package;
        if (!strcmp(name, "torch") || !strcmp(name, "torch-npu"))
            return err_set(e, "release %s pins %s: set its version with the keys 'torch' and 'torch_npu'",
                           r->torch_npu, name);
    }
    return 0;
}

/* torch_npu X.Y.Z and X.Y.Z.postN are built for torch X.Y.Z, and load into no other. */
static int check_release(void *object, struct err *e)
{
    struct campaign_release *r = object;
    size_t n = strlen(r->torch);
    if (strncmp(r->torch_npu, r->torch, n) || (r->torch_npu[n] && isdigit((unsigned char)r->torch_npu[n])))
        return err_set(e, "torch_npu %s does not go with torch %s: their versions start alike", r->torch_npu,
                       r->torch);
    if (!r->branch) r->branch = xformat("v%s", r->torch);
    return check_pins(r, e);
}

static const struct record release_record = {"a release", release_fields, check_release};

static const struct field upstream_fields[] = {
    {"source", FIELD_TEXT, true, offsetof(struct campaign_source, source), &rule_source},
    {"revision", FIELD_TEXT, true, offsetof(struct campaign_source, revision), &rule_ref},
    {0},
};

static const struct field plugin_fields[] = {
    {"source", FIELD_TEXT, true, offsetof(struct campaign_source, source), &rule_source},
    {"revision", FIELD_TEXT, true, offsetof(struct campaign_source, revision), &rule_ref},
    {"patches", FIELD_TEXT, true, offsetof(struct campaign_source, patches), &rule_ref},
    {0},
};

static int check_source(void *object, struct err *e)
{
    static const char *const names[] = {"{torch}", "{torch_npu}", "{branch}"};
    const char *s = ((struct campaign_source *)object)->revision;
    for (; (s = strchr(s, '{')); s++) {
        int known = 0;
        for (int i = 0; i < 3; i++) known += str_starts(s, names[i]);
        if (!known)
            return err_set(e, "revision: unknown '%.20s': {torch}, {torch_npu} and {branch} are replaced", s);
    }
    return 0;
}

static const struct record upstream_record = {"the upstream source", upstream_fields, check_source};
static const struct record plugin_record = {"the plugin source", plugin_fields, check_source};

static const struct int_rule workers_rule = {1, 256, "auto"};
static const struct field executor_fields[] = {
    {"workers", FIELD_INT, false, offsetof(struct campaign, executor.workers), &workers_rule},
    {"case_timeout", FIELD_DURATION, false, offsetof(struct campaign, executor.case_timeout_ms), NULL},
    {"start_timeout", FIELD_DURATION, false, offsetof(struct campaign, executor.start_timeout_ms), NULL},
    {0},
};
static const struct record executor_record = {"the executor", executor_fields, NULL};

static const struct field tolerance_fields[] = {
    {"rtol", FIELD_NUMBER, true, offsetof(struct campaign_tolerance, rtol), NULL},
    {"atol", FIELD_NUMBER, true, offsetof(struct campaign_tolerance, atol), NULL},
    {0},
};
static const struct record tolerance_record = {"a tolerance", tolerance_fields, NULL};
static const struct pairs tolerance_pairs = {.what = "dtypes",
                                             .size = sizeof(struct campaign_tolerance),
                                             .key = &rule_dtype,
                                             .kind = FIELD_RECORD,
                                             .offset = 0,
                                             .detail = &tolerance_record};

static const struct list api_list = {"one API", FIELD_TEXT, sizeof(char *), &rule_api};
static const struct list release_list = {"one release", FIELD_RECORD, sizeof(struct campaign_release),
                                         &release_record};
static const struct list language_list = {"one language", FIELD_TEXT, sizeof(char *), &rule_language};

static bool is_repository(const char *s)
{
    const char *slash = strchr(s, '/');
    return slash && slash > s && slash[1] &&
           !s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "0123456789_.-/")];
}

static bool is_url(const char *s)
{
    return str_starts(s, "https://") || str_starts(s, "http://");
}

static bool is_test_file(const char *s)
{
    return is_ref(s) && str_ends(s, ".py");
}

static const struct text_rule rule_title = {"one line of text", NULL, NULL};
static const struct text_rule rule_repository = {"OWNER/NAME", is_repository, NULL};
static const struct text_rule rule_url = {"a URL that starts with https://", is_url, NULL};
static const struct text_rule rule_test = {"an upstream test file such as test/test_autograd.py",
                                           is_test_file, NULL};
static const struct list test_list = {"one test file", FIELD_TEXT, sizeof(char *), &rule_test};
static const char *const forges[] = {FORGE_NAMES, NULL};
static const struct int_rule limit_rule = {1000, 10000000, "auto"};

static const struct field review_fields[] = {
    {"topic", FIELD_TEXT, false, offsetof(struct campaign, review.topic), &rule_name},
    {"scope", FIELD_TEXT, false, offsetof(struct campaign, review.scope), &rule_name},
    {"title", FIELD_TEXT, false, offsetof(struct campaign, review.title), &rule_title},
    {"issue", FIELD_TEXT, false, offsetof(struct campaign, review.issue), &rule_url},
    {"forge", FIELD_CHOICE, false, offsetof(struct campaign, review.forge), forges},
    {"repository", FIELD_TEXT, false, offsetof(struct campaign, review.repository), &rule_repository},
    {"fork", FIELD_TEXT, false, offsetof(struct campaign, review.fork), &rule_repository},
    {"push", FIELD_TEXT, false, offsetof(struct campaign, review.push), &rule_source},
    {"api", FIELD_TEXT, false, offsetof(struct campaign, review.api), &rule_url},
    {"limit", FIELD_INT, false, offsetof(struct campaign, review.limit), &limit_rule},
    {0},
};
static const struct record review_record = {"the reviews", review_fields, NULL};

static const struct field report_fields[] = {
    {"languages", FIELD_LIST, false, offsetof(struct campaign, languages), &language_list},
    {0},
};
static const struct record report_record = {"the report", report_fields, NULL};

static const struct field campaign_fields[] = {
    {"name", FIELD_TEXT, true, offsetof(struct campaign, name), &rule_name},
    {"apis", FIELD_LIST, true, offsetof(struct campaign, apis), &api_list},
    {"releases", FIELD_LIST, true, offsetof(struct campaign, releases), &release_list},
    {"upstream", FIELD_RECORD, false, offsetof(struct campaign, upstream), &upstream_record},
    {"plugin", FIELD_RECORD, false, offsetof(struct campaign, plugin), &plugin_record},
    {"tests", FIELD_LIST, false, offsetof(struct campaign, tests), &test_list},
    {"family", FIELD_TEXT, false, offsetof(struct campaign, family), &rule_title},
    {"review", FIELD_RECORD, false, 0, &review_record},
    {"device", FIELD_CHOICE, false, offsetof(struct campaign, device), device_choice_names},
    {"executor", FIELD_RECORD, false, 0, &executor_record},
    {"tolerances", FIELD_PAIRS, false, offsetof(struct campaign, tolerances), &tolerance_pairs},
    {"report", FIELD_RECORD, false, 0, &report_record},
    {0},
};
static const struct record campaign_record = {"a campaign", campaign_fields, NULL};

/* ---- the interface ------------------------------------------------------------------------------------- */

enum { CASE_TIMEOUT_MS = 120 * 1000, START_TIMEOUT_MS = 300 * 1000 };

int campaign_load(const char *path, struct campaign *c, struct err *e)
{
    *c = (struct campaign){.executor = {0, CASE_TIMEOUT_MS, START_TIMEOUT_MS}};
    for (int i = 0; languages[i]; i++) *vec_push(&c->languages) = xstrdup(languages[i]);
    c->path = xstrdup(path);
    if (!schema_load(path, &campaign_record, c, e)) return 0;
    campaign_free(c);
    return -1;
}

void campaign_free(struct campaign *c)
{
    schema_free(&campaign_record, c);
    free(c->path);
    *c = (struct campaign){0};
}

static bool names_release(const struct campaign_release *r, const char *name)
{
    return !strcmp(name, r->torch_npu) || !strcmp(name, r->torch) || !strcmp(name, r->branch);
}

static int not_in_campaign(const struct campaign *c, const char *what, const char *name,
                           const char *const *all, size_t n, struct err *e)
{
    const char *nearest = str_nearest(name, all, n);
    if (nearest) return err_set(e, "%s has no %s '%s': did you mean '%s'?", c->path, what, name, nearest);
    struct buf b = BUF_INIT;
    for (size_t i = 0; i < n; i++) buf_addf(&b, "%s%s", i ? ", " : "", all[i]);
    err_set(e, "%s has no %s '%s': it has %s", c->path, what, name, buf_str(&b));
    buf_free(&b);
    return -1;
}

static int check_releases(const struct campaign *c, const strings *wanted, struct err *e)
{
    for (size_t w = 0; w < wanted->len; w++) {
        VEC(const char *) all = {0};
        bool found = false;
        for (size_t i = 0; i < c->releases.len; i++) {
            *vec_push(&all) = c->releases.ptr[i].torch_npu;
            found = found || names_release(&c->releases.ptr[i], wanted->ptr[w]);
        }
        int rc = found ? 0 : not_in_campaign(c, "release", wanted->ptr[w], all.ptr, all.len, e);
        vec_free(&all);
        if (rc) return rc;
    }
    return 0;
}

static int check_apis(const struct campaign *c, const strings *wanted, struct err *e)
{
    for (size_t w = 0; w < wanted->len; w++) {
        bool found = false;
        for (size_t i = 0; i < c->apis.len; i++) found = found || !strcmp(c->apis.ptr[i], wanted->ptr[w]);
        if (!found)
            return not_in_campaign(c, "API", wanted->ptr[w], (const char *const *)c->apis.ptr, c->apis.len,
                                   e);
    }
    return 0;
}

static void keep_releases(struct campaign *c, const strings *wanted)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->releases.len; i++) {
        bool keep = false;
        for (size_t w = 0; w < wanted->len; w++)
            keep = keep || names_release(&c->releases.ptr[i], wanted->ptr[w]);
        if (keep)
            c->releases.ptr[kept++] = c->releases.ptr[i];
        else
            schema_free(&release_record, &c->releases.ptr[i]);
    }
    c->releases.len = kept;
}

static void keep_apis(struct campaign *c, const strings *wanted)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->apis.len; i++) {
        bool keep = false;
        for (size_t w = 0; w < wanted->len; w++) keep = keep || !strcmp(c->apis.ptr[i], wanted->ptr[w]);
        if (keep)
            c->apis.ptr[kept++] = c->apis.ptr[i];
        else
            free(c->apis.ptr[i]);
    }
    c->apis.len = kept;
}

int campaign_select(struct campaign *c, const strings *releases, const strings *apis, struct err *e)
{
    bool some_releases = releases && releases->len, some_apis = apis && apis->len;
    if (some_releases && check_releases(c, releases, e)) return -1;
    if (some_apis && check_apis(c, apis, e)) return -1;
    if (some_releases) keep_releases(c, releases);
    if (some_apis) keep_apis(c, apis);
    return 0;
}

/* The values of torch.testing.assert_close's documentation; 0 and 0 is exact. */
static const struct {
    const char *dtype;
    double rtol, atol;
} default_tolerances[] = {
    {"float16", 1e-3, 1e-5},
    {"bfloat16", 1.6e-2, 1e-5},
    {"float32", 1.3e-6, 1e-5},
    {"float64", 1e-7, 1e-7},
    {"complex64", 1.3e-6, 1e-5},
    {"complex128", 1e-7, 1e-7},
    {"int8", 0, 0},
    {"int16", 0, 0},
    {"int32", 0, 0},
    {"int64", 0, 0},
    {"uint8", 0, 0},
    {"bool", 0, 0},
};
enum {
    NDEFAULTS = sizeof default_tolerances / sizeof *default_tolerances,
    NSETTABLE = sizeof dtypes / sizeof *dtypes - 1
};
static_assert(NDEFAULTS == 12 && NSETTABLE == 6,
              "every dtype has a default; the six inexact ones may be set");

int campaign_tolerance(const struct campaign *c, const char *dtype, double *rtol, double *atol)
{
    for (size_t i = 0; i < c->tolerances.len; i++) {
        const struct campaign_tolerance *t = &c->tolerances.ptr[i];
        if (strcmp(t->dtype, dtype)) continue;
        *rtol = t->rtol, *atol = t->atol;
        return 0;
    }
    for (size_t i = 0; i < NDEFAULTS; i++) {
        if (strcmp(default_tolerances[i].dtype, dtype)) continue;
        *rtol = default_tolerances[i].rtol, *atol = default_tolerances[i].atol;
        return 0;
    }
    return -1;
}

char *campaign_revision(const struct campaign_source *s, const struct campaign_release *r)
{
    const struct {
        const char *name, *value;
    } known[] = {{"{torch}", r->torch}, {"{torch_npu}", r->torch_npu}, {"{branch}", r->branch}};
    struct buf b = BUF_INIT;
    for (const char *p = s->revision; *p;) {
        size_t i = 0;
        while (i < 3 && !str_starts(p, known[i].name)) i++;
        buf_adds(&b, i < 3 ? known[i].value : (char[]){*p, '\0'});
        p += i < 3 ? strlen(known[i].name) : 1;
    }
    return buf_take(&b);
}
