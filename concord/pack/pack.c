/* pack.c - what goes into the archive, its manifest, and the check of both. */
#include "concord/pack/pack.h"

#include <stdlib.h>
#include <string.h>

static struct buf *add(pack_files *files, char *path)
{
    struct pack_file *f = vec_push(files);
    f->path = path;
    return &f->data;
}

/* ---- collecting -------------------------------------------------------------------------------------- */

static int add_file(pack_files *files, const char *full, char *path, struct err *e)
{
    return file_read(full, add(files, path), e);
}

/* The archive's own fact cannot be in it. */
static bool left_out(const char *path)
{
    return !strcmp(path, "facts/pack.json");
}

static int add_folder(pack_files *files, const char *root, const char *below, struct err *e)
{
    char *dir = path_join(root, below);
    strings names = {0};
    int status = path_is_dir(dir) ? dir_list(dir, &names, e) : 0;
    for (size_t i = 0; !status && i < names.len; i++) {
        char *path = path_join(below, names.ptr[i]), *full = path_join(root, path);
        if (path_is_dir(full)) {
            status = add_folder(files, root, path, e);
            free(path);
        } else if (left_out(path)) {
            free(path);
        } else {
            status = add_file(files, full, path, e);
        }
        free(full);
    }
    strings_free(&names);
    free(dir);
    return status;
}

/* The journal's rows of the run, one JSON object a line. */
static void add_rows(pack_files *files, const struct run_record *r)
{
    struct buf *out = add(files, xstrdup("journal/run.jsonl"));
    json_t *run = json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:s}", "run", (json_int_t)r->id, "campaign",
                            r->campaign, "digest", r->digest, "command", r->command, "started", r->started,
                            "finished", r->finished, "version", r->version);
    VEC(json_t *) rows = {0};
    *vec_push(&rows) = run;
    for (size_t i = 0; i < r->releases.len; i++) {
        const struct release_record *rel = &r->releases.ptr[i];
        *vec_push(&rows) = json_pack("{s:s, s:s, s:s, s:s, s:s, s:O?, s:s}", "release", rel->name, "torch",
                                     rel->torch, "branch", rel->branch, "kind", device_kind_name(rel->kind),
                                     "device", rel->device, "hello", rel->hello, "error", rel->error);
    }
    for (size_t i = 0; i < r->cases.len; i++) {
        const struct case_record *c = &r->cases.ptr[i];
        *vec_push(&rows) = json_pack(
            "{s:I, s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:f, s:I, s:s, s:s, s:s, s:o}", "case",
            (json_int_t)c->id, "release", c->release, "api", c->api, "name", c->name, "verdict",
            verdict_name(c->verdict), "reason", c->reason, "attempts", c->attempts, "started", c->started,
            "ms", c->ms, "launches", (json_int_t)c->launches, "kind", device_kind_name(c->kind), "output",
            c->output, "stack", c->stack, "facts", *c->facts ? json_string(c->facts) : json_null());
    }
    for (size_t i = 0; i < rows.len; i++) {
        char *line = json_dumps(rows.ptr[i], JSON_COMPACT);
        buf_addf(out, "%s\n", line ? line : "null");
        free(line);
        json_decref(rows.ptr[i]);
    }
    vec_free(&rows);
}

static void add_texts(pack_files *files, const struct run_record *r)
{
    buf_addf(add(files, xstrdup("commands.txt")), "%s\n", r->command);
    for (size_t i = 0; i < r->releases.len; i++)
        if (*r->releases.ptr[i].lock)
            buf_adds(add(files, xformat("locks/%s.json", r->releases.ptr[i].name)), r->releases.ptr[i].lock);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct pack_file *)a)->path, ((const struct pack_file *)b)->path);
}

static void make_manifest(const pack_files *files, struct buf *out)
{
    char hash[65];
    for (size_t i = 0; i < files->len; i++) {
        sha256_hex(buf_str(&files->ptr[i].data), files->ptr[i].data.len, hash);
        buf_addf(out, "%s  %s\n", hash, files->ptr[i].path);
    }
}

static int collect(const struct pack_request *q, pack_files *files, struct err *e)
{
    static const char *const folders[] = {"facts", "patches", "report"};
    int status = add_file(files, q->campaign, xstrdup("campaign.yaml"), e);
    for (size_t i = 0; !status && i < sizeof folders / sizeof *folders; i++)
        status = add_folder(files, q->dossier->dir, folders[i], e);
    if (status) return status;
    add_rows(files, q->record);
    add_texts(files, q->record);
    qsort(files->ptr, files->len, sizeof *files->ptr, by_path);
    return 0;
}

int pack_write(const struct pack_request *q, struct err *e)
{
    pack_files files = {0}, all = {0};
    struct buf manifest = BUF_INIT;
    char *folder = xformat("%s-evidence", q->record->campaign);
    int status = collect(q, &files, e);
    if (!status) {
        make_manifest(&files, &manifest);
        struct buf *first = add(&all, xstrdup(PACK_MANIFEST));
        buf_add(first, manifest.ptr, manifest.len);
        if (q->key) status = sign_text(q->key, &manifest, add(&all, xstrdup(PACK_SIGNATURE)), e);
        for (size_t i = 0; i < files.len; i++) *vec_push(&all) = files.ptr[i];
        files.len = 0;
    }
    if (!status) status = archive_put(q->out, folder, &all, e);
    pack_files_free(&files);
    pack_files_free(&all);
    buf_free(&manifest);
    free(folder);
    return status;
}

/* ---- verifying --------------------------------------------------------------------------------------- */

static const struct buf *find(const pack_files *files, const char *path)
{
    for (size_t i = 0; i < files->len; i++)
        if (!strcmp(files->ptr[i].path, path)) return &files->ptr[i].data;
    return NULL;
}

static void fault(struct pack_verdict *v, const char *path, const char *what)
{
    *vec_push(&v->faults) = xformat("%s: %s", path, what);
}

/* Paths of the manifest with their hashes; a line that is none is a fault. */
static void read_manifest(const struct buf *text, struct map *hashes, struct pack_verdict *v)
{
    for (const char *p = buf_str(text); *p;) {
        size_t n = strcspn(p, "\n");
        if (n > 66 && strspn(p, "0123456789abcdef") == 64 && !strncmp(p + 64, "  ", 2)) {
            char *path = xstrndup(p + 66, n - 66);
            void **slot = map_put(hashes, path);
            free(*slot);
            *slot = xstrndup(p, 64);
            free(path);
        } else {
            fault(v, PACK_MANIFEST, "a line that is not \"hash  path\"");
        }
        p += n + (p[n] == '\n');
    }
}

static void check_files(const pack_files *files, const struct map *hashes, struct pack_verdict *v)
{
    char hash[65];
    for (size_t i = 0; i < files->len; i++) {
        const struct pack_file *f = &files->ptr[i];
        if (!strcmp(f->path, PACK_MANIFEST) || !strcmp(f->path, PACK_SIGNATURE)) continue;
        const char *said = map_get(hashes, f->path);
        v->files++;
        sha256_hex(buf_str(&f->data), f->data.len, hash);
        if (!said)
            fault(v, f->path, "not in the manifest");
        else if (strcmp(said, hash) != 0)
            fault(v, f->path, "changed since it was packed");
    }
    for (size_t i = 0; i < hashes->entries.len; i++)
        if (!find(files, hashes->entries.ptr[i].key)) fault(v, hashes->entries.ptr[i].key, "missing");
}

static void check_signature(const pack_files *files, const char *signers, struct pack_verdict *v)
{
    const struct buf *signature = find(files, PACK_SIGNATURE);
    struct err e;
    v->has_signature = signature != NULL;
    if (signature && sign_check(find(files, PACK_MANIFEST), signature, signers, &v->signer, &e))
        fault(v, PACK_SIGNATURE, e.text);
    if (!signature && signers) fault(v, PACK_SIGNATURE, "missing: the archive is not signed");
}

int pack_verify(const char *path, const char *signers, struct pack_verdict *v, struct err *e)
{
    pack_files files = {0};
    struct map hashes = {0};
    const char *damage = "";
    *v = (struct pack_verdict){0};
    int status = archive_check(path, &damage, e);
    if (!status) status = archive_get(path, &files, e);
    if (*damage) fault(v, path, damage);
    const struct buf *manifest = status ? NULL : find(&files, PACK_MANIFEST);
    if (!status && !manifest)
        status = err_set(e, "%s: no %s in it: not an evidence archive", path, PACK_MANIFEST);
    if (!status) {
        read_manifest(manifest, &hashes, v);
        check_files(&files, &hashes, v);
        check_signature(&files, signers, v);
    }
    map_free(&hashes, free);
    pack_files_free(&files);
    return status;
}

void pack_verdict_free(struct pack_verdict *v)
{
    strings_free(&v->faults);
    free(v->signer);
}
