/* random.h - random numbers as a pure function of (seed, offset, element index).
 *
 * Philox4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). Block b of
 * a stream is the cipher of the counter (b, offset) under the key `seed`; a block holds four 32-bit words.
 * Element i of a 32-bit distribution uses word i % 4 of block i / 4, of a 64-bit one words 2*(i % 2) and the
 * next of block i / 2. Thread counts, layouts and CPU variants therefore never change a number.
 */
#ifndef SOFTNPU_KERNEL_RANDOM_H
#define SOFTNPU_KERNEL_RANDOM_H

#include "softnpu/kernel/variant.h"
#include <stdint.h>

struct random_stream {
    uint64_t seed, offset;
};

struct random_kernels {
    /* out[i] = word begin + i of the stream. */
    void (*words)(uint32_t *out, int64_t begin, int64_t n, struct random_stream s);
    /* Elements begin .. begin + n of the standard distributions. bits: how many bits of a uniform number are
     * random (24 for f32, 11 for f16, 8 for bf16): the largest is then 1 - 2^-bits, which is a number of that
     * type. */
    void (*uniform_f32)(float *out, int64_t begin, int64_t n, struct random_stream s, int bits); /* [0, 1) */
    void (*uniform_f64)(double *out, int64_t begin, int64_t n, struct random_stream s);          /* [0, 1) */
    void (*normal_f32)(float *out, int64_t begin, int64_t n,
                       struct random_stream s); /* mean 0, deviation 1 */
    void (*normal_f64)(double *out, int64_t begin, int64_t n, struct random_stream s);
    void (*exponential_f32)(float *out, int64_t begin, int64_t n,
                            struct random_stream s); /* rate 1, never 0 */
    void (*exponential_f64)(double *out, int64_t begin, int64_t n, struct random_stream s);
    /* Integers in [0, range), range 0 standing for 2^64. */
    void (*bounded)(uint64_t *out, int64_t begin, int64_t n, struct random_stream s, uint64_t range);
    /* Bit i % 8 of byte i / 8 is 1 with probability keep / 2^32; bytes whole, begin a multiple of 8, n bytes.
     */
    void (*bits)(uint8_t *out, int64_t begin, int64_t n, struct random_stream s, uint64_t keep);
};
KERNEL_PICK(random_kernels)

#endif
