/* campaign.h - a campaign: which APIs are verified on which releases, where, and how strictly.
 *
 * One YAML file (docs/campaign.md lists the keys). It is read strictly: unknown keys, repeated keys and
 * values of the wrong type are errors of the form file:line:column: what was expected.
 */
#ifndef CONCORD_CAMPAIGN_H
#define CONCORD_CAMPAIGN_H

#include "concord/base/base.h"

enum device_choice { DEVICE_AUTO, DEVICE_HARDWARE, DEVICE_SOFTWARE, NDEVICE_CHOICES };
extern const char *const device_choice_names[NDEVICE_CHOICES + 1]; /* "auto", ..., NULL */

/* A package of the environment held at one version. */
struct campaign_pin {
    char *package; /* normalised as package indexes do: lower case, '-' between words */
    char *version;
};

struct campaign_release {
    char *torch_npu; /* "2.7.1.post11": what the release is called in concord; unique in the campaign */
    char *torch;     /* "2.7.1" */
    char *branch;    /* of the plugin's repository: "v2.7.1" */
    VEC(struct campaign_pin) pins;
};

/* A repository: URL or folder, and the revision for a release, where {torch}, {torch_npu} and {branch} are
 * replaced. */
struct campaign_source {
    char *source;
    char *revision;
    char *patches; /* plugin only: folder of the patches to upstream tests; NULL for upstream */
};

/* Where the reviews go, and how they are called. Texts that are not set are NULL. */
struct campaign_review {
    char *topic;      /* start of the branches' names; the campaign's name otherwise */
    char *scope;      /* of the title: test(SCOPE); from the APIs otherwise */
    char *title;      /* the whole title, instead of one made from the APIs */
    char *issue;      /* URL of the task issue */
    int forge;        /* position in the forge table (concord/forge/forge.h) */
    char *repository; /* OWNER/NAME that the reviews are opened in */
    char *fork;       /* OWNER/NAME of the person's fork */
    char *push;       /* remote or URL that branches are pushed to; the remote "fork" otherwise */
    char *api;        /* base URL of the forge's API where it is not the public one */
    int64_t limit;    /* longest text of a review in characters; 0: the forge's own */
};

struct campaign_tolerance {
    char *dtype; /* "bfloat16": a torch dtype's name */
    double rtol, atol;
};

struct campaign {
    char *path; /* as given to campaign_load */
    char *name;
    strings apis; /* dotted names, file order, no repeats */
    VEC(struct campaign_release) releases;
    struct campaign_source upstream, plugin;
    strings tests; /* upstream files that may be adapted ("test/test_autograd.py"); empty: all that cover */
    char *family;  /* of hardware, as the documentation names it; NULL: Atlas A2 */
    struct campaign_review review;
    int device; /* enum device_choice */
    struct {
        int64_t workers;          /* 0: as many as the machine serves well */
        int64_t case_timeout_ms;  /* one case, forward and backward */
        int64_t start_timeout_ms; /* a worker: interpreter, import torch and torch_npu */
    } executor;
    VEC(struct campaign_tolerance) tolerances; /* only what the file sets: use campaign_tolerance */
    strings languages;                         /* of the reports: "zh", "en" */
};

/* Reads and checks the file. On failure *c is empty and *e has the place. */
int campaign_load(const char *path, struct campaign *c, struct err *e);
void campaign_free(struct campaign *c);

/* Keeps only these releases (torch or torch_npu version, or branch) and APIs; an empty or NULL list keeps
 * all. One that the campaign does not have is an error naming the nearest. */
int campaign_select(struct campaign *c, const strings *releases, const strings *apis, struct err *e);

/* Allowed difference between device and CPU for a dtype ("float32"): the campaign's, else torch.testing's own
 * default for it; exact for integers and bool. -1 if there is no such dtype. */
int campaign_tolerance(const struct campaign *c, const char *dtype, double *rtol, double *atol);

/* source.revision for a release. Owned. */
char *campaign_revision(const struct campaign_source *s, const struct campaign_release *r);

#endif
