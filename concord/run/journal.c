/* journal.c - the run's journal in SQLite. */
#include "concord/run/journal.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

struct journal {
    sqlite3 *db;
    char *path;
    int lock; /* -1 for readers */
};

static const char schema[] =
    "CREATE TABLE run(id INTEGER PRIMARY KEY, campaign TEXT NOT NULL, path TEXT NOT NULL, digest TEXT NOT "
    "NULL,"
    " choice TEXT NOT NULL, tolerances TEXT NOT NULL, command TEXT NOT NULL, version TEXT NOT NULL, host "
    "TEXT NOT NULL,"
    " apis TEXT NOT NULL, started TEXT NOT NULL, finished TEXT NOT NULL DEFAULT '');"
    "CREATE TABLE release(run INTEGER NOT NULL REFERENCES run(id), position INTEGER NOT NULL, name TEXT NOT "
    "NULL,"
    " torch TEXT NOT NULL, branch TEXT NOT NULL, env TEXT NOT NULL DEFAULT '', lock TEXT NOT NULL DEFAULT '',"
    " kind TEXT NOT NULL DEFAULT 'none', device TEXT NOT NULL DEFAULT '', hello TEXT NOT NULL DEFAULT '',"
    " error TEXT NOT NULL DEFAULT '', PRIMARY KEY(run, name));"
    "CREATE TABLE cases(id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES run(id), release TEXT NOT "
    "NULL,"
    " api TEXT NOT NULL, name TEXT NOT NULL, passes TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'planned',"
    " attempts INTEGER NOT NULL DEFAULT 0, verdict TEXT NOT NULL DEFAULT 'NOT RUN', reason TEXT NOT NULL "
    "DEFAULT '',"
    " started TEXT NOT NULL DEFAULT '', ms REAL NOT NULL DEFAULT 0, launches INTEGER NOT NULL DEFAULT 0,"
    " kind TEXT NOT NULL DEFAULT 'none', facts TEXT NOT NULL DEFAULT '', output TEXT NOT NULL DEFAULT '',"
    " stack TEXT NOT NULL DEFAULT '', UNIQUE(run, release, api, name));";

static const char *const state_names[] = {
    [CASE_PLANNED] = "planned", [CASE_RUNNING] = "running", [CASE_DONE] = "done"};
_Static_assert(sizeof state_names / sizeof *state_names == CASE_STATES, "one name a state");

/* ---- places ------------------------------------------------------------------------------------------ */

static char *journal_folder(void)
{
    char *home = concord_home();
    char *folder = path_join(home, "journal");
    free(home);
    return folder;
}

char *journal_path(const char *campaign)
{
    char *folder = journal_folder();
    char *path = xformat("%s/%s.db", folder, campaign);
    free(folder);
    return path;
}

/* The write-ahead file changes with every transition, the database only at checkpoints. */
static int64_t last_written(const char *path)
{
    char *wal = xformat("%s-wal", path);
    struct stat a = {0}, b = {0};
    int64_t newest = 0;
    if (!stat(path, &a)) newest = (int64_t)a.st_mtim.tv_sec * 1000000000 + a.st_mtim.tv_nsec;
    if (!stat(wal, &b)) {
        int64_t t = (int64_t)b.st_mtim.tv_sec * 1000000000 + b.st_mtim.tv_nsec;
        if (t > newest) newest = t;
    }
    free(wal);
    return newest;
}

char *journal_newest(void)
{
    char *folder = journal_folder(), *best = NULL;
    strings names = {0};
    int64_t best_time = -1;
    if (!dir_list(folder, &names, NULL)) {
        for (size_t i = 0; i < names.len; i++) {
            if (!str_ends(names.ptr[i], ".db")) continue;
            char *path = path_join(folder, names.ptr[i]);
            int64_t t = last_written(path);
            if (t > best_time) {
                free(best);
                best = path;
                best_time = t;
            } else {
                free(path);
            }
        }
    }
    strings_free(&names);
    free(folder);
    return best;
}

/* ---- SQLite, shortened ------------------------------------------------------------------------------- */

static int sql_error(const struct journal *j, struct err *e)
{
    return err_set(e, "%s: %s", j->path, sqlite3_errmsg(j->db));
}

static int execute(struct journal *j, const char *sql, struct err *e)
{
    return sqlite3_exec(j->db, sql, NULL, NULL, NULL) ? sql_error(j, e) : 0;
}

/* One value a letter of types: i int64_t, d double, s text (NULL as ""). */
static void bind_values(sqlite3_stmt *st, const char *types, va_list ap)
{
    for (int i = 1; *types; types++, i++) {
        if (*types == 'i') {
            sqlite3_bind_int64(st, i, va_arg(ap, int64_t));
        } else if (*types == 'd') {
            sqlite3_bind_double(st, i, va_arg(ap, double));
        } else {
            const char *text = va_arg(ap, const char *);
            sqlite3_bind_text(st, i, text ? text : "", -1, SQLITE_TRANSIENT);
        }
    }
}

static int prepare(struct journal *j, sqlite3_stmt **st, struct err *e, const char *sql, const char *types,
                   ...)
{
    if (sqlite3_prepare_v2(j->db, sql, -1, st, NULL)) return sql_error(j, e);
    va_list ap;
    va_start(ap, types);
    bind_values(*st, types, ap);
    va_end(ap);
    return 0;
}

/* Runs a statement that returns no row. */
static int finish(struct journal *j, sqlite3_stmt *st, struct err *e)
{
    int rc = sqlite3_step(st);
    int status = rc == SQLITE_DONE ? 0 : sql_error(j, e);
    sqlite3_finalize(st);
    return status;
}

static char *column_text(sqlite3_stmt *st, int i)
{
    const char *text = (const char *)sqlite3_column_text(st, i);
    return xstrdup(text ? text : "");
}

static json_t *column_json(sqlite3_stmt *st, int i)
{
    const char *text = (const char *)sqlite3_column_text(st, i);
    return text && *text ? json_loads(text, 0, NULL) : NULL;
}

static char *json_text(const json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    return text ? text : xstrdup("");
}

/* ---- opening ----------------------------------------------------------------------------------------- */

static int read_version(struct journal *j, int *version, struct err *e)
{
    sqlite3_stmt *st;
    if (prepare(j, &st, e, "PRAGMA user_version", "")) return -1;
    int rc = sqlite3_step(st);
    *version = rc == SQLITE_ROW ? sqlite3_column_int(st, 0) : -1;
    int status = rc == SQLITE_ROW ? 0 : sql_error(j, e);
    sqlite3_finalize(st);
    return status;
}

static int check_schema(struct journal *j, bool create, struct err *e)
{
    int version;
    if (read_version(j, &version, e)) return -1;
    if (version == JOURNAL_VERSION) return 0;
    if (version == 0 && create) {
        char *sql =
            xformat("BEGIN IMMEDIATE; %s PRAGMA user_version=%d; COMMIT;", schema, (int)JOURNAL_VERSION);
        int status = execute(j, sql, e);
        free(sql);
        return status;
    }
    return err_set(
        e, "%s: journal of version %d, this concord reads %d: move the file away or use the matching concord",
        j->path, version, (int)JOURNAL_VERSION);
}

static int open_database(struct journal *j, int flags, struct err *e)
{
    if (sqlite3_open_v2(j->path, &j->db, flags, NULL)) return sql_error(j, e);
    sqlite3_busy_timeout(j->db, 5000);
    return 0;
}

int journal_open(const char *path, struct journal **out, struct err *e)
{
    struct journal *j = xcalloc(1, sizeof *j);
    j->path = xstrdup(path);
    j->lock = -1;
    const char *slash = strrchr(path, '/');
    char *folder = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup("."),
         *lock = xformat("%s.lock", path);
    int status = dir_make(folder, e);
    if (!status && (j->lock = file_lock(lock, false, e)) < 0)
        status = err_wrap(e, "another run of this campaign");
    free(folder);
    free(lock);
    if (!status) status = open_database(j, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, e);
    if (!status)
        status = execute(j, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;", e);
    if (!status) status = check_schema(j, true, e);
    if (status) {
        journal_close(j);
        j = NULL;
    }
    *out = j;
    return status;
}

int journal_open_readonly(const char *path, struct journal **out, struct err *e)
{
    struct journal *j = xcalloc(1, sizeof *j);
    j->path = xstrdup(path);
    j->lock = -1;
    int status =
        path_exists(path) ? 0 : err_set(e, "%s: no journal there: `concord verify CAMPAIGN` writes it", path);
    /* Read-write, because a reader of a WAL whose writer was killed must be able to recover it. */
    if (!status) status = open_database(j, SQLITE_OPEN_READWRITE, e);
    if (!status) status = check_schema(j, false, e);
    if (status) {
        journal_close(j);
        j = NULL;
    }
    *out = j;
    return status;
}

void journal_close(struct journal *j)
{
    if (!j) return;
    sqlite3_close(j->db);
    if (j->lock >= 0) close(j->lock);
    free(j->path);
    free(j);
}

int journal_group(struct journal *j, struct err *e)
{
    return execute(j, "BEGIN IMMEDIATE", e);
}

int journal_commit(struct journal *j, struct err *e)
{
    return execute(j, "COMMIT", e);
}

/* Ends a group: commits if all went well, else undoes it and keeps the first error. */
static int end_group(struct journal *j, int status, struct err *e)
{
    if (!status) status = journal_commit(j, e);
    if (status) sqlite3_exec(j->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

/* ---- a run's beginning ------------------------------------------------------------------------------- */

static char *host_text(void)
{
    struct utsname u;
    uname(&u);
    json_t *host = json_pack("{s:s, s:s, s:s, s:I}", "system", u.sysname, "kernel", u.release, "machine",
                             u.machine, "cpus", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN));
    struct buf os = BUF_INIT;
    if (!file_read("/etc/os-release", &os, NULL)) {
        const char *name = strstr(buf_str(&os), "PRETTY_NAME=\"");
        if (name) {
            name += strlen("PRETTY_NAME=\"");
            json_object_set_new(host, "os", json_stringn(name, strcspn(name, "\"\n")));
        }
    }
    buf_free(&os);
    char *text = json_text(host);
    json_decref(host);
    return text;
}

static char *apis_text(const strings *apis)
{
    json_t *array = json_array();
    for (size_t i = 0; i < apis->len; i++) json_array_append_new(array, json_string(apis->ptr[i]));
    char *text = json_text(array);
    json_decref(array);
    return text;
}

/* [relative, absolute] by dtype, as the harness takes them. */
static char *tolerances_text(const struct campaign *c)
{
    static const char *const dtypes[] = {"float64",  "float32",   "float16",
                                         "bfloat16", "complex64", "complex128"};
    json_t *all = json_object();
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        double relative, absolute;
        if (!campaign_tolerance(c, dtypes[i], &relative, &absolute))
            json_object_set_new(all, dtypes[i], json_pack("[f, f]", relative, absolute));
    }
    char *text = json_text(all);
    json_decref(all);
    return text;
}

static int insert_run(struct journal *j, const struct plan *p, const char *command, int64_t *run,
                      struct err *e)
{
    char now[32], *host = host_text(), *apis = apis_text(&p->apis);
    char *tolerances = tolerances_text(p->campaign);
    now_iso(now);
    sqlite3_stmt *st;
    int status = prepare(
        j, &st, e,
        "INSERT INTO run(campaign, path, digest, choice, tolerances, command, version, host, apis, started)"
        " VALUES(?,?,?,?,?,?,?,?,?,?)",
        "ssssssssss", p->campaign->name, p->campaign->path, p->digest, p->device, tolerances, command,
        CONCORD_VERSION, host, apis, now);
    if (!status) status = finish(j, st, e);
    *run = sqlite3_last_insert_rowid(j->db);
    free(host);
    free(apis);
    free(tolerances);
    return status;
}

static int insert_release(struct journal *j, int64_t run, int64_t position, const struct campaign_release *r,
                          struct err *e)
{
    sqlite3_stmt *st;
    if (prepare(j, &st, e, "INSERT INTO release(run, position, name, torch, branch) VALUES(?,?,?,?,?)",
                "iisss", run, position, r->torch_npu, r->torch, r->branch))
        return -1;
    return finish(j, st, e);
}

static int insert_case(struct journal *j, int64_t run, const char *release, const struct plan_case *c,
                       struct err *e)
{
    sqlite3_stmt *st;
    if (prepare(j, &st, e, "INSERT INTO cases(run, release, api, name, passes) VALUES(?,?,?,?,?)", "issss",
                run, release, c->api, c->name, c->passes))
        return -1;
    return finish(j, st, e);
}

int journal_begin(struct journal *j, const struct plan *p, const char *command, int64_t *run, struct err *e)
{
    if (journal_group(j, e)) return -1;
    int status = insert_run(j, p, command, run, e);
    for (size_t r = 0; !status && r < p->campaign->releases.len; r++) {
        status = insert_release(j, *run, (int64_t)r, &p->campaign->releases.ptr[r], e);
        for (size_t c = 0; !status && c < p->cases.len; c++)
            status = insert_case(j, *run, p->campaign->releases.ptr[r].torch_npu, p->cases.ptr[c], e);
    }
    return end_group(j, status, e);
}

/* ---- transitions ------------------------------------------------------------------------------------- */

int journal_release(struct journal *j, int64_t run, const struct release_record *r, struct err *e)
{
    char *hello = json_text(r->hello);
    sqlite3_stmt *st;
    int status = prepare(
        j, &st, e,
        "UPDATE release SET env=?, lock=?, kind=?, device=?, hello=?, error=? WHERE run=? AND name=?",
        "ssssssis", r->env, r->lock, device_kind_name(r->kind), r->device, hello, r->error, run, r->name);
    if (!status) status = finish(j, st, e);
    free(hello);
    return status;
}

int journal_case(struct journal *j, const struct case_record *c, struct err *e)
{
    sqlite3_stmt *st;
    int status = prepare(
        j, &st, e,
        "UPDATE cases SET state=?, attempts=?, verdict=?, reason=?, started=?, ms=?, launches=?, kind=?,"
        " facts=?, output=?, stack=? WHERE id=?",
        "sisssdissssi", state_names[c->state], (int64_t)c->attempts, verdict_name(c->verdict), c->reason,
        c->started, c->ms, c->launches, device_kind_name(c->kind), c->facts, c->output, c->stack, c->id);
    if (!status) status = finish(j, st, e);
    return status;
}

int journal_finish(struct journal *j, int64_t run, struct err *e)
{
    char now[32];
    now_iso(now);
    sqlite3_stmt *st;
    if (prepare(j, &st, e, "UPDATE run SET finished=? WHERE id=?", "si", now, run)) return -1;
    return finish(j, st, e);
}

int journal_resume(struct journal *j, int64_t run, struct err *e)
{
    sqlite3_stmt *st;
    if (prepare(j, &st, e, "UPDATE cases SET state='planned', started='' WHERE run=? AND state='running'",
                "i", run))
        return -1;
    return finish(j, st, e);
}

/* ---- reading ----------------------------------------------------------------------------------------- */

int journal_last_run(struct journal *j, const char *campaign, int64_t *run, struct err *e)
{
    sqlite3_stmt *st;
    if (prepare(j, &st, e, "SELECT coalesce(max(id), 0) FROM run WHERE ?1='' OR campaign=?1", "s", campaign))
        return -1;
    int rc = sqlite3_step(st);
    int status = rc == SQLITE_ROW ? 0 : sql_error(j, e);
    *run = rc == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    sqlite3_finalize(st);
    return status;
}

static void read_run(sqlite3_stmt *st, struct run_record *r)
{
    char **text[] = {&r->campaign, &r->path,    &r->digest,  &r->choice,  &r->tolerances,
                     &r->command,  &r->version, &r->started, &r->finished};
    int i = 0;
    for (; i < (int)(sizeof text / sizeof *text); i++) *text[i] = column_text(st, i);
    r->host = column_json(st, i++);
    json_t *apis = column_json(st, i), *api;
    size_t k;
    json_array_foreach(apis, k, api) * vec_push(&r->apis) = xstrdup(json_string_value(api));
    json_decref(apis);
}

static void read_release(sqlite3_stmt *st, struct run_record *r)
{
    struct release_record *rel = vec_push(&r->releases);
    char **text[] = {&rel->name, &rel->torch, &rel->branch, &rel->env, &rel->lock, &rel->device, &rel->error};
    int i = 0;
    for (; i < (int)(sizeof text / sizeof *text); i++) *text[i] = column_text(st, i);
    rel->kind = device_kind_parse((const char *)sqlite3_column_text(st, i++));
    rel->hello = column_json(st, i);
}

static enum case_state parse_state(const char *name)
{
    for (int s = 0; s < CASE_STATES; s++)
        if (!strcmp(state_names[s], name)) return (enum case_state)s;
    return CASE_PLANNED;
}

static void read_case(sqlite3_stmt *st, struct run_record *r)
{
    struct case_record *c = vec_push(&r->cases);
    char **text[] = {&c->release, &c->api,     &c->name,   &c->passes,
                     &c->reason,  &c->started, &c->output, &c->stack};
    int i = 0;
    for (; i < (int)(sizeof text / sizeof *text); i++) *text[i] = column_text(st, i);
    c->state = parse_state((const char *)sqlite3_column_text(st, i++));
    c->verdict = verdict_parse((const char *)sqlite3_column_text(st, i++));
    c->kind = device_kind_parse((const char *)sqlite3_column_text(st, i++));
    c->facts = column_text(st, i++);
    c->id = sqlite3_column_int64(st, i++);
    c->attempts = sqlite3_column_int(st, i++);
    c->ms = sqlite3_column_double(st, i++);
    c->launches = sqlite3_column_int64(st, i);
}

typedef void row_reader(sqlite3_stmt *st, struct run_record *r);

static int read_rows(struct journal *j, const char *sql, int64_t run, row_reader *read,
                     struct run_record *out, struct err *e)
{
    sqlite3_stmt *st;
    if (prepare(j, &st, e, sql, "i", run)) return -1;
    int rc;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) read(st, out);
    int status = rc == SQLITE_DONE ? 0 : sql_error(j, e);
    sqlite3_finalize(st);
    return status;
}

int journal_load(struct journal *j, int64_t run, struct run_record *out, struct err *e)
{
    *out = (struct run_record){.id = run};
    static const struct {
        const char *sql;
        row_reader *read;
    } parts[] = {
        {"SELECT campaign, path, digest, choice, tolerances, command, version, started, finished, host, apis "
         "FROM run"
         " WHERE id=?",
         read_run},
        {"SELECT name, torch, branch, env, lock, device, error, kind, hello FROM release WHERE run=? ORDER "
         "BY position",
         read_release},
        {"SELECT release, api, name, passes, reason, started, output, stack, state, verdict, kind, facts, "
         "id, attempts,"
         " ms, launches FROM cases WHERE run=? ORDER BY id",
         read_case},
    };
    int status = 0;
    for (size_t i = 0; !status && i < sizeof parts / sizeof *parts; i++)
        status = read_rows(j, parts[i].sql, run, parts[i].read, out, e);
    if (!status && !out->campaign) status = err_set(e, "%s: no run %lld", j->path, (long long)run);
    if (status) run_record_free(out);
    return status;
}
