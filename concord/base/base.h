/* base.h - strings, vectors, errors, files, processes: what every part of concord stands on.
 *
 * Conventions
 *  - Functions that can fail on input or I/O return int: 0 on success, -1 on failure with *e filled.
 *  - Running out of memory ends the program (status 2, one line). Files on disk are only ever replaced whole
 *    (temporary, fsync, rename), so that leaves nothing half written.
 *  - A struct buf is always NUL-terminated once anything was put in it; it may hold NUL bytes.
 *  - base calls nothing in the other folders.
 */
#ifndef CONCORD_BASE_H
#define CONCORD_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* ---- errors ------------------------------------------------------------------------------------------ */

enum { EXIT_OK = 0, EXIT_FINDINGS = 1, EXIT_USAGE = 2 };

/* One clear line: what, where, how to mend it. No trailing newline, no "error:" prefix. */
struct err {
    char text[1024];
};

/* Fills *e (which may be NULL) and returns -1, so `return err_set(e, ...)` reads well. */
int err_set(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Puts "context: " before the text that is there; returns -1. */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints "concord: text" on stderr and returns EXIT_USAGE. */
int err_report(const struct err *e);
/* Prints one line on stderr and ends the program with EXIT_USAGE. Only commands and out-of-memory call it. */
void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* ---- memory ------------------------------------------------------------------------------------------ */

/* What must not be NULL, said so that the compiler and the analyser know. */
#define NEVER_NULL __attribute__((returns_nonnull))

void *xmalloc(size_t n) NEVER_NULL;
void *xcalloc(size_t n, size_t size) NEVER_NULL;
void *xrealloc(void *p, size_t n) NEVER_NULL;
char *xstrdup(const char *s) NEVER_NULL;
char *xstrndup(const char *s, size_t n) NEVER_NULL;
char *xformat(const char *fmt, ...) NEVER_NULL __attribute__((format(printf, 1, 2)));

/* ---- buf: growable bytes ------------------------------------------------------------------------------ */

struct buf {
    char *ptr; /* NULL while empty and never grown; see buf_str */
    size_t len, cap;
};
#define BUF_INIT ((struct buf){0})

void buf_reserve(struct buf *b, size_t extra);
void buf_add(struct buf *b, const void *p, size_t n);
void buf_adds(struct buf *b, const char *s);
void buf_addc(struct buf *b, int c);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vaddf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
void buf_clear(struct buf *b); /* length 0, memory kept */
void buf_free(struct buf *b);  /* back to BUF_INIT */
const char *buf_str(const struct buf *b) NEVER_NULL;
char *buf_take(struct buf *b) NEVER_NULL; /* ownership to the caller, b back to BUF_INIT */

/* ---- vec: growable array of any type: VEC(struct hunk) hunks = {0}; *vec_push(&hunks) = h; ------------- */

#define VEC(type)                                                                                            \
    struct {                                                                                                 \
        type *ptr;                                                                                           \
        size_t len, cap;                                                                                     \
    }
/* Pointer to a new, zeroed last element. */
#define vec_push(v)                                                                                          \
    (vec_grow_((void **)&(v)->ptr, &(v)->len, &(v)->cap, sizeof *(v)->ptr), &(v)->ptr[(v)->len - 1])
#define vec_free(v) (free((v)->ptr), (v)->ptr = NULL, (v)->len = (v)->cap = 0)
void vec_grow_(void **ptr, size_t *len, size_t *cap, size_t size);

/* ---- map: string to pointer, insertion order kept ------------------------------------------------------ */

struct map_entry {
    char *key; /* owned */
    void *value;
    uint64_t hash;
};
struct map {
    VEC(struct map_entry) entries;
    uint32_t *slots;
    size_t nslots;
};
void **map_put(struct map *m, const char *key) NEVER_NULL; /* the value slot, NULL inside when new */
void *map_get(const struct map *m, const char *key);       /* NULL when absent */
bool map_has(const struct map *m, const char *key);
void map_free(struct map *m, void (*free_value)(void *)); /* free_value may be NULL */

/* ---- strings ------------------------------------------------------------------------------------------- */

bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);
/* The candidate nearest to word (edit distance, at most a third of its length), or NULL: for "did you mean".
 */
const char *str_nearest(const char *word, const char *const *candidates, size_t n);
/* Compares dotted versions numerically ("2.10.0" > "2.9.0", "2.7.1.post11" > "2.7.1"). */
int version_compare(const char *a, const char *b);

/* ---- files --------------------------------------------------------------------------------------------- */

char *path_join(const char *a, const char *b); /* owned; b absolute gives b */
bool path_exists(const char *path);
bool path_is_dir(const char *path);
int file_read(const char *path, struct buf *out, struct err *e);
/* Temporary in the same folder, fsync, rename. mode 0 means 0644. */
int file_write(const char *path, const void *data, size_t n, mode_t mode, struct err *e);
int dir_make(const char *path, struct err *e);    /* with parents */
int tree_remove(const char *path, struct err *e); /* recursive; absent is success */
/* Names in the folder without . and .., sorted; caller frees each and the vector. */
typedef VEC(char *) strings;
int dir_list(const char *path, strings *out, struct err *e);
void strings_free(strings *s);
int disk_free(const char *path, uint64_t *bytes, struct err *e);
/* Exclusive advisory lock on path (created). Returns a descriptor (close it to unlock) or -1.
 * wait false: fails at once, naming the holder's pid where known. */
int file_lock(const char *path, bool wait, struct err *e);
/* Folder for caches and environments: $CONCORD_HOME, else $XDG_CACHE_HOME/concord, else ~/.cache/concord.
 * Owned. */
char *concord_home(void);
/* The folder that holds harness/, campaigns/, lib/: found from the executable (build tree or installed).
 * Owned. */
char *concord_share(const char *name);
void sha256_hex(const void *data, size_t n, char out[65]);
int sha256_file(const char *path, char out[65], struct err *e);

/* ---- processes ----------------------------------------------------------------------------------------- */

struct proc_spec {
    const char *const *argv; /* NULL-terminated; argv[0] is looked up in PATH */
    const char *const *env;  /* "NAME=value" or "NAME" (unset), added to ours; NULL-terminated or NULL */
    const char *cwd;         /* NULL: ours */
    const char *input;       /* text for standard input, NULL: /dev/null */
    size_t input_len;
    int64_t timeout_ms; /* 0: none. On expiry the whole process group gets TERM, then KILL. */
    size_t max_output;  /* bytes kept of each stream, 0: 16 MiB; the rest is read and dropped */
    bool merge;         /* standard error goes to out */
    bool inherit;       /* output is not captured but goes where ours goes */
};
struct proc_result {
    int status; /* exit status, or -1 when a signal ended it */
    int signal; /* 0 or the signal */
    bool timed_out, truncated;
    int64_t wall_ms;
    struct buf out, err;
};
/* Runs to the end in a process group of its own; leftover members are killed. -1 only if it cannot start. */
int proc_run(const struct proc_spec *spec, struct proc_result *r, struct err *e);
void proc_result_free(struct proc_result *r);
/* Set by SIGINT/SIGTERM after proc_catch_signals(); proc_run kills its child's group and returns when set. */
extern volatile int proc_interrupted;
void proc_catch_signals(void);
int64_t now_ms(void);       /* monotonic */
void now_iso(char out[32]); /* UTC, 2026-12-01T13:43:26Z */

/* ---- command line: a declarative table that also makes the help ---------------------------------------- */

enum opt_kind { OPT_FLAG, OPT_STRING, OPT_INT, OPT_LIST /* char* appended to a strings, commas split */ };
struct opt {
    char letter;      /* 0: none */
    const char *name; /* without -- */
    enum opt_kind kind;
    void *value;     /* bool *, const char **, int64_t *, strings * */
    const char *arg; /* metavariable, NULL for flags */
    const char *help;
};
struct usage {
    const char *synopsis; /* "verify CAMPAIGN [options]" */
    const char *summary;
    const struct opt *opts; /* ends with name NULL */
};
/* Parses argv[1..]; operands are left in argv[1..*argc-1], order kept. Handles --help (prints, exits 0),
 * --name=value, --name value, -x value, --. A bad option is one line with the nearest name and exit 2. */
void opt_parse(int *argc, char **argv, const struct usage *u);

#endif
