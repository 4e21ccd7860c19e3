/* log.c - the vendor's log: the application's (aclAppLog) and the runtime's own errors, where the vendor's
 * variables say.
 *
 *     ASCEND_GLOBAL_LOG_LEVEL=0..4        debug, info, warning, error (default), nothing
 *     ASCEND_SLOG_PRINT_TO_STDOUT=1       to the screen: standard error, so that a program's output stays its
 * own ASCEND_PROCESS_LOG_PATH=DIR         otherwise into DIR/debug/plog/plog-PID.log */
#include "softnpu/runtime/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEVEL_ERROR = 3, LEVEL_NOTHING = 4 };
static int lowest_level;
static FILE *target; /* NULL: the log is not wanted */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static FILE *open_file(const char *folder)
{
    static const char *const below[] = {"", "/debug", "/debug/plog"};
    char path[4096];
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        snprintf(path, sizeof path, "%s%s", folder, below[i]);
        if (mkdir(path, 0750) && errno != EEXIST) return NULL;
    }
    snprintf(path, sizeof path, "%s/debug/plog/plog-%d.log", folder, (int)getpid());
    FILE *f = fopen(path, "ae");
    if (f) setvbuf(f, NULL, _IOLBF, 0);
    return f;
}

static void read_variables(void)
{
    const char *show = getenv("ASCEND_SLOG_PRINT_TO_STDOUT"), *level = getenv("ASCEND_GLOBAL_LOG_LEVEL");
    const char *folder = getenv("ASCEND_PROCESS_LOG_PATH");
    lowest_level = level && *level >= '0' && *level <= '4' ? *level - '0' : LEVEL_ERROR;
    if (show && !strcmp(show, "1"))
        target = stderr;
    else if (folder && *folder && lowest_level < LEVEL_NOTHING)
        target = open_file(folder);
}

static bool wanted(int level)
{
    pthread_once(&once, read_variables);
    return target && level >= lowest_level && level >= 0 && level <= LEVEL_ERROR;
}

static const char *const names[] = {"DEBUG", "INFO", "WARNING", "ERROR"};

void rt_log_error(const char *text)
{
    if (wanted(LEVEL_ERROR)) fprintf(target, "[ERROR] RUNTIME(%d): %s\n", (int)getpid(), text);
}

void aclAppLog(int level, const char *func, const char *file, uint32_t line, const char *fmt, ...)
{
    if (!fmt || !wanted(level)) return;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const char *base = file ? strrchr(file, '/') : NULL;
    fprintf(target, "[%s] APP %s:%u %s: %s\n", names[level],
            base   ? base + 1
            : file ? file
                   : "",
            line, func ? func : "", text);
}
