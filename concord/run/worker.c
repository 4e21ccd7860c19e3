/* worker.c - starts, feeds, reads and ends a worker. */
#include "concord/run/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ERRORS_KEPT = 16 << 10 };

static VEC(pid_t) live; /* all workers of this process */

void worker_adopt_orphans(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* ---- starting ---------------------------------------------------------------------------------------- */

static const char *scratch_parent(void)
{
    const char *tmp = getenv("TMPDIR");
    return tmp && *tmp ? tmp : "/tmp";
}

/* Folders of processes that were killed before they could remove them. */
static void remove_stale(void)
{
    strings names = {0};
    if (dir_list(scratch_parent(), &names, NULL)) return;
    for (size_t i = 0; i < names.len; i++) {
        long pid = 0;
        char end = 0, proc[32];
        if (sscanf(names.ptr[i], "concord-%ld%c", &pid, &end) != 2 || end != '-' || pid <= 0) continue;
        snprintf(proc, sizeof proc, "/proc/%ld", pid);
        if (path_exists(proc)) continue;
        char *path = path_join(scratch_parent(), names.ptr[i]);
        tree_remove(path, NULL);
        free(path);
    }
    strings_free(&names);
}

char *worker_scratch(struct err *e)
{
    static bool swept;
    if (!swept) remove_stale();
    swept = true;
    char *path = xformat("%s/concord-%d-XXXXXX", scratch_parent(), (int)getpid());
    if (mkdtemp(path)) return path;
    err_set(e, "%s: cannot make a working folder: %s", path, strerror(errno));
    free(path);
    return NULL;
}

/* In the child, between fork and exec; concord has one thread, so setenv is safe. */
static void exec_worker(char **argv, int threads, const char *scratch, const int in[2], const int out[2],
                        const int err[2])
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    setenv("PYTHONNOUSERSITE", "1", 1);
    setenv("PYTHONUNBUFFERED", "1", 1);
    if (threads) {
        char text[16];
        snprintf(text, sizeof text, "%d", threads);
        setenv("OMP_NUM_THREADS", text, 0);
        setenv("SOFTNPU_THREADS", text, 0);
    }
    if (dup2(in[0], 0) >= 0 && dup2(out[1], 1) >= 0 && dup2(err[1], 2) >= 0 && !chdir(scratch))
        execvp(argv[0], argv);
    dprintf(2, "cannot run %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static char **make_argv(const struct device_setup *setup, const char *python, const char *script,
                        const char *const *args)
{
    VEC(char *) argv = {0};
    for (size_t i = 0; i < setup->prefix.len; i++) *vec_push(&argv) = setup->prefix.ptr[i];
    *vec_push(&argv) = (char *)python;
    *vec_push(&argv) = (char *)script;
    for (; *args; args++) *vec_push(&argv) = (char *)*args;
    *vec_push(&argv) = NULL;
    return argv.ptr;
}

static int fork_worker(struct worker *w, char **argv, int threads, struct err *e)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC) || (w->pid = fork()) < 0) {
        int failed = errno;
        int all[] = {in[0], in[1], out[0], out[1], err[0], err[1]};
        for (int i = 0; i < 6; i++)
            if (all[i] >= 0) close(all[i]);
        w->pid = 0;
        return err_set(e, "cannot start a worker: %s", strerror(failed));
    }
    if (w->pid == 0) exec_worker(argv, threads, w->scratch, in, out, err);
    *vec_push(&live) = w->pid;
    setpgid(w->pid, w->pid); /* both sides do it, so that neither has to wait for the other */
    close(in[0]);
    close(out[1]);
    close(err[1]);
    w->in = in[1];
    w->out = out[0];
    w->err = err[0];
    fcntl(w->out, F_SETFL, O_NONBLOCK);
    fcntl(w->err, F_SETFL, O_NONBLOCK);
    return 0;
}

int worker_start_script(struct worker *w, const struct device_setup *setup, const char *python,
                        const char *harness, const char *script, const char *const *args, struct err *e)
{
    *w = (struct worker){.in = -1, .out = -1, .err = -1};
    w->scratch = worker_scratch(e);
    if (!w->scratch) return -1;
    signal(SIGPIPE, SIG_IGN); /* a worker that died is seen as an error of write */
    char *path = path_join(harness, script);
    char **argv = make_argv(setup, python, path, args);
    int status = fork_worker(w, argv, setup->threads, e);
    free(argv);
    free(path);
    if (status) worker_stop(w);
    return status;
}

int worker_start(struct worker *w, const struct device_setup *setup, const char *python, const char *harness,
                 struct err *e)
{
    static const char *const none[] = {NULL};
    return worker_start_script(w, setup, python, harness, "serve.py", none, e);
}

/* ---- talking ----------------------------------------------------------------------------------------- */

int worker_send(struct worker *w, const json_t *message, struct err *e)
{
    char *text = json_dumps(message, JSON_COMPACT);
    struct buf b = BUF_INIT;
    buf_adds(&b, text);
    buf_addc(&b, '\n');
    free(text);
    size_t sent = 0;
    while (sent < b.len) {
        ssize_t n = write(w->in, b.ptr + sent, b.len - sent);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) break;
        sent += (size_t)n;
    }
    int status = sent == b.len ? 0 : err_set(e, "the worker does not take orders: %s", strerror(errno));
    buf_free(&b);
    return status;
}

static void drain(int *fd, struct buf *to)
{
    char chunk[65536];
    while (*fd >= 0) {
        ssize_t n = read(*fd, chunk, sizeof chunk);
        if (n > 0) {
            buf_add(to, chunk, (size_t)n);
        } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
            close(*fd);
            *fd = -1;
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

static void keep_end(struct buf *b, size_t limit)
{
    if (b->len <= limit) return;
    memmove(b->ptr, b->ptr + b->len - limit, limit);
    b->len = limit;
    b->ptr[limit] = '\0';
}

bool worker_read(struct worker *w)
{
    drain(&w->out, &w->line);
    drain(&w->err, &w->errors);
    keep_end(&w->errors, ERRORS_KEPT);
    return w->out >= 0;
}

json_t *worker_line(struct worker *w)
{
    for (;;) {
        char *end = w->line.len ? memchr(w->line.ptr, '\n', w->line.len) : NULL;
        if (!end) return NULL;
        size_t n = (size_t)(end - w->line.ptr);
        json_t *value = json_loadb(w->line.ptr, n, 0, NULL);
        if (!value) buf_add(&w->errors, w->line.ptr, n + 1);
        w->line.len -= n + 1;
        memmove(w->line.ptr, end + 1, w->line.len + 1);
        if (json_is_object(value)) return value;
        json_decref(value);
    }
}

static char *line_at(const char *text, const char *in)
{
    const char *start = in;
    while (start > text && start[-1] != '\n') start--;
    start += strspn(start, " ");
    size_t n = strcspn(start, "\n");
    return xstrndup(start, n > 400 ? 400 : n);
}

/* What a C++ exception or a Python one said, else the last line. */
char *worker_last_words(const struct worker *w)
{
    const char *text = buf_str(&w->errors), *found = strstr(text, "what(): "), *next = text;
    while (!strstr(text, "what(): ") && (next = strstr(next, "Error: "))) found = next++;
    if (found) return line_at(text, found);
    size_t n = strlen(text);
    while (n && strchr(" \n", text[n - 1])) n--;
    return line_at(text, text + (n ? n - 1 : 0));
}

/* ---- ending ------------------------------------------------------------------------------------------ */

static bool is_live(pid_t pid)
{
    for (size_t i = 0; i < live.len; i++)
        if (live.ptr[i] == pid) return true;
    return false;
}

static void forget(pid_t pid)
{
    for (size_t i = 0; i < live.len; i++)
        if (live.ptr[i] == pid) live.ptr[i] = live.ptr[--live.len];
}

/* Ends one generation of children that are no workers; returns how many there were. */
static int kill_children(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    struct buf b = BUF_INIT;
    int ended = 0;
    if (!file_read(path, &b, NULL)) {
        char *rest = b.ptr, *word;
        while (rest && (word = strsep(&rest, " \n"))) {
            pid_t pid = (pid_t)atoi(word);
            if (pid <= 0 || is_live(pid)) continue;
            kill(pid, SIGKILL);
            ended += waitpid(pid, NULL, 0) == pid;
        }
    }
    buf_free(&b);
    return ended;
}

/* What a worker left behind was handed to us by the kernel (worker_adopt_orphans), each generation when its
 * parent died. */
static void kill_orphans(void)
{
    enum { GENERATIONS = 100 };
    for (int i = 0; i < GENERATIONS && kill_children(); i++) continue;
}

int worker_stop(struct worker *w)
{
    int status = 0;
    if (w->pid > 0) {
        kill(-w->pid, SIGKILL);
        while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR) continue;
        forget(w->pid);
        kill_orphans();
    }
    int *fds[] = {&w->in, &w->out, &w->err};
    for (int i = 0; i < 3; i++) {
        if (*fds[i] >= 0) close(*fds[i]);
        *fds[i] = -1;
    }
    if (w->scratch) tree_remove(w->scratch, NULL);
    free(w->scratch);
    buf_free(&w->line);
    buf_free(&w->errors);
    *w = (struct worker){.in = -1, .out = -1, .err = -1};
    return status;
}
