/* comm.h - communicators: the ranks of one machine, in one process or several, and the memory they share.
 *
 * A communicator is a memory object that every rank maps: a header, one staging slot per rank for
 * collectives, and one channel per ordered pair of ranks for point-to-point messages. Collectives go in
 * steps: every rank copies a piece into its slot, all meet, every rank takes what it needs out of the slots,
 * all meet again.
 *
 * Facts (names, types, codes): public HCCL reference. */
#ifndef SOFTNPU_HCCL_COMM_H
#define SOFTNPU_HCCL_COMM_H

#include "softnpu/runtime/internal.h"

enum {
    HCCL_SUCCESS = 0,
    HCCL_E_PARA = 1,
    HCCL_E_PTR = 2,
    HCCL_E_MEMORY = 3,
    HCCL_E_INTERNAL = 4,
    HCCL_E_NOT_SUPPORT = 5,
    HCCL_E_SYSCALL = 8,
    HCCL_E_TIMEOUT = 9,
    HCCL_E_REMOTE = 21,
};
enum { HCCL_MAX_RANKS = 64, HCCL_SLOT = 1 << 20, HCCL_CHANNEL = 32 << 10, HCCL_SUBS = 256 };

struct hccl_rank {
    atomic_int pid; /* 0: has not joined */
    uint64_t need;  /* bytes of the collective that is beginning */
    uint32_t call;  /* which one it is */
};
/* Two buffers that the sender fills and the receiver empties in turn. */
struct hccl_channel {
    atomic_uint sent, taken; /* pieces */
    uint32_t length[2];
    uint64_t total[2]; /* bytes of the message the piece belongs to */
    _Alignas(64) char buffer[2][HCCL_CHANNEL];
};
struct hccl_sub { /* a communicator made from this one */
    atomic_uint ready;
    uint64_t id;
    int pid;
    uint32_t nonce;
};
struct hccl_shared {
    atomic_uint nranks, joined;
    atomic_uint arrived, meeting; /* of the barrier */
    atomic_int failure;           /* an aclError that ends every rank's work */
    struct hccl_rank rank[HCCL_MAX_RANKS];
    atomic_uint nsubs;
    struct hccl_sub sub[HCCL_SUBS];
    _Alignas(4096) char slot[HCCL_MAX_RANKS][HCCL_SLOT];
    struct hccl_channel channel[HCCL_MAX_RANKS][HCCL_MAX_RANKS]; /* [from][to] */
};
struct hccl_comm {
    uint32_t magic;
    atomic_int refs; /* the handle and every queued task */
    int n, rank, device;
    struct hccl_shared *shared;
    int fd; /* keeps the object findable for the others; -1 in ranks that did not make it */
    char name[128];
    pthread_mutex_t collective; /* one at a time */
    pthread_mutex_t sending[HCCL_MAX_RANKS], receiving[HCCL_MAX_RANKS];
    struct hccl_range *ranges;
};

struct hccl_comm *hccl_comm_of(void *handle);
void hccl_comm_unref(struct hccl_comm *c);
/* All ranks meet; 0 or an aclError (a rank died, the time limit, an aborted stream). */
int hccl_meet(struct hccl_comm *c);
/* 0 while the work may go on. Looks for dead ranks. deadline: rt_now_ns. */
int hccl_check(struct hccl_comm *c, uint64_t deadline);
/* Records the failure for all ranks and returns it. */
int hccl_give_up(struct hccl_comm *c, int code);
/* The time limit of HCCL_EXEC_TIMEOUT (seconds; 1836 if unset, 0: none) as a deadline. */
uint64_t hccl_deadline(void);
/* Records the message and returns an HcclResult. */
int hccl_fail(int result, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int hccl_result(int acl_error);

/* Bytes of an element, 0 for a type that does not exist. */
size_t hccl_size(int dtype);
/* dst[i] = src[0][i] op src[1][i] op ... in this order; half types are added up in f32 and rounded once. */
bool hccl_reduce(int dtype, int op, size_t n, void *dst, const void *const *src, int nsrc);

#endif
