/* lapack.h - factorisations of one column-major matrix, the same way for every type. Results are LAPACK's
 * info: 0, or what went wrong. Safe to call from any thread. */
#ifndef SOFTNPU_LAPACK_H
#define SOFTNPU_LAPACK_H

#include "softnpu/op/op.h"

struct lapack {
    aclDataType type, real; /* real: of singular values */
    /* a (n by n) becomes its LU factors. */
    int (*lu)(int n, void *a, int *pivot);
    int (*inverse)(int n, void *a, int *pivot);
    /* Cholesky factor in the upper or lower triangle; the other triangle keeps what it has. */
    int (*cholesky)(bool upper, int n, void *a);
    /* a (m by n, room for m by max(n, q)) becomes R above the diagonal with reflectors below and tau (min(m,
     * n)). */
    int (*qr)(int m, int n, void *a, void *tau);
    /* Reflectors of k columns become the first q columns of Q. */
    int (*make_q)(int m, int q, int k, void *a, const void *tau);
    /* a (m by n) = u diag(s) vt. job: 'N' singular values only, 'S' reduced, 'A' full. */
    int (*svd)(char job, int m, int n, void *a, void *s, void *u, void *vt);
    /* x = op(a)^-1 x, row major, x is n by columns. */
    void (*triangular)(bool upper, bool transpose, bool unit, int n, int columns, const void *a, void *x);
};
/* NULL unless type is FLOAT, DOUBLE, COMPLEX64 or COMPLEX128. */
const struct lapack *lapack_for(aclDataType type);

#endif
