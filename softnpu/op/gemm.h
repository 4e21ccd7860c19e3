/* gemm.h - matrix products in kernel memory: the host's BLAS for floats, our loops for integers, split over
 * the pool. */
#ifndef SOFTNPU_GEMM_H
#define SOFTNPU_GEMM_H

#include "softnpu/op/op.h"

/* A matrix, or a batch of them. Element (i, j) of the batch index x lies at p + i*rs + j*cs + sum(x[d]*bs[d])
 * elements. */
struct mat {
    void *p;
    int64_t rs, cs;
    int64_t bs[SN_MAX_DIMS];
};

/* c = alpha a b + beta c for every batch index. a is m by k, b is k by n. Each matrix has unit stride in rows
 * or in columns (mat_in, mat_out see to it). beta 0 never reads c. sum: c is one matrix, the products of all
 * batch indices are added up. Integers wrap; BOOL is "or" of "and". */
struct gemm {
    aclDataType type; /* FLOAT, DOUBLE, COMPLEX64, COMPLEX128, an integer type or BOOL; BF16: see gemm_bf16 */
    int64_t m, n, k;
    int32_t nbatch; /* batch dimensions */
    int64_t bdim[SN_MAX_DIMS];
    struct mat a, b, c;
    double _Complex alpha, beta;
    int64_t ialpha, ibeta; /* the same for integers */
    bool sum;
};
bool gemm_has(aclDataType type); /* products of this type can be computed */
/* True when products of bfloat16 are worth computing on the numbers themselves: then type BF16 is allowed,
 * without sum. Sums are floats, c is rounded once. */
bool gemm_bf16(int64_t m, int64_t n, int64_t k);
void gemm_init(struct gemm *g, aclDataType type, int64_t m, int64_t n, int64_t k);
/* Split over the pool; pieces depend on the sizes only. */
void gemm_run(op_call *c, const struct gemm *g);
/* On the calling thread (for kernels that split the work themselves): no batch, no sum. */
void gemm_serial(const struct gemm *g);

/* The last two dimensions of t as matrices of type `as`: t's own bytes where type and strides allow,
 * transposed or not; otherwise a copy. bs gets t's other dimensions, 0 where t is broadcast. round: values
 * are rounded as the cube unit does for this cube math type when the device is asked to (SOFTNPU_HF32=1). */
void mat_in(op_call *c, const aclTensor *t, aclDataType as, int cube_math, struct mat *m);
/* The same for an output. scratch: never t's own bytes. mat_out_done stores a scratch matrix into t. */
void mat_out(op_call *c, const aclTensor *t, aclDataType as, bool scratch, struct mat *m);
void mat_out_done(op_call *c, const aclTensor *t, aclDataType as, const struct mat *m);
/* HF32 or f16 rounding of n floats where cube_math and the settings ask for it. */
bool cube_rounds(int cube_math);
void cube_round(float *x, int64_t n, int cube_math);

/* The numeric library takes a bounded number of concurrent callers (blas.c): every call of it stands between
 * these. */
int blas_block_rows(void); /* fewest rows of a product that are worth a call of their own */
void blas_enter(void);
void blas_leave(void);

#endif
