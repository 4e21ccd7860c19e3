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
    char *body; /* text it has now, "" when the forge did not say */
};
void review_found_free(struct review_found *f);

struct forge {
    const char *name, *api, *host;
    const char *header;               /* "Authorization: Bearer ": the token follows */
    const char *variable;             /* of the environment that holds the token */
    size_t limit;                     /* characters of a review's text */
    const char *list, *make, *change; /* paths; {repo}, {fork}, {branch}, {base}, {number} are replaced */
    const char *verb;                 /* of change: PATCH or PUT */
    const char *number, *url, *text;  /* members of the answer */
    json_t *(*payload)(const struct review *r, int64_t target);  /* of make; target: numeric project or 0 */
    bool (*is_ours)(const json_t *item, const struct review *r); /* one item of list */
};
extern const struct forge forges[FORGE_COUNT];

/* The campaign's own limit, or its forge's. */
size_t review_limit(const struct campaign_review *r);

#endif
