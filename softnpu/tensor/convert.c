/* convert.c - sn_convert: any data type to any other, composed of the kernels' direct loops.
 *
 * The 16-bit floating types go through f32 and the complex types through their parts, as torch's own
 * conversions do. */
#include "softnpu/kernel/convert.h"
#include "softnpu/tensor/tensor.h"

#include <string.h>

enum { CHUNK = 512 };

static int direct(aclDataType t)
{
    static const int8_t of_type[SN_NDTYPES] = {
        [ACL_BOOL] = CONV_BOOL + 1,  [ACL_UINT8] = CONV_U8 + 1,   [ACL_INT8] = CONV_I8 + 1,
        [ACL_INT16] = CONV_I16 + 1,  [ACL_INT32] = CONV_I32 + 1,  [ACL_INT64] = CONV_I64 + 1,
        [ACL_UINT16] = CONV_U16 + 1, [ACL_UINT32] = CONV_U32 + 1, [ACL_UINT64] = CONV_U64 + 1,
        [ACL_FLOAT] = CONV_F32 + 1,  [ACL_DOUBLE] = CONV_F64 + 1,
    };
    return of_type[t] - 1;
}

/* src is f16, bf16 or c32: one step up to its compute type. */
static void widen(void *dst, const void *src, aclDataType st, int64_t n)
{
    const struct convert_kernels *k = convert_kernels();
    if (st == ACL_BF16)
        k->bf16_to_f32(dst, src, n);
    else
        k->f16_to_f32(dst, src, st == ACL_COMPLEX32 ? 2 * n : n);
}

static void narrow(void *dst, aclDataType dt, const void *src, int64_t n)
{
    const struct convert_kernels *k = convert_kernels();
    if (dt == ACL_BF16)
        k->f32_to_bf16(dst, src, n);
    else
        k->f32_to_f16(dst, src, dt == ACL_COMPLEX32 ? 2 * n : n);
}

/* Complex to complex, to bool, or to its real part when dt is neither. */
static void from_complex(void *dst, aclDataType dt, const void *src, aclDataType st, int64_t n)
{
    const struct convert_kernels *k = convert_kernels();
    bool single = st == ACL_COMPLEX64;
    if (sn_is_complex(dt)) {
        int to = dt == ACL_COMPLEX64 ? CONV_F32 : CONV_F64;
        k->real[to][single ? CONV_F32 : CONV_F64](dst, src, 2 * n);
    } else if (dt == ACL_BOOL) {
        (single ? k->c64_to_bool : k->c128_to_bool)(dst, src, n);
    } else {
        (single ? k->c64_to_f32 : k->c128_to_f64)(dst, src, n);
    }
}

static void to_complex(void *dst, aclDataType dt, const void *src, int64_t n)
{
    const struct convert_kernels *k = convert_kernels();
    (dt == ACL_COMPLEX64 ? k->f32_to_c64 : k->f64_to_c128)(dst, src, n);
}

static void chunk(void *dst, aclDataType dt, const void *src, aclDataType st, int64_t n)
{
    _Alignas(64) char step[CHUNK * 16];
    if (st == dt) {
        memcpy(dst, src, (size_t)n * sn_size(dt));
    } else if (sn_compute(st) != st) {
        bool last = sn_compute(st) == dt;
        widen(last ? dst : step, src, st, n);
        if (!last) chunk(dst, dt, step, sn_compute(st), n);
    } else if (sn_compute(dt) != dt) {
        bool first = sn_compute(dt) == st;
        if (!first) chunk(step, sn_compute(dt), src, st, n);
        narrow(dst, dt, first ? src : step, n);
    } else if (sn_is_complex(st)) {
        aclDataType real = sn_size(st) == 8 ? ACL_FLOAT : ACL_DOUBLE;
        bool last = sn_is_complex(dt) || dt == ACL_BOOL || dt == real;
        from_complex(last ? dst : step, dt, src, st, n);
        if (!last) chunk(dst, dt, step, real, n);
    } else if (sn_is_complex(dt)) {
        aclDataType real = dt == ACL_COMPLEX64 ? ACL_FLOAT : ACL_DOUBLE;
        if (st != real) chunk(step, real, src, st, n);
        to_complex(dst, dt, st == real ? src : step, n);
    } else {
        convert_kernels()->real[direct(dt)][direct(st)](dst, src, n);
    }
}

void sn_convert(void *dst, aclDataType dt, const void *src, aclDataType st, int64_t n)
{
    if (st == dt) {
        memmove(dst, src, (size_t)n * sn_size(dt));
        return;
    }
    if (direct(st) >= 0 && direct(dt) >= 0) {
        convert_kernels()->real[direct(dt)][direct(st)](dst, src, n);
        return;
    }
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = n - i < CHUNK ? n - i : CHUNK;
        chunk((char *)dst + (size_t)i * sn_size(dt), dt, (const char *)src + (size_t)i * sn_size(st), st, m);
    }
}
