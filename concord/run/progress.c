/* progress.c - progress on a terminal or in plain lines. */
#include "concord/run/progress.h"
#include "concord/base/base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void progress_begin(struct progress *p, const struct run_record *r, bool quiet)
{
    const char *term = getenv("TERM");
    *p = (struct progress){.quiet = quiet, .total = (int)r->cases.len, .started = now_ms()};
    p->terminal = !quiet && isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    for (size_t i = 0; i < r->cases.len; i++) p->done += r->cases.ptr[i].state == CASE_DONE;
}

static void clear_status(const struct progress *p)
{
    if (p->terminal) fputs("\r\033[K", stderr);
}

void progress_note(struct progress *p, const char *fmt, ...)
{
    if (p->quiet) return;
    clear_status(p);
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

static int terminal_width(void)
{
    struct winsize w = {0};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) || w.ws_col < 20 ? 80 : w.ws_col;
}

static const char *short_api(const char *api)
{
    const char *dot = strrchr(api, '.');
    return dot ? dot + 1 : api;
}

void progress_running(struct progress *p, const struct case_record *c)
{
    if (!p->terminal) return;
    struct buf b = BUF_INIT;
    buf_addf(&b, "[%d/%d] %d not passed, %lld s  %s %s::%s", p->done, p->total, p->bad,
             (long long)((now_ms() - p->started) / 1000), c->release, short_api(c->api), c->name);
    fprintf(stderr, "\r\033[K%.*s", terminal_width() - 1, b.ptr);
    fflush(stderr);
    buf_free(&b);
}

void progress_done(struct progress *p, const struct case_record *c)
{
    p->done++;
    if (c->verdict == VERDICT_PASSED) return;
    p->bad += c->verdict != VERDICT_SKIPPED;
    progress_note(p, "%s %s %s::%s: %s", verdict_name(c->verdict), c->release, c->api, c->name, c->reason);
}

void progress_end(struct progress *p)
{
    clear_status(p);
    fflush(stderr);
}
