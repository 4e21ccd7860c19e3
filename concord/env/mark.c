/* mark.c - rewrites torch's version file and distribution metadata (the formats are PyPA's: METADATA,
 * RECORD). */
#include "concord/env/mark.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Requirements that only a CUDA build has a use for. A CPU build's metadata does not name them. */
static const char *const gpu_packages[] = {"nvidia-", "cuda-", "triton", "pytorch-triton", NULL};

static bool has_prefix_of(const char *s, const char *const *prefixes)
{
    while (*prefixes && !str_starts(s, *prefixes)) prefixes++;
    return *prefixes != NULL;
}

/* Length of the line at p, without its newline. */
static size_t line_length(const char *p)
{
    return strcspn(p, "\n");
}

char *mark_dist_info(const char *site, const char *distribution, struct err *e)
{
    strings names = {0};
    char *prefix = xformat("%s-", distribution), *found = NULL;
    int rc = dir_list(site, &names, e);
    for (size_t i = 0; !rc && !found && i < names.len; i++) {
        const char *name = names.ptr[i];
        bool version_follows = str_starts(name, prefix) && isdigit((unsigned char)name[strlen(prefix)]);
        if (version_follows && str_ends(name, ".dist-info")) found = path_join(site, name);
    }
    if (!rc && !found) err_set(e, "'%s' has no installed %s", site, distribution);
    strings_free(&names);
    free(prefix);
    return found;
}

/* ---- METADATA ------------------------------------------------------------------------------------------ */

static const char requires_dist[] = "Requires-Dist: ";

static bool is_gpu_requirement(const char *line)
{
    return str_starts(line, requires_dist) && has_prefix_of(line + strlen(requires_dist), gpu_packages);
}

static void write_metadata_line(struct buf *out, const char *line, size_t n, bool *marked)
{
    if (is_gpu_requirement(line)) return;
    buf_add(out, line, n);
    if (str_starts(line, "Version: ") && !memchr(line, '+', n)) {
        buf_adds(out, "+cpu");
        *marked = true;
    }
    buf_addc(out, '\n');
}

/* Headers end at the first empty line; what follows is the description. */
static int mark_metadata(const char *path, bool *marked, struct err *e)
{
    struct buf in = BUF_INIT, out = BUF_INIT;
    int rc = file_read(path, &in, e);
    if (!rc) {
        const char *p = buf_str(&in);
        while (*p && *p != '\n') {
            size_t n = line_length(p);
            write_metadata_line(&out, p, n, marked);
            p += n + (p[n] == '\n');
        }
        buf_adds(&out, p);
        rc = file_write(path, buf_str(&out), out.len, 0, e);
    }
    buf_free(&in);
    buf_free(&out);
    return rc;
}

/* Whether a Requires-Dist header is one that this environment should meet: no extra, no GPU, not torch
 * itself. */
static bool is_wanted(const char *line, size_t n)
{
    char *copy = xstrndup(line, n);
    const char *name = copy + strlen(requires_dist);
    size_t len = strcspn(name, " <>=!~;([");
    bool torch = len == strlen("torch") && !strncmp(name, "torch", len);
    const char *marker = strchr(name, ';');
    bool extra = marker && strstr(marker, "extra ==");
    free(copy);
    return !torch && !extra && !is_gpu_requirement(line);
}

int mark_requirements(const char *site, const char *distribution, strings *out, struct err *e)
{
    char *folder = mark_dist_info(site, distribution, e);
    if (!folder) return -1;
    char *path = path_join(folder, "METADATA");
    struct buf text = BUF_INIT;
    int rc = file_read(path, &text, e);
    for (const char *p = buf_str(&text); !rc && *p && *p != '\n';) {
        size_t n = line_length(p);
        if (str_starts(p, requires_dist) && is_wanted(p, n))
            *vec_push(out) = xstrndup(p + strlen(requires_dist), n - strlen(requires_dist));
        p += n + (p[n] == '\n');
    }
    buf_free(&text);
    free(path);
    free(folder);
    return rc;
}

/* ---- torch/version.py ---------------------------------------------------------------------------------- */

static void write_version_line(struct buf *out, const char *line, size_t n)
{
    if (str_starts(line, "__version__ = '")) {
        size_t keep = strcspn(line, "+\n"); /* drops +cu126 and the quote behind it */
        if (keep == n) keep = n - 1;
        buf_add(out, line, keep);
        buf_adds(out, "+cpu'");
    } else if (str_starts(line, "cuda: ") && memchr(line, '=', n)) {
        buf_add(out, line, (size_t)((const char *)memchr(line, '=', n) - line));
        buf_adds(out, "= None");
    } else {
        buf_add(out, line, n);
    }
    buf_addc(out, '\n');
}

static int mark_version_file(const char *path, struct err *e)
{
    struct buf in = BUF_INIT, out = BUF_INIT;
    int rc = file_read(path, &in, e);
    if (!rc) {
        for (const char *p = buf_str(&in); *p;) {
            size_t n = line_length(p);
            write_version_line(&out, p, n);
            p += n + (p[n] == '\n');
        }
        rc = file_write(path, buf_str(&out), out.len, 0, e);
    }
    buf_free(&in);
    buf_free(&out);
    return rc;
}

/* ---- RECORD -------------------------------------------------------------------------------------------- */

struct record {
    const char *site;
    const char *old_folder, *new_folder; /* names of the .dist-info */
    struct map changed, removed;         /* by path relative to site */
    struct buf out;
};

static unsigned hex_digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* RECORD wants the digest as unpadded URL-safe base64. */
static void add_digest(struct buf *out, const char hex[65])
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned bits = 0, have = 0;
    for (int i = 0; i < 64; i++) {
        bits = bits << 4 | hex_digit(hex[i]);
        have += 4;
        if (have < 6) continue;
        have -= 6;
        buf_addc(out, alphabet[bits >> have & 63]);
    }
    if (have) buf_addc(out, alphabet[bits << (6 - have) & 63]);
}

/* name is what RECORD calls the file that is now at relative. */
static int add_file(struct record *r, const char *name, const char *relative, struct err *e)
{
    char *path = path_join(r->site, relative), hex[65];
    struct stat st;
    int rc = sha256_file(path, hex, e);
    if (!rc && stat(path, &st)) rc = err_set(e, "cannot read '%s'", path);
    if (!rc) {
        buf_addf(&r->out, "%s,sha256=", name);
        add_digest(&r->out, hex);
        buf_addf(&r->out, ",%lld\n", (long long)st.st_size);
    }
    free(path);
    return rc;
}

/* A line is path,digest,size; the path may be quoted and hold commas, the others not. */
static size_t path_length(const char *line, size_t n)
{
    for (int commas = 0; n; n--)
        if (line[n - 1] == ',' && ++commas == 2) return n - 1;
    return 0;
}

static int copy_line(struct record *r, const char *line, size_t n, struct err *e)
{
    size_t len = path_length(line, n), folder = strlen(r->old_folder);
    char *path = xstrndup(line, len);
    int rc = 0;
    bool moved = str_starts(path, r->old_folder) && path[folder] == '/';
    if (map_has(&r->changed, path)) {
        char *name = moved ? xformat("%s%s", r->new_folder, path + folder) : xstrdup(path);
        rc = add_file(r, name, path, e);
        free(name);
        *map_put(&r->removed, path) = r; /* written: not to be added again */
    } else if (!map_has(&r->removed, path)) {
        if (moved) buf_adds(&r->out, r->new_folder);
        buf_add(&r->out, line + (moved ? folder : 0), n - (moved ? folder : 0));
        buf_addc(&r->out, '\n');
    }
    free(path);
    return rc;
}

static void note_paths(struct map *to, const char *site, const strings *paths, const struct map *but_not)
{
    for (size_t i = 0; i < paths->len; i++) {
        const char *relative = paths->ptr[i] + strlen(site) + 1;
        if (!but_not || !map_has(but_not, relative)) *map_put(to, relative) = to;
    }
}

static int rewrite_lines(struct record *r, const char *p, struct err *e)
{
    int rc = 0;
    while (!rc && *p) {
        size_t n = line_length(p);
        if (n) rc = copy_line(r, p, n, e);
        p += n + (p[n] == '\n');
    }
    for (size_t i = 0; !rc && i < r->changed.entries.len; i++) { /* the stand-ins */
        const char *path = r->changed.entries.ptr[i].key;
        if (!map_has(&r->removed, path)) rc = add_file(r, path, path, e);
    }
    return rc;
}

static int mark_record(const char *site, const char *folder, const char *new_folder,
                       const struct trim_result *trim, struct err *e)
{
    struct record r = {.site = site, .old_folder = folder, .new_folder = new_folder};
    note_paths(&r.changed, site, &trim->changed, NULL);
    note_paths(&r.removed, site, &trim->removed, &r.changed); /* some came back as stand-ins */
    char *metadata = path_join(folder, "METADATA"), *record = xformat("%s/%s/RECORD", site, folder);
    *map_put(&r.changed, metadata) = &r;
    *map_put(&r.changed, "torch/version.py") = &r;
    struct buf text = BUF_INIT;
    int rc = file_read(record, &text, e);
    if (!rc) rc = rewrite_lines(&r, buf_str(&text), e);
    if (!rc) rc = file_write(record, buf_str(&r.out), r.out.len, 0, e);
    buf_free(&text);
    buf_free(&r.out);
    map_free(&r.changed, NULL);
    map_free(&r.removed, NULL);
    free(metadata);
    free(record);
    return rc;
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

int mark_torch_cpu(const char *site, const struct trim_result *trim, struct err *e)
{
    char *folder = mark_dist_info(site, "torch", e);
    if (!folder) return -1;
    char *metadata = path_join(folder, "METADATA"), *version = path_join(site, "torch/version.py");
    const char *name = strrchr(folder, '/') + 1;
    bool marked = false;
    int rc = mark_metadata(metadata, &marked, e);
    if (!rc) rc = mark_version_file(version, e);
    size_t stem = strlen(name) - strlen(".dist-info");
    char *new_name = marked ? xformat("%.*s+cpu.dist-info", (int)stem, name) : xstrdup(name);
    if (!rc) rc = mark_record(site, name, new_name, trim, e);
    char *new_folder = path_join(site, new_name);
    if (!rc && marked && rename(folder, new_folder)) rc = err_set(e, "cannot rename '%s'", folder);
    free(folder);
    free(metadata);
    free(version);
    free(new_name);
    free(new_folder);
    return rc;
}
