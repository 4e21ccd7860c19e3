/* monitor.c - progress with rate, failures and time left. */
#include "concord/suite/monitor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { PLAIN_EVERY_MS = 30000 };

void monitor_begin(struct monitor *m, const struct suite_run *r, bool quiet, FILE *stream)
{
    const char *term = getenv("TERM");
    *m = (struct monitor){.quiet = quiet, .started = now_ms(), .stream = stream};
    m->next_line = m->started + PLAIN_EVERY_MS;
    m->terminal = !quiet && isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    for (size_t i = 0; i < r->units.len; i++) {
        const struct suite_unit *u = r->units.ptr[i];
        m->total += (int)u->cases.len;
        for (size_t k = 0; k < u->cases.len; k++) {
            m->done += u->cases.ptr[k]->state == TEST_DONE;
            m->bad += u->cases.ptr[k]->state == TEST_DONE && verdict_is_bad(u->cases.ptr[k]->verdict);
        }
    }
    m->finished_before = m->done;
}

static void clear_status(const struct monitor *m)
{
    if (m->terminal) fputs("\r\033[K", stderr);
}

void monitor_note(struct monitor *m, const char *fmt, ...)
{
    if (m->quiet) return;
    clear_status(m);
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

void monitor_added(struct monitor *m, int cases)
{
    m->total += cases;
}

json_t *monitor_json(const struct suite_case *c)
{
    char *name = suite_case_name(c);
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:f, s:i, s:I}", "name", name, "file",
                          c->unit->name, "node", c->node, "side", side_name(c->unit->side), "verdict",
                          verdict_name(c->verdict), "reason", c->reason, "ms", c->ms, "attempts", c->attempts,
                          "launches", (json_int_t)c->launches);
    if (o && c->facts) json_object_set(o, "facts", c->facts);
    free(name);
    return o;
}

void monitor_case(struct monitor *m, const struct suite_case *c)
{
    m->done++;
    bool bad = verdict_is_bad(c->verdict);
    m->bad += bad;
    if (m->stream) {
        json_t *o = monitor_json(c);
        json_dumpf(o, m->stream, JSON_COMPACT);
        fputc('\n', m->stream);
        fflush(m->stream);
        json_decref(o);
    }
    if (!bad) return;
    char *name = suite_case_name(c);
    monitor_note(m, "%s %s: %s", verdict_name(c->verdict), name, c->reason);
    free(name);
}

static void status(const struct monitor *m, int running, struct buf *b)
{
    double seconds = (double)(now_ms() - m->started) / 1000.0;
    double rate = seconds > 0 ? (m->done - m->finished_before) / seconds : 0;
    buf_addf(b, "[%d/%d] %d bad, %d running, %.0f s", m->done, m->total, m->bad, running, seconds);
    if (rate > 0) buf_addf(b, ", %.1f/s, about %.0f s left", rate, (m->total - m->done) / rate);
}

static int terminal_width(void)
{
    struct winsize w = {0};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) || w.ws_col < 20 ? 80 : w.ws_col;
}

void monitor_tick(struct monitor *m, int running)
{
    if (m->quiet || (!m->terminal && now_ms() < m->next_line)) return;
    struct buf b = BUF_INIT;
    status(m, running, &b);
    if (m->terminal)
        fprintf(stderr, "\r\033[K%.*s", terminal_width() - 1, b.ptr);
    else
        fprintf(stderr, "%s\n", b.ptr);
    fflush(stderr);
    m->next_line = now_ms() + PLAIN_EVERY_MS;
    buf_free(&b);
}

void monitor_end(struct monitor *m)
{
    clear_status(m);
    fflush(stderr);
}
