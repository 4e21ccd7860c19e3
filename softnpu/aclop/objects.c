/* objects.c - the older operator path's objects: tensor descriptors, data buffers, attributes. */
#include "softnpu/aclop/objects.h"
#include "softnpu/runtime/internal.h"
#include "softnpu/tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- data buffers ------------------------------------------------------------------------------------ */

ACL_EXPORT aclDataBuffer *aclCreateDataBuffer(void *data, size_t size);
ACL_EXPORT aclError aclDestroyDataBuffer(const aclDataBuffer *b);
ACL_EXPORT aclError aclUpdateDataBuffer(aclDataBuffer *b, void *data, size_t size);
ACL_EXPORT void *aclGetDataBufferAddr(const aclDataBuffer *b);
ACL_EXPORT size_t aclGetDataBufferSizeV2(const aclDataBuffer *b);
ACL_EXPORT uint32_t aclGetDataBufferSize(const aclDataBuffer *b);

aclDataBuffer *aclCreateDataBuffer(void *data, size_t size)
{
    aclDataBuffer *b = malloc(sizeof *b);
    if (b) *b = (aclDataBuffer){data, size};
    return b;
}

aclError aclDestroyDataBuffer(const aclDataBuffer *b)
{
    RT_NEED(b, ACL_ERROR_INVALID_PARAM);
    free((void *)(uintptr_t)b);
    return ACL_SUCCESS;
}

aclError aclUpdateDataBuffer(aclDataBuffer *b, void *data, size_t size)
{
    RT_NEED(b, ACL_ERROR_INVALID_PARAM);
    *b = (aclDataBuffer){data, size};
    return ACL_SUCCESS;
}

void *aclGetDataBufferAddr(const aclDataBuffer *b)
{
    return b ? b->data : NULL;
}
size_t aclGetDataBufferSizeV2(const aclDataBuffer *b)
{
    return b ? b->size : 0;
}
uint32_t aclGetDataBufferSize(const aclDataBuffer *b)
{
    return b ? (uint32_t)b->size : 0;
}

/* ---- tensor descriptors ------------------------------------------------------------------------------ */

ACL_EXPORT aclTensorDesc *aclCreateTensorDesc(aclDataType dtype, int n, const int64_t *dims,
                                              aclFormat format);
ACL_EXPORT void aclDestroyTensorDesc(const aclTensorDesc *d);
ACL_EXPORT aclDataType aclGetTensorDescType(const aclTensorDesc *d);
ACL_EXPORT aclFormat aclGetTensorDescFormat(const aclTensorDesc *d);
ACL_EXPORT size_t aclGetTensorDescNumDims(const aclTensorDesc *d);
ACL_EXPORT aclError aclGetTensorDescDimV2(const aclTensorDesc *d, size_t i, int64_t *dim);
ACL_EXPORT size_t aclGetTensorDescElementCount(const aclTensorDesc *d);
ACL_EXPORT size_t aclGetTensorDescSize(const aclTensorDesc *d);
ACL_EXPORT void aclSetTensorDescName(aclTensorDesc *d, const char *name);
ACL_EXPORT const char *aclGetTensorDescName(aclTensorDesc *d);
ACL_EXPORT aclError aclSetTensorFormat(aclTensorDesc *d, aclFormat format);
ACL_EXPORT aclError aclSetTensorShape(aclTensorDesc *d, int n, const int64_t *dims);
ACL_EXPORT aclError aclSetTensorPlaceMent(aclTensorDesc *d, int placement);
ACL_EXPORT aclError aclSetTensorConst(aclTensorDesc *d, void *data, size_t size);
ACL_EXPORT size_t aclDataTypeSize(aclDataType dtype);

static bool set_shape(struct shape *s, int n, const int64_t *dims)
{
    int64_t *copy = malloc((size_t)(n ? n : 1) * sizeof *copy);
    if (!copy) return false;
    if (n) memcpy(copy, dims, (size_t)n * sizeof *copy);
    free(s->dim);
    *s = (struct shape){n, copy};
    return true;
}

aclTensorDesc *aclCreateTensorDesc(aclDataType dtype, int n, const int64_t *dims, aclFormat format)
{
    if (n < 0 || (n && !dims)) return NULL;
    aclTensorDesc *d = calloc(1, sizeof *d);
    if (!d) return NULL;
    d->dtype = dtype;
    d->format = d->storage_format = format;
    if (set_shape(&d->shape, n, dims) && set_shape(&d->storage_shape, n, dims)) return d;
    aclDestroyTensorDesc(d);
    return NULL;
}

void aclDestroyTensorDesc(const aclTensorDesc *desc)
{
    aclTensorDesc *d = (aclTensorDesc *)(uintptr_t)desc;
    if (!d) return;
    free(d->shape.dim);
    free(d->storage_shape.dim);
    free(d->name);
    free(d->constant);
    free(d);
}

aclDataType aclGetTensorDescType(const aclTensorDesc *d)
{
    return d ? d->dtype : ACL_DT_UNDEFINED;
}
aclFormat aclGetTensorDescFormat(const aclTensorDesc *d)
{
    return d ? d->format : ACL_FORMAT_UNDEFINED;
}
size_t aclGetTensorDescNumDims(const aclTensorDesc *d)
{
    return d ? (size_t)d->shape.n : 0;
}

aclError aclGetTensorDescDimV2(const aclTensorDesc *d, size_t i, int64_t *dim)
{
    RT_NEED(d && dim && i < (size_t)d->shape.n, ACL_ERROR_INVALID_PARAM);
    *dim = d->shape.dim[i];
    return ACL_SUCCESS;
}

size_t aclGetTensorDescElementCount(const aclTensorDesc *d)
{
    size_t n = d ? 1 : 0;
    for (int i = 0; d && i < d->shape.n; i++) n *= d->shape.dim[i] > 0 ? (size_t)d->shape.dim[i] : 0;
    return n;
}

size_t aclDataTypeSize(aclDataType dtype)
{
    return sn_size(dtype);
}
size_t aclGetTensorDescSize(const aclTensorDesc *d)
{
    return d ? aclGetTensorDescElementCount(d) * sn_size(d->dtype) : 0;
}

void aclSetTensorDescName(aclTensorDesc *d, const char *name)
{
    if (!d) return;
    free(d->name);
    d->name = name ? strdup(name) : NULL;
}

const char *aclGetTensorDescName(aclTensorDesc *d)
{
    return d && d->name ? d->name : "";
}

aclError aclSetTensorFormat(aclTensorDesc *d, aclFormat format)
{
    RT_NEED(d, ACL_ERROR_INVALID_PARAM);
    d->storage_format = format;
    return ACL_SUCCESS;
}

aclError aclSetTensorShape(aclTensorDesc *d, int n, const int64_t *dims)
{
    RT_NEED(d && n >= 0 && (!n || dims), ACL_ERROR_INVALID_PARAM);
    return set_shape(&d->storage_shape, n, dims)
               ? ACL_SUCCESS
               : rt_fail(ACL_ERROR_BAD_ALLOC, "aclSetTensorShape: no memory");
}

aclError aclSetTensorPlaceMent(aclTensorDesc *d, int placement)
{
    RT_NEED(d && placement >= 0 && placement <= 2, ACL_ERROR_INVALID_PARAM);
    d->placement = placement;
    return ACL_SUCCESS;
}

aclError aclSetTensorConst(aclTensorDesc *d, void *data, size_t size)
{
    RT_NEED(d && data && size, ACL_ERROR_INVALID_PARAM);
    void *copy = malloc(size);
    if (!copy) return rt_fail(ACL_ERROR_BAD_ALLOC, "aclSetTensorConst: no memory");
    memcpy(copy, data, size);
    free(d->constant);
    d->constant = copy;
    d->constant_size = size;
    return ACL_SUCCESS;
}

/* ---- attributes: name, type and value, the last setting of a name counts ----------------------------- */

ACL_EXPORT aclopAttr *aclopCreateAttr(void);
ACL_EXPORT void aclopDestroyAttr(const aclopAttr *a);

aclopAttr *aclopCreateAttr(void)
{
    return calloc(1, sizeof(aclopAttr));
}

static void free_attr(struct attr *x)
{
    free(x->name);
    free(x->value);
    free(x);
}

void aclopDestroyAttr(const aclopAttr *a)
{
    if (!a) return;
    for (struct attr *x = a->first, *next; x; x = next) {
        next = x->next;
        free_attr(x);
    }
    free((void *)(uintptr_t)a);
}

static int set_attr(aclopAttr *a, const char *name, char type, const void *value, size_t size)
{
    if (!a || !name || (size && !value))
        return rt_fail(ACL_ERROR_INVALID_PARAM, "aclopSetAttr: a null pointer");
    struct attr *x = calloc(1, sizeof *x);
    if (x) *x = (struct attr){strdup(name), type, size, malloc(size ? size : 1), NULL};
    if (!x || !x->name || !x->value) {
        if (x) free_attr(x);
        return rt_fail(ACL_ERROR_BAD_ALLOC, "aclopSetAttr: no memory");
    }
    if (size) memcpy(x->value, value, size);
    struct attr **p = &a->first;
    while (*p && strcmp((*p)->name, name)) p = &(*p)->next;
    if (*p) {
        x->next = (*p)->next;
        free_attr(*p);
    }
    *p = x;
    return ACL_SUCCESS;
}

#define SCALAR_ATTR(function, ctype, type)                                                                   \
    ACL_EXPORT aclError function(aclopAttr *a, const char *name, ctype value);                               \
    aclError function(aclopAttr *a, const char *name, ctype value)                                           \
    {                                                                                                        \
        return set_attr(a, name, type, &value, sizeof value);                                                \
    }
SCALAR_ATTR(aclopSetAttrBool, uint8_t, 'b')
SCALAR_ATTR(aclopSetAttrInt, int64_t, 'i')
SCALAR_ATTR(aclopSetAttrFloat, float, 'f')
SCALAR_ATTR(aclopSetAttrDataType, aclDataType, 't')

#define LIST_ATTR(function, ctype, type)                                                                     \
    ACL_EXPORT aclError function(aclopAttr *a, const char *name, int n, const ctype *values);                \
    aclError function(aclopAttr *a, const char *name, int n, const ctype *values)                            \
    {                                                                                                        \
        RT_NEED(n >= 0, ACL_ERROR_INVALID_PARAM);                                                            \
        return set_attr(a, name, type, values, (size_t)n * sizeof *values);                                  \
    }
LIST_ATTR(aclopSetAttrListBool, uint8_t, 'B')
LIST_ATTR(aclopSetAttrListInt, int64_t, 'I')
LIST_ATTR(aclopSetAttrListFloat, float, 'F')
LIST_ATTR(aclopSetAttrListDataType, aclDataType, 'T')

ACL_EXPORT aclError aclopSetAttrString(aclopAttr *a, const char *name, const char *value);
ACL_EXPORT aclError aclopSetAttrListListInt(aclopAttr *a, const char *name, int n, const int *lengths,
                                            const int64_t *const lists[]);

aclError aclopSetAttrString(aclopAttr *a, const char *name, const char *value)
{
    RT_NEED(value, ACL_ERROR_INVALID_PARAM);
    return set_attr(a, name, 's', value, strlen(value) + 1);
}

/* Stored as: number of lists, then each list's length and elements. */
aclError aclopSetAttrListListInt(aclopAttr *a, const char *name, int n, const int *lengths,
                                 const int64_t *const lists[])
{
    RT_NEED(n >= 0 && (!n || (lengths && lists)), ACL_ERROR_INVALID_PARAM);
    size_t words = 1;
    for (int i = 0; i < n; i++) {
        RT_NEED(lengths[i] >= 0, ACL_ERROR_INVALID_PARAM);
        words += 1 + (size_t)lengths[i];
    }
    int64_t *flat = malloc(words * sizeof *flat), *p = flat;
    if (!flat) return rt_fail(ACL_ERROR_BAD_ALLOC, "aclopSetAttrListListInt: no memory");
    *p++ = n;
    for (int i = 0; i < n; i++) {
        *p++ = lengths[i];
        for (int j = 0; j < lengths[i]; j++) *p++ = lists[i][j];
    }
    int code = set_attr(a, name, 'L', flat, words * sizeof *flat);
    free(flat);
    return code;
}
