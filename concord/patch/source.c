/* source.c - upstream files from a folder, a clone, an archive or a git URL. */
#include "concord/patch/source.h"

#include <errno.h>
#include <git2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct source {
    char *spec;
    char *folder;         /* files are read from here; NULL for a clone */
    git_repository *repo; /* a clone's objects */
    git_tree *tree;
    git_repository *beside; /* of a folder that is a clone's work tree */
    pthread_mutex_t lock;   /* libgit2's objects are not shared between threads */
};

static int git_error_to(struct err *e, const char *what)
{
    const git_error *g = git_error_last();
    return err_set(e, "%s: %s", what, g && g->message ? g->message : "unknown reason");
}

/* ---- clones ------------------------------------------------------------------------------------------ */

static int open_clone(struct source *s, const char *place, const char *rev, struct err *e)
{
    git_libgit2_init();
    git_object *object = NULL, *tree = NULL;
    if (git_repository_open(&s->repo, place)) return git_error_to(e, place);
    if (git_revparse_single(&object, s->repo, rev)) {
        err_set(e, "%s: no revision '%s': fetch it first (git fetch origin tag %s)", place, rev, rev);
        return -1;
    }
    int rc = git_object_peel(&tree, object, GIT_OBJECT_TREE);
    git_object_free(object);
    if (rc) return git_error_to(e, s->spec);
    s->tree = (git_tree *)tree;
    return 0;
}

static int read_clone(struct source *s, const char *path, struct buf *out, uint32_t *mode, struct err *e)
{
    git_tree_entry *entry = NULL;
    int rc = git_tree_entry_bypath(&entry, s->tree, path);
    if (rc == GIT_ENOTFOUND) return 0;
    if (rc) return git_error_to(e, s->spec);
    git_blob *blob = NULL;
    bool is_blob = git_tree_entry_type(entry) == GIT_OBJECT_BLOB;
    if (mode) *mode = (uint32_t)git_tree_entry_filemode(entry);
    rc = is_blob ? git_blob_lookup(&blob, s->repo, git_tree_entry_id(entry)) : 0;
    git_tree_entry_free(entry);
    if (rc)
        return err_set(e, "%s: the clone lacks the contents of %s (a partial clone?): fetch them", s->spec,
                       path);
    if (!is_blob) return 0;
    buf_add(out, git_blob_rawcontent(blob), (size_t)git_blob_rawsize(blob));
    git_blob_free(blob);
    return 1;
}

struct listing {
    const char *under;
    strings *out;
};

static int list_entry(const char *root, const git_tree_entry *entry, void *payload)
{
    struct listing *l = payload;
    if (git_tree_entry_type(entry) != GIT_OBJECT_BLOB) return 0;
    char *path = xformat("%s%s", root, git_tree_entry_name(entry));
    if (str_starts(path, l->under))
        *vec_push(l->out) = path;
    else
        free(path);
    return 0;
}

/* ---- folders ----------------------------------------------------------------------------------------- */

static int read_folder(struct source *s, const char *path, struct buf *out, uint32_t *mode, struct err *e)
{
    char *full = path_join(s->folder, path);
    struct stat st;
    int rc = 0;
    if (stat(full, &st)) {
        if (errno != ENOENT && errno != ENOTDIR) rc = err_set(e, "%s: %s", full, strerror(errno));
    } else if (S_ISREG(st.st_mode)) {
        if (mode) *mode = st.st_mode & 0100 ? 0100755 : 0100644;
        rc = file_read(full, out, e) ? -1 : 1;
    }
    free(full);
    return rc;
}

static int list_folder(const char *root, const char *rel, strings *out, struct err *e)
{
    char *dir = *rel ? path_join(root, rel) : xstrdup(root);
    strings names = {0};
    int rc = dir_list(dir, &names, e);
    for (size_t i = 0; !rc && i < names.len; i++) {
        char *path = *rel ? path_join(rel, names.ptr[i]) : xstrdup(names.ptr[i]),
             *full = path_join(root, path);
        struct stat st;
        bool dir_too = !lstat(full, &st) && S_ISDIR(st.st_mode) && strcmp(names.ptr[i], ".git") != 0;
        if (dir_too)
            rc = list_folder(root, path, out, e);
        else if (S_ISREG(st.st_mode))
            *vec_push(out) = xstrdup(path);
        free(path);
        free(full);
    }
    strings_free(&names);
    free(dir);
    return rc;
}

/* ---- the cache: archives and remotes ----------------------------------------------------------------- */

static char *cache_place(const char *kind, const char *key)
{
    char digest[65];
    sha256_hex(key, strlen(key), digest);
    char *home = concord_home(), *dir = xformat("%s/sources/%s-%.16s", home, kind, digest);
    free(home);
    return dir;
}

static int run(const char *const *argv, const char *what, struct err *e)
{
    struct proc_result r = {0};
    static const char *const env[] = {"GIT_TERMINAL_PROMPT=0", "LC_ALL=C", NULL};
    struct proc_spec spec = {.argv = argv, .env = env, .timeout_ms = (int64_t)3600 * 1000, .merge = true};
    if (proc_run(&spec, &r, e)) return err_wrap(e, "%s", what);
    int rc = 0;
    if (r.status) {
        const char *text = buf_str(&r.out), *fatal = strstr(text, "fatal: ");
        if (fatal) text = fatal + strlen("fatal: ");
        rc = err_set(e, "%s: %s: %.*s", what, argv[0], (int)strcspn(text, "\n"), text);
    }
    proc_result_free(&r);
    return rc;
}

static bool is_zip(const char *name)
{
    return str_ends(name, ".zip") || str_ends(name, ".whl");
}

static bool is_archive(const char *name)
{
    static const char *const ends[] = {".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".zip", ".whl"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (str_ends(name, ends[i])) return true;
    return false;
}

/* Python's zipfile refuses members that leave the folder; only source files are of use, and wheels are huge.
 */
static const char unzip_py[] = "import sys, zipfile\n"
                               "z = zipfile.ZipFile(sys.argv[1])\n"
                               "ends = ('.py', '.pyi', '.h', '.cpp', '.txt', '.md', '.toml', '.json')\n"
                               "z.extractall(sys.argv[2], [n for n in z.namelist() if n.endswith(ends)])\n";

static int unpack(const char *archive, const char *into, struct err *e)
{
    if (dir_make(into, e)) return -1;
    const char *tar[] = {"tar", "-xf", archive, "-C", into, "--no-same-owner", NULL};
    const char *zip[] = {"python3", "-c", unzip_py, archive, into, NULL};
    return run(is_zip(archive) ? zip : tar, archive, e);
}

/* Makes dest whole by filling a temporary beside it; two processes may race, the first one to finish wins. */
static int fill_cache(const char *dest, int (*fill)(const char *into, const void *ctx, struct err *e),
                      const void *ctx, struct err *e)
{
    if (path_is_dir(dest)) return 0;
    char *tmp = xformat("%s.part-%ld", dest, (long)getpid());
    int rc = tree_remove(tmp, e) || fill(tmp, ctx, e);
    if (!rc && rename(tmp, dest) && !path_is_dir(dest))
        rc = err_set(e, "%s: cannot make: %s", dest, strerror(errno));
    tree_remove(tmp, NULL);
    free(tmp);
    return rc ? -1 : 0;
}

static int fill_archive(const char *into, const void *ctx, struct err *e)
{
    return unpack(ctx, into, e);
}

/* Source archives hold one top folder; wheels hold the tree itself. */
static char *only_folder(const char *dir)
{
    strings names = {0};
    char *found = xstrdup(dir);
    if (!dir_list(dir, &names, NULL) && names.len == 1 && strcmp(names.ptr[0], "torch") != 0 &&
        strcmp(names.ptr[0], "test") != 0) {
        char *path = path_join(dir, names.ptr[0]);
        if (path_is_dir(path)) {
            free(found);
            found = xstrdup(path);
        }
        free(path);
    }
    strings_free(&names);
    return found;
}

static int open_archive(struct source *s, const char *place, struct err *e)
{
    struct stat st;
    if (stat(place, &st)) return err_set(e, "%s: %s", place, strerror(errno));
    char *key = xformat("%s %lld %lld", place, (long long)st.st_size, (long long)st.st_mtime);
    char *dest = cache_place("archive", key);
    int rc = fill_cache(dest, fill_archive, place, e);
    if (!rc) s->folder = only_folder(dest);
    free(dest);
    free(key);
    return rc;
}

struct remote {
    const char *url, *rev;
};

static int fill_remote(const char *into, const void *ctx, struct err *e)
{
    const struct remote *r = ctx;
    const char *init[] = {"git", "init", "-q", into, NULL};
    const char *sparse[] = {"git", "-C", into, "sparse-checkout", "set", "test", "torch", NULL};
    const char *add[] = {"git", "-C", into, "remote", "add", "origin", r->url, NULL};
    const char *fetch[] = {"git",    "-C",   into,      "-c", "protocol.version=2",
                           "fetch",  "-q",   "--depth", "1",  "--filter=blob:none",
                           "origin", r->rev, NULL};
    const char *promise[] = {"git", "-C", into, "config", "remote.origin.promisor", "true", NULL};
    const char *checkout[] = {"git", "-C", into, "checkout", "-q", "FETCH_HEAD", NULL};
    char *parent = xstrndup(into, (size_t)(strrchr(into, '/') - into));
    int rc = dir_make(parent, e) || run(init, r->url, e) || run(add, r->url, e) || run(promise, r->url, e) ||
             run(sparse, r->url, e) || run(fetch, r->url, e) || run(checkout, r->url, e);
    free(parent);
    return rc;
}

static int open_remote(struct source *s, const char *url, const char *rev, struct err *e)
{
    if (!rev) return err_set(e, "%s: a git URL needs a revision: write %s#v2.7.1", url, url);
    if (*rev == '-') return err_set(e, "%s: '%s' is not a revision", url, rev);
    s->folder = cache_place("git", s->spec);
    return fill_cache(s->folder, fill_remote, &(struct remote){url, rev}, e);
}

/* ---- opening ----------------------------------------------------------------------------------------- */

static bool is_url(const char *place)
{
    if (strstr(place, "://")) return true;
    const char *colon = strchr(place, ':'), *slash = strchr(place, '/');
    return colon && colon > place && (!slash || colon < slash) && !path_exists(place);
}

static bool is_bare(const char *place)
{
    char *head = path_join(place, "HEAD"), *objects = path_join(place, "objects");
    bool bare = path_exists(head) && path_is_dir(objects);
    free(head);
    free(objects);
    return bare;
}

/* The clone whose work tree the folder is, if it is one. Asked of the folder first: starting libgit2 reads
 * certificates. */
static void open_beside(struct source *s, const char *place)
{
    char *git = path_join(place, ".git");
    if (path_exists(git)) {
        git_libgit2_init();
        if (git_repository_open(&s->beside, place)) s->beside = NULL;
    }
    free(git);
}

static int open_place(struct source *s, const char *place, const char *rev, struct err *e)
{
    if (is_url(place)) return open_remote(s, place, rev, e);
    if (!path_exists(place)) return err_set(e, "%s: no such folder, archive or git URL", place);
    if (path_is_dir(place)) {
        if (rev || is_bare(place)) return open_clone(s, place, rev ? rev : "HEAD", e);
        s->folder = xstrdup(place);
        open_beside(s, place);
        return 0;
    }
    if (!is_archive(place))
        return err_set(e, "%s: not an archive by its name (.tar, .tar.gz, .tar.xz, .zip, .whl)", place);
    if (rev) return err_set(e, "%s: an archive has no revisions: leave '#%s' away", place, rev);
    return open_archive(s, place, e);
}

struct source *source_open(const char *spec, struct err *e)
{
    struct source *s = xcalloc(1, sizeof *s);
    s->spec = xstrdup(spec);
    pthread_mutex_init(&s->lock, NULL);
    const char *hash = strrchr(spec, '#');
    char *place = hash ? xstrndup(spec, (size_t)(hash - spec)) : xstrdup(spec);
    int rc = open_place(s, place, hash ? hash + 1 : NULL, e);
    free(place);
    if (!rc) return s;
    source_close(s);
    return NULL;
}

int source_read(struct source *s, const char *path, struct buf *out, uint32_t *mode, struct err *e)
{
    buf_clear(out);
    return s->folder ? read_folder(s, path, out, mode, e) : read_clone(s, path, out, mode, e);
}

int source_read_shared(struct source *s, const char *path, struct buf *out, uint32_t *mode, struct err *e)
{
    if (s->folder) return source_read(s, path, out, mode, e);
    pthread_mutex_lock(&s->lock);
    int rc = source_read(s, path, out, mode, e);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

int source_list(struct source *s, const char *under, strings *out, struct err *e)
{
    if (s->folder) return list_folder(s->folder, under, out, e);
    struct listing l = {under, out};
    return git_tree_walk(s->tree, GIT_TREEWALK_PRE, list_entry, &l) ? git_error_to(e, s->spec) : 0;
}

int source_read_blob(struct source *s, const char *id, struct buf *out)
{
    git_repository *repo = s->repo ? s->repo : s->beside;
    git_oid oid;
    git_blob *blob = NULL;
    size_t digits = strlen(id);
    buf_clear(out);
    if (!repo || digits < 7 || digits > GIT_OID_HEXSZ || git_oid_fromstrn(&oid, id, digits)) return 0;
    if (git_blob_lookup_prefix(&blob, repo, &oid, digits)) return 0;
    buf_add(out, git_blob_rawcontent(blob), (size_t)git_blob_rawsize(blob));
    git_blob_free(blob);
    return 1;
}

const char *source_spec(const struct source *s)
{
    return s->spec;
}

void source_close(struct source *s)
{
    if (!s) return;
    git_tree_free(s->tree);
    git_repository_free(s->repo);
    git_repository_free(s->beside);
    pthread_mutex_destroy(&s->lock);
    free(s->folder);
    free(s->spec);
    free(s);
}
