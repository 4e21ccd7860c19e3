/* lapack.c - LAPACK's factorisations, one table per type. */
#include "softnpu/op/lapack.h"
#include "softnpu/op/blas.h"
#include "softnpu/op/gemm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The Fortran routines are built in many ways, some with static local arrays: one at a time. */
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;

static void enter(void)
{
    blas_enter();
    pthread_mutex_lock(&one);
}
static void leave(void)
{
    pthread_mutex_unlock(&one);
    blas_leave();
}

static void *work_space(size_t bytes)
{
    void *p = malloc(bytes + 64);
    if (!p) abort();
    return p;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}
static int most(int a, int b)
{
    return a > b ? a : b;
}

/* Block size times columns is what every blocked routine here asks for at most. */
enum { BLOCK = 64 };

#define LAPACK_TYPE(T, x, org)                                                                               \
    static int lu_##x(int n, void *a, int *pivot)                                                            \
    {                                                                                                        \
        int info, ld = most(n, 1);                                                                           \
        enter();                                                                                             \
        x##getrf_(&n, &n, a, &ld, pivot, &info);                                                             \
        leave();                                                                                             \
        return info;                                                                                         \
    }                                                                                                        \
    static int inverse_##x(int n, void *a, int *pivot)                                                       \
    {                                                                                                        \
        int info, ld = most(n, 1), room = BLOCK * most(n, 1);                                                \
        T *work = work_space((size_t)room * sizeof *work);                                                   \
        enter();                                                                                             \
        x##getrf_(&n, &n, a, &ld, pivot, &info);                                                             \
        if (!info) x##getri_(&n, a, &ld, pivot, work, &room, &info);                                         \
        leave();                                                                                             \
        free(work);                                                                                          \
        return info;                                                                                         \
    }                                                                                                        \
    static int cholesky_##x(bool upper, int n, void *a)                                                      \
    {                                                                                                        \
        int info, ld = most(n, 1);                                                                           \
        enter();                                                                                             \
        x##potrf_(upper ? "U" : "L", &n, a, &ld, &info, 1);                                                  \
        leave();                                                                                             \
        return info;                                                                                         \
    }                                                                                                        \
    static int qr_##x(int m, int n, void *a, void *tau)                                                      \
    {                                                                                                        \
        int info, ld = most(m, 1), room = BLOCK * most(n, 1);                                                \
        T *work = work_space((size_t)room * sizeof *work);                                                   \
        enter();                                                                                             \
        x##geqrf_(&m, &n, a, &ld, tau, work, &room, &info);                                                  \
        leave();                                                                                             \
        free(work);                                                                                          \
        return info;                                                                                         \
    }                                                                                                        \
    static int make_q_##x(int m, int q, int k, void *a, const void *tau)                                     \
    {                                                                                                        \
        int info, ld = most(m, 1), room = BLOCK * most(q, 1);                                                \
        T *work = work_space((size_t)room * sizeof *work);                                                   \
        enter();                                                                                             \
        org##_(&m, &q, &k, a, &ld, tau, work, &room, &info);                                                 \
        leave();                                                                                             \
        free(work);                                                                                          \
        return info;                                                                                         \
    }
LAPACK_TYPE(float, s, sorgqr)
LAPACK_TYPE(double, d, dorgqr)
LAPACK_TYPE(float _Complex, c, cungqr)
LAPACK_TYPE(double _Complex, z, zungqr)

/* Complex routines take real work space besides: five k (min + 2 max) is the documented need. */
#define SVD(T, R, x, EXTRA)                                                                                  \
    static int svd_##x(char job, int m, int n, void *a, void *s, void *u, void *vt)                          \
    {                                                                                                        \
        int k = least(m, n), info, ask = -1, ldm = most(m, 1), ldvt = most(job == 'S' ? k : n, 1);           \
        T size = 0;                                                                                          \
        int *ints = work_space(8 * (size_t)k * sizeof *ints);                                                \
        R *reals = work_space((size_t)(5 * k + 7) * (size_t)(k + 2 * most(m, n) + 1) * sizeof *reals);       \
        enter();                                                                                             \
        x##gesdd_(&job, &m, &n, a, &ldm, s, u, &ldm, vt, &ldvt, &size, &ask, EXTRA ints, &info, 1);          \
        int room = (int)creal(size) + 1;                                                                     \
        T *work = work_space((size_t)room * sizeof *work);                                                   \
        x##gesdd_(&job, &m, &n, a, &ldm, s, u, &ldm, vt, &ldvt, work, &room, EXTRA ints, &info, 1);          \
        leave();                                                                                             \
        free(work);                                                                                          \
        free(reals);                                                                                         \
        free(ints);                                                                                          \
        return info;                                                                                         \
    }
SVD(float, float, s, )
SVD(double, double, d, )
#define WITH_REALS reals,
SVD(float _Complex, float, c, WITH_REALS)
SVD(double _Complex, double, z, WITH_REALS)

#define TRIANGULAR(x, T, ONE)                                                                                \
    static void triangular_##x(bool upper, bool transpose, bool unit, int n, int columns, const void *a,     \
                               void *v)                                                                      \
    {                                                                                                        \
        T alpha = 1;                                                                                         \
        blas_enter();                                                                                        \
        cblas_##x##trsm(BLAS_ROW_MAJOR, BLAS_LEFT, upper ? BLAS_UPPER : BLAS_LOWER,                          \
                        transpose ? BLAS_TRANS : BLAS_NO_TRANS, unit ? BLAS_UNIT : BLAS_NON_UNIT, n,         \
                        columns, ONE, a, most(n, 1), v, most(columns, 1));                                   \
        blas_leave();                                                                                        \
    }
TRIANGULAR(s, float, alpha)
TRIANGULAR(d, double, alpha)
TRIANGULAR(c, float _Complex, &alpha)
TRIANGULAR(z, double _Complex, &alpha)

#define LAPACK_ROW(id, real, x)                                                                              \
    {id, real, lu_##x, inverse_##x, cholesky_##x, qr_##x, make_q_##x, svd_##x, triangular_##x},
static const struct lapack table[] = {
    LAPACK_ROW(ACL_FLOAT, ACL_FLOAT, s) LAPACK_ROW(ACL_DOUBLE, ACL_DOUBLE, d)
        LAPACK_ROW(ACL_COMPLEX64, ACL_FLOAT, c) LAPACK_ROW(ACL_COMPLEX128, ACL_DOUBLE, z)};

const struct lapack *lapack_for(aclDataType type)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].type == type) return &table[i];
    return NULL;
}
