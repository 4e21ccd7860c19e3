/* softnpu_random.c - the generator against its published test vectors; distributions, ranges, masks,
 * permutations. Every bound is many standard deviations wide and every stream is fixed, so no test can fail
 * by chance. */
#include "softnpu_testing.h"
#include "softnpu_keep.h"

#include "softnpu/kernel/random.h"

#include <math.h>

TEST_OP(aclnnInplaceUniform, aclTensor *, double, double, int64_t, int64_t)
TEST_OP(aclnnInplaceNormal, aclTensor *, float, float, int64_t, int64_t)
TEST_OP(aclnnInplaceNormalTensor, aclTensor *, float, float, const aclTensor *, const aclTensor *, uint64_t)
TEST_OP(aclnnNormalTensorFloat, const aclTensor *, float, int64_t, int64_t, aclTensor *)
TEST_OP(aclnnInplaceRandom, aclTensor *, int64_t, int64_t, uint64_t, uint64_t)
TEST_OP(aclnnInplaceBernoulli, aclTensor *, const aclScalar *, uint64_t, uint64_t)
TEST_OP(aclnnSimThreadExponential, aclTensor *, int64_t, double, int64_t, int64_t)
TEST_OP(aclnnRandperm, int64_t, uint64_t, uint64_t, aclTensor *)
TEST_OP(aclnnMultinomial, const aclTensor *, int64_t, bool, uint64_t, uint64_t, aclTensor *)
TEST_OP(aclnnDropoutGenMaskV2, const aclIntArray *, double, int64_t, int64_t, aclDataType, aclTensor *)
TEST_OP(aclnnDropoutDoMask, const aclTensor *, const aclTensor *, double, aclTensor *)

enum { N = 1 << 17 };
static aclTensor *blank(aclDataType t, int64_t n)
{
    return test_tensor(t, 1, &n);
}

struct moments {
    double mean, deviation, least, most;
};
static struct moments moments(const aclTensor *t)
{
    struct moments m = {0, 0, INFINITY, -INFINITY};
    int64_t n = sn_numel(t);
    for (int64_t i = 0; i < n; i++) {
        double x = test_at(t, i);
        m.mean += x / (double)n;
        m.least = fmin(m.least, x);
        m.most = fmax(m.most, x);
    }
    for (int64_t i = 0; i < n; i++) m.deviation += pow(test_at(t, i) - m.mean, 2) / (double)(n - 1);
    m.deviation = sqrt(m.deviation);
    return m;
}
static void assert_near(double x, double want, double within)
{
    if (!(fabs(x - want) <= within)) fail_msg("%g is not within %g of %g", x, within, want);
}

/* ---- the generator ----------------------------------------------------------------------------------- */

/* Test vectors published with the generator (Random123, kat_vectors): counter, key, output. */
static void published_vectors(void **state)
{
    (void)state;
    uint32_t w[4];
    random_kernels()->words(w, 0, 4, (struct random_stream){0, 0});
    assert_int_equal(w[0], 0x6627e8d5);
    assert_int_equal(w[1], 0xe169c58d);
    assert_int_equal(w[2], 0xbc57ac4c);
    assert_int_equal(w[3], 0x9b00dbd8);
}

static void words_do_not_depend_on_where_a_run_begins(void **state)
{
    (void)state;
    uint32_t all[300], part[300];
    struct random_stream s = {42, 7};
    random_kernels()->words(all, 0, 300, s);
    for (int begin = 0; begin < 70; begin++) {
        random_kernels()->words(part, begin, 230, s);
        assert_memory_equal(part, all + begin, 230 * sizeof *part);
    }
}

static void normals_do_not_depend_on_where_a_run_begins(void **state)
{
    (void)state;
    float all[300], part[300];
    double wide[100], one;
    struct random_stream s = {42, 7};
    random_kernels()->normal_f32(all, 0, 300, s);
    random_kernels()->normal_f64(wide, 0, 100, s);
    for (int begin = 0; begin < 70; begin++) {
        random_kernels()->normal_f32(part, begin, 230, s);
        assert_memory_equal(part, all + begin, 230 * sizeof *part);
        random_kernels()->normal_f64(&one, begin, 1, s);
        assert_true(one == wide[begin]);
    }
}

static void seed_and_offset_matter(void **state)
{
    (void)state;
    aclTensor *a = blank(ACL_FLOAT, 1000), *b = blank(ACL_FLOAT, 1000);
    const int64_t streams[][2] = {{1, 0}, {1, 10}, {2, 0}, {1LL << 40, 0}, {1, 1LL << 40}};
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++) {
            assert_int_equal(TEST_CALL(aclnnInplaceUniform, a, 0, 1, streams[i][0], streams[i][1]), 0);
            assert_int_equal(TEST_CALL(aclnnInplaceUniform, b, 0, 1, streams[j][0], streams[j][1]), 0);
            int same = 0;
            for (int k = 0; k < 1000; k++) same += test_at(a, k) == test_at(b, k);
            assert_true(i == j ? same == 1000 : same < 5);
        }
}

static void layout_does_not_matter(void **state)
{
    (void)state;
    void *storage = test_alloc(70 * 50 * 4 * 3);
    aclTensor *plain = test_tensor(ACL_FLOAT, 2, (int64_t[]){50, 70});
    aclTensor *odd = test_view(storage, ACL_FLOAT, 2, (int64_t[]){50, 70}, (int64_t[]){3, 150}, 2);
    assert_int_equal(TEST_CALL(aclnnInplaceNormal, plain, 0, 1, 3, 0), 0);
    assert_int_equal(TEST_CALL(aclnnInplaceNormal, odd, 0, 1, 3, 0), 0);
    for (int i = 0; i < 50; i++)
        for (int j = 0; j < 70; j++)
            assert_true(((float *)sn_data(odd))[i * 3 + j * 150] == ((float *)sn_data(plain))[i * 70 + j]);
}

/* ---- distributions ----------------------------------------------------------------------------------- */

static void uniform_of_every_type(void **state)
{
    (void)state;
    static const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE};
    for (int k = 0; k < 4; k++) {
        aclTensor *t = blank(types[k], N);
        assert_int_equal(TEST_CALL(aclnnInplaceUniform, t, 0, 1, 5, 0), 0);
        struct moments m = moments(t);
        assert_true(m.least >= 0 && m.most < 1);
        assert_near(m.mean, 0.5, 0.005);
        assert_near(m.deviation, sqrt(1 / 12.0), 0.003);
        /* in bf16, 256 and 258 are neighbours: rounding must not reach `to` */
        assert_int_equal(TEST_CALL(aclnnInplaceUniform, t, 256, 258, 5, 0), 0);
        m = moments(t);
        assert_true(m.least >= 256 && m.most < 258);
        assert_int_equal(TEST_CALL(aclnnInplaceUniform, t, -3, 2, 5, 0), 0);
        assert_near(moments(t).mean, -0.5, 0.03);
    }
    aclTensor *t = blank(ACL_FLOAT, 8);
    assert_int_equal(TEST_CALL(aclnnInplaceUniform, t, 1, 0, 5, 0), ACLNN_ERR_PARAM_INVALID);
}

static void normal_of_every_type(void **state)
{
    (void)state;
    static const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE};
    for (int k = 0; k < 4; k++) {
        aclTensor *t = blank(types[k], N);
        assert_int_equal(TEST_CALL(aclnnInplaceNormal, t, 3, 2, 11, 0), 0);
        struct moments m = moments(t);
        assert_near(m.mean, 3, 0.04);
        assert_near(m.deviation, 2, 0.03);
        int within = 0, near = 0;
        for (int64_t i = 0; i < N; i++) {
            within += fabs(test_at(t, i) - 3) < 4;
            near += fabs(test_at(t, i) - 3) < 2;
        }
        assert_near((double)within / N, 0.9545, 0.005);
        assert_near((double)near / N, 0.6827, 0.01);
        assert_true(m.most > 3 + 2 * 3.8 && m.most < 3 + 2 * 6.5);
    }
}

static void normal_neighbours_are_independent(void **state)
{
    (void)state;
    aclTensor *t = blank(ACL_FLOAT, N);
    assert_int_equal(TEST_CALL(aclnnInplaceNormal, t, 0, 1, 12, 0), 0);
    for (int lag = 1; lag <= 4; lag++) {
        double sum = 0;
        for (int64_t i = lag; i < N; i++) sum += test_at(t, i) * test_at(t, i - lag) / N;
        assert_near(sum, 0, 0.015);
    }
}

static void normal_with_a_tensor_of_means(void **state)
{
    (void)state;
    const double means[] = {-100, 0, 100, 1000};
    aclTensor *mean = test_values(ACL_FLOAT, 4, means),
              *out = test_tensor(ACL_FLOAT, 2, (int64_t[]){1000, 4});
    assert_int_equal(TEST_CALL(aclnnNormalTensorFloat, mean, 1, 1, 0, out), 0);
    for (int64_t i = 0; i < 4000; i++) assert_near(test_at(out, i), means[i % 4], 6);
}

static void seeds_in_tensors(void **state)
{
    (void)state;
    const double seed = 9, offset = 4;
    aclTensor *a = blank(ACL_FLOAT, 100), *b = blank(ACL_FLOAT, 100);
    aclTensor *s = test_values(ACL_INT64, 1, &seed), *o = test_values(ACL_INT64, 1, &offset);
    assert_int_equal(TEST_CALL(aclnnInplaceNormal, a, 0, 1, 9, 10), 0);
    assert_int_equal(TEST_CALL(aclnnInplaceNormalTensor, b, 0, 1, s, o, 6), 0);
    assert_memory_equal(sn_data(a), sn_data(b), 100 * sizeof(float));
}

static void integers(void **state)
{
    (void)state;
    aclTensor *t = blank(ACL_INT64, N);
    int count[10] = {0};
    assert_int_equal(TEST_CALL(aclnnInplaceRandom, t, -3, 7, 1, 0), 0);
    for (int64_t i = 0; i < N; i++) count[(int)test_at(t, i) + 3]++;
    for (int k = 0; k < 10; k++) assert_near(count[k], N / 10.0, 6 * sqrt(N / 10.0));
    assert_int_equal(TEST_CALL(aclnnInplaceRandom, t, INT64_MIN, INT64_MAX, 1, 0), 0);
    struct moments m = moments(t);
    assert_true(m.least < -0x1.fp62 && m.most > 0x1.fp62);
    assert_int_equal(TEST_CALL(aclnnInplaceRandom, t, 3, 3, 1, 0), ACLNN_ERR_PARAM_INVALID);
    aclTensor *bytes = blank(ACL_UINT8, N);
    assert_int_equal(TEST_CALL(aclnnInplaceRandom, bytes, 0, 256, 1, 0), 0);
    m = moments(bytes);
    assert_true(m.least == 0 && m.most == 255);
    assert_near(m.mean, 127.5, 1.5);
}

static void bernoulli(void **state)
{
    (void)state;
    aclTensor *t = blank(ACL_FLOAT, N);
    const double p[] = {0, 0.1, 0.5, 1};
    for (int k = 0; k < 4; k++) {
        double v = p[k];
        assert_int_equal(TEST_CALL(aclnnInplaceBernoulli, t, aclCreateScalar(&v, ACL_DOUBLE), 1, 0), 0);
        assert_near(moments(t).mean, p[k], k == 0 || k == 3 ? 0 : 0.008);
    }
    double v = 1.5;
    assert_int_equal(TEST_CALL(aclnnInplaceBernoulli, t, aclCreateScalar(&v, ACL_DOUBLE), 1, 0),
                     ACLNN_ERR_PARAM_INVALID);
}

static void exponential(void **state)
{
    (void)state;
    aclTensor *t = blank(ACL_FLOAT, N);
    assert_int_equal(TEST_CALL(aclnnSimThreadExponential, t, N, 0.5, 1, 0), 0);
    struct moments m = moments(t);
    assert_near(m.mean, 2, 0.03);
    assert_near(m.deviation, 2, 0.05);
    assert_true(m.least > 0);
    int above = 0;
    for (int64_t i = 0; i < N; i++) above += test_at(t, i) > 4;
    assert_near((double)above / N, exp(-2), 0.006);
}

/* ---- permutations and samples ------------------------------------------------------------------------ */

static void permutation(void **state)
{
    (void)state;
    enum { M = 5000 };
    aclTensor *t = blank(ACL_INT64, M);
    static char seen[M];
    assert_int_equal(TEST_CALL(aclnnRandperm, M, 1, 0, t), 0);
    int fixed = 0;
    for (int64_t i = 0; i < M; i++) {
        int64_t x = ((int64_t *)sn_data(t))[i];
        assert_true(x >= 0 && x < M && !seen[x]);
        seen[x] = 1;
        fixed += x == i;
    }
    assert_true(fixed < 10);
    aclTensor *three = blank(ACL_INT32, 3);
    int count[27] = {0};
    for (int s = 0; s < 600; s++) {
        assert_int_equal(TEST_CALL(aclnnRandperm, 3, s, 0, three), 0);
        count[(int)(test_at(three, 0) * 9 + test_at(three, 1) * 3 + test_at(three, 2))]++;
    }
    for (int k = 0; k < 27; k++) assert_true(count[k] == 0 || (count[k] > 60 && count[k] < 140));
}

static void samples(void **state)
{
    (void)state;
    const double weights[] = {1, 0, 3, 4};
    aclTensor *w = test_values(ACL_FLOAT, 4, weights), *many = blank(ACL_INT64, N),
              *few = blank(ACL_INT64, 3);
    int count[4] = {0}, first[4] = {0};
    assert_int_equal(TEST_CALL(aclnnMultinomial, w, N, true, 1, 0, many), 0);
    for (int64_t i = 0; i < N; i++) count[(int)test_at(many, i)]++;
    for (int k = 0; k < 4; k++) assert_near((double)count[k] / N, weights[k] / 8, weights[k] ? 0.008 : 0);
    for (int s = 0; s < 800; s++) {
        assert_int_equal(TEST_CALL(aclnnMultinomial, w, 3, false, s, 0, few), 0);
        int set = 0;
        for (int i = 0; i < 3; i++) set |= 1 << (int)test_at(few, i);
        assert_int_equal(set, 1 | 4 | 8);
        first[(int)test_at(few, 0)]++;
    }
    for (int k = 0; k < 4; k++) assert_near(first[k], 100 * weights[k], 80);
    assert_int_equal(TEST_CALL(aclnnMultinomial, w, 5, false, 1, 0, blank(ACL_INT64, 5)),
                     ACLNN_ERR_PARAM_INVALID);
}

/* ---- dropout ----------------------------------------------------------------------------------------- */

static void dropout_masks(void **state)
{
    (void)state;
    const int64_t n = 100003;
    aclIntArray *shape = aclCreateIntArray(&n, 1);
    aclTensor *mask = blank(ACL_UINT8, (n + 127) / 128 * 16), *x = blank(ACL_FLOAT, n),
              *out = blank(ACL_FLOAT, n);
    for (int64_t i = 0; i < n; i++) ((float *)sn_data(x))[i] = (float)(i + 1);
    assert_int_equal(TEST_CALL(aclnnDropoutGenMaskV2, shape, 0.3, 1, 0, ACL_FLOAT, mask), 0);
    assert_int_equal(TEST_CALL(aclnnDropoutDoMask, x, mask, 0.3, out), 0);
    int64_t kept = 0;
    const uint8_t *bits = sn_data(mask);
    for (int64_t i = 0; i < n; i++) {
        bool keep = bits[i / 8] >> i % 8 & 1;
        kept += keep;
        assert_near(test_at(out, i), keep ? (double)(i + 1) / 0.7 : 0, 0.02);
    }
    assert_near((double)kept / (double)n, 0.7, 0.01);
    assert_int_equal(TEST_CALL(aclnnDropoutGenMaskV2, shape, 0, 1, 0, ACL_FLOAT, mask), 0);
    for (int64_t i = 0; i < sn_numel(mask); i++) assert_int_equal(bits[i], 0xff);
    assert_int_equal(TEST_CALL(aclnnDropoutGenMaskV2, shape, 1, 1, 0, ACL_FLOAT, mask), 0);
    for (int64_t i = 0; i < n / 8; i++) assert_int_equal(bits[i], 0);
    assert_int_equal(TEST_CALL(aclnnDropoutGenMaskV2, shape, 0.3, 1, 0, ACL_FLOAT, blank(ACL_UINT8, 16)),
                     ACLNN_ERR_PARAM_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors),
        cmocka_unit_test(words_do_not_depend_on_where_a_run_begins),
        cmocka_unit_test(normals_do_not_depend_on_where_a_run_begins),
        cmocka_unit_test(seed_and_offset_matter),
        cmocka_unit_test(layout_does_not_matter),
        cmocka_unit_test(uniform_of_every_type),
        cmocka_unit_test(normal_of_every_type),
        cmocka_unit_test(normal_neighbours_are_independent),
        cmocka_unit_test(normal_with_a_tensor_of_means),
        cmocka_unit_test(seeds_in_tensors),
        cmocka_unit_test(integers),
        cmocka_unit_test(bernoulli),
        cmocka_unit_test(exponential),
        cmocka_unit_test(permutation),
        cmocka_unit_test(samples),
        cmocka_unit_test(dropout_masks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
