/* sql.c - opening, binding and stepping. */
#include "concord/run/sql.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int sql_error(const struct sql *q, struct err *e)
{
    int code = sqlite3_errcode(q->db);
    if (code == SQLITE_FULL)
        return err_set(
            e, "%s: the disk is full: free some space and go on with --resume; what was reported is kept",
            q->path);
    if (code == SQLITE_READONLY || code == SQLITE_CANTOPEN)
        return err_set(
            e, "%s: cannot be written (%s): mend that and go on with --resume; what was reported is kept",
            q->path, sqlite3_errmsg(q->db));
    return err_set(e, "%s: %s", q->path, sqlite3_errmsg(q->db));
}

int sql_exec(struct sql *q, const char *text, struct err *e)
{
    return sqlite3_exec(q->db, text, NULL, NULL, NULL) ? sql_error(q, e) : 0;
}

static void bind_json(sqlite3_stmt *st, int i, const json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    sqlite3_bind_text(st, i, text ? text : "", -1, SQLITE_TRANSIENT);
    free(text);
}

static void bind_all(sqlite3_stmt *st, const char *types, va_list ap)
{
    for (int i = 1; *types; types++, i++) {
        if (*types == 'i') {
            sqlite3_bind_int64(st, i, va_arg(ap, int64_t));
        } else if (*types == 'd') {
            sqlite3_bind_double(st, i, va_arg(ap, double));
        } else if (*types == 'j') {
            bind_json(st, i, va_arg(ap, const json_t *));
        } else {
            const char *text = va_arg(ap, const char *);
            sqlite3_bind_text(st, i, text ? text : "", -1, SQLITE_TRANSIENT);
        }
    }
}

int sql_bind(struct sql *q, sqlite3_stmt **st, const char *text, struct err *e, const char *types, ...)
{
    if (*st)
        sqlite3_reset(*st);
    else if (sqlite3_prepare_v2(q->db, text, -1, st, NULL))
        return sql_error(q, e);
    va_list ap;
    va_start(ap, types);
    bind_all(*st, types, ap);
    va_end(ap);
    return 0;
}

int sql_run(struct sql *q, sqlite3_stmt *st, struct err *e)
{
    int status = sqlite3_step(st) == SQLITE_DONE ? 0 : sql_error(q, e);
    sqlite3_reset(st);
    return status;
}

char *sql_text(sqlite3_stmt *st, int column)
{
    const char *text = (const char *)sqlite3_column_text(st, column);
    return xstrdup(text ? text : "");
}

json_t *sql_json(sqlite3_stmt *st, int column)
{
    const char *text = (const char *)sqlite3_column_text(st, column);
    return text && *text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
}

static int version_of(struct sql *q, int *version, struct err *e)
{
    sqlite3_stmt *st = NULL;
    if (sql_bind(q, &st, "PRAGMA user_version", e, "")) return -1;
    bool row = sqlite3_step(st) == SQLITE_ROW;
    *version = row ? sqlite3_column_int(st, 0) : -1;
    int status = row ? 0 : sql_error(q, e);
    sqlite3_finalize(st);
    return status;
}

static int check_version(struct sql *q, const char *schema, int version, struct err *e)
{
    int found;
    if (version_of(q, &found, e)) return -1;
    if (found == version) return 0;
    if (found == 0 && schema) {
        char *text = xformat("BEGIN IMMEDIATE; %s PRAGMA user_version=%d; COMMIT;", schema, version);
        int status = sql_exec(q, text, e);
        free(text);
        return status;
    }
    return err_set(
        e, "%s: journal of version %d, this concord reads %d: move the file away or use the matching concord",
        q->path, found, version);
}

static int make_folder(const char *path, struct err *e)
{
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return 0;
    char *folder = xstrndup(path, (size_t)(slash - path));
    int status = dir_make(folder, e);
    free(folder);
    return status;
}

int sql_open_writer(struct sql *q, const char *path, bool wait, const char *schema, int version,
                    struct err *e)
{
    *q = (struct sql){.path = xstrdup(path), .lock = -1};
    char *lock = xformat("%s.lock", path);
    int status = make_folder(path, e);
    if (!status && (q->lock = file_lock(lock, wait, e)) < 0)
        status =
            err_wrap(e, "another run writes this journal (--wait queues behind it, --journal takes another)");
    free(lock);
    if (!status && sqlite3_open_v2(path, &q->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL))
        status = sql_error(q, e);
    if (!status) sqlite3_busy_timeout(q->db, 5000);
    if (!status) status = sql_exec(q, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;", e);
    if (!status) status = check_version(q, schema, version, e);
    if (status) sql_close(q);
    return status;
}

int sql_open_reader(struct sql *q, const char *path, int version, struct err *e)
{
    *q = (struct sql){.path = xstrdup(path), .lock = -1};
    int status = path_exists(path) ? 0 : err_set(e, "%s: no journal there: `concord runs` lists them", path);
    /* Read-write, because a reader of a WAL whose writer was killed must be able to recover it. */
    if (!status && sqlite3_open_v2(path, &q->db, SQLITE_OPEN_READWRITE, NULL)) status = sql_error(q, e);
    if (!status) sqlite3_busy_timeout(q->db, 5000);
    if (!status) status = check_version(q, NULL, version, e);
    if (status) sql_close(q);
    return status;
}

void sql_close(struct sql *q)
{
    sqlite3_close_v2(q->db);
    if (q->lock >= 0) close(q->lock);
    free(q->path);
    *q = (struct sql){.lock = -1};
}
