/* patch.c - concord patch: apply, reverse, make, merge, show, check, repair. */
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"
#include "concord/patch/load.h"
#include "concord/patch/patch.h"
#include "concord/patch/repair.h"
#include "concord/patch/txn.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct request {
    const char *root, *upstream, *output, *json, *path, *onto;
    bool dry_run, any_base, installed, in_place, quiet;
    int64_t context, digits;
};

/* ---- shared ------------------------------------------------------------------------------------------ */

static void write_json(const char *file, json_t *value)
{
    char *text = json_dumps(value, JSON_INDENT(2) | JSON_ENSURE_ASCII * 0);
    if (!text) die("out of memory");
    struct err e;
    struct buf out = BUF_INIT;
    buf_adds(&out, text);
    buf_addc(&out, '\n');
    free(text);
    json_decref(value);
    if (!strcmp(file, "-"))
        fwrite(out.ptr, 1, out.len, stdout);
    else if (file_write(file, out.ptr, out.len, 0, &e))
        die("%s", e.text);
    buf_free(&out);
}

static void emit(const char *file, const struct buf *text)
{
    struct err e;
    if (!file || !strcmp(file, "-"))
        fwrite(buf_str(text), 1, text->len, stdout);
    else if (file_write(file, buf_str(text), text->len, 0, &e))
        die("%s", e.text);
}

static void count_lines(const struct patch *p, const struct patch_file *f, uint32_t *added, uint32_t *removed)
{
    *added = *removed = 0;
    for (uint32_t i = f->line; i < f->end; i++) {
        *added += p->lines.ptr[i].kind == LINE_ADD;
        *removed += p->lines.ptr[i].kind == LINE_DEL;
    }
}

/* JSON wants UTF-8; other bytes become replacement characters. */
static json_t *json_text(const char *s)
{
    json_t *j = json_string(s);
    if (j) return j;
    struct buf out = BUF_INIT;
    for (; *s; s++) buf_adds(&out, (unsigned char)*s < 0x80 ? (char[]){*s, 0} : "\xef\xbf\xbd");
    j = json_string(buf_str(&out));
    buf_free(&out);
    return j;
}

/* ---- apply and reverse ------------------------------------------------------------------------------- */

struct account {
    size_t changed, already, skipped, failed;
    json_t *rows;
};

static void tell(struct account *a, const struct request *q, const char *patch, const char *target,
                 const char *outcome, const char *detail, uint32_t line)
{
    json_array_append_new(a->rows, json_pack("{s:o,s:o,s:s,s:o,s:i}", "patch", json_text(patch), "target",
                                             json_text(target), "outcome", outcome, "detail",
                                             json_text(detail), "line", (int)line));
    if (q->quiet) return;
    if (line)
        printf("%s:%u: %s: %s%s%s\n", patch, line, target, outcome, *detail ? ": " : "", detail);
    else
        printf("%s: %s: %s%s%s\n", patch, target, outcome, *detail ? ": " : "", detail);
}

/* One section onto the transaction. */
static void stage_section(struct txn *t, const struct request *q, int flags, const char *patch,
                          const struct patch *p, const struct patch_file *f, struct account *a)
{
    struct err e;
    struct txn_file *target = txn_file(t, f->path, &e);
    if (!target) {
        a->failed++;
        tell(a, q, patch, f->path, "refused", e.text, f->line + 1);
        return;
    }
    struct buf post = BUF_INIT;
    struct apply_result r;
    bool exists;
    patch_apply(p, f, target->exists ? slice_of(&target->post) : (struct slice){0}, flags, &post, &exists,
                &r);
    bool good = r.outcome == APPLY_clean || r.outcome == APPLY_already;
    uint32_t added, removed;
    count_lines(p, f, &added, &removed);
    char detail[320];
    if (r.outcome == APPLY_clean)
        snprintf(detail, sizeof detail, "%u hunks, +%u -%u%s%s", f->hunk_end - f->hunk,
                 flags & APPLY_REVERSE ? removed : added, flags & APPLY_REVERSE ? added : removed,
                 r.base_checked ? ", base id agrees" : "", r.result_checked ? ", result id agrees" : "");
    else
        snprintf(detail, sizeof detail, "%s", good ? "" : r.text);
    const char *outcome = r.outcome == APPLY_clean ? flags & APPLY_REVERSE ? "reversed" : "applied"
                                                   : apply_outcome_text(r.outcome);
    if (r.outcome == APPLY_already && flags & APPLY_REVERSE) outcome = "not applied, nothing to reverse";
    tell(a, q, patch, f->path, outcome, detail, good ? 0 : r.line + 1);
    a->changed += r.outcome == APPLY_clean;
    a->already += r.outcome == APPLY_already;
    a->failed += !good;
    if (r.outcome == APPLY_clean) {
        buf_free(&target->post);
        target->post = post;
        target->exists = exists;
        uint32_t mode = flags & APPLY_REVERSE ? f->old_mode : f->new_mode;
        if (mode && f->old_mode != f->new_mode) target->mode = mode & 0777;
    } else {
        buf_free(&post);
    }
}

static void stage_patch(struct txn *t, const struct request *q, int flags, const char *path,
                        struct account *a)
{
    struct patch p;
    struct err e;
    if (patch_load(path, &p, &e)) die("%s", e.text);
    const struct patch_fault *b = patch_blocked(&p);
    if (b) {
        a->failed++;
        tell(a, q, path, patch_fault_name(b->kind), "refused", b->text, b->line + 1);
    }
    for (size_t i = 0; !b && i < p.files.len; i++) {
        const struct patch_file *f = &p.files.ptr[flags & APPLY_REVERSE ? p.files.len - 1 - i : i];
        if (q->installed && !str_starts(f->path, "torch/")) {
            a->skipped++;
            tell(a, q, path, f->path, "left out", "not part of an installed torch", 0);
        } else {
            stage_section(t, q, flags, path, &p, f, a);
        }
    }
    patch_free(&p);
}

static int finish_apply(struct txn *t, const struct request *q, struct account *a)
{
    struct err e;
    size_t files = txn_changed(t);
    if (q->json)
        write_json(q->json,
                   json_pack("{s:b,s:b,s:i,s:O}", "complete", !a->failed, "dry_run", q->dry_run,
                             "files_changed", a->failed || q->dry_run ? 0 : (int)files, "sections", a->rows));
    json_decref(a->rows);
    if (a->failed) {
        fprintf(stderr, "concord: %zu sections do not apply: nothing was changed\n", a->failed);
        return EXIT_FINDINGS;
    }
    if (!q->dry_run && txn_commit(t, &e)) die("%s", e.text);
    if (!q->quiet)
        printf("%zu files %s, %zu sections already in place, %zu left out\n", files,
               q->dry_run ? "would change (dry run)" : "changed", a->already, a->skipped);
    return EXIT_OK;
}

static int apply_all(const struct request *q, int argc, char **argv, int flags)
{
    struct err e;
    strings paths = {0};
    struct txn t;
    if (argc < 2) die("no patch given: name patch files or folders");
    if (patch_find(argc - 1, argv + 1, &paths, &e) || txn_open(&t, q->root ? q->root : ".", NULL, &e))
        die("%s", e.text);
    if (t.recovered) fprintf(stderr, "concord: completed a change that an earlier run left unfinished\n");
    struct account a = {.rows = json_array()};
    for (size_t i = 0; i < paths.len; i++)
        stage_patch(&t, q, flags | (q->any_base ? APPLY_IGNORE_IDS : 0),
                    paths.ptr[flags & APPLY_REVERSE ? paths.len - 1 - i : i], &a);
    int rc = finish_apply(&t, q, &a);
    txn_close(&t);
    strings_free(&paths);
    return rc;
}

static int run_apply(const struct request *q, int argc, char **argv)
{
    return apply_all(q, argc, argv, 0);
}
static int run_reverse(const struct request *q, int argc, char **argv)
{
    return apply_all(q, argc, argv, APPLY_REVERSE);
}

/* ---- show and check ---------------------------------------------------------------------------------- */

static void show_patch(const char *path, const struct patch *p)
{
    for (size_t i = 0; i < p->files.len; i++) {
        const struct patch_file *f = &p->files.ptr[i];
        uint32_t added, removed;
        count_lines(p, f, &added, &removed);
        printf("%s: %s: %u hunks, +%u -%u, base %s, result %s\n", path, f->path ? f->path : "?",
               f->hunk_end - f->hunk, added, removed, *f->old_id ? f->old_id : "unknown",
               *f->new_id ? f->new_id : "unknown");
        for (uint32_t h = f->hunk; h < f->hunk_end; h++) {
            const struct hunk *k = &p->hunks.ptr[h];
            printf("  line %u: -%u,%u +%u,%u%.*s\n", k->line + 1, k->old_start, k->old_len, k->new_start,
                   k->new_len, SLICE_FMT(k->section));
        }
    }
    for (size_t i = 0; i < p->faults.len; i++)
        printf("%s:%u: %s: %s\n", path, p->faults.ptr[i].line + 1, patch_fault_name(p->faults.ptr[i].kind),
               p->faults.ptr[i].text);
}

static int run_show(const struct request *q, int argc, char **argv)
{
    (void)q;
    struct err e;
    strings paths = {0};
    if (argc < 2) die("no patch given: name patch files or folders");
    if (patch_find(argc - 1, argv + 1, &paths, &e)) die("%s", e.text);
    for (size_t i = 0; i < paths.len; i++) {
        struct patch p;
        if (patch_load(paths.ptr[i], &p, &e)) die("%s", e.text);
        show_patch(paths.ptr[i], &p);
        patch_free(&p);
    }
    strings_free(&paths);
    return EXIT_OK;
}

static size_t check_report(const struct request *q, const struct check *c, json_t *rows, size_t counts[])
{
    size_t bad = 0;
    if (!c->loaded || *c->error.text) die("%s", c->error.text);
    struct account a = {.rows = rows};
    for (size_t i = 0; i < c->p.faults.len; i++) {
        const struct patch_fault *f = &c->p.faults.ptr[i];
        bool blocks = patch_fault_blocks(f->kind);
        bad += blocks;
        if (blocks) tell(&a, q, c->path, patch_fault_name(f->kind), "fault", f->text, f->line + 1);
    }
    for (size_t i = 0; i < c->results.len; i++) {
        const struct apply_result *r = &c->results.ptr[i];
        counts[r->outcome]++;
        if (r->outcome == APPLY_blocked) continue;
        bool good = r->outcome == APPLY_clean || r->outcome == APPLY_already;
        bad += !good;
        if (!good || q->json)
            tell(&a, q, c->path, c->p.files.ptr[i].path ? c->p.files.ptr[i].path : "?",
                 apply_outcome_text(r->outcome), r->text, good ? 0 : r->line + 1);
    }
    return bad;
}

static int run_check(const struct request *q, int argc, char **argv)
{
    struct err e;
    strings paths = {0};
    if (argc < 2) die("no patch given: name patch files or folders");
    if (patch_find(argc - 1, argv + 1, &paths, &e)) die("%s", e.text);
    const char *where = q->upstream ? q->upstream : q->root;
    struct source *s = where ? source_open(where, &e) : NULL;
    if (where && !s) die("%s", e.text);
    struct check *c = patch_check_all(&paths, s, q->any_base ? APPLY_IGNORE_IDS : 0);
    size_t counts[APPLY_OUTCOME_COUNT] = {0}, bad = 0;
    json_t *rows = json_array();
    for (size_t i = 0; i < paths.len; i++) bad += check_report(q, &c[i], rows, counts);
    if (q->json)
        write_json(q->json, rows);
    else
        json_decref(rows);
    printf("%zu patches checked, %zu findings\n", paths.len, bad);
    for (int i = 0; i < APPLY_OUTCOME_COUNT && s; i++)
        if (counts[i]) printf("  %zu sections: %s\n", counts[i], apply_outcome_text((enum apply_outcome)i));
    patch_checks_free(c, paths.len);
    source_close(s);
    strings_free(&paths);
    return bad ? EXIT_FINDINGS : EXIT_OK;
}

/* ---- make and merge ---------------------------------------------------------------------------------- */

static uint32_t mode_of(const char *path)
{
    struct stat st;
    return !stat(path, &st) && st.st_mode & 0100 ? 0100755 : 0100644;
}

static struct make_options make_options(const struct request *q)
{
    return (struct make_options){(uint32_t)q->context, (uint32_t)q->digits};
}

/* Adds the section for one path whose contents are the two files; absent files are absent contents. */
static void make_one(const struct request *q, const char *old, const char *new, const char *path,
                     struct buf *out)
{
    struct err e;
    struct buf a = BUF_INIT, b = BUF_INIT;
    bool has_a = path_exists(old), has_b = path_exists(new);
    if ((has_a && file_read(old, &a, &e)) || (has_b && file_read(new, &b, &e))) die("%s", e.text);
    struct make_options o = make_options(q);
    if (patch_make(path, has_a ? slice_of(&a) : (struct slice){0}, has_b ? slice_of(&b) : (struct slice){0},
                   mode_of(has_b ? new : old), &o, out, &e))
        die("%s", e.text);
    buf_free(&a);
    buf_free(&b);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void make_trees(const struct request *q, const char *old, const char *new, struct buf *out)
{
    struct err e;
    strings names = {0};
    struct source *a = source_open(old, &e), *b = a ? source_open(new, &e) : NULL;
    if (!b || source_list(a, "", &names, &e) || source_list(b, "", &names, &e)) die("%s", e.text);
    if (names.len) qsort(names.ptr, names.len, sizeof *names.ptr, by_name);
    for (size_t i = 0; i < names.len; i++) {
        if (i && !strcmp(names.ptr[i], names.ptr[i - 1])) continue;
        char *x = path_join(old, names.ptr[i]), *y = path_join(new, names.ptr[i]);
        make_one(q, x, y, names.ptr[i], out);
        free(x);
        free(y);
    }
    strings_free(&names);
    source_close(a);
    source_close(b);
}

/* The one section of the patch for the path, or the only one when path is NULL. */
static const struct patch_file *section_for(const struct patch *p, const char *file, const char *path)
{
    const struct patch_fault *b = patch_blocked(p);
    if (b)
        die("%s:%u: %s: %s: mend it first (concord patch repair)", file, b->line + 1,
            patch_fault_name(b->kind), b->text);
    for (size_t i = 0; i < p->files.len; i++)
        if (path ? !strcmp(p->files.ptr[i].path, path) : p->files.len == 1) return &p->files.ptr[i];
    die("%s: %s%s", file, path ? "has no section for " : "has several sections: name one with --path",
        path ? path : "");
}

/* The old patch's other sections stay as they are. */
static void merge_into(const struct request *q, const char *file, const struct patch *p,
                       const struct patch_file *f, struct slice base, struct slice post, struct buf *out)
{
    struct err e;
    struct merge_result r;
    struct make_options o = make_options(q);
    const char *text = buf_str(&p->text);
    size_t end = f->end < p->lines.len ? p->lines.ptr[f->end].off : p->text.len;
    buf_add(out, text, p->lines.ptr[f->line].off);
    if (patch_merge(p, f, base, post, &o, out, &r, &e)) die("%s: %s", file, e.text);
    buf_add(out, text + end, p->text.len - end);
    fprintf(stderr, "%s: %u hunks kept byte for byte, %u rewritten, %u added\n", f->path, r.kept, r.rewritten,
            r.added);
}

static void make_onto(const struct request *q, const char *old, const char *new, struct buf *out)
{
    struct err e;
    struct patch p;
    struct buf base = BUF_INIT, post = BUF_INIT;
    if (patch_load(q->onto, &p, &e)) die("%s", e.text);
    const struct patch_file *f = section_for(&p, q->onto, q->path);
    char *a = path_is_dir(old) ? path_join(old, f->path) : xstrdup(old);
    char *b = path_is_dir(new) ? path_join(new, f->path) : xstrdup(new);
    if (file_read(a, &base, &e) || file_read(b, &post, &e)) die("%s", e.text);
    merge_into(q, q->onto, &p, f, slice_of(&base), slice_of(&post), out);
    free(a);
    free(b);
    buf_free(&base);
    buf_free(&post);
    patch_free(&p);
}

static int run_make(const struct request *q, int argc, char **argv)
{
    struct buf out = BUF_INIT;
    if (argc != 3) die("make needs two operands: the upstream file or tree, and the edited one");
    bool trees = path_is_dir(argv[1]);
    for (int i = 1; i < 3; i++)
        if (!path_exists(argv[i])) die("%s: no such file or folder", argv[i]);
    if (trees != path_is_dir(argv[2])) die("%s and %s: give two files or two folders", argv[1], argv[2]);
    if (q->onto)
        make_onto(q, argv[1], argv[2], &out);
    else if (trees)
        make_trees(q, argv[1], argv[2], &out);
    else if (!q->path)
        die("make: say with --path which file of the tree this is");
    else
        make_one(q, argv[1], argv[2], q->path, &out);
    emit(q->output, &out);
    buf_free(&out);
    return EXIT_OK;
}

/* The edit is a patch against the patched file or, failing that, against upstream's. */
static void edited_contents(const struct patch *edit, const char *file, const struct patch_file *f,
                            struct slice base, const struct patch *p, struct buf *post)
{
    struct buf patched = BUF_INIT, redone = BUF_INIT;
    struct apply_result r, r2;
    bool exists;
    const struct patch_file *g = section_for(edit, file, f->path);
    patch_apply(p, f, base, 0, &patched, &exists, &r);
    if (r.outcome != APPLY_clean)
        die("%s: the existing patch %s: %s", f->path, apply_outcome_text(r.outcome), r.text);
    patch_apply(edit, g, slice_of(&patched), 0, post, &exists, &r);
    if (r.outcome != APPLY_clean && r.outcome != APPLY_already) {
        patch_apply(edit, g, base, 0, &redone, &exists, &r2);
        if (r2.outcome != APPLY_clean)
            die("%s: %s on the patched file: %s; on upstream's: %s", file, apply_outcome_text(r.outcome),
                r.text, r2.text);
        if (merge_three(base, slice_of(&patched), slice_of(&redone), post))
            die("%s: the edit and the existing patch change the same lines of %s differently", file, f->path);
    }
    buf_free(&patched);
    buf_free(&redone);
}

static int run_merge(const struct request *q, int argc, char **argv)
{
    struct err e;
    struct patch p, edit;
    struct buf base = BUF_INIT, post = BUF_INIT, out = BUF_INIT;
    const char *where = q->upstream ? q->upstream : q->root;
    if (argc != 3) die("merge needs two operands: the existing patch and the patch with the edit");
    if (!where) die("merge: say with --upstream or --root where the unpatched files are");
    if (patch_load(argv[1], &p, &e) || patch_load(argv[2], &edit, &e)) die("%s", e.text);
    const struct patch_file *f = section_for(&p, argv[1], q->path);
    struct source *s = source_open(where, &e);
    if (!s) die("%s", e.text);
    int found = source_read(s, f->path, &base, NULL, &e);
    if (found < 0) die("%s", e.text);
    if (!found) die("%s: no %s there", where, f->path);
    edited_contents(&edit, argv[2], f, slice_of(&base), &p, &post);
    merge_into(q, argv[1], &p, f, slice_of(&base), slice_of(&post), &out);
    emit(q->output, &out);
    source_close(s);
    patch_free(&p);
    patch_free(&edit);
    buf_free(&base);
    buf_free(&post);
    buf_free(&out);
    return EXIT_OK;
}

/* ---- repair ------------------------------------------------------------------------------------------ */

static bool repair_one(const struct request *q, struct source *s, const char *path)
{
    struct err e;
    struct buf text = BUF_INIT, out = BUF_INIT;
    struct repair r = {0};
    if (file_read(path, &text, &e) || patch_repair(path, slice_of(&text), s, &out, &r, &e)) die("%s", e.text);
    for (size_t i = 0; i < r.notes.len; i++)
        fprintf(stderr, "%s:%u: %s: %s\n", path, r.notes.ptr[i].line,
                r.notes.ptr[i].fixed ? "mended" : "left alone", r.notes.ptr[i].text);
    if (q->in_place && r.fixed && !slice_eq(slice_of(&out), slice_of(&text))) {
        if (file_write(path, buf_str(&out), out.len, 0, &e)) die("%s", e.text);
    } else if (!q->in_place && !q->dry_run) {
        emit(q->output, &out);
    }
    bool left = r.left > 0;
    repair_free(&r);
    buf_free(&text);
    buf_free(&out);
    return left;
}

static int run_repair(const struct request *q, int argc, char **argv)
{
    struct err e;
    strings paths = {0};
    if (argc < 2) die("no patch given: name patch files or folders");
    if (patch_find(argc - 1, argv + 1, &paths, &e)) die("%s", e.text);
    if (paths.len > 1 && !q->in_place && !q->dry_run)
        die("repair: several patches need --in-place (or --dry-run)");
    const char *where = q->upstream ? q->upstream : q->root;
    struct source *s = where ? source_open(where, &e) : NULL;
    if (where && !s) die("%s", e.text);
    bool left = false;
    for (size_t i = 0; i < paths.len; i++) left |= repair_one(q, s, paths.ptr[i]);
    source_close(s);
    strings_free(&paths);
    return left ? EXIT_FINDINGS : EXIT_OK;
}

/* ---- the table --------------------------------------------------------------------------------------- */

#define SUBCOMMANDS(X)                                                                                       \
    X(apply, "PATCH...", "apply exactly, all or nothing")                                                    \
    X(check, "PATCH...", "faults of the patches and, with --root or --upstream, whether they apply")         \
    X(make, "OLD NEW", "make a patch from two files or trees; --onto keeps an existing patch's hunks")       \
    X(merge, "PATCH EDIT", "put an edit (itself a patch) into an existing patch of the same file")           \
    X(repair, "PATCH...", "mend what is faulty without doubt, leave and name the rest")                      \
    X(reverse, "PATCH...", "take patches out again")                                                         \
    X(show, "PATCH...", "files, hunks, ids and faults")

static const struct {
    const char *name, *operands, *summary;
    int (*run)(const struct request *q, int argc, char **argv);
} subcommands[] = {
#define X(name, operands, summary) {#name, operands, summary, run_##name},
    SUBCOMMANDS(X)
#undef X
};
enum { NSUBCOMMANDS = sizeof subcommands / sizeof *subcommands };

static char *summary_of_all(void)
{
    struct buf b = BUF_INIT;
    buf_adds(&b, "Works on git patches, strictly: no fuzz, no offset, ids checked.\n");
    for (int i = 0; i < NSUBCOMMANDS; i++)
        buf_addf(&b, "\n  %-8s %-11s %s", subcommands[i].name, subcommands[i].operands,
                 subcommands[i].summary);
    return buf_take(&b);
}

int cmd_patch(int argc, char **argv)
{
    struct request q = {0};
    const struct opt opts[] = {
        {'C', "root", OPT_STRING, &q.root, "DIR", "the tree to work on (default: the current folder)"},
        {'u', "upstream", OPT_STRING, &q.upstream, "SOURCE",
         "upstream files: folder, CLONE#REV, archive or URL#TAG"},
        {0, "installed", OPT_FLAG, &q.installed, NULL,
         "the root is a site-packages folder: take only torch/ targets"},
        {'n', "dry-run", OPT_FLAG, &q.dry_run, NULL, "say what would be done, change nothing"},
        {0, "any-base", OPT_FLAG, &q.any_base, NULL, "do not insist on the ids of the index lines"},
        {0, "onto", OPT_STRING, &q.onto, "PATCH", "make: keep this patch's hunks and put the new edits in"},
        {'p', "path", OPT_STRING, &q.path, "PATH", "make, merge: the file's path in the tree"},
        {'U', "unified", OPT_INT, &q.context, "N", "make, merge: lines of context (3)"},
        {0, "abbrev", OPT_INT, &q.digits, "N", "make: digits of the ids (11)"},
        {'i', "in-place", OPT_FLAG, &q.in_place, NULL, "repair: write the patch files themselves"},
        {'o', "output", OPT_STRING, &q.output, "FILE", "where the patch goes (default: standard output)"},
        {0, "json", OPT_STRING, &q.json, "FILE",
         "apply, reverse, check: the account as JSON (- for standard output)"},
        {'q', "quiet", OPT_FLAG, &q.quiet, NULL, "no line for each patch"},
        {0}};
    char *summary = summary_of_all();
    opt_parse(&argc, argv, &(struct usage){"patch SUBCOMMAND OPERAND... [options]", summary, opts});
    free(summary);
    if (argc < 2) die("patch: no subcommand: apply, check, make, merge, repair, reverse or show");
    if (q.context < 0 || q.context > 1000) die("--unified: from 0 to 1000");
    if (q.digits < 0 || q.digits > 40 || (q.digits && q.digits < 4)) die("--abbrev: from 4 to 40");
    const char *names[NSUBCOMMANDS];
    for (int i = 0; i < NSUBCOMMANDS; i++) {
        names[i] = subcommands[i].name;
        if (!strcmp(argv[1], names[i])) return subcommands[i].run(&q, argc - 1, argv + 1);
    }
    const char *near = str_nearest(argv[1], names, NSUBCOMMANDS);
    die("patch: unknown subcommand '%s'%s%s", argv[1], near ? ": did you mean " : "", near ? near : "");
}
