/* blas.c - makes the host's single-threaded BLAS safe to call from many threads.
 *
 * OpenBLAS built without threads claims its work buffers with no lock: two callers may get the same one, and
 * the results are wrong. Every call of its allocator is therefore linked to ours (the linker's --wrap), which
 * hands out the library's own buffers under a lock. */
#include "softnpu/op/gemm.h"

#include <pthread.h>

void *__real_blas_memory_alloc(int where);
void *__wrap_blas_memory_alloc(int where);
void __wrap_blas_memory_free(void *buffer);

/* The library's table has 50 places or more, a caller takes at most two. */
enum { BLAS_CALLERS = 24, BUFFERS = 2 * BLAS_CALLERS };

static pthread_mutex_t buffers_lock = PTHREAD_MUTEX_INITIALIZER;
static void *spare[BUFFERS];
static int spares;

void *__wrap_blas_memory_alloc(int where)
{
    pthread_mutex_lock(&buffers_lock);
    void *p = spares ? spare[--spares] : __real_blas_memory_alloc(where);
    pthread_mutex_unlock(&buffers_lock);
    return p;
}

/* Buffers are kept for the next caller: there are never more than BUFFERS. */
void __wrap_blas_memory_free(void *buffer)
{
    pthread_mutex_lock(&buffers_lock);
    spare[spares++] = buffer;
    pthread_mutex_unlock(&buffers_lock);
}

/* ---- bounded entry
 * ----------------------------------------------------------------------------------------------- */

static pthread_mutex_t blas_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t blas_freed = PTHREAD_COND_INITIALIZER;
static int blas_inside;
static int blas_waiting;

static bool blas_try(void)
{
    int n = __atomic_load_n(&blas_inside, __ATOMIC_SEQ_CST);
    while (n < BLAS_CALLERS)
        if (__atomic_compare_exchange_n(&blas_inside, &n, n + 1, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return true;
    return false;
}

void blas_enter(void)
{
    if (blas_try()) return;
    pthread_mutex_lock(&blas_lock);
    __atomic_add_fetch(&blas_waiting, 1, __ATOMIC_SEQ_CST);
    while (!blas_try()) pthread_cond_wait(&blas_freed, &blas_lock);
    __atomic_sub_fetch(&blas_waiting, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&blas_lock);
}

void blas_leave(void)
{
    __atomic_sub_fetch(&blas_inside, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&blas_waiting, __ATOMIC_SEQ_CST)) return;
    pthread_mutex_lock(&blas_lock);
    pthread_cond_signal(&blas_freed);
    pthread_mutex_unlock(&blas_lock);
}

/* ---- Fortran
 * ------------------------------------------------------------------------------------------------------- */

/* The one function of the Fortran run-time library that LAPACK's routines call: a // b into a blank-padded
 * string. */
void _gfortran_concat_string(size_t n, char *to, size_t na, const char *a, size_t nb, const char *b);
void _gfortran_concat_string(size_t n, char *to, size_t na, const char *a, size_t nb, const char *b)
{
    for (size_t i = 0; i < n; i++) to[i] = i < na ? a[i] : i - na < nb ? b[i - na] : ' ';
}
