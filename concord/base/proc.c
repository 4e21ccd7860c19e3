/* proc.c - runs a program in a process group of its own, with captured output and a time limit. */
#include "concord/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

volatile int proc_interrupted;

enum {
    GRACE_MS = 2000,    /* between TERM and KILL */
    DRAIN_MS = 500,     /* for output still in the pipes when the process is gone */
    TICK_MS = 200,      /* how late an interrupt may be seen */
    TICK_NO_PIDFD = 20, /* the same where the end cannot be polled for */
    DEFAULT_OUTPUT = 16 << 20,
};

static void on_signal(int sig)
{
    proc_interrupted = sig;
}

void proc_catch_signals(void)
{
    struct sigaction a = {.sa_handler = on_signal}; /* no SA_RESTART: waiting calls must return */
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

/* ---- the child's environment, made before fork -------------------------------------------------------- */

static bool overridden(const char *entry, const char *const *extra)
{
    size_t n = strcspn(entry, "=");
    for (; *extra; extra++)
        if (!strncmp(*extra, entry, n) && strcspn(*extra, "=") == n) return true;
    return false;
}

static char **merge_env(const char *const *extra)
{
    static const char *const none[] = {NULL};
    if (!extra) extra = none;
    VEC(char *) out = {0};
    for (char **p = environ; *p; p++)
        if (!overridden(*p, extra)) *vec_push(&out) = *p;
    for (; *extra; extra++)
        if (strchr(*extra, '=')) *vec_push(&out) = (char *)*extra;
    *vec_push(&out) = NULL;
    return out.ptr;
}

/* ---- starting ------------------------------------------------------------------------------------------ */

struct running {
    pid_t pid;
    int pidfd;           /* -1 where the kernel has none */
    struct pollfd fd[3]; /* out, err, pidfd; fd -1 once closed */
    struct buf *sink[2];
    size_t limit;
    int64_t started, deadline, kill_at; /* 0: not set */
    struct proc_result *result;
};

/* The input is a file in memory: it can be of any size, and a child that does not read it costs nothing. */
static int open_input(const struct proc_spec *s)
{
    if (!s->input) return open("/dev/null", O_RDONLY | O_CLOEXEC);
    int fd = memfd_create("input", MFD_CLOEXEC);
    size_t done = 0;
    while (fd >= 0 && done < s->input_len) {
        ssize_t n = write(fd, s->input + done, s->input_len - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            close(fd);
            return -1;
        }
        done += (size_t)n;
    }
    if (fd >= 0) lseek(fd, 0, SEEK_SET);
    return fd;
}

struct child_fds {
    int in, out, err, status; /* out and err are -1 to inherit */
};

/* Between fork and exec: only async-signal-safe calls. */
static void child_run(const struct proc_spec *s, char **env, struct child_fds fds)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* our own sudden death must not leave it behind */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    bool ok = dup2(fds.in, 0) >= 0;
    if (fds.out >= 0) ok = ok && dup2(fds.out, 1) >= 0 && dup2(fds.err, 2) >= 0;
    if (ok && s->cwd) ok = !chdir(s->cwd);
    if (ok) execvpe(s->argv[0], (char *const *)s->argv, env);
    int failed = errno;
    ssize_t n = write(fds.status, &failed, sizeof failed);
    _exit(n == sizeof failed ? 127 : 126);
}

static void close_all(const int *fd, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fd[i] >= 0) close(fd[i]);
}

/* Waits for exec to happen: the pipe closes by itself on success and carries errno on failure. */
static int exec_errno(int fd)
{
    int failed = 0;
    ssize_t n;
    while ((n = read(fd, &failed, sizeof failed)) < 0 && errno == EINTR) continue;
    return n == sizeof failed ? failed : 0;
}

static int start_failed(const struct proc_spec *s, int failed, struct err *e)
{
    if (s->cwd && !path_is_dir(s->cwd))
        return err_set(e, "cannot run '%s': no folder '%s'", s->argv[0], s->cwd);
    return err_set(e, "cannot run '%s': %s", s->argv[0], strerror(failed));
}

enum { OUT_R, OUT_W, ERR_R, ERR_W, STATUS_R, STATUS_W, IN_R, NFDS };

static int open_fds(const struct proc_spec *s, int fd[NFDS])
{
    for (int i = 0; i < NFDS; i++) fd[i] = -1;
    fd[IN_R] = open_input(s);
    if (fd[IN_R] < 0 || pipe2(fd + STATUS_R, O_CLOEXEC)) return -1;
    if (s->inherit) return 0;
    if (pipe2(fd + OUT_R, O_CLOEXEC)) return -1;
    return s->merge ? 0 : pipe2(fd + ERR_R, O_CLOEXEC);
}

static int start(const struct proc_spec *s, struct running *r, struct err *e)
{
    int fd[NFDS];
    if (open_fds(s, fd)) {
        int failed = errno;
        close_all(fd, NFDS);
        return start_failed(s, failed, e);
    }
    char **env = merge_env(s->env);
    struct child_fds child = {fd[IN_R], fd[OUT_W], s->merge ? fd[OUT_W] : fd[ERR_W], fd[STATUS_W]};
    r->pid = fork();
    if (r->pid == 0) child_run(s, env, child);
    int failed = r->pid < 0 ? errno : 0;
    free(env);
    close_all((int[]){fd[OUT_W], fd[ERR_W], fd[STATUS_W], fd[IN_R]}, 4);
    if (r->pid > 0) {
        setpgid(r->pid, r->pid); /* both sides do it, so that neither has to wait for the other */
        failed = exec_errno(fd[STATUS_R]);
        if (failed) waitpid(r->pid, NULL, 0);
    }
    close(fd[STATUS_R]);
    if (failed) {
        close_all((int[]){fd[OUT_R], fd[ERR_R]}, 2);
        return start_failed(s, failed, e);
    }
    r->pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
    int polled[3] = {fd[OUT_R], fd[ERR_R], r->pidfd};
    for (int i = 0; i < 3; i++) r->fd[i] = (struct pollfd){.fd = polled[i], .events = POLLIN};
    return 0;
}

/* ---- waiting ------------------------------------------------------------------------------------------- */

static void keep(struct running *r, struct buf *sink, const char *p, size_t n)
{
    size_t room = sink->len < r->limit ? r->limit - sink->len : 0;
    if (n > room) r->result->truncated = true;
    buf_add(sink, p, n < room ? n : room);
}

static void read_ready(struct running *r)
{
    char chunk[65536];
    for (int i = 0; i < 2; i++) {
        if (r->fd[i].fd < 0 || !r->fd[i].revents) continue;
        ssize_t n = read(r->fd[i].fd, chunk, sizeof chunk);
        if (n > 0) {
            keep(r, r->sink[i], chunk, (size_t)n);
        } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
            close(r->fd[i].fd);
            r->fd[i].fd = -1;
        }
    }
}

static bool has_ended(const struct running *r)
{
    siginfo_t info = {0};
    return !waitid(P_PID, (id_t)r->pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid == r->pid;
}

/* TERM once at the deadline or an interrupt, KILL when that did not help. */
static void enforce(struct running *r)
{
    int64_t now = now_ms();
    if (r->kill_at) {
        if (now >= r->kill_at) kill(-r->pid, SIGKILL);
        return;
    }
    bool late = r->deadline && now >= r->deadline;
    if (!late && !proc_interrupted) return;
    r->result->timed_out = late && !proc_interrupted;
    kill(-r->pid, SIGTERM);
    r->kill_at = now + GRACE_MS;
}

static int wait_ms(const struct running *r)
{
    int64_t wait = r->pidfd < 0 ? TICK_NO_PIDFD : TICK_MS;
    int64_t until = r->kill_at ? r->kill_at : r->deadline;
    if (until && until - now_ms() < wait) wait = until - now_ms();
    return wait < 0 ? 0 : (int)wait;
}

static void wait_for_end(struct running *r)
{
    while (!has_ended(r)) {
        int n = poll(r->fd, 3, wait_ms(r));
        if (n > 0) read_ready(r);
        enforce(r);
    }
}

/* The process is gone and its group killed; a member that left the group may still hold the pipes. */
static void drain(struct running *r)
{
    int64_t until = now_ms() + DRAIN_MS;
    while ((r->fd[0].fd >= 0 || r->fd[1].fd >= 0) && now_ms() < until) {
        int n = poll(r->fd, 2, (int)(until - now_ms()));
        if (n > 0) read_ready(r);
    }
    close_all((int[]){r->fd[0].fd, r->fd[1].fd, r->pidfd}, 3);
}

int proc_run(const struct proc_spec *spec, struct proc_result *result, struct err *e)
{
    *result = (struct proc_result){.status = -1};
    struct running r = {.result = result, .sink = {&result->out, &result->err}, .started = now_ms()};
    r.limit = spec->max_output ? spec->max_output : DEFAULT_OUTPUT;
    if (spec->timeout_ms) r.deadline = r.started + spec->timeout_ms;
    if (start(spec, &r, e)) return -1;
    wait_for_end(&r);
    kill(-r.pid, SIGKILL); /* before the process is reaped, while its number cannot be anyone else's */
    int status = 0;
    while (waitpid(r.pid, &status, 0) < 0 && errno == EINTR) continue;
    drain(&r);
    if (WIFEXITED(status))
        result->status = WEXITSTATUS(status);
    else
        result->signal = WTERMSIG(status);
    result->wall_ms = now_ms() - r.started;
    return 0;
}

void proc_result_free(struct proc_result *r)
{
    buf_free(&r->out);
    buf_free(&r->err);
}
