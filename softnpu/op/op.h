/* op.h - operators are rows.
 *
 * One row per operator in a family's table (softnpu/op/<family>.inc):
 *
 *     OP(aclnnAdd, (T(self), T(other), S(alpha), O(out)), check_binary, run_binary, &binary_add)
 *
 * From the row come the two exported functions (aclnnAddGetWorkspaceSize, aclnnAdd), the argument checks
 * (161001 for a null, 161002 for a dtype or rank that the device refuses), the launch count, the trace and
 * the coverage table. What the device accepts stands in accept.tsv, one line an argument, keyed by operator
 * and argument name index.
 *
 * A family file looks like this (binary.c):
 *
 *     #include "softnpu/op/op.h"
 *     static int check_binary(op_call *c) ... static int run_binary(op_call *c) ...
 *     #define OP_FILE "softnpu/op/binary.inc"
 *     #define OP_TABLE op_rows_binary
 *     #include "softnpu/op/rows.h"
 *
 * and its name stands once in families.inc: FAMILY(binary).
 */
#ifndef SOFTNPU_OP_H
#define SOFTNPU_OP_H

#include "softnpu/runtime/runtime.h"
#include "softnpu/tensor/tensor.h"

/* clang-format off */
/* ---- argument kinds: how they are written in a row, and their C type in the exported function ----------
 *  T(x)   const aclTensor *   input            TQ(x)  the same, may be null
 *  T1(x)  const aclTensor *   a value in a tensor (a seed, say): at least one element
 *  O(x)   aclTensor *         output           OQ(x)  the same, may be null
 *  IO(x)  aclTensor *         input and output (in-place operators' selfRef)
 *  S(x)   const aclScalar *                    SQ(x)  may be null
 *  IA(x)  const aclIntArray *                  IAQ(x) may be null
 *  BA(x)  const aclBoolArray *                 BAQ(x) may be null
 *  FA(x)  const aclFloatArray *                FAQ(x) may be null
 *  TL(x)  const aclTensorList *  input list; null means empty (torch_npu passes null for an empty list)
 *  TLQ(x) the same, its elements may be null
 *  OL(x)  const aclTensorList *  output list; null means empty
 *  SL(x)  const aclScalarList *                null means empty
 *  I64(x) int64_t   I32(x) int32_t   I8(x) int8_t   U64(x) uint64_t   B(x) bool   D(x) double   F(x) float
 *  DT(x)  aclDataType
 *  STR(x) const char * (copied)            STRQ(x) may be null
 */
enum op_kind {
    OPK_T, OPK_T1, OPK_TQ, OPK_O, OPK_OQ, OPK_IO, OPK_S, OPK_SQ, OPK_IA, OPK_IAQ, OPK_BA, OPK_BAQ, OPK_FA, OPK_FAQ,
    OPK_TL, OPK_TLQ, OPK_OL, OPK_SL, OPK_I64, OPK_I32, OPK_I8, OPK_U64, OPK_B, OPK_D, OPK_F, OPK_DT, OPK_STR,
    OPK_STRQ
};
/* clang-format on */
static inline bool op_is_tensor_list(int kind)
{
    return kind >= OPK_TL && kind <= OPK_OL;
}

/* Argument values. In phase 1 and 2 the executor holds its own copies: pointers in a call stay valid until it
 * ends. */
typedef union op_arg {
    const aclTensor *t; /* T T1 TQ O OQ IO */
    const aclScalar *s;
    const aclIntArray *ia;
    const aclBoolArray *ba;
    const aclFloatArray *fa;
    const aclTensorList *tl; /* TL TLQ OL; never NULL inside a call (n == 0 for an empty list) */
    const aclScalarList *sl; /* never NULL inside a call */
    int64_t i;               /* I64 I32 I8 U64 B DT */
    double d;                /* D F */
    const char *str;
} op_arg;

struct op_param {
    const char *name;
    uint8_t kind;
};

/* What the device accepts for one tensor argument (all elements of a list). */
struct op_accept {
    uint64_t dtypes; /* bit per aclDataType; 0: documents are silent, anything goes */
    int8_t rank_lo, rank_hi;
};

typedef struct op_call op_call;
typedef struct op_row {
    const char *name;
    const struct op_param *param;
    const struct op_accept *accept; /* one per parameter, NULL if accept.tsv has no line for the operator */
    int nparam;
    int (*check)(op_call *c); /* phase 1, caller's thread: shapes, values, promotion. NULL: none. */
    int (*run)(op_call *c);   /* phase 2, stream order: does the work. Returns 0 or an error code. */
    const void *aux;          /* what distinguishes rows that share functions */
    unsigned flags;
    uint64_t *launches; /* calls that ran to their end; atomic */
} op_row;

enum op_flags {
    /* run writes the out tensors' real view shape (Nonzero, MaskedSelect, Unique*): X runs it to the end
     * before it returns, with `out` being the caller's own objects (op_out_shape) */
    OPF_SYNC_SHAPE = 1,
    OPF_BIG = 2,      /* never worth running on the launching thread */
    OPF_NOCHECK = 4,  /* check does all dtype checks itself (accept.tsv not applied) */
    OPF_INTERNAL = 8, /* an operator type of the older path (aclop/), which has no exported functions */
};

struct op_call {
    const op_row *row;
    op_arg arg[48];
    int64_t plan[8]; /* free for check to leave things to run (promoted dtype, flags, sizes) */
    int64_t work;    /* estimate of bytes touched: filled from tensor sizes, check may raise it */
    struct aclOpExecutor *ex;
};

/* Fails phase 1 or 2: records "<op>: <message>" and returns code, e.g.
 *   return op_fail(c, ACLNN_ERR_PARAM_INVALID, "self %s and other %s do not broadcast", ...); */
int op_fail(const op_call *c, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Checks used by many families; 0 or 161002 with a message. Arguments by index. */
/* arg has exactly this shape */
int op_need_shape(const op_call *c, int arg, const int64_t *dim, int32_t rank);
int op_need_same_shape(const op_call *c, int a, int b);
int op_need_same_dtype(const op_call *c, int a, int b);
int op_need_cast(const op_call *c, aclDataType from, int out_arg);
/* Elements of a tensor of these sizes, into n; 161002 if one is negative or they are too many. */
int op_need_numel(const op_call *c, int arg, const aclIntArray *size, int64_t *n);
/* dim normalised to [0, rank) (rank 0 counts as 1); 161002 if outside. */
int op_need_dim(const op_call *c, int64_t dim, int32_t rank, int32_t *out);

/* ---- in run ------------------------------------------------------------------------------------------ */

/* 64-byte aligned memory that lives until the call ends (stream's arena; never NULL: ends the process when
 * out). */
void *op_scratch(op_call *c, size_t bytes);
/* t's elements as contiguous dtype `as`, row-major, in kernel memory: t's own bytes when it is that already,
 * else scratch. */
void *op_in(op_call *c, const aclTensor *t, aclDataType as);
/* A contiguous buffer of dtype `as` for the output t: t's own bytes when possible, else scratch. After
 * computing, op_out_done stores it into t (cast, strided). own=false forces scratch (when inputs may overlap
 * the output). */
void *op_out(op_call *c, const aclTensor *t, aclDataType as);
void *op_out_scratch(op_call *c, const aclTensor *t, aclDataType as);
void op_out_done(op_call *c, const aclTensor *t, aclDataType as, const void *buffer);
/* dst = src with broadcast and cast, strided both sides, overlap-safe (a temporary is taken when needed). */
void op_copy(op_call *c, const aclTensor *dst, const aclTensor *src);
/* OPF_SYNC_SHAPE only: sets the view shape of the caller's object for argument i (and of this call's copy).
 */
void op_out_shape(op_call *c, int arg, int32_t rank, const int64_t *dim);

/* ---- the block engine: elementwise work on any dtype, layout and overlap --------------------------------
 *
 * fn sees contiguous blocks of up to EW_BLOCK elements: p[0..nout) outputs, then inputs, each already of the
 * type `as`. The engine broadcasts the inputs to the first output's shape, coalesces dimensions, converts
 * blocks from and to the tensors' own dtypes (no copy where layout and dtype already fit), takes a temporary
 * when an input overlaps the output without being the same view, and splits the work over the pool. A scalar
 * operand: t NULL, scalar set; it is broadcast. An operand that is broadcast along the block comes as a
 * filled block. index: linear element index (in the output's row-major order) of the block's first element,
 * for random numbers. */
enum { EW_BLOCK = 1024, EW_MAX = 10 };
struct ew_operand {
    const aclTensor *t;
    aclDataType as;
    const aclScalar *scalar;
};
typedef void (*ew_fn)(int64_t n, void *const *p, int64_t index, const void *ctx);
int ew_run(op_call *c, const struct ew_operand *operand, int nout, int nin, ew_fn fn, const void *ctx);

/* ---- the mechanism behind rows.h --------------------------------------------------------------------- */

int op_prepare(const op_row *row, const op_arg *args, uint64_t *workspace_size, aclOpExecutor **executor);
int op_launch(const op_row *row, void *workspace, uint64_t workspace_size, aclOpExecutor *executor,
              aclrtStream stream);
/* The row of an operator by name, NULL if there is none. Rows of all families, for docs and tests. */
const op_row *op_find(const char *name);
int op_count(void);
const op_row *op_at(int i);
/* Launches so far, by row; total over all rows. */
uint64_t op_launches(const op_row *row);
uint64_t op_launches_total(void);

#endif
