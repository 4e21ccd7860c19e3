/* spec.h - which suites there are, and how an operand of `concord test` becomes units. */
#ifndef CONCORD_SUITE_SPEC_H
#define CONCORD_SUITE_SPEC_H

#include "concord/suite/suite.h"

/* X(name, engine, torch, each_file, subfolder, packages, meaning): torch: the suite needs torch; each_file: a
 * unit a file, otherwise one unit for all; subfolder: where files are looked for; packages: what it needs
 * beside the environment. */
#define SUITE_PYTEST "pytest==8.3.4 pluggy==1.5.0 iniconfig==2.0.0 packaging==24.2 "
#define SUITE_TORCH SUITE_PYTEST "psutil==6.1.1 expecttest==0.3.0 "
#define SUITES(X)                                                                                            \
    X(pytest, "pytest", false, true, ".", SUITE_PYTEST, "any folder or file of pytest tests")                \
    X(unittest, "unittest", false, true, ".", "", "any folder or file of unittest tests, without pytest")    \
    X(upstream, "pytest", true, true, "test",                                                                \
      SUITE_TORCH "hypothesis==6.122.3 attrs==24.2.0 sortedcontainers==2.4.0 parameterized==0.9.0",          \
      "tests of a torch release tree, with --patches applied to a private copy")                             \
    X(plugin, "pytest", true, true, "test",                                                                  \
      SUITE_TORCH                                                                                            \
      "hypothesis==6.122.3 attrs==24.2.0 sortedcontainers==2.4.0 parameterized==0.9.0 ml_dtypes==0.5.1",     \
      "tests of a torch_npu or op-plugin tree")                                                              \
    X(torchcts, "pytest", true, false, ".", SUITE_TORCH "torchcts==0.4.1 mpmath==1.3.0",                     \
      "TorchCTS; the folder is the one with manifest.py")                                                    \
    X(cases, "cases", true, false, ".", "", "concord's own cases, each with its CPU twin inside")

struct suite_row {
    const char *name, *engine;
    bool torch, each_file;
    const char *subfolder, *packages, *meaning;
};
const struct suite_row *suite_rows(size_t *n);

struct spec_request {
    const char *operand;  /* "NAME:PATH", "NAME" or a path */
    const strings *files; /* shell patterns over names below the folder; empty: all */
    const strings *args;  /* for the engine, behind ours */
    const strings *sites; /* folders put in front of the units' sys.path */
    const char *patched;  /* upstream: the private copy for the device side, NULL: the folder itself */
    const char *salt;     /* part of every unit's digest: release, environment, version */
    bool cpu;             /* units for the CPU side too */
};
/* The row and folder (absolute, owned) of an operand. */
int spec_find(const char *operand, const struct suite_row **row, char **folder, struct err *e);
/* Appends the units to the run. An operand without any is an error. */
int spec_units(const struct spec_request *q, struct suite_run *r, struct err *e);
/* A folder with the row's packages for the interpreter, made with uv where it is not there. Owned; "" when
 * the row needs none. */
char *spec_site(const struct suite_row *row, const char *python, struct err *e);

#endif
