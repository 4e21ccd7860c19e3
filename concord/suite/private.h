/* private.h - what the scheduler's files share: processes, connections, orders. */
#ifndef CONCORD_SUITE_PRIVATE_H
#define CONCORD_SUITE_PRIVATE_H

#include "concord/run/worker.h"
#include "concord/suite/sched.h"

struct zygote {
    enum side side;
    int index; /* of its device; 0 when there is one process */
    struct worker worker;
    bool active, greeted;
    int restarts; /* since something was done */
    int64_t deadline;
};

enum opening_phase { OPENING, READY };

/* A unit with a process. */
struct opening {
    struct suite_unit *unit;
    struct zygote *zygote;
    int64_t number; /* what the process calls itself; never used twice */
    int fd;         /* -1 until it connected */
    struct buf in;
    enum opening_phase phase;
    bool late, solo; /* solo: one slot, because several were there when its process died */
    int slots;
    int64_t deadline, opened; /* deadline: of collection */
    double done_ms;           /* of cases done in this opening, for how many orders a slot gets at a time */
    int done;
    size_t cursor; /* no case before it is planned */
};

struct order {
    VEC(struct suite_case *) cases; /* those without an answer yet are from `next` on */
    size_t next;
    bool group;
};

struct slot {
    int64_t number;
    struct opening *opening;
    int fd; /* -1 until it connected */
    pid_t pid;
    struct buf in;
    VEC(struct order) orders; /* given, oldest first */
    int64_t deadline;
};

struct visitor { /* connected, not yet known as what */
    int fd;
    struct buf in;
};

struct message {
    int *fd; /* where to; looked at when sent, so that one that closed is left out */
    struct zygote *zygote;
    json_t *value;
};

struct hub {
    struct sched *s;
    struct err *e;
    int listener;
    char *scratch, *socket, *cgroup; /* cgroup "" where none can be made */
    int64_t next_number;
    VEC(struct zygote *) zygotes;
    VEC(struct opening *) openings;
    VEC(struct slot *) slots;
    VEC(struct visitor) visitors;
    VEC(struct message) outbox;         /* after the commit */
    VEC(struct suite_case *) concluded; /* told after the commit */
    VEC(struct suite_unit *) waiting;   /* units not open, longest last */
    struct map lost_units;              /* unit's id: deaths of its process before its cases were known */
    bool stop, any_bad;
    int64_t started;
};

/* ---- link.c: sockets -------------------------------------------------------------------------------------
 */

int link_open(struct hub *h);
void link_close(struct hub *h);
/* Waits a moment and takes what came: fills the input buffers, accepts visitors. */
void link_poll(struct hub *h, int64_t wait_ms);
/* The next whole line of a buffer, NULL when there is none. New reference. */
json_t *link_line(struct buf *in);
/* Queues a line for after the commit. Takes over value. */
void link_send(struct hub *h, int *fd, json_t *value);
void link_send_zygote(struct hub *h, struct zygote *z, json_t *value);
void link_flush(struct hub *h);
/* Drops queued messages to a descriptor that is going away. */
void link_forget(struct hub *h, const int *fd);

/* ---- units.c: units, their processes, collection
 * ------------------------------------------------------------ */

bool unit_all_done(const struct suite_unit *u);
void unit_wait(struct hub *h, struct suite_unit *u);
void unit_open(struct hub *h, struct suite_unit *u, struct zygote *z);
void slot_drop(struct hub *h, struct slot *s);
void unit_drop(struct hub *h, struct opening *o);
int unit_finish(struct hub *h, struct opening *o);
int slot_lose(struct hub *h, struct slot *s, const char *what);
void unit_kill(struct hub *h, struct opening *o);
int unit_not_collected(struct hub *h, struct opening *o, enum verdict v, const char *why);
int unit_gone(struct hub *h, struct opening *o, int wait_status);
int unit_line(struct hub *h, struct opening *o, const json_t *message);
struct zygote *zygote_free(struct hub *h, enum side side);

/* ---- cgroup.c --------------------------------------------------------------------------------------------
 */

/* A folder of the pids controller that this process may fill with groups, "" where there is none. Owned. */
char *cgroup_make(void);
void cgroup_remove(const char *folder);

/* ---- results.c: what becomes of a case -------------------------------------------------------------------
 */

/* An answer of a slot for a case that ran at the given position of its order. */
int result_answer(struct hub *h, struct slot *slot, struct suite_case *c, size_t position,
                  const json_t *answer);
/* The case was running when the process that runs tests ended. */
int result_lost(struct hub *h, struct suite_case *c, const char *what);
/* A verdict without an answer. Takes over reason. */
int result_conclude(struct hub *h, struct suite_case *c, enum verdict v, char *owned_reason);
int result_replan(struct hub *h, struct suite_case *c);
/* A case that stands for something about the unit as a whole, e.g. "[collection]". Takes over reason. */
int result_pseudo(struct hub *h, struct suite_unit *u, const char *node, enum verdict v, char *owned_reason,
                  const char *trace);
/* After loading: what the case's stored facts say about attempts before this process. */
void result_restore(struct suite_case *c);

#endif
