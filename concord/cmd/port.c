/* port.c - concord port: carry patches to another release. */
#include "concord/cmd/cmd.h"
#include "concord/patch/load.h"
#include "concord/patch/port.h"
#include "concord/patch/repair.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct request {
    const char *from, *to, *upstream, *output, *json;
    bool dry_run, quiet;
};
struct tally {
    size_t patches, whole, absent, unreadable, edits, uncertain, counts[PORT_OUTCOME_COUNT];
    json_t *rows;
};

/* A release is read as tag vRELEASE of the upstream source; anything that names a place is one. */
static struct source *open_release(const struct request *q, const char *release, const char *option)
{
    struct err e;
    bool place = strchr(release, '#') || strchr(release, '/') || path_exists(release);
    if (!place && !q->upstream)
        die("port: %s %s is a release, so --upstream SOURCE must say where upstream's files are (or name a "
            "folder)",
            option, release);
    bool tagged = !place && strchr(q->upstream, '#');
    if (tagged) die("port: --upstream %s names one revision already: leave it away from '#' on", q->upstream);
    char *spec = place ? xstrdup(release) : xformat("%s#v%s", q->upstream, release);
    struct source *s = source_open(spec, &e);
    if (!s) die("%s", e.text);
    free(spec);
    return s;
}

static json_t *text_json(const char *s)
{
    json_t *j = json_string(s ? s : "");
    return j ? j : json_string("(not UTF-8)");
}

static void tell_edits(const struct request *q, const char *path, const struct patch_file *f,
                       const struct port *r, struct tally *t)
{
    for (size_t i = 0; i < r->edits.len; i++) {
        const struct port_edit *e = &r->edits.ptr[i];
        json_array_append_new(
            t->rows,
            json_pack("{s:o,s:i,s:o,s:i,s:i,s:i,s:i,s:o,s:o,s:o,s:b}", "patch", text_json(path), "line",
                      (int)e->line, "target", text_json(f->path), "source_line", (int)e->source,
                      "target_line", (int)e->target, "removed", (int)e->removed, "added", (int)e->added,
                      "outcome", text_json(port_outcome_text(e->outcome)), "reason", text_json(e->reason),
                      "scope", text_json(e->scope), "scope_certain", e->certain));
        if (q->quiet || e->outcome == PORT_carried) continue;
        printf("%s:%u: %s: %s%s%s\n", path, e->line, f->path, port_outcome_text(e->outcome),
               e->reason ? ": " : "", e->reason ? e->reason : "");
    }
}

/* Where the ported patch goes: the output folder, with the patch's own place below test/ or torch/. */
static void write_patch(const struct request *q, const char *path, const struct buf *text)
{
    struct err e;
    if (!q->output || q->dry_run) return;
    const char *tops[] = {"/test/", "/torch/"}, *tail = NULL;
    for (int i = 0; i < 2; i++)
        if (!tail && strstr(path, tops[i])) tail = strstr(path, tops[i]) + 1;
    if (!tail) tail = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    char *to = path_join(q->output, tail), *dir = xstrndup(to, (size_t)(strrchr(to, '/') - to));
    if (dir_make(dir, &e) || file_write(to, buf_str(text), text->len, 0, &e)) die("%s", e.text);
    free(dir);
    free(to);
}

/* The file that the patch was made for, by its id, from a clone that has it under whatever revision. */
static bool find_base(struct source *from, struct source *to, const char *id, struct buf *out)
{
    return (from && source_read_blob(from, id, out)) || source_read_blob(to, id, out);
}

static void port_one(const struct request *q, struct source *from, struct source *to, const char *path,
                     const struct patch *p, const struct patch_file *f, struct tally *t, struct buf *out)
{
    struct err e;
    struct buf base = BUF_INIT, target = BUF_INIT, post = BUF_INIT;
    struct port r = {0};
    uint32_t mode = 0;
    int has_base = from ? source_read(from, f->path, &base, NULL, &e) : 0;
    int has_target = has_base < 0 ? -1 : source_read(to, f->path, &target, &mode, &e);
    if (has_target < 0) die("%s", e.text);
    if (!has_target) {
        t->absent++;
        if (!q->quiet) printf("%s: %s is not in the target release\n", path, f->path);
    } else {
        /* Another file than the one the patch was made for says nothing about its scopes. */
        bool right = has_base && *f->old_id && blob_id_matches(f->old_id, slice_of(&base));
        if (!right && *f->old_id) right = find_base(from, to, f->old_id, &base);
        port_section(p, f, right ? slice_of(&base) : (struct slice){0}, slice_of(&target), &r, &post);
        if (patch_make(f->path, slice_of(&target), slice_of(&post), mode, NULL, out, &e)) die("%s", e.text);
        tell_edits(q, path, f, &r, t);
        for (int i = 0; i < PORT_OUTCOME_COUNT; i++) t->counts[i] += r.counts[i];
        t->edits += r.edits.len;
        t->uncertain += r.uncertain;
        t->whole += !r.counts[PORT_conflict];
    }
    port_free(&r);
    buf_free(&base);
    buf_free(&target);
    buf_free(&post);
}

static bool portable(const struct request *q, const char *path, const struct patch *p, struct tally *t)
{
    const struct patch_fault *b = patch_blocked(p);
    if (!b) return true;
    t->unreadable++;
    if (!q->quiet)
        printf("%s:%u: %s: %s: not carried\n", path, b->line + 1, patch_fault_name(b->kind), b->text);
    return false;
}

static void port_patch(const struct request *q, struct source *from, struct source *to, const char *path,
                       struct tally *t)
{
    struct err e;
    struct buf text = BUF_INIT, clean = BUF_INIT, out = BUF_INIT;
    struct patch p;
    struct repair fix = {0};
    if (file_read(path, &text, &e) || patch_repair(path, slice_of(&text), NULL, &clean, &fix, &e) ||
        patch_parse(&p, slice_of(&clean), &e))
        die("%s: %s", path, e.text);
    t->patches++;
    for (size_t i = 0; portable(q, path, &p, t) && i < p.files.len; i++) {
        const struct patch_file *f = &p.files.ptr[i];
        if (f->created || f->deleted) die("%s: %s: a created or deleted file is not carried", path, f->path);
        port_one(q, from, to, path, &p, f, t, &out);
    }
    if (out.len) write_patch(q, path, &out);
    patch_free(&p);
    repair_free(&fix);
    buf_free(&text);
    buf_free(&clean);
    buf_free(&out);
}

static int finish(const struct request *q, struct tally *t)
{
    size_t done = t->edits - t->counts[PORT_conflict];
    printf("%zu patches: %zu without conflict, %zu without target, %zu not readable\n", t->patches, t->whole,
           t->absent, t->unreadable);
    printf("%zu edits:", t->edits);
    for (int i = 0; i < PORT_OUTCOME_COUNT; i++)
        printf(" %zu %s%s", t->counts[i], port_outcome_text((enum port_outcome)i),
               i + 1 < PORT_OUTCOME_COUNT ? ";" : "");
    printf(" (%.1f%% settled)\n", t->edits ? 100.0 * (double)done / (double)t->edits : 100.0);
    if (t->uncertain)
        printf("%zu of them lie in functions that their hunks do not show and no base file was at hand: "
               "placed by "
               "the lines around them\n",
               t->uncertain);
    if (q->json) {
        char *text = json_dumps(t->rows, JSON_INDENT(1));
        struct err e;
        if (!text) die("out of memory while writing JSON");
        if (!strcmp(q->json, "-"))
            puts(text);
        else if (file_write(q->json, text, strlen(text), 0, &e))
            die("%s", e.text);
        free(text);
    }
    json_decref(t->rows);
    return t->counts[PORT_conflict] || t->absent || t->unreadable ? EXIT_FINDINGS : EXIT_OK;
}

int cmd_port(int argc, char **argv)
{
    struct request q = {0};
    const struct opt opts[] = {
        {0, "from", OPT_STRING, &q.from, "RELEASE",
         "the release that the patches were made for (or a source)"},
        {0, "to", OPT_STRING, &q.to, "RELEASE",
         "the release to carry them to (or a source: folder, CLONE#REV, archive)"},
        {'u', "upstream", OPT_STRING, &q.upstream, "SOURCE", "where releases are tags: a clone or a git URL"},
        {'o', "output", OPT_STRING, &q.output, "DIR", "where the carried patches go"},
        {'n', "dry-run", OPT_FLAG, &q.dry_run, NULL, "write no patch"},
        {0, "json", OPT_STRING, &q.json, "FILE", "every edit's outcome as JSON (- for standard output)"},
        {'q', "quiet", OPT_FLAG, &q.quiet, NULL, "no line for each edit"},
        {0}};
    opt_parse(&argc, argv,
              &(struct usage){"port --to RELEASE [--from RELEASE] PATCH... -o DIR [options]",
                              "Carries edits to another release by what stands around them, inside the same "
                              "class and function.",
                              opts});
    struct err e;
    strings paths = {0};
    if (!q.to) die("port: say with --to which release the patches are carried to");
    if (!q.output && !q.dry_run) die("port: say with --output where the carried patches go (or --dry-run)");
    if (argc < 2) die("port: no patch given: name patch files or folders");
    if (patch_find(argc - 1, argv + 1, &paths, &e)) die("%s", e.text);
    struct source *to = open_release(&q, q.to, "--to"),
                  *from = q.from ? open_release(&q, q.from, "--from") : NULL;
    struct tally t = {.rows = json_array()};
    for (size_t i = 0; i < paths.len; i++) port_patch(&q, from, to, paths.ptr[i], &t);
    source_close(from);
    source_close(to);
    strings_free(&paths);
    return finish(&q, &t);
}
