/* blas.h - the entry points of the host's BLAS and LAPACK that the device uses (netlib's interfaces, 32-bit
 * integers). */
#ifndef SOFTNPU_BLAS_H
#define SOFTNPU_BLAS_H

#include <stddef.h>

enum {
    BLAS_ROW_MAJOR = 101,
    BLAS_NO_TRANS = 111,
    BLAS_TRANS = 112,
    BLAS_UPPER = 121,
    BLAS_LOWER = 122,
    BLAS_NON_UNIT = 131,
    BLAS_UNIT = 132,
    BLAS_LEFT = 141,
};

void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc);
void cblas_dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                 const double *b, int ldb, double beta, double *c, int ldc);
void cblas_cgemm(int order, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int lda,
                 const void *b, int ldb, const void *beta, void *c, int ldc);
void cblas_zgemm(int order, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int lda,
                 const void *b, int ldb, const void *beta, void *c, int ldc);
void cblas_sgemv(int order, int ta, int m, int n, float alpha, const float *a, int lda, const float *x,
                 int incx, float beta, float *y, int incy);
void cblas_dgemv(int order, int ta, int m, int n, double alpha, const double *a, int lda, const double *x,
                 int incx, double beta, double *y, int incy);
void cblas_strsm(int order, int side, int uplo, int ta, int diag, int m, int n, float alpha, const float *a,
                 int lda, float *b, int ldb);
void cblas_dtrsm(int order, int side, int uplo, int ta, int diag, int m, int n, double alpha, const double *a,
                 int lda, double *b, int ldb);
void cblas_ctrsm(int order, int side, int uplo, int ta, int diag, int m, int n, const void *alpha,
                 const void *a, int lda, void *b, int ldb);
void cblas_ztrsm(int order, int side, int uplo, int ta, int diag, int m, int n, const void *alpha,
                 const void *a, int lda, void *b, int ldb);

/* LAPACK, column major. x: s, d, c, z; org: the routine that makes Q (sorgqr, cungqr). */
#define LAPACK_ROUTINES(x, org)                                                                              \
    void x##getrf_(const int *m, const int *n, void *a, const int *lda, int *pivot, int *info);              \
    void x##getri_(const int *n, void *a, const int *lda, const int *pivot, void *work, const int *lwork,    \
                   int *info);                                                                               \
    void x##potrf_(const char *uplo, const int *n, void *a, const int *lda, int *info, size_t uplo_len);     \
    void x##geqrf_(const int *m, const int *n, void *a, const int *lda, void *tau, void *work,               \
                   const int *lwork, int *info);                                                             \
    void org##_(const int *m, const int *n, const int *k, void *a, const int *lda, const void *tau,          \
                void *work, const int *lwork, int *info);
LAPACK_ROUTINES(s, sorgqr)
LAPACK_ROUTINES(d, dorgqr)
LAPACK_ROUTINES(c, cungqr)
LAPACK_ROUTINES(z, zungqr)
void sgesdd_(const char *job, const int *m, const int *n, void *a, const int *lda, void *s, void *u,
             const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork, int *iwork, int *info,
             size_t job_len);
void dgesdd_(const char *job, const int *m, const int *n, void *a, const int *lda, void *s, void *u,
             const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork, int *iwork, int *info,
             size_t job_len);
void cgesdd_(const char *job, const int *m, const int *n, void *a, const int *lda, void *s, void *u,
             const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork, void *rwork, int *iwork,
             int *info, size_t job_len);
void zgesdd_(const char *job, const int *m, const int *n, void *a, const int *lda, void *s, void *u,
             const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork, void *rwork, int *iwork,
             int *info, size_t job_len);

#endif
