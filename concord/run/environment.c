/* environment.c - a release's environment for the runner: made if it is not ready. */
#include "concord/env/env.h"
#include "concord/run/runner.h"

#include <stdlib.h>

int run_environment(void *ctx, const struct campaign_release *r, char **folder, char **lock, struct err *e)
{
    (void)ctx;
    struct env_spec spec;
    env_spec_campaign(r, &spec);
    struct buf text = BUF_INIT;
    *folder = NULL;
    int rc = env_create(&spec, 1, &(struct env_options){0}, e);
    if (!rc && !(*folder = env_folder(&spec, e))) rc = -1;
    if (!rc) rc = env_lock_text(&spec, &text, e);
    if (rc) {
        free(*folder);
        *folder = NULL;
        buf_free(&text);
    } else {
        *lock = buf_take(&text);
    }
    env_spec_free(&spec);
    return rc;
}
