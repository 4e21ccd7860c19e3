/* worker.h - one warm server (harness/serve.py) as a child process: lines of JSON both ways, a process group
 * of its own. */
#ifndef CONCORD_RUN_WORKER_H
#define CONCORD_RUN_WORKER_H

#include "concord/run/probe.h"

struct worker {
    pid_t pid;         /* 0: none */
    int in, out, err;  /* its standard input, output and error; -1 when closed */
    struct buf line;   /* bytes read that are not yet a line */
    struct buf errors; /* end of its standard error */
    char *scratch;     /* its working folder, removed at the end */
};

/* Starts `prefix... python harness/serve.py`. */
int worker_start(struct worker *w, const struct device_setup *setup, const char *python, const char *harness,
                 struct err *e);
/* The same for another script of the harness, with arguments (NULL-terminated). */
int worker_start_script(struct worker *w, const struct device_setup *setup, const char *python,
                        const char *harness, const char *script, const char *const *args, struct err *e);
/* A new working folder of this process; those of processes that no longer live are removed first. Owned. */
char *worker_scratch(struct err *e);
/* Sends one line. -1 when the worker is gone. */
int worker_send(struct worker *w, const json_t *message, struct err *e);
/* Reads what is there (call when poll says so). False at the end of both streams: the worker is gone or
 * going. */
bool worker_read(struct worker *w);
/* The next complete line, NULL when there is none; a line that is no JSON object goes to errors. New
 * reference. */
json_t *worker_line(struct worker *w);
/* Ends the worker with everything it started, and reaps it. Returns the wait status of the server. */
int worker_stop(struct worker *w);
/* The line of its standard error that says why it ended, for messages. Owned. */
char *worker_last_words(const struct worker *w);

/* Makes this process the parent of what its workers leave behind, so that worker_stop finds it. */
void worker_adopt_orphans(void);

#endif
