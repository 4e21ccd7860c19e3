/* suite.c - the step that runs the adapted upstream tests: as they were on the CPU, as they are on the
 * device. */
#include "concord/env/env.h"
#include "concord/patch/source.h"
#include "concord/steps/private.h"

#include <stdlib.h>
#include <string.h>

json_t *inputs_suite(const struct steps *s, const struct campaign_release *release)
{
    return json_pack("{s:o, s:o, s:s}", "audit", steps_fact_digest(s, "audit", release), "adapt",
                     steps_fact_digest(s, "adapt", release), "device", s->device ? s->device : "");
}

static const json_t *files_of(const struct steps *s, const struct campaign_release *release)
{
    return json_object_get(dossier_get(&s->dossier, "adapt", release->torch_npu), "files");
}

/* ---- the tree ---------------------------------------------------------------------------------------- */

static int export_file(struct source *src, const char *root, const char *path, struct err *e)
{
    struct buf text = BUF_INIT;
    char *full = path_join(root, path), *dir = xstrndup(full, (size_t)(strrchr(full, '/') - full));
    int found = source_read(src, path, &text, NULL, e);
    int status = found < 0 || dir_make(dir, e) || file_write(full, buf_str(&text), text.len, 0, e) ? -1 : 0;
    buf_free(&text);
    free(dir);
    free(full);
    return status;
}

/* A folder that has test/: the source itself, or a copy of what it has below test/. Owned; NULL with *e. */
static char *tree_of(const struct steps *s, const struct campaign_release *release, struct err *e)
{
    char *spec = steps_upstream(s, release, e);
    if (!spec || path_is_dir(spec)) return spec;
    char *root = dossier_path(&s->dossier, "upstream/%s", release->torch_npu);
    struct source *src = source_open(spec, e);
    strings paths = {0};
    int status = src && !tree_remove(root, e) ? source_list(src, "test", &paths, e) : -1;
    for (size_t i = 0; !status && i < paths.len; i++) status = export_file(src, root, paths.ptr[i], e);
    strings_free(&paths);
    if (src) source_close(src);
    free(spec);
    if (!status) return root;
    free(root);
    return NULL;
}

/* ---- the command ------------------------------------------------------------------------------------- */

/* Names below test/, commas between. */
static char *file_list(const json_t *files)
{
    struct buf b = BUF_INIT;
    size_t i;
    json_t *f;
    json_array_foreach(files, i, f)
    {
        const char *file = fact_text(f, "file");
        buf_addf(&b, "%s%s", i ? "," : "", str_starts(file, "test/") ? file + 5 : file);
    }
    return buf_take(&b);
}

static bool is_adapted(const json_t *files, const char *file)
{
    size_t i;
    json_t *f;
    json_array_foreach(files, i, f) if (!strcmp(fact_text(f, "file"), file)) return true;
    return false;
}

/* The covering tests by their function's name, parametrised ones too. */
static char *expression(const struct steps *s, const struct campaign_release *release)
{
    struct buf b = BUF_INIT;
    struct map seen = {0};
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(dossier_get(&s->dossier, "scan", release->torch_npu), "tests"), i, t)
    {
        const char *id = fact_text(t, "test"), *dot = strrchr(id, '.'), *name = dot ? dot + 1 : id;
        if (!is_adapted(files_of(s, release), fact_text(t, "file")) || map_has(&seen, name)) continue;
        map_put(&seen, name);
        buf_addf(&b, "%snode='*%s*'", b.len ? " or " : "", name);
    }
    map_free(&seen, NULL);
    return buf_take(&b);
}

static void add(strings *argv, const char *option, char *value)
{
    *vec_push(argv) = xstrdup(option);
    *vec_push(argv) = value;
}

static void make_command(const struct steps *s, const struct campaign_release *release, const char *tree,
                         const char *json, strings *argv)
{
    const char *patches = s->campaign->plugin.patches ? s->campaign->plugin.patches : "test_upstream";
    *vec_push(argv) = steps_self();
    *vec_push(argv) = xstrdup("test");
    *vec_push(argv) = xformat("upstream:%s", tree);
    struct env_spec env;
    env_spec_campaign(release, &env);
    add(argv, "--release", xstrdup(env.name));
    env_spec_free(&env);
    add(argv, "--files", file_list(files_of(s, release)));
    add(argv, "--only", expression(s, release));
    add(argv, "--patches", dossier_path(&s->dossier, "patches/%s/%s", release->torch_npu, patches));
    add(argv, "--name", xformat("%s-%s", s->campaign->name, release->torch_npu));
    add(argv, "--journal", dossier_path(&s->dossier, "suite-%s.db", release->torch_npu));
    add(argv, "--json", xstrdup(json));
    *vec_push(argv) = xstrdup("--cpu");
    *vec_push(argv) = xstrdup("--quiet");
    if (s->device) add(argv, "--device", xstrdup(s->device));
    if (s->toolkit) add(argv, "--toolkit", xstrdup(s->toolkit));
}

static int run_tests(const struct steps *s, const struct campaign_release *release, const char *tree,
                     const char *json, struct err *e)
{
    strings argv = {0};
    struct proc_result r;
    make_command(s, release, tree, json, &argv);
    *vec_push(&argv) = NULL;
    const struct proc_spec spec = {.argv = (const char *const *)argv.ptr, .merge = true};
    int status = proc_run(&spec, &r, e);
    if (!status) {
        const char *text = buf_str(&r.out);
        if (r.status != EXIT_OK && r.status != EXIT_FINDINGS)
            status = err_set(e, "%s: the adapted tests could not be run: %.*s", release->torch_npu,
                             (int)strcspn(text, "\n"), text);
        proc_result_free(&r);
    }
    argv.len--;
    strings_free(&argv);
    return status;
}

/* ---- the fact ---------------------------------------------------------------------------------------- */

/* The same test has other names on the two sides, but the same file and node. Owned. */
static char *case_key(const json_t *c)
{
    return xformat("%s::%s", fact_text(c, "file"), fact_text(c, "node"));
}

/* CPU verdicts by test. */
static void cpu_side(const json_t *cases, struct map *cpu)
{
    size_t i;
    json_t *c;
    json_array_foreach(cases, i, c)
    {
        if (strcmp(fact_text(c, "side"), "cpu") != 0) continue;
        char *key = case_key(c);
        *map_put(cpu, key) = c;
        free(key);
    }
}

struct tally {
    size_t device, cpu, executed, passed, unproved, differ;
};

static bool was_executed(const char *verdict)
{
    return *verdict && strcmp(verdict, "SKIPPED") != 0 && strcmp(verdict, "NOT RUN") != 0;
}

/* A test that the adaption made run (the original is skipped without a device) is no difference; one that
 * ended badly, or no longer passes, is. */
static bool is_worse(const char *device, const char *cpu)
{
    static const char *const fine[] = {"PASSED", "SKIPPED", "XFAIL"};
    if (!strcmp(cpu, "PASSED")) return strcmp(device, "PASSED") != 0;
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        if (!strcmp(device, fine[i])) return false;
    return strcmp(device, cpu) != 0;
}

static json_t *rows_of(const json_t *cases, struct tally *n)
{
    struct map cpu = {0};
    json_t *rows = json_array(), *c;
    size_t i;
    cpu_side(cases, &cpu);
    n->cpu = cpu.entries.len;
    json_array_foreach(cases, i, c)
    {
        if (strcmp(fact_text(c, "side"), "device") != 0) continue;
        char *key = case_key(c);
        const json_t *twin = map_get(&cpu, key);
        const char *here = fact_text(c, "verdict"), *there = twin ? fact_text(twin, "verdict") : "";
        n->device++;
        n->executed += was_executed(here);
        n->passed += !strcmp(here, "PASSED");
        bool unproved = !strcmp(here, "NO PROOF") && !strcmp(there, "PASSED");
        n->unproved += unproved;
        n->differ += !unproved && is_worse(here, there);
        fact_append(rows, json_pack("{s:s, s:s, s:s, s:s, s:I}", "test", key, "device", here, "cpu", there,
                                    "reason", fact_text(c, "reason"), "launches",
                                    json_integer_value(json_object_get(c, "launches"))));
        free(key);
    }
    map_free(&cpu, NULL);
    return rows;
}

static int read_results(const char *file, json_t **body, struct tally *n, struct err *e)
{
    json_error_t where;
    json_t *results = json_load_file(file, 0, &where);
    if (!results) return err_set(e, "%s:%d: not JSON: %s", file, where.line, where.text);
    json_t *rows = rows_of(json_object_get(results, "cases"), n);
    *body = json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:o}", "command",
                      fact_text(results, "command"), "started", fact_text(results, "started"), "kind",
                      fact_text(results, "device"), "tests", (int)n->device, "cpu_tests", (int)n->cpu,
                      "executed", (int)n->executed, "passed", (int)n->passed, "unproved", (int)n->unproved,
                      "differ", (int)n->differ, "rows", rows);
    json_decref(results);
    return 0;
}

/* A test whose result is another one than the original's is for a person: --from branch goes on all the same.
 */
int step_suite(struct steps *s, const struct campaign_release *release, json_t **body, struct err *e)
{
    struct tally n = {0};
    if (steps_nothing(s, release)) return STEP_OK;
    char *tree = tree_of(s, release, e);
    char *json = dossier_path(&s->dossier, "suite-%s.json", release->torch_npu);
    int status = tree ? run_tests(s, release, tree, json, e) : -1;
    if (!status) status = read_results(json, body, &n, e);
    if (!status) {
        steps_say("suite", release,
                  "%zu of %zu adapted tests PASSED on the device; %zu without proof, %zu unlike the original "
                  "on the CPU",
                  n.passed, n.device, n.unproved, n.differ);
        status = n.differ || !n.executed ? STEP_FINDINGS : STEP_OK;
    }
    free(json);
    free(tree);
    return status;
}
