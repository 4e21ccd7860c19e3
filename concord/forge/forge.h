/* forge.h - code hosts: one row a forge says how its API opens and updates a review.
 *
 * Facts: docs.gitcode.com (REST guide, pulls), gitee.com/api/v5/swagger, docs.github.com/rest/pulls,
 * docs.gitlab.com/api/merge_requests. All take the token in a header, so it is in no URL.
 */
#ifndef CONCORD_FORGE_FORGE_H
#define CONCORD_FORGE_FORGE_H

#include "concord/base/base.h"
#include "concord/campaign/campaign.h"
#include <jansson.h>

enum forge_id { FORGE_GITCODE, FORGE_GITEE, FORGE_GITHUB, FORGE_GITLAB, FORGE_COUNT };

/* A review as we ask for it. */
struct review {
    const char *repository, *fork; /* OWNER/NAME */
    const char *branch, *base;     /* head branch in the fork, target branch */
    const char *title, *body;
};
/* A review as the forge has it. */
struct review_found {
    int64_t number; /* 0: none */
    char *url;
    char *body; /* its title, a line end, its text */
};
void review_found_free(struct review_found *f);

struct forge {
    const char *name, *api, *host;
    const char *header;   /* "Authorization: Bearer ": the token follows */
    const char *variable; /* of the environment that holds the token */
    size_t limit;         /* characters of a review's text */
    /* Paths; {repo}, {fork}, {owner} (of the fork), {branch}, {base} and {number} are replaced, with %: as
     * one path segment. target: where the repository's numeric id is found, NULL where nobody asks for it. */
    const char *list, *make, *change, *target;
    const char *verb;                                            /* of change: PATCH or PUT */
    const char *number, *url, *text;                             /* members of the answer */
    json_t *(*payload)(const struct review *r, int64_t target);  /* of make; target: numeric project or 0 */
    bool (*is_ours)(const json_t *item, const struct review *r); /* one item of list */
};
extern const struct forge forges[FORGE_COUNT];

/* ---- talking to one ---- */

/* A forge, where it is, and who we are there. The token stays in this struct: no function writes it anywhere
 * but into a request's header. */
struct forge_session {
    const struct forge *forge;
    char *api;   /* base URL */
    char *token; /* NULL: nothing is sent */
};
/* api NULL: the public one. Refuses plain http to another machine. */
int forge_open(struct forge_session *s, enum forge_id id, const char *api, struct err *e);
void forge_close(struct forge_session *s);
/* From the environment, else from git's credential helpers (host of the API's URL). */
int forge_token(struct forge_session *s, struct err *e);
/* URL of one of the forge's paths for a review. Owned. */
char *forge_url(const struct forge_session *s, const char *path, const struct review *r, int64_t number);
/* Looks for the open review of this head and base; number 0 when there is none. */
int forge_find(struct forge_session *s, const struct review *r, struct review_found *out, struct err *e);
/* Opens it, or updates its title and text when it is there with others. *what: "opened", "updated",
 * "unchanged". Safe to repeat: an answer that was lost is looked for before anything is opened again. */
int forge_put(struct forge_session *s, const struct review *r, struct review_found *out, const char **what,
              struct err *e);
/* The members that a review's update sends. The caller's. */
json_t *forge_change_payload(const struct forge *f, const struct review *r);
/* The numeric id that make's payload needs, 0 where the forge asks for none. */
int forge_target(struct forge_session *s, const struct review *r, int64_t *id, struct err *e);

/* One request, repeated where that is safe (network, 5xx, rate limits: waits as the forge says). *status: the
 * HTTP status. body NULL: none. once: a request that must not be sent twice is not repeated. */
int forge_request(struct forge_session *s, const char *method, const char *url, const json_t *body, bool once,
                  long *status, json_t **answer, struct err *e);

/* Pushes refs/heads/BRANCH to a remote or URL. replace: also when the remote's has other commits. */
int forge_push(struct forge_session *s, const char *clone, const char *to, const char *branch, bool replace,
               struct err *e);

/* The campaign's own limit, or its forge's. */
size_t review_limit(const struct campaign_review *r);

#endif
