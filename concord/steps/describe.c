/* describe.c - what an API does, in the first sentence of its own documentation string, for review texts. */
#include "concord/patch/source.h"
#include "concord/steps/private.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The Python file that may define module.leaf: torch/utils/checkpoint.py, or the package's own. */
static int read_module(struct source *src, const char *module, struct buf *text)
{
    static const char *const ends[] = {".py", "/__init__.py"};
    char *path = xstrdup(module);
    int found = 0;
    for (char *p = path; *p; p++)
        if (*p == '.') *p = '/';
    for (size_t i = 0; found <= 0 && i < sizeof ends / sizeof *ends; i++) {
        char *file = xformat("%s%s", path, ends[i]);
        found = source_read(src, file, text, NULL, NULL);
        free(file);
    }
    free(path);
    return found;
}

/* After the line that defines leaf at the left margin; NULL when there is none. */
static const char *find_definition(const char *text, const char *leaf)
{
    static const char *const words[] = {"def ", "class ", "async def "};
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            size_t n = strlen(words[i]), m = strlen(leaf);
            if (!strncmp(line, words[i], n) && !strncmp(line + n, leaf, m) && strchr("(:", line[n + m]))
                return line;
        }
    }
    return NULL;
}

/* The first sentence of the string that opens the body; empty when the body opens otherwise. */
static void first_sentence(const char *definition, struct buf *out)
{
    const char *open = strstr(definition, "\"\"\""), *colon = strstr(definition, ":\n");
    if (!open || !colon || colon > open) return;
    for (const char *p = colon + 2; p < open; p++)
        if (!isspace((unsigned char)*p) && !(p + 1 == open && (*p == 'r' || *p == 'R'))) return;
    const char *p = open + 3;
    while (isspace((unsigned char)*p)) p++;
    for (; *p && strncmp(p, "\"\"\"", 3) != 0 && strncmp(p, "\n\n", 2) != 0; p++) {
        bool blank = isspace((unsigned char)*p);
        if (!blank || (out->len && out->ptr[out->len - 1] != ' ')) buf_addc(out, blank ? ' ' : *p);
        if (*p == '.' && isspace((unsigned char)p[1])) return;
    }
}

json_t *steps_functions(const struct campaign *c, struct source *src)
{
    json_t *all = json_object();
    for (size_t i = 0; i < c->apis.len; i++) {
        const char *api = c->apis.ptr[i], *dot = strrchr(api, '.');
        char *module = xstrndup(api, (size_t)(dot - api));
        struct buf text = BUF_INIT, words = BUF_INIT;
        const char *at =
            read_module(src, module, &text) > 0 ? find_definition(buf_str(&text), dot + 1) : NULL;
        if (at) first_sentence(at, &words);
        if (words.len) json_object_set_new(all, api, json_stringn(buf_str(&words), words.len));
        buf_free(&text);
        buf_free(&words);
        free(module);
    }
    return all;
}
