/* softnpu_keep.h - objects of a test that live until the program ends: lists share tensors with each other
 * and with the test, so none of them can be destroyed alone. Include after softnpu_testing.h. */
#ifndef SOFTNPU_KEEP_H
#define SOFTNPU_KEEP_H

static void *kept_objects[1 << 15];

static inline void *keep(const void *p)
{
    static size_t n;
    assert_non_null(p);
    assert_true(n < sizeof kept_objects / sizeof *kept_objects);
    return kept_objects[n++] = (void *)(uintptr_t)p;
}

#define test_tensor(...) ((aclTensor *)keep(test_tensor(__VA_ARGS__)))
#define test_values(...) ((aclTensor *)keep(test_values(__VA_ARGS__)))
#define test_view(...) ((aclTensor *)keep(test_view(__VA_ARGS__)))
#define aclCreateTensorList(...) ((aclTensorList *)keep(aclCreateTensorList(__VA_ARGS__)))
#define aclCreateScalar(...) ((aclScalar *)keep(aclCreateScalar(__VA_ARGS__)))
#define aclCreateScalarList(...) ((aclScalarList *)keep(aclCreateScalarList(__VA_ARGS__)))
#define aclCreateIntArray(...) ((aclIntArray *)keep(aclCreateIntArray(__VA_ARGS__)))

#endif
