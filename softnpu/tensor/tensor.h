/* tensor.h - what an aclTensor, aclScalar, array or list is inside, data type traits, and strided access. */
#ifndef SOFTNPU_TENSOR_H
#define SOFTNPU_TENSOR_H

#include "softnpu/include/aclnn/acl_meta.h"
#include <complex.h>

/* The device refuses more than 8 dimensions; SOFTNPU_ACCEPT=any lets up to this many through. */
enum { SN_MAX_DIMS = 16 };

struct aclTensor {
    aclDataType dtype;
    aclFormat format;
    int32_t rank;    /* as created; dims beyond SN_MAX_DIMS are not kept and always refused */
    bool kernel;     /* data is kernel memory (sn_wrap), not a device address */
    int64_t offset;  /* elements from data */
    int64_t storage; /* elements in the storage, 0 if unknown */
    void *data;      /* device address of the storage's first element */
    int64_t dim[SN_MAX_DIMS];
    int64_t stride[SN_MAX_DIMS]; /* elements */
};
union sn_value { /* a scalar's value, wide */
    double d;
    int64_t i;
    double _Complex c;
    bool b;
};
struct aclScalar {
    aclDataType
        dtype; /* torch_npu gives DOUBLE, INT64, BOOL, COMPLEX128 only; others are widened at creation */
    union sn_value v;
};
struct aclIntArray {
    uint64_t n;
    int64_t v[];
};
struct aclFloatArray {
    uint64_t n;
    float v[];
};
struct aclBoolArray {
    uint64_t n;
    bool v[];
};
struct aclTensorList {
    uint64_t n;
    aclTensor *v[];
};
struct aclScalarList {
    uint64_t n;
    aclScalar *v[];
};

/* ---- data types: one row each ------------------------------------------------------------------------ */

enum sn_kind { SN_NONE, SN_BOOL, SN_UINT, SN_INT, SN_FLOAT, SN_COMPLEX };
struct sn_dtype {
    const char *name;       /* "FLOAT16": the documents' own names, used in messages */
    const char *short_name; /* "f16": used in traces */
    uint8_t size;           /* bytes an element; 0: no such type or not byte sized */
    uint8_t kind;           /* enum sn_kind */
    int8_t compute; /* type that kernels compute in: f16 and bf16 -> ACL_FLOAT, c32 -> ACL_COMPLEX64, others
                       themselves */
    int8_t common;  /* 0..11: index among the twelve common types, -1 otherwise */
};
enum { SN_NDTYPES = 41 };
extern const struct sn_dtype sn_dtypes[SN_NDTYPES]; /* by aclDataType; holes have size 0, names "?" */
enum { SN_HOLE = 5 };                               /* an id that no type has */
static inline const struct sn_dtype *
sn_dtype(aclDataType t) /* never NULL: an unknown id gives the row of a hole */
{
    return &sn_dtypes[(unsigned)t < SN_NDTYPES ? (unsigned)t : SN_HOLE];
}
static inline size_t sn_size(aclDataType t)
{
    return sn_dtype(t)->size;
}
static inline bool sn_is_float(aclDataType t)
{
    return sn_dtype(t)->kind == SN_FLOAT;
}
static inline bool sn_is_complex(aclDataType t)
{
    return sn_dtype(t)->kind == SN_COMPLEX;
}
static inline bool sn_is_integral(aclDataType t) /* bool included */
{
    int k = sn_dtype(t)->kind;
    return k == SN_BOOL || k == SN_UINT || k == SN_INT;
}
static inline aclDataType sn_compute(aclDataType t)
{
    return (aclDataType)sn_dtype(t)->compute;
}
/* torch.promote_types. ACL_DT_UNDEFINED if there is none. */
aclDataType sn_promote(aclDataType a, aclDataType b);
/* Result type of a tensor with a Python-like scalar: the tensor's type unless the scalar's category is higher
 * (bool < integer < float < complex); an integer tensor with a float scalar gives FLOAT. */
aclDataType sn_promote_scalar(aclDataType tensor, const aclScalar *s);
/* torch.can_cast(from, to): complex to real, float to integer, and anything but bool to bool are refused. */
bool sn_can_cast(aclDataType from, aclDataType to);

double sn_scalar_f64(const aclScalar *s);
int64_t sn_scalar_i64(const aclScalar *s); /* floats truncate */
double _Complex sn_scalar_c128(const aclScalar *s);
/* Writes s as type t to *out (t's size in bytes), two's complement wrap for integers. */
void sn_scalar_store(const aclScalar *s, aclDataType t, void *out);

/* ---- shapes ------------------------------------------------------------------------------------------ */

int64_t sn_numel(const aclTensor *t);
bool sn_is_contiguous(const aclTensor *t);
bool sn_same_shape(const aclTensor *a, const aclTensor *b);
/* Broadcast of a and b as NumPy does; false if they do not. dim has SN_MAX_DIMS places, and
 * is neither a's nor b's. */
bool sn_broadcast_shape(const aclTensor *a, const aclTensor *b, int64_t *dim, int32_t *rank);
/* A view of t with stride 0 where broadcast; false if t does not broadcast to dim. */
bool sn_expand(const aclTensor *t, const int64_t *dim, int32_t rank, aclTensor *out);
/* "[2, 3]" into out; for messages. Returns out. */
char *sn_shape_str(const aclTensor *t, char out[256]);
/* Kernel address of element 0 of the view; NULL if the tensor has no elements. Only valid in a running
 * kernel. */
void *sn_data(const aclTensor *t);
/* Fills a descriptor for contiguous kernel memory (scratch): sn_data gives p itself. */
void sn_wrap(aclTensor *out, aclDataType t, int32_t rank, const int64_t *dim, void *p);
/* True when the bytes of the two views may overlap (conservative for interleaved views of one storage). */
bool sn_overlap(const aclTensor *a, const aclTensor *b);
/* True when they are the same view: same first byte, shape and strides, same element size. */
bool sn_same_view(const aclTensor *a, const aclTensor *b);

/* ---- element conversion: n elements, contiguous, any dtype to any dtype (torch's .to() rules) -------- */

void sn_convert(void *dst, aclDataType dt, const void *src, aclDataType st, int64_t n);

#endif
