/* link.c - the socket that units and slots connect to, and the lines that come and go on it. */
#include "concord/suite/private.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int link_open(struct hub *h)
{
    h->listener = -1;
    h->scratch = worker_scratch(h->e);
    if (!h->scratch) return -1;
    h->socket = path_join(h->scratch, "socket");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(h->socket) >= sizeof a.sun_path)
        return err_set(h->e, "%s: too long for a socket: set TMPDIR to a shorter folder", h->socket);
    strcpy(a.sun_path, h->socket);
    h->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (h->listener < 0 || bind(h->listener, (struct sockaddr *)&a, sizeof a) || listen(h->listener, 128))
        return err_set(h->e, "%s: %s", h->socket, strerror(errno));
    return 0;
}

void link_close(struct hub *h)
{
    if (h->listener >= 0) close(h->listener);
    for (size_t i = 0; i < h->visitors.len; i++) {
        close(h->visitors.ptr[i].fd);
        buf_free(&h->visitors.ptr[i].in);
    }
    for (size_t i = 0; i < h->outbox.len; i++) json_decref(h->outbox.ptr[i].value);
    vec_free(&h->visitors);
    vec_free(&h->outbox);
    if (h->scratch) tree_remove(h->scratch, NULL);
    free(h->scratch);
    free(h->socket);
}

/* ---- reading ------------------------------------------------------------------------------------------ */

/* Takes what is there; closes the descriptor at the end. */
static void fill(int *fd, struct buf *in)
{
    char chunk[65536];
    while (*fd >= 0) {
        ssize_t n = recv(*fd, chunk, sizeof chunk, MSG_DONTWAIT);
        if (n > 0) {
            buf_add(in, chunk, (size_t)n);
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else if (n < 0 && errno == EAGAIN) {
            return;
        } else {
            close(*fd);
            *fd = -1;
        }
    }
}

static void accept_all(struct hub *h)
{
    int fd;
    while ((fd = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        *vec_push(&h->visitors) = (struct visitor){.fd = fd};
}

struct watched {
    struct pollfd *p;
    nfds_t n;
};

static void watch(struct watched *w, int fd)
{
    if (fd >= 0) w->p[w->n++] = (struct pollfd){fd, POLLIN, 0};
}

void link_poll(struct hub *h, int64_t wait_ms)
{
    size_t most = 1 + 2 * h->zygotes.len + h->openings.len + h->slots.len + h->visitors.len;
    struct watched w = {.p = xcalloc(most, sizeof(struct pollfd))};
    watch(&w, h->listener);
    for (size_t i = 0; i < h->zygotes.len; i++) {
        if (!h->zygotes.ptr[i]->active) continue;
        watch(&w, h->zygotes.ptr[i]->worker.out);
        watch(&w, h->zygotes.ptr[i]->worker.err);
    }
    for (size_t i = 0; i < h->openings.len; i++) watch(&w, h->openings.ptr[i]->fd);
    for (size_t i = 0; i < h->slots.len; i++) watch(&w, h->slots.ptr[i]->fd);
    for (size_t i = 0; i < h->visitors.len; i++) watch(&w, h->visitors.ptr[i].fd);
    poll(w.p, w.n, (int)wait_ms);
    free(w.p);
    accept_all(h);
    for (size_t i = 0; i < h->openings.len; i++) fill(&h->openings.ptr[i]->fd, &h->openings.ptr[i]->in);
    for (size_t i = 0; i < h->slots.len; i++) fill(&h->slots.ptr[i]->fd, &h->slots.ptr[i]->in);
    for (size_t i = 0; i < h->visitors.len; i++) fill(&h->visitors.ptr[i].fd, &h->visitors.ptr[i].in);
}

json_t *link_line(struct buf *in)
{
    char *end;
    while (in->len && (end = memchr(in->ptr, '\n', in->len))) {
        size_t n = (size_t)(end - in->ptr);
        json_t *value = json_loadb(in->ptr, n, JSON_ALLOW_NUL, NULL);
        in->len -= n + 1;
        memmove(in->ptr, end + 1, in->len + 1);
        if (json_is_object(value)) return value;
        json_decref(value);
    }
    return NULL;
}

/* ---- writing ------------------------------------------------------------------------------------------ */

void link_send(struct hub *h, int *fd, json_t *value)
{
    *vec_push(&h->outbox) = (struct message){.fd = fd, .value = value};
}

void link_send_zygote(struct hub *h, struct zygote *z, json_t *value)
{
    *vec_push(&h->outbox) = (struct message){.zygote = z, .value = value};
}

static void send_line(int fd, const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    size_t n = strlen(text), sent = 0;
    text[n] = '\n';
    while (sent <= n) {
        ssize_t k = send(fd, text + sent, n + 1 - sent, MSG_NOSIGNAL);
        if (k < 0 && errno != EINTR) break; /* its end is seen when it is read */
        if (k > 0) sent += (size_t)k;
    }
    free(text);
}

void link_flush(struct hub *h)
{
    for (size_t i = 0; i < h->outbox.len; i++) {
        struct message *m = &h->outbox.ptr[i];
        if (m->zygote && m->zygote->active)
            worker_send(&m->zygote->worker, m->value, NULL); /* its end is seen when it is read */
        else if (m->fd && *m->fd >= 0)
            send_line(*m->fd, m->value);
        json_decref(m->value);
    }
    h->outbox.len = 0;
}

void link_forget(struct hub *h, const int *fd)
{
    for (size_t i = 0; i < h->outbox.len; i++)
        if (h->outbox.ptr[i].fd == fd) h->outbox.ptr[i].fd = NULL;
}
