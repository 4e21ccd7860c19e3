/* text.c - words, tables and escaping of the Markdown renderings. */
#include "concord/report/text.h"

#include <stdlib.h>
#include <string.h>

static const char *const words[W_COUNT][LANG_COUNT] = {
#define WORD(id, en, zh) [W_##id] = {en, zh},
#include "concord/report/words.inc"
#undef WORD
};

const char *say(const struct page *p, enum word w)
{
    return words[w][p->lang];
}

void put_text(const struct page *p, const char *text)
{
    for (; *text; text++) {
        if (*text == '\n' || *text == '\r')
            buf_addc(p->out, ' ');
        else if (*text == '<')
            buf_adds(p->out, "&lt;");
        else if (strchr("|\\`*_[]", *text))
            buf_addf(p->out, "\\%c", *text);
        else
            buf_addc(p->out, *text);
    }
}

void put_code(const struct page *p, const char *text)
{
    if (!*text) return;
    buf_addc(p->out, '`');
    for (; *text; text++) {
        if (*text == '|')
            buf_adds(p->out, "\\|");
        else
            buf_addc(p->out, *text == '`' ? '\'' : *text == '\n' || *text == '\r' ? ' ' : *text);
    }
    buf_addc(p->out, '`');
}

void put_heading(const struct page *p, enum word w)
{
    buf_addf(p->out, "\n## %s\n\n", say(p, w));
}

void put_anchor(const struct page *p, enum report_place place)
{
    buf_addf(p->out, "\n<a id=\"%s\"></a>\n", report_place_names[place]);
}

void put_head(const struct page *p, const enum word *columns, int n)
{
    for (int i = 0; i < n; i++) buf_addf(p->out, "| %s ", say(p, columns[i]));
    buf_adds(p->out, "|\n");
    for (int i = 0; i < n; i++) buf_adds(p->out, "| --- ");
    buf_adds(p->out, "|\n");
}

void put_row(const struct page *p, const char *const *cells, int n)
{
    for (int i = 0; i < n; i++) {
        buf_adds(p->out, "| ");
        put_text(p, cells[i]);
        buf_addc(p->out, ' ');
    }
    buf_adds(p->out, "|\n");
}

const char *kind_word(const struct page *p, enum device_kind kind)
{
    static const char *const zh[] = {[KIND_NONE] = "无", [KIND_SOFTWARE] = "软件", [KIND_HARDWARE] = "硬件"};
    return p->lang == LANG_ZH ? zh[kind] : device_kind_name(kind);
}
