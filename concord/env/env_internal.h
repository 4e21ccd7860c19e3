/* env_internal.h - what the files of concord/env share. */
#ifndef CONCORD_ENV_INTERNAL_H
#define CONCORD_ENV_INTERNAL_H

#include "concord/env/env.h"

/* ---- releases.c */

/* Minor versions of Python 3 that have wheels for the release. */
void env_python_range(const struct env_spec *s, int *oldest, int *newest);

/* ---- uv.c: the uv program */

struct uv {
    char *program;
    char *python;       /* the base interpreter of the environment */
    const char *work;   /* folder that is thrown away afterwards: cache, requirement files */
    const char *folder; /* of the environment */
    const strings *find_links;
    const char *index;         /* asked first; NULL: none */
    const char *default_index; /* instead of uv's own default; NULL: that */
    bool offline;
};

/* Base interpreter for a release (owned): CONCORD_PYTHON, else the first of 3.11, 3.10, 3.12 ... that has
 * wheels. */
char *uv_find_python(const char *uv, const struct env_spec *s, struct err *e);
/* The index that pip is set to use, where uv itself is set to none: people behind a mirror have told pip of
 * it. Owned, or NULL. */
char *uv_default_index(void);
int uv_make_venv(const struct uv *u, struct err *e);
/* Chooses one wheel for each requirement (PEP 508 lines); with_dependencies adds what those require. */
struct wheel {
    char *name, *version, *url, *sha256;
    uint64_t size;
};
typedef VEC(struct wheel) wheels;
int uv_resolve(const struct uv *u, const strings *requirements, bool with_dependencies, wheels *out,
               struct err *e);
/* Installs exactly these, by hash. */
int uv_install(const struct uv *u, const wheels *w, struct err *e);
int uv_check(const struct uv *u, struct err *e);
void wheels_free(wheels *w);
/* Reads uv's pylock.toml (PEP 751, as uv prints it). */
int pylock_parse(const char *text, wheels *out, struct err *e);
void pylock_print(const wheels *w, struct buf *out);

/* ---- lock.c: concord-lock.json */

enum { LOCK_FORMAT = 1 };

int lock_write(const char *folder, const struct env_spec *s, const struct uv *u, const char *python_version,
               enum trim_mode mode, const wheels *w, const struct trim_result *trim, struct err *e);
extern const char *const trim_mode_names[2];
char *envs_folder(void); /* concord_home()/envs, owned */

#endif
