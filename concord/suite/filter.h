/* filter.h - one small expression language for choosing cases.
 *
 *   expr  := term { "or" term }      term := factor { "and" factor }     factor := "not" factor | "(" expr
 * ")" | test test  := FIELD OP VALUE | WORD FIELD: name (file::node), file, node, suite, verdict, reason,
 * side, ms, launches, attempts. OP: = != (shell pattern), ~ !~ (part of the text), < <= > >= (numbers). A
 * WORD alone is name~WORD. Before a case has run its verdict is NOT_RUN. Values with blanks stand in single
 * or double quotes. */
#ifndef CONCORD_SUITE_FILTER_H
#define CONCORD_SUITE_FILTER_H

#include "concord/suite/suite.h"

struct filter;
/* An error points at the column. */
struct filter *filter_parse(const char *text, struct err *e);
bool filter_match(const struct filter *f, const struct suite_case *c);
void filter_free(struct filter *f);

#endif
