#define PY_SSIZE_T_CLEAN
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "acl", .m_size = -1};
PyMODINIT_FUNC PyInit_acl(void) { return PyModule_Create(&module); }
