/* slurm.h - the cluster executor: one job array, a task a shard; what did not finish is submitted again; then
 * merged. */
#ifndef CONCORD_SUITE_SLURM_H
#define CONCORD_SUITE_SLURM_H

#include "concord/suite/store.h"

struct slurm_request {
    const char *folder;  /* on a file system that all nodes see: plan, script, logs, shard journals */
    const char *journal; /* of the merged run; must not exist yet */
    const char *name;
    int shards;
    const strings *arguments; /* of `concord test` for every shard, without executor, shard and journal */
    const strings *engine;    /* what stands behind them: "--" and the engine's, or nothing */
    const char *options;      /* further options for sbatch, or NULL */
    int64_t every_ms;         /* between looks at the queue; 0: 2 s */
    bool quiet;
};
/* 0: merged. 1: interrupted (the array is cancelled; the same command goes on). -1: *e. */
int slurm_run(const struct slurm_request *q, struct err *e);

#endif
