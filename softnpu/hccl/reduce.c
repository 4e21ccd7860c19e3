/* reduce.c - element types of collectives and their reductions. */
#include "softnpu/hccl/comm.h"
#include "softnpu/kernel/half.h"

enum { SUM, PROD, MAX, MIN };

#define SAME(x) (x)
#define FOLD(T, ACC, LOAD, STORE, EXPRESSION)                                                                \
    for (size_t i = 0; i < n; i++) {                                                                         \
        ACC a = (ACC)LOAD(((const T *)src[0])[i]);                                                           \
        for (int r = 1; r < nsrc; r++) {                                                                     \
            ACC b = (ACC)LOAD(((const T *)src[r])[i]);                                                       \
            a = (ACC)(EXPRESSION);                                                                           \
        }                                                                                                    \
        ((T *)dst)[i] = (T)STORE(a);                                                                         \
    }

/* Integers are added and multiplied without sign, so that they wrap; CMP is the type that they are compared
 * in. */
#define REDUCER(name, T, ACC, CMP, LOAD, STORE)                                                              \
    static bool reduce_##name(int op, size_t n, void *dst, const void *const *src, int nsrc)                 \
    {                                                                                                        \
        switch (op) {                                                                                        \
        case SUM:                                                                                            \
            FOLD(T, ACC, LOAD, STORE, a + b) return true;                                                    \
        case PROD:                                                                                           \
            FOLD(T, ACC, LOAD, STORE, a *b) return true;                                                     \
        case MAX:                                                                                            \
            FOLD(T, CMP, LOAD, STORE, a > b || a != a ? a : b) return true;                                  \
        case MIN:                                                                                            \
            FOLD(T, CMP, LOAD, STORE, a < b || a != a ? a : b) return true;                                  \
        }                                                                                                    \
        return false;                                                                                        \
    }

REDUCER(i8, int8_t, uint64_t, int64_t, SAME, SAME)
REDUCER(i16, int16_t, uint64_t, int64_t, SAME, SAME)
REDUCER(i32, int32_t, uint64_t, int64_t, SAME, SAME)
REDUCER(i64, int64_t, uint64_t, int64_t, SAME, SAME)
REDUCER(u8, uint8_t, uint64_t, uint64_t, SAME, SAME)
REDUCER(u16, uint16_t, uint64_t, uint64_t, SAME, SAME)
REDUCER(u32, uint32_t, uint64_t, uint64_t, SAME, SAME)
REDUCER(u64, uint64_t, uint64_t, uint64_t, SAME, SAME)
REDUCER(f16, uint16_t, float, float, f16_to_f32, f32_to_f16)
REDUCER(bf16, uint16_t, float, float, bf16_to_f32, f32_to_bf16)
REDUCER(f32, float, float, float, SAME, SAME)
REDUCER(f64, double, double, double, SAME, SAME)

/* By HcclDataType. Types without a reducer are moved only. */
static const struct {
    size_t size;
    bool (*reduce)(int op, size_t n, void *dst, const void *const *src, int nsrc);
} types[] = {
    [0] = {1, reduce_i8},  [1] = {2, reduce_i16}, [2] = {4, reduce_i32},  [3] = {2, reduce_f16},
    [4] = {4, reduce_f32}, [5] = {8, reduce_i64}, [6] = {8, reduce_u64},  [7] = {1, reduce_u8},
    [8] = {2, reduce_u16}, [9] = {4, reduce_u32}, [10] = {8, reduce_f64}, [11] = {2, reduce_bf16},
    [12] = {16, NULL},     [14] = {1, NULL},      [15] = {1, NULL},       [16] = {1, NULL},
    [17] = {1, NULL},
};

size_t hccl_size(int dtype)
{
    return dtype >= 0 && (size_t)dtype < sizeof types / sizeof *types ? types[dtype].size : 0;
}

bool hccl_reduce(int dtype, int op, size_t n, void *dst, const void *const *src, int nsrc)
{
    return hccl_size(dtype) && types[dtype].reduce && types[dtype].reduce(op, n, dst, src, nsrc);
}
