/* dtype.c - data type traits and the promotion rules of PyTorch (torch.promote_types, torch.result_type). */
#include "softnpu/tensor/tensor.h"

#define ROW(id, name_, short_, size_, kind_, compute_, common_)                                              \
    [id] = {.name = name_,                                                                                   \
            .short_name = short_,                                                                            \
            .size = size_,                                                                                   \
            .kind = kind_,                                                                                   \
            .compute = compute_,                                                                             \
            .common = common_}

#define HOLE(id) ROW(id, "?", "?", 0, SN_NONE, ACL_DT_UNDEFINED, -1)

const struct sn_dtype sn_dtypes[SN_NDTYPES] = {
    ROW(ACL_FLOAT, "FLOAT", "f32", 4, SN_FLOAT, ACL_FLOAT, 0),
    ROW(ACL_FLOAT16, "FLOAT16", "f16", 2, SN_FLOAT, ACL_FLOAT, 1),
    ROW(ACL_BF16, "BFLOAT16", "bf16", 2, SN_FLOAT, ACL_FLOAT, 2),
    ROW(ACL_DOUBLE, "DOUBLE", "f64", 8, SN_FLOAT, ACL_DOUBLE, 3),
    ROW(ACL_INT8, "INT8", "i8", 1, SN_INT, ACL_INT8, 4),
    ROW(ACL_INT16, "INT16", "i16", 2, SN_INT, ACL_INT16, 5),
    ROW(ACL_INT32, "INT32", "i32", 4, SN_INT, ACL_INT32, 6),
    ROW(ACL_INT64, "INT64", "i64", 8, SN_INT, ACL_INT64, 7),
    ROW(ACL_UINT8, "UINT8", "u8", 1, SN_UINT, ACL_UINT8, 8),
    ROW(ACL_BOOL, "BOOL", "bool", 1, SN_BOOL, ACL_BOOL, 9),
    ROW(ACL_COMPLEX64, "COMPLEX64", "c64", 8, SN_COMPLEX, ACL_COMPLEX64, 10),
    ROW(ACL_COMPLEX128, "COMPLEX128", "c128", 16, SN_COMPLEX, ACL_COMPLEX128, 11),
    ROW(ACL_UINT16, "UINT16", "u16", 2, SN_UINT, ACL_UINT16, -1),
    ROW(ACL_UINT32, "UINT32", "u32", 4, SN_UINT, ACL_UINT32, -1),
    ROW(ACL_UINT64, "UINT64", "u64", 8, SN_UINT, ACL_UINT64, -1),
    ROW(ACL_COMPLEX32, "COMPLEX32", "c32", 4, SN_COMPLEX, ACL_COMPLEX64, -1),
    ROW(ACL_HIFLOAT8, "HIFLOAT8", "hif8", 1, SN_NONE, ACL_HIFLOAT8, -1),
    ROW(ACL_FLOAT8_E5M2, "FLOAT8_E5M2", "f8e5m2", 1, SN_NONE, ACL_FLOAT8_E5M2, -1),
    ROW(ACL_FLOAT8_E4M3FN, "FLOAT8_E4M3FN", "f8e4m3fn", 1, SN_NONE, ACL_FLOAT8_E4M3FN, -1),
    ROW(ACL_FLOAT8_E8M0, "FLOAT8_E8M0", "f8e8m0", 1, SN_NONE, ACL_FLOAT8_E8M0, -1),
    /* not byte sized, or not a number: known by name only */
    ROW(ACL_STRING, "STRING", "string", 0, SN_NONE, ACL_DT_UNDEFINED, -1),
    ROW(ACL_INT4, "INT4", "i4", 0, SN_NONE, ACL_DT_UNDEFINED, -1),
    ROW(ACL_UINT1, "UINT1", "u1", 0, SN_NONE, ACL_DT_UNDEFINED, -1),
    ROW(ACL_FLOAT4_E2M1, "FLOAT4_E2M1", "f4e2m1", 0, SN_NONE, ACL_DT_UNDEFINED, -1),
    HOLE(SN_HOLE),
    HOLE(14),
    HOLE(15),
    HOLE(18),
    HOLE(19),
    HOLE(20),
    HOLE(21),
    HOLE(22),
    HOLE(23),
    HOLE(24),
    HOLE(25),
    HOLE(26),
    HOLE(28),
    HOLE(31),
    HOLE(32),
    HOLE(38),
    HOLE(39),
};
_Static_assert(ACL_FLOAT4_E2M1 + 1 == SN_NDTYPES, "a data type beyond the table");

/* Precision of a floating or complex type among its kind; bf16 has no complex twin and counts as f32 there.
 */
static int complex_level(aclDataType t)
{
    switch (t) {
    case ACL_FLOAT16:
    case ACL_COMPLEX32:
        return 1;
    case ACL_BF16:
    case ACL_FLOAT:
    case ACL_COMPLEX64:
        return 2;
    case ACL_DOUBLE:
    case ACL_COMPLEX128:
        return 3;
    default:
        return 0;
    }
}

static aclDataType promote_complex(aclDataType a, aclDataType b)
{
    static const aclDataType of_level[] = {ACL_COMPLEX64, ACL_COMPLEX32, ACL_COMPLEX64, ACL_COMPLEX128};
    int la = complex_level(a), lb = complex_level(b);
    return of_level[la > lb ? la : lb];
}

static aclDataType promote_float(aclDataType a, aclDataType b)
{
    if (!sn_is_float(a)) return b;
    if (!sn_is_float(b)) return a;
    if (sn_size(a) == 2 && sn_size(b) == 2) return ACL_FLOAT;
    return sn_size(a) > sn_size(b) ? a : b;
}

static aclDataType promote_integer(aclDataType a, aclDataType b)
{
    const struct sn_dtype *da = sn_dtype(a), *db = sn_dtype(b);
    if (da->common < 0 || db->common < 0) return ACL_DT_UNDEFINED; /* u16, u32, u64 promote with nothing */
    if (da->kind == SN_BOOL) return b;
    if (db->kind == SN_BOOL) return a;
    if (da->kind == db->kind) return da->size > db->size ? a : b;
    aclDataType s = da->kind == SN_INT ? a : b;
    return sn_size(s) > 1 ? s : ACL_INT16;
}

aclDataType sn_promote(aclDataType a, aclDataType b)
{
    int ka = sn_dtype(a)->kind, kb = sn_dtype(b)->kind;
    if (a == b) return a;
    if (ka == SN_NONE || kb == SN_NONE) return ACL_DT_UNDEFINED;
    if (ka == SN_COMPLEX || kb == SN_COMPLEX) return promote_complex(a, b);
    if (ka == SN_FLOAT || kb == SN_FLOAT) return promote_float(a, b);
    return promote_integer(a, b);
}

static int category(int kind)
{
    static const int of_kind[] = {
        [SN_NONE] = 0, [SN_BOOL] = 1, [SN_UINT] = 2, [SN_INT] = 2, [SN_FLOAT] = 3, [SN_COMPLEX] = 4};
    return of_kind[kind];
}

aclDataType sn_promote_scalar(aclDataType tensor, const aclScalar *s)
{
    int ct = category(sn_dtype(tensor)->kind), cs = category(sn_dtype(s->dtype)->kind);
    if (ct == 0 || cs <= ct) return tensor;
    if (cs == 4) return promote_complex(tensor, tensor);
    return cs == 3 ? ACL_FLOAT : ACL_INT64;
}

bool sn_can_cast(aclDataType from, aclDataType to)
{
    int cf = category(sn_dtype(from)->kind), ct = category(sn_dtype(to)->kind);
    if (cf == 0 || ct == 0) return from == to;
    if (cf == 4) return ct == 4;
    if (cf == 3) return ct >= 3;
    return ct > 1 || cf == 1;
}
