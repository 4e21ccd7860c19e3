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

/* ---- which kernels ----------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdlib.h>
#include <string.h>

int __real_gotoblas_dynamic_init(void);
int __wrap_gotoblas_dynamic_init(void);

/* AMD family 19h: Zen 3 and 4. Zen 4 runs 512-bit instructions in two halves, and OpenBLAS's 256-bit Zen
 * kernels measure 10 % faster there than the AVX-512 ones that it picks. */
static bool is_zen(void)
{
    unsigned a, b = 0, c = 0, d = 0;
    if (!__get_cpuid(0, &a, &b, &c, &d) || b != 0x68747541 || d != 0x69746e65 || c != 0x444d4163)
        return false;
    __get_cpuid(1, &a, &b, &c, &d);
    return (a >> 8 & 15) == 15 && (a >> 20 & 255) == 10;
}

/* Asked once: the instruction is slow in a virtual machine. */
static bool prefers_zen(void)
{
    static int known; /* 1: no, 2: yes */
    int k = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!k) __atomic_store_n(&known, k = is_zen() ? 2 : 1, __ATOMIC_RELAXED);
    return k == 2;
}

/* Runs once, from the library's constructor. A choice that the user made stands. */
int __wrap_gotoblas_dynamic_init(void)
{
    static const char choice[] = "OPENBLAS_CORETYPE";
    bool ours = !getenv(choice) && prefers_zen();
    if (ours) setenv(choice, "Zen", 1);
    int rc = __real_gotoblas_dynamic_init();
    if (ours) unsetenv(choice);
    return rc;
}

/* AVX-512 kernels need more rows before packing pays. */
int blas_block_rows(void)
{
    return prefers_zen() ? 128 : 256;
}
#else
int blas_block_rows(void)
{
    return 128;
}
#endif

/* ---- bounded entry ----------------------------------------------------------------------------------- */

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

/* ---- Fortran ----------------------------------------------------------------------------------------- */

/* The one function of the Fortran run-time library that LAPACK's routines call: a // b into a blank-padded
 * string. */
void _gfortran_concat_string(size_t n, char *to, size_t na, const char *a, size_t nb, const char *b);
void _gfortran_concat_string(size_t n, char *to, size_t na, const char *a, size_t nb, const char *b)
{
    for (size_t i = 0; i < n; i++) to[i] = i < na ? a[i] : i - na < nb ? b[i - na] : ' ';
}
