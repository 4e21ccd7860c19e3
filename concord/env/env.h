/* env.h - isolated environments, one per release: matching torch and torch_npu, locked by version and hash.
 *
 * An environment is concord_home()/envs/NAME, a Python virtual environment with concord-lock.json beside its
 * pyvenv.cfg. NAME is the torch version, or the torch_npu version where that is not the usual one for that
 * torch.
 */
#ifndef CONCORD_ENV_H
#define CONCORD_ENV_H

#include "concord/campaign/campaign.h"
#include "concord/env/trim.h"

struct env_pin {
    char *package, *version;
};

/* What an environment has to hold. */
struct env_spec {
    char *name;
    char *torch, *torch_npu;
    VEC(struct env_pin) pins;
};

/* From the table of known releases: "2.7.1". An unknown one is an error naming the nearest. */
int env_spec_known(const char *release, struct env_spec *s, struct err *e);
void env_spec_campaign(const struct campaign_release *r, struct env_spec *s);
void env_spec_free(struct env_spec *s);
/* Names of the known releases, oldest first; *n gets their number. */
const char *const *env_known_releases(size_t *n);

enum env_state { ENV_ABSENT, ENV_READY, ENV_STALE, NENV_STATES };
extern const char *const env_state_names[NENV_STATES]; /* "absent", "ready", "stale" */

/* A wheel, as in the lock. */
struct env_package {
    char *name, *version, *wheel, *sha256;
};

struct env_info {
    enum env_state state;
    char *folder;                                      /* set in every state */
    char *why;                                         /* ENV_STALE: what does not match; else NULL */
    char *torch, *torch_npu, *python, *mode, *created; /* from the lock; NULL where there is none */
    VEC(struct env_package) packages;
};

/* Looks at what is there: never fails for what it finds. spec may be NULL: then only name matters. */
void env_look(const char *name, const struct env_spec *spec, struct env_info *info);
void env_info_free(struct env_info *info);
/* Folder of a ready environment (owned), or NULL with *e saying that it is absent or stale and how to mend
 * it. */
char *env_folder(const struct env_spec *spec, struct err *e);

/* Text of a ready environment's lock file: JSON, evidence of what ran. */
int env_lock_text(const struct env_spec *spec, struct buf *out, struct err *e);

struct env_options {
    enum trim_mode mode;
    const strings *find_links; /* folders of wheels; NULL: those of CONCORD_WHEELS (colons between) */
    const char *index; /* a further index asked first (one with CPU wheels); NULL: CONCORD_INDEX or none */
    bool offline;      /* only find_links */
    bool force;        /* make it again even if it is ready */
    int jobs;          /* how many at a time; 0: 2 */
    bool quiet;        /* no progress on standard error */
};

/* Makes those that are not ready. Each appears whole or not at all; another process that makes the same one
 * is waited for. On failure *e is the first error; the others were made. */
int env_create(const struct env_spec *specs, size_t n, const struct env_options *o, struct err *e);
int env_remove(const char *name, struct err *e);
/* Names of what is in concord_home()/envs, version order. */
int env_list(strings *names, struct err *e);

/* The uv program: CONCORD_UV, a recent enough one in PATH, or concord's own, which may_install lets be
 * fetched with python3's pip. Owned, or NULL with *e. */
char *env_find_uv(bool may_install, struct err *e);

#endif
