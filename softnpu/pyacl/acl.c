/* acl.c - pyACL: the Python module `acl`, a thin layer over the runtime's interface.
 *
 * The vendor's conventions (public pyACL reference): a function returns its code, or a tuple of results that
 * ends with the code; pointers, streams, events and contexts are integers, 0 for none. Calls that may wait
 * release the interpreter lock. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "softnpu/include/acl/acl_rt.h"

/* ---- arguments and results --------------------------------------------------------------------------- */

/* Converters for PyArg_ParseTuple: exact integers only, in range. */
static int to_pointer(PyObject *o, void *out)
{
    unsigned long long v = PyLong_AsUnsignedLongLong(o);
    if (PyErr_Occurred()) return 0;
    *(void **)out = (void *)(uintptr_t)v;
    return 1;
}

static int to_size(PyObject *o, void *out)
{
    *(size_t *)out = PyLong_AsSize_t(o);
    return !PyErr_Occurred();
}

#define PARSE(...)                                                                                           \
    if (!PyArg_ParseTuple(args, __VA_ARGS__)) return NULL
#define CALL(code, expression)                                                                               \
    int code;                                                                                                \
    Py_BEGIN_ALLOW_THREADS code = (expression);                                                              \
    Py_END_ALLOW_THREADS

static PyObject *code_only(int code)
{
    return PyLong_FromLong(code);
}
static PyObject *with_pointer(void *p, int code)
{
    return Py_BuildValue("(Ki)", code ? 0 : (unsigned long long)(uintptr_t)p, code);
}
static PyObject *with_int(long long v, int code)
{
    return Py_BuildValue("(Li)", code ? 0 : v, code);
}

/* Functions of one shape, by macro: handle -> code, () -> (handle, code), handle -> (int, code). */
#define HANDLE_TO_CODE(name, function)                                                                       \
    static PyObject *name(PyObject *self, PyObject *args)                                                    \
    {                                                                                                        \
        (void)self;                                                                                          \
        void *h;                                                                                             \
        PARSE("O&:" #name, to_pointer, &h);                                                                  \
        CALL(code, function(h));                                                                             \
        return code_only(code);                                                                              \
    }
#define TWO_HANDLES_TO_CODE(name, function)                                                                  \
    static PyObject *name(PyObject *self, PyObject *args)                                                    \
    {                                                                                                        \
        (void)self;                                                                                          \
        void *a, *b;                                                                                         \
        PARSE("O&O&:" #name, to_pointer, &a, to_pointer, &b);                                                \
        CALL(code, function(a, b));                                                                          \
        return code_only(code);                                                                              \
    }
#define NEW_HANDLE(name, function)                                                                           \
    static PyObject *name(PyObject *self, PyObject *args)                                                    \
    {                                                                                                        \
        (void)self;                                                                                          \
        void *h = NULL;                                                                                      \
        PARSE(":" #name);                                                                                    \
        CALL(code, function(&h));                                                                            \
        return with_pointer(h, code);                                                                        \
    }
#define HANDLE_TO_STATUS(name, function, type)                                                               \
    static PyObject *name(PyObject *self, PyObject *args)                                                    \
    {                                                                                                        \
        (void)self;                                                                                          \
        void *h;                                                                                             \
        type status = 0;                                                                                     \
        PARSE("O&:" #name, to_pointer, &h);                                                                  \
        CALL(code, function(h, &status));                                                                    \
        return with_int(status, code);                                                                       \
    }
#define INT_TO_CODE(name, function)                                                                          \
    static PyObject *name(PyObject *self, PyObject *args)                                                    \
    {                                                                                                        \
        (void)self;                                                                                          \
        int i;                                                                                               \
        PARSE("i:" #name, &i);                                                                               \
        CALL(code, function(i));                                                                             \
        return code_only(code);                                                                              \
    }
#define NOTHING_TO_CODE(name, function)                                                                      \
    static PyObject *name(PyObject *self, PyObject *args)                                                    \
    {                                                                                                        \
        (void)self;                                                                                          \
        PARSE(":" #name);                                                                                    \
        CALL(code, function());                                                                              \
        return code_only(code);                                                                              \
    }
#define NOTHING_TO_INT(name, function, type)                                                                 \
    static PyObject *name(PyObject *self, PyObject *args)                                                    \
    {                                                                                                        \
        (void)self;                                                                                          \
        type v = 0;                                                                                          \
        PARSE(":" #name);                                                                                    \
        CALL(code, function(&v));                                                                            \
        return with_int(v, code);                                                                            \
    }

/* ---- acl --------------------------------------------------------------------------------------------- */

static PyObject *init(PyObject *self, PyObject *args)
{
    (void)self;
    const char *path = NULL;
    PARSE("|z:init", &path);
    return code_only(aclInit(path && *path ? path : NULL));
}

NOTHING_TO_CODE(finalize, aclFinalize)

static PyObject *get_soc_name(PyObject *self, PyObject *args)
{
    (void)self;
    PARSE(":get_soc_name");
    return PyUnicode_FromString(aclrtGetSocName());
}

static PyObject *get_recent_err_msg(PyObject *self, PyObject *args)
{
    (void)self;
    PARSE(":get_recent_err_msg");
    const char *text = aclGetRecentErrMsg();
    return PyUnicode_FromString(text ? text : "");
}

static PyObject *get_version(PyObject *self, PyObject *args)
{
    (void)self;
    int32_t major = 0, minor = 0, patch = 0;
    PARSE(":get_version");
    int code = aclrtGetVersion(&major, &minor, &patch);
    return Py_BuildValue("(iiii)", major, minor, patch, code);
}

/* ---- acl.rt ------------------------------------------------------------------------------------------ */

INT_TO_CODE(set_device, aclrtSetDevice)
INT_TO_CODE(reset_device, aclrtResetDevice)
NOTHING_TO_INT(get_device, aclrtGetDevice, int32_t)
NOTHING_TO_INT(get_device_count, aclrtGetDeviceCount, uint32_t)
NOTHING_TO_INT(get_run_mode, aclrtGetRunMode, aclrtRunMode)
NOTHING_TO_CODE(synchronize_device, aclrtSynchronizeDevice)

static PyObject *create_context(PyObject *self, PyObject *args)
{
    (void)self;
    int device;
    aclrtContext ctx = NULL;
    PARSE("i:create_context", &device);
    int code = aclrtCreateContext(&ctx, device);
    return with_pointer(ctx, code);
}

HANDLE_TO_CODE(destroy_context, aclrtDestroyContext)
HANDLE_TO_CODE(set_context, aclrtSetCurrentContext)
NEW_HANDLE(get_context, aclrtGetCurrentContext)

NEW_HANDLE(create_stream, aclrtCreateStream)

static PyObject *create_stream_with_config(PyObject *self, PyObject *args)
{
    (void)self;
    unsigned priority, flags;
    aclrtStream s = NULL;
    PARSE("II:create_stream_with_config", &priority, &flags);
    int code = aclrtCreateStreamWithConfig(&s, priority, flags);
    return with_pointer(s, code);
}

HANDLE_TO_CODE(destroy_stream, aclrtDestroyStream)
HANDLE_TO_CODE(destroy_stream_force, aclrtDestroyStreamForce)
HANDLE_TO_CODE(synchronize_stream, aclrtSynchronizeStream)
HANDLE_TO_STATUS(stream_query, aclrtStreamQuery, aclrtStreamStatus)
TWO_HANDLES_TO_CODE(stream_wait_event, aclrtStreamWaitEvent)

static PyObject *synchronize_stream_with_timeout(PyObject *self, PyObject *args)
{
    (void)self;
    void *s;
    int timeout;
    PARSE("O&i:synchronize_stream_with_timeout", to_pointer, &s, &timeout);
    CALL(code, aclrtSynchronizeStreamWithTimeout(s, timeout));
    return code_only(code);
}

NEW_HANDLE(create_event, aclrtCreateEvent)

static PyObject *create_event_with_flag(PyObject *self, PyObject *args)
{
    (void)self;
    unsigned flags;
    aclrtEvent e = NULL;
    PARSE("I:create_event_with_flag", &flags);
    int code = aclrtCreateEventWithFlag(&e, flags);
    return with_pointer(e, code);
}

HANDLE_TO_CODE(destroy_event, aclrtDestroyEvent)
TWO_HANDLES_TO_CODE(record_event, aclrtRecordEvent)
TWO_HANDLES_TO_CODE(reset_event, aclrtResetEvent)
HANDLE_TO_STATUS(query_event, aclrtQueryEvent, aclrtEventStatus)
HANDLE_TO_STATUS(query_event_status, aclrtQueryEventStatus, aclrtEventRecordedStatus)
HANDLE_TO_CODE(synchronize_event, aclrtSynchronizeEvent)

static PyObject *event_elapsed_time(PyObject *self, PyObject *args)
{
    (void)self;
    void *start, *end;
    float ms = 0;
    PARSE("O&O&:event_elapsed_time", to_pointer, &start, to_pointer, &end);
    int code = aclrtEventElapsedTime(&ms, start, end);
    return Py_BuildValue("(di)", (double)ms, code);
}

static PyObject *rt_malloc(PyObject *self, PyObject *args)
{
    (void)self;
    size_t size;
    int policy;
    void *p = NULL;
    PARSE("O&i:malloc", to_size, &size, &policy);
    int code = aclrtMalloc(&p, size, policy);
    return with_pointer(p, code);
}

static PyObject *rt_malloc_host(PyObject *self, PyObject *args)
{
    (void)self;
    size_t size;
    void *p = NULL;
    PARSE("O&:malloc_host", to_size, &size);
    int code = aclrtMallocHost(&p, size);
    return with_pointer(p, code);
}

HANDLE_TO_CODE(rt_free, aclrtFree)
HANDLE_TO_CODE(rt_free_host, aclrtFreeHost)

static PyObject *rt_memcpy(PyObject *self, PyObject *args)
{
    (void)self;
    void *dst, *src;
    size_t max, n;
    int kind;
    PARSE("O&O&O&O&i:memcpy", to_pointer, &dst, to_size, &max, to_pointer, &src, to_size, &n, &kind);
    CALL(code, aclrtMemcpy(dst, max, src, n, (aclrtMemcpyKind)kind));
    return code_only(code);
}

static PyObject *rt_memcpy_async(PyObject *self, PyObject *args)
{
    (void)self;
    void *dst, *src, *stream;
    size_t max, n;
    int kind;
    PARSE("O&O&O&O&iO&:memcpy_async", to_pointer, &dst, to_size, &max, to_pointer, &src, to_size, &n, &kind,
          to_pointer, &stream);
    CALL(code, aclrtMemcpyAsync(dst, max, src, n, (aclrtMemcpyKind)kind, stream));
    return code_only(code);
}

static PyObject *rt_memset(PyObject *self, PyObject *args)
{
    (void)self;
    void *p;
    size_t max, n;
    int value;
    PARSE("O&O&iO&:memset", to_pointer, &p, to_size, &max, &value, to_size, &n);
    CALL(code, aclrtMemset(p, max, value, n));
    return code_only(code);
}

static PyObject *rt_memset_async(PyObject *self, PyObject *args)
{
    (void)self;
    void *p, *stream;
    size_t max, n;
    int value;
    PARSE("O&O&iO&O&:memset_async", to_pointer, &p, to_size, &max, &value, to_size, &n, to_pointer, &stream);
    CALL(code, aclrtMemsetAsync(p, max, value, n, stream));
    return code_only(code);
}

static PyObject *get_mem_info(PyObject *self, PyObject *args)
{
    (void)self;
    int attr;
    size_t free_bytes = 0, total = 0;
    PARSE("i:get_mem_info", &attr);
    int code = aclrtGetMemInfo((aclrtMemAttr)attr, &free_bytes, &total);
    return Py_BuildValue("(nni)", (Py_ssize_t)free_bytes, (Py_ssize_t)total, code);
}

/* ---- acl.util: addresses of host memory -------------------------------------------------------------- */

static PyObject *bytes_to_ptr(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *b;
    PARSE("S:bytes_to_ptr", &b);
    char *p = PyBytes_AsString(b);
    return p ? PyLong_FromVoidPtr(p) : NULL;
}

static PyObject *ptr_to_bytes(PyObject *self, PyObject *args)
{
    (void)self;
    void *p;
    Py_ssize_t n;
    PARSE("O&n:ptr_to_bytes", to_pointer, &p, &n);
    if (!p || n < 0) {
        PyErr_SetString(PyExc_ValueError, "ptr_to_bytes: expected the address of host memory and a size");
        return NULL;
    }
    return PyBytes_FromStringAndSize(p, n);
}

static PyObject *numpy_to_ptr(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *array;
    PARSE("O:numpy_to_ptr", &array);
    PyObject *ctypes = PyObject_GetAttrString(array, "ctypes");
    PyObject *data = ctypes ? PyObject_GetAttrString(ctypes, "data") : NULL;
    Py_XDECREF(ctypes);
    return data;
}

/* numpy's dtype with this type number. */
static PyObject *dtype_of(PyObject *numpy, int number)
{
    for (const char *c = "?bBhHiIlLqQfdgFDGe"; *c; c++) {
        PyObject *d = PyObject_CallMethod(numpy, "dtype", "C", (int)*c);
        PyObject *num = d ? PyObject_GetAttrString(d, "num") : NULL;
        long n = num ? PyLong_AsLong(num) : -1;
        Py_XDECREF(num);
        if (n == number) return d;
        Py_XDECREF(d);
        if (PyErr_Occurred()) return NULL;
    }
    PyErr_Format(PyExc_ValueError, "ptr_to_numpy: numpy has no numeric type with number %d", number);
    return NULL;
}

static Py_ssize_t bytes_of(PyObject *shape, PyObject *dtype)
{
    PyObject *item = PyObject_GetAttrString(dtype, "itemsize");
    Py_ssize_t bytes = item ? PyLong_AsSsize_t(item) : -1;
    Py_XDECREF(item);
    for (Py_ssize_t i = 0; bytes >= 0 && i < PyTuple_Size(shape); i++) {
        Py_ssize_t n = PyLong_AsSsize_t(PyTuple_GetItem(shape, i));
        if (n < 0 || (n && bytes > PY_SSIZE_T_MAX / n)) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "ptr_to_numpy: bad shape");
            return -1;
        }
        bytes *= n;
    }
    return bytes;
}

/* An array over host memory that the caller keeps alive. */
static PyObject *ptr_to_numpy(PyObject *self, PyObject *args)
{
    (void)self;
    void *p;
    PyObject *shape, *array = NULL;
    int number;
    PARSE("O&O!i:ptr_to_numpy", to_pointer, &p, &PyTuple_Type, &shape, &number);
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *dtype = numpy ? dtype_of(numpy, number) : NULL;
    Py_ssize_t bytes = dtype ? bytes_of(shape, dtype) : -1;
    PyObject *view = bytes >= 0 ? PyMemoryView_FromMemory(p, bytes, 0x200 /* PyBUF_WRITE */) : NULL;
    PyObject *flat = view ? PyObject_CallMethod(numpy, "frombuffer", "OO", view, dtype) : NULL;
    if (flat) array = PyObject_CallMethod(flat, "reshape", "O", shape);
    Py_XDECREF(flat);
    Py_XDECREF(view);
    Py_XDECREF(dtype);
    Py_XDECREF(numpy);
    return array;
}

/* ---- the module -------------------------------------------------------------------------------------- */

#define F(name)                                                                                              \
    {                                                                                                        \
#name, name, METH_VARARGS, NULL                                                                      \
    }
#define RT(name)                                                                                             \
    {                                                                                                        \
#name, rt_##name, METH_VARARGS, NULL                                                                 \
    }

static PyMethodDef acl_methods[] = {F(init),        F(finalize), F(get_soc_name), F(get_recent_err_msg),
                                    F(get_version), {0}};

static PyMethodDef rt_methods[] = {F(set_device),         F(reset_device),
                                   F(get_device),         F(get_device_count),
                                   F(get_run_mode),       F(synchronize_device),
                                   F(create_context),     F(destroy_context),
                                   F(set_context),        F(get_context),
                                   F(create_stream),      F(create_stream_with_config),
                                   F(destroy_stream),     F(destroy_stream_force),
                                   F(synchronize_stream), F(synchronize_stream_with_timeout),
                                   F(stream_query),       F(stream_wait_event),
                                   F(create_event),       F(create_event_with_flag),
                                   F(destroy_event),      F(record_event),
                                   F(reset_event),        F(query_event),
                                   F(query_event_status), F(synchronize_event),
                                   F(event_elapsed_time), F(get_mem_info),
                                   F(get_version),        RT(malloc),
                                   RT(malloc_host),       RT(free),
                                   RT(free_host),         RT(memcpy),
                                   RT(memcpy_async),      RT(memset),
                                   RT(memset_async),      {0}};

static PyMethodDef util_methods[] = {F(bytes_to_ptr), F(ptr_to_bytes), F(numpy_to_ptr), F(ptr_to_numpy), {0}};

static struct PyModuleDef acl_def = {
    PyModuleDef_HEAD_INIT, "acl", "AscendCL on the software device", -1, acl_methods, NULL, NULL, NULL, NULL};
static struct PyModuleDef rt_def = {
    PyModuleDef_HEAD_INIT, "acl.rt", NULL, -1, rt_methods, NULL, NULL, NULL, NULL};
static struct PyModuleDef util_def = {
    PyModuleDef_HEAD_INIT, "acl.util", NULL, -1, util_methods, NULL, NULL, NULL, NULL};

static int add(PyObject *acl, const char *name, struct PyModuleDef *def)
{
    PyObject *m = PyModule_Create(def);
    int failed = !m || PyModule_AddObjectRef(acl, name, m);
    Py_XDECREF(m);
    return failed;
}

PyMODINIT_FUNC PyInit_acl(void)
{
    PyObject *acl = PyModule_Create(&acl_def);
    if (acl && (add(acl, "rt", &rt_def) || add(acl, "util", &util_def))) {
        Py_DECREF(acl);
        return NULL;
    }
    return acl;
}
