/* vmath.c - vector mathematics: SLEEF's functions of this variant's width, the C library's as twin. */
#include "softnpu/kernel/vmath.h"
#include "softnpu/kernel/vexp.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/* Vector bytes and the name that SLEEF gives the instruction set. */
#if defined(KERNEL_VARIANT_avx512)
#define BYTES 64
#define F32_NAME(fn, ulp) "Sleef_" #fn "f16_" #ulp "avx512f"
#define F64_NAME(fn, ulp) "Sleef_" #fn "d8_" #ulp "avx512f"
#elif defined(KERNEL_VARIANT_avx2)
#define BYTES 32
#define F32_NAME(fn, ulp) "Sleef_" #fn "f8_" #ulp "avx2"
#define F64_NAME(fn, ulp) "Sleef_" #fn "d4_" #ulp "avx2"
#elif defined(__x86_64__)
#define BYTES 16
#define F32_NAME(fn, ulp) "Sleef_" #fn "f4_" #ulp "sse2"
#define F64_NAME(fn, ulp) "Sleef_" #fn "d2_" #ulp "sse2"
#else
#define BYTES 16
#define F32_NAME(fn, ulp) "Sleef_" #fn "f4_" #ulp "advsimd"
#define F64_NAME(fn, ulp) "Sleef_" #fn "d2_" #ulp "advsimd"
#endif

typedef float vf32 __attribute__((vector_size(BYTES)));
typedef double vf64 __attribute__((vector_size(BYTES)));
enum { LANES_F32 = BYTES / 4, LANES_F64 = BYTES / 8 };

static struct {
    pthread_once_t once;
    vf32 (*f32[VM_COUNT1])(vf32);
    vf64 (*f64[VM_COUNT1])(vf64);
    vf32 (*f32_2[VM_COUNT2])(vf32, vf32);
    vf64 (*f64_2[VM_COUNT2])(vf64, vf64);
} vector = {.once = PTHREAD_ONCE_INIT};

/* A function pointer out of dlsym's object pointer. */
static void take(void *to, const char *name)
{
    void *p = vmath_symbol(name);
    memcpy(to, &p, sizeof p);
}

#define TAKE1(id, fn, ulp)                                                                                   \
    take(&vector.f32[VM_##id], F32_NAME(fn, ulp));                                                           \
    take(&vector.f64[VM_##id], F64_NAME(fn, ulp));
#define TAKE2(id, fn, ulp)                                                                                   \
    take(&vector.f32_2[VM_##id], F32_NAME(fn, ulp));                                                         \
    take(&vector.f64_2[VM_##id], F64_NAME(fn, ulp));
static void load(void)
{
    VMATH1(TAKE1)
    VMATH2(TAKE2)
}

#define TWIN_F32(id, fn, ulp) [VM_##id] = fn##f,
#define TWIN_F64(id, fn, ulp) [VM_##id] = fn,
static float (*const twin_f32[VM_COUNT1])(float) = {VMATH1(TWIN_F32)};
static double (*const twin_f64[VM_COUNT1])(double) = {VMATH1(TWIN_F64)};
static float (*const twin_f32_2[VM_COUNT2])(float, float) = {VMATH2(TWIN_F32)};
static double (*const twin_f64_2[VM_COUNT2])(double, double) = {VMATH2(TWIN_F64)};

/* The last elements go through a vector padded with ones, a value on which every function is quick. */
#define LOOP1(name, scalar, vtype, lanes, fns, twins)                                                        \
    static void name(enum vmath1 f, int64_t n, const scalar *in, scalar *out)                                \
    {                                                                                                        \
        pthread_once(&vector.once, load);                                                                    \
        vtype (*call)(vtype) = vector.fns[f];                                                                \
        int64_t i = 0;                                                                                       \
        vtype v;                                                                                             \
        if (!call) {                                                                                         \
            for (; i < n; i++) out[i] = twins[f](in[i]);                                                     \
            return;                                                                                          \
        }                                                                                                    \
        for (; i + lanes <= n; i += lanes) {                                                                 \
            memcpy(&v, in + i, sizeof v);                                                                    \
            v = call(v);                                                                                     \
            memcpy(out + i, &v, sizeof v);                                                                   \
        }                                                                                                    \
        if (i == n) return;                                                                                  \
        v = (vtype){0} + 1;                                                                                  \
        memcpy(&v, in + i, (size_t)(n - i) * sizeof *in);                                                    \
        v = call(v);                                                                                         \
        memcpy(out + i, &v, (size_t)(n - i) * sizeof *in);                                                   \
    }
LOOP1(loop_f32, float, vf32, LANES_F32, f32, twin_f32)
LOOP1(loop_f64, double, vf64, LANES_F64, f64, twin_f64)

#define LOOP2(name, scalar, vtype, lanes, fns, twins)                                                        \
    static void name(enum vmath2 f, int64_t n, const scalar *a, const scalar *b, scalar *out)                \
    {                                                                                                        \
        pthread_once(&vector.once, load);                                                                    \
        vtype (*call)(vtype, vtype) = vector.fns[f];                                                         \
        int64_t i = 0;                                                                                       \
        vtype va, vb;                                                                                        \
        if (!call) {                                                                                         \
            for (; i < n; i++) out[i] = twins[f](a[i], b[i]);                                                \
            return;                                                                                          \
        }                                                                                                    \
        for (; i + lanes <= n; i += lanes) {                                                                 \
            memcpy(&va, a + i, sizeof va);                                                                   \
            memcpy(&vb, b + i, sizeof vb);                                                                   \
            va = call(va, vb);                                                                               \
            memcpy(out + i, &va, sizeof va);                                                                 \
        }                                                                                                    \
        if (i == n) return;                                                                                  \
        va = vb = (vtype){0} + 1;                                                                            \
        memcpy(&va, a + i, (size_t)(n - i) * sizeof *a);                                                     \
        memcpy(&vb, b + i, (size_t)(n - i) * sizeof *b);                                                     \
        va = call(va, vb);                                                                                   \
        memcpy(out + i, &va, (size_t)(n - i) * sizeof *a);                                                   \
    }
LOOP2(loop_f32_2, float, vf32, LANES_F32, f32_2, twin_f32_2)
LOOP2(loop_f64_2, double, vf64, LANES_F64, f64_2, twin_f64_2)

#define SIGMOID(name, scalar, exponential)                                                                   \
    static void name(int64_t n, const scalar *in, scalar *out)                                               \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) out[i] = -in[i];                                                     \
        exponential(VM_EXP, n, out, out);                                                                    \
        for (int64_t i = 0; i < n; i++) out[i] = 1 / (1 + out[i]);                                           \
    }
SIGMOID(sigmoid_f64, double, loop_f64)

static void sigmoid_f32(int64_t n, const float *in, float *out)
{
    int64_t i = 0;
    for (; i + VF_N <= n; i += VF_N) {
        vf v = -VF_LOAD(in + i);
        vf_exp(&v);
        VF_STORE(out + i, 1 / (1 + v));
    }
    if (i == n) return;
    vf v = {0};
    memcpy(&v, in + i, (size_t)(n - i) * sizeof *in);
    v = -v;
    vf_exp(&v);
    v = 1 / (1 + v);
    memcpy(out + i, &v, (size_t)(n - i) * sizeof *in);
}

const struct vmath_kernels KV(vmath_kernels) = {
    .f32 = loop_f32,
    .f64 = loop_f64,
    .f32_2 = loop_f32_2,
    .f64_2 = loop_f64_2,
    .sigmoid_f32 = sigmoid_f32,
    .sigmoid_f64 = sigmoid_f64,
};
