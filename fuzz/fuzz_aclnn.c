/* fuzz_aclnn.c - random legal and illegal calls of every operator row: shapes, strides, offsets, dtypes,
 * scalars, nulls.
 *
 * The call is drawn from the input's bytes, and from numbers that follow from them when they are used up.
 * Tensors lie in one piece of device memory of which the sanitizer knows only their storages as accessible,
 * so that a kernel that reads or writes past one is found. A call that is refused because of one argument's
 * shape, type or rank is tried again with what the message asks for, so that many calls get to run. */
#include "fuzz/fuzz.h"

#include "softnpu/include/acl/acl_rt.h"
#include "softnpu/op/executor.h"

#include <math.h>
#include <sanitizer/asan_interface.h>

enum { ARENA = 64 << 20, LARGEST = 4096, TENSORS = 512, RETRIES = 6, LIST = 3 };

static char *arena; /* device address */
static size_t arena_used;
static aclrtStream stream;

/* ---- choices --------------------------------------------------------------------------------- */

static const uint8_t *bytes, *bytes_end;
static uint64_t state;

static uint64_t draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = state ^ state >> 29;
    return bytes < bytes_end ? *bytes++ ^ (x & ~(uint64_t)0xff) : x;
}

/* 0 .. n - 1 */
static int64_t pick(int64_t n)
{
    uint64_t x = draw();
    return (int64_t)((n <= 256 ? x & 0xffff : x >> 3) % (uint64_t)n);
}

static bool once_in(int n)
{
    return pick(n) == n - 1;
}

static int64_t number(void)
{
    static const int64_t extreme[] = {INT64_MAX, INT64_MIN,  INT32_MAX, INT32_MIN,
                                      1 << 20,   -(1 << 20), 1000,      255};
    return once_in(24) ? extreme[pick(8)] : pick(8) - 2;
}

static double real(void)
{
    static const double odd[] = {INFINITY, -INFINITY, NAN, 0.0, -0.0, 1e300, -1e300, 1e-300};
    return once_in(12) ? odd[pick(8)] : once_in(2) ? (double)pick(4) : (double)pick(1000) / 1000;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

struct shape {
    int rank;
    int64_t dim[SN_MAX_DIMS];
};

static int64_t elements(const struct shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++) n *= s->dim[i];
    return n;
}

static int64_t size_of_dim(void)
{
    static const int64_t usual[] = {2, 3, 1, 4, 2, 3, 8, 5, 2, 3, 0, 17};
    return usual[pick(12)];
}

static struct shape fresh(int lo, int hi)
{
    struct shape s = {.rank = lo + (int)pick(hi - lo + 1)};
    for (int i = 0; i < s.rank; i++) s.dim[i] = size_of_dim();
    for (int i = 0; elements(&s) > LARGEST; i++) s.dim[i % s.rank] = 1;
    return s;
}

/* The call's shape, often as it is; sometimes broadcast, turned, changed or another one. */
static struct shape related(const struct shape *base, int lo, int hi)
{
    struct shape s = *base;
    int64_t how = pick(16);
    if (how == 15) return fresh(0, 9);
    if (how >= 13 || s.rank < lo || s.rank > hi) return fresh(lo, hi > 5 ? 5 : hi);
    if (how == 12 && s.rank) s.dim[pick(s.rank)] = 1;
    if (how == 11 && s.rank) s.dim[pick(s.rank)] = size_of_dim();
    if (how == 10 && s.rank > 1) {
        int64_t k = pick(s.rank - 1), kept = s.dim[k];
        s.dim[k] = s.dim[k + 1];
        s.dim[k + 1] = kept;
    }
    if (how == 9 && s.rank) memmove(s.dim, s.dim + 1, sizeof *s.dim * (size_t)--s.rank);
    return s;
}

/* ---- one call -------------------------------------------------------------------------------- */

struct call {
    const op_row *row;
    op_arg arg[48];
    struct shape base;
    aclDataType dtype;
    struct shape shape[48]; /* of tensor arguments, for a second try */
    aclDataType type[48];
    bool plain[48]; /* the second try is contiguous */
    aclTensor *made[TENSORS];
    int nmade;
};

/* Fills n bytes of a storage: small numbers of the type (indices, mostly in range), sometimes anything. */
static void fill(void *p, aclDataType t, int64_t n)
{
    if (once_in(8) || sn_dtype(t)->common < 0) {
        for (int64_t i = 0; i < n * (int64_t)sn_size(t); i++)
            ((uint8_t *)p)[i] = (uint8_t)(t == ACL_BOOL ? pick(2) : draw());
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        double v = sn_is_integral(t) ? (double)(once_in(32) ? number() : pick(3)) : real() - 0.5;
        sn_convert((char *)p + i * (int64_t)sn_size(t), t, &v, ACL_DOUBLE, 1);
    }
}

static aclTensor *make(struct call *k, const struct shape *s, aclDataType t, bool plain)
{
    struct shape v = *s;
    int64_t stride[SN_MAX_DIMS], storage = 1, offset = 0;
    for (int i = v.rank; i-- > 0;) {
        stride[i] = storage;
        storage *= v.dim[i];
    }
    int64_t layout = plain ? 0 : pick(16);
    if (layout == 15) /* anything, mostly outside the storage */
        for (int i = 0; i < v.rank; i++) stride[i] = number();
    if (layout == 14) offset = number();
    if (layout >= 11 && layout < 14) { /* every second element, from the second on */
        offset = storage ? 1 : 0;
        storage = 2 * storage + 1;
        for (int i = 0; i < v.rank; i++) stride[i] *= 2;
    }
    if (layout >= 9 && layout < 11 && v.rank > 1) { /* last two dimensions turned */
        stride[v.rank - 1] = v.dim[v.rank - 2];
        stride[v.rank - 2] = 1;
    }
    if (layout == 8 && v.rank) stride[pick(v.rank)] = 0;
    size_t size = (size_t)storage * (sn_size(t) ? sn_size(t) : 1);
    if (size > ARENA / 4 || arena_used + size + 1024 > ARENA || k->nmade == TENSORS) return NULL;
    char *p = arena + arena_used;
    arena_used += (size + 511) & ~(size_t)255; /* 256 to 511 bytes that nobody may touch */
    __asan_unpoison_memory_region(rt_kernel_ptr(p), size);
    fill(rt_kernel_ptr(p), t, sn_size(t) ? storage : 0);
    aclFormat format = once_in(64) ? (aclFormat)pick(40) : ACL_FORMAT_ND;
    return k->made[k->nmade++] =
               aclCreateTensor(v.dim, (uint64_t)v.rank, t, stride, offset, format, &storage, 1, p);
}

static bool is_tensor(int kind)
{
    return kind <= OPK_IO;
}

static aclDataType accepted_type(const struct call *k, int i)
{
    static const aclDataType common[] = {ACL_FLOAT,  ACL_FLOAT16, ACL_BF16,      ACL_INT64,
                                         ACL_INT32,  ACL_BOOL,    ACL_UINT8,     ACL_INT8,
                                         ACL_DOUBLE, ACL_INT16,   ACL_COMPLEX64, ACL_COMPLEX128};
    uint64_t mask = k->row->accept ? k->row->accept[i].dtypes : 0;
    if (once_in(24)) return (aclDataType)pick(48);
    if (!mask) return once_in(4) ? common[pick(12)] : k->dtype;
    if (mask >> k->dtype & 1 && !once_in(8)) return k->dtype;
    for (int try = 0; try < 32; try++) {
        aclDataType t = common[pick(12)];
        if (mask >> t & 1) return t;
    }
    return k->dtype;
}

static const aclTensor *draw_tensor(struct call *k, int i)
{
    int lo = 0, hi = 5;
    if (k->row->accept) {
        lo = k->row->accept[i].rank_lo;
        hi = k->row->accept[i].rank_hi;
    }
    k->shape[i] = related(&k->base, lo, hi);
    k->type[i] = accepted_type(k, i);
    return make(k, &k->shape[i], k->type[i], false);
}

static const aclTensorList *draw_tensors(struct call *k, int i)
{
    const aclTensor *v[LIST];
    uint64_t n = (uint64_t)pick(LIST + 1);
    for (uint64_t j = 0; j < n; j++) v[j] = once_in(64) ? NULL : draw_tensor(k, i);
    return aclCreateTensorList(v, n);
}

static const aclScalar *draw_scalar(void)
{
    double d[2] = {real(), real()};
    int64_t n = number();
    bool b = pick(2);
    switch (pick(4)) {
    case 0:
        return aclCreateScalar(&n, ACL_INT64);
    case 1:
        return aclCreateScalar(&b, ACL_BOOL);
    case 2:
        return once_in(4) ? aclCreateScalar(d, ACL_COMPLEX128) : aclCreateScalar(d, ACL_DOUBLE);
    default:
        return aclCreateScalar(d, ACL_DOUBLE);
    }
}

static const aclScalarList *draw_scalars(void)
{
    const aclScalar *v[LIST];
    uint64_t n = (uint64_t)pick(LIST + 1);
    for (uint64_t j = 0; j < n; j++) v[j] = draw_scalar();
    return aclCreateScalarList(v, n);
}

static op_arg draw_array(int kind)
{
    int64_t ints[6];
    float floats[6];
    bool bools[6];
    uint64_t n = (uint64_t)pick(7);
    for (uint64_t j = 0; j < n; j++) {
        ints[j] = number();
        floats[j] = (float)real();
        bools[j] = pick(2);
    }
    if (kind == OPK_IA || kind == OPK_IAQ) return (op_arg){.ia = aclCreateIntArray(ints, n)};
    if (kind == OPK_FA || kind == OPK_FAQ) return (op_arg){.fa = aclCreateFloatArray(floats, n)};
    return (op_arg){.ba = aclCreateBoolArray(bools, n)};
}

static op_arg draw_argument(struct call *k, int i)
{
    static const char *const words[] = {"BSND", "NCHW",     "",       "none", "mean", "BNSD",
                                        "TND",  "bilinear", "linear", "SBH",  "tanh"};
    int kind = k->row->param[i].kind;
    if (is_tensor(kind)) return (op_arg){.t = draw_tensor(k, i)};
    switch (kind) {
    case OPK_S:
    case OPK_SQ:
        return (op_arg){.s = draw_scalar()};
    case OPK_TL:
    case OPK_TLQ:
    case OPK_OL:
        return (op_arg){.tl = draw_tensors(k, i)};
    case OPK_SL:
        return (op_arg){.sl = draw_scalars()};
    case OPK_B:
        return (op_arg){.i = pick(2)};
    case OPK_D:
    case OPK_F:
        return (op_arg){.d = real()};
    case OPK_DT:
        return (op_arg){.i = once_in(3) ? pick(48) : k->dtype};
    case OPK_STR:
    case OPK_STRQ:
        return (op_arg){.str = words[pick(11)]};
    case OPK_I64:
    case OPK_U64:
        return (op_arg){.i = number()};
    case OPK_I32:
        return (op_arg){.i = (int32_t)number()};
    case OPK_I8:
        return (op_arg){.i = (int8_t)number()};
    default:
        return draw_array(kind);
    }
}

static void drop_argument(int kind, op_arg a)
{
    if (!a.t) return;
    if (kind == OPK_S || kind == OPK_SQ) aclDestroyScalar(a.s);
    if (kind == OPK_IA || kind == OPK_IAQ) aclDestroyIntArray(a.ia);
    if (kind == OPK_FA || kind == OPK_FAQ) aclDestroyFloatArray(a.fa);
    if (kind == OPK_BA || kind == OPK_BAQ) aclDestroyBoolArray(a.ba);
    if (kind == OPK_SL) aclDestroyScalarList(a.sl);
    if (op_is_tensor_list(kind)) free((void *)(uintptr_t)a.tl); /* its tensors are in made */
}

/* ---- the second try -------------------------------------------------------------------------- */

/* "[2, 3]" at *p, or one like it anywhere behind `after`. */
static bool read_shape(const char *p, struct shape *s)
{
    s->rank = 0;
    if (*p++ != '[') return false;
    while (*p && *p != ']') {
        char *end;
        int64_t n = strtoll(p, &end, 10);
        if (end == p || n < 0 || n > LARGEST || s->rank == SN_MAX_DIMS) return false;
        s->dim[s->rank++] = n;
        p = *end == ',' ? end + 2 : end;
    }
    return *p == ']' && elements(s) <= LARGEST;
}

static aclDataType type_named(const char *p)
{
    for (int t = 0; t < SN_NDTYPES; t++) {
        const char *name = sn_dtype(t)->name;
        size_t n = strlen(name);
        if (sn_size(t) && !strncmp(p, name, n) && (p[n] == ',' || p[n] == ']')) return t;
    }
    return ACL_DT_UNDEFINED;
}

/* Changes the argument that the message names to what it asks for. */
static bool amend(struct call *k, const char *message)
{
    for (int i = 0; i < k->row->nparam; i++) {
        char name[80];
        snprintf(name, sizeof name, " %s ", k->row->param[i].name);
        if (!is_tensor(k->row->param[i].kind) || !k->arg[i].t || !strstr(message, name)) continue;
        const char *shape = strstr(message, "expected ["), *types = strstr(message, "accepted are [DT_");
        struct shape s;
        if (shape && read_shape(shape + strlen("expected "), &s))
            k->shape[i] = s;
        else if (types && type_named(types + strlen("accepted are [DT_")) != ACL_DT_UNDEFINED)
            k->type[i] = type_named(types + strlen("accepted are [DT_"));
        else if (k->plain[i])
            return false;
        k->plain[i] = true;
        k->arg[i].t = make(k, &k->shape[i], k->type[i], true);
        return k->arg[i].t != NULL;
    }
    return false;
}

/* ---- running --------------------------------------------------------------------------------- */

static int attempt(struct call *k)
{
    uint64_t workspace;
    aclOpExecutor *executor = NULL;
    int e = op_prepare(k->row, k->arg, &workspace, &executor);
    if (e) return e;
    e = op_launch(k->row, NULL, workspace, executor, stream);
    int after = aclrtSynchronizeStream(stream);
    if (e || after) { /* a failed task stays with its stream */
        aclrtDestroyStreamForce(stream);
        MUST(!aclrtCreateStream(&stream));
    }
    return 0;
}

static void run_call(struct call *k)
{
    for (int try = 0; try < RETRIES; try++) {
        int e = attempt(k);
        const char *message = aclGetRecentErrMsg();
        if (!e || !message || !amend(k, message)) return;
    }
}

static void begin(const uint8_t *data, size_t size)
{
    if (!arena) {
        MUST(!aclInit(NULL) && !aclrtSetDevice(0) && !aclrtCreateStream(&stream));
        MUST(!aclrtMalloc((void **)&arena, ARENA, 0));
    }
    if (arena_used || !state)
        __asan_poison_memory_region(rt_kernel_ptr(arena), arena_used ? arena_used : ARENA);
    arena_used = 256;
    state = 0xcbf29ce484222325;
    for (size_t i = 0; i < size; i++) state = (state ^ data[i]) * 0x100000001b3;
    bytes = data;
    bytes_end = data + size;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    setenv("SOFTNPU_BLOCKING", "1", 1);
    setenv("SOFTNPU_THREADS", "1", 1);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct call k;
    begin(data, size);
    k.nmade = 0;
    k.row = op_at((int)((pick(256) << 8 | pick(256)) % op_count()));
    const char *only = getenv("FUZZ_OPERATOR");
    if (only) k.row = op_find(only);
    if (k.row->flags & OPF_SYNC_SHAPE && !once_in(2)) return 0;
    if (!strcmp(k.row->name, "aclnnSleep")) return 0; /* as long as it is told to */
    static const aclDataType usual[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16,  ACL_INT64,
                                        ACL_INT32, ACL_BOOL,    ACL_FLOAT, ACL_DOUBLE};
    k.dtype = usual[pick(8)];
    k.base = once_in(3) ? fresh(4, 5) : fresh(0, 3);
    for (int i = 0; i < k.row->nparam; i++) {
        k.plain[i] = false;
        k.arg[i] = once_in(48) ? (op_arg){.t = NULL} : draw_argument(&k, i);
    }
    run_call(&k);
    for (int i = 0; i < k.row->nparam; i++) drop_argument(k.row->param[i].kind, k.arg[i]);
    for (int i = 0; i < k.nmade; i++) aclDestroyTensor(k.made[i]);
    return 0;
}
