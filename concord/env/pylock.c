/* pylock.c - reads the pylock.toml (PEP 751) that uv prints, and prints our own with one wheel a package.
 *
 * uv's layout is read, not all of TOML: a table a package, one key a line, wheels as inline tables.
 */
#include "concord/env/env_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char table_head[] = "[[packages]]";

/* The text between the quotes behind key, looked for in [from, to); NULL if it is not there. Owned. */
static char *quoted(const char *from, const char *to, const char *key)
{
    const char *p = memmem(from, (size_t)(to - from), key, strlen(key));
    if (!p) return NULL;
    p += strlen(key);
    const char *end = memchr(p, '"', (size_t)(to - p));
    return end ? xstrndup(p, (size_t)(end - p)) : NULL;
}

static const char *file_name(const char *url)
{
    const char *slash = strrchr(url, '/');
    return slash ? slash + 1 : url;
}

/* name-version-build-python-abi-platform.whl: the build number where there is one, else 0. */
static long build_of(const char *url)
{
    const char *p = file_name(url), *part[6];
    int n = 0;
    for (; p && n < 6; n++) {
        part[n] = p;
        p = strchr(p, '-');
        if (p) p++;
    }
    return n == 6 && !p && isdigit((unsigned char)*part[2]) ? atol(part[2]) : 0;
}

/* A local wheel is preferred, then the highest build; uv lists only wheels that fit this Python and machine.
 */
static bool is_better(const struct wheel *a, const struct wheel *b)
{
    bool local_a = str_starts(a->url, "file:"), local_b = str_starts(b->url, "file:");
    if (local_a != local_b) return local_a;
    return build_of(a->url) > build_of(b->url);
}

static void free_source(struct wheel *w)
{
    free(w->url);
    free(w->sha256);
    w->url = w->sha256 = NULL;
}

static uint64_t local_size(const char *url)
{
    struct buf path = BUF_INIT;
    for (const char *p = url + strlen("file://"); *p; p++) {
        unsigned code;
        bool escape = *p == '%' && sscanf(p + 1, "%2x", &code) == 1;
        buf_addc(&path, escape ? (int)code : *p);
        if (escape) p += 2;
    }
    struct stat st;
    uint64_t size = stat(buf_str(&path), &st) ? 0 : (uint64_t)st.st_size;
    buf_free(&path);
    return size;
}

static uint64_t size_of(const char *url, const char *from, const char *to)
{
    if (str_starts(url, "file://")) return local_size(url);
    static const char key[] = "size = ";
    const char *p = memmem(from, (size_t)(to - from), key, strlen(key));
    return p ? strtoull(p + strlen(key), NULL, 10) : 0;
}

/* Takes the best wheel of the array that starts at p. */
static void read_wheels(struct wheel *w, const char *p, const char *end)
{
    static const char *const keys[] = {"{ url = \"", "{ path = \""};
    for (const char *next; p < end; p = next) {
        const char *close = memmem(p, (size_t)(end - p), "} }", 3);
        if (!close) return;
        next = close + 3;
        struct wheel candidate = {0};
        for (int i = 0; i < 2 && !candidate.url; i++) candidate.url = quoted(p, close, keys[i]);
        candidate.sha256 = quoted(p, close, "sha256 = \"");
        bool whole = candidate.url && candidate.sha256;
        if (whole) candidate.size = size_of(candidate.url, p, close);
        if (!whole || (w->url && !is_better(&candidate, w))) {
            free_source(&candidate);
            continue;
        }
        free_source(w);
        w->url = candidate.url, w->sha256 = candidate.sha256, w->size = candidate.size;
    }
}

int pylock_parse(const char *text, wheels *out, struct err *e)
{
    const char *p = strstr(text, table_head);
    while (p) {
        p += strlen(table_head);
        const char *next = strstr(p, table_head), *end = next ? next : p + strlen(p);
        struct wheel *w = vec_push(out);
        w->name = quoted(p, end, "\nname = \"");
        w->version = quoted(p, end, "\nversion = \"");
        const char *list = memmem(p, (size_t)(end - p), "\nwheels = [", 11);
        if (list) read_wheels(w, list, end);
        if (!w->name || !w->version || !w->url)
            return err_set(e, "uv's lock names no wheel with a SHA-256 for %s: concord needs one",
                           w->name ? w->name : "a package");
        p = next;
    }
    return out->len ? 0 : err_set(e, "uv's lock is empty: its output has changed, or nothing was asked for");
}

void pylock_print(const wheels *w, struct buf *out)
{
    buf_adds(out, "lock-version = \"1.0\"\ncreated-by = \"concord\"\n");
    for (size_t i = 0; i < w->len; i++)
        buf_addf(out,
                 "\n[[packages]]\nname = \"%s\"\nversion = \"%s\"\n"
                 "wheels = [{ url = \"%s\", hashes = { sha256 = \"%s\" } }]\n",
                 w->ptr[i].name, w->ptr[i].version, w->ptr[i].url, w->ptr[i].sha256);
}

void wheels_free(wheels *w)
{
    for (size_t i = 0; i < w->len; i++) {
        free(w->ptr[i].name);
        free(w->ptr[i].version);
        free_source(&w->ptr[i]);
    }
    vec_free(w);
}
