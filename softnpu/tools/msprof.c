/* msprof.c - `msprof --export=on --output=DIR`, which the plugin's profiler calls to have its data converted.
 *
 * The device writes trace and kernels in their final form when collection stops (runtime/profile.c);
 * exporting puts them where they are expected: from DIR/host/data into DIR/mindstudio_profiler_output. The
 * plugin's parser takes the table for the sign that all is there: the trace goes first. It looks every 0.1 s
 * (torch_npu/profiler/analysis/prof_view/cann_parse/_cann_export.py) and its task manager does not wait for
 * that look once everything else is done, so an export that ends at once would be missed. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_MS = 100 }; /* between two looks of the plugin */

static const char usage[] =
    "usage: msprof --export=on [--type=text] --output=DIR   puts a profile's trace and kernel table into\n"
    "                                                       DIR/mindstudio_profiler_output\n";

static int copy(const char *from, const char *to)
{
    char block[65536];
    FILE *in = fopen(from, "re"), *out = in ? fopen(to, "we") : NULL;
    size_t n = 0;
    int ok = out != NULL;
    while (ok && (n = fread(block, 1, sizeof block, in)) > 0) ok = fwrite(block, 1, n, out) == n;
    ok = ok && !ferror(in);
    if (in) fclose(in);
    if (out) ok = !fclose(out) && ok;
    if (!ok) fprintf(stderr, "msprof: copying %s: %s\n", from, strerror(errno));
    return ok;
}

/* Files exported whose names begin so, -1 after a message. */
static int export_some(const char *data, const char *output, const char *prefix)
{
    char from[4400], to[4400];
    DIR *d = opendir(data);
    int n = 0;
    for (struct dirent *e; d && n >= 0 && (e = readdir(d));) {
        if (strncmp(e->d_name, prefix, strlen(prefix))) continue;
        snprintf(from, sizeof from, "%s/%s", data, e->d_name);
        snprintf(to, sizeof to, "%s/%s", output, e->d_name);
        n = copy(from, to) ? n + 1 : -1;
    }
    if (d) closedir(d);
    return n;
}

/* Files exported, -1 after a message. */
static int export_all(const char *folder)
{
    char data[4096], output[4096];
    snprintf(data, sizeof data, "%s/host/data", folder);
    snprintf(output, sizeof output, "%s/mindstudio_profiler_output", folder);
    if (mkdir(output, 0750) && errno != EEXIST)
        return fprintf(stderr, "msprof: cannot make %s: %s\n", output, strerror(errno)), -1;
    const int traces = export_some(data, output, "msprof_"),
              tables = traces < 0 ? -1 : export_some(data, output, "op_summary_");
    return tables < 0 ? -1 : traces + tables;
}

int main(int argc, char **argv)
{
    const char *output = NULL, *type = "text";
    int export = 0, analyze = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help")) return fputs(usage, stdout), 0;
        if (!strcmp(argv[i], "--export=on"))
            export = 1;
        else if (!strcmp(argv[i], "--analyze=on") || !strncmp(argv[i], "--rule=", 7))
            analyze = 1; /* of communication: the trace has all there is to say */
        else if (!strncmp(argv[i], "--output=", 9))
            output = argv[i] + 9;
        else if (!strncmp(argv[i], "--type=", 7))
            type = argv[i] + 7;
        else
            return fprintf(stderr, "msprof: unknown option '%s'\n%s", argv[i], usage), 2;
    }
    if (analyze && output && !export) return 0;
    if (!export || !output) return fputs(usage, stderr), 2;
    if (strcmp(type, "text"))
        return fprintf(stderr, "msprof: type %s: the software device writes text only\n", type), 1;
    int n = export_all(output);
    if (!n)
        fprintf(stderr, "msprof: %s holds no profile of the software device, or it was not stopped\n",
                output);
    if (n > 0) usleep(2 * LOOK_MS * 1000);
    return n < 1;
}
