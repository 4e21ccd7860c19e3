/* store.c - the journal of suite runs in SQLite. */
#include "concord/suite/store.h"

#include <stdlib.h>
#include <string.h>

static const char schema[] =
    "CREATE TABLE run(id INTEGER PRIMARY KEY, name TEXT NOT NULL, command TEXT NOT NULL, options TEXT NOT "
    "NULL,"
    " version TEXT NOT NULL, host TEXT NOT NULL, started TEXT NOT NULL, finished TEXT NOT NULL DEFAULT '',"
    " shard TEXT NOT NULL DEFAULT '', release TEXT NOT NULL DEFAULT '', env TEXT NOT NULL DEFAULT '',"
    " lock TEXT NOT NULL DEFAULT '', kind TEXT NOT NULL DEFAULT 'none', hello_device TEXT NOT NULL DEFAULT "
    "'',"
    " hello_cpu TEXT NOT NULL DEFAULT '');"
    "CREATE TABLE unit(id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES run(id), side TEXT NOT NULL,"
    " suite TEXT NOT NULL, name TEXT NOT NULL, digest TEXT NOT NULL, spec TEXT NOT NULL, patch TEXT NOT NULL "
    "DEFAULT '',"
    " state INTEGER NOT NULL DEFAULT 0, error TEXT NOT NULL DEFAULT '', forkable INTEGER NOT NULL DEFAULT 1);"
    "CREATE INDEX unit_run ON unit(run);"
    "CREATE TABLE cases(id INTEGER PRIMARY KEY, unit INTEGER NOT NULL REFERENCES unit(id), node TEXT NOT "
    "NULL,"
    " state INTEGER NOT NULL DEFAULT 0, verdict TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '',"
    " ms REAL NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0, lost INTEGER NOT NULL DEFAULT 0,"
    " launches INTEGER NOT NULL DEFAULT 0, facts TEXT NOT NULL DEFAULT '');"
    "CREATE INDEX cases_unit ON cases(unit);"
    "CREATE TABLE output(id INTEGER NOT NULL REFERENCES cases(id), attempt INTEGER NOT NULL, output TEXT NOT "
    "NULL,"
    " stack TEXT NOT NULL, trace TEXT NOT NULL, PRIMARY KEY(id, attempt));"
    "CREATE TABLE collection(key TEXT PRIMARY KEY, nodes TEXT NOT NULL);";

/* ---- places ------------------------------------------------------------------------------------------ */

char *store_folder(void)
{
    char *home = concord_home();
    char *folder = path_join(home, "journal/tests");
    free(home);
    return folder;
}

char *store_path(const char *name)
{
    char *folder = store_folder();
    char *path = xformat("%s/%s.db", folder, name);
    free(folder);
    return path;
}

int store_open(struct store *s, const char *path, bool wait, struct err *e)
{
    *s = (struct store){0};
    return sql_open_writer(&s->sql, path, wait, schema, STORE_VERSION, e);
}

int store_open_readonly(struct store *s, const char *path, struct err *e)
{
    *s = (struct store){0};
    return sql_open_reader(&s->sql, path, STORE_VERSION, e);
}

void store_close(struct store *s)
{
    sqlite3_finalize(s->update);
    sqlite3_finalize(s->output);
    sql_close(&s->sql);
    *s = (struct store){.sql = {.lock = -1}};
}

/* ---- transitions ------------------------------------------------------------------------------------- */

static int transaction(struct store *s, struct err *e)
{
    if (s->open) return 0;
    if (sql_exec(&s->sql, "BEGIN IMMEDIATE", e)) return -1;
    s->open = true;
    return 0;
}

int store_commit(struct store *s, struct err *e)
{
    if (!s->open) return 0;
    s->open = false;
    if (!sql_exec(&s->sql, "COMMIT", e)) return 0;
    sqlite3_exec(s->sql.db, "ROLLBACK", NULL, NULL, NULL);
    return -1;
}

int store_begin(struct store *s, struct suite_run *r, struct err *e)
{
    char now[32];
    now_iso(now);
    free(r->started);
    r->started = xstrdup(now);
    if (transaction(s, e)) return -1;
    if (sql_do(&s->sql, e,
               "INSERT INTO run(name, command, options, version, host, started, shard, release, env, lock)"
               " VALUES(?,?,?,?,?,?,?,?,?,?)",
               "ssssjsssss", r->name, r->command, r->options, CONCORD_VERSION, r->host, r->started, r->shard,
               r->release, r->env, r->lock))
        return -1;
    r->id = sqlite3_last_insert_rowid(s->sql.db);
    int status = 0;
    for (size_t i = 0; !status && i < r->units.len; i++) status = store_unit(s, r, r->units.ptr[i], e);
    return status;
}

int store_run(struct store *s, const struct suite_run *r, struct err *e)
{
    if (transaction(s, e)) return -1;
    return sql_do(&s->sql, e, "UPDATE run SET finished=?, kind=?, hello_device=?, hello_cpu=? WHERE id=?",
                  "ssjji", r->finished, device_kind_name(r->kind), r->hello[SIDE_DEVICE], r->hello[SIDE_CPU],
                  r->id);
}

static int insert_unit(struct store *s, const struct suite_run *r, struct suite_unit *u, struct err *e)
{
    if (sql_do(&s->sql, e,
               "INSERT INTO unit(run, side, suite, name, digest, spec, patch) VALUES(?,?,?,?,?,?,?)",
               "issssjj", r->id, side_name(u->side), u->suite, u->name, u->digest, u->spec, u->patch))
        return -1;
    u->id = sqlite3_last_insert_rowid(s->sql.db);
    return 0;
}

int store_unit(struct store *s, const struct suite_run *r, struct suite_unit *u, struct err *e)
{
    if (transaction(s, e)) return -1;
    if (!u->id) return insert_unit(s, r, u, e);
    return sql_do(&s->sql, e, "UPDATE unit SET state=?, error=?, forkable=? WHERE id=?", "isii",
                  (int64_t)u->state, u->error, (int64_t)u->forkable, u->id);
}

int store_new_case(struct store *s, struct suite_case *c, struct err *e)
{
    if (transaction(s, e) ||
        sql_do(&s->sql, e, "INSERT INTO cases(unit, node) VALUES(?,?)", "is", c->unit->id, c->node))
        return -1;
    c->id = sqlite3_last_insert_rowid(s->sql.db);
    return 0;
}

int store_case(struct store *s, const struct suite_case *c, struct err *e)
{
    if (transaction(s, e)) return -1;
    const char *verdict = c->state == TEST_DONE ? verdict_name(c->verdict) : "";
    if (sql_bind(&s->sql, &s->update,
                 "UPDATE cases SET state=?, verdict=?, reason=?, ms=?, attempts=?, lost=?, launches=?, "
                 "facts=? WHERE id=?",
                 e, "issdiiiji", (int64_t)c->state, verdict, c->reason, c->ms, (int64_t)c->attempts,
                 (int64_t)c->lost, c->launches, c->facts, c->id))
        return -1;
    return sql_run(&s->sql, s->update, e);
}

static bool empty(const char *text)
{
    return !text || !*text;
}

int store_output(struct store *s, const struct suite_case *c, struct err *e)
{
    if (empty(c->output) && empty(c->stack) && empty(c->trace)) return 0;
    if (transaction(s, e)) return -1;
    if (sql_bind(&s->sql, &s->output,
                 "INSERT OR REPLACE INTO output(id, attempt, output, stack, trace) VALUES(?,?,?,?,?)", e,
                 "iisss", c->id, (int64_t)c->attempts, c->output, c->stack, c->trace))
        return -1;
    return sql_run(&s->sql, s->output, e);
}

/* ---- reading ----------------------------------------------------------------------------------------- */

int store_last(struct store *s, int64_t *run, struct err *e)
{
    sqlite3_stmt *st = NULL;
    if (sql_bind(&s->sql, &st, "SELECT coalesce(max(id), 0) FROM run", e, "")) return -1;
    int status = sqlite3_step(st) == SQLITE_ROW ? 0 : sql_error(&s->sql, e);
    *run = status ? 0 : sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return status;
}

typedef void row_reader(sqlite3_stmt *st, struct suite_run *r);

static int read_rows(struct store *s, const char *text, row_reader *read, struct suite_run *r, struct err *e)
{
    sqlite3_stmt *st = NULL;
    if (sql_bind(&s->sql, &st, text, e, "i", r->id)) return -1;
    int rc;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) read(st, r);
    int status = rc == SQLITE_DONE ? 0 : sql_error(&s->sql, e);
    sqlite3_finalize(st);
    return status;
}

static void read_run(sqlite3_stmt *st, struct suite_run *r)
{
    char **texts[] = {&r->name,     &r->command, &r->options, &r->version, &r->started,
                      &r->finished, &r->shard,   &r->release, &r->env,     &r->lock};
    int n = sizeof texts / sizeof *texts;
    for (int i = 0; i < n; i++) *texts[i] = sql_text(st, i);
    char *kind = sql_text(st, n);
    r->kind = device_kind_parse(kind);
    free(kind);
    r->host = sql_json(st, n + 1);
    r->hello[SIDE_DEVICE] = sql_json(st, n + 2);
    r->hello[SIDE_CPU] = sql_json(st, n + 3);
}

static void read_unit(sqlite3_stmt *st, struct suite_run *r)
{
    struct suite_unit *u = suite_unit_new(r);
    char *side = sql_text(st, 0);
    u->side = strcmp(side, side_name(SIDE_CPU)) ? SIDE_DEVICE : SIDE_CPU;
    free(side);
    u->suite = sql_text(st, 1);
    u->name = sql_text(st, 2);
    u->digest = sql_text(st, 3);
    u->error = sql_text(st, 4);
    u->spec = sql_json(st, 5);
    u->patch = sql_json(st, 6);
    u->state = (enum unit_state)sqlite3_column_int(st, 7);
    u->forkable = sqlite3_column_int(st, 8);
    u->id = sqlite3_column_int64(st, 9);
}

/* Rows come in the order of the units, which is the order of their ids. */
static void read_case(sqlite3_stmt *st, struct suite_run *r)
{
    int64_t unit = sqlite3_column_int64(st, 0);
    size_t low = 0, high = r->units.len;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        *(r->units.ptr[middle]->id <= unit ? &low : &high) = middle;
    }
    struct suite_case *c = suite_case_new(r->units.ptr[low], (const char *)sqlite3_column_text(st, 1));
    c->state = (enum test_state)sqlite3_column_int(st, 2);
    char *verdict = sql_text(st, 3);
    c->verdict = *verdict ? verdict_parse(verdict) : VERDICT_NOT_RUN;
    free(verdict);
    free(c->reason);
    c->reason = sql_text(st, 4);
    c->ms = sqlite3_column_double(st, 5);
    c->attempts = sqlite3_column_int(st, 6);
    c->lost = sqlite3_column_int(st, 7);
    c->launches = sqlite3_column_int64(st, 8);
    c->facts = sql_json(st, 9);
    c->id = sqlite3_column_int64(st, 10);
}

int store_load(struct store *s, int64_t run, struct suite_run *out, struct err *e)
{
    static const struct {
        const char *text;
        row_reader *read;
    } parts[] = {
        {"SELECT name, command, options, version, started, finished, shard, release, env, lock, kind, host, "
         "hello_device,"
         " hello_cpu FROM run WHERE id=?",
         read_run},
        {"SELECT side, suite, name, digest, error, spec, patch, state, forkable, id FROM unit WHERE run=? "
         "ORDER BY id",
         read_unit},
        {"SELECT unit, node, cases.state, verdict, reason, ms, attempts, lost, launches, facts, cases.id "
         "FROM cases"
         " JOIN unit ON unit.id=cases.unit WHERE run=? ORDER BY cases.id",
         read_case},
    };
    *out = (struct suite_run){.id = run};
    int status = 0;
    for (size_t i = 0; !status && i < sizeof parts / sizeof *parts; i++) {
        status = read_rows(s, parts[i].text, parts[i].read, out, e);
        if (!status && !out->name) status = err_set(e, "%s: no run %lld", s->sql.path, (long long)run);
    }
    if (status) suite_run_free(out);
    return status;
}

void store_replan(struct suite_run *r)
{
    for (size_t i = 0; i < r->units.len; i++) {
        struct suite_unit *u = r->units.ptr[i];
        for (size_t k = 0; k < u->cases.len; k++)
            if (u->cases.ptr[k]->state == TEST_RUNNING) u->cases.ptr[k]->state = TEST_PLANNED;
    }
}

int store_read_output(struct store *s, int64_t case_id, store_output_reader *read, void *context,
                      struct err *e)
{
    sqlite3_stmt *st = NULL;
    if (sql_bind(&s->sql, &st, "SELECT attempt, output, stack, trace FROM output WHERE id=? ORDER BY attempt",
                 e, "i", case_id))
        return -1;
    int rc;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW)
        read(context, sqlite3_column_int(st, 0), (const char *)sqlite3_column_text(st, 1),
             (const char *)sqlite3_column_text(st, 2), (const char *)sqlite3_column_text(st, 3));
    int status = rc == SQLITE_DONE ? 0 : sql_error(&s->sql, e);
    sqlite3_finalize(st);
    return status;
}

int store_estimates(struct store *s, struct suite_run *r, struct err *e)
{
    sqlite3_stmt *st = NULL;
    if (sql_bind(&s->sql, &st,
                 "SELECT unit.name, side, sum(ms) FROM cases JOIN unit ON unit.id=cases.unit WHERE run<>? "
                 "AND cases.state=2"
                 " GROUP BY unit.id ORDER BY unit.id",
                 e, "i", r->id))
        return -1;
    struct map times = {0};
    while (sqlite3_step(st) == SQLITE_ROW) {
        char *key = xformat("%s %s", sqlite3_column_text(st, 1), sqlite3_column_text(st, 0));
        double **slot = (double **)map_put(&times, key);
        if (!*slot) *slot = xcalloc(1, sizeof **slot);
        **slot = sqlite3_column_double(st, 2);
        free(key);
    }
    sqlite3_finalize(st);
    for (size_t i = 0; i < r->units.len; i++) {
        struct suite_unit *u = r->units.ptr[i];
        char *key = xformat("%s %s", side_name(u->side), u->name);
        const double *ms = map_get(&times, key);
        if (ms) u->estimate_ms = *ms;
        free(key);
    }
    map_free(&times, free);
    return 0;
}

/* ---- collection -------------------------------------------------------------------------------------- */

int store_cache_put(struct store *s, const char *key, const struct suite_unit *u, struct err *e)
{
    json_t *nodes = json_array();
    for (size_t i = 0; i < u->cases.len; i++)
        json_array_append_new(nodes, json_string(u->cases.ptr[i]->node));
    int status = transaction(s, e);
    if (!status)
        status =
            sql_do(&s->sql, e, "INSERT OR REPLACE INTO collection(key, nodes) VALUES(?,?)", "sj", key, nodes);
    json_decref(nodes);
    return status;
}

json_t *store_cache_get(struct store *s, const char *key)
{
    sqlite3_stmt *st = NULL;
    json_t *nodes = NULL;
    if (!sql_bind(&s->sql, &st, "SELECT nodes FROM collection WHERE key=?", NULL, "s", key) &&
        sqlite3_step(st) == SQLITE_ROW)
        nodes = sql_json(st, 0);
    sqlite3_finalize(st);
    return nodes;
}
