/* create.c - makes environments: whole or not at all, two at a time, one maker a name.
 *
 * All work is done in envs/.NAME.PID.tmp, uv's cache included: its files become the environment's by hard
 * link, so nothing is on the disk twice, and the folder is thrown away whatever happens. Last, work/env is
 * renamed to envs/NAME.
 */
#include "concord/env/env_internal.h"

#include "concord/env/mark.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_JOBS = 2, CHECK_MS = 10 * 60 * 1000 };

/* A wheel's files take about 2.1 times the wheel (measured 1.9 to 2.1 on torch 2.6.0 to 2.13.0). */
static uint64_t unpacked_size(const wheels *w)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < w->len; i++) bytes += w->ptr[i].size;
    return bytes / 10 * 22 + (64 << 20);
}

struct batch {
    const struct env_spec *specs;
    size_t n, next;
    const struct env_options *options;
    strings find_links;
    const char *index;
    char *uv, *envs, *default_index;
    pthread_mutex_t mutex; /* next, reserved, failed, error */
    uint64_t reserved;     /* bytes that running jobs will still write at most */
    size_t failed;
    struct err error;
};

struct job {
    struct batch *batch;
    const struct env_spec *spec;
    char *work, *folder, *site; /* folder is the environment while it is made */
    struct uv uv;
    wheels wheels;
    struct trim_result trim;
    uint64_t reserved;
    int64_t started;
};

/* ---- progress ------------------------------------------------------------------------------------------ */

static void say(const struct job *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(const struct job *j, const char *fmt, ...)
{
    if (j->batch->options->quiet) return;
    struct buf b = BUF_INIT;
    buf_addf(&b, "%-8s", j->spec->name);
    va_list ap;
    va_start(ap, fmt);
    buf_vaddf(&b, fmt, ap);
    va_end(ap);
    buf_addc(&b, '\n');
    fputs(b.ptr, stderr); /* one call a line: lines of two jobs do not mix */
    buf_free(&b);
}

/* ---- steps --------------------------------------------------------------------------------------------- */

static int reserve_disk(struct job *j, struct err *e)
{
    struct batch *b = j->batch;
    uint64_t want = unpacked_size(&j->wheels), have = 0;
    pthread_mutex_lock(&b->mutex);
    int rc = disk_free(b->envs, &have, e);
    if (!rc && have < b->reserved + want)
        rc = err_set(e,
                     "not enough disk: %.1f GB are needed under '%s', %.1f GB are free: free some, or set "
                     "CONCORD_HOME to another disk",
                     (double)(b->reserved + want) / 1e9, b->envs, (double)have / 1e9);
    if (!rc) b->reserved += want, j->reserved = want;
    pthread_mutex_unlock(&b->mutex);
    return rc;
}

static void release_disk(struct job *j)
{
    pthread_mutex_lock(&j->batch->mutex);
    j->batch->reserved -= j->reserved;
    j->reserved = 0;
    pthread_mutex_unlock(&j->batch->mutex);
}

static int choose_torch(struct job *j, struct err *e)
{
    strings want = {0};
    *vec_push(&want) = xformat("torch==%s", j->spec->torch);
    *vec_push(&want) = xformat("torch-npu==%s", j->spec->torch_npu);
    int rc = uv_resolve(&j->uv, &want, false, &j->wheels, e);
    strings_free(&want);
    return rc;
}

static int find_site(struct job *j, struct err *e)
{
    char *lib = path_join(j->folder, "lib");
    strings names = {0};
    int rc = dir_list(lib, &names, e);
    for (size_t i = 0; !rc && !j->site && i < names.len; i++)
        if (str_starts(names.ptr[i], "python3")) j->site = xformat("%s/%s/site-packages", lib, names.ptr[i]);
    if (!rc && !j->site) rc = err_set(e, "'%s' has no python3 folder: uv made no environment", lib);
    strings_free(&names);
    free(lib);
    return rc;
}

static int install_torch(struct job *j, struct err *e)
{
    if (reserve_disk(j, e)) return -1;
    uint64_t bytes = 0;
    for (size_t i = 0; i < j->wheels.len; i++) bytes += j->wheels.ptr[i].size;
    say(j, "installing torch %s and torch_npu %s (%.0f MB)", j->spec->torch, j->spec->torch_npu,
        (double)bytes / 1e6);
    int rc = uv_make_venv(&j->uv, e);
    if (!rc) rc = uv_install(&j->uv, &j->wheels, e);
    return rc ? rc : find_site(j, e);
}

/* What torch and torch_npu ask for, what their modules import without asking, and the pins. The bound on
 * setuptools is the one that torch 2.12 has; torch.utils.cpp_extension imports it on every release. */
static int install_rest(struct job *j, struct err *e)
{
    strings want = {0};
    int rc = mark_requirements(j->site, "torch", &want, e);
    if (!rc) rc = mark_requirements(j->site, "torch_npu", &want, e);
    static const char *const unasked[] = {"numpy", "pyyaml", "setuptools<82"};
    for (size_t i = 0; i < sizeof unasked / sizeof *unasked; i++) *vec_push(&want) = xstrdup(unasked[i]);
    for (size_t i = 0; i < j->spec->pins.len; i++)
        *vec_push(&want) = xformat("%s==%s", j->spec->pins.ptr[i].package, j->spec->pins.ptr[i].version);
    wheels rest = {0};
    if (!rc) rc = uv_resolve(&j->uv, &want, true, &rest, e);
    if (!rc) rc = uv_install(&j->uv, &rest, e);
    for (size_t i = 0; i < rest.len; i++) *vec_push(&j->wheels) = rest.ptr[i];
    vec_free(&rest);
    strings_free(&want);
    return rc;
}

static int trim_and_mark(struct job *j, struct err *e)
{
    char *torch = path_join(j->site, "torch");
    int rc = trim_torch(torch, j->batch->options->mode, &j->trim, e);
    if (!rc) rc = mark_torch_cpu(j->site, &j->trim, e);
    free(torch);
    return rc;
}

/* Every symbol is bound at once, so that a missing one shows here and not in somebody's run. */
static const char check_script[] =
    "import platform, torch\n"
    "x = torch.arange(16.0).reshape(4, 4).requires_grad_()\n"
    "(x @ x).sum().backward()\n"
    "assert torch.equal(x.grad, (torch.ones(4, 4) @ x.T + x.T @ torch.ones(4, 4)).detach())\n"
    "c = torch.nn.functional.conv2d(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3))\n"
    "assert c.shape == (1, 1, 2, 2) and bool((c == 9).all())\n"
    "s = torch.linalg.svd(torch.diag(torch.tensor([3.0, 1.0, 2.0]))).S\n"
    "assert torch.allclose(s, torch.tensor([3.0, 2.0, 1.0]))\n"
    "assert torch.allclose(torch.fft.ifft(torch.fft.fft(torch.arange(8.0))).real, torch.arange(8.0), "
    "atol=1e-5)\n"
    "assert not torch.cuda.is_available()\n"
    "print(platform.python_version(), torch.__version__)\n";

static int check_works(struct job *j, char **python_version, struct err *e)
{
    char *python = path_join(j->folder, "bin/python");
    const char *argv[] = {python, "-c", check_script, NULL};
    const char *env[] = {"LD_BIND_NOW=1",
                         "TORCH_DEVICE_BACKEND_AUTOLOAD=0",
                         "PYTHONPATH",
                         "PYTHONHOME",
                         "LD_LIBRARY_PATH",
                         "LD_PRELOAD",
                         NULL};
    struct proc_spec spec = {.argv = argv, .env = env, .cwd = j->work, .timeout_ms = CHECK_MS};
    struct proc_result r;
    int rc = proc_run(&spec, &r, e);
    free(python);
    if (rc) return rc;
    char version[64] = "", torch[64] = "";
    bool said = r.status == 0 && sscanf(buf_str(&r.out), "%63s %63s", version, torch) == 2;
    if (proc_interrupted) {
        rc = err_set(e, "interrupted");
    } else if (!said) {
        char *last = r.err.len ? r.err.ptr : r.out.ptr; /* of a traceback, the last line says what it was */
        for (size_t n = last ? strlen(last) : 0; n && last[n - 1] == '\n'; n--) last[n - 1] = '\0';
        char *line = last ? strrchr(last, '\n') : NULL;
        rc = err_set(e, "torch does not work in it (status %d, signal %d): %s", r.status, r.signal,
                     line   ? line + 1
                     : last ? last
                            : "it said nothing");
    }
    if (!rc) *python_version = xstrdup(version);
    proc_result_free(&r);
    return rc;
}

static int build(struct job *j, struct err *e)
{
    char *version = NULL;
    int rc = choose_torch(j, e);
    if (!rc) rc = install_torch(j, e);
    if (!rc) rc = install_rest(j, e);
    if (!rc) rc = trim_and_mark(j, e);
    if (!rc) rc = uv_check(&j->uv, e);
    if (!rc) rc = check_works(j, &version, e);
    if (!rc)
        rc =
            lock_write(j->folder, j->spec, &j->uv, version, j->batch->options->mode, &j->wheels, &j->trim, e);
    if (!rc && proc_interrupted) rc = err_set(e, "interrupted");
    free(version);
    return rc;
}

/* ---- one environment ----------------------------------------------------------------------------------- */

/* Work folders of makers that were killed: we hold the name's lock, so nobody uses them. */
static void remove_leftovers(const struct batch *b, const char *name)
{
    char *prefix = xformat(".%s.", name);
    strings names = {0};
    struct err ignored;
    if (!dir_list(b->envs, &names, &ignored)) {
        for (size_t i = 0; i < names.len; i++) {
            const char *middle = names.ptr[i] + strlen(prefix);
            bool ours = str_starts(names.ptr[i], prefix) && middle[strspn(middle, "0123456789")] == '.';
            if (!ours || !str_ends(names.ptr[i], ".tmp")) continue;
            char *path = path_join(b->envs, names.ptr[i]);
            tree_remove(path, &ignored);
            free(path);
        }
    }
    strings_free(&names);
    free(prefix);
}

static int put_in_place(struct job *j, struct err *e)
{
    char *final = path_join(j->batch->envs, j->spec->name), *old = path_join(j->work, "old");
    int rc = 0;
    if (path_exists(final) && rename(final, old)) rc = err_set(e, "cannot replace '%s'", final);
    if (!rc && rename(j->folder, final)) rc = err_set(e, "cannot rename '%s' to '%s'", j->folder, final);
    free(final);
    free(old);
    return rc;
}

static int make_locked(struct job *j, struct err *e)
{
    struct batch *b = j->batch;
    remove_leftovers(b, j->spec->name);
    j->started = now_ms();
    j->work = xformat("%s/.%s.%d.tmp", b->envs, j->spec->name, (int)getpid());
    j->folder = path_join(j->work, "env");
    char *python = NULL;
    int rc = dir_make(j->work, e);
    if (!rc) python = uv_find_python(b->uv, j->spec, e);
    if (!rc && !python) rc = -1;
    j->uv = (struct uv){.program = b->uv,
                        .python = python,
                        .work = j->work,
                        .folder = j->folder,
                        .find_links = &b->find_links,
                        .index = b->index,
                        .default_index = b->default_index,
                        .offline = b->options->offline};
    if (!rc) rc = build(j, e);
    if (!rc) rc = put_in_place(j, e);
    struct err ignored;
    tree_remove(j->work, &ignored);
    release_disk(j);
    if (!rc) say(j, "ready in %.1f s", (double)(now_ms() - j->started) / 1e3);
    free(python);
    free(j->work);
    free(j->folder);
    free(j->site);
    wheels_free(&j->wheels);
    trim_result_free(&j->trim);
    return rc;
}

static bool is_ready(const struct job *j, bool tell)
{
    struct env_info info;
    env_look(j->spec->name, j->spec, &info);
    bool ready = info.state == ENV_READY &&
                 !strcmp(info.mode ? info.mode : "", trim_mode_names[j->batch->options->mode]);
    if (tell && info.state == ENV_STALE) say(j, "stale: %s: it is made again", info.why);
    env_info_free(&info);
    return ready;
}

static int make_one(struct batch *b, const struct env_spec *spec, struct err *e)
{
    struct job j = {.batch = b, .spec = spec};
    if (!b->options->force && is_ready(&j, true)) return 0;
    char *lock = xformat("%s/.%s.lock", b->envs, spec->name);
    struct err busy;
    int fd = file_lock(lock, false, &busy), rc = 0;
    bool waited = fd < 0;
    if (waited) {
        say(&j, "waiting: %s", busy.text);
        fd = file_lock(lock, true, e);
    }
    free(lock);
    if (fd < 0) return -1;
    bool made_meanwhile = (waited || !b->options->force) && is_ready(&j, false);
    if (!made_meanwhile) rc = make_locked(&j, e);
    close(fd);
    return rc;
}

/* ---- all of them --------------------------------------------------------------------------------------- */

static void *worker(void *arg)
{
    struct batch *b = arg;
    for (;;) {
        pthread_mutex_lock(&b->mutex);
        size_t i = b->next++;
        pthread_mutex_unlock(&b->mutex);
        if (i >= b->n || proc_interrupted) return NULL;
        struct err e = {""};
        if (!make_one(b, &b->specs[i], &e)) continue;
        err_wrap(&e, "environment %s", b->specs[i].name);
        pthread_mutex_lock(&b->mutex);
        bool first = !b->failed++;
        if (first) b->error = e;
        pthread_mutex_unlock(&b->mutex);
        if (!first) err_report(&e);
    }
}

static void run_workers(struct batch *b)
{
    size_t jobs = b->options->jobs > 0 ? (size_t)b->options->jobs : DEFAULT_JOBS;
    if (jobs > b->n) jobs = b->n;
    pthread_t *threads = xcalloc(jobs, sizeof *threads);
    size_t started = 0;
    while (started + 1 < jobs && !pthread_create(&threads[started], NULL, worker, b)) started++;
    worker(b);
    for (size_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    free(threads);
}

static char *absolute(const char *path)
{
    char *real = realpath(path, NULL);
    return real ? real : xstrdup(path);
}

/* Wheel folders as given or as in CONCORD_WHEELS; each must be there. */
static int collect_find_links(struct batch *b, struct err *e)
{
    const strings *given = b->options->find_links;
    for (size_t i = 0; given && i < given->len; i++) *vec_push(&b->find_links) = absolute(given->ptr[i]);
    const char *set = getenv("CONCORD_WHEELS");
    while (set && *set && !(given && given->len)) {
        size_t n = strcspn(set, ":");
        char *one = xstrndup(set, n);
        if (n) *vec_push(&b->find_links) = absolute(one);
        free(one);
        set += n + (set[n] == ':');
    }
    for (size_t i = 0; i < b->find_links.len; i++)
        if (!path_is_dir(b->find_links.ptr[i]))
            return err_set(e, "no folder of wheels '%s'", b->find_links.ptr[i]);
    if (b->options->offline && !b->find_links.len)
        return err_set(e, "offline and no folder of wheels: name one with --find-links or in CONCORD_WHEELS");
    return 0;
}

static bool all_ready(struct batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        struct job j = {.batch = b, .spec = &b->specs[i]};
        if (b->options->force || !is_ready(&j, false)) return false;
    }
    return true;
}

int env_create(const struct env_spec *specs, size_t n, const struct env_options *o, struct err *e)
{
    struct batch b = {.specs = specs, .n = n, .options = o, .envs = envs_folder()};
    pthread_mutex_init(&b.mutex, NULL);
    const char *index = getenv("CONCORD_INDEX");
    b.index = o->index ? o->index : index && *index ? index : NULL;
    int rc = 0;
    if (!all_ready(&b)) {
        rc = collect_find_links(&b, e);
        if (!rc) rc = dir_make(b.envs, e);
        if (!rc && !(b.uv = env_find_uv(true, e))) rc = -1;
        if (!rc && !o->offline) b.default_index = uv_default_index();
        if (!rc) run_workers(&b);
        if (!rc && proc_interrupted && !b.failed) rc = err_set(e, "interrupted");
        if (b.failed) {
            *e = b.error;
            rc = -1;
        }
    }
    pthread_mutex_destroy(&b.mutex);
    strings_free(&b.find_links);
    free(b.uv);
    free(b.envs);
    free(b.default_index);
    return rc;
}

/* ---- the others ---------------------------------------------------------------------------------------- */

int env_remove(const char *name, struct err *e)
{
    char *envs = envs_folder(), *folder = path_join(envs, name), *lock = xformat("%s/.%s.lock", envs, name);
    int rc = 0, fd = -1;
    if (!*name || *name == '.' || strchr(name, '/') || !path_is_dir(folder)) {
        rc = err_set(e, "there is no environment '%s': `concord env list` names them", name);
    } else if ((fd = file_lock(lock, false, e)) < 0) {
        rc = -1;
    } else {
        char *temp = xformat("%s/.%s.%d.tmp", envs, name, (int)getpid());
        /* Moved away first: whatever happens then, no half an environment keeps the name. */
        rc = rename(folder, temp) ? err_set(e, "cannot remove '%s'", folder) : tree_remove(temp, e);
        free(temp);
        close(fd);
    }
    free(envs);
    free(folder);
    free(lock);
    return rc;
}

static int by_version(const void *a, const void *b)
{
    return version_compare(*(char *const *)a, *(char *const *)b);
}

int env_list(strings *names, struct err *e)
{
    char *envs = envs_folder();
    strings all = {0};
    int rc = path_is_dir(envs) ? dir_list(envs, &all, e) : 0;
    for (size_t i = 0; i < all.len; i++) {
        char *path = path_join(envs, all.ptr[i]);
        if (all.ptr[i][0] != '.' && path_is_dir(path)) *vec_push(names) = xstrdup(all.ptr[i]);
        free(path);
    }
    if (names->len) qsort(names->ptr, names->len, sizeof *names->ptr, by_version);
    strings_free(&all);
    free(envs);
    return rc;
}
