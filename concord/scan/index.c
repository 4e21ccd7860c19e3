/* index.c - facts kept between runs in SQLite. */
#include "concord/scan/index.h"
#include "concord/patch/patch.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    STAMP = INDEX_VERSION * 1000 + FACTS_VERSION,
    BUSY_MS = 10000,
    KEEP_PARTIAL = 200000, /* rows made for a few words only, oldest dropped */
    SETTLED_S = 2          /* a file written this recently may change again within one clock tick */
};

struct identity {
    int64_t size, mtime, inode;
};
struct pending_file {
    char *path;
    struct identity id;
    char blob[41];
};
struct pending_facts {
    char blob[41];
    char *key;
    struct buf data;
};
enum query { FIND_FILE, FIND_FACTS, NQUERIES };

struct index {
    char *path;
    sqlite3 *db; /* NULL once given up */
    sqlite3_stmt *query[NQUERIES];
    pthread_mutex_t lock;
    VEC(struct pending_file) files;
    VEC(struct pending_facts) facts;
    struct map queued; /* "blob key": made in this run */
    char warning[512];
};

static const char *const queries[NQUERIES] = {
    [FIND_FILE] = "SELECT blob FROM file WHERE path=? AND size=? AND mtime=? AND inode=?",
    [FIND_FACTS] = "SELECT data FROM facts WHERE blob=? AND key=?",
};

char *index_default_path(void)
{
    char *home = concord_home(), *path = path_join(home, "scan.db");
    free(home);
    return path;
}

const char *index_warning(const struct index *x)
{
    return x->warning;
}

/* ---- the file ------------------------------------------------------------------------------------------ */

static int run_sql(struct index *x, const char *sql)
{
    return sqlite3_exec(x->db, sql, NULL, NULL, NULL);
}

static int stamp_of(struct index *x, int *stamp)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(x->db, "PRAGMA user_version", -1, &st, NULL);
    if (!rc) {
        rc = sqlite3_step(st);
        *stamp = rc == SQLITE_ROW ? sqlite3_column_int(st, 0) : 0;
        rc = rc == SQLITE_ROW ? SQLITE_OK : rc;
    }
    sqlite3_finalize(st);
    return rc;
}

static int make_tables(struct index *x)
{
    static const char make[] = "BEGIN IMMEDIATE;"
                               "DROP TABLE IF EXISTS file; DROP TABLE IF EXISTS facts;"
                               "CREATE TABLE file(path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime "
                               "INTEGER NOT NULL, inode INTEGER NOT "
                               "NULL, blob TEXT NOT NULL) WITHOUT ROWID;"
                               "CREATE TABLE facts(id INTEGER PRIMARY KEY, blob TEXT NOT NULL, key TEXT NOT "
                               "NULL, data BLOB NOT NULL,"
                               " UNIQUE(blob, key));";
    int stamp = 0, rc = run_sql(x, make);
    if (!rc) {
        char *sql = xformat("PRAGMA user_version=%d; COMMIT;", STAMP);
        rc = run_sql(x, sql);
        free(sql);
    }
    if (rc && !sqlite3_get_autocommit(x->db)) run_sql(x, "ROLLBACK");
    /* another process may have made them in between */
    return rc && (stamp_of(x, &stamp) || stamp != STAMP) ? rc : SQLITE_OK;
}

static void shut(struct index *x)
{
    for (int i = 0; i < NQUERIES; i++) sqlite3_finalize(x->query[i]);
    memset(x->query, 0, sizeof x->query);
    sqlite3_close(x->db);
    x->db = NULL;
}

static int connect_db(struct index *x)
{
    int stamp = 0;
    int rc = sqlite3_open_v2(x->path, &x->db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (!rc) sqlite3_busy_timeout(x->db, BUSY_MS);
    if (!rc)
        rc = run_sql(x, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA mmap_size=268435456;");
    if (!rc) rc = stamp_of(x, &stamp);
    if (!rc && stamp != STAMP) rc = make_tables(x);
    for (int i = 0; !rc && i < NQUERIES; i++)
        rc = sqlite3_prepare_v3(x->db, queries[i], -1, SQLITE_PREPARE_PERSISTENT, &x->query[i], NULL);
    return rc;
}

static bool is_damage(int rc)
{
    rc &= 0xff;
    return rc == SQLITE_CORRUPT || rc == SQLITE_NOTADB || rc == SQLITE_FORMAT || rc == SQLITE_ERROR;
}

static void remove_files(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char *name = xformat("%s%s", path, suffixes[i]);
        unlink(name);
        free(name);
    }
}

static void give_up(struct index *x, int rc)
{
    snprintf(x->warning, sizeof x->warning, "%s: %s: scanning without an index", x->path,
             x->db ? sqlite3_errmsg(x->db) : sqlite3_errstr(rc));
    shut(x);
}

/* Damage that shows later than at opening leaves the files to be replaced. */
static void replace(struct index *x)
{
    shut(x);
    remove_files(x->path);
    int rc = connect_db(x);
    if (rc) give_up(x, rc);
}

/* One process at a time: SQLite does not wait for another that turns a new file into one with a log. A cache
 * that cannot be read is made anew; processes that still have the old file open keep working on it. */
static void open_alone(struct index *x)
{
    char *lock_path = xformat("%s.lock", x->path);
    int lock = file_lock(lock_path, true, NULL);
    int rc = connect_db(x);
    if (is_damage(rc)) {
        shut(x);
        remove_files(x->path);
        rc = connect_db(x);
    }
    if (rc) give_up(x, rc);
    if (lock >= 0) close(lock);
    free(lock_path);
}

struct index *index_open(const char *path, struct err *e)
{
    char *folder = xstrdup(path), *slash = strrchr(folder, '/');
    int made = 0;
    if (slash && slash != folder) {
        *slash = 0;
        made = dir_make(folder, e);
    }
    free(folder);
    if (made) return NULL;
    struct index *x = xcalloc(1, sizeof *x);
    x->path = xstrdup(path);
    pthread_mutex_init(&x->lock, NULL);
    open_alone(x);
    return x;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* One row's first column into out; false when there is none. Under the lock. */
static bool first_column(struct index *x, enum query q, struct buf *out)
{
    int rc = sqlite3_step(x->query[q]);
    if (rc == SQLITE_ROW) {
        buf_clear(out);
        buf_add(out, sqlite3_column_blob(x->query[q], 0), (size_t)sqlite3_column_bytes(x->query[q], 0));
        if (!out->len) buf_adds(out, "");
    }
    sqlite3_reset(x->query[q]);
    sqlite3_clear_bindings(x->query[q]);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE && is_damage(rc)) replace(x);
    return rc == SQLITE_ROW;
}

static bool find_blob(struct index *x, const char *path, const struct identity *id, char blob[41])
{
    struct buf b = BUF_INIT;
    pthread_mutex_lock(&x->lock);
    bool found = false;
    if (x->db) {
        sqlite3_bind_text(x->query[FIND_FILE], 1, path, -1, SQLITE_STATIC);
        sqlite3_bind_int64(x->query[FIND_FILE], 2, id->size);
        sqlite3_bind_int64(x->query[FIND_FILE], 3, id->mtime);
        sqlite3_bind_int64(x->query[FIND_FILE], 4, id->inode);
        found = first_column(x, FIND_FILE, &b) && b.len == 40;
    }
    pthread_mutex_unlock(&x->lock);
    if (found) memcpy(blob, b.ptr, 41);
    buf_free(&b);
    return found;
}

static bool find_facts(struct index *x, const char *blob, const char *key, struct facts *out)
{
    struct buf b = BUF_INIT;
    pthread_mutex_lock(&x->lock);
    bool found = false;
    if (x->db) {
        sqlite3_bind_text(x->query[FIND_FACTS], 1, blob, 40, SQLITE_STATIC);
        sqlite3_bind_text(x->query[FIND_FACTS], 2, key, -1, SQLITE_STATIC);
        found = first_column(x, FIND_FACTS, &b);
    }
    pthread_mutex_unlock(&x->lock);
    if (found) found = !facts_unpack(out, b.ptr, b.len);
    buf_free(&b);
    return found;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static void queue_file(struct index *x, const char *path, const struct identity *id, const char *blob)
{
    if (time(NULL) - id->mtime / 1000000000 < SETTLED_S) return;
    pthread_mutex_lock(&x->lock);
    struct pending_file *p = vec_push(&x->files);
    p->path = xstrdup(path);
    p->id = *id;
    memcpy(p->blob, blob, 41);
    pthread_mutex_unlock(&x->lock);
}

static void queue_facts(struct index *x, const char *blob, const char *key, const struct facts *f)
{
    struct buf data = BUF_INIT;
    facts_pack(f, &data);
    char *name = xformat("%s %s", blob, key);
    pthread_mutex_lock(&x->lock);
    void **slot = map_put(&x->queued, name);
    if (!*slot) {
        *slot = x;
        struct pending_facts *p = vec_push(&x->facts);
        memcpy(p->blob, blob, 41);
        p->key = xstrdup(key);
        p->data = data;
        data = BUF_INIT;
    }
    pthread_mutex_unlock(&x->lock);
    buf_free(&data);
    free(name);
}

static int write_files(struct index *x)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(x->db, "INSERT OR REPLACE INTO file VALUES(?,?,?,?,?)", -1, &st, NULL);
    for (size_t i = 0; !rc && i < x->files.len; i++) {
        const struct pending_file *p = &x->files.ptr[i];
        sqlite3_bind_text(st, 1, p->path, -1, SQLITE_STATIC);
        sqlite3_bind_int64(st, 2, p->id.size);
        sqlite3_bind_int64(st, 3, p->id.mtime);
        sqlite3_bind_int64(st, 4, p->id.inode);
        sqlite3_bind_text(st, 5, p->blob, 40, SQLITE_STATIC);
        rc = sqlite3_step(st) == SQLITE_DONE ? sqlite3_reset(st) : sqlite3_errcode(x->db);
    }
    sqlite3_finalize(st);
    return rc;
}

static int write_facts(struct index *x)
{
    sqlite3_stmt *st = NULL;
    int rc =
        sqlite3_prepare_v2(x->db, "INSERT OR REPLACE INTO facts(blob,key,data) VALUES(?,?,?)", -1, &st, NULL);
    for (size_t i = 0; !rc && i < x->facts.len; i++) {
        const struct pending_facts *p = &x->facts.ptr[i];
        sqlite3_bind_text(st, 1, p->blob, 40, SQLITE_STATIC);
        sqlite3_bind_text(st, 2, p->key, -1, SQLITE_STATIC);
        sqlite3_bind_blob64(st, 3, p->data.ptr, p->data.len, SQLITE_STATIC);
        rc = sqlite3_step(st) == SQLITE_DONE ? sqlite3_reset(st) : sqlite3_errcode(x->db);
    }
    sqlite3_finalize(st);
    if (rc) return rc;
    char *sql =
        xformat("DELETE FROM facts WHERE id <= (SELECT max(id) FROM facts) - %d AND key LIKE 'words:%%'",
                KEEP_PARTIAL);
    rc = run_sql(x, sql);
    free(sql);
    return rc;
}

static int flush(struct index *x)
{
    if (!x->files.len && !x->facts.len) return SQLITE_OK;
    int rc = run_sql(x, "BEGIN IMMEDIATE");
    if (!rc) rc = write_files(x);
    if (!rc) rc = write_facts(x);
    if (!rc) rc = run_sql(x, "COMMIT");
    if (rc && !sqlite3_get_autocommit(x->db)) run_sql(x, "ROLLBACK");
    return rc;
}

void index_close(struct index *x)
{
    if (!x) return;
    if (x->db) {
        int rc = flush(x);
        if (is_damage(rc)) {
            replace(x);
            if (x->db) flush(x);
        }
        shut(x);
    }
    for (size_t i = 0; i < x->files.len; i++) free(x->files.ptr[i].path);
    for (size_t i = 0; i < x->facts.len; i++) {
        free(x->facts.ptr[i].key);
        buf_free(&x->facts.ptr[i].data);
    }
    vec_free(&x->files);
    vec_free(&x->facts);
    map_free(&x->queued, NULL);
    pthread_mutex_destroy(&x->lock);
    free(x->path);
    free(x);
}

/* ---- the whole ----------------------------------------------------------------------------------------- */

static bool kept(struct index *x, const char *blob, const char *key, struct facts *out,
                 struct index_stats *stats)
{
    bool found = (strcmp(key, "exports") && find_facts(x, blob, "full", out)) ||
                 (strcmp(key, "full") && find_facts(x, blob, key, out));
    if (found && stats) stats->reused++;
    return found;
}

static int identify(const char *path, struct identity *id)
{
    struct stat st;
    if (stat(path, &st)) return -1;
    *id = (struct identity){(int64_t)st.st_size, (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
                            (int64_t)st.st_ino};
    return 0;
}

int index_facts(struct index *x, const char *path, const char *key, facts_maker *make, void *arg,
                struct facts *out, struct index_stats *stats, struct err *e)
{
    char blob[41] = "";
    struct identity id = {0};
    bool known = x && !identify(path, &id) && find_blob(x, path, &id, blob);
    if (known && kept(x, blob, key, out, stats)) return 0;
    struct buf text = BUF_INIT;
    if (file_read(path, &text, e)) return -1;
    if (stats) {
        stats->read++;
        stats->bytes += text.len;
    }
    if (x && !known) {
        blob_id((struct slice){buf_str(&text), text.len}, false, blob);
        queue_file(x, path, &id, blob);
        if (kept(x, blob, key, out, stats)) {
            buf_free(&text);
            return 0;
        }
    }
    buf_adds(&text, "");
    make(arg, path, text.ptr, text.len, out);
    if (stats) stats->made++;
    if (x) queue_facts(x, blob, key, out);
    buf_free(&text);
    return 0;
}
