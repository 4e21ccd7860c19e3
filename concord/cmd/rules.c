/* rules.c - concord rules: the rules of adapt. */
#include "concord/adapt/adapt.h"
#include "concord/base/base.h"
#include "concord/cmd/cmd.h"

static int list_rules(void)
{
    for (int i = 0; i < RULE_COUNT; i++) {
        const struct adapt_rule *r = &adapt_rules[i];
        printf("%s (%s)\n", r->name, adapt_pattern_names[r->pattern]);
        if (*r->before) printf("  - %s\n  + %s\n", r->before, r->after);
        printf("  %s\n  %s\n", r->reason, r->reason_zh);
    }
    return EXIT_OK;
}

int cmd_rules(int argc, char **argv)
{
    const struct opt opts[] = {{0}};
    opt_parse(&argc, argv,
              &(struct usage){"rules", "List the rules of concord adapt, in the order asked.", opts});
    if (argc > 1) die("rules: takes no operand");
    return list_rules();
}
