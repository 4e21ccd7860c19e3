/* adapt.c - concord adapt: from API names to patches that put the covering tests on the device. */
#include "concord/adapt/adapt.h"
#include "concord/adapt/audited.h"
#include "concord/adapt/device.h"
#include "concord/adapt/replay.h"
#include "concord/adapt/skeleton.h"
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"
#include "concord/patch/load.h"
#include "concord/patch/patch.h"
#include "concord/scan/print.h"
#include "concord/scan/scan.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* A section of an existing patch, by its target. */
struct existing {
    char *file;
    struct patch p;
};

struct request {
    const char *upstream, *existing, *out, *json, *style, *device_file;
    bool dry_run, interactive, all_yes, all_no;
    struct adapt_device device;
    struct adapt_options options;
    struct replay_votes votes; /* where the existing patches put imports */
    strings written;
    strings only;
    char *tests;        /* the folder that was scanned */
    const char *prefix; /* of it below the upstream root: "test/" or "" */
    struct scan_api *apis;
    size_t napis;
    VEC(struct existing) patches;
    struct map sections; /* target path -> struct existing, by index + 1 */
    json_t *edits, *left, *notes, *files, *skeletons;
    char *table; /* of completeness, Markdown */
    size_t by_rule[RULE_COUNT], nfiles, nleft, nnotes, faults;
};

/* ---- existing patches -------------------------------------------------------------------------------- */

static void read_existing(struct request *q)
{
    struct err e;
    strings paths = {0};
    char *const dir[] = {(char *)q->existing};
    if (patch_find(1, dir, &paths, &e)) die("%s", e.text);
    for (size_t i = 0; i < paths.len; i++) {
        struct patch p;
        if (patch_load(paths.ptr[i], &p, &e)) die("%s", e.text);
        *vec_push(&q->patches) = (struct existing){xstrdup(paths.ptr[i]), p};
        replay_vote(&p, &q->votes);
        for (size_t k = 0; k < p.files.len; k++)
            if (p.files.ptr[k].path) *map_put(&q->sections, p.files.ptr[k].path) = (void *)(uintptr_t)(i + 1);
    }
    strings_free(&paths);
}

static const struct patch_file *section_of(const struct patch *p, const char *path)
{
    for (size_t i = 0; i < p->files.len; i++)
        if (p->files.ptr[i].path && !strcmp(p->files.ptr[i].path, path)) return &p->files.ptr[i];
    return NULL;
}

/* ---- one file ---------------------------------------------------------------------------------------- */

struct job {
    struct request *q;
    char *path; /* below the upstream root */
    struct buf base, mine, patch;
    const struct existing *old;
    struct adapt_result r;
    struct py_file *model;
};

static void say(json_t *to, const struct job *j, uint32_t row, const char *scope, const char *text)
{
    json_array_append_new(to, json_pack("{s:s,s:i,s:s,s:s}", "file", j->path, "line", (int)row, "scope",
                                        scope, "reason", text));
    printf("  %s:%u %s: %s\n", j->path, row, scope, text);
}

static void fault(struct job *j, const char *text)
{
    say(j->q->left, j, 1, "", text);
    j->q->faults++;
}

/* The file as the existing patch leaves it; false when that patch is not for this release. */
static bool read_file(struct job *j)
{
    struct err e;
    struct request *q = j->q;
    char *full = path_join(q->upstream, j->path);
    if (file_read(full, &j->base, &e)) die("%s", e.text);
    free(full);
    size_t index = (size_t)(uintptr_t)map_get(&q->sections, j->path);
    j->old = index ? &q->patches.ptr[index - 1] : NULL;
    if (!j->old) {
        buf_add(&j->mine, j->base.ptr, j->base.len);
        return true;
    }
    struct apply_result r;
    bool exists;
    patch_apply(&j->old->p, section_of(&j->old->p, j->path), slice_of(&j->base), 0, &j->mine, &exists, &r);
    if (r.outcome == APPLY_clean && exists) return true;
    char *text = xformat("the existing patch %s %s: port it to this tree first", j->old->file,
                         apply_outcome_text(r.outcome));
    fault(j, text);
    free(text);
    return false;
}

/* As asked, or as the file's existing patch shows it; methods where nothing says. */
static enum adapt_style style_of(const struct job *j)
{
    for (int i = 0; j->q->style && i < ADAPT_STYLES; i++)
        if (!strcmp(j->q->style, adapt_style_names[i])) return (enum adapt_style)i;
    return j->old ? adapt_style_of(j->model, &j->q->options) : ADAPT_METHOD;
}

static void tell_edits(struct job *j)
{
    for (size_t i = 0; i < j->r.edits.len; i++) {
        const struct adapt_edit *d = &j->r.edits.ptr[i];
        char *before = xstrndup(j->model->text + d->start, d->end - d->start);
        json_array_append_new(j->q->edits,
                              json_pack("{s:s,s:i,s:s,s:s,s:s,s:s}", "file", j->path, "line", (int)d->row,
                                        "scope", d->scope, "rule", adapt_rules[d->rule].name, "before",
                                        before, "after", d->with));
        free(before);
        const char *end = strchr(d->with, '\n');
        printf("  %s:%u %s: %s: %.*s\n", j->path, d->row, d->scope, adapt_rules[d->rule].name,
               end ? (int)(end - d->with) : (int)strlen(d->with), d->with);
        j->q->by_rule[d->rule]++;
    }
    for (size_t i = 0; i < j->r.left.len; i++)
        say(j->q->left, j, j->r.left.ptr[i].row, j->r.left.ptr[i].scope, j->r.left.ptr[i].reason);
    for (size_t i = 0; i < j->r.notes.len; i++)
        say(j->q->notes, j, j->r.notes.ptr[i].row, j->r.notes.ptr[i].scope, j->r.notes.ptr[i].reason);
    j->q->nleft += j->r.left.len;
    j->q->nnotes += j->r.notes.len;
}

static void make_patch(struct job *j)
{
    struct err e;
    struct merge_result m;
    const struct make_options o = {0};
    if (!j->old) {
        if (patch_make(j->path, slice_of(&j->base), slice_of(&j->r.text), 0, &o, &j->patch, &e))
            die("%s", e.text);
        return;
    }
    const struct patch *p = &j->old->p;
    const struct patch_file *f = section_of(p, j->path);
    size_t end = f->end < p->lines.len ? p->lines.ptr[f->end].off : p->text.len;
    buf_add(&j->patch, buf_str(&p->text), p->lines.ptr[f->line].off);
    if (patch_merge(p, f, slice_of(&j->base), slice_of(&j->r.text), &o, &j->patch, &m, &e))
        die("%s: %s", j->old->file, e.text);
    buf_add(&j->patch, buf_str(&p->text) + end, p->text.len - end);
}

static void write_patch(struct job *j)
{
    struct err e;
    char *name = xformat("%s.patch", j->path), *file = path_join(j->q->out, name);
    char *slash = strrchr(file, '/'), *dir = xstrndup(file, (size_t)(slash - file));
    if (dir_make(dir, &e) || file_write(file, buf_str(&j->patch), j->patch.len, 0, &e)) die("%s", e.text);
    json_array_append_new(j->q->files, json_string(file));
    *vec_push(&j->q->written) = file;
    free(dir);
    free(name);
}

/* ---- one edit at a time ------------------------------------------------------------------------------ */

static void print_line(char sign, const struct py_file *f, uint32_t start, uint32_t end,
                       const struct adapt_edit *d)
{
    printf("  %c %.*s", sign, (int)((d ? d->start : end) - start), f->text + start);
    if (d) printf("%s%.*s", d->with, (int)(end - d->end), f->text + d->end);
    if (!d || !*d->with || d->with[strlen(d->with) - 1] != '\n') putchar('\n');
}

static void show_edit(const struct py_file *f, const struct adapt_edit *d)
{
    uint32_t start = d->start, end = d->end;
    while (start && f->text[start - 1] != '\n') start--;
    while (end < f->len && f->text[end] != '\n') end++;
    printf("%s:%u %s: %s: %s\n", f->path, d->row, d->scope, adapt_rules[d->rule].name,
           adapt_rules[d->rule].reason);
    print_line('-', f, start, end, NULL);
    print_line('+', f, start, end, d);
}

static bool ask_person(const struct py_file *f, const struct adapt_edit *d, void *context)
{
    struct request *q = context;
    char line[64];
    if (q->all_yes || q->all_no) return q->all_yes;
    show_edit(f, d);
    for (;;) {
        printf("make this edit? [y]es, [n]o, [a]ll the rest, [q]uit (none of the rest): ");
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin))
            die("adapt: --interactive: the answers ended before the edits: nothing more is written");
        switch (line[0]) {
        case 'y':
            return true;
        case 'n':
            return false;
        case 'a':
            return q->all_yes = true;
        case 'q':
            q->all_no = true;
            return false;
        default:
            break;
        }
    }
}

static void adapt_one(struct job *j, const char *const *tests, size_t ntests)
{
    struct err e;
    if (!read_file(j)) return;
    struct adapt_options o = j->q->options;
    o.place = replay_place(&j->q->votes, j->path);
    j->model = py_parse(j->path, buf_str(&j->mine), j->mine.len);
    o.style = style_of(j);
    if (adapt_source(j->model, tests, ntests, &o, &j->r, &e)) {
        fault(j, e.text);
        return;
    }
    tell_edits(j);
    if (!j->r.edits.len) return;
    make_patch(j);
    j->q->nfiles++;
    if (!j->q->dry_run) write_patch(j);
}

static void job_free(struct job *j)
{
    adapt_result_free(&j->r);
    py_free(j->model);
    buf_free(&j->base);
    buf_free(&j->mine);
    buf_free(&j->patch);
    free(j->path);
}

/* ---- the run ----------------------------------------------------------------------------------------- */

static bool is_asked_for(const struct request *q, const char *path)
{
    for (size_t i = 0; i < q->only.len; i++)
        if (strstr(path, q->only.ptr[i])) return true;
    return !q->only.len;
}

/* Only a helper of torch.testing calls the API: it is not what the test is about. */
static bool is_far(const struct scan_test *t)
{
    return t->path && strstr(t->path, "-> torch.") != NULL;
}

static void adapt_scanned(struct request *q, const struct scan_file *f)
{
    struct job j = {.q = q, .path = xformat("%s%s", q->prefix, f->path)};
    VEC(const char *) tests = {0};
    for (size_t i = 0; i < f->tests.len && is_asked_for(q, j.path); i++) {
        const struct scan_test *t = &f->tests.ptr[i];
        if (is_far(t) && !q->only.len) {
            char *text = xformat(
                "reaches it through torch.testing only (%s): name the file with --only to adapt it", t->path);
            say(q->notes, &j, t->row, t->id, text);
            free(text);
            q->nnotes++;
        } else if (t->match < SCAN_RECEIVER)
            *vec_push(&tests) = t->id;
        else
            say(q->left, &j, t->row, t->id, "it may call something else of that name: see concord scan");
    }
    if (tests.len) adapt_one(&j, tests.ptr, tests.len);
    vec_free(&tests);
    job_free(&j);
}

static void summary(const struct request *q)
{
    size_t edits = 0;
    for (int i = 0; i < RULE_COUNT; i++) edits += q->by_rule[i];
    printf("%zu edits in %zu files; %zu places left to a person, %zu tests need no edit\n", edits, q->nfiles,
           json_array_size(q->left), q->nnotes);
    for (int i = 0; i < RULE_COUNT; i++)
        if (q->by_rule[i])
            printf("  %-22s %5zu  %s\n", adapt_rules[i].name, q->by_rule[i], adapt_rules[i].reason);
}

static void write_skeleton(struct request *q, const char *api)
{
    struct err e;
    struct buf text = BUF_INIT;
    char *name = adapt_skeleton_name(api), *dir = path_join(q->out ? q->out : ".", "own"),
         *file = path_join(dir, name);
    adapt_skeleton(api, &q->options, &text);
    printf("%s: no upstream test covers it: own test to fill in%s %s\n", api, q->dry_run ? " would be" : ":",
           file);
    bool exists = path_exists(file); /* a person may have filled it in */
    if (!q->dry_run && !exists && (dir_make(dir, &e) || file_write(file, buf_str(&text), text.len, 0, &e)))
        die("%s", e.text);
    json_array_append_new(q->skeletons, json_string(file));
    buf_free(&text);
    free(name);
    free(dir);
    free(file);
}

/* Which tests cover each API, as people must argue it; for an API without any, a test to begin with. */
static void tell_completeness(struct request *q, const struct scan_result *r)
{
    struct buf table = BUF_INIT;
    scan_print_table(&table, r, q->apis, q->napis);
    printf("\n%s\n", buf_str(&table));
    struct scan_total *total = scan_totals(r, q->napis);
    for (size_t a = 0; a < q->napis; a++) {
        uint32_t n = 0;
        for (int k = 0; k < SCAN_NCOVERAGE; k++) n += total[a].tests[k];
        if (!n) write_skeleton(q, q->apis[a].name);
    }
    q->table = buf_take(&table);
    free(total);
}

static void audit_written(struct request *q)
{
    struct err e;
    size_t errors;
    if (!q->written.len) return;
    if (adapt_audit(&q->written, q->upstream, stdout, &errors, &e)) die("%s", e.text);
    printf("audit of %zu patches: %zu errors\n", q->written.len, errors);
    q->faults += errors;
}

static void write_json(const struct request *q)
{
    struct err e;
    json_t *rules = json_object();
    for (int i = 0; i < RULE_COUNT; i++)
        json_object_set_new(rules, adapt_rules[i].name, json_integer((json_int_t)q->by_rule[i]));
    json_t *root = json_pack("{s:i,s:O,s:O,s:O,s:O,s:O,s:s,s:o}", "schema", 1, "edits", q->edits, "left",
                             q->left, "notes", q->notes, "patches", q->files, "own tests", q->skeletons,
                             "completeness", q->table, "rules", rules);
    char *text = json_dumps(root, JSON_INDENT(1) | JSON_SORT_KEYS);
    if (file_write(q->json, text, strlen(text), 0, &e)) die("%s", e.text);
    free(text);
    json_decref(root);
}

/* torch.testing of this release takes configuration in place of patches. */
static bool has_configs(const char *upstream)
{
    struct err e;
    struct buf text = BUF_INIT;
    char *file = path_join(upstream, "torch/testing/_internal/common_device_type.py");
    bool has =
        path_exists(file) && !file_read(file, &text, &e) && strstr(buf_str(&text), "def set_test_configs(");
    buf_free(&text);
    free(file);
    return has;
}

static int run(struct request *q)
{
    struct err e;
    struct scan_result r;
    q->edits = json_array(), q->left = json_array(), q->notes = json_array(), q->files = json_array();
    q->skeletons = json_array();
    q->options.configs = has_configs(q->upstream);
    q->tests = path_join(q->upstream, "test");
    q->prefix = path_is_dir(q->tests) ? "test/" : "";
    if (q->existing) read_existing(q);
    if (scan_tree(*q->prefix ? q->tests : q->upstream, q->apis, q->napis, 0, &r, &e)) return err_report(&e);
    for (size_t i = 0; i < r.files.len; i++) adapt_scanned(q, &r.files.ptr[i]);
    tell_completeness(q, &r);
    audit_written(q);
    summary(q);
    if (q->json) write_json(q);
    scan_result_free(&r);
    return q->faults ? EXIT_FINDINGS : EXIT_OK;
}

static void request_free(struct request *q)
{
    for (size_t i = 0; i < q->patches.len; i++) {
        patch_free(&q->patches.ptr[i].p);
        free(q->patches.ptr[i].file);
    }
    for (size_t i = 0; i < q->napis; i++) scan_api_free(&q->apis[i]);
    vec_free(&q->patches);
    map_free(&q->sections, NULL);
    strings_free(&q->only);
    json_decref(q->edits), json_decref(q->left), json_decref(q->notes), json_decref(q->files);
    json_decref(q->skeletons);
    replay_votes_free(&q->votes);
    strings_free(&q->written);
    adapt_device_free(&q->device);
    free(q->table);
    free(q->tests);
    free(q->apis);
}

static bool is_style(const char *name)
{
    for (int i = 0; i < ADAPT_STYLES; i++)
        if (!strcmp(name, adapt_style_names[i])) return true;
    return false;
}

int cmd_adapt(int argc, char **argv)
{
    struct request q = {0};
    const struct opt opts[] = {
        {'u', "upstream", OPT_STRING, &q.upstream, "DIR",
         "root of an upstream source tree (its tests are in DIR/test)"},
        {'e', "existing", OPT_STRING, &q.existing, "DIR",
         "patches that there are: an edit goes into its file's patch"},
        {'o', "out", OPT_STRING, &q.out, "DIR", "where the patches are written: DIR/test/test_x.py.patch"},
        {'f', "only", OPT_LIST, &q.only, "TEXT",
         "only files whose path has this text (repeatable, or commas)"},
        {0, "style", OPT_STRING, &q.style, "STYLE",
         "inline: .npu(), keyword: device=\"npu\", to: .to(\"npu\"), helper: a device_type set behind the "
         "import"},
        {'i', "interactive", OPT_FLAG, &q.interactive, NULL, "show each edit and ask before it is made"},
        {'d', "device", OPT_STRING, &q.device_file, "FILE",
         "YAML that describes another device (docs/adapt.md): default is the Ascend NPU"},
        {'n', "dry-run", OPT_FLAG, &q.dry_run, NULL, "list the edits, write no patch"},
        {0, "json", OPT_STRING, &q.json, "FILE", "write the listing as JSON"},
        {0},
    };
    opt_parse(&argc, argv,
              &(struct usage){"adapt API... --upstream DIR (--out DIR | --dry-run) [options]",
                              "Put the tests that cover an API on the device, with the smallest edits.",
                              opts});
    struct err e;
    if (argc < 2) die("adapt: name at least one API, e.g. torch.utils.checkpoint.checkpoint");
    if (!q.upstream) die("adapt: no source tree: give --upstream DIR");
    if (!q.out && !q.dry_run) die("adapt: say with --out DIR where the patches go, or --dry-run");
    if (q.style && !is_style(q.style))
        die("adapt: --style: '%s' is not inline, keyword, to or helper", q.style);
    q.options = adapt_defaults;
    if (q.device_file && adapt_device_load(q.device_file, &q.device, &e)) return err_report(&e);
    if (q.device_file) adapt_device_use(&q.device, &q.options);
    if (q.interactive) q.options.accept = ask_person, q.options.context = &q;
    q.napis = (size_t)argc - 1;
    q.apis = xcalloc(q.napis, sizeof *q.apis);
    for (size_t i = 0; i < q.napis; i++)
        if (scan_api_parse(argv[i + 1], &q.apis[i], &e)) return err_report(&e);
    int status = run(&q);
    request_free(&q);
    return status;
}
