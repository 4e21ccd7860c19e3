/* graph.h - which functions of a file name which. */
#ifndef CONCORD_SCAN_GRAPH_H
#define CONCORD_SCAN_GRAPH_H

#include "concord/scan/scan.h"
#include "concord/scan/types.h"

/* As scan_graph_make, from types that were made already. */
void graph_from_types(struct types *t, struct scan_graph *g);

#endif
