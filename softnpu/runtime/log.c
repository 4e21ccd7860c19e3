/* log.c - aclAppLog: the vendor's application log, on standard error when the vendor's variable asks for it.
 */
#include "softnpu/runtime/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int lowest_level;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ASCEND_SLOG_PRINT_TO_STDOUT=1 shows the log, ASCEND_GLOBAL_LOG_LEVEL (0 debug to 4 none, default 3) filters
 * it. */
static void read_level(void)
{
    const char *show = getenv("ASCEND_SLOG_PRINT_TO_STDOUT"), *level = getenv("ASCEND_GLOBAL_LOG_LEVEL");
    lowest_level = show && !strcmp(show, "1") ? (level && *level ? atoi(level) : 3) : 4;
}

void aclAppLog(int level, const char *func, const char *file, uint32_t line, const char *fmt, ...)
{
    static const char *const names[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
    pthread_once(&once, read_level);
    if (level < lowest_level || level < 0 || level > 3 || !fmt) return;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const char *base = file ? strrchr(file, '/') : NULL;
    fprintf(stderr, "[%s] APP %s:%u %s: %s\n", names[level],
            base   ? base + 1
            : file ? file
                   : "",
            line, func ? func : "", text);
}
