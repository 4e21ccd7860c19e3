/* softnpu_hccl.c - collectives and messages among processes, and among devices of one process. */
#include "softnpu/hccl/comm.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

struct root {
    char bytes[4108];
};
struct item {
    int type;
    void *buffer;
    uint64_t count;
    int dtype;
    uint32_t peer;
};
int HcclGetRootInfo(struct root *info);
int HcclCommInitRootInfo(uint32_t n, const struct root *info, uint32_t rank, void **comm);
int HcclCommInitAll(uint32_t n, const int32_t *devices, void **comms);
int HcclCreateSubCommConfig(void **comm, uint32_t n, const uint32_t *ranks, uint64_t id, uint32_t rank,
                            const void *config, void **sub);
int HcclCommDestroy(void *comm);
int HcclGetCommAsyncError(void *comm, int *error);
int HcclAllReduce(void *send, void *recv, uint64_t count, int dtype, int op, void *comm, aclrtStream s);
int HcclReduce(void *send, void *recv, uint64_t count, int dtype, int op, uint32_t root, void *comm,
               aclrtStream s);
int HcclBroadcast(void *buffer, uint64_t count, int dtype, uint32_t root, void *comm, aclrtStream s);
int HcclAllGather(void *send, void *recv, uint64_t count, int dtype, void *comm, aclrtStream s);
int HcclReduceScatter(void *send, void *recv, uint64_t count, int dtype, int op, void *comm, aclrtStream s);
int HcclScatter(void *send, void *recv, uint64_t count, int dtype, uint32_t root, void *comm, aclrtStream s);
int HcclAlltoAll(const void *send, uint64_t n, int dtype, const void *recv, uint64_t m, int type, void *comm,
                 aclrtStream s);
int HcclAlltoAllV(const void *send, const uint64_t *n, const uint64_t *at, int dtype, const void *recv,
                  const uint64_t *m, const uint64_t *to, int type, void *comm, aclrtStream s);
int HcclSend(void *buffer, uint64_t count, int dtype, uint32_t to, void *comm, aclrtStream s);
int HcclRecv(void *buffer, uint64_t count, int dtype, uint32_t from, void *comm, aclrtStream s);
int HcclBatchSendRecv(struct item *items, uint32_t n, void *comm, aclrtStream s);
int HcclGroupStart(void);
int HcclGroupEnd(void);

enum { RANKS = 3, I32 = 2, F16 = 3, F32 = 4, SUM = 0, PROD = 1, MAX = 2, COUNT = 700001 };

#define CHECK(what)                                                                                          \
    do {                                                                                                     \
        if (!(what)) _exit(__LINE__ % 250 + 1);                                                              \
    } while (0)

/* One rank's world: the device's buffers and a host copy. */
static int me;
static void *comm;
static aclrtStream stream;
static int32_t *in, *out;
static int32_t host[RANKS * COUNT];

/* Element i of rank r's input. */
static int32_t value(int r, int64_t i)
{
    return (int32_t)(i * 7 % 1000 + r);
}

static void load(int64_t n)
{
    for (int64_t i = 0; i < n; i++) host[i] = value(me, i);
    CHECK(!aclrtMemcpy(in, (size_t)n * 4, host, (size_t)n * 4, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(!aclrtMemset(out, (size_t)n * 4, 0x55, (size_t)n * 4));
}

static void fetch(const void *from, int64_t n)
{
    CHECK(!aclrtSynchronizeStream(stream));
    CHECK(!aclrtMemcpy(host, (size_t)n * 4, from, (size_t)n * 4, ACL_MEMCPY_DEVICE_TO_HOST));
}

static int32_t sum_of(int64_t i)
{
    int32_t s = 0;
    for (int r = 0; r < RANKS; r++) s += value(r, i);
    return s;
}

static void reductions(void)
{
    load(COUNT);
    CHECK(!HcclAllReduce(in, out, COUNT, I32, SUM, comm, stream));
    fetch(out, COUNT);
    for (int i = 0; i < COUNT; i++) CHECK(host[i] == sum_of(i));
    load(COUNT);
    CHECK(!HcclAllReduce(in, in, COUNT, I32, MAX, comm, stream)); /* in place */
    fetch(in, COUNT);
    for (int i = 0; i < COUNT; i++) CHECK(host[i] == value(RANKS - 1, i));
    load(100);
    CHECK(!HcclReduce(in, out, 100, I32, SUM, 1, comm, stream));
    fetch(out, 100);
    for (int i = 0; i < 100; i++) CHECK(host[i] == (me == 1 ? sum_of(i) : 0x55555555));
    load(RANKS * 5000);
    CHECK(!HcclReduceScatter(in, out, 5000, I32, SUM, comm, stream));
    fetch(out, 5000);
    for (int i = 0; i < 5000; i++) CHECK(host[i] == sum_of(me * 5000 + i));
}

static void moves(void)
{
    load(COUNT);
    CHECK(!HcclBroadcast(in, COUNT, I32, 2, comm, stream));
    fetch(in, COUNT);
    for (int i = 0; i < COUNT; i++) CHECK(host[i] == value(2, i));
    load(COUNT);
    CHECK(!HcclAllGather(in, out, COUNT, I32, comm, stream));
    fetch(out, RANKS * COUNT);
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < COUNT; i++) CHECK(host[r * COUNT + i] == value(r, i));
    load(RANKS * 300);
    CHECK(!HcclScatter(in, out, 300, I32, 0, comm, stream));
    fetch(out, 300);
    for (int i = 0; i < 300; i++) CHECK(host[i] == value(0, me * 300 + i));
    load(RANKS * 200000);
    CHECK(!HcclAlltoAll(in, 200000, I32, out, 200000, I32, comm, stream));
    fetch(out, RANKS * 200000);
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < 200000; i++) CHECK(host[r * 200000 + i] == value(r, me * 200000 + i));
}

/* Rank a sends (a + 1) * (b + 1) elements to rank b, from places 1000 apart. */
static void uneven_moves(void)
{
    uint64_t n[RANKS], m[RANKS], at[RANKS];
    for (int r = 0; r < RANKS; r++) {
        n[r] = (uint64_t)((me + 1) * (r + 1));
        m[r] = (uint64_t)((me + 1) * (r + 1));
        at[r] = (uint64_t)r * 1000;
    }
    load(RANKS * 1000);
    CHECK(!HcclAlltoAllV(in, n, at, I32, out, m, at, I32, comm, stream));
    fetch(out, RANKS * 1000);
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < (int)m[r]; i++) CHECK(host[r * 1000 + i] == value(r, me * 1000 + i));
}

static void messages(void)
{
    load(COUNT);
    if (me == 0) CHECK(!HcclSend(in, COUNT, I32, 1, comm, stream) && !aclrtSynchronizeStream(stream));
    if (me == 1) {
        CHECK(!HcclRecv(out, COUNT, I32, 0, comm, stream));
        fetch(out, COUNT);
        for (int i = 0; i < COUNT; i++) CHECK(host[i] == value(0, i));
    }
    load(COUNT); /* a ring: with single messages larger than a channel it would stand still */
    uint32_t next = (uint32_t)((me + 1) % RANKS), before = (uint32_t)((me + RANKS - 1) % RANKS);
    struct item items[] = {{0, in, COUNT, I32, next}, {1, out, COUNT, I32, before}};
    CHECK(!HcclBatchSendRecv(items, 2, comm, stream));
    fetch(out, COUNT);
    for (int i = 0; i < COUNT; i++) CHECK(host[i] == value((int)before, i));
    load(COUNT);
    CHECK(!HcclGroupStart() && !HcclSend(in, COUNT, I32, next, comm, stream));
    CHECK(!HcclRecv(out, COUNT, I32, before, comm, stream) && !HcclGroupEnd());
    fetch(out, COUNT);
    for (int i = 0; i < COUNT; i++) CHECK(host[i] == value((int)before, i));
}

static void halves_round_once(void)
{
    /* 2048 + 1 + 1: in half steps it would stay 2048. */
    uint16_t mine[1] = {me ? 0x3C00 : 0x6800};
    CHECK(!aclrtMemcpy(in, 2, mine, 2, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(!HcclAllReduce(in, out, 1, F16, SUM, comm, stream));
    fetch(out, 1);
    CHECK((host[0] & 0xFFFF) == 0x6801);
}

static void part_of_the_ranks(void)
{
    uint32_t ranks[] = {2, 0};
    void *sub;
    if (me == 1) return;
    CHECK(!HcclCreateSubCommConfig(&comm, 2, ranks, 7, me == 2 ? 0 : 1, NULL, &sub));
    load(100);
    CHECK(!HcclAllReduce(in, out, 100, I32, SUM, sub, stream));
    fetch(out, 100);
    for (int i = 0; i < 100; i++) CHECK(host[i] == value(0, i) + value(2, i));
    CHECK(!HcclCommDestroy(sub));
}

static void refusals(void)
{
    CHECK(HcclAllReduce(in, out, 1, 99, SUM, comm, stream));
    CHECK(HcclBroadcast(in, 1, I32, RANKS, comm, stream));
    CHECK(HcclAllReduce(host, out, 1, I32, SUM, comm, stream));
    CHECK(HcclSend(in, 1, I32, RANKS, comm, stream));
    CHECK(HcclAllReduce(in, out, 1, I32, SUM, host, stream));
    CHECK(HcclGroupEnd());
}

static void open_rank(const struct root *root, int rank)
{
    me = rank;
    CHECK(!aclrtSetDevice(0) && !aclrtCreateStream(&stream));
    CHECK(!aclrtMalloc((void **)&in, sizeof host, 0) && !aclrtMalloc((void **)&out, sizeof host, 0));
    CHECK(!HcclCommInitRootInfo(RANKS, root, (uint32_t)rank, &comm));
}

static void work(const struct root *root, int rank)
{
    open_rank(root, rank);
    reductions();
    moves();
    uneven_moves();
    messages();
    halves_round_once();
    part_of_the_ranks();
    refusals();
    CHECK(!HcclCommDestroy(comm));
}

/* Rank 1 ends without a word: the others meet an error instead of waiting for ever. */
static void lose_a_rank(const struct root *root, int rank)
{
    open_rank(root, rank);
    if (rank == 1) _exit(0);
    int error = 0;
    CHECK(!HcclAllReduce(in, out, 10, I32, SUM, comm, stream));
    CHECK(aclrtSynchronizeStream(stream) == ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
    CHECK(!HcclGetCommAsyncError(comm, &error) && error == HCCL_E_REMOTE);
}

/* Rank 0's process makes the root info, as in torch; the others get it through shared memory. */
static void in_processes(void (*fn)(const struct root *root, int rank))
{
    struct root *root =
        mmap(NULL, sizeof *root + 8, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    volatile int *ready = (int *)(void *)(root + 1);
    pid_t child[RANKS];
    for (int r = 0; r < RANKS; r++) {
        child[r] = fork();
        if (child[r]) continue;
        if (!r) {
            CHECK(!HcclGetRootInfo(root));
            *ready = 1;
        }
        while (!*ready) usleep(1000);
        fn(root, r);
        _exit(0);
    }
    for (int r = 0; r < RANKS; r++) {
        int status;
        assert_int_equal(waitpid(child[r], &status, 0), child[r]);
        assert_int_equal(status, 0); /* otherwise: the line of the check, modulo 250 */
    }
    munmap(root, sizeof *root + 8);
}

static void ranks_in_processes(void **state)
{
    (void)state;
    in_processes(work);
}

static void a_rank_that_dies_is_noticed(void **state)
{
    (void)state;
    in_processes(lose_a_rank);
}

static void devices_of_one_process(void **state)
{
    (void)state;
    int32_t devices[] = {0, 1};
    void *comms[2], *buffer[2];
    aclrtStream s[2];
    float x[2] = {1.5f, 2.0f}, y;
    for (int d = 0; d < 2; d++) {
        assert_int_equal(aclrtSetDevice(d), 0);
        assert_int_equal(aclrtCreateStream(&s[d]), 0);
        assert_int_equal(aclrtMalloc(&buffer[d], 4, 0), 0);
        assert_int_equal(aclrtMemcpy(buffer[d], 4, &x[d], 4, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    }
    assert_int_equal(HcclCommInitAll(2, devices, comms), 0);
    for (int d = 0; d < 2; d++)
        assert_int_equal(HcclAllReduce(buffer[d], buffer[d], 1, F32, PROD, comms[d], s[d]), 0);
    for (int d = 0; d < 2; d++) {
        assert_int_equal(aclrtSynchronizeStream(s[d]), 0);
        assert_int_equal(aclrtMemcpy(&y, 4, buffer[d], 4, ACL_MEMCPY_DEVICE_TO_HOST), 0);
        assert_true(y == 3.0f);
        assert_int_equal(HcclCommDestroy(comms[d]), 0);
        assert_int_equal(aclrtResetDevice(d), 0);
    }
}

int main(void)
{
    setenv("SOFTNPU_DEVICES", "2", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_in_processes),
        cmocka_unit_test(a_rank_that_dies_is_noticed),
        cmocka_unit_test(devices_of_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
