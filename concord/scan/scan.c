/* scan.c - files to facts to call sites to tests; a tree, several files at a time. */
#include "concord/scan/index.h"
#include "concord/scan/match.h"
#include "concord/scan/outline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_THREADS = 64, MAX_ROUNDS = 4, FEW_APIS = 8 /* more words than that blank little */ };

static const char helper_folder[] = "torch/testing/_internal";

/* ---- one file ------------------------------------------------------------------------------------------ */

void scan_source(const char *path, const char *text, size_t len, const struct scan_api *apis, size_t napis,
                 struct scan_file *out)
{
    *out = (struct scan_file){.path = path};
    struct py_file *f = py_parse(path, text, len);
    facts_extract(&out->facts, f);
    py_free(f);
    if (*out->facts.note) out->note = out->facts.note;
    struct modules *modules = modules_open(NULL, NULL);
    struct matcher *m = matcher_new(apis, napis, modules);
    hits found = {0};
    matcher_hits(m, &out->facts, (struct file_module){0}, &found);
    cover_file(out, &found, false);
    vec_free(&found);
    matcher_free(m);
    modules_close(modules);
}

void scan_file_free(struct scan_file *f)
{
    for (size_t i = 0; i < f->tests.len; i++) {
        vec_free(&f->tests.ptr[i].rows);
        free(f->tests.ptr[i].path);
    }
    vec_free(&f->sites);
    vec_free(&f->tests);
    facts_free(&f->facts);
    *f = (struct scan_file){0};
}

/* ---- trees --------------------------------------------------------------------------------------------- */

static int list_python(const char *root, const char *rel, strings *out, struct err *e)
{
    char *dir = path_join(root, rel);
    strings names = {0};
    int rc = dir_list(dir, &names, e);
    for (size_t i = 0; !rc && i < names.len; i++) {
        const char *name = names.ptr[i];
        char *below = *rel ? path_join(rel, name) : xstrdup(name);
        bool python = str_ends(name, ".py");
        char *full = python ? NULL : path_join(root, below);
        if (python)
            *vec_push(out) = xstrdup(below);
        else if (name[0] != '.' && !strchr(name, '.') && path_is_dir(full))
            rc = list_python(root, below, out, e);
        free(full);
        free(below);
    }
    strings_free(&names);
    free(dir);
    return rc;
}

struct tree { /* files of one folder */
    char *root;
    strings paths; /* relative to root */
    struct scan_file *files;
    bool helpers;
};
struct job {
    const struct scan_spec *spec;
    struct index *index;
    struct matcher *matcher;
    bool whole;             /* every file is read whole */
    char *key;              /* what facts are kept under */
    strings words, methods; /* that files are looked through for; see matcher_words */
    size_t old_words;       /* of them, known in the round before */
    struct tree *tree;      /* that is being worked on */
    void (*step)(struct job *j, size_t i, struct index_stats *stats, struct err *e);
    int threads;
    atomic_size_t next;
    atomic_uint failed;
    pthread_mutex_t lock;
    struct index_stats stats;
    struct err error; /* of the first file that could not be read */
};

static void make_facts(void *arg, const char *path, char *text, size_t len, struct facts *out)
{
    struct job *j = arg;
    *out = (struct facts){.strings = xcalloc(1, 1), .nstrings = 1};
    out->note = out->strings;
    outline_skips skips = {0};
    if (!j->whole && !outline_keep(text, len, &j->words, &j->methods, &skips)) return;
    struct py_file *f = py_parse_without(path, text, len, skips.ptr, skips.len);
    free(out->strings);
    facts_extract(out, f);
    py_free(f);
    vec_free(&skips);
}

/* Of a file that was read before: whether the words added since make a difference. */
static bool has_new_word(struct job *j, const char *path)
{
    struct buf text = BUF_INIT;
    bool has =
        !file_read(path, &text, NULL) &&
        outline_has_word(buf_str(&text), text.len, j->words.ptr + j->old_words, j->words.len - j->old_words);
    buf_free(&text);
    return has;
}

static void load_step(struct job *j, size_t i, struct index_stats *stats, struct err *e)
{
    struct scan_file *f = &j->tree->files[i];
    char *full = path_join(j->tree->root, j->tree->paths.ptr[i]);
    if (f->facts.strings && !has_new_word(j, full)) {
        free(full);
        return;
    }
    facts_free(&f->facts);
    f->path = j->tree->paths.ptr[i];
    if (index_facts(j->index, full, j->key, make_facts, j, &f->facts, stats, e)) {
        pthread_mutex_lock(&j->lock);
        if (!atomic_fetch_add(&j->failed, 1)) j->error = *e;
        pthread_mutex_unlock(&j->lock);
    } else if (*f->facts.note) {
        f->note = f->facts.note;
    }
    free(full);
}

static char *module_name(const char *path)
{
    char *name = xstrndup(path, strlen(path) - strlen(".py"));
    for (char *c = name; *c; c++)
        if (*c == '/') *c = '.';
    if (str_ends(name, ".__init__")) name[strlen(name) - strlen(".__init__")] = 0;
    return name;
}

static struct file_module module_of(const char *name, const char *path)
{
    return (struct file_module){name, str_ends(path, "/__init__.py")};
}

static void cover_step(struct job *j, size_t i, struct index_stats *stats, struct err *e)
{
    (void)stats, (void)e;
    hits found = {0};
    char *name = j->tree->helpers ? module_name(j->tree->paths.ptr[i]) : NULL;
    matcher_hits(j->matcher, &j->tree->files[i].facts, module_of(name, j->tree->paths.ptr[i]), &found);
    free(name);
    cover_file(&j->tree->files[i], &found, false);
    vec_free(&found);
    vec_free(&j->tree->files[i].facts.sites);
}

static void load_and_cover_step(struct job *j, size_t i, struct index_stats *stats, struct err *e)
{
    load_step(j, i, stats, e);
    if (j->tree->files[i].facts.strings) cover_step(j, i, stats, e);
}

static void *worker(void *arg)
{
    struct job *j = arg;
    struct index_stats stats = {0};
    struct err e;
    size_t i;
    while ((i = atomic_fetch_add(&j->next, 1)) < j->tree->paths.len) j->step(j, i, &stats, &e);
    pthread_mutex_lock(&j->lock);
    j->stats.read += stats.read;
    j->stats.made += stats.made;
    j->stats.reused += stats.reused;
    j->stats.bytes += stats.bytes;
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

static void run_step(struct job *j, struct tree *t,
                     void (*step)(struct job *, size_t, struct index_stats *, struct err *))
{
    pthread_t thread[MAX_THREADS];
    int started = 0;
    j->tree = t;
    j->step = step;
    j->next = 0;
    while (started < j->threads - 1 && !pthread_create(&thread[started], NULL, worker, j)) started++;
    worker(j);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

/* What is parsed depends on the words alone, so they are the key. */
static void set_words(struct job *j)
{
    j->old_words = j->words.len; /* new ones come last */
    strings_free(&j->words);
    strings_free(&j->methods);
    free(j->key);
    matcher_words(j->matcher, &j->words, &j->methods);
    if (j->whole) {
        j->key = xstrdup("full");
        return;
    }
    struct buf b = BUF_INIT;
    char hex[65];
    for (size_t i = 0; i < j->words.len; i++) buf_addf(&b, "%s ", j->words.ptr[i]);
    for (size_t i = 0; i < j->methods.len; i++) buf_addf(&b, ".%s ", j->methods.ptr[i]);
    sha256_hex(buf_str(&b), b.len, hex);
    j->key = xformat("words:%.16s", hex);
    buf_free(&b);
}

/* The parts of torch.testing._internal that every test stands on: that assertEqual compares with
 * torch.isclose makes no test a test of torch.isclose. They are not looked into. */
static bool is_infrastructure(const char *path)
{
    static const char *const names[] = {"common_utils.",
                                        "common_device_type.",
                                        "common_dtype.",
                                        "common_cuda.",
                                        "inductor_utils.",
                                        "common_mkldnn.",
                                        "common_methods_invocations.",
                                        "common_modules.",
                                        "common_optimizers.",
                                        "logging_utils.",
                                        "opinfo/",
                                        "generated/",
                                        "composite_compliance."};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_starts(path, names[i])) return true;
    return false;
}

/* Helpers are learned before the tests are read: what they are called is looked for as well. A helper may
 * reach the API through another module's helper, hence the rounds. */
static void learn_helpers(struct job *j, struct tree *t)
{
    bool new = true;
    for (int round = 0; new &&round < MAX_ROUNDS; round++) {
        set_words(j);
        if (!round || !j->whole) run_step(j, t, load_step);
        new = false;
        for (size_t i = 0; i < t->paths.len; i++) {
            hits found = {0};
            char *module = module_name(t->paths.ptr[i]);
            if (t->files[i].facts.strings)
                matcher_hits(j->matcher, &t->files[i].facts, module_of(module, t->paths.ptr[i]), &found);
            new |= matcher_learn(j->matcher, module, &t->files[i].facts, &found);
            free(module);
            vec_free(&found);
        }
    }
    set_words(j);
}

static void drop_infrastructure(strings *paths)
{
    size_t kept = 0, n = strlen(helper_folder) + 1;
    for (size_t i = 0; i < paths->len; i++) {
        if (is_infrastructure(paths->ptr[i] + n))
            free(paths->ptr[i]);
        else
            paths->ptr[kept++] = paths->ptr[i];
    }
    paths->len = kept;
}

static int open_tests(struct tree *t, const char *root, struct err *e)
{
    *t = (struct tree){.root = xstrdup(root)};
    if (!path_is_dir(root))
        return err_set(e, "%s: no such folder: give the root of an upstream source tree", root);
    int rc = list_python(root, "", &t->paths, e);
    t->files = xcalloc(t->paths.len + 1, sizeof *t->files);
    return rc;
}

/* The API's own package (torch/utils/data), or module where it has none. Owned, relative to source. */
static char *home_of(const char *source, const char *api)
{
    size_t n = 0;
    char *best = NULL;
    for (int parts = 0; parts < 3 && api[n]; parts++) {
        n += strcspn(api + n, ".");
        if (parts) {
            char *rel = xstrndup(api, n);
            for (char *c = rel; *c; c++)
                if (*c == '.') *c = '/';
            char *folder = path_join(source, rel), *file = xformat("%s.py", folder),
                 *module = xformat("%s.py", rel);
            char *found = path_is_dir(folder) ? rel : path_exists(file) ? module : NULL;
            if (found) {
                free(best);
                best = xstrdup(found);
            }
            free(rel);
            free(folder);
            free(file);
            free(module);
        }
        n += api[n] == '.';
    }
    return best;
}

static int add_homes(struct tree *t, const struct scan_api *apis, size_t napis, struct err *e)
{
    struct map seen = {0};
    int rc = 0;
    for (size_t i = 0; !rc && i < napis; i++) {
        char *home = home_of(t->root, apis[i].name);
        void **slot = home ? map_put(&seen, home) : NULL;
        if (slot && !*slot) {
            *slot = t;
            if (str_ends(home, ".py"))
                *vec_push(&t->paths) = xstrdup(home);
            else if (!str_starts(home, "torch/testing"))
                rc = list_python(t->root, home, &t->paths, e);
        }
        free(home);
    }
    map_free(&seen, NULL);
    return rc;
}

static int open_helpers(struct tree *t, const struct scan_spec *spec, const struct scan_api *apis,
                        size_t napis, struct err *e)
{
    *t = (struct tree){.root = xstrdup(spec->source ? spec->source : ""), .helpers = true};
    char *folder = path_join(t->root, helper_folder);
    int rc = 0;
    if (spec->source && path_is_dir(folder)) {
        rc = list_python(t->root, helper_folder, &t->paths, e);
        drop_infrastructure(&t->paths);
        if (!rc && spec->deep) rc = add_homes(t, apis, napis, e);
    }
    free(folder);
    t->files = xcalloc(t->paths.len + 1, sizeof *t->files);
    return rc;
}

/* Moves what was found into the result; the rest is freed. */
static void collect(struct tree *t, const char *prefix, struct scan_result *out)
{
    for (size_t i = 0; i < t->paths.len; i++) {
        struct scan_file *f = &t->files[i];
        if (!f->sites.len && !f->tests.len && !f->note) {
            scan_file_free(f);
            continue;
        }
        f->path = *prefix ? xformat("%s%s", prefix, t->paths.ptr[i]) : t->paths.ptr[i];
        if (!*prefix) t->paths.ptr[i] = NULL;
        for (size_t k = 0; k < f->tests.len; k++) f->tests.ptr[k].file = f->path;
        *vec_push(&out->files) = *f;
    }
}

static void close_tree(struct tree *t)
{
    free(t->files);
    free(t->root);
    strings_free(&t->paths);
}

static int scan_trees(struct job *j, struct tree *tests, struct tree *helpers, struct scan_result *out,
                      struct err *e)
{
    learn_helpers(j, helpers);
    if (j->spec->helpers) run_step(j, helpers, cover_step);
    run_step(j, tests, load_and_cover_step);
    *out = (struct scan_result){.nfiles = (uint32_t)(tests->paths.len + helpers->paths.len),
                                .nread = j->stats.read,
                                .nparsed = j->stats.made,
                                .bytes = j->stats.bytes};
    if (!j->spec->helpers) {
        for (size_t i = 0; i < helpers->paths.len; i++) scan_file_free(&helpers->files[i]);
    } else {
        collect(helpers, "../", out);
    }
    collect(tests, "", out);
    if (!j->failed) return 0;
    scan_result_free(out);
    *e = j->error;
    return -1;
}

static struct index *open_index(const char *path, char **warning)
{
    struct err e;
    struct index *x = path ? index_open(path, &e) : NULL;
    if (path && !x) *warning = xformat("%s: scanning without an index", e.text);
    if (x && *index_warning(x)) *warning = xstrdup(index_warning(x));
    return x;
}

int scan_run(const struct scan_spec *spec, const struct scan_api *apis, size_t napis, struct scan_result *out,
             struct err *e)
{
    *out = (struct scan_result){0};
    char *warning = NULL;
    struct tree tests = {0}, helpers = {0};
    int rc = open_tests(&tests, spec->tests, e);
    if (!rc) rc = open_helpers(&helpers, spec, apis, napis, e);
    if (!rc) {
        struct job j = {.spec = spec, .threads = spec->threads, .whole = spec->whole || napis > FEW_APIS};
        for (size_t i = 0; i < napis; i++) j.whole |= apis[i].operator_ != NULL; /* no word tells of a + b */
        if (j.threads <= 0) j.threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
        if (j.threads > MAX_THREADS) j.threads = MAX_THREADS;
        pthread_mutex_init(&j.lock, NULL);
        j.index = open_index(spec->index, &warning);
        struct modules *modules = modules_open(spec->source, j.index);
        j.matcher = matcher_new(apis, napis, modules);
        rc = scan_trees(&j, &tests, &helpers, out, e);
        matcher_free(j.matcher);
        modules_close(modules);
        index_close(j.index);
        strings_free(&j.words);
        strings_free(&j.methods);
        free(j.key);
        pthread_mutex_destroy(&j.lock);
    }
    out->warning = warning;
    close_tree(&tests);
    close_tree(&helpers);
    return rc;
}

int scan_tree(const char *root, const struct scan_api *apis, size_t napis, int threads,
              struct scan_result *out, struct err *e)
{
    char *source = path_join(root, "..");
    struct scan_spec spec = {.tests = root, .source = source, .threads = threads};
    int rc = scan_run(&spec, apis, napis, out, e);
    free(source);
    return rc;
}

void scan_result_free(struct scan_result *r)
{
    for (size_t i = 0; i < r->files.len; i++) {
        char *path = (char *)r->files.ptr[i].path;
        scan_file_free(&r->files.ptr[i]);
        free(path);
    }
    vec_free(&r->files);
    free(r->warning);
    r->warning = NULL;
}
