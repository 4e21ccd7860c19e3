/* environment.c - the releases' environments for the runner: made if they are not ready. */
#include "concord/env/env.h"
#include "concord/run/runner.h"

#include <stdlib.h>

/* Asks again for one release, for the reason that concerns it. */
static void take_environment(const struct env_spec *spec, struct env_request *q)
{
    struct buf lock = BUF_INIT;
    q->folder = env_folder(spec, &q->why);
    if (!q->folder && !env_create(spec, 1, &(struct env_options){0}, &q->why))
        q->folder = env_folder(spec, &q->why);
    if (!q->folder) return;
    if (!env_lock_text(spec, &lock, &q->why)) {
        q->lock = buf_take(&lock);
        return;
    }
    buf_free(&lock);
    free(q->folder);
    q->folder = NULL;
}

void run_environments(struct env_request *requests, size_t n)
{
    VEC(struct env_spec) specs = {0};
    for (size_t i = 0; i < n; i++) env_spec_campaign(requests[i].release, vec_push(&specs));
    env_create(specs.ptr, n, &(struct env_options){0},
               NULL); /* together; a failure is looked at one by one */
    for (size_t i = 0; i < n; i++) {
        if (proc_interrupted) break;
        take_environment(&specs.ptr[i], &requests[i]);
    }
    for (size_t i = 0; i < n; i++) env_spec_free(&specs.ptr[i]);
    vec_free(&specs);
}
