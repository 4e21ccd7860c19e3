/* objects.h - what the older operator path's objects are inside. */
#ifndef SOFTNPU_ACLOP_OBJECTS_H
#define SOFTNPU_ACLOP_OBJECTS_H

#include "softnpu/include/acl/acl_base.h"

typedef struct aclDataBuffer {
    void *data;
    size_t size;
} aclDataBuffer;

struct shape {
    int n;
    int64_t *dim;
};
typedef struct aclTensorDesc {
    aclDataType dtype;
    aclFormat format, storage_format;
    struct shape shape, storage_shape;
    char *name;
    int placement;
    void *constant;
    size_t constant_size;
} aclTensorDesc;

struct attr {
    char *name;
    char type; /* b i f s t, upper case: a list; L: a list of lists */
    size_t size;
    void *value;
    struct attr *next;
};
typedef struct aclopAttr {
    struct attr *first;
} aclopAttr;

#endif
