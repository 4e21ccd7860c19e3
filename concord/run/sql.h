/* sql.h - SQLite with our errors, for the journals. */
#ifndef CONCORD_RUN_SQL_H
#define CONCORD_RUN_SQL_H

#include "concord/base/base.h"
#include <jansson.h>
#include <sqlite3.h>

struct sql {
    sqlite3 *db;
    char *path;
    int lock; /* writer's lock, -1 for readers */
};

/* WAL, synchronous=FULL. Writers take PATH.lock (wait: queue behind the holder); the file and its folder are
 * made. The schema is created in an empty file; a file of another version is an error naming both. */
int sql_open_writer(struct sql *q, const char *path, bool wait, const char *schema, int version,
                    struct err *e);
int sql_open_reader(struct sql *q, const char *path, int version, struct err *e);
void sql_close(struct sql *q);

int sql_error(const struct sql *q, struct err *e);
int sql_exec(struct sql *q, const char *text, struct err *e);
/* Prepares (when *st is NULL) or resets, and binds: one value a letter of types: i int64_t, d double, s text
 * (NULL as
 * ""), j json_t * (NULL as ""). */
int sql_bind(struct sql *q, sqlite3_stmt **st, const char *text, struct err *e, const char *types, ...);
/* Steps a statement that gives no row; keeps it for another sql_bind. */
int sql_run(struct sql *q, sqlite3_stmt *st, struct err *e);
/* sql_bind, sql_run and finalize. */
#define sql_do(q, e, text, ...)                                                                              \
    __extension__({                                                                                          \
        sqlite3_stmt *st_ = NULL;                                                                            \
        int status_ = sql_bind(q, &st_, text, e, __VA_ARGS__);                                               \
        if (!status_) status_ = sql_run(q, st_, e);                                                          \
        sqlite3_finalize(st_);                                                                               \
        status_;                                                                                             \
    })
char *sql_text(sqlite3_stmt *st, int column);   /* owned */
json_t *sql_json(sqlite3_stmt *st, int column); /* new reference, NULL for "" */

#endif
