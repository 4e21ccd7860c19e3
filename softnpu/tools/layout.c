/* layout.c - finds the toolkit folder beside the running program; the variables of the vendor's set_env.sh.
 */
#include "softnpu/tools/layout.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* As the vendor's set_env.sh sets them, without the compiler's. */
const struct layout_variable layout_variables[] = {
    {"ASCEND_TOOLKIT_HOME", "%s", false},
    {"ASCEND_HOME_PATH", "%s", false},
    {"ASCEND_AICPU_PATH", "%s", false},
    {"ASCEND_OPP_PATH", "%s/opp", false},
    {"TOOLCHAIN_HOME", "%s/toolkit", false},
    {"LD_LIBRARY_PATH", "%s/lib64", true},
    {"PYTHONPATH", "%s/python/site-packages", true},
    {"PATH", "%s/bin", true},
};
const int layout_nvariables = sizeof layout_variables / sizeof *layout_variables;

bool layout_toolkit(char out[PATH_MAX])
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    for (int i = 0; i < 2; i++) { /* off with "/softnpu", then "/bin" */
        char *slash = strrchr(self, '/');
        if (slash) *slash = 0;
    }
    static const char *const places[] = {"toolkit", "share/softnpu/toolkit"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char probe[PATH_MAX + 32];
        if (snprintf(out, PATH_MAX, "%s/%s", self, places[i]) >= PATH_MAX) continue;
        snprintf(probe, sizeof probe, "%s/lib64/libascendcl.so", out);
        if (!access(probe, R_OK)) return true;
    }
    fprintf(stderr,
            "softnpu: no toolkit folder beside %s/bin: build the target 'toolkit' (ninja) or install "
            "completely\n",
            self);
    return false;
}
