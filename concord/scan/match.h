/* match.h - which APIs a fact names, and which tests reach it: what scan's own files share. */
#ifndef CONCORD_SCAN_MATCH_H
#define CONCORD_SCAN_MATCH_H

#include "concord/scan/modules.h"
#include "concord/scan/scan.h"

struct hit {
    uint32_t api;
    uint32_t site; /* index into the facts' sites */
    enum scan_match match;
    const char *via; /* the helper in another file that reaches the API, NULL for a site of the API */
};
typedef VEC(struct hit) hits;

struct matcher; /* the APIs, ready to be looked up; read-only once helpers are known */

struct matcher *matcher_new(const struct scan_api *apis, size_t napis, struct modules *modules);
void matcher_free(struct matcher *m);
struct file_module { /* what a file is imported as; name NULL: nothing that relative imports could refer to */
    const char *name;
    bool package;
};
/* All APIs that the file's sites name, sorted by API, then in source order. */
void matcher_hits(struct matcher *m, const struct facts *f, struct file_module self, hits *out);
/* Functions of a helper module that reach APIs by these hits become names that tests may reach them by. True
 * when any is new. */
bool matcher_learn(struct matcher *m, const char *module, const struct facts *f, const hits *found);
/* Last parts of all names to look for, helpers' included; methods of helpers apart, for whoever calls one
 * names its class too. Owned strings are appended, the newest last. */
void matcher_words(struct matcher *m, strings *words, strings *methods);

/* Sites and tests of a file, appended to out, whose path and facts are set. */
void cover_file(struct scan_file *out, const hits *found, bool only_tests);
/* For one API: the functions from which a hit is reached, nearest first. */
struct reach {
    const struct facts *f;
    uint32_t *first, *next, *from; /* incoming edges */
    uint32_t *stamp, *distance, *via, *queue;
    uint32_t now, nqueue;
};
void reach_make(struct reach *r, const struct facts *f);
void reach_free(struct reach *r);
/* queue[0 .. nqueue) afterwards holds the functions; via[x] is the next on the way, UINT32_MAX at the end. */
void reach_from(struct reach *r, const struct hit *h, size_t n);

#endif
