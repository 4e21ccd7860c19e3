/* rows.h - expands a family's row file (OP_FILE) three times: parameter tables, exported functions, the row
 * table. No include guard: included once by each family file, after it defined OP_FILE and OP_TABLE. */
#include "softnpu/op/foreach.h"
#include "softnpu/op/accept.h"

/* Tables of macros, one a line. */
/* clang-format off */

/* C declaration, value and description of each kind. */
#define P_T(x) const aclTensor *x
#define P_T1(x) const aclTensor *x
#define P_TQ(x) const aclTensor *x
#define P_O(x) aclTensor *x
#define P_OQ(x) aclTensor *x
#define P_IO(x) aclTensor *x
#define P_S(x) const aclScalar *x
#define P_SQ(x) const aclScalar *x
#define P_IA(x) const aclIntArray *x
#define P_IAQ(x) const aclIntArray *x
#define P_BA(x) const aclBoolArray *x
#define P_BAQ(x) const aclBoolArray *x
#define P_FA(x) const aclFloatArray *x
#define P_FAQ(x) const aclFloatArray *x
#define P_TL(x) const aclTensorList *x
#define P_TLQ(x) const aclTensorList *x
#define P_OL(x) const aclTensorList *x
#define P_SL(x) const aclScalarList *x
#define P_I64(x) int64_t x
#define P_I32(x) int32_t x
#define P_I8(x) int8_t x
#define P_U64(x) uint64_t x
#define P_B(x) bool x
#define P_D(x) double x
#define P_F(x) float x
#define P_DT(x) aclDataType x
#define P_STR(x) const char *x
#define P_STRQ(x) const char *x

#define A_T(x) {.t = x}
#define A_T1(x) {.t = x}
#define A_TQ(x) {.t = x}
#define A_O(x) {.t = x}
#define A_OQ(x) {.t = x}
#define A_IO(x) {.t = x}
#define A_S(x) {.s = x}
#define A_SQ(x) {.s = x}
#define A_IA(x) {.ia = x}
#define A_IAQ(x) {.ia = x}
#define A_BA(x) {.ba = x}
#define A_BAQ(x) {.ba = x}
#define A_FA(x) {.fa = x}
#define A_FAQ(x) {.fa = x}
#define A_TL(x) {.tl = x}
#define A_TLQ(x) {.tl = x}
#define A_OL(x) {.tl = x}
#define A_SL(x) {.sl = x}
#define A_I64(x) {.i = x}
#define A_I32(x) {.i = x}
#define A_I8(x) {.i = x}
#define A_U64(x) {.i = (int64_t)(x)}
#define A_B(x) {.i = x}
#define A_D(x) {.d = x}
#define A_F(x) {.d = (double)(x)}
#define A_DT(x) {.i = x}
#define A_STR(x) {.str = x}
#define A_STRQ(x) {.str = x}

#define K_T(x) {#x, OPK_T}
#define K_T1(x) {#x, OPK_T1}
#define K_TQ(x) {#x, OPK_TQ}
#define K_O(x) {#x, OPK_O}
#define K_OQ(x) {#x, OPK_OQ}
#define K_IO(x) {#x, OPK_IO}
#define K_S(x) {#x, OPK_S}
#define K_SQ(x) {#x, OPK_SQ}
#define K_IA(x) {#x, OPK_IA}
#define K_IAQ(x) {#x, OPK_IAQ}
#define K_BA(x) {#x, OPK_BA}
#define K_BAQ(x) {#x, OPK_BAQ}
#define K_FA(x) {#x, OPK_FA}
#define K_FAQ(x) {#x, OPK_FAQ}
#define K_TL(x) {#x, OPK_TL}
#define K_TLQ(x) {#x, OPK_TLQ}
#define K_OL(x) {#x, OPK_OL}
#define K_SL(x) {#x, OPK_SL}
#define K_I64(x) {#x, OPK_I64}
#define K_I32(x) {#x, OPK_I32}
#define K_I8(x) {#x, OPK_I8}
#define K_U64(x) {#x, OPK_U64}
#define K_B(x) {#x, OPK_B}
#define K_D(x) {#x, OPK_D}
#define K_F(x) {#x, OPK_F}
#define K_DT(x) {#x, OPK_DT}
#define K_STR(x) {#x, OPK_STR}
#define K_STRQ(x) {#x, OPK_STRQ}

#define OP_PROTO(x) P_##x,
#define OP_VALUE(x) A_##x,
#define OP_PARAM(x) K_##x,

#define OP(name, args, check, run, aux) OPX(name, args, check, run, aux, 0)

/* 1: parameters, the row, the exported functions. The row is a static object so that the functions need no look-up.
 * A file that defines OP_INTERNAL holds operator types of the older path (aclop/): they are found by name only, and have
 * neither exported functions nor documented acceptance. */
#ifdef OP_INTERNAL
#define OPX(opname, args, check_, run_, aux_, flags_)                                                              \
    static const struct op_param params_##opname[] = {FOR_EACH(OP_PARAM, args)};                                   \
    static uint64_t launches_##opname;                                                                             \
    static const op_row row_##opname = {                                                                           \
        .name = #opname,                                                                                           \
        .param = params_##opname,                                                                                  \
        .nparam = sizeof params_##opname / sizeof *params_##opname,                                                \
        .check = check_,                                                                                           \
        .run = run_,                                                                                               \
        .aux = aux_,                                                                                               \
        .flags = flags_ | OPF_INTERNAL,                                                                            \
        .launches = &launches_##opname,                                                                            \
    };
#else
#define OPX(opname, args, check_, run_, aux_, flags_)                                                              \
    static const struct op_param params_##opname[] = {FOR_EACH(OP_PARAM, args)};                                   \
    _Static_assert(!ACCEPT_COUNT(opname) ||                                                                        \
                       ACCEPT_COUNT(opname) == sizeof params_##opname / sizeof *params_##opname,                   \
                   #opname ": accept.tsv has another number of arguments");                                        \
    static uint64_t launches_##opname;                                                                             \
    static const op_row row_##opname = {                                                                           \
        .name = #opname,                                                                                           \
        .param = params_##opname,                                                                                  \
        .accept = ACCEPT_ROW(opname),                                                                              \
        .nparam = sizeof params_##opname / sizeof *params_##opname,                                                \
        .check = check_,                                                                                           \
        .run = run_,                                                                                               \
        .aux = aux_,                                                                                               \
        .flags = flags_,                                                                                           \
        .launches = &launches_##opname,                                                                            \
    };                                                                                                             \
    ACL_EXPORT aclnnStatus opname##GetWorkspaceSize(FOR_EACH(OP_PROTO, args) uint64_t *workspaceSize,              \
                                                    aclOpExecutor **executor);                                     \
    ACL_EXPORT aclnnStatus opname(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,                \
                                  aclrtStream stream);                                                             \
    aclnnStatus opname##GetWorkspaceSize(FOR_EACH(OP_PROTO, args) uint64_t *workspaceSize,                         \
                                         aclOpExecutor **executor)                                                 \
    {                                                                                                              \
        const op_arg row_args[] = {FOR_EACH(OP_VALUE, args)};                                                        \
        return op_prepare(&row_##opname, row_args, workspaceSize, executor);                                         \
    }                                                                                                              \
    aclnnStatus opname(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream)       \
    {                                                                                                              \
        return op_launch(&row_##opname, workspace, workspaceSize, executor, stream);                               \
    }
#endif
#include OP_FILE
#undef OPX

/* 2: the table. */
extern const op_row *const OP_TABLE[];
#define OPX(opname, args, check_, run_, aux_, flags_) &row_##opname,
const op_row *const OP_TABLE[] = {
#include OP_FILE
    NULL};
#undef OPX
#undef OP
