/* variant.h - kernels are compiled once per CPU variant; KV(name) gives this compilation's symbol.
 *
 * A kernel file exports one constant table, e.g. `const struct binary_kernels KV(binary_kernels) = {...};`,
 * everything else in it is static. The rest of the device reaches it through KERNEL_PICK(binary_kernels),
 * which chooses by CPU features. */
#ifndef SOFTNPU_VARIANT_H
#define SOFTNPU_VARIANT_H

#define KV_PASTE2(a, b) a##_##b
#define KV_PASTE(a, b) KV_PASTE2(a, b)
#ifdef KERNEL_VARIANT
#define KV(name) KV_PASTE(name, KERNEL_VARIANT)
#endif

enum kernel_variant { KERNEL_BASE, KERNEL_AVX2, KERNEL_AVX512 };
/* The best variant of this machine; SOFTNPU_KERNEL=base|avx2|avx512 lowers it. Decided once. */
enum kernel_variant kernel_variant(void);

/* Declares the table's variants and defines `static const struct type *name(void)` that picks one. */
#if defined(__x86_64__) && !defined(KERNEL_BASE_ONLY)
#define KERNEL_PICK(type)                                                                                    \
    extern const struct type type##_base, type##_avx2, type##_avx512;                                        \
    static inline const struct type *type(void)                                                              \
    {                                                                                                        \
        enum kernel_variant v = kernel_variant();                                                            \
        return v == KERNEL_AVX512 ? &type##_avx512 : v == KERNEL_AVX2 ? &type##_avx2 : &type##_base;         \
    }
#else
#define KERNEL_PICK(type)                                                                                    \
    extern const struct type type##_base;                                                                    \
    static inline const struct type *type(void)                                                              \
    {                                                                                                        \
        return &type##_base;                                                                                 \
    }
#endif

#endif
