/* opdoc.c - prints the operator rows as tab-separated text: name, arguments, accepted dtypes; scripts/docs.sh
 * reads it. */
#include "softnpu/op/op.h"

#include <stdio.h>

static void print_mask(uint64_t mask)
{
    const char *separator = "";
    for (int t = 0; t < SN_NDTYPES; t++) {
        if (!(mask >> t & 1) || !sn_dtype((aclDataType)t)->size) continue;
        printf("%s%s", separator, sn_dtype((aclDataType)t)->short_name);
        separator = " ";
    }
}

int main(void)
{
    for (int i = 0; i < op_count(); i++) {
        const op_row *row = op_at(i);
        printf("%s\t", row->name);
        for (int p = 0; p < row->nparam; p++) printf("%s%s", p ? ", " : "", row->param[p].name);
        printf("\t");
        if (!row->accept || row->flags & OPF_NOCHECK || !row->accept[0].dtypes)
            printf("assumed");
        else
            print_mask(row->accept[0].dtypes);
        printf("\n");
    }
    return 0;
}
