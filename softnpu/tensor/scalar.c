/* scalar.c - values of scalars: created wide, read as any type. */
#include "softnpu/tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

/* A complex value without arithmetic: x + I*y would turn an infinite part into NaN. */
static double _Complex make_complex(double re, double im)
{
    union {
        double part[2];
        double _Complex c;
    } u = {{re, im}};
    return u.c;
}

static aclDataType wide_type(aclDataType t)
{
    switch (sn_dtype(t)->kind) {
    case SN_BOOL:
        return ACL_BOOL;
    case SN_INT:
    case SN_UINT:
        return ACL_INT64;
    case SN_FLOAT:
        return ACL_DOUBLE;
    case SN_COMPLEX:
        return ACL_COMPLEX128;
    default:
        return ACL_DT_UNDEFINED;
    }
}

aclScalar *aclCreateScalar(void *value, aclDataType dtype)
{
    aclDataType wide = wide_type(dtype);
    if (!value || wide == ACL_DT_UNDEFINED) return NULL;
    aclScalar *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->dtype = wide;
    if (wide == dtype)
        memcpy(&s->v, value, sn_size(dtype));
    else
        sn_convert(&s->v, wide, value, dtype, 1);
    return s;
}

aclnnStatus aclDestroyScalar(const aclScalar *s)
{
    free((void *)(uintptr_t)s);
    return ACLNN_SUCCESS;
}

double sn_scalar_f64(const aclScalar *s)
{
    double out;
    sn_convert(&out, ACL_DOUBLE, &s->v, s->dtype, 1);
    return out;
}

int64_t sn_scalar_i64(const aclScalar *s)
{
    int64_t out;
    sn_convert(&out, ACL_INT64, &s->v, s->dtype, 1);
    return out;
}

double _Complex sn_scalar_c128(const aclScalar *s)
{
    return s->dtype == ACL_COMPLEX128 ? s->v.c : make_complex(sn_scalar_f64(s), 0);
}

void sn_scalar_store(const aclScalar *s, aclDataType t, void *out)
{
    sn_convert(out, t, &s->v, s->dtype, 1);
}
