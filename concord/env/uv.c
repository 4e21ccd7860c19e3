/* uv.c - the uv program: finding or fetching it, and what concord asks of it. */
#include "concord/env/env_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char oldest_uv[] = "0.8.0"; /* writes and installs pylock.toml */

enum { QUICK_MS = 60 * 1000, DOWNLOAD_MS = 60 * 60 * 1000 };

/* ---- messages ------------------------------------------------------------------------------------------ */

/* What uv says in words of its own, and what it means here. First match wins; order from special to general.
 */
static const struct diagnosis {
    const char *sign, *meaning, *mend;
} diagnoses[] = {
    {"Hash mismatch", "a wheel is not the one that was locked", "fetch it again, or remove the damaged file"},
    {"no wheels with a matching", "no wheel for this Python or machine",
     "install another Python and name it in CONCORD_PYTHON"},
    {"there is no version of", "no such version on the package index or in the wheel folders",
     "check the release and its pins"},
    {"was not found in the package registry", "not on the package index", "check the release and its pins"},
    {"was not found in the provided package locations", "not in the wheel folders",
     "put the wheel there, or leave out --offline"},
    {"Failed to fetch", "the package index cannot be reached",
     "check network and proxy, or give folders of wheels with --find-links and --offline"},
    {"error sending request", "the package index cannot be reached",
     "check network and proxy, or give folders of wheels with --find-links and --offline"},
    {"No space left", "the disk is full", "free some space or set CONCORD_HOME to another disk"},
    {"Failed to read metadata from", "a wheel is damaged", "fetch it again"},
    {"Failed to extract", "a wheel is damaged", "fetch it again"},
    {"Failed to download", "a wheel could not be downloaded", "check the network and try again"},
    {"Network connectivity is disabled", "a package is in none of the wheel folders",
     "put its wheel there, or leave out --offline"},
};
enum { NDIAGNOSES = sizeof diagnoses / sizeof *diagnoses };

/* uv's report as one line: its hints and its indentation go. */
static char *flatten(const char *text)
{
    struct buf b = BUF_INIT;
    while (*text && !str_starts(text, "\nhint")) {
        bool space = *text == ' ' || *text == '\n' || *text == '\t';
        if (!space)
            buf_addc(&b, *text);
        else if (b.len && b.ptr[b.len - 1] != ' ')
            buf_addc(&b, ' ');
        text++;
    }
    while (b.len && b.ptr[b.len - 1] == ' ') b.ptr[--b.len] = '\0';
    if (b.len > 400) memcpy(b.ptr + 397, "...", 4);
    return buf_take(&b);
}

static int explain(const struct proc_result *r, struct err *e)
{
    if (proc_interrupted) return err_set(e, "interrupted");
    if (r->timed_out) return err_set(e, "uv took longer than an hour: check the network");
    char *said = flatten(buf_str(&r->err));
    const char *rest = str_starts(said, "error: ") ? said + 7 : said;
    int i = 0;
    while (i < NDIAGNOSES && !strstr(said, diagnoses[i].sign)) i++;
    if (i == NDIAGNOSES)
        err_set(e, "uv failed (status %d): %s", r->status, rest);
    else
        err_set(e, "%s: %s (uv: %s)", diagnoses[i].meaning, diagnoses[i].mend, rest);
    free(said);
    return -1;
}

/* ---- running it ---------------------------------------------------------------------------------------- */

/* The user's own settings of uv (index, proxy) hold; what would leak into the environment does not. */
static int run(const char *const *argv, const char *cwd, const char *cache, int64_t timeout, struct buf *out,
               struct err *e)
{
    char *cache_dir = cache ? xformat("UV_CACHE_DIR=%s", cache) : NULL;
    const char *env[] = {"UV_LINK_MODE=hardlink",
                         "UV_PYTHON_DOWNLOADS=never",
                         "UV_NO_PROGRESS=1",
                         "NO_COLOR=1",
                         "VIRTUAL_ENV",
                         "CONDA_PREFIX",
                         "PYTHONPATH",
                         "PYTHONHOME",
                         "UV_PYTHON",
                         "UV_REQUIRE_HASHES",
                         "UV_PROJECT_ENVIRONMENT",
                         cache_dir,
                         NULL};
    struct proc_spec spec = {.argv = argv, .env = env, .cwd = cwd, .timeout_ms = timeout};
    struct proc_result r;
    int rc = proc_run(&spec, &r, e);
    free(cache_dir);
    if (rc) return rc;
    if (r.status)
        rc = explain(&r, e);
    else if (out)
        buf_add(out, buf_str(&r.out), r.out.len);
    proc_result_free(&r);
    return rc;
}

static int run_in(const struct uv *u, const char *const *argv, int64_t timeout, struct buf *out,
                  struct err *e)
{
    char *cache = path_join(u->work, "cache");
    int rc = run(argv, u->work, cache, timeout, out, e);
    free(cache);
    return rc;
}

/* ---- finding it ---------------------------------------------------------------------------------------- */

static bool is_usable(const char *program)
{
    const char *argv[] = {program, "--version", NULL};
    struct buf out = BUF_INIT;
    struct err ignored;
    bool ok = !run(argv, NULL, NULL, QUICK_MS, &out, &ignored) && str_starts(buf_str(&out), "uv ") &&
              version_compare(out.ptr + 3, oldest_uv) >= 0;
    buf_free(&out);
    return ok;
}

static bool succeeds(const char *const *argv, struct buf *why)
{
    struct proc_spec spec = {.argv = argv, .timeout_ms = 10 * (int64_t)QUICK_MS, .merge = true};
    struct proc_result r;
    struct err e;
    bool ok = !proc_run(&spec, &r, &e) && r.status == 0;
    buf_clear(why);
    if (!ok) buf_adds(why, r.out.len ? r.out.ptr : e.text);
    proc_result_free(&r);
    return ok;
}

/* A virtual environment of its own, or where Debian's python3-venv is missing pip's --target: both end in
 * bin/uv. */
static int fetch_uv(const char *folder, struct err *e)
{
    char *temp = xformat("%s.%d.tmp", folder, (int)getpid()), *pip = path_join(temp, "bin/pip");
    const char *venv[] = {"python3", "-m", "venv", temp, NULL};
    const char *install[] = {pip, "install", "--quiet", "--disable-pip-version-check", "uv", NULL};
    const char *target[] = {"python3",  "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                            "--target", temp, "uv",  NULL};
    struct buf why = BUF_INIT;
    struct err ignored;
    bool ok = succeeds(venv, &why) && succeeds(install, &why);
    if (!ok && !proc_interrupted) {
        tree_remove(temp, &ignored);
        ok = succeeds(target, &why);
    }
    int rc = 0;
    if (ok && rename(temp, folder)) rc = err_set(e, "cannot rename '%s' to '%s'", temp, folder);
    if (!ok) {
        char *said = flatten(buf_str(&why));
        rc = err_set(
            e, "uv is missing and python3 could not fetch it: install uv, or python3 with venv and pip (%s)",
            said);
        free(said);
    }
    tree_remove(temp, &ignored);
    buf_free(&why);
    free(temp);
    free(pip);
    return rc;
}

static char *install_uv(const char *home, struct err *e)
{
    char *folder = path_join(home, "uv"), *lock = path_join(home, "uv.lock"),
         *program = path_join(folder, "bin/uv");
    int fd = file_lock(lock, true, e), rc = fd < 0 ? -1 : 0;
    if (!rc && !is_usable(program)) {
        rc = tree_remove(folder, e);
        if (!rc) rc = fetch_uv(folder, e);
        if (!rc && !is_usable(program)) rc = err_set(e, "'%s' does not run: remove '%s'", program, folder);
    }
    if (fd >= 0) close(fd);
    free(folder);
    free(lock);
    if (!rc) return program;
    free(program);
    return NULL;
}

char *env_find_uv(bool may_install, struct err *e)
{
    const char *set = getenv("CONCORD_UV");
    if (set && *set) {
        if (is_usable(set)) return xstrdup(set);
        err_set(e, "CONCORD_UV: '%s' is not uv %s or newer", set, oldest_uv);
        return NULL;
    }
    if (is_usable("uv")) return xstrdup("uv");
    char *home = concord_home(), *program = path_join(home, "uv/bin/uv");
    if (!is_usable(program)) {
        free(program);
        program = may_install ? install_uv(home, e) : NULL;
        if (!may_install)
            err_set(e, "uv %s or newer is not in PATH: `concord env create` fetches it", oldest_uv);
    }
    free(home);
    return program;
}

/* ---- the package index --------------------------------------------------------------------------------- */

static bool uv_is_configured(void)
{
    static const char *const variables[] = {"UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_CONFIG_FILE"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i])) return true;
    const char *home = getenv("HOME"), *xdg = getenv("XDG_CONFIG_HOME");
    char *config = xdg && *xdg ? xstrdup(xdg) : xformat("%s/.config", home ? home : "");
    char *file = path_join(config, "uv/uv.toml");
    bool found = path_exists(file) || path_exists("/etc/uv/uv.toml");
    free(config);
    free(file);
    return found;
}

char *uv_default_index(void)
{
    if (uv_is_configured()) return NULL;
    const char *set = getenv("PIP_INDEX_URL");
    if (set && *set) return xstrdup(set);
    const char *argv[] = {"python3", "-m", "pip", "config", "get", "global.index-url", NULL};
    struct proc_spec spec = {.argv = argv, .timeout_ms = QUICK_MS};
    struct proc_result r;
    struct err ignored;
    if (proc_run(&spec, &r, &ignored)) return NULL;
    size_t n = strcspn(buf_str(&r.out), "\n");
    char *url = r.status == 0 && n ? xstrndup(buf_str(&r.out), n) : NULL;
    proc_result_free(&r);
    return url;
}

/* ---- Python -------------------------------------------------------------------------------------------- */

static char *find_python(const char *uv, const char *request)
{
    const char *argv[] = {uv, "python", "find", "--system", "--no-project", request, NULL};
    struct buf out = BUF_INIT;
    struct err ignored;
    int rc = run(argv, "/", NULL, QUICK_MS, &out, &ignored);
    while (out.len && out.ptr[out.len - 1] == '\n') out.ptr[--out.len] = '\0';
    if (!rc && out.len) return buf_take(&out);
    buf_free(&out);
    return NULL;
}

char *uv_find_python(const char *uv, const struct env_spec *s, struct err *e)
{
    const char *set = getenv("CONCORD_PYTHON");
    if (set && *set) {
        char *python = find_python(uv, set);
        if (!python) err_set(e, "CONCORD_PYTHON: no Python '%s'", set);
        return python;
    }
    int oldest, newest;
    env_python_range(s, &oldest, &newest);
    static const int order[] = {11, 10, 12, 13, 14}; /* most releases have wheels for the first */
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        if (order[i] < oldest || order[i] > newest) continue;
        char request[16];
        snprintf(request, sizeof request, "3.%d", order[i]);
        char *python = find_python(uv, request);
        if (python) return python;
    }
    err_set(e,
            "no Python 3.%d to 3.%d on this machine, and torch_npu %s has wheels for no other: install one, "
            "or name one in CONCORD_PYTHON",
            oldest, newest, s->torch_npu);
    return NULL;
}

int uv_make_venv(const struct uv *u, struct err *e)
{
    const char *argv[] = {u->program, "venv",    "--quiet", "--no-project", "--relocatable", "--python",
                          u->python,  u->folder, NULL};
    return run_in(u, argv, QUICK_MS, NULL, e);
}

/* ---- wheels -------------------------------------------------------------------------------------------- */

typedef VEC(const char *) arguments;

static void add_sources(const struct uv *u, arguments *a)
{
    for (size_t i = 0; u->find_links && i < u->find_links->len; i++) {
        *vec_push(a) = "--find-links";
        *vec_push(a) = u->find_links->ptr[i];
    }
    if (u->offline) *vec_push(a) = "--no-index";
    if (u->offline) *vec_push(a) = "--offline";
    if (!u->offline && u->default_index) {
        *vec_push(a) = "--default-index";
        *vec_push(a) = u->default_index;
    }
    if (!u->offline && u->index) {
        *vec_push(a) = "--index";
        *vec_push(a) = u->index;
    }
}

static void add_all(arguments *a, const char *const *words)
{
    while (*words) *vec_push(a) = *words++;
}

int uv_resolve(const struct uv *u, const strings *requirements, bool with_dependencies, wheels *out,
               struct err *e)
{
    char *file = path_join(u->work, "requirements.in");
    struct buf text = BUF_INIT, lock = BUF_INIT;
    for (size_t i = 0; i < requirements->len; i++) buf_addf(&text, "%s\n", requirements->ptr[i]);
    int rc = file_write(file, buf_str(&text), text.len, 0, e);
    const char *fixed[] = {u->program, "pip",     "compile",    "--quiet", "--format", "pylock.toml",
                           "--python", u->python, "--no-build", file,      NULL};
    arguments argv = {0};
    add_all(&argv, fixed);
    if (!with_dependencies) *vec_push(&argv) = "--no-deps";
    add_sources(u, &argv);
    *vec_push(&argv) = NULL;
    if (!rc) rc = run_in(u, argv.ptr, DOWNLOAD_MS, &lock, e);
    if (!rc) rc = pylock_parse(buf_str(&lock), out, e);
    vec_free(&argv);
    buf_free(&text);
    buf_free(&lock);
    free(file);
    return rc;
}

int uv_install(const struct uv *u, const wheels *w, struct err *e)
{
    char *file = path_join(u->work, "pylock.toml"), *python = path_join(u->folder, "bin/python");
    struct buf text = BUF_INIT;
    pylock_print(w, &text);
    int rc = file_write(file, buf_str(&text), text.len, 0, e);
    const char *fixed[] = {u->program, "pip",  "install", "--quiet", "--no-deps", "--no-build",
                           "--python", python, "-r",      file,      NULL};
    arguments argv = {0};
    add_all(&argv, fixed);
    if (u->offline) *vec_push(&argv) = "--offline";
    *vec_push(&argv) = NULL;
    if (!rc) rc = run_in(u, argv.ptr, DOWNLOAD_MS, NULL, e);
    vec_free(&argv);
    buf_free(&text);
    free(file);
    free(python);
    return rc;
}

int uv_check(const struct uv *u, struct err *e)
{
    char *python = path_join(u->folder, "bin/python");
    const char *argv[] = {u->program, "pip", "check", "--quiet", "--python", python, NULL};
    int rc = run_in(u, argv, QUICK_MS, NULL, e);
    free(python);
    return rc;
}
